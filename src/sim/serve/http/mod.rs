//! The HTTP interface: KServe v2 with Triton's extensions (binary tensor data, generate, model configuration,
//! statistics, repository index), OpenAI's interface, Prometheus metrics.
//!
//! It serves the same engines as the gRPC interface: a request arrives as JSON, goes through the same checks, and
//! its responses are sent as JSON.

mod body;
mod kserve;
mod metrics;
mod openai;
mod vllm_metrics;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use self::body::{
    Answer, bytes, empty, event, events, full_reply, json_reply, ok_reply, parse, refusal_reply, status_of,
};
use super::service::ServiceInner;
use super::{description, listen};
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
            return json_reply(StatusCode::OK, &message_json("ServerMetadataResponse", &description::server(inner)));
        }
        ["models", "stats"] if !is_post => ("", "", &["stats"][..]),
        ["repository", "index"] if is_post => {
            return json_reply(
                StatusCode::OK,
                &message_json("RepositoryIndexResponse", &description::index(inner))["models"],
            );
        }
        ["logging"] if !is_post => return json_reply(StatusCode::OK, &description::log_settings()),
        ["trace", "setting"] | ["models", _, "trace", "setting"] if !is_post => {
            return json_reply(StatusCode::OK, &description::trace_settings());
        }
        ["systemsharedmemory" | "cudasharedmemory", "status"] if !is_post => {
            return json_reply(StatusCode::OK, &json!([]));
        }
        ["repository", "models", _, "load" | "unload"] if is_post => return refusal_reply(&description::load_refused()),
        ["models", name, "versions", version, call @ ..] => (*name, *version, call),
        ["models", name, call @ ..] => (*name, "", call),
        _ => return empty(StatusCode::NOT_FOUND),
    };
    let model = || inner.find(name, version);
    let value = match (is_post, call) {
        (false, ["ready"]) => return empty(ready(inner.is_ready && model().is_ok())),
        (false, []) => model().map(|model| message_json("ModelMetadataResponse", &description::metadata(model))),
        (false, ["config"]) => model().map(|model| pbtxt::json(&model.config)),
        (false, ["stats"]) => description::statistics(inner, name, version)
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
