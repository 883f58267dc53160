//! Servers with known behavior, to check a load generator against: one answers at once, one follows a script and
//! records when it wrote what. Real sockets, KServe v2 over HTTP/2; no model, no scheduler.
//!
//! The script is a pure function of the seed and the request's number, whatever the load. Each action of the server is
//! stamped on this machine's monotonic clock just before the bytes are sent, so its own lateness is part of the truth
//! and not of the load generator's error.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use prost::Message;
use tokio::net::TcpListener;
use tokio_stream::StreamExt as _;

use crate::random::mix;
use triton::proto::inference::infer_parameter::ParameterChoice;
use triton::proto::inference::model_infer_response::InferOutputTensor;
use triton::proto::inference::{
    InferParameter, ModelConfig, ModelConfigResponse, ModelInferRequest, ModelInferResponse, ModelMetadataResponse,
    ModelReadyResponse, ModelStreamInferResponse, ModelTransactionPolicy, ServerLiveResponse, ServerReadyResponse,
};

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

/// The limit on concurrent streams that servers built on tonic announce.
const TONIC_STREAMS: u32 = 200;

impl GroundTruthServer {
    pub fn start(response_pattern: ResponsePattern) -> std::io::Result<Self> {
        Self::with_streams(response_pattern, TONIC_STREAMS)
    }

    /// A connection may carry so many requests at once.
    pub fn with_streams(response_pattern: ResponsePattern, streams: u32) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let truths: Arc<Mutex<Vec<GroundTruth>>> = Arc::default();
        let service = Arc::new(Service { pattern: response_pattern, truths: Arc::clone(&truths) });
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
    truths: Arc<Mutex<Vec<GroundTruth>>>,
}

impl Service {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let body = if method == "ModelStreamInfer" {
            match self.pattern.clone() {
                ResponsePattern::AtOnce { tokens } => {
                    // An answer before the end of the request would make the rest of it a protocol error that h2
                    // counts.
                    let mut incoming = request.into_body();
                    let id = read_request(&mut incoming).await.map_or(0, |(id, _)| id);
                    while let Some(Ok(_)) = incoming.frame().await {}
                    immediate_body(id, tokens)
                }
                ResponsePattern::Scripted(script) => Arc::clone(&self).scripted(script, request).await,
            }
        } else {
            grpc_body([unary(&method)].into_iter())
        };
        let response = Response::builder().header("content-type", "application/grpc").body(body);
        // Static parts only: it cannot fail.
        Ok(response.unwrap_or_else(|_| Response::new(grpc_body(std::iter::empty()))))
    }

    async fn scripted(self: Arc<Self>, script: ResponseScript, request: Request<Incoming>) -> Body {
        let parsed = read_request(&mut request.into_body()).await;
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

// When each token comes: a pure function of the seed, the request and the token.

/// Times are drawn evenly between the two ends, in ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResponseScript {
    pub seed: u64,
    /// From a request's arrival to its first token.
    pub first_ms: (f64, f64),
    /// From token to token.
    pub gap_ms: (f64, f64),
}

impl ResponseScript {
    fn drawn(&self, id: u64, token: u32, (low, high): (f64, f64)) -> Duration {
        let bits = mix(self.seed ^ mix(id ^ mix(u64::from(token))));
        // 53 bits are what a float between 0 and 1 can hold.
        let share = (bits >> 11) as f64 / (1u64 << 53) as f64;
        Duration::from_secs_f64((low + share * (high - low)).max(0.0) / 1e3)
    }
}

// Messages, framed as gRPC frames them.

/// Five bytes precede every message: not compressed, and its length.
const PREFIX: usize = 5;

/// The answer to a unary call.
fn unary(method: &str) -> Bytes {
    match method {
        "ServerReady" => framed(&ServerReadyResponse { ready: true }),
        "ServerLive" => framed(&ServerLiveResponse { live: true }),
        "ModelReady" => framed(&ModelReadyResponse { ready: true }),
        // It describes no tensors.
        "ModelMetadata" => framed(&ModelMetadataResponse::default()),
        _ => framed(&ModelConfigResponse {
            config: Some(ModelConfig {
                name: "tensorrt_llm".to_owned(),
                model_transaction_policy: Some(ModelTransactionPolicy { decoupled: true }),
                ..ModelConfig::default()
            }),
        }),
    }
}

/// The id and the number of tokens that the first message of a stream requests.
async fn read_request(body: &mut Incoming) -> Option<(u64, u32)> {
    let mut bytes = BytesMut::new();
    loop {
        if let Some(prefix) = bytes.first_chunk::<PREFIX>() {
            let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
            if let Some(message) = bytes.get(PREFIX..PREFIX + length) {
                let request = ModelInferRequest::decode(message).ok()?;
                let at = request.inputs.iter().position(|input| input.name == "request_output_len")?;
                let tokens = request.raw_input_contents.get(at)?.first_chunk::<4>()?;
                return Some((request.id.parse().ok()?, u32::from_le_bytes(*tokens)));
            }
        }
        bytes.extend_from_slice(&body.frame().await?.ok()?.into_data().ok()?);
    }
}

/// One token of the request with this id.
fn token(id: u64, is_final: bool) -> Bytes {
    let tensor = |name: &str| InferOutputTensor {
        name: name.to_owned(),
        datatype: "INT32".to_owned(),
        shape: vec![1, 1, 1],
        ..InferOutputTensor::default()
    };
    let flag = InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(is_final)) };
    framed(&ModelStreamInferResponse {
        infer_response: Some(ModelInferResponse {
            model_name: "tensorrt_llm".to_owned(),
            model_version: "1".to_owned(),
            id: id.to_string(),
            parameters: [("triton_final_response".to_owned(), flag)].into(),
            outputs: vec![tensor("output_ids"), tensor("sequence_length")],
            raw_output_contents: vec![Bytes::from_static(&[9, 0, 0, 0]), Bytes::from_static(&[1, 0, 0, 0])],
        }),
        ..ModelStreamInferResponse::default()
    })
}

fn framed(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::with_capacity(PREFIX + message.encoded_len());
    bytes.put_u8(0);
    bytes.put_u32(message.encoded_len() as u32);
    bytes.extend_from_slice(&message.encode_to_vec());
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_a_pure_function_within_its_bounds() {
        let script = ResponseScript { seed: 7, first_ms: (20.0, 60.0), gap_ms: (2.0, 10.0) };
        let drawn: Vec<Duration> = (0..1000).map(|id| script.drawn(id, 0, script.first_ms)).collect();
        assert!(drawn.iter().all(|time| (20.0..60.0).contains(&(time.as_secs_f64() * 1e3))));
        assert_eq!(drawn[3], script.drawn(3, 0, script.first_ms));
        let mean = drawn.iter().map(Duration::as_secs_f64).sum::<f64>();
        assert!((mean - 40.0).abs() < 1.0, "1000 times the mean in seconds is the mean in ms: {mean}");
        assert_ne!(script.drawn(3, 1, script.gap_ms), script.drawn(3, 2, script.gap_ms));
    }
}
