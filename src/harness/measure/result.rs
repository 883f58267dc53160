//! The output of a run: `result.json`, version 1. Every number carries its definition.
//!
//! Times are ms, rates per second, unless a name states otherwise.
//!
//! What MLPerf's LoadGen reported for a run that it drove, next to our own records of the same requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::gpu::{GpuTrace, GpusUsage};
pub use crate::measure::latency::{Cancellations, LatencyMetrics, Rates, ServerSide};
use crate::measure::reasons::{VerdictReasons, verdict_of_file};
use crate::record::is_usual;
use crate::{
    CachedInput, CutInput, FailureClass, FinishReason, Goodput, HostShare, LoadConditions, Reason, Repeats,
    RequestRecords, RequestSchedule, Requested, RunIdentity, SelfCheck, Stability, Steady, VerdictCheck, Violation,
};
use base::event::Verdict;
use base::spec::StreamMode;
use triton::{Scrape, ServerMetrics};

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
        Self { result, requests: RequestRecords::new([]), schedule, zero, scrape: None, gpu: None }
    }
}

/// The result of one benchmark run. Fields that another version of this program did not write have their default.
#[base::omit_empty(except(reasons, goodput, steady))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// The version of this format. Always 1.
    #[schemars(range(min = 1, max = 1))]
    pub schema: u32,
    pub(in crate::measure) verdict: Verdict,
    /// Why the verdict is not VALID, worst first.
    pub(in crate::measure) reasons: Vec<Reason>,
    /// What was measured: servers, GPUs, engines, client, manifest. Absent in results of programs that did not query
    /// it.
    pub identity: Option<RunIdentity>,
    #[serde(alias = "asked")]
    pub requested: Requested,
    /// BLAKE3 of all arrivals and lengths and of what prompts are drawn from.
    #[serde(default)]
    pub schedule_digest: String,
    /// The generator that draws random numbers from the seed.
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
    pub server: Option<ServerSide>,
    /// With `cancel`.
    #[serde(default, alias = "withdrawals", skip_serializing_if = "Option::is_none")]
    pub cancellations: Option<Cancellations>,
    /// Requested outputs other than tokens.
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
    /// What MLPerf's LoadGen reported, if it drove the run. The other fields are what Regatta measured.
    pub loadgen: Option<LoadgenResult>,
    /// What the servers' own `/metrics` reported meanwhile; absent where none has a metrics port.
    pub server_metrics: Option<ServerMetrics>,
    /// Activity of the servers' GPUs; absent where it could not be read.
    pub gpu: Option<GpusUsage>,
    /// Whether this machine could make the load, tried before; absent where it was not tried.
    pub preflight: Option<PreflightResult>,
    /// What each host did, where there are several.
    pub hosts: Vec<HostShare>,
    /// The same of each server, where there are several; `host` is its address.
    pub endpoints: Vec<HostShare>,
    /// Of a measurement that was made several times.
    pub repeats: Option<Repeats>,
    /// What another version of this program wrote and this one does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: BTreeMap<String, Value>,
}

/// What a time to the first token is where answers come whole.
pub const WHOLE_ANSWERS: &str = "answers do not stream, so TTFT is the time of the whole answer";

impl RunResult {
    pub fn verdict(&self) -> Verdict {
        verdict_of_file(self.verdict, &self.reasons)
    }

    /// Why the verdict is not VALID, worst first.
    pub fn reasons(&self) -> &[Reason] {
        &self.reasons
    }

    /// Answers came whole, and no warning says so: offline a run is measured by its throughput. Its TTFT is that of the
    /// whole answer.
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

/// `scheduled = ok + failed + cancelled + cancelled_early + in_flight_at_end + not_sent`, exactly, or the run is
/// invalid.
#[base::omit_empty(except(failed_by_class, failures))]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Counts {
    pub scheduled: u64,
    pub issued: u64,
    pub ok: u64,
    pub failed: u64,
    /// Failed ones by class.
    pub failed_by_class: BTreeMap<FailureClass, u64>,
    /// The first failures in each class, as the server or the connection reported them.
    pub failures: Vec<FailureCounts>,
    /// Ended by us, because the run was stopped.
    pub cancelled: u64,
    /// Why servers ended answers, of all answers that say so.
    pub finish_reasons: BTreeMap<FinishReason, u64>,
    /// Successful answers that broke off, as it seems: shorter than requested, without a finish reason and without
    /// usage, while others of the same server have a finish reason.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub broken_off: u64,
    /// Likewise, where more than a fifth of a server's answers are so: it leaves out by habit what would say why they
    /// ended.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub unexplained: u64,
    /// What in answers contradicts their protocol, by class: messages, over all requests.
    pub violations: BTreeMap<Violation, u64>,
    /// The first example of each class.
    pub violation_examples: BTreeMap<Violation, String>,
    /// Ended by us early, as `cancel` sets.
    #[serde(alias = "withdrawn")]
    pub cancelled_early: u64,
    /// Attempts that failed and were followed by another, with `retries`; no requests of their own.
    pub retried: u64,
    pub retried_by_class: BTreeMap<FailureClass, u64>,
    pub in_flight_at_end: u64,
    /// Never issued, because the run was stopped.
    #[serde(alias = "lost")]
    pub not_sent: u64,
    pub conserved: bool,
}

impl Counts {
    /// Of the issued requests, the share that failed or whose answer broke off; the failure budget limits it.
    pub(crate) fn failed_share(&self) -> f64 {
        (self.failed + self.broken_off) as f64 / self.issued.max(1) as f64
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailureCounts {
    pub class: FailureClass,
    pub request: u64,
    pub why: String,
}

/// Tokens of successful requests.
#[base::omit_empty(except(mean_first_chunk, coalesced_share))]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TokenCounts {
    /// Where output counts come from: `output_ids`, `usage`, responses, `retokenized` text, or what was requested.
    pub source: String,
    /// By what the tokens of single chunks are counted (inter-token latency, tokens of each second, timelines), where
    /// that is not `source`.
    pub chunk_source: Option<String>,
    /// Successful answers of at least two chunks of which it is not known how many tokens each chunk has.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub chunk_tokens_unknown: u64,
    /// What `input` counts: `input_ids`, or words of a text, which the model's tokenizer may cut otherwise.
    pub input_source: String,
    pub input: u64,
    /// What the server counts for the same prompts, where it reports that for each.
    pub input_server: Option<u64>,
    /// What of the prompts came from the server's prefix cache, where it reports that. Null: no answer does.
    pub input_cached: Option<CachedInput>,
    /// Prompts that the server counts as far shorter than they were sent. Null: none.
    pub input_cut: Option<CutInput>,
    pub output: u64,
    /// The part of it that `usage` counts as reasoning, where it reports that.
    pub output_reasoning: Option<u64>,
    /// What the schedule requested of the same requests.
    #[serde(alias = "output_asked")]
    pub output_requested: u64,
    /// Requests with fewer tokens than requested (an end token).
    pub shorter: u64,
    /// Requests with more.
    pub longer: u64,
    /// Mean tokens of the first chunk that had any.
    pub mean_first_chunk: Option<f64>,
    /// Share of chunks that came in one socket read with the one before: they count as one arrival, and ITL and TPOT
    /// spread its time over its tokens.
    pub coalesced_share: Option<f64>,
    /// Share of the gaps between chunks of one answer that are in answers that came in one socket read as a whole,
    /// without those that a freeze held up.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub one_read_share: Option<f64>,
    /// Successful answers that came in one piece: over HTTP without a stream of events, or in one chunk of it.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub whole_answers: u64,
    /// Successful streams without a final marker.
    pub without_final_marker: u64,
}

/// What came of one output beside tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExtraOutput {
    pub responses: u64,
    pub bytes: u64,
    /// Tensors whose shape does not fit the request.
    pub misshapen: u64,
    /// The first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
}

/// The terms of Little's law: requests in flight (a running gauge), rate and time (the records). All of them come from
/// the client's own stamps, so that they agree by construction and are no check of the measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LittlesLaw {
    pub in_flight_mean: f64,
    pub rate: f64,
    pub time_s: f64,
    pub relative_error: Option<f64>,
}

/// The load generator itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ClientUsage {
    pub workers: u64,
    pub cores: u64,
    /// `stream` or `unary`.
    pub call: String,
    pub pacing: String,
    /// Busiest worker's share of one core.
    pub cpu_share_max: f64,
    /// CPU of all workers per 1,000 chunks, ms.
    pub cpu_ms_per_1000_chunks: Option<f64>,
    /// Largest share of time that a worker was runnable and had no core.
    pub core_wait_share_max: Option<f64>,
    /// From socket read to our hands, p99, ms.
    pub backlog_p99_ms: Option<f64>,
    /// Largest distance of the real gaps from the law they were drawn from; null for equal gaps, traces and closed
    /// loops.
    pub ks_distance: Option<f64>,
    pub ks_critical: Option<f64>,
    #[serde(skip_serializing_if = "is_usual")]
    pub late: LateRequests,
}

/// Late requests, counted against each of the two limits of the check `lag`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LateRequests {
    /// By more than the first limit.
    pub late: u64,
    /// By more than the second.
    pub very_late: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Connections {
    pub count: u64,
    /// The smallest limit on concurrent streams that a server announced; null without one.
    pub max_streams: Option<u64>,
    /// How often the next request in line waited because every connection was full.
    pub waited_for_stream: u64,
    pub reconnects: u64,
    /// Kept HTTP connections that the server closed while they were idle, as every server may; no loss.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub idle_closed: u64,
    /// Requests sent again over a new connection, because the server closed a kept one when they were sent, before any
    /// byte of an answer.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub resent: u64,
    /// Of streaming calls over gRPC: whether requests had a stream each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamMode>,
    /// Shared streams that were opened, with those of warm-up; more than connections means that some ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_streams: Option<u64>,
}

/// One second of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TimeSlice {
    pub second: u64,
    /// Output tokens that came in it, from all requests; as `tokens.chunk_source` counts them, where that is there.
    pub tokens: u64,
    /// In flight when it began.
    pub in_flight: u64,
    /// The most in flight at once during it. Absent in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight_max: Option<u64>,
    /// First tokens that came in it.
    pub first_tokens: u64,
    /// Their mean TTFT.
    pub ttft_ms: Option<f64>,
}

/// Whether this machine could make the load, as it was tried just before the measurement.
#[base::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PreflightResult {
    /// Against what, over which protocol.
    pub server: String,
    /// How it ended: `good`, `warning`, `invalid_client`.
    pub outcome: String,
    /// 2: the first one was not good, and the better of the two is reported.
    pub tries: u32,
    pub seconds: f64,
    pub requests: u64,
    /// Arrivals per second, or …
    pub rate: Option<f64>,
    /// … users.
    pub users: Option<f64>,
    pub connections: u64,
    pub tokens_per_answer: u32,
    /// Most requests under way at once.
    pub in_flight_max: u64,
    /// Issue behind schedule, p99 of all issued requests; absent for a closed loop, which has no schedule.
    pub lag_p99_ms: Option<f64>,
    pub lag_max_ms: Option<f64>,
    /// More requests beyond it than by chance are a warning, beyond the other they are invalid.
    pub lag_bound_ms: f64,
    pub lag_hard_bound_ms: f64,
    #[serde(skip_serializing_if = "is_usual")]
    pub late: LateRequests,
    /// Busiest worker's share of one core during the trial.
    pub cpu_share_max: f64,
    pub cpu_ms_per_1000_chunks: Option<f64>,
    pub workers: u64,
    /// Output tokens per second that the plan requires at its busiest; not known of a closed loop.
    pub planned_tokens_per_s: Option<f64>,
    /// Share of a core that each worker needs for them, from the CPU per chunk.
    pub cpu_share_planned: Option<f64>,
    /// How many times the planned load the workers' cores could do.
    pub headroom: Option<f64>,
}

/// `loadgen` in `result.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LoadgenResult {
    /// The version of `mlcommons-loadgen`, and the revision it was made from.
    pub version: String,
    pub revision: String,
    pub round: String,
    pub benchmark: String,
    /// As the rules write it.
    pub scenario: String,
    pub mode: String,
    /// With shortened durations: cannot be submitted.
    pub rehearsal: bool,
    /// `VALID`, `INVALID`; null where it gives no result, as in accuracy mode.
    pub result: Option<String>,
    /// What it reports of an INVALID result.
    pub why: Vec<String>,
    pub errors: u64,
    /// The first of them, as it logged them.
    pub first_errors: Vec<String>,
    /// What it is judged by.
    pub headline: String,
    /// Its numbers and ours.
    pub metrics: Vec<LoadgenComparison>,
    pub reporting: ReportingDelay,
}

/// One of LoadGen's numbers, and ours by its definition from our own stamps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LoadgenComparison {
    /// LoadGen's key, as its detail log has it.
    pub metric: String,
    pub unit: String,
    pub loadgen: f64,
    pub ours: Option<f64>,
    /// Ours less LoadGen's, of LoadGen's.
    pub difference_percent: Option<f64>,
    /// Ours, but with the times of the calls to LoadGen in place of those at which tokens were read: from `ours` to
    /// here is our way from the socket, from here to `loadgen` is LoadGen's own, from its schedule to its call.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "as_told")]
    pub as_reported: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "as_told_difference_percent")]
    pub as_reported_difference_percent: Option<f64>,
}

/// The way of a token from the socket to LoadGen, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReportingDelay {
    /// From the socket read that brought a first token to LoadGen's call.
    pub first_token_p50_us: Option<f64>,
    pub first_token_p99_us: Option<f64>,
    /// From the socket read that brought the last token of an answer to LoadGen's call.
    pub completion_p50_us: Option<f64>,
    pub completion_p99_us: Option<f64>,
    /// Inside LoadGen's call, per sample, on average.
    pub first_token_call_us: Option<f64>,
    pub completion_call_us: Option<f64>,
    /// Answers of fewer than two tokens: LoadGen divides by their number less one, and counts each as an error.
    pub too_short: u64,
    /// Requests that failed: completed without a token, so that LoadGen counts each as an error.
    pub failed: u64,
}

impl LoadgenResult {
    /// Whether it is judged by its speed: neither an accuracy run nor an audit.
    pub fn is_performance(&self) -> bool {
        self.mode == "performance"
    }

    pub fn is_accuracy(&self) -> bool {
        self.mode == "accuracy"
    }

    /// Whether it reports that a latency is over its limit, by the advice that it gives then.
    pub fn is_over_latency_limit(&self) -> bool {
        self.why.iter().any(|why| why.contains("Reduce target QPS to improve latency"))
    }

    /// Whether one of these latencies is TPOT.
    pub fn is_over_tpot_limit(&self) -> bool {
        self.why.iter().any(|why| why.contains("TPOT constrain not met"))
    }
}

impl LoadgenComparison {
    /// With the difference.
    pub fn new(metric: &str, unit: &str, loadgen: f64, ours: Option<f64>, as_reported: Option<f64>) -> Self {
        let percent =
            |other: Option<f64>| other.filter(|_| loadgen != 0.0).map(|other| (other - loadgen) / loadgen * 100.0);
        Self {
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            loadgen,
            ours,
            difference_percent: percent(ours),
            as_reported,
            as_reported_difference_percent: percent(as_reported),
        }
    }
}

#[cfg(test)]
mod loadgen_tests {
    use super::*;

    #[test]
    fn differences_are_shares_of_loadgens_number() {
        assert_eq!(LoadgenComparison::new("a", "ms", 200.0, Some(199.0), None).difference_percent, Some(-0.5));
        assert_eq!(LoadgenComparison::new("a", "ms", 0.0, Some(1.0), None).difference_percent, None);
        assert_eq!(LoadgenComparison::new("a", "ms", 1.0, None, Some(1.5)).difference_percent, None);
        assert_eq!(LoadgenComparison::new("a", "ms", 1.0, None, Some(1.5)).as_reported_difference_percent, Some(50.0));
    }
}
