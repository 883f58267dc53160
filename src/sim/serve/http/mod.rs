//! The HTTP interface: KServe v2 with Triton's extensions (binary tensor data, generate, model configuration,
//! statistics, repository index), OpenAI's interface, Prometheus metrics.
//!
//! It serves the same engines as the gRPC interface: a request arrives as JSON, goes through the same checks, and
//! its responses are sent as JSON.
//!
//! Bodies of requests and of responses: JSON, errors in Triton's shape, server-sent events.

mod kserve;
mod metrics;
mod openai;
mod vllm_metrics;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_stream::{Stream, StreamExt as _};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use super::service::ServiceInner;
use super::{listen, service};
use triton::pbtxt::{self, message_json};

/// What a port is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PortRole {
    /// Triton's HTTP service and OpenAI's interface.
    Service,
    /// `/metrics`.
    Metrics,
}

/// A port that is open and not yet served.
pub(super) struct Open {
    listener: TcpListener,
    role: PortRole,
}

impl Open {
    /// Port 0 takes a free one.
    pub fn bind(address: SocketAddr, face: PortRole) -> std::io::Result<Self> {
        Ok(Self { listener: listen(address)?, role: face })
    }

    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stopped`; calls in flight then continue on their own.
    pub async fn serve(self, inner: Arc<ServiceInner>, stopped: CancellationToken) {
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = stopped.cancelled() => return,
            };
            // Out of descriptors: open connections continue, and free their descriptors when they close.
            let Ok((socket, _)) = accepted else {
                tokio::task::yield_now().await;
                continue;
            };
            let _ = socket.set_nodelay(true);
            let (inner, face) = (Arc::clone(&inner), self.role);
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let inner = Arc::clone(&inner);
                    async move { Ok::<_, Infallible>(answer(&inner, face, request).await) }
                });
                // An error means that the client disconnected.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
            });
        }
    }
}

async fn answer(inner: &Arc<ServiceInner>, face: PortRole, request: Request<Incoming>) -> Answer {
    let path = request.uri().path().trim_end_matches('/').to_owned();
    let words: Vec<&str> = path.split('/').skip(1).collect();
    if face == PortRole::Metrics {
        return match words.as_slice() {
            ["metrics"] => {
                let engine_metrics = vllm_metrics::text(inner).unwrap_or_default();
                ok_reply(metrics::text(inner) + &engine_metrics, "text/plain; charset=utf-8")
            }
            _ => empty(StatusCode::NOT_FOUND),
        };
    }
    match (request.method(), words.as_slice()) {
        (&Method::GET, ["v2", "health", "live"]) => empty(StatusCode::OK),
        (&Method::GET, ["v2", "health", "ready"] | ["health"]) => empty(ready(inner.is_ready)),
        (_, ["v2", rest @ ..]) => kserve(inner, rest, request).await,
        // vLLM's server has it beside OpenAI's interface, a Triton has it on a port of its own.
        (&Method::GET, ["metrics"]) => vllm_metrics::text(inner).map_or_else(
            || empty(StatusCode::NOT_FOUND),
            |text| ok_reply(text, "text/plain; version=0.0.4; charset=utf-8"),
        ),
        (&Method::GET, ["v1", "models"]) => openai::models(inner),
        (&Method::GET, ["v1", "models", name]) => openai::model(inner, name),
        (&Method::POST, ["v1", "chat", "completions"]) => openai::perform(inner, openai::Kind::Chat, request).await,
        (&Method::POST, ["v1", "completions"]) => openai::perform(inner, openai::Kind::Completions, request).await,
        _ => empty(StatusCode::NOT_FOUND),
    }
}

/// The calls of KServe v2; `words` are the path segments behind `/v2/`.
async fn kserve(inner: &Arc<ServiceInner>, words: &[&str], request: Request<Incoming>) -> Answer {
    let is_post = request.method() == Method::POST;
    if !is_post && request.method() != Method::GET {
        return empty(StatusCode::METHOD_NOT_ALLOWED);
    }
    let (name, version, call) = match words {
        [] if !is_post => {
            return json_reply(StatusCode::OK, &message_json("ServerMetadataResponse", &service::server(inner)));
        }
        ["models", "stats"] if !is_post => ("", "", &["stats"][..]),
        ["repository", "index"] if is_post => {
            return json_reply(
                StatusCode::OK,
                &message_json("RepositoryIndexResponse", &service::index(inner))["models"],
            );
        }
        ["logging"] if !is_post => return json_reply(StatusCode::OK, &service::log_settings()),
        ["trace", "setting"] | ["models", _, "trace", "setting"] if !is_post => {
            return json_reply(StatusCode::OK, &service::trace_settings());
        }
        ["systemsharedmemory" | "cudasharedmemory", "status"] if !is_post => {
            return json_reply(StatusCode::OK, &json!([]));
        }
        ["repository", "models", _, "load" | "unload"] if is_post => return refusal_reply(&service::load_refused()),
        ["models", name, "versions", version, call @ ..] => (*name, *version, call),
        ["models", name, call @ ..] => (*name, "", call),
        _ => return empty(StatusCode::NOT_FOUND),
    };
    let model = || inner.find(name, version);
    let value = match (is_post, call) {
        (false, ["ready"]) => return empty(ready(inner.is_ready && model().is_ok())),
        (false, []) => model().map(|model| message_json("ModelMetadataResponse", &service::metadata(model))),
        (false, ["config"]) => model().map(|model| pbtxt::json(&model.config)),
        (false, ["stats"]) => service::statistics(inner, name, version)
            .map(|statistics| message_json("ModelStatisticsResponse", &statistics)),
        (true, ["infer" | "generate" | "generate_stream"]) => {
            let answer = post(inner, name, version, call[0], request).await;
            return answer.unwrap_or_else(|refusal| refusal_reply(&refusal));
        }
        _ => return empty(StatusCode::NOT_FOUND),
    };
    value.map_or_else(|refusal| refusal_reply(&refusal), |value| json_reply(StatusCode::OK, &value))
}

async fn post(
    inner: &Arc<ServiceInner>,
    name: &str,
    version: &str,
    call: &str,
    request: Request<Incoming>,
) -> Result<Answer, Status> {
    let headers = request.headers().clone();
    let body = bytes(request).await?;
    match call {
        "infer" => kserve::infer(inner, name, version, &headers, &body).await,
        _ => kserve::generate(inner, name, version, &parse(&body)?, call == "generate_stream").await,
    }
}

const fn ready(is: bool) -> StatusCode {
    // Triton's status for "not yet".
    if is { StatusCode::OK } else { StatusCode::BAD_REQUEST }
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

type Answer = Response<Body>;

fn full_reply(status: StatusCode, kind: &str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()).boxed_unsync());
    *answer.status_mut() = status;
    if let Ok(kind) = kind.parse() {
        answer.headers_mut().insert("content-type", kind);
    }
    answer
}

fn ok_reply(text: String, kind: &str) -> Answer {
    full_reply(StatusCode::OK, kind, text)
}

fn empty(status: StatusCode) -> Answer {
    full_reply(status, "text/plain", Bytes::new())
}

fn json_reply(status: StatusCode, value: &Value) -> Answer {
    full_reply(status, "application/json", value.to_string())
}

/// An error in Triton's shape.
fn refusal_reply(refusal: &Status) -> Answer {
    json_reply(status_of(refusal.code()), &json!({"error": refusal.message()}))
}

/// As Triton maps its errors to HTTP status codes.
const fn status_of(code: Code) -> StatusCode {
    match code {
        Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// Server-sent events, each in a piece of its own.
fn events(events: impl Stream<Item = Bytes> + Send + 'static) -> Answer {
    let frames = events.map(|event| Ok::<_, Infallible>(Frame::data(event)));
    let mut answer = Response::new(StreamBody::new(frames).boxed_unsync());
    if let Ok(kind) = "text/event-stream; charset=utf-8".parse() {
        answer.headers_mut().insert("content-type", kind);
    }
    answer
}

fn event(data: &Value) -> Bytes {
    format!("data: {data}\n\n").into()
}

// Reads the body of a request.

/// The longest body of a request, as Triton's `--http-max-input-size`.
const LONGEST_BODY: usize = 64 << 20;

async fn bytes(request: Request<Incoming>) -> Result<Bytes, Status> {
    if request.body().size_hint().lower() > LONGEST_BODY as u64 {
        return Err(Status::invalid_argument(format!("the body is longer than {LONGEST_BODY} bytes")));
    }
    let body = Limited::new(request.into_body(), LONGEST_BODY).collect().await.map_err(|error| {
        Status::invalid_argument(format!("cannot read a body of at most {LONGEST_BODY} bytes: {error}"))
    })?;
    Ok(body.to_bytes())
}

/// Fails as the real server does.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Status> {
    serde_json::from_slice(bytes)
        .map_err(|error| Status::invalid_argument(format!("failed to parse the request JSON buffer: {error}")))
}
