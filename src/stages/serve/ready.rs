//! Whether servers answer. Until they are ready: side by side, within one limit for all, and step by step, so that the
//! user sees how far it is, and a hang can be named: process up, port open, live, ready, each model ready.
//!
//! Afterwards: one small request a second. A late answer means nothing under load, least of all when the server shows
//! by other means that it works: no answer for [`SILENCE`] is a failure, and for [`BUSY_SILENCE`] while it works.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::HeaderMap;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::loading::LoadingProgress;
use super::planned_server::{PlannedServer, ReadinessProbe};
use super::watch::exit_failure;
use crate::task_context::TaskContext;
use base::event::{Endpoint, Failure};
use exec::process::ExitKind;
use triton::{ClientError, ClientErrorKind, HttpAddress, HttpClient, ListeningService, TritonClient, probe};

/// How often a server that is not ready is looked at again.
const PAUSE: Duration = Duration::from_millis(50);
/// Interval between progress messages to the user.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// Time limit of a single probe: a server that accepts and never answers is not ready.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a server stands.
#[derive(Debug)]
enum Step {
    /// Started; its port is not known yet.
    Started,
    /// It does not have what is awaited, `ServerLive at 127.0.0.1:8001`; why, when it was last looked at.
    Waiting {
        state: PortState,
        awaited: String,
        last: String,
    },
    Up,
}

/// What a server that is not ready shows of itself.
#[derive(Clone, Copy, Debug)]
enum PortState {
    Closed,
    /// It accepts connections.
    Open,
    Live,
}

/// Why one look found no server that is ready.
enum NotReady {
    Yet(Step),
    /// It will never be: why.
    Never(String),
}

fn waiting(state: PortState, awaited: String, last: &dyn Display) -> NotReady {
    NotReady::Yet(Step::Waiting { state, awaited, last: last.to_string() })
}

fn closed(endpoint: &Endpoint, why: &dyn Display) -> NotReady {
    waiting(PortState::Closed, format!("{endpoint} to open"), why)
}

/// The state of one server that all tasks share.
struct ReadinessState {
    step: Step,
    loading: LoadingProgress,
}

/// Why waiting for one server makes no sense any more.
struct ReadinessError(String);

type Shared = Arc<Mutex<ReadinessState>>;

/// The servers, in order, once the last one is ready.
pub async fn all(
    context: &TaskContext,
    planned: &[Arc<PlannedServer>],
    limit: Duration,
) -> Result<Vec<Endpoint>, Failure> {
    let begun = Instant::now();
    let state =
        |server: &PlannedServer| ReadinessState { step: Step::Started, loading: LoadingProgress::new(&server.log) };
    let boards: Vec<Shared> = planned.iter().map(|server| Arc::new(Mutex::new(state(server)))).collect();
    let mut waiting = JoinSet::new();
    for (index, server) in planned.iter().enumerate() {
        let (server, board) = (Arc::clone(server), Arc::clone(&boards[index]));
        waiting.spawn(async move { (index, wait_until_ready(&server, &board).await) });
    }
    let mut ups: Vec<Option<Endpoint>> = planned.iter().map(|_| None).collect();
    let deadline = tokio::time::sleep(limit);
    tokio::pin!(deadline);
    let mut tick = tokio::time::interval(PROGRESS_INTERVAL);
    loop {
        tokio::select! {
            biased;
            came = waiting.join_next() => match came {
                Some(Ok((index, Ok(up)))) => ups[index] = Some(up),
                Some(Ok((index, Err(ReadinessError(why))))) => {
                    return Err(exit_failure(context, &planned[index], why, ExitKind::Code(1), None));
                }
                Some(Err(panic)) => {
                    let problem = format!("waiting for it failed: {panic}");
                    return Err(exit_failure(context, &planned[0], problem, ExitKind::Stopped, None));
                }
                None => return Ok(ups.into_iter().flatten().collect()),
            },
            () = &mut deadline => return Err(late(context, planned, &boards, limit)),
            _ = tick.tick() => report_progress(context, planned, &boards, begun),
        }
    }
}

async fn wait_until_ready(server: &PlannedServer, board: &Shared) -> Result<Endpoint, ReadinessError> {
    loop {
        let endpoint = {
            let mut board = board.lock();
            board.loading.read_new_lines();
            if let Some(line) = &board.loading.hopeless {
                return Err(ReadinessError(format!("{} will wait for its Python model forever: {line}", server.name)));
            }
            server.endpoint.clone().or_else(|| board.loading.ports.clone())
        };
        if let Some(endpoint) = endpoint {
            let answer = match server.probe {
                ReadinessProbe::Port => connect(&endpoint).await,
                ReadinessProbe::Health => healthy(&endpoint).await,
                ReadinessProbe::OpenAi => has_model(&endpoint).await,
                ReadinessProbe::Kserve => probe_over_grpc(server, &endpoint).await,
                ReadinessProbe::Detect => detect(server, &endpoint).await,
            };
            match answer {
                Ok(up) => {
                    board.lock().step = Step::Up;
                    return Ok(up);
                }
                Err(NotReady::Never(why)) => return Err(ReadinessError(why)),
                Err(NotReady::Yet(step)) => board.lock().step = step,
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// One look at a server whose port says all: its endpoint if it is ready, else where it stands, as with all of them.
async fn connect(endpoint: &Endpoint) -> Result<Endpoint, NotReady> {
    let connected = timeout(QUERY_TIMEOUT, TcpStream::connect((endpoint.host.as_str(), endpoint.grpc))).await;
    connected.map_err(|_| closed(endpoint, &"no answer"))?.map_err(|error| closed(endpoint, &error))?;
    Ok(endpoint.clone())
}

/// One look at a server that has `/health`.
async fn healthy(endpoint: &Endpoint) -> Result<Endpoint, NotReady> {
    let open = |why: &str| waiting(PortState::Open, format!("`GET /health` at {endpoint}"), &why);
    let answer = timeout(QUERY_TIMEOUT, health(endpoint)).await.map_err(|_| open("no answer"))?;
    answer.map(|()| endpoint.clone()).map_err(|error| match error.why {
        why @ ClientErrorKind::Connect { .. } => closed(endpoint, &why),
        why => open(&why.to_string()),
    })
}

/// One look at a server of which only the port is known.
async fn detect(server: &PlannedServer, endpoint: &Endpoint) -> Result<Endpoint, NotReady> {
    match probe(&endpoint.host, endpoint.grpc).await {
        ListeningService::Grpc => probe_server(server, endpoint).await,
        ListeningService::Nothing => Err(closed(endpoint, &"nothing listens there")),
        ListeningService::Other => Err(not_live(endpoint, &"it speaks neither gRPC nor HTTP")),
        ListeningService::Http | ListeningService::Metrics | ListeningService::OtherHttp => {
            lists_models(&Endpoint { http: Some(endpoint.grpc), ..endpoint.clone() }).await
        }
    }
}

fn not_live(endpoint: &Endpoint, why: &dyn Display) -> NotReady {
    waiting(PortState::Open, format!("ServerLive at {endpoint}"), why)
}

/// Like [`probe_server`], for a server of the user's: one that speaks HTTP will never be ready over gRPC.
async fn probe_over_grpc(server: &PlannedServer, endpoint: &Endpoint) -> Result<Endpoint, NotReady> {
    let answer = probe_server(server, endpoint).await;
    if let Err(NotReady::Yet(Step::Waiting { state: PortState::Closed | PortState::Open, .. })) = &answer
        && let ListeningService::Http | ListeningService::Metrics | ListeningService::OtherHttp =
            probe(&endpoint.host, endpoint.grpc).await
    {
        return Err(NotReady::Never(format!(
            "{} speaks HTTP at {endpoint}, and `ready.by: kserve` waits for gRPC's ServerReady: write `detect`, or \
             leave `by` out",
            server.name
        )));
    }
    answer
}

/// One look at a server that has `/health` and `/v1/models`.
async fn has_model(endpoint: &Endpoint) -> Result<Endpoint, NotReady> {
    lists_models(&healthy(endpoint).await?).await
}

/// Whether it lists a model.
async fn lists_models(endpoint: &Endpoint) -> Result<Endpoint, NotReady> {
    let live = |why: String| waiting(PortState::Live, format!("`GET /v1/models` at {endpoint}"), &why);
    let answer = timeout(QUERY_TIMEOUT, first_model(endpoint)).await;
    match answer.map_err(|_| live("/v1/models: no answer".to_owned()))?.map_err(|error| error.why) {
        // With an API key only `/health` is open.
        Ok(Some(_)) | Err(ClientErrorKind::Http { status: 401 | 403, .. }) => Ok(endpoint.clone()),
        // Not every server has a list.
        Err(ClientErrorKind::Http { status: 404 | 405, .. }) => healthy(endpoint).await,
        Ok(None) => Err(live("/v1/models lists none".to_owned())),
        Err(why) => Err(live(format!("/v1/models: {why}"))),
    }
}

/// One look at a KServe server, with a new connection: while it starts it often closes the first ones.
async fn probe_server(server: &PlannedServer, endpoint: &Endpoint) -> Result<Endpoint, NotReady> {
    let live = |why: String| waiting(PortState::Live, format!("ServerReady at {endpoint}"), &why);
    let connected = timeout(QUERY_TIMEOUT, TritonClient::connect(endpoint)).await;
    let connected = connected.map_err(|_| closed(endpoint, &"no answer"))?;
    let client = connected.map_err(|error| closed(endpoint, &error.why))?.deadline(QUERY_TIMEOUT);
    if !client.is_live().await.map_err(|error| not_live(endpoint, &error_text(&error)))? {
        return Err(not_live(endpoint, &"it reports that it is not"));
    }
    let ready = client.is_ready().await.unwrap_or(false);
    let index = match client.repository_index(false).await {
        Ok(index) => index,
        // Not every KServe server has a repository.
        Err(error) if error.code().is_some() => Vec::new(),
        Err(error) => return Err(live(error.call_and_why())),
    };
    let failed: Vec<String> = index
        .iter()
        .filter(|model| model.state == "UNAVAILABLE" && !model.reason.is_empty() && model.reason != "unloaded")
        .map(|model| format!("{}: {}", model.name, model.reason))
        .collect();
    if !failed.is_empty() {
        let state = if ready { "reports ready, but without" } else { "is up without" };
        return Err(NotReady::Never(format!("{} {state} {}", server.name, failed.join("; "))));
    }
    let in_state = |state: &str| -> Vec<&str> {
        index.iter().filter(|model| model.state == state).map(|model| model.name.as_str()).collect()
    };
    let (models, waits) = (in_state("READY"), in_state("LOADING"));
    let counted = format!("{} of {} models READY", models.len(), models.len() + waits.len());
    if !ready {
        return Err(live(if index.is_empty() { "the server is live but not ready".to_owned() } else { counted }));
    }
    let models_missing = |why: String| waiting(PortState::Live, format!("its models at {endpoint}"), &why);
    if !waits.is_empty() {
        return Err(models_missing(format!("{counted}, {} still loads", waits.join(", "))));
    }
    for model in models {
        match client.is_model_ready(model, "").await {
            Ok(true) => {}
            Ok(false) => return Err(models_missing(format!("{model} is READY in the index and reports not ready"))),
            Err(error) => return Err(models_missing(format!("{model}: {}", error.why))),
        }
    }
    Ok(endpoint.clone())
}

fn error_text(error: &ClientError) -> String {
    if error.code() == Some(tonic::Code::Unimplemented) {
        "the port answers, but not as a Triton server".to_owned()
    } else {
        error.why.to_string()
    }
}

/// One line for all: how many are ready, and where the first of the others stands.
fn report_progress(context: &TaskContext, planned: &[Arc<PlannedServer>], boards: &[Shared], begun: Instant) {
    let up = boards.iter().filter(|board| matches!(board.lock().step, Step::Up)).count();
    let first = planned.iter().zip(boards).find(|(_, board)| !matches!(board.lock().step, Step::Up));
    let Some((server, board)) = first else { return };
    let board = board.lock();
    let stands = match &board.step {
        Step::Started | Step::Waiting { state: PortState::Closed, .. } => {
            board.loading.status_text().unwrap_or_else(|| "loading".to_owned())
        }
        Step::Waiting { state: PortState::Open, .. } => "its port is open".to_owned(),
        Step::Waiting { state: PortState::Live, last, .. } => last.clone(),
        Step::Up => "ready".to_owned(),
    };
    let mut text = format!("{}: {stands}, {} s", server.name, begun.elapsed().as_secs());
    if let Some(last) = &board.loading.last {
        /// A line of a terminal is short.
        const ROOM: usize = 80;
        let cut: String = context.redacted(last).chars().take(ROOM).collect();
        text = format!("{text}: {cut}");
    }
    let (loaded, begun) = board.loading.count();
    drop(board);
    let (done, total) = match planned.len() {
        1 if begun > 0 => (loaded as u64, Some(begun as u64)),
        1 => (0, None),
        servers => (up as u64, Some(servers as u64)),
    };
    context.lease.report_progress(text, done, total);
}

/// The failure after the time limit: which servers were not ready, and the step at which each one hung.
fn late(context: &TaskContext, planned: &[Arc<PlannedServer>], boards: &[Shared], limit: Duration) -> Failure {
    let mut others = Vec::new();
    let mut first = None;
    for (server, board) in planned.iter().zip(boards) {
        let board = board.lock();
        let waited = match &board.step {
            Step::Up => continue,
            Step::Started => "waited for the line `ready grpc=PORT` in its log".to_owned(),
            Step::Waiting { awaited, last, .. } => format!("waited for {awaited}: {last}"),
        };
        let mut message = format!("{} was not ready within {limit:?}: {waited}", server.name);
        if let Some(stands) = board.loading.status_text() {
            message = format!("{message}; according to its log it hung while {stands}");
        }
        let quiet = board.loading.grew.elapsed().as_secs();
        if quiet > 0 {
            message = format!("{message}; its log is unchanged for {quiet} s");
        }
        match first {
            None => first = Some((server, message)),
            Some(_) => others.push(server.name.clone()),
        }
    }
    let Some((server, mut what)) = first else {
        return exit_failure(context, &planned[0], "it was late".to_owned(), ExitKind::Stopped, None);
    };
    if !others.is_empty() {
        what = format!("{what} (neither were {})", others.join(", "));
    }
    let failure = exit_failure(context, server, what, ExitKind::Code(1), None);
    if failure.hint.is_some() { failure } else { failure.hint("raise `ready.timeout`; its log shows how far it got") }
}

/// Interval between health requests.
pub const EVERY: Duration = Duration::from_secs(1);
/// Time limit of the first probe that is late, and of a single query. A probe after a late one is given twice as long:
/// a new connection queues behind all that wait already.
const HEALTH_QUERY_TIMEOUT: Duration = Duration::from_secs(2);
/// A server that has not answered for this long is gone.
pub const SILENCE: Duration = Duration::from_secs(8);
/// The same of one that uses the processor or answers requests meanwhile.
const BUSY_SILENCE: Duration = Duration::from_secs(30);

/// How long a server may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SilenceLimits {
    /// While it shows no work.
    pub idle: Duration,
    /// While it works.
    pub busy: Duration,
}

impl SilenceLimits {
    /// Of a server that this run watches.
    pub const USUAL: Self = Self { idle: SILENCE, busy: BUSY_SILENCE };

    /// The same, later by `by`.
    pub fn later(self, by: Duration) -> Self {
        Self { idle: self.idle + by, busy: self.busy + by }
    }
}

/// How a server is probed.
#[derive(Clone, Debug)]
pub enum HealthProbe {
    /// ServerLive, and ModelReady for each of these models. The headers are the metadata of the calls.
    Kserve(Vec<String>, HeaderMap),
    /// A TCP connection.
    Port,
    /// `GET /health`.
    Health,
}

/// A server that does not answer any more.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "{}{endpoint} has not answered for {for_s:.1} s: {last}",
    endpoint.name.as_ref().map(|name| format!("host {name}: ")).unwrap_or_default()
)]
pub struct UnresponsiveServer {
    pub endpoint: Endpoint,
    pub for_s: f64,
    /// The result of the last probe.
    pub last: String,
}

/// Resolves when the server has been silent for as long as `limits` allow. `work` is any number that grows while the
/// server works, and is asked for after a late probe; `on_answer` is called at each answer.
pub async fn silent(
    endpoint: &Endpoint,
    question: HealthProbe,
    limits: SilenceLimits,
    work: impl Fn() -> u64,
    on_answer: impl Fn(Instant),
) -> UnresponsiveServer {
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut client = None;
    let mut since = Instant::now();
    let mut patience = HEALTH_QUERY_TIMEOUT;
    let mut limit = limits.idle;
    let mut worked = None;
    loop {
        tick.tick().await;
        // No probe outlasts the limit, but each has time to be answered.
        let left = limit.saturating_sub(since.elapsed()).max(HEALTH_QUERY_TIMEOUT);
        let allowed = patience.min(left);
        let answer = timeout(allowed, probe_once(endpoint, &question, &mut client)).await;
        match answer.unwrap_or(Err(NotHealthy::Late(allowed))) {
            Ok(()) => {
                since = Instant::now();
                (patience, worked) = (HEALTH_QUERY_TIMEOUT, None);
                on_answer(since);
            }
            Err(last) => {
                // A connection that failed once may never recover; a new one shows whether the server answers.
                client = None;
                patience *= 2;
                let work = work();
                // After the first late probe there is nothing to compare with. A refusal has nothing to do with load.
                let has_worked = worked.replace(work).is_some_and(|before| work > before);
                let is_busy = has_worked && matches!(last, NotHealthy::Late(_));
                limit = if is_busy { limits.busy } else { limits.idle };
                if since.elapsed() >= limit {
                    return UnresponsiveServer {
                        endpoint: endpoint.clone(),
                        for_s: since.elapsed().as_secs_f64(),
                        last: last.to_string(),
                    };
                }
            }
        }
    }
}

/// Resolves when one of several has been silent for as long as `limits` allow; `work` is that of all of them.
pub async fn any_silent(
    endpoints: Vec<Endpoint>,
    question: HealthProbe,
    limits: SilenceLimits,
    work: Arc<AtomicU64>,
) -> UnresponsiveServer {
    let mut watches = JoinSet::new();
    for endpoint in endpoints {
        let (question, work) = (question.clone(), Arc::clone(&work));
        let work = move || work.load(Ordering::Relaxed);
        watches.spawn(async move { silent(&endpoint, question, limits, work, |_| {}).await });
    }
    match watches.join_next().await {
        Some(Ok(silent)) => silent,
        _ => std::future::pending().await,
    }
}

/// The result of a probe that a healthy server does not give.
#[derive(Debug, thiserror::Error)]
enum NotHealthy {
    #[error("no answer within {0:?}")]
    Late(Duration),
    #[error("no connection: {0}")]
    Port(#[source] std::io::Error),
    #[error("{}", .0.call_and_why())]
    Call(ClientError),
    #[error("it reports that it is not live")]
    NotLive,
    #[error("it reports that {0} is no longer ready")]
    ModelNotReady(String),
}

/// A client that waited for as long as it may is a late answer, not a refusal.
impl From<ClientError> for NotHealthy {
    fn from(error: ClientError) -> Self {
        match error.why {
            ClientErrorKind::Timeout(limit) => Self::Late(limit),
            _ => Self::Call(error),
        }
    }
}

async fn probe_once(
    endpoint: &Endpoint,
    question: &HealthProbe,
    client: &mut Option<TritonClient>,
) -> Result<(), NotHealthy> {
    let (models, headers) = match question {
        HealthProbe::Kserve(models, headers) => (models, headers),
        HealthProbe::Port => {
            let connected = TcpStream::connect((endpoint.host.as_str(), endpoint.grpc)).await;
            return connected.map(drop).map_err(NotHealthy::Port);
        }
        HealthProbe::Health => return Ok(health(endpoint).await?),
    };
    if client.is_none() {
        // The caller decides how long it waits.
        *client = Some(TritonClient::connect_with(endpoint, headers.clone()).await?.deadline(BUSY_SILENCE));
    }
    let Some(client) = client else { return Ok(()) };
    match client.is_live().await {
        Ok(true) => {}
        Ok(false) => return Err(NotHealthy::NotLive),
        Err(error) => return answered(error),
    }
    for model in models {
        match client.is_model_ready(model, "").await {
            Ok(true) => {}
            Ok(false) => return Err(NotHealthy::ModelNotReady(model.clone())),
            Err(error) => return answered(error),
        }
    }
    Ok(())
}

/// Probes a server with OpenAI's API; anything but 200 is an error.
pub async fn health(endpoint: &Endpoint) -> Result<(), ClientError> {
    http_client(endpoint).text("/health").await.map(drop)
}

/// The first model that a server with OpenAI's API lists.
pub async fn first_model(endpoint: &Endpoint) -> Result<Option<String>, ClientError> {
    let text = http_client(endpoint).text("/v1/models").await?;
    let listed = base::files::json_report(text.as_bytes()).unwrap_or_default();
    Ok(listed["data"][0]["id"].as_str().map(str::to_owned))
}

/// Its callers decide how long they wait.
fn http_client(endpoint: &Endpoint) -> HttpClient {
    let address = HttpAddress { host: endpoint.host.clone(), port: endpoint.http_port() };
    HttpClient::new(address).deadline(BUSY_SILENCE)
}

/// A server without such an endpoint has answered. Any other refusal may come from something in its place: a proxy on
/// the way to an unreachable host.
fn answered(error: ClientError) -> Result<(), NotHealthy> {
    if error.code() == Some(tonic::Code::Unimplemented) { Ok(()) } else { Err(error.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_waited_long_enough_is_a_late_answer_and_a_refusal_is_none() {
        let not_healthy =
            |why| NotHealthy::from(ClientError { request: "ServerLive".into(), address: "host:1".into(), why });
        let limit = Duration::from_secs(10);
        assert!(matches!(not_healthy(ClientErrorKind::Timeout(limit)), NotHealthy::Late(late) if late == limit));
        assert!(matches!(not_healthy(ClientErrorKind::Malformed("x".into())), NotHealthy::Call(_)));
    }
}
