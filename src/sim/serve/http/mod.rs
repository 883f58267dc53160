//! The HTTP face: Triton's health, metadata and generate extension, OpenAI's interface, Prometheus metrics.
//!
//! It says what the gRPC face says, of the same engines: a request comes in as JSON, goes through the same checks, and
//! its responses go out as JSON.

mod generate;
mod metrics;
mod openai;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_stream::{Stream, StreamExt as _};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::request::version;
use super::service::Inner;
use super::tensor::{Refusal, full_shape, wire_name};

type Body = UnsyncBoxBody<Bytes, Infallible>;
type Answer = Response<Body>;

/// What a port is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Face {
    /// Triton's HTTP service and OpenAI's interface.
    Service,
    /// `/metrics`.
    Metrics,
}

/// A port that is open and not yet served.
pub(super) struct Open {
    listener: TcpListener,
    face: Face,
}

impl Open {
    /// Port 0 takes a free one.
    pub async fn bind(address: SocketAddr, face: Face) -> std::io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address).await?, face })
    }

    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stopped`; calls in flight then go on by themselves.
    pub async fn serve(self, inner: Arc<Inner>, stopped: CancellationToken) {
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = stopped.cancelled() => return,
            };
            // Out of descriptors: those who are served go on, and give theirs back.
            let Ok((socket, _)) = accepted else {
                tokio::task::yield_now().await;
                continue;
            };
            let _ = socket.set_nodelay(true);
            let (inner, face) = (Arc::clone(&inner), self.face);
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let inner = Arc::clone(&inner);
                    async move { Ok::<_, Infallible>(answer(&inner, face, request).await) }
                });
                // An error is the client going away.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
            });
        }
    }
}

async fn answer(inner: &Arc<Inner>, face: Face, request: Request<Incoming>) -> Answer {
    let path = request.uri().path().trim_end_matches('/').to_owned();
    let words: Vec<&str> = path.split('/').skip(1).collect();
    if face == Face::Metrics {
        return match words.as_slice() {
            ["metrics"] => plain(metrics::text(inner), "text/plain; charset=utf-8"),
            _ => empty(StatusCode::NOT_FOUND),
        };
    }
    match (request.method(), words.as_slice()) {
        (&Method::GET, ["v2", "health", "live"]) => empty(StatusCode::OK),
        (&Method::GET, ["v2", "health", "ready"] | ["health"]) => empty(ready(inner.is_ready)),
        (&Method::GET, ["v2"]) => said(
            StatusCode::OK,
            &json!({
                "name": "triton",
                "version": format!("regatta-simulator-{}", env!("CARGO_PKG_VERSION")),
                "extensions": ["model_configuration", "statistics", "generate", inner.speed_extension()],
            }),
        ),
        (&Method::GET, ["v2", "models", name, "ready"]) => empty(ready(inner.is_ready && inner.find(name, "").is_ok())),
        (&Method::GET, ["v2", "models", name]) => metadata(inner, name),
        (&Method::POST, ["v2", "models", name, call @ ("generate" | "generate_stream")]) => {
            let (name, streams) = ((*name).to_owned(), *call == "generate_stream");
            match body(request).await {
                Ok(body) => generate::perform(inner, &name, &body, streams).await,
                Err(why) => failed(StatusCode::BAD_REQUEST, &why),
            }
        }
        (&Method::GET, ["v1", "models"]) => openai::models(inner),
        (&Method::POST, ["v1", "chat", "completions"]) => openai::perform(inner, openai::Kind::Chat, request).await,
        (&Method::POST, ["v1", "completions"]) => openai::perform(inner, openai::Kind::Completions, request).await,
        _ => empty(StatusCode::NOT_FOUND),
    }
}

fn metadata(inner: &Inner, name: &str) -> Answer {
    let model = match inner.find(name, "") {
        Ok(model) => model,
        Err(refusal) => return refused(&refusal),
    };
    let config = &model.config;
    let tensor = |name: &str, data_type, dims: &[i64]| json!({"name": name, "datatype": wire_name(data_type), "shape": full_shape(config.max_batch_size, dims)});
    let platform = if config.platform.is_empty() { &config.backend } else { &config.platform };
    said(
        StatusCode::OK,
        &json!({
            "name": model.name,
            "versions": [version(model)],
            "platform": platform,
            "inputs": config.input.iter().map(|it| tensor(&it.name, it.data_type(), &it.dims)).collect::<Vec<_>>(),
            "outputs": config.output.iter().map(|it| tensor(&it.name, it.data_type(), &it.dims)).collect::<Vec<_>>(),
        }),
    )
}

const fn ready(is: bool) -> StatusCode {
    // Triton's word for "not yet".
    if is { StatusCode::OK } else { StatusCode::BAD_REQUEST }
}

async fn body(request: Request<Incoming>) -> Result<serde_json::Map<String, Value>, String> {
    let bytes = request.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    serde_json::from_slice(&bytes).map_err(|error| format!("failed to parse the request JSON buffer: {error}"))
}

fn whole(status: StatusCode, kind: &str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()).boxed_unsync());
    *answer.status_mut() = status;
    if let Ok(kind) = kind.parse() {
        answer.headers_mut().insert("content-type", kind);
    }
    answer
}

fn plain(text: String, kind: &str) -> Answer {
    whole(StatusCode::OK, kind, text)
}

fn empty(status: StatusCode) -> Answer {
    whole(status, "text/plain", Bytes::new())
}

fn said(status: StatusCode, value: &Value) -> Answer {
    whole(status, "application/json", value.to_string())
}

/// An error in Triton's shape.
fn failed(status: StatusCode, message: &str) -> Answer {
    said(status, &json!({"error": message}))
}

fn refused(refusal: &Refusal) -> Answer {
    failed(status_of(refusal.code), &refusal.message)
}

/// As Triton maps its errors to HTTP.
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
