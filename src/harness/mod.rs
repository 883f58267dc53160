//! Makes requests arrive on schedule and measures the answers; ends in a verdict.
//!
//! Three parts are composed: when requests arrive (`arrival`), when the schedule ends (`spec::StopAfter`), what they carry
//! (`data`); one driver (`driver`, `worker`, `dispatcher`) serves every combination. Open loop: arrivals are absolute, nothing is
//! re-anchored or dropped, and latency counts from the *intended* time, so a stalled server cannot hide.
//!
//! ```text
//!  Spec ─plan→ Schedule ─run→ records and pools ─summarise→ RunResult ─judge→ verdict
//! ```
//!
//! Never starts a server, never prints, never decides what a verdict means for the pipeline.

mod adjusted;
mod arrival;
mod by_host;
mod clock;
mod collector;
mod connection;
mod consistency;
mod data;
mod dispatcher;
mod driver;
mod error;
mod external_driver;
mod extra_outputs;
mod goodput;
pub mod gpu;
mod grpc_messages;
mod handshake;
mod headline;
mod http;
mod identity;
mod in_flight;
mod infer_request;
mod limit_margin;
mod limits;
mod load_summary;
mod loadgen;
mod metric;
mod pacer;
mod payload;
mod plan;
pub mod preflight;
mod record;
mod repeats;
mod request;
mod request_attempt;
mod request_encoder;
mod response_limits;
mod result;
mod result_files;
mod retokenize;
mod retry;
mod rpc;
mod search;
mod secondary_metrics;
mod selfcheck;
mod shared_stream;
mod socket;
mod spec;
mod stability;
mod steady;
mod summary;
mod tokens;
mod unknown_chunks;
mod verdict;
mod worker;

#[cfg(test)]
mod bad_measurements;
#[cfg(test)]
mod golden;

pub use adjusted::Adjusted;
pub use arrival::{LoadLevel, LoadSegment, Pause};
pub use by_host::{HostShare, host_of};
pub use consistency::{Mismatch, SelfCheck};
pub use data::{
    DataKind, DataSummary, History, Prefixes, PreviousAnswers, Prompt, PromptFile, PromptSource, RecordOrder, Sessions,
    Weighted,
};
pub use driver::{BenchProgress, run, run_outside};
pub use error::HarnessError;
pub use external_driver::{CallInlet, ExternalObserver, ExternalSample};
pub use goodput::{Goodput, Slo};
pub use http::{Api, Http, Protocol, Tls};
pub use identity::{
    EngineIdentity, GpuIdentity, HostIdentity, IdentityDifference, ManifestIdentity, RunIdentity, ServerIdentity,
    Simulation, ask as ask_identity, ask_all as ask_identities, changes_of_servers, identity_differences,
};
pub use limits::{FurtherLimits, GoodputLimit, LatencyLimit, LimitedMetric, Limits, Statistic};
pub use load_summary::{LoadSummary, SessionsSummary};
pub use loadgen::{LoadgenComparison, LoadgenResult, ReportingDelay};
pub use metric::{ConfidenceInterval, Metric};
pub use plan::{PlannedRequest, RequestSchedule, RequestTrigger, plan};
pub use record::{FailureClass, RequestEnd, RequestRecord, ServerStamps};
pub use repeats::{OverRuns, REPEATS, RepeatedRun, Repeats, repeat_folder, repeat_folders, result_of_repeats};
pub use request::{Cancel, CancelBy, Interface, RandomSeed, Request, Words};
pub use response_limits::ResponseLimits;
pub use result::{
    ClientUsage, Connections, Counts, ExtraOutput, FailureCounts, LatencyMetrics, LittlesLaw, Measured, Rates, Reason,
    ReasonSeverity, Requested, RunResult, ServerSide, TimeSlice, TokenCounts, Versions, Withdrawals,
};
pub use result_files::{amend, read_result, result_schema, write, write_result};
pub use retry::{FailedAttempt, Retries};
pub use search::{FoundRate, ProbeStep, RateBounds, RateProbe};
pub use spec::{Arrivals, BenchSpec, CallSource, Length, Scenario, SendingSpec, StopAfter, StreamMode};
pub use stability::{ColdStart, Freeze, Occupancy, Stability, Sustained};
pub use steady::{Drift, Steady};
pub use summary::FULL as FULL_WINDOW;
pub use tokens::{CachedInput, FinishReason, TokenSource, Usage, Violation};
