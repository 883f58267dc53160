//! A KServe server that does what a script says for each request: the other side of the harness's tests.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use regatta::triton::proto::inference::grpc_inference_service_server::{
    GrpcInferenceService, GrpcInferenceServiceServer,
};
use regatta::triton::proto::inference::infer_parameter::ParameterChoice;
use regatta::triton::proto::inference::model_infer_response::InferOutputTensor;
use regatta::triton::proto::inference::*;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

/// What to do with one request.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// All tokens asked for, `per_chunk` at a time, `gap` before each chunk.
    Answer { gap: Duration, per_chunk: u32, last: Last },
    /// So many tokens, then nothing for ever.
    Hang { after: u32 },
    /// So many tokens, then an error in the stream that names no request.
    Error { after: u32 },
    /// The same with the request's id, as Triton says it.
    NamedError { after: u32 },
    /// So many tokens, then the stream ends in peace.
    Cut { after: u32 },
    /// A gRPC status in place of an answer.
    Refuse,
    /// These messages, `gap` before each, then the end.
    Play { gap: Duration, messages: fn(&ModelInferRequest) -> Vec<ModelStreamInferResponse> },
}

/// How a stream says that it is over.
#[derive(Clone, Copy, Debug)]
pub enum Last {
    FlagOnToken,
    EmptyFinal,
    Nothing,
}

/// What arrived, by request id.
pub type Prompts = Arc<Mutex<Vec<(u64, Vec<i32>)>>>;
pub type Script = Arc<dyn Fn(u64) -> Act + Send + Sync>;

/// A running server. Dropping it closes every socket at once.
pub struct Scripted {
    pub address: SocketAddr,
    /// Prompts as they arrived, by request id.
    pub prompts: Prompts,
    /// Calls of `ModelStreamInfer` so far.
    pub calls: Arc<AtomicU64>,
    /// Metadata that every call must have, once it is set.
    pub required: Arc<Mutex<Option<(&'static str, &'static str)>>>,
    /// Calls without it.
    pub unauthenticated: Arc<AtomicU64>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Scripted {
    pub fn start(decoupled: bool, streams: Option<u32>, script: Script) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let prompts = Prompts::default();
        let calls = Arc::<AtomicU64>::default();
        let service = Service { decoupled, script, prompts: Arc::clone(&prompts), calls: Arc::clone(&calls) };
        let required = Arc::<Mutex<Option<(&'static str, &'static str)>>>::default();
        let unauthenticated = Arc::<AtomicU64>::default();
        let (wanted, refused) = (Arc::clone(&required), Arc::clone(&unauthenticated));
        let check = move |request: Request<()>| match *wanted.lock().unwrap() {
            Some((name, value)) if request.metadata().get(name).and_then(|it| it.to_str().ok()) != Some(value) => {
                refused.fetch_add(1, Ordering::SeqCst);
                Err(Status::unauthenticated("no tenant"))
            }
            _ => Ok(request),
        };
        runtime.spawn(
            tonic::transport::Server::builder()
                .max_concurrent_streams(streams)
                .add_service(GrpcInferenceServiceServer::with_interceptor(service, check))
                // Small messages go out at once, and not when the client has acknowledged the one before.
                .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true))),
        );
        Self { address, prompts, calls, required, unauthenticated, runtime: Some(runtime) }
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

struct Service {
    decoupled: bool,
    script: Script,
    prompts: Prompts,
    calls: Arc<AtomicU64>,
}

fn note(prompts: &Prompts, request: &ModelInferRequest) {
    let at = request.inputs.iter().position(|input| input.name == "input_ids").unwrap();
    let ids = request.raw_input_contents[at].as_chunks::<4>().0.iter().map(|id| i32::from_le_bytes(*id)).collect();
    prompts.lock().unwrap().push((request.id.parse().unwrap(), ids));
}

fn requested_tokens(request: &ModelInferRequest) -> u32 {
    let at = request.inputs.iter().position(|input| input.name == "request_output_len").unwrap();
    u32::from_le_bytes(request.raw_input_contents[at][..].try_into().unwrap())
}

pub fn response(id: &str, tokens: u32, is_final: bool) -> ModelInferResponse {
    let tensor = |name: &str, len: i64| InferOutputTensor {
        name: name.to_owned(),
        datatype: "INT32".to_owned(),
        shape: vec![1, 1, len],
        ..InferOutputTensor::default()
    };
    let flag = InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(is_final)) };
    let mut response = ModelInferResponse {
        model_name: "tensorrt_llm".to_owned(),
        id: id.to_owned(),
        parameters: [("triton_final_response".to_owned(), flag)].into(),
        ..ModelInferResponse::default()
    };
    if tokens > 0 {
        response.outputs = vec![tensor("output_ids", tokens.into()), tensor("sequence_length", 1)];
        let ids: Vec<u8> = (0..tokens).flat_map(|token| (token as i32 + 10).to_le_bytes()).collect();
        response.raw_output_contents = vec![ids.into(), tokens.to_le_bytes().to_vec().into()];
    }
    response
}

type Answers = Pin<Box<dyn Stream<Item = Result<ModelStreamInferResponse, Status>> + Send>>;
type Messages = mpsc::Sender<Result<ModelStreamInferResponse, Status>>;

async fn play(act: Act, request: ModelInferRequest, messages: Messages) {
    let (id, requested) = (request.id.clone(), requested_tokens(&request));
    let send = async |response: ModelInferResponse| {
        let message = ModelStreamInferResponse { infer_response: Some(response), ..Default::default() };
        messages.send(Ok(message)).await.is_ok()
    };
    let say_tokens = async |count: u32| {
        for _ in 0..count {
            if !send(response(&id, 1, false)).await {
                return;
            }
        }
    };
    match act {
        Act::Answer { gap, per_chunk, last } => {
            let mut left = requested;
            while left > 0 {
                if !gap.is_zero() {
                    tokio::time::sleep(gap).await;
                }
                let now = left.min(per_chunk);
                left -= now;
                if !send(response(&id, now, left == 0 && matches!(last, Last::FlagOnToken))).await {
                    return;
                }
            }
            let wants_empty = request.parameters.contains_key("triton_enable_empty_final_response");
            if matches!(last, Last::EmptyFinal) && wants_empty {
                send(response(&id, 0, true)).await;
            }
        }
        Act::Hang { after } => {
            say_tokens(after).await;
            messages.closed().await;
        }
        Act::Error { after } => {
            say_tokens(after).await;
            let error_message = "the model is on fire".to_owned();
            let _ = messages.send(Ok(ModelStreamInferResponse { error_message, ..Default::default() })).await;
        }
        Act::NamedError { after } => {
            say_tokens(after).await;
            let message = ModelStreamInferResponse {
                error_message: "the model is on fire".to_owned(),
                infer_response: Some(ModelInferResponse { id, ..ModelInferResponse::default() }),
            };
            let _ = messages.send(Ok(message)).await;
        }
        Act::Cut { after } => say_tokens(after).await,
        Act::Play { gap, messages: written } => {
            for message in written(&request) {
                // A timer's least wait is a millisecond, and much longer on a busy machine.
                if !gap.is_zero() {
                    tokio::time::sleep(gap).await;
                }
                if messages.send(Ok(message)).await.is_err() {
                    return;
                }
            }
        }
        Act::Refuse => {
            let _ = messages.send(Err(Status::resource_exhausted("full"))).await;
        }
    }
}

fn nothing<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("not in the script"))
}

#[tonic::async_trait]
impl GrpcInferenceService for Service {
    /// Like Triton's: response headers come with the first response only.
    async fn model_stream_infer(
        &self,
        request: Request<Streaming<ModelInferRequest>>,
    ) -> Result<Response<Answers>, Status> {
        let mut requests = request.into_inner();
        let request = requests.message().await?.ok_or_else(|| Status::invalid_argument("no request"))?;
        self.calls.fetch_add(1, Ordering::SeqCst);
        note(&self.prompts, &request);
        let act = (self.script)(request.id.parse().unwrap());
        let (messages, answers) = mpsc::channel(16);
        if matches!(act, Act::Refuse) {
            return Err(Status::resource_exhausted("full"));
        }
        tokio::spawn(play(act, request, messages.clone()));
        // Further ones on the same stream, each at its own pace.
        let (script, prompts) = (Arc::clone(&self.script), Arc::clone(&self.prompts));
        tokio::spawn(async move {
            while let Ok(Some(request)) = requests.message().await {
                note(&prompts, &request);
                tokio::spawn(play(script(request.id.parse().unwrap()), request, messages.clone()));
            }
        });
        let mut answers = Box::pin(tokio_stream::StreamExt::peekable(ReceiverStream::new(answers)));
        answers.as_mut().peek().await;
        Ok(Response::new(answers))
    }

    async fn model_infer(&self, request: Request<ModelInferRequest>) -> Result<Response<ModelInferResponse>, Status> {
        let request = request.into_inner();
        match (self.script)(request.id.parse().unwrap()) {
            Act::Answer { gap, .. } => {
                tokio::time::sleep(gap).await;
                Ok(Response::new(response(&request.id, requested_tokens(&request), true)))
            }
            Act::Error { .. } => Err(Status::internal("the model is on fire")),
            _ => Err(Status::resource_exhausted("full")),
        }
    }

    async fn model_config(
        &self,
        request: Request<ModelConfigRequest>,
    ) -> Result<Response<ModelConfigResponse>, Status> {
        let config = ModelConfig {
            // Of one model longer than any report of a server.
            platform: if request.into_inner().name == "long" { "x".repeat(17 << 20) } else { String::new() },
            model_transaction_policy: Some(ModelTransactionPolicy { decoupled: self.decoupled }),
            ..ModelConfig::default()
        };
        Ok(Response::new(ModelConfigResponse { config: Some(config) }))
    }

    async fn server_ready(&self, _: Request<ServerReadyRequest>) -> Result<Response<ServerReadyResponse>, Status> {
        Ok(Response::new(ServerReadyResponse { ready: true }))
    }

    async fn model_ready(&self, request: Request<ModelReadyRequest>) -> Result<Response<ModelReadyResponse>, Status> {
        Ok(Response::new(ModelReadyResponse { ready: request.into_inner().name == "tensorrt_llm" }))
    }

    async fn server_live(&self, _: Request<ServerLiveRequest>) -> Result<Response<ServerLiveResponse>, Status> {
        nothing()
    }

    async fn server_metadata(
        &self,
        _: Request<ServerMetadataRequest>,
    ) -> Result<Response<ServerMetadataResponse>, Status> {
        nothing()
    }

    async fn model_metadata(
        &self,
        _: Request<ModelMetadataRequest>,
    ) -> Result<Response<ModelMetadataResponse>, Status> {
        nothing()
    }

    async fn model_statistics(
        &self,
        _: Request<ModelStatisticsRequest>,
    ) -> Result<Response<ModelStatisticsResponse>, Status> {
        nothing()
    }

    async fn repository_index(
        &self,
        _: Request<RepositoryIndexRequest>,
    ) -> Result<Response<RepositoryIndexResponse>, Status> {
        nothing()
    }
}

/// Runs a future to its end on a runtime of its own.
pub fn wait_for<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
