//! Whether a server still answers, checked after it is ready.
//!
//! One small request a second. A late answer means nothing under load, least of all when the server shows by other means that
//! it works: no answer for [`SILENCE`] is a failure, and for [`BUSY_SILENCE`] while it works.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::HeaderMap;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use base::event::Endpoint;
use triton::{ClientError, ClientErrorKind, HttpAddress, HttpClient, TritonClient};

/// Interval between health requests.
pub const EVERY: Duration = Duration::from_secs(1);
/// Time limit of the first probe that is late, and of a single query. A probe after a late one is given twice as long: a new
/// connection queues behind all that wait already.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
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
#[derive(Clone, Debug, PartialEq)]
pub struct UnresponsiveServer {
    pub endpoint: Endpoint,
    pub for_s: f64,
    /// The result of the last probe.
    pub last: String,
}

impl std::fmt::Display for UnresponsiveServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.endpoint.name.as_ref().map(|name| format!("host {name}: ")).unwrap_or_default();
        write!(f, "{name}{} has not answered for {:.1} s: {}", self.endpoint, self.for_s, self.last)
    }
}

/// Resolves when the server has been silent for as long as `limits` allow. `work` is any number that grows while the server
/// works, and is asked for after a late probe; `on_answer` is called at each answer.
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
    let mut patience = QUERY_TIMEOUT;
    let mut limit = limits.idle;
    let mut worked = None;
    loop {
        tick.tick().await;
        // No probe outlasts the limit, but each has time to be answered.
        let left = limit.saturating_sub(since.elapsed()).max(QUERY_TIMEOUT);
        let allowed = patience.min(left);
        let answer = match timeout(allowed, probe_once(endpoint, &question, &mut client)).await {
            Ok(answer) => answer,
            Err(_) => Err(NotHealthy::Late(allowed)),
        };
        match answer {
            Ok(()) => {
                since = Instant::now();
                (patience, worked) = (QUERY_TIMEOUT, None);
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
    #[error("it reports that {0} is not ready any more")]
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
    let listed: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    Ok(listed["data"][0]["id"].as_str().map(str::to_owned))
}

/// Its callers decide how long they wait.
fn http_client(endpoint: &Endpoint) -> HttpClient {
    let address = HttpAddress { host: endpoint.host.clone(), port: endpoint.http.unwrap_or(endpoint.grpc) };
    HttpClient::new(address).deadline(BUSY_SILENCE)
}

/// A server without such an endpoint has answered. Any other refusal may come from something in its place: a proxy on the way
/// to an unreachable host.
fn answered(error: ClientError) -> Result<(), NotHealthy> {
    if error.code() == Some(tonic::Code::Unimplemented) { Ok(()) } else { Err(error.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_waited_long_enough_is_a_late_answer_and_a_refusal_is_none() {
        let of = |why| NotHealthy::from(ClientError { request: "ServerLive".into(), address: "host:1".into(), why });
        let limit = Duration::from_secs(10);
        assert!(matches!(of(ClientErrorKind::Timeout(limit)), NotHealthy::Late(late) if late == limit));
        assert!(matches!(of(ClientErrorKind::Malformed("x".into())), NotHealthy::Call(_)));
    }
}
