//! The output of a run: `result.json`, version 1. Every number carries its definition.
//!
//! Times are ms, rates per second, unless a name states otherwise.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{Lowered, Verdict};
use crate::harness::gpu::{GpuTrace, GpusUsage};
use crate::harness::preflight::PreflightResult;
use crate::harness::{
    Adjusted, Arrivals, BenchSpec, CachedInput, CancelBy, FailureClass, FinishReason, FurtherLimits, Goodput,
    HostShare, Length, LoadSummary, LoadgenResult, Metric, Pause, Protocol, Repeats, Request, RequestRecord,
    RequestSchedule, Retries, RunIdentity, Scenario, SelfCheck, Slo, Stability, Steady, StreamMode, Violation,
};
use crate::triton::{Scrape, ServerMetrics};

/// The version of `result.json`.
pub(in crate::harness) const SCHEMA: u32 = 1;

/// A run's result and the requests it was computed from.
#[derive(Debug)]
pub struct Measured {
    pub result: RunResult,
    /// By index. Lost arrivals have none.
    pub requests: Vec<RequestRecord>,
    /// The plan as it was carried out.
    pub schedule: Arc<RequestSchedule>,
    /// The start: what all stamps count from.
    pub zero: std::time::Instant,
    /// All that the servers' own metrics said, where somebody asked them.
    pub scrape: Option<Scrape>,
    /// All that was read of their GPUs.
    pub gpu: Option<GpuTrace>,
}

impl Measured {
    /// What another process measured and wrote: its requests and its plan are in its files only.
    pub fn elsewhere(result: RunResult, zero: std::time::Instant) -> Self {
        let schedule = Arc::new(crate::harness::schedule::plan::elsewhere());
        Self { result, requests: Vec::new(), schedule, zero, scrape: None, gpu: None }
    }

    /// What only those who watch the server know: it died or fell silent under the measurement.
    pub fn server_failed(&mut self, text: impl Into<String>) {
        let reason = Reason { check: "server".to_owned(), severity: ReasonSeverity::InvalidServer, text: text.into() };
        self.result.reasons.insert(0, reason);
        self.result.verdict = crate::harness::verdict::verdict(&self.result.reasons);
    }

    /// What the servers' metrics counted meanwhile, and whether that is what was sent.
    pub fn server_counted(&mut self, metrics: ServerMetrics) {
        self.result.server_metrics = Some(metrics);
        self.result.reasons.extend(crate::harness::verdict::other_load(&self.result));
        self.result.reasons.sort_by_key(|reason| reason.severity);
        self.result.verdict = crate::harness::verdict::verdict(&self.result.reasons);
    }

    /// What the servers had less of than the manifest says, because memory ran out with more.
    pub fn lowered(&mut self, lowered: &[Lowered]) {
        for one in lowered {
            let text = format!("the server ran with {one}: memory ran out with more, and its retry rule lowered it");
            self.result.reasons.push(Reason { check: "lowered".to_owned(), severity: ReasonSeverity::Warning, text });
        }
        self.result.verdict = crate::harness::verdict::verdict(&self.result.reasons);
    }

    /// What LoadGen said, and what speaks against the run because of it.
    pub fn loadgen_said(&mut self, said: LoadgenResult, reasons: Vec<Reason>) {
        let all = &mut self.result.reasons;
        for reason in all.iter_mut().filter(|reason| matches!(reason.check.as_str(), "lag" | "cpu")) {
            // For LoadGen the client is part of what it measures: lateness makes its numbers worse, never better.
            reason.severity = ReasonSeverity::Warning;
        }
        all.extend(reasons);
        all.sort_by_key(|reason| reason.severity);
        self.result.verdict = crate::harness::verdict::verdict(all);
        self.result.loadgen = Some(said);
    }
}

/// The result of one benchmark run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// The version of this format. Always 1.
    #[schemars(range(min = 1, max = 1))]
    pub schema: u32,
    pub verdict: Verdict,
    /// Why the verdict is not VALID, worst first.
    pub reasons: Vec<Reason>,
    /// What was measured: servers, GPUs, engines, client, manifest. Absent in results of programs that did not ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<RunIdentity>,
    pub asked: Requested,
    /// BLAKE3 of all arrivals and lengths and of what prompts are drawn from.
    pub schedule_digest: String,
    /// How random numbers are drawn from the seed.
    pub generator: String,
    /// Start of set-up, RFC 3339, UTC.
    pub started: String,
    /// What was planned to be sent.
    #[serde(default)]
    pub load: LoadSummary,
    pub counts: Counts,
    pub tokens: TokenCounts,
    pub rates: Rates,
    pub latency: LatencyMetrics,
    /// Null when no promise was made.
    pub goodput: Option<Goodput>,
    pub steady: Option<Steady>,
    /// Whether the run measured one state of the server.
    #[serde(default)]
    pub stability: Stability,
    /// With `return_perf_metrics`: the server's own view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerSide>,
    /// With `cancel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withdrawals: Option<Withdrawals>,
    /// Outputs asked for beside tokens.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, ExtraOutput>,
    pub little: LittlesLaw,
    /// Whether the numbers of this result agree with each other.
    #[serde(default)]
    pub self_check: SelfCheck,
    pub client: ClientUsage,
    pub connections: Connections,
    /// One for each second from the start.
    pub slices: Vec<TimeSlice>,
    /// At most 200 points of (ms, share of values up to it) for each of `ttft`, `tpot`, `e2e`.
    pub curves: BTreeMap<String, Vec<(f64, f64)>>,
    pub versions: Versions,
    /// Of a run that MLPerf's LoadGen drove: what it said, beside what we saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loadgen: Option<LoadgenResult>,
    /// What the servers' own `/metrics` said meanwhile; absent where none has a metrics port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_metrics: Option<ServerMetrics>,
    /// What their GPUs did; absent where nobody could tell.
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
}

/// One finding of the verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// Which check: `failures`, `lag`, `rate`, `limits`, …
    pub check: String,
    pub severity: ReasonSeverity,
    pub text: String,
}

impl Reason {
    /// `check: text`, as it stands below a verdict.
    pub fn line(&self) -> String {
        format!("{}: {}", self.check, self.text)
    }
}

/// What a finding makes of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReasonSeverity {
    InvalidServer,
    InvalidClient,
    InvalidLoad,
    Warning,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Requested {
    /// `host:port` of each server.
    pub endpoints: Vec<String>,
    pub model: String,
    pub scenario: Scenario,
    pub arrivals: Arrivals,
    pub stop_requests: Option<u64>,
    pub stop_duration_ms: Option<f64>,
    pub input_len: Length,
    pub output_len: Length,
    pub seed: u64,
    pub warmup: u32,
    #[serde(default)]
    pub warmup_ms: Option<f64>,
    /// Of users between an answer and the next request.
    #[serde(default)]
    pub think: Pause,
    pub frontends: u32,
    pub clients: u32,
    pub stall_timeout_ms: f64,
    pub ttft_p99_limit_ms: Option<f64>,
    pub tpot_p99_limit_ms: Option<f64>,
    /// Left out: only those two.
    #[serde(default, skip_serializing_if = "FurtherLimits::is_empty")]
    pub further_limits: FurtherLimits,
    pub slo: Slo,
    pub vocab_size: u32,
    pub end_id: i32,
    /// The protocol of requests.
    #[serde(default)]
    pub protocol: Protocol,
    /// Of KServe's streams; left out when each request has its own.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub stream: StreamMode,
    /// Left out: what failed was not sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<Retries>,
    /// What each request asked for besides.
    #[serde(default)]
    pub request: Request,
}

/// Nothing was said of it.
fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Requested {
    pub(in crate::harness) fn of(spec: &BenchSpec) -> Self {
        let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        Self {
            endpoints: spec.endpoints.iter().map(ToString::to_string).collect(),
            model: spec.model.clone(),
            scenario: spec.scenario.clone(),
            arrivals: spec.arrivals,
            stop_requests: spec.stop.requests,
            stop_duration_ms: spec.stop.duration.map(ms),
            input_len: spec.input_len.clone(),
            output_len: spec.output_len.clone(),
            seed: spec.seed,
            warmup: spec.warmup,
            warmup_ms: spec.pace.warmup_for.map(ms),
            think: spec.pace.think,
            frontends: spec.frontends,
            clients: spec.clients,
            stall_timeout_ms: ms(spec.stall_timeout),
            ttft_p99_limit_ms: spec.limits.ttft_p99.map(ms),
            tpot_p99_limit_ms: spec.limits.tpot_p99.map(ms),
            further_limits: spec.limits.further.clone(),
            slo: spec.slo(),
            vocab_size: spec.vocab_size,
            end_id: spec.end_id,
            protocol: spec.protocol.clone(),
            stream: spec.pace.stream,
            retries: spec.pace.retries,
            request: spec.request.clone(),
        }
    }
}

/// `scheduled = ok + failed + cancelled + withdrawn + in_flight_at_end + lost`, exactly, or the run is invalid.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    pub scheduled: u64,
    pub issued: u64,
    pub ok: u64,
    pub failed: u64,
    /// Failed ones by class.
    pub failed_by_class: BTreeMap<FailureClass, u64>,
    /// The first failures in each class, as the server or the connection told them.
    pub failures: Vec<FailureCounts>,
    /// Ended by us, because the run was stopped.
    pub cancelled: u64,
    /// Why servers ended answers, of all answers that say so.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub finish_reasons: BTreeMap<FinishReason, u64>,
    /// What in answers contradicts their protocol, by class: messages, over all requests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub violations: BTreeMap<Violation, u64>,
    /// The first of each class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub violation_examples: BTreeMap<Violation, String>,
    /// Ended by us early, as `cancel` asks.
    #[serde(default)]
    pub withdrawn: u64,
    /// Attempts that failed and were followed by another, with `retries`; no requests of their own.
    #[serde(default)]
    pub retried: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub retried_by_class: BTreeMap<FailureClass, u64>,
    pub in_flight_at_end: u64,
    /// Never issued, because the run was stopped.
    pub lost: u64,
    pub conserved: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailureCounts {
    pub class: FailureClass,
    pub request: u64,
    pub why: String,
}

/// Tokens of successful requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TokenCounts {
    /// Where output counts come from: `output_ids`, `usage`, responses, `retokenized` text, or what was asked for.
    pub source: String,
    /// By what the tokens of single chunks are counted (inter-token latency, tokens of each second, timelines), where that
    /// is not `source`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_source: Option<String>,
    /// Successful answers of at least two chunks of which it is not known how many tokens each chunk has.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub chunk_tokens_unknown: u64,
    /// What `input` counts: `input_ids`, or words of a text, which the model's tokenizer may cut otherwise.
    #[serde(default)]
    pub input_source: String,
    pub input: u64,
    /// What the server counts for the same prompts, where it says so for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_server: Option<u64>,
    /// What of the prompts came from the server's prefix cache, where it reports that. Null: no answer does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_cached: Option<CachedInput>,
    pub output: u64,
    /// What the schedule asked of the same requests.
    pub output_asked: u64,
    /// Requests with fewer tokens than asked (an end token).
    pub shorter: u64,
    /// Requests with more.
    pub longer: u64,
    /// Mean tokens of the first chunk that had any.
    pub mean_first_chunk: Option<f64>,
    /// Share of chunks that came in one socket read with the one before.
    pub coalesced_share: Option<f64>,
    /// Successful streams without a final marker.
    pub without_final_marker: u64,
}

/// Per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// From the schedule's start to the end of the last successful request.
    pub window_s: f64,
    /// (N − 1) / time between first and last intended arrival; null for Offline.
    pub offered: Option<f64>,
    /// The same for real issues.
    pub admitted: Option<f64>,
    /// Successful requests / window.
    pub requests_full: Option<f64>,
    /// (ok − 1) / (end of the last-issued successful request − first issue).
    pub requests_loadgen_completed: Option<f64>,
    /// Output tokens of successful requests / window.
    pub output_tokens: Option<f64>,
}

/// The metrics. "From schedule" is the headline; "sent" is what tools without a schedule print.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyMetrics {
    /// First token − intended arrival.
    pub ttft: Metric,
    /// First token − issue.
    pub ttft_sent: Metric,
    /// (last − first token chunk) / (tokens − tokens of the first chunk). Absent where a total is known and the tokens of the first
    /// chunk are not.
    pub tpot: Metric,
    /// Gap between chunks over tokens of the later one, that many times. Absent where the tokens of single chunks are not known.
    pub itl_token: Metric,
    /// Gap between chunks.
    pub icl: Metric,
    /// Last token − intended arrival.
    pub e2e: Metric,
    /// Last token − issue.
    pub e2e_sent: Metric,
    /// Largest gap within each request.
    pub max_stall: Metric,
    /// TTFT of all scheduled requests, those without an answer as infinitely late.
    pub ttft_adjusted: Adjusted,
    /// The same for the last token − intended arrival.
    pub e2e_adjusted: Adjusted,
    /// Issue − intended arrival: the client's own lateness. Of every issued request.
    pub queue_client: Metric,
}

/// What the server stamps of successful requests, beside what we see. Its clock is its own: only differences are used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerSide {
    /// first_scheduled_time_ns − arrival_time_ns.
    pub queue: Metric,
    /// first_token_time_ns − arrival_time_ns.
    pub ttft: Metric,
    /// last_token_time_ns − arrival_time_ns.
    pub e2e: Metric,
    /// Our TTFT from the issue less the server's: network, both protocol stacks, and the front end of the server.
    pub ttft_outside: Metric,
    /// Sums over requests.
    pub kv_cache_alloc_new_blocks: i64,
    pub kv_cache_reused_blocks: i64,
    pub kv_cache_alloc_total_blocks: i64,
    /// Successful requests without stamps.
    pub without: u64,
}

/// Requests that were ended early, as `cancel` asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Withdrawals {
    pub by: CancelBy,
    pub after_tokens: u32,
    pub share: f64,
    pub requests: u64,
    /// Tokens that they had in all; more than `after_tokens` each when the server went on for a while.
    pub tokens: u64,
    /// From the cancel to the end of the answer; with `rpc` we hang up and the end is ours.
    pub end_after_cancel: Metric,
}

/// What came of one output beside tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExtraOutput {
    pub responses: u64,
    pub bytes: u64,
    /// Tensors whose shape does not fit the request.
    pub misshapen: u64,
    /// The first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
}

/// The terms of Little's law: requests in flight (a running gauge), rate and time (the records). All of them come from the client's own
/// stamps, so that they agree by construction and are no check of the measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LittlesLaw {
    pub in_flight_mean: f64,
    pub rate: f64,
    pub time_s: f64,
    pub relative_error: Option<f64>,
}

/// The load generator itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// Largest distance of the real gaps from the law they were drawn from; null for equal gaps, traces and closed loops.
    pub ks_distance: Option<f64>,
    pub ks_critical: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    pub count: u64,
    /// The smallest limit on concurrent streams that a server told; null without one.
    pub max_streams: Option<u64>,
    /// How often the next request in line waited because every connection was full.
    pub waited_for_stream: u64,
    pub reconnects: u64,
    /// Kept HTTP connections that the server closed while they were idle, as every server may; no loss.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub idle_closed: u64,
    /// Requests sent again over a new connection, because a kept one was closed before any byte of an answer came.
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
pub struct TimeSlice {
    pub second: u64,
    /// Output tokens that came in it, from all requests; as `tokens.chunk_source` counts them, where that is there.
    pub tokens: u64,
    /// In flight when it began.
    pub in_flight: u64,
    /// First tokens that came in it.
    pub first_tokens: u64,
    /// Their mean TTFT.
    pub ttft_ms: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Versions {
    pub regatta: String,
    pub os: String,
    pub arch: String,
}
