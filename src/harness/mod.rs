//! Makes requests arrive on schedule and measures the answers; ends in a verdict.
//!
//! Three parts are composed: when requests arrive (`arrival`), when the schedule ends (`spec::StopAfter`), what they carry
//! (`data`); one driver (`drive`, `worker`, `lane`) serves every combination. Open loop: arrivals are absolute, nothing is
//! re-anchored or dropped, and latency counts from the *intended* time, so a stalled server cannot hide.
//!
//! ```text
//!  Spec ─plan→ Schedule ─run→ records and pools ─summarise→ RunResult ─judge→ verdict
//! ```
//!
//! Never starts a server, never prints, never decides what a verdict means for the pipeline.

mod adjusted;
mod again;
mod arrival;
mod beside;
mod by_host;
mod clock;
mod collect;
mod consistency;
mod data;
mod drive;
mod error;
mod exchange;
mod files;
mod flight;
mod form;
mod goodput;
pub mod gpu;
mod greet;
mod headline;
mod http;
mod identity;
mod judge;
mod lane;
mod limit_margin;
mod limits;
mod link;
mod loadgen;
mod manner;
mod metric;
mod more;
mod outside;
mod pacer;
mod payload;
mod plan;
pub mod preflight;
mod record;
mod repeats;
mod request;
mod response_limits;
mod result;
mod retokenize;
mod rpc;
mod search;
mod selfcheck;
mod shared;
mod socket;
mod spec;
mod stability;
mod steady;
mod summary;
mod tokens;
mod told;
mod unknown_chunks;
mod wire;
mod worker;

#[cfg(test)]
mod bad_measurements;
#[cfg(test)]
mod golden;

pub use adjusted::Adjusted;
pub use again::{FailedAttempt, Retries};
pub use arrival::{LoadLevel, Pause, LoadSegment};
pub use by_host::{HostShare, host_of};
pub use consistency::{Mismatch, SelfCheck};
pub use data::{PreviousAnswers, PromptSource, PromptFile, DataKind, DataSummary, History, RecordOrder, Prefixes, Prompt, Sessions, Weighted};
pub use drive::{BenchProgress, run, run_outside};
pub use error::HarnessError;
pub use files::{amend, read_result, result_schema, write, write_result};
pub use goodput::{Goodput, Slo};
pub use http::{Api, Http, Protocol, Tls};
pub use identity::{
    EngineIdentity, GpuIdentity, HostIdentity, IdentityDifference, ManifestIdentity, RunIdentity, ServerIdentity,
    Simulation, ask as ask_identity, ask_all as ask_identities, changes_of_servers, identity_differences,
};
pub use limits::{FurtherLimits, GoodputLimit, LatencyLimit, LimitedMetric, Limits, Statistic};
pub use loadgen::{LoadgenComparison, LoadgenResult, ReportingDelay};
pub use metric::{ConfidenceInterval, Metric};
pub use outside::{ExternalObserver, CallInlet, ExternalSample};
pub use plan::{RequestTrigger, PlannedRequest, RequestSchedule, plan};
pub use record::{FailureClass, RequestEnd, RequestRecord, ServerStamps};
pub use repeats::{OverRuns, REPEATS, RepeatedRun, Repeats, repeat_folder, repeat_folders, result_of_repeats};
pub use request::{Cancel, CancelBy, Interface, RandomSeed, Request, Words};
pub use response_limits::ResponseLimits;
pub use result::{
    Requested, ClientUsage, Connections, Counts, FailureCounts, LatencyMetrics, LittlesLaw, Measured, ExtraOutput, Rates, Reason, RunResult,
    ServerSide, ReasonSeverity, TimeSlice, TokenCounts, Versions, Withdrawals,
};
pub use search::{RateBounds, FoundRate, RateProbe, ProbeStep};
pub use spec::{Arrivals, CallSource, Length, SendingSpec, Scenario, BenchSpec, StreamMode, StopAfter};
pub use stability::{ColdStart, Freeze, Occupancy, Stability, Sustained};
pub use steady::{Drift, Steady};
pub use summary::FULL as FULL_WINDOW;
pub use tokens::{CachedInput, FinishReason, TokenSource, Usage, Violation};
pub use told::{LoadSummary, SessionsSummary};
