//! A KServe v2 client with Triton's extensions, over gRPC: every call that a user or a check makes to a server.
//!
//! Not for load: the harness has its own path, with its own connections and stamps. Every call has a deadline;
//! every error names the call and the server, and keeps the server's own message and status.

mod error;
pub mod field_tensor;
mod stream;
mod tensor;

use std::future::Future;
use std::time::Duration;

use http::HeaderMap;
use tokio::time::{Instant, sleep, timeout};
use tonic::metadata::MetadataMap;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint as Address};
use tonic::{Code, Request, Response, Status};

use super::proto::health::HealthCheckRequest;
use super::proto::health::health_check_response::ServingStatus;
use super::proto::health::health_client::HealthClient;
use super::proto::inference::grpc_inference_service_client::GrpcInferenceServiceClient;
use super::proto::inference::model_repository_parameter::ParameterChoice as Parameter;
use super::proto::inference::repository_index_response::ModelIndex;
use super::proto::inference::{
    ModelConfig, ModelConfigRequest, ModelInferRequest, ModelInferResponse, ModelMetadataRequest,
    ModelMetadataResponse, ModelReadyRequest, ModelRepositoryParameter, RepositoryIndexRequest,
    RepositoryModelLoadRequest, RepositoryModelUnloadRequest, ServerLiveRequest, ServerMetadataRequest,
    ServerMetadataResponse, ServerReadyRequest,
};
use base::event::{Endpoint, host_port};

pub use error::{ClientError, ClientErrorKind, ConnectCause};
pub use stream::{InferStream, StreamResponse};
pub use tensor::{DataType, InferRequest, Tensor, TensorData, strings, tensors_of};

/// Triton's own limit for one message.
const MESSAGE_LIMIT: usize = i32::MAX as usize;
/// Bytes of what a server reports of itself: health, metadata, configurations. The largest have a few megabytes.
const LONGEST_REPORT: usize = 16 << 20;
/// A server answers a query about itself at once, unless it has a problem.
const DEADLINE: Duration = Duration::from_secs(10);

type InferenceService = GrpcInferenceServiceClient<ChannelWithMetadata>;

/// One connection to one server.
#[derive(Clone, Debug)]
pub struct TritonClient {
    service: InferenceService,
    health: HealthClient<ChannelWithMetadata>,
    address: String,
    deadline: Duration,
}

impl TritonClient {
    /// Connects now.
    pub async fn connect(endpoint: &Endpoint) -> Result<Self, ClientError> {
        Self::connect_with(endpoint, HeaderMap::new()).await
    }

    /// Connects now. `headers` are the metadata of every call.
    pub async fn connect_with(endpoint: &Endpoint, headers: HeaderMap) -> Result<Self, ClientError> {
        let address = address(endpoint)?.connect_timeout(DEADLINE);
        let name = endpoint.to_string();
        let fail = |why| ClientError::new("connecting", &name, why);
        match tokio::time::timeout(DEADLINE, address.connect()).await {
            Ok(Ok(channel)) => Ok(Self::over(channel, name, headers)),
            Ok(Err(error)) => Err(fail(ClientErrorKind::connect(&error))),
            Err(_) => Err(fail(ClientErrorKind::Timeout(DEADLINE))),
        }
    }

    fn over(channel: Channel, address: String, headers: HeaderMap) -> Self {
        let channel = InterceptedService::new(channel, CallMetadata(headers));
        let service = GrpcInferenceServiceClient::new(channel.clone())
            .max_decoding_message_size(LONGEST_REPORT)
            .max_encoding_message_size(MESSAGE_LIMIT);
        Self { service, health: HealthClient::new(channel), address, deadline: DEADLINE }
    }

    /// Another deadline for each later call than 10 s. A late call is cancelled at the server too.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Another limit of what the server reports of itself than 16 MiB, bytes. Answers to inferences have Triton's own
    /// limit.
    #[must_use]
    pub fn message_limit(mut self, bytes: usize) -> Self {
        self.service = self.service.max_decoding_message_size(bytes);
        self
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    async fn call<A>(
        &self,
        request: impl Into<String>,
        answer: impl Future<Output = Result<Response<A>, Status>>,
    ) -> Result<A, ClientError> {
        // Dropping a call that is late resets its HTTP/2 stream: the server sees it cancelled.
        let reason = match tokio::time::timeout(self.deadline, answer).await {
            Ok(Ok(answer)) => return Ok(answer.into_inner()),
            Ok(Err(status)) => error::of_status(&status),
            Err(_) => ClientErrorKind::Timeout(self.deadline),
        };
        Err(ClientError::new(request, &self.address, reason))
    }

    pub async fn is_live(&self) -> Result<bool, ClientError> {
        Ok(self.call("ServerLive", self.service.clone().server_live(ServerLiveRequest {})).await?.live)
    }

    pub async fn is_ready(&self) -> Result<bool, ClientError> {
        Ok(self.call("ServerReady", self.service.clone().server_ready(ServerReadyRequest {})).await?.ready)
    }

    /// gRPC's own health check. A server that is shutting down is not serving, while calls in flight continue.
    pub async fn is_serving(&self) -> Result<bool, ClientError> {
        let answer = self.call("health Check", self.health.clone().check(HealthCheckRequest::default())).await?;
        Ok(answer.status() == ServingStatus::Serving)
    }

    /// `version` empty: the one that the model's policy picks. An unknown model is not ready, which is not an error.
    pub async fn is_model_ready(&self, name: &str, version: &str) -> Result<bool, ClientError> {
        let request = ModelReadyRequest { name: name.to_owned(), version: version.to_owned() };
        Ok(self.call(call_name("ModelReady", name, version), self.service.clone().model_ready(request)).await?.ready)
    }

    pub async fn server_metadata(&self) -> Result<ServerMetadataResponse, ClientError> {
        self.call("ServerMetadata", self.service.clone().server_metadata(ServerMetadataRequest {})).await
    }

    pub async fn model_metadata(&self, name: &str, version: &str) -> Result<ModelMetadataResponse, ClientError> {
        let request = ModelMetadataRequest { name: name.to_owned(), version: version.to_owned() };
        self.call(call_name("ModelMetadata", name, version), self.service.clone().model_metadata(request)).await
    }

    /// The config as it is in effect, with all that the server completed.
    pub async fn model_config(&self, name: &str, version: &str) -> Result<ModelConfig, ClientError> {
        let request = ModelConfigRequest { name: name.to_owned(), version: version.to_owned() };
        let text = call_name("ModelConfig", name, version);
        let answer = self.call(text.clone(), self.service.clone().model_config(request)).await?;
        answer.config.ok_or_else(|| {
            ClientError::new(text, &self.address, ClientErrorKind::Malformed("it has no config in it".to_owned()))
        })
    }

    /// Tensors of an answer may be as long as Triton allows.
    fn inference(&self) -> InferenceService {
        self.service.clone().max_decoding_message_size(MESSAGE_LIMIT)
    }

    /// One request, one answer. Decoupled models refuse with `Unimplemented`.
    pub async fn infer(&self, request: ModelInferRequest) -> Result<ModelInferResponse, ClientError> {
        let text = call_name("ModelInfer", &request.model_name, &request.model_version);
        self.call(text, self.inference().model_infer(request)).await
    }

    /// Many requests on one stream, each with any number of answers.
    pub fn stream(&self) -> InferStream {
        InferStream::open(self.inference(), self.address.clone(), self.deadline)
    }

    /// Every model in the server's repositories; with `ready`, only those that answer.
    pub async fn repository_index(&self, ready: bool) -> Result<Vec<ModelIndex>, ClientError> {
        let request = RepositoryIndexRequest { ready, ..RepositoryIndexRequest::default() };
        Ok(self.call("RepositoryIndex", self.service.clone().repository_index(request)).await?.models)
    }

    /// Loads, or loads again. The answer comes when the model is ready or has failed: mind the deadline. `config`: JSON
    /// that takes the place of config.pbtxt.
    pub async fn load(&self, name: &str, config: Option<String>) -> Result<(), ClientError> {
        let config = config.map(|config| ("config".to_owned(), parameter(Parameter::StringParam(config))));
        let parameters = config.into_iter().collect();
        let request = RepositoryModelLoadRequest { model_name: name.to_owned(), parameters, ..<_>::default() };
        let text = call_name("RepositoryModelLoad", name, "");
        self.call(text, self.service.clone().repository_model_load(request)).await.map(drop)
    }

    /// Answers at once; requests in flight finish, new ones are refused. `dependents`: what an ensemble is made of,
    /// too.
    pub async fn unload(&self, name: &str, dependents: bool) -> Result<(), ClientError> {
        let dependents = dependents.then(|| ("unload_dependents".to_owned(), parameter(Parameter::BoolParam(true))));
        let parameters = dependents.into_iter().collect();
        let request = RepositoryModelUnloadRequest { model_name: name.to_owned(), parameters, ..<_>::default() };
        let text = call_name("RepositoryModelUnload", name, "");
        self.call(text, self.service.clone().repository_model_unload(request)).await.map(drop)
    }
}

/// ``ModelConfig of `m` version 2``.
fn call_name(method: &str, model: &str, version: &str) -> String {
    match (model, version) {
        ("", _) => method.to_owned(),
        (model, "") => format!("{method} of `{model}`"),
        (model, version) => format!("{method} of `{model}` version {version}"),
    }
}

fn parameter(choice: Parameter) -> ModelRepositoryParameter {
    ModelRepositoryParameter { parameter_choice: Some(choice) }
}

fn address(endpoint: &Endpoint) -> Result<Address, ClientError> {
    let wrong =
        |_| ClientError::new("connecting", endpoint.to_string(), ClientErrorKind::Address(endpoint.to_string()));
    Address::from_shared(format!("http://{}", host_port(&endpoint.host, endpoint.grpc)))
        .map(|address| address.tcp_nodelay(true))
        .map_err(wrong)
}

// Metadata that every call over a connection has.

pub(super) type ChannelWithMetadata = InterceptedService<Channel, CallMetadata>;

/// Adds the same headers to each call.
#[derive(Clone, Debug)]
pub(super) struct CallMetadata(HeaderMap);

impl Interceptor for CallMetadata {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let mut headers = std::mem::take(request.metadata_mut()).into_headers();
        headers.extend(self.0.clone());
        *request.metadata_mut() = MetadataMap::from_headers(headers);
        Ok(request)
    }
}

// Waiting until a server reports that it is ready.

/// The pause before a server that is not ready is polled again.
const PAUSE: Duration = Duration::from_millis(50);
/// The limit of a single call while waiting for readiness: a server that accepts and does not answer is not ready.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a server was not ready when it was queried.
#[derive(Debug, thiserror::Error)]
pub enum NotReady {
    #[error("not queried yet")]
    NotQueried,
    #[error("no connection within {0:?}")]
    Late(Duration),
    #[error("{}", connect_words(.0))]
    Connect(#[source] tonic::transport::Error),
    /// It reports so itself.
    #[error("the server is up but not ready")]
    Starting,
    #[error("the port answers, but not as a Triton server")]
    NotTriton,
    #[error("{}", .0.call_and_why())]
    Call(ClientError),
}

/// What kept a connection from being made; the frequent causes in words, others as the system names them.
fn connect_words(error: &tonic::transport::Error) -> String {
    match ClientErrorKind::connect(error) {
        ClientErrorKind::Connect { cause: ConnectCause::Refused, .. } => {
            "nothing listens there (connection refused)".to_owned()
        }
        ClientErrorKind::Connect { cause: ConnectCause::UnknownHost, text } => {
            format!("cannot resolve the host name ({text})")
        }
        other => other.to_string(),
    }
}

/// Why waiting for a server ended without a ready one.
#[derive(Debug, thiserror::Error)]
pub enum AwaitError {
    #[error("{endpoint} was not ready after {:.1} s: {last}", after.as_secs_f64())]
    Timeout { endpoint: Endpoint, after: Duration, last: NotReady },
    #[error("stopped while waiting for {endpoint}")]
    Stopped { endpoint: Endpoint },
    #[error(transparent)]
    Address(#[from] ClientError),
}

/// Waits until a server reports that it is ready. `progress` receives, at each attempt, how long it has been and the
/// server's last answer; `stop` ends the waiting when it resolves.
///
/// Readiness is not health: a server may report ready with a dead backend behind it.
pub async fn await_ready(
    endpoint: &Endpoint,
    limit: Duration,
    mut progress: impl FnMut(Duration, &str),
    stop: impl Future<Output = ()>,
) -> Result<(), AwaitError> {
    let begun = Instant::now();
    let address = address(endpoint)?.connect_timeout(QUERY_TIMEOUT);
    let mut last = NotReady::NotQueried;
    let waiting = async {
        loop {
            match probe_ready(&address, endpoint).await {
                Ok(()) => return,
                Err(reason) => last = reason,
            }
            progress(begun.elapsed(), &last.to_string());
            sleep(PAUSE).await;
        }
    };
    tokio::select! {
        biased;
        () = stop => Err(AwaitError::Stopped { endpoint: endpoint.clone() }),
        done = timeout(limit, waiting) => match done {
            Ok(()) => Ok(()),
            Err(_) => Err(AwaitError::Timeout { endpoint: endpoint.clone(), after: begun.elapsed(), last }),
        },
    }
}

/// A new connection each time: a server that is still loading often closes the first ones.
async fn probe_ready(address: &Address, endpoint: &Endpoint) -> Result<(), NotReady> {
    let channel = timeout(QUERY_TIMEOUT, address.connect()).await;
    let channel = channel.map_err(|_| NotReady::Late(QUERY_TIMEOUT))?.map_err(NotReady::Connect)?;
    let client = TritonClient::over(channel, endpoint.to_string(), HeaderMap::new()).deadline(QUERY_TIMEOUT);
    match client.is_ready().await {
        Ok(true) => Ok(()),
        Ok(false) => Err(NotReady::Starting),
        Err(ClientError { why: ClientErrorKind::Refused { code: Code::Unimplemented, .. }, .. }) => {
            Err(NotReady::NotTriton)
        }
        Err(error) => Err(NotReady::Call(error)),
    }
}
