//! Makes requests arrive on schedule and measures the answers; ends in a verdict.
//!
//! A spec is composed of when requests arrive, when the schedule ends, and what they carry; one driver serves every combination.
//! Open loop: arrivals are absolute, nothing is re-anchored or dropped, and latency counts from the *intended* time, so a
//! stalled server cannot hide.
//!
//! ```text
//!  BenchSpec ─schedule→ RequestSchedule ─drive→ records ─measure→ UnjudgedRun ─verdict→ RunResult with reasons and Verdict
//!                                         └ transport: connections, messages, answers      └ search: the next rate to try
//! ```
//!
//! A folder uses only those to the left of it:
//!
//! ```text
//!  clock  gpu  spool  tokens ← record ← error ← spec ← schedule ← transport ← identity ← measure ← search  sweep  verdict ← drive
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
mod spool;
mod sweep;
mod tokens;
mod transport;
mod verdict;

pub use self::transport::kserve::grpc_messages::read_grpc_answer;
pub use self::transport::sent_headers::{api_key_in, give_key};
pub use drive::driver::{BenchProgress, measure, measure_external, run};
pub use drive::external_driver::{CallInlet, ExternalObserver};
pub use error::{ApiKeyFault, HarnessError, ResultFormatError, ScheduleError, TransportFailure, UnsupportedRequest};
pub use identity::{
    EngineIdentity, GpuIdentity, HostIdentity, IdentityDifference, ManifestIdentity, RunIdentity, ServerIdentity,
    ServerNotReady, Simulation, changes_of_servers, identity_differences, query_identities, query_identity, readiness,
};
pub use measure::adjusted::Adjusted;
pub use measure::by_host::{HostShare, host_of};
pub use measure::cached_input::CachedInput;
pub use measure::consistency::{Mismatch, SelfCheck};
pub use measure::cut_input::CutInput;
pub use measure::goodput::Goodput;
pub use measure::headline::marked_verdict;
pub use measure::load_conditions::LoadConditions;
pub use measure::loadgen::{LoadgenComparison, LoadgenResult, ReportingDelay};
pub use measure::metric::{ConfidenceInterval, Metric, zero_point_text};
pub use measure::mixed_source::are_counted_alike;
pub use measure::repeats::{AcrossRuns, REPEATS, RepeatedRun, Repeats, repeat_folder, repeat_folders};
pub use measure::result::{
    Cancellations, ClientUsage, Connections, Counts, ExtraOutput, FailureCounts, FurtherLimits, LatencyMetrics,
    LittlesLaw, Measured, MinGoodput, Rates, Requested, RequestedRetries, RunResult, ServerSide, TimeSlice,
    TokenCounts, Versions, WHOLE_ANSWERS,
};
pub use measure::result_files::{
    GPU_READINGS, REQUESTS, RESULT, RUN_FILES, amend, read_records, read_result, result_schema, write, write_result,
};
pub use measure::sessions_summary::SessionsSummary;
pub use measure::stability::{ColdStart, Occupancy, ServerFreeze, Stability, Sustained};
pub use measure::steady::{Steady, TtftDrift};
pub use measure::verdict_check::VerdictCheck;
pub use measure::verdict_reason::{Reason, ReasonSeverity};
pub use record::{FailedAttempt, FailureClass, RecordReader, RequestEnd, RequestRecord, RequestRecords, ServerStamps};
pub use schedule::data::{ChatMessage, DataSummary, NpyError, NpyIntegers, PreviousAnswers, Prompt};
pub use schedule::plan::{
    ExternalSample, PlannedReader, PlannedRequest, PlannedRequests, RequestSchedule, RequestTrigger, plan,
};
pub use search::{
    EarlierSearch, FoundRate, LimitJudgement, LimitSearch, LoadgenJudgement, ProbeJudgement, ProbeStep, RateBounds,
    RateProbe, SearchGoal, SearchJudge, SearchProbe, SearchReport, SearchRules,
};
pub use spec::BenchSpec;
pub use spec::load_level::{LoadLevel, LoadSegment};
pub use spec::load_pattern::{CallSource, LoadPattern};
pub use spec::pause::Pause;
pub use spec::prompts::{DataKind, PromptFile, PromptSource};
pub use spec::sending::SendingSpec;
pub use spec::slo::Slo;
pub use spec::transport::{Api, Http, Transport};
pub use sweep::{
    GatheredResult, GpuCount, Knee, KneeState, LatencySummary, MeasuredNumber, PointRole, SWEEP, SWEEP_POINTS,
    SweepError, SweepLevel, SweepOrigin, SweepPlan, SweepPoint, SweepReport, SweepStep, gather_sweeps, sweep_schema,
};
pub use tokens::{FinishReason, TokenSource, Usage, Violation};
pub use transport::http::read_http_answer;
pub use transport::sent_headers::SentHeaders;
pub use verdict::{UnjudgedRun, preflight, refused_field, result_of_repeats};
