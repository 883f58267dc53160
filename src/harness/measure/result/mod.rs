//! The output of a run: `result.json`, version 1. Every number carries its definition.
//!
//! Times are ms, rates per second, unless a name states otherwise.

mod client;
mod counts;
mod further_limits;
mod latency;
mod requested;
mod requested_retries;

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::gpu::{GpuTrace, GpusUsage};
use crate::{
    Goodput, HostShare, LoadConditions, LoadgenResult, Repeats, RequestRecords, RequestSchedule, RunIdentity,
    SelfCheck, Stability, Steady,
};
use base::event::Verdict;
use triton::{Scrape, ServerMetrics};

pub use self::client::{ClientUsage, Connections, LittlesLaw, TimeSlice};
pub use self::counts::{Counts, ExtraOutput, FailureCounts, TokenCounts};
pub use self::further_limits::{FurtherLimits, MinGoodput};
pub use self::latency::{Cancellations, LatencyMetrics, Rates, ServerSide};
pub use self::requested::Requested;
pub use self::requested_retries::RequestedRetries;
use super::preflight_result::PreflightResult;
use super::verdict_check::VerdictCheck;
use super::verdict_reason::{Reason, VerdictReasons};

/// The version of `result.json`.
pub(crate) const SCHEMA: u32 = 1;

/// A run's result and the requests it was computed from.
#[derive(Debug)]
pub struct Measured {
    pub result: RunResult,
    /// By index. Lost arrivals have none.
    pub requests: RequestRecords,
    /// The plan as it was carried out.
    pub schedule: Arc<RequestSchedule>,
    /// The start: what all stamps count from.
    pub zero: std::time::Instant,
    /// The servers' own metrics, where they were scraped.
    pub scrape: Option<Scrape>,
    /// All that was read of their GPUs.
    pub gpu: Option<GpuTrace>,
}

impl Measured {
    /// What another process measured and wrote: its requests and its plan are in its files only.
    pub(crate) fn from_other_process(result: RunResult, zero: std::time::Instant) -> Self {
        let schedule = Arc::new(RequestSchedule::empty());
        Self { result, requests: RequestRecords::of([]), schedule, zero, scrape: None, gpu: None }
    }
}

/// The result of one benchmark run. Fields that another version of this program did not write have their default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// The version of this format. Always 1.
    #[schemars(range(min = 1, max = 1))]
    pub schema: u32,
    pub(in crate::measure) verdict: Verdict,
    /// Why the verdict is not VALID, worst first.
    pub(in crate::measure) reasons: Vec<Reason>,
    /// What was measured: servers, GPUs, engines, client, manifest. Absent in results of programs that did not query it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<RunIdentity>,
    #[serde(alias = "asked")]
    pub requested: Requested,
    /// BLAKE3 of all arrivals and lengths and of what prompts are drawn from.
    #[serde(default)]
    pub schedule_digest: String,
    /// How random numbers are drawn from the seed.
    #[serde(default)]
    pub generator: String,
    /// Start of set-up, RFC 3339, UTC.
    #[serde(default)]
    pub started: String,
    /// What was planned to be sent.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub load: LoadConditions,
    #[serde(default)]
    pub counts: Counts,
    #[serde(default)]
    pub tokens: TokenCounts,
    #[serde(default)]
    pub rates: Rates,
    #[serde(default)]
    pub latency: LatencyMetrics,
    /// Null when no SLO is set.
    pub goodput: Option<Goodput>,
    pub steady: Option<Steady>,
    /// Whether the run measured one state of the server.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub stability: Stability,
    /// With `return_perf_metrics`: the server's own view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerSide>,
    /// With `cancel`.
    #[serde(default, alias = "withdrawals", skip_serializing_if = "Option::is_none")]
    pub cancellations: Option<Cancellations>,
    /// Requested outputs other than tokens.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, ExtraOutput>,
    #[serde(default)]
    pub little: LittlesLaw,
    /// Whether the numbers of this result agree with each other.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub self_check: SelfCheck,
    #[serde(default)]
    pub client: ClientUsage,
    #[serde(default)]
    pub connections: Connections,
    /// One for each second from the start.
    #[serde(default)]
    pub slices: Vec<TimeSlice>,
    /// At most 200 points of (ms, share of values up to it) for each of `ttft`, `tpot`, `e2e`.
    #[serde(default)]
    pub curves: BTreeMap<String, Vec<(f64, f64)>>,
    #[serde(default)]
    pub versions: Versions,
    /// Of a run that MLPerf's LoadGen drove: what it reported, beside what we measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loadgen: Option<LoadgenResult>,
    /// What the servers' own `/metrics` reported meanwhile; absent where none has a metrics port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_metrics: Option<ServerMetrics>,
    /// Activity of the servers' GPUs; absent where it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpusUsage>,
    /// Whether this machine could make the load, tried before; absent where it was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight: Option<PreflightResult>,
    /// What each host did, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostShare>,
    /// Of a measurement that was made several times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeats>,
    /// What another version of this program wrote and this one does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: BTreeMap<String, Value>,
}

/// What a time to the first token is where answers come whole.
pub const WHOLE_ANSWERS: &str = "answers do not stream, so TTFT is the time of the whole answer";

impl RunResult {
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Why the verdict is not VALID, worst first.
    pub fn reasons(&self) -> &[Reason] {
        &self.reasons
    }

    /// Answers came whole, and no warning says so: offline a run is measured by its throughput. Its TTFT is that of the whole answer.
    pub fn has_silently_whole_answers(&self) -> bool {
        self.has_whole_answers() && self.reasons.iter().all(|reason| reason.check != VerdictCheck::Unary)
    }

    /// Whether answers came whole, and not as streams.
    pub(crate) fn has_whole_answers(&self) -> bool {
        self.client.call == "unary" || self.requested.request.streaming == Some(false)
    }

    /// Why a server was lost during the measurement, if one was.
    pub fn server_lost(&self) -> Option<&Reason> {
        self.reasons.iter().find(|reason| reason.check == VerdictCheck::Server)
    }

    /// Sets the reasons and the verdict that follows from them, from all findings at once. Only `verdict` calls it.
    pub(crate) fn judged(&mut self, found: VerdictReasons) {
        self.verdict = found.verdict();
        self.reasons = found.into_reasons();
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Versions {
    pub regatta: String,
    pub os: String,
    pub arch: String,
}

/// Nothing is known of it.
fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
