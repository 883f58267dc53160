//! Serves a model repository over gRPC, in simulated time.
//!
//! Everything that a real server would do before it opens its port happens before the port opens: the repository is
//! read and refused as by a real server. Never prints; the caller does.

mod answer;
mod driver;
mod http;
mod inputs;
mod load;
mod request;
mod service;
mod statistics;
mod vllm;

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use self::driver::{Driver, ServerCounters, SimClock};
use self::http::{Open, PortRole};
pub use self::load::LoadFailure;
use self::load::LoadedModel;
use self::request::PromptTokens;
use self::service::{InferenceService, ServiceInner};
use self::statistics::Statistics;
pub use answer::token;
use base::units::counted;
use triton::proto::health::health_server::HealthServer;
use triton::proto::inference::grpc_inference_service_server::GrpcInferenceServiceServer;

/// How to serve.
#[derive(Clone, Debug, PartialEq)]
pub struct SimOptions {
    /// One `triton_model_repo_<n>`.
    pub repository: PathBuf,
    /// Port 0 takes a free one.
    pub grpc: SocketAddr,
    /// Triton's HTTP service and OpenAI's interface.
    pub http: Option<SocketAddr>,
    /// Prometheus metrics.
    pub metrics: Option<SocketAddr>,
    /// Simulated seconds per real second.
    pub speed: f64,
    /// Simulated seconds until the port opens, as the loading of an engine takes them.
    pub load_seconds: f64,
    /// HTTP/2 streams of one connection. Triton sets no limit.
    pub max_concurrent_streams: Option<u32>,
    /// How long streams may continue after the stop.
    pub exit_timeout: Duration,
    pub faults: Faults,
}

impl SimOptions {
    /// Real time, no loading time, no faults.
    pub fn new(repository: PathBuf, grpc: SocketAddr) -> Self {
        Self {
            repository,
            grpc,
            http: None,
            metrics: None,
            speed: 1.0,
            load_seconds: 0.0,
            max_concurrent_streams: None,
            exit_timeout: Duration::from_secs(30),
            faults: Faults::default(),
        }
    }
}

/// Faults to inject.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Faults {
    /// [`serve`] fails at once after this many answered requests.
    pub die_after_requests: Option<u64>,
    /// No further token after this many; the server still reports that it is ready.
    pub stall_after_tokens: Option<u64>,
    /// The port opens and the server never reports that it is ready.
    pub never_ready: bool,
    /// The request of this number, from 1, fails in the backend.
    pub error_on_request: Option<u64>,
    /// The last token's response is not marked as final; an empty response is, if the request contains the flag for
    /// one.
    pub final_apart: bool,
}

/// The last bytes of the last call need a moment to leave.
const FLUSH: Duration = Duration::from_millis(100);

/// Why serving ended other than by the stop.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("failed to load all models: {}", load_failures(.0))]
    Load(Vec<LoadFailure>),
    #[error("`speed` is {0}; it must be a positive number")]
    Speed(f64),
    #[error("`load_seconds` is {0}; it must be 0 or more")]
    LoadSeconds(f64),
    #[error("socket '{address}' is not available: {message}")]
    Port { address: SocketAddr, message: String },
    #[error("cannot start a scheduler thread")]
    Thread(#[source] std::io::Error),
    #[error("the transport failed")]
    Transport(#[from] tonic::transport::Error),
    #[error("died after {}, as configured", counted(*.0, "request"))]
    Died(u64),
    #[error("exit timeout: streams were still open {0:?} after the stop")]
    ExitTimeout(Duration),
}

fn load_failures(failures: &[LoadFailure]) -> String {
    failures.iter().map(|(name, error)| format!("{name}: {error}")).collect::<Vec<_>>().join("; ")
}

/// Where a server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub grpc: SocketAddr,
    pub http: Option<SocketAddr>,
    pub metrics: Option<SocketAddr>,
}

/// Serves until `stop` resolves, then lets calls in flight finish. `on_ready` receives the addresses once all ports are
/// open.
pub async fn serve(
    options: SimOptions,
    stop: impl Future<Output = ()> + Send + 'static,
    on_ready: impl FnOnce(Addresses),
) -> Result<(), ServeError> {
    if !(options.speed.is_finite() && options.speed > 0.0) {
        return Err(ServeError::Speed(options.speed));
    }
    let loading = Duration::try_from_secs_f64(options.load_seconds / options.speed)
        .map_err(|_| ServeError::LoadSeconds(options.load_seconds))?;
    let models = load::load(&options.repository).map_err(ServeError::Load)?;
    let prompts = PromptTokens::load(&models).map_err(ServeError::Load)?;
    let mut stop = Box::pin(stop);
    // Without a port, as a server that is loading has none.
    tokio::select! {
        () = &mut stop => return Ok(()),
        () = tokio::time::sleep(loading) => {}
    }
    let unavailable = |address: SocketAddr, message: String| ServeError::Port { address, message };
    let incoming =
        listen(options.grpc).map(TcpIncoming::from).map_err(|error| unavailable(options.grpc, error.to_string()))?;
    let grpc = incoming.local_addr().map_err(|error| unavailable(options.grpc, error.to_string()))?;
    let mut faces = Vec::new();
    let mut addresses = Addresses { grpc, http: None, metrics: None };
    for (wanted, face, found) in [
        (options.http, PortRole::Service, &mut addresses.http),
        (options.metrics, PortRole::Metrics, &mut addresses.metrics),
    ] {
        let Some(wanted) = wanted else { continue };
        let bind_error = |error: std::io::Error| unavailable(wanted, error.to_string());
        let open = Open::bind(wanted, face).map_err(bind_error)?;
        *found = Some(open.address().map_err(bind_error)?);
        faces.push(open);
    }
    let dead = CancellationToken::new();
    let inner = start(models, prompts, &options, &dead)?;
    let open = inner.open.clone();
    on_ready(addresses);

    let stopped = CancellationToken::new();
    let cancellation_token = stopped.clone();
    let inner = Arc::new(inner);
    let faces: Vec<_> =
        faces.into_iter().map(|open| tokio::spawn(open.serve(Arc::clone(&inner), stopped.clone()))).collect();
    let service = InferenceService(inner);
    let message_limit = i32::MAX as usize;
    let server = Server::builder()
        .max_concurrent_streams(options.max_concurrent_streams)
        .add_service(
            GrpcInferenceServiceServer::new(service.clone())
                .max_decoding_message_size(message_limit)
                .max_encoding_message_size(message_limit),
        )
        .add_service(HealthServer::new(service))
        .serve_with_incoming_shutdown(incoming.with_nodelay(Some(true)), async move {
            stop.await;
            cancellation_token.cancel();
        });
    // Idle connections do not keep the server running, open calls do.
    let emptied = async {
        stopped.cancelled().await;
        open.close();
        let in_time = tokio::time::timeout(options.exit_timeout, open.wait()).await;
        tokio::time::sleep(FLUSH).await;
        in_time.map_err(|_| ServeError::ExitTimeout(options.exit_timeout))
    };
    let ended = tokio::select! {
        biased;
        () = dead.cancelled() => Err(ServeError::Died(options.faults.die_after_requests.unwrap_or_default())),
        ended = server => Ok(ended?),
        emptied = emptied => emptied,
    };
    faces.iter().for_each(tokio::task::JoinHandle::abort);
    ended
}

/// One thread for each copy of each engine.
fn start(
    models: BTreeMap<String, LoadedModel>,
    prompts: PromptTokens,
    options: &SimOptions,
    dead: &CancellationToken,
) -> Result<ServiceInner, ServeError> {
    let clock = SimClock::new(options.speed);
    let mut drivers = BTreeMap::new();
    for model in models.values() {
        let Some(engine) = model.engine() else { continue };
        let shared = Arc::new(ServerCounters {
            stall_after_tokens: options.faults.stall_after_tokens,
            die_after_requests: options.faults.die_after_requests,
            dead: dead.clone(),
            ..ServerCounters::default()
        });
        let mut copies = Vec::new();
        for _ in 0..engine.instances {
            let driver = Driver::start(&model.name, engine, clock, Arc::clone(&shared));
            copies.push(driver.map_err(ServeError::Thread)?);
        }
        drivers.insert(model.name.clone(), (copies, shared));
    }
    Ok(ServiceInner {
        statistics: Statistics::new(models.keys()),
        models,
        prompts,
        drivers,
        clock,
        started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64()),
        is_ready: !options.faults.never_ready,
        is_final_apart: options.faults.final_apart,
        error_on_request: options.faults.error_on_request,
        calls: AtomicU64::new(0),
        requests: AtomicU64::new(0),
        open: TaskTracker::new(),
    })
}

// Opens the ports of a simulated server.

/// Connections that may wait to be taken. A client may open thousands at once, and where the machine is busy a shorter
/// queue resets them (the kernel's own limit is `net.core.somaxconn`, 4096).
const BACKLOG: u32 = 4096;

/// Port 0 takes a free one.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
