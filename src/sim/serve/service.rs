//! The gRPC face: KServe v2 with Triton's habits.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, oneshot};
use tokio_stream::{Stream, StreamExt as _, wrappers::UnboundedReceiverStream};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::{Code, Request, Response, Status, Streaming};

use super::answer::{Answer, bare};
use super::driver::{Clock, Driver, Job, Reply, Shared};
use super::load::{Engine, Kind, Model};
use super::request::{Accepted, Part, accept, version};
use super::tensor::{Refusal, full_shape, wire_name};
use crate::triton::proto::health::health_check_response::ServingStatus;
use crate::triton::proto::health::health_server::Health;
use crate::triton::proto::health::{HealthCheckRequest, HealthCheckResponse};
use crate::triton::proto::inference::grpc_inference_service_server::GrpcInferenceService;
use crate::triton::proto::inference::model_metadata_response::TensorMetadata;
use crate::triton::proto::inference::repository_index_response::ModelIndex;
use crate::triton::proto::inference::{
    InferStatistics, ModelConfigRequest, ModelConfigResponse, ModelInferRequest, ModelInferResponse,
    ModelMetadataRequest, ModelMetadataResponse, ModelReadyRequest, ModelReadyResponse, ModelStatistics,
    ModelStatisticsRequest, ModelStatisticsResponse, ModelStreamInferResponse, RepositoryIndexRequest,
    RepositoryIndexResponse, ServerLiveRequest, ServerLiveResponse, ServerMetadataRequest, ServerMetadataResponse,
    ServerReadyRequest, ServerReadyResponse, StatisticDuration,
};

/// What every call shares.
#[derive(Debug)]
pub(super) struct Inner {
    pub models: BTreeMap<String, Model>,
    /// For each engine model, one driver for each copy of the engine, and what they count.
    pub drivers: BTreeMap<String, (Vec<Driver>, Arc<Shared>)>,
    pub clock: Clock,
    pub is_ready: bool,
    pub is_final_apart: bool,
    pub error_on_request: Option<u64>,
    pub calls: AtomicU64,
    pub requests: AtomicU64,
    /// Calls that wait for answers.
    pub open: TaskTracker,
}

/// The service; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Service(pub Arc<Inner>);

/// Tells the drivers when a call goes away before its answers are through.
pub(super) struct Call {
    inner: Arc<Inner>,
    pub owner: u64,
    _open: TaskTrackerToken,
}

impl Drop for Call {
    fn drop(&mut self) {
        for (drivers, _) in self.inner.drivers.values() {
            for driver in drivers {
                driver.gone(self.owner);
            }
        }
    }
}

impl Inner {
    /// How fast simulated time runs, as an extension of ServerMetadata: `simulated_time(speed=10)`.
    pub fn speed_extension(&self) -> String {
        format!("simulated_time(speed={})", self.clock.speed())
    }

    pub fn call(self: &Arc<Self>) -> Call {
        let owner = self.calls.fetch_add(1, Ordering::Relaxed);
        Call { inner: Arc::clone(self), owner, _open: self.open.token() }
    }

    pub fn find(&self, name: &str, version: &str) -> Result<&Model, Refusal> {
        let not_found = |message: String| Refusal { code: Code::NotFound, message, by_backend: false };
        let model = self
            .models
            .get(name)
            .ok_or_else(|| not_found(format!("Request for unknown model: '{name}' is not found")))?;
        if version.is_empty() {
            return Ok(model);
        }
        let number: i64 = version.parse().map_err(|_| {
            Refusal::invalid(format!("failed to get model version from specified version string '{version}' (an integral value > 0 is expected)"))
        })?;
        if model.versions.iter().any(|known| *known as i64 == number) {
            Ok(model)
        } else {
            Err(not_found(format!("Request for unknown model: '{name}' version {number} is not found")))
        }
    }

    pub fn engine_under<'a>(&'a self, model: &'a Model) -> Option<(&'a str, &'a Engine)> {
        match &model.kind {
            Kind::Engine(engine) | Kind::Vllm(engine) => Some((&model.name, engine)),
            Kind::Text { engine: name } => match &self.models.get(name)?.kind {
                Kind::Engine(engine) => Some((name, engine)),
                _ => None,
            },
            Kind::Python => None,
        }
    }

    pub fn accept(&self, request: &ModelInferRequest, once: bool) -> Result<Accepted, Refusal> {
        let model = self.find(&request.model_name, &request.model_version)?;
        if once && model.is_decoupled {
            let message = "ModelInfer RPC doesn't support models with decoupled transaction policy".to_owned();
            return Err(Refusal { code: Code::Unimplemented, message, by_backend: false });
        }
        let accepted = accept(model, self.engine_under(model), request, self.is_final_apart)?;
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        if self.error_on_request == Some(number) {
            return Err(Refusal::backend(format!("simulated failure of request number {number}")));
        }
        Ok(accepted)
    }

    /// `reply` makes the way back for one part. A stop is answered at once: by the answer that comes back.
    pub fn submit(
        &self,
        accepted: Accepted,
        owner: u64,
        mut reply: impl FnMut() -> Option<Reply>,
    ) -> Option<Box<Answer>> {
        match accepted {
            Accepted::Stop { engine, answer } => {
                for driver in self.drivers.get(&engine).iter().flat_map(|(drivers, _)| drivers) {
                    driver.stop(&answer.id);
                }
                Some(answer)
            }
            Accepted::Serve { engine, parts } => {
                let arrived = self.clock.now();
                let copies = self.drivers.get(&engine).map_or(&[][..], |(drivers, _)| drivers);
                for Part { isl, osl, answer } in parts {
                    // The least loaded copy; the first among equals.
                    if let (Some(driver), Some(reply)) = (copies.iter().min_by_key(|d| d.load()), reply()) {
                        driver.submit(Job { arrived, owner, isl, osl, answer, reply, made: 0, first_token: 0 });
                    }
                }
                None
            }
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code, refusal.message)
    }
}

type Answers = Pin<Box<dyn Stream<Item = Result<ModelStreamInferResponse, Status>> + Send>>;

/// Responses of one call; keeps the call alive until the stream is dropped.
pub(super) struct Speaking {
    answers: Answers,
    _call: Call,
}

impl Speaking {
    pub fn new(answers: Answers, call: Call) -> Self {
        Self { answers, _call: call }
    }
}

impl Stream for Speaking {
    type Item = Result<ModelStreamInferResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<Option<Self::Item>> {
        self.answers.as_mut().poll_next(cx)
    }
}

#[tonic::async_trait]
impl GrpcInferenceService for Service {
    async fn server_live(&self, _: Request<ServerLiveRequest>) -> Result<Response<ServerLiveResponse>, Status> {
        Ok(Response::new(ServerLiveResponse { live: true }))
    }

    async fn server_ready(&self, _: Request<ServerReadyRequest>) -> Result<Response<ServerReadyResponse>, Status> {
        Ok(Response::new(ServerReadyResponse { ready: self.0.is_ready }))
    }

    async fn model_ready(&self, request: Request<ModelReadyRequest>) -> Result<Response<ModelReadyResponse>, Status> {
        let request = request.into_inner();
        let ready = self.0.is_ready && self.0.find(&request.name, &request.version).is_ok();
        Ok(Response::new(ModelReadyResponse { ready }))
    }

    async fn server_metadata(
        &self,
        _: Request<ServerMetadataRequest>,
    ) -> Result<Response<ServerMetadataResponse>, Status> {
        let extensions = ["model_repository", "model_configuration", "binary_tensor_data", "parameters", "statistics"];
        Ok(Response::new(ServerMetadataResponse {
            name: "triton".to_owned(),
            version: format!("regatta-simulator-{}", env!("CARGO_PKG_VERSION")),
            extensions: extensions.map(str::to_owned).into_iter().chain([self.0.speed_extension()]).collect(),
        }))
    }

    async fn model_metadata(
        &self,
        request: Request<ModelMetadataRequest>,
    ) -> Result<Response<ModelMetadataResponse>, Status> {
        let request = request.into_inner();
        let model = self.0.find(&request.name, &request.version)?;
        let config = &model.config;
        let tensor = |name: &str, data_type, dims: &[i64]| TensorMetadata {
            name: name.to_owned(),
            datatype: wire_name(data_type).to_owned(),
            shape: full_shape(config.max_batch_size, dims),
        };
        let platform = if config.platform.is_empty() { &config.backend } else { &config.platform };
        Ok(Response::new(ModelMetadataResponse {
            name: model.name.clone(),
            versions: model.versions.iter().map(u64::to_string).collect(),
            platform: platform.clone(),
            inputs: config.input.iter().map(|input| tensor(&input.name, input.data_type(), &input.dims)).collect(),
            outputs: config
                .output
                .iter()
                .map(|output| tensor(&output.name, output.data_type(), &output.dims))
                .collect(),
        }))
    }

    async fn model_config(
        &self,
        request: Request<ModelConfigRequest>,
    ) -> Result<Response<ModelConfigResponse>, Status> {
        let request = request.into_inner();
        let model = self.0.find(&request.name, &request.version)?;
        Ok(Response::new(ModelConfigResponse { config: Some(model.config.clone()) }))
    }

    async fn model_infer(&self, request: Request<ModelInferRequest>) -> Result<Response<ModelInferResponse>, Status> {
        let accepted = self.0.accept(&request.into_inner(), true)?;
        let call = self.0.call();
        let (sender, receiver) = oneshot::channel();
        // Only a decoupled model has several parts.
        let mut sender = Some(sender);
        if let Some(answer) = self.0.submit(accepted, call.owner, || sender.take().map(Reply::Once)) {
            return Ok(Response::new(bare(&answer.model_name, &answer.model_version, &answer.id)));
        }
        match receiver.await {
            Ok(Ok(response)) => Ok(Response::new(response)),
            Ok(Err(message)) => Err(Status::internal(message)),
            Err(_) => Err(Status::unavailable("the server is stopping")),
        }
    }

    /// As with the real server, the response headers come only with the first response.
    async fn model_stream_infer(
        &self,
        request: Request<Streaming<ModelInferRequest>>,
    ) -> Result<Response<Answers>, Status> {
        let wants_status = request.metadata().get("triton_grpc_error").is_some_and(|value| value == "true");
        let (sender, receiver) = mpsc::unbounded_channel();
        let call = self.0.call();
        let owner = call.owner;
        let inner = Arc::clone(&self.0);
        let mut requests = request.into_inner();
        tokio::spawn(async move {
            // An error here is the client going away; dropping the call ends its requests.
            while let Ok(Some(request)) = requests.message().await {
                match inner.accept(&request, false) {
                    Ok(accepted) => {
                        let stopped = inner.submit(accepted, owner, || Some(Reply::Stream(sender.clone())));
                        if let Some(answer) = stopped.filter(|answer| answer.wants_empty_final) {
                            let _ = sender.send(Ok(answer.empty_final()));
                        }
                    }
                    Err(refusal) if wants_status => {
                        let _ = sender.send(Err(refusal.into()));
                        return;
                    }
                    Err(refusal) => {
                        if sender.send(Ok(refused(&request, &inner, refusal))).is_err() {
                            return;
                        }
                    }
                }
            }
        });
        let mut answers = UnboundedReceiverStream::new(receiver);
        let first = answers.next().await;
        let answers: Answers = Box::pin(tokio_stream::iter(first).chain(answers));
        Ok(Response::new(Box::pin(Speaking::new(answers, call))))
    }

    async fn model_statistics(
        &self,
        request: Request<ModelStatisticsRequest>,
    ) -> Result<Response<ModelStatisticsResponse>, Status> {
        let request = request.into_inner();
        if !request.name.is_empty() {
            self.0.find(&request.name, &request.version)?;
        }
        let counted = |count: u64| Some(StatisticDuration { count, ns: 0 });
        let models = self.0.models.values().filter(|model| request.name.is_empty() || model.name == request.name);
        let model_stats = models
            .map(|model| {
                let shared = self.0.drivers.get(&model.name).map(|(_, shared)| shared);
                let read = |of: fn(&Shared) -> &AtomicU64| shared.map_or(0, |s| of(s).load(Ordering::Relaxed));
                let (served, failed) = (read(|s| &s.served), read(|s| &s.failed));
                ModelStatistics {
                    name: model.name.clone(),
                    version: version(model),
                    last_inference: if served > 0 { milliseconds() } else { 0 },
                    inference_count: served,
                    execution_count: served,
                    inference_stats: Some(InferStatistics {
                        success: counted(served),
                        fail: counted(failed),
                        ..InferStatistics::default()
                    }),
                    ..ModelStatistics::default()
                }
            })
            .collect();
        Ok(Response::new(ModelStatisticsResponse { model_stats }))
    }

    async fn repository_index(
        &self,
        _: Request<RepositoryIndexRequest>,
    ) -> Result<Response<RepositoryIndexResponse>, Status> {
        let index = self.0.models.values().map(|model| ModelIndex {
            name: model.name.clone(),
            version: version(model),
            state: "READY".to_owned(),
            reason: String::new(),
        });
        Ok(Response::new(RepositoryIndexResponse { models: index.collect() }))
    }
}

#[tonic::async_trait]
impl Health for Service {
    async fn check(&self, _: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let status = if self.0.is_ready { ServingStatus::Serving } else { ServingStatus::NotServing };
        Ok(Response::new(HealthCheckResponse { status: status.into() }))
    }
}

/// An error inside the stream: says whose it is; only the backend's errors are marked as the request's last response.
fn refused(request: &ModelInferRequest, inner: &Inner, refusal: Refusal) -> ModelStreamInferResponse {
    let version = inner.models.get(&request.model_name).map(version).unwrap_or_default();
    let response = bare(&request.model_name, &version, &request.id);
    if refusal.by_backend {
        let marked = Answer::streamed(response, true);
        return ModelStreamInferResponse { error_message: refusal.message, ..marked };
    }
    ModelStreamInferResponse { error_message: refusal.message, infer_response: Some(response) }
}

fn milliseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}
