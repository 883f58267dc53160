//! The gRPC interface: KServe v2 with Triton's behavior.
//!
//! The server's description of itself and of its models, for either protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::{Code, Request, Response, Status, Streaming};

use super::answer::{ServedAnswer, empty_response};
use super::driver::{Driver, EngineRequest, ResponseSink, ServerCounters, SimClock};
use super::inputs::{full_shape, wire_name};
use super::load::{LoadedEngine, LoadedModel, ModelKind};
use super::request::{Accepted, PromptTokens, accept, version};
use super::statistics::{Route, Statistics};
use triton::proto::health::health_check_response::ServingStatus;
use triton::proto::health::health_server::Health;
use triton::proto::health::{HealthCheckRequest, HealthCheckResponse};
use triton::proto::inference::grpc_inference_service_server::GrpcInferenceService;
use triton::proto::inference::log_settings_response::SettingValue as LogValue;
use triton::proto::inference::log_settings_response::setting_value::ParameterChoice;
use triton::proto::inference::model_metadata_response::TensorMetadata;
use triton::proto::inference::repository_index_response::ModelIndex;
use triton::proto::inference::trace_setting_response::SettingValue as TraceValue;
use triton::proto::inference::{
    CudaSharedMemoryStatusRequest, CudaSharedMemoryStatusResponse, LogSettingsRequest, LogSettingsResponse,
    ModelConfigRequest, ModelConfigResponse, ModelInferRequest, ModelInferResponse, ModelMetadataRequest,
    ModelMetadataResponse, ModelReadyRequest, ModelReadyResponse, ModelStatisticsRequest, ModelStatisticsResponse,
    ModelStreamInferResponse, RepositoryIndexRequest, RepositoryIndexResponse, RepositoryModelLoadRequest,
    RepositoryModelLoadResponse, RepositoryModelUnloadRequest, RepositoryModelUnloadResponse, ServerLiveRequest,
    ServerLiveResponse, ServerMetadataRequest, ServerMetadataResponse, ServerReadyRequest, ServerReadyResponse,
    SystemSharedMemoryStatusRequest, SystemSharedMemoryStatusResponse, TraceSettingRequest, TraceSettingResponse,
};

/// The state that all calls share.
#[derive(Debug)]
pub(super) struct ServiceInner {
    pub models: BTreeMap<String, LoadedModel>,
    pub prompts: PromptTokens,
    /// For each engine model, one driver for each copy of the engine, and what they count.
    pub drivers: BTreeMap<String, (Vec<Driver>, Arc<ServerCounters>)>,
    pub statistics: Statistics,
    pub clock: SimClock,
    /// When the server started: Unix time, seconds.
    pub started: f64,
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
pub(super) struct InferenceService(pub Arc<ServiceInner>);

/// Notifies the drivers when a call is dropped before its answers are complete.
pub(super) struct CallGuard {
    inner: Arc<ServiceInner>,
    pub owner: u64,
    _open: TaskTrackerToken,
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        for (drivers, _) in self.inner.drivers.values() {
            for driver in drivers {
                driver.owner_disconnected(self.owner);
            }
        }
    }
}

impl ServiceInner {
    /// How fast simulated time runs and what the step times of each engine rest on, as extensions of ServerMetadata:
    /// `simulated_time(speed=10)`, `step_times(assumed ±35 %: …)`.
    pub fn own_extensions(&self) -> Vec<String> {
        let engines = self.models.values().filter_map(LoadedModel::engine);
        let step_times: BTreeSet<_> = engines.map(|engine| format!("step_times({})", engine.step_times)).collect();
        iter::once(format!("simulated_time(speed={})", self.clock.speed())).chain(step_times).collect()
    }

    pub fn call(self: &Arc<Self>) -> CallGuard {
        let owner = self.calls.fetch_add(1, Ordering::Relaxed);
        CallGuard { inner: Arc::clone(self), owner, _open: self.open.token() }
    }

    pub fn find(&self, name: &str, version: &str) -> Result<&LoadedModel, Status> {
        let model = self
            .models
            .get(name)
            .ok_or_else(|| Status::not_found(format!("Request for unknown model: '{name}' is not found")))?;
        if version.is_empty() {
            return Ok(model);
        }
        let number: i64 = version.parse().map_err(|_| {
            Status::invalid_argument(format!(
                "failed to get model version from specified version string '{version}' \
                 (an integral value > 0 is expected)"
            ))
        })?;
        if model.versions.iter().any(|known| *known as i64 == number) {
            Ok(model)
        } else {
            Err(Status::not_found(format!("Request for unknown model: '{name}' version {number} is not found")))
        }
    }

    pub fn engine_under<'a>(&'a self, model: &'a LoadedModel) -> Option<(&'a str, &'a LoadedEngine)> {
        match &model.kind {
            ModelKind::Engine(engine) | ModelKind::Vllm(engine) => Some((&model.name, engine)),
            ModelKind::Text { engine: name, .. } => Some((name, self.models.get(name)?.engine()?)),
            ModelKind::Python => None,
        }
    }

    pub fn accept(&self, request: &ModelInferRequest, once: bool) -> Result<Accepted, Status> {
        let model = self.find(&request.model_name, &request.model_version)?;
        if once && model.is_decoupled {
            let message = "ModelInfer RPC doesn't support models with decoupled transaction policy";
            return Err(Status::unimplemented(message));
        }
        let accepted = accept(model, self.engine_under(model), request, &self.prompts, self.is_final_apart);
        let accepted = accepted.and_then(|accepted| self.count_request().map(|_| accepted));
        // A request that the server refuses never reaches the model, and the model does not count it.
        accepted.inspect_err(|refusal| {
            if is_by_backend(refusal) {
                self.statistics.route(model).failed(0);
            }
        })
    }

    /// The number of a request, the first one being 1, unless it is the one that is to fail.
    pub fn count_request(&self) -> Result<u64, Status> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        if self.error_on_request == Some(number) {
            return Err(Status::internal(format!("simulated failure of request number {number}")));
        }
        Ok(number)
    }

    /// One request, one response.
    pub async fn infer(self: &Arc<Self>, request: &ModelInferRequest) -> Result<ModelInferResponse, Status> {
        let accepted = self.accept(request, true)?;
        let call = self.call();
        let (sender, receiver) = oneshot::channel();
        // Only a decoupled model has several parts.
        let mut sender = Some(sender);
        if let Some(answer) = self.submit(accepted, call.owner, || sender.take().map(ResponseSink::Once)) {
            return Ok(empty_response(&answer.model_name, &answer.model_version, &answer.id));
        }
        match receiver.await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(Status::internal(error.to_string())),
            Err(_) => Err(Status::unavailable("the server is stopping")),
        }
    }

    /// `reply` makes the sender for one part. A stop is answered at once: by the answer that this returns.
    pub fn submit(
        &self,
        accepted: Accepted,
        owner: u64,
        mut reply: impl FnMut() -> Option<ResponseSink>,
    ) -> Option<Box<ServedAnswer>> {
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
                let route = parts.first().and_then(|part| self.models.get(&part.answer.model_name));
                let route = route.map_or_else(Route::default, |model| self.statistics.route(model));
                for part in parts {
                    // The least loaded copy; the first among equals.
                    if let (Some(driver), Some(reply)) = (copies.iter().min_by_key(|d| d.load()), reply()) {
                        let route = route.clone();
                        driver.submit(EngineRequest {
                            arrived,
                            owner,
                            part,
                            reply,
                            route,
                            token_count: 0,
                            chunk_count: 0,
                            first_token: 0,
                            previous_token: 0,
                        });
                    }
                }
                None
            }
        }
    }
}

type Answers = Pin<Box<dyn Stream<Item = Result<ModelStreamInferResponse, Status>> + Send>>;

/// Responses of one call; keeps the call alive until the stream is dropped.
pub(super) struct GuardedResponseStream {
    answers: Answers,
    _call: CallGuard,
}

impl GuardedResponseStream {
    pub fn new(answers: Answers, call: CallGuard) -> Self {
        Self { answers, _call: call }
    }
}

impl Stream for GuardedResponseStream {
    type Item = Result<ModelStreamInferResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<Option<Self::Item>> {
        self.answers.as_mut().poll_next(cx)
    }
}

/// What a call is answered with.
type Served<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl GrpcInferenceService for InferenceService {
    async fn server_live(&self, _: Request<ServerLiveRequest>) -> Served<ServerLiveResponse> {
        Ok(Response::new(ServerLiveResponse { live: true }))
    }

    async fn server_ready(&self, _: Request<ServerReadyRequest>) -> Served<ServerReadyResponse> {
        Ok(Response::new(ServerReadyResponse { ready: self.0.is_ready }))
    }

    async fn model_ready(&self, request: Request<ModelReadyRequest>) -> Served<ModelReadyResponse> {
        let request = request.into_inner();
        let ready = self.0.is_ready && self.0.find(&request.name, &request.version).is_ok();
        Ok(Response::new(ModelReadyResponse { ready }))
    }

    async fn server_metadata(&self, _: Request<ServerMetadataRequest>) -> Served<ServerMetadataResponse> {
        Ok(Response::new(server(&self.0)))
    }

    async fn model_metadata(&self, request: Request<ModelMetadataRequest>) -> Served<ModelMetadataResponse> {
        let request = request.into_inner();
        Ok(Response::new(metadata(self.0.find(&request.name, &request.version)?)))
    }

    async fn model_config(&self, request: Request<ModelConfigRequest>) -> Served<ModelConfigResponse> {
        let request = request.into_inner();
        let model = self.0.find(&request.name, &request.version)?;
        Ok(Response::new(ModelConfigResponse { config: Some(model.config.clone()) }))
    }

    async fn model_infer(&self, request: Request<ModelInferRequest>) -> Served<ModelInferResponse> {
        Ok(Response::new(self.0.infer(&request.into_inner()).await?))
    }

    /// As with the real server, the response headers come only with the first response.
    async fn model_stream_infer(&self, request: Request<Streaming<ModelInferRequest>>) -> Served<Answers> {
        let wants_status = request.metadata().get("triton_grpc_error").is_some_and(|value| value == "true");
        let (sender, receiver) = mpsc::unbounded_channel();
        let call = self.0.call();
        let owner = call.owner;
        let inner = Arc::clone(&self.0);
        let mut requests = request.into_inner();
        tokio::spawn(async move {
            // An error here means that the client disconnected; dropping the call ends its requests.
            while let Ok(Some(request)) = requests.message().await {
                match inner.accept(&request, false) {
                    Ok(accepted) => {
                        let stopped = inner.submit(accepted, owner, || Some(ResponseSink::Stream(sender.clone())));
                        if let Some(answer) = stopped.filter(|answer| answer.wants_empty_final) {
                            let _ = sender.send(Ok(answer.empty_final()));
                        }
                    }
                    Err(refusal) if wants_status => {
                        let _ = sender.send(Err(refusal));
                        return;
                    }
                    Err(refusal) => {
                        if sender.send(Ok(refused(&request, &inner, &refusal))).is_err() {
                            return;
                        }
                    }
                }
            }
        });
        let mut answers = UnboundedReceiverStream::new(receiver);
        let first = answers.next().await;
        let answers: Answers = Box::pin(tokio_stream::iter(first).chain(answers));
        Ok(Response::new(Box::pin(GuardedResponseStream::new(answers, call))))
    }

    async fn model_statistics(&self, request: Request<ModelStatisticsRequest>) -> Served<ModelStatisticsResponse> {
        let request = request.into_inner();
        Ok(Response::new(statistics(&self.0, &request.name, &request.version)?))
    }

    async fn repository_index(&self, _: Request<RepositoryIndexRequest>) -> Served<RepositoryIndexResponse> {
        Ok(Response::new(index(&self.0)))
    }

    async fn repository_model_load(
        &self,
        _: Request<RepositoryModelLoadRequest>,
    ) -> Served<RepositoryModelLoadResponse> {
        Err(load_refused())
    }

    async fn repository_model_unload(
        &self,
        _: Request<RepositoryModelUnloadRequest>,
    ) -> Served<RepositoryModelUnloadResponse> {
        Err(load_refused())
    }

    async fn system_shared_memory_status(
        &self,
        _: Request<SystemSharedMemoryStatusRequest>,
    ) -> Served<SystemSharedMemoryStatusResponse> {
        Ok(Response::new(SystemSharedMemoryStatusResponse::default()))
    }

    async fn cuda_shared_memory_status(
        &self,
        _: Request<CudaSharedMemoryStatusRequest>,
    ) -> Served<CudaSharedMemoryStatusResponse> {
        Ok(Response::new(CudaSharedMemoryStatusResponse::default()))
    }

    async fn trace_setting(&self, _: Request<TraceSettingRequest>) -> Served<TraceSettingResponse> {
        Ok(Response::new(trace_message()))
    }

    async fn log_settings(&self, _: Request<LogSettingsRequest>) -> Served<LogSettingsResponse> {
        Ok(Response::new(log_message()))
    }
}

#[tonic::async_trait]
impl Health for InferenceService {
    async fn check(&self, _: Request<HealthCheckRequest>) -> Served<HealthCheckResponse> {
        let status = if self.0.is_ready { ServingStatus::Serving } else { ServingStatus::NotServing };
        Ok(Response::new(HealthCheckResponse { status: status.into() }))
    }
}

/// An error inside the stream, with its request id; only the backend's errors are marked as the request's last
/// response.
fn refused(request: &ModelInferRequest, inner: &ServiceInner, refusal: &Status) -> ModelStreamInferResponse {
    let version = inner.models.get(&request.model_name).map(version).unwrap_or_default();
    let response = empty_response(&request.model_name, &version, &request.id);
    let error_message = refusal.message().to_owned();
    if is_by_backend(refusal) {
        return ModelStreamInferResponse { error_message, ..ServedAnswer::streamed(response, true) };
    }
    ModelStreamInferResponse { error_message, infer_response: Some(response) }
}

/// The backend refused the request, after the server took it.
fn is_by_backend(refusal: &Status) -> bool {
    refusal.code() == Code::Internal
}

pub(super) fn server(inner: &ServiceInner) -> ServerMetadataResponse {
    let extensions =
        ["model_repository", "model_configuration", "binary_tensor_data", "parameters", "statistics", "generate"];
    ServerMetadataResponse {
        name: "triton".to_owned(),
        version: format!("regatta-simulator-{}", env!("CARGO_PKG_VERSION")),
        extensions: extensions.map(str::to_owned).into_iter().chain(inner.own_extensions()).collect(),
    }
}

pub(super) fn metadata(model: &LoadedModel) -> ModelMetadataResponse {
    let config = &model.config;
    let tensor = |name: &str, data_type, dims: &[i64]| TensorMetadata {
        name: name.to_owned(),
        datatype: wire_name(data_type).to_owned(),
        shape: full_shape(config.max_batch_size, dims),
    };
    let platform = if config.platform.is_empty() { &config.backend } else { &config.platform };
    ModelMetadataResponse {
        name: model.name.clone(),
        versions: model.versions.iter().map(u64::to_string).collect(),
        platform: platform.clone(),
        inputs: config.input.iter().map(|it| tensor(&it.name, it.data_type(), &it.dims)).collect(),
        outputs: config.output.iter().map(|it| tensor(&it.name, it.data_type(), &it.dims)).collect(),
    }
}

/// The statistics of one model, or of all if `name` is empty.
pub(super) fn statistics(inner: &ServiceInner, name: &str, version: &str) -> Result<ModelStatisticsResponse, Status> {
    if !name.is_empty() {
        inner.find(name, version)?;
    }
    let models = inner.models.values().filter(|model| name.is_empty() || model.name == name);
    let model_stats = models.filter_map(|model| Some(inner.statistics.get(&model.name)?.message(model))).collect();
    Ok(ModelStatisticsResponse { model_stats })
}

pub(super) fn index(inner: &ServiceInner) -> RepositoryIndexResponse {
    let models = inner.models.values().map(|model| ModelIndex {
        name: model.name.clone(),
        version: version(model),
        state: "READY".to_owned(),
        reason: String::new(),
    });
    RepositoryIndexResponse { models: models.collect() }
}

// Triton's extensions that this server has nothing to do for: its settings, shared memory, and models that are loaded
// at its start only. Clients ask for them at their beginning.

/// As a Triton without `--model-control-mode=explicit` refuses it.
pub(super) fn load_refused() -> Status {
    Status::unavailable("explicit model load / unload is not allowed if polling is enabled")
}

/// Nothing is traced.
pub(super) fn trace_settings() -> Value {
    json!({
        "trace_level": ["OFF"], "trace_rate": "1000", "trace_count": "-1", "log_frequency": "0", "trace_file": "",
        "trace_mode": "triton",
    })
}

/// A server's defaults.
pub(super) fn log_settings() -> Value {
    json!({
        "log_file": "", "log_info": true, "log_warning": true, "log_error": true, "log_verbose_level": 0,
        "log_format": "default",
    })
}

pub(super) fn trace_message() -> TraceSettingResponse {
    let texts = |value: &Value| match value {
        Value::Array(several) => several.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        one => one.as_str().map(str::to_owned).into_iter().collect(),
    };
    let setting = |(name, value): (&String, &Value)| (name.clone(), TraceValue { value: texts(value) });
    TraceSettingResponse { settings: settings(&trace_settings(), setting) }
}

pub(super) fn log_message() -> LogSettingsResponse {
    let choice = |value: &Value| match value {
        Value::Bool(is_on) => ParameterChoice::BoolParam(*is_on),
        Value::Number(number) => ParameterChoice::Uint32Param(number.as_u64().unwrap_or_default() as u32),
        other => ParameterChoice::StringParam(other.as_str().unwrap_or_default().to_owned()),
    };
    let setting = |(name, value): (&String, &Value)| (name.clone(), LogValue { parameter_choice: Some(choice(value)) });
    LogSettingsResponse { settings: settings(&log_settings(), setting) }
}

fn settings<T>(all: &Value, setting: impl Fn((&String, &Value)) -> (String, T)) -> BTreeMap<String, T> {
    all.as_object().into_iter().flatten().map(setting).collect()
}
