//! Makes requests arrive on schedule and measures the answers; ends in a verdict.
//!
//! A spec is composed of when requests arrive, when the schedule ends, and what they carry; one driver serves every combination.
//! Open loop: arrivals are absolute, nothing is re-anchored or dropped, and latency counts from the *intended* time, so a
//! stalled server cannot hide.
//!
//! ```text
//!  spec ─→ schedule ─→ drive (over transport) ─→ measure: records, RunResult ─→ verdict
//!                                                          search: the next rate to try
//! ```
//!
//! Never starts a server, never prints, never decides what a verdict means for the pipeline.

mod clock;
mod drive;
mod error;
pub mod gpu;
mod identity;
mod measure;
mod record;
mod schedule;
mod search;
mod spec;
mod tokens;
mod transport;
mod verdict;

pub use drive::driver::{BenchProgress, run, run_outside};
pub use drive::external_driver::{CallInlet, ExternalObserver, ExternalSample};
pub use error::HarnessError;
pub use identity::{
    EngineIdentity, GpuIdentity, HostIdentity, IdentityDifference, ManifestIdentity, RunIdentity, ServerIdentity,
    Simulation, ask as ask_identity, ask_all as ask_identities, changes_of_servers, identity_differences,
};
pub use measure::adjusted::Adjusted;
pub use measure::by_host::{HostShare, host_of};
pub use measure::consistency::{Mismatch, SelfCheck};
pub use measure::goodput::{Goodput, Slo};
pub use measure::load_summary::{LoadSummary, SessionsSummary};
pub use measure::loadgen::{LoadgenComparison, LoadgenResult, ReportingDelay};
pub use measure::metric::{ConfidenceInterval, Metric};
pub use measure::repeats::{OverRuns, REPEATS, RepeatedRun, Repeats, repeat_folder, repeat_folders, result_of_repeats};
pub use measure::result::{
    ClientUsage, Connections, Counts, ExtraOutput, FailureCounts, LatencyMetrics, LittlesLaw, Measured, Rates, Reason,
    ReasonSeverity, Requested, RunResult, ServerSide, TimeSlice, TokenCounts, Versions, Withdrawals,
};
pub use measure::result_files::{amend, read_result, result_schema, write, write_result};
pub use measure::stability::{ColdStart, Freeze, Occupancy, Stability, Sustained};
pub use measure::steady::{Drift, Steady};
pub use measure::summary::FULL as FULL_WINDOW;
pub use record::{FailureClass, RequestEnd, RequestRecord, ServerStamps};
pub use schedule::data::{
    DataKind, DataSummary, History, Prefixes, PreviousAnswers, Prompt, PromptFile, PromptSource, RecordOrder, Sessions,
    Weighted,
};
pub use schedule::plan::{PlannedRequest, RequestSchedule, RequestTrigger, plan};
pub use search::{FoundRate, ProbeStep, RateBounds, RateProbe};
pub use spec::level::{LoadLevel, LoadSegment};
pub use spec::limits::{FurtherLimits, GoodputLimit, LatencyLimit, LimitedMetric, Limits, Statistic};
pub use spec::pause::Pause;
pub use spec::protocol::{Api, Http, Protocol, Tls};
pub use spec::request::{Cancel, CancelBy, Interface, RandomSeed, Request, Words};
pub use spec::response_limits::ResponseLimits;
pub use spec::retries::{FailedAttempt, Retries};
pub use spec::{Arrivals, BenchSpec, CallSource, Length, Scenario, SendingSpec, StopAfter, StreamMode};
pub use tokens::{CachedInput, FinishReason, TokenSource, Usage, Violation};
pub use verdict::preflight;
