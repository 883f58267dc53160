//! Servers with known behavior, to check a load generator against: one answers at once, one follows a script and
//! records when it wrote what. Real sockets, KServe v2 over HTTP/2; no model, no scheduler.
//!
//! The script is a pure function of the seed and the request's number, whatever the load. Each action of the server is
//! stamped on this machine's monotonic clock just before the bytes are sent, so its own lateness is part of the truth and
//! not of the load generator's error.

mod answers;
mod script;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_stream::StreamExt as _;

use answers::{TruthAnswers, token};
pub use script::ResponseScript;

/// How the server responds to a request.
#[derive(Clone, Debug)]
pub enum ResponsePattern {
    /// This many tokens, all at once, one to a message.
    AtOnce { tokens: u32 },
    /// As the script defines.
    Scripted(ResponseScript),
}

/// The server's record of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroundTruth {
    /// The id that the client gave.
    pub id: u64,
    /// When the request was there.
    pub came: Instant,
    /// When each token was handed to the socket.
    pub wrote: Vec<Instant>,
}

/// A running server, on threads of its own. Dropping it closes every socket.
pub struct GroundTruthServer {
    pub address: SocketAddr,
    truths: Arc<Mutex<Vec<GroundTruth>>>,
    runtime: Option<tokio::runtime::Runtime>,
}

/// The limit on concurrent streams that it announces: that of servers built on tonic.
const STREAMS: u32 = 200;

impl GroundTruthServer {
    pub fn start(response_pattern: ResponsePattern) -> std::io::Result<Self> {
        Self::with_streams(response_pattern, STREAMS)
    }

    /// A connection may carry any number of requests at once.
    pub fn without_limit(response_pattern: ResponsePattern) -> std::io::Result<Self> {
        Self::with_streams(response_pattern, u32::MAX)
    }

    fn with_streams(response_pattern: ResponsePattern, streams: u32) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let truths: Arc<Mutex<Vec<GroundTruth>>> = Arc::default();
        let service =
            Arc::new(Service { pattern: response_pattern, answers: TruthAnswers::new(), truths: Arc::clone(&truths) });
        runtime.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let _ = socket.set_nodelay(true);
                let service = Arc::clone(&service);
                let each = service_fn(move |request| Arc::clone(&service).answer(request));
                let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .max_concurrent_streams(streams)
                    .serve_connection(TokioIo::new(socket), each);
                tokio::spawn(connection);
            }
        });
        Ok(Self { address, truths, runtime: Some(runtime) })
    }

    /// What it did so far, by id. Scripted requests only.
    pub fn ground_truths(&self) -> Vec<GroundTruth> {
        let mut truths = self.truths.lock().clone();
        truths.sort_by_key(|truth| truth.id);
        truths
    }

    /// Clears the recorded actions.
    pub fn clear(&self) {
        self.truths.lock().clear();
    }
}

impl Drop for GroundTruthServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

type Body = http_body_util::combinators::BoxBody<Bytes, Infallible>;

struct Service {
    pattern: ResponsePattern,
    answers: TruthAnswers,
    truths: Arc<Mutex<Vec<GroundTruth>>>,
}

impl Service {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let body = if method == "ModelStreamInfer" {
            match self.pattern.clone() {
                ResponsePattern::AtOnce { tokens } => {
                    // An answer before the end of the request would make the rest of it a protocol error that h2 counts.
                    let mut incoming = request.into_body();
                    let id = TruthAnswers::read_request(&mut incoming).await.map_or(0, |(id, _)| id);
                    while let Some(Ok(_)) = incoming.frame().await {}
                    immediate_body(id, tokens)
                }
                ResponsePattern::Scripted(script) => Arc::clone(&self).scripted(script, request).await,
            }
        } else {
            grpc_body([self.answers.to(&method)].into_iter())
        };
        let response = Response::builder().header("content-type", "application/grpc").body(body);
        // Static parts only: it cannot fail.
        Ok(response.unwrap_or_else(|_| Response::new(grpc_body(std::iter::empty()))))
    }

    async fn scripted(self: Arc<Self>, script: ResponseScript, request: Request<Incoming>) -> Body {
        let parsed = TruthAnswers::read_request(&mut request.into_body()).await;
        let came = Instant::now();
        let Some((id, tokens)) = parsed else { return grpc_body(std::iter::empty()) };
        let (send, frames) = tokio::sync::mpsc::channel(4);
        tokio::spawn(async move {
            let mut truth = GroundTruth { id, came, wrote: Vec::with_capacity(tokens as usize) };
            let mut due = came;
            let (middle, last) = (token(id, false), token(id, true));
            for at in 0..tokens {
                due += if at == 0 { script.first(id) } else { script.gap(id, at) };
                sleep_until(due).await;
                let bytes = if at + 1 == tokens { &last } else { &middle };
                truth.wrote.push(Instant::now());
                if send.send(Frame::data(bytes.clone())).await.is_err() {
                    return;
                }
            }
            self.truths.lock().push(truth);
            let _ = send.send(Frame::trailers(ok())).await;
        });
        StreamBody::new(tokio_stream::wrappers::ReceiverStream::new(frames).map(Ok)).boxed()
    }
}

async fn sleep_until(due: Instant) {
    if due > Instant::now() {
        tokio::time::sleep_until(due.into()).await;
    }
}

fn immediate_body(id: u64, tokens: u32) -> Body {
    let (middle, last) = (token(id, false), token(id, true));
    grpc_body((1..=tokens).map(move |at| if at == tokens { last.clone() } else { middle.clone() }))
}

fn grpc_body(messages: impl Iterator<Item = Bytes> + Send + Sync + 'static) -> Body {
    let frames = messages.map(Frame::data).chain(std::iter::once_with(|| Frame::trailers(ok())));
    StreamBody::new(tokio_stream::iter(frames.map(Ok))).boxed()
}

fn ok() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    trailers
}

impl ResponseScript {
    /// From the arrival of the request to its first token.
    fn first(&self, id: u64) -> Duration {
        self.drawn(id, 0, self.first_ms)
    }

    /// From a token to the next.
    fn gap(&self, id: u64, at: u32) -> Duration {
        self.drawn(id, at, self.gap_ms)
    }
}
