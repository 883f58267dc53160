//! Makes requests arrive on schedule and measures the answers; ends in a verdict.
//!
//! A spec is composed of when requests arrive, when the schedule ends, and what they carry; one driver serves every
//! combination. Open loop: arrivals are absolute, nothing is re-anchored or dropped, and latency counts from the
//! *intended* time, so a stalled server cannot hide.
//!
//! ```text
//!  BenchSpec ─schedule→ RequestSchedule ─drive→ records ─measure→ UnjudgedRun ─verdict→ RunResult with its verdict
//!                                         └ transport: connections, messages, answers   └ search: the next rate to try
//! ```
//!
//! A folder uses only those to the left of it:
//!
//! ```text
//!  gpu  spool  tokens ← record ← error ← spec ← schedule ← transport ← identity
//!         ← measure ← search  sweep  verdict ← drive
//! ```
//!
//! Two tables hold what is known of a number and of a finding: [`LATENCIES`], a row for each latency, and
//! [`verdict_reasons`], a row for each reason against a run.
//!
//! Never starts a server, never prints, never decides what a verdict means for the pipeline.

mod drive {
    //! Carries a plan out: workers, each with its connections, send requests when they are due and follow their
    //! answers.
    //!
    //! ```text
    //!  driver ─→ worker (thread) ─→ dispatcher ─→ in_flight ─→ request_attempt ─→ transport
    //! ```

    pub(super) mod dispatcher;
    pub(super) mod driver;
    pub(super) mod external_driver;
    pub(super) mod in_flight;
    pub(super) mod pacer;
    pub(super) mod request_attempt;
    mod warm_up;
    pub(super) mod worker;
}
mod error;
pub mod gpu;
mod identity;
mod measure {
    //! From the records of a run to its numbers, and to `result.json`.
    //!
    //! ```text
    //!  drive ─→ collector ─→ summary ─→ result ─→ result_files
    //! ```

    pub(super) mod collector;
    pub(super) mod course;
    pub(super) mod freeze;
    pub(super) mod goodput;
    pub(super) mod headline;
    pub(super) mod latency;
    pub(super) mod load_conditions;
    pub(super) mod metric;
    pub(super) mod reasons;
    pub(super) mod repeats;
    pub(super) mod requested;
    pub(super) mod result;
    pub(super) mod result_files;
    pub(super) mod stability;
    pub(super) mod steady;
    pub(super) mod subsets;
    pub(super) mod summary;
    pub(super) mod token_counts;
}
mod record;
mod schedule {
    //! What is sent and when: arrivals, prompts and their lengths, before anything runs. Pure: the same spec and files
    //! give the same plan.
    //!
    //! ```text
    //!  arrivals + draws (lengths, tokens) + data (prompts of files) ─→ plan: RequestSchedule
    //! ```

    pub(super) mod arrivals;
    pub(super) mod data;
    pub(super) mod plan;
}
mod search;
mod spec;
mod spool;
mod sweep;
mod tokens;
mod transport {
    //! How a request reaches a server and how its answer is read: KServe v2 over gRPC (`kserve`), Triton's generate and
    //! OpenAI's interfaces over HTTP/1.1 (`http`). Encoders are fixed before the run; what arrives carries the time of
    //! its socket read.

    pub(super) mod connection;
    pub(super) mod http;
    pub(super) mod kserve {
        //! KServe v2 over gRPC.
        //!
        //! ```text
        //!  model_metadata ─→ infer_request: template ─→ grpc_messages: frame ─→ rpc (a stream each)
        //!                                                                       shared_stream (one for all)
        //! ```

        pub(crate) mod extra_outputs;
        pub(crate) mod grpc_messages;
        pub(crate) mod infer_request;
        pub(crate) mod model_metadata;
        pub(crate) mod rpc;
        pub(crate) mod shared_stream;
    }
    pub(super) mod request_encoder;
    pub(super) mod sent_headers;
}
mod verdict;

pub use self::transport::kserve::grpc_messages::read_grpc_answer;
pub use self::transport::sent_headers::{api_key_in, give_key};
pub use drive::driver::{BenchProgress, measure, measure_external, run};
pub use drive::external_driver::{CallInlet, ExternalObserver};
pub use error::{ApiKeyFault, HarnessError, ResultFormatError, UnsupportedRequest};
pub use identity::{
    EngineIdentity, GpuIdentity, HostIdentity, IdentityDifference, ManifestIdentity, RunIdentity, ServerIdentity,
    Simulation, changes_of_servers, identity_differences, query_identities, query_identity, readiness,
};
pub use measure::collector::{Mismatch, SelfCheck};
pub use measure::course::CourseChange;
pub use measure::freeze::ServerFreeze;
pub use measure::goodput::Goodput;
pub use measure::headline::marked_verdict;
pub use measure::latency::{Cancellations, CountedIn, LATENCIES, LatencyMetric, LatencyMetrics, Rates, ServerSide};
pub use measure::load_conditions::{LoadConditions, Occupancy, Sustained};
pub use measure::metric::{Adjusted, ConfidenceInterval, Metric, zero_point_text};
pub use measure::reasons::{Reason, ReasonSeverity, VerdictCheck, VerdictReason, is_of_busy_machine, verdict_reasons};
pub use measure::repeats::{
    AcrossRuns, REPEATS, RepeatedRun, Repeats, repeat_folder, repeat_folders, result_of_repeats,
};
pub use measure::requested::{FurtherLimits, MinGoodput, Requested, RequestedRetries, Workload};
pub use measure::result::{
    ClientUsage, Connections, Counts, ExtraOutput, FailureCounts, LateRequests, LittlesLaw, LoadgenComparison,
    LoadgenResult, Measured, ReportingDelay, RunResult, TimeSlice, TokenCounts, Versions, WHOLE_ANSWERS,
};
pub use measure::result_files::{
    GPU_READINGS, REQUESTS, RESULT, RUN_FILES, amend, first_requests, read_records, read_result, result_schema, write,
    write_result,
};
pub use measure::stability::Stability;
pub use measure::steady::Steady;
pub use measure::subsets::{HostShare, SessionsSummary, SlowServer, host_of};
pub use measure::token_counts::{CachedInput, CutInput, are_counted_alike};
pub use record::{FailedAttempt, FailureClass, RequestEnd, RequestRecord, RequestRecords, ServerStamps};
pub use schedule::data::{ChatMessage, DataSummary, NpyIntegers, PreviousAnswers, Prompt};
pub use schedule::plan::{
    ExternalSample, PlannedReader, PlannedRequest, PlannedRequests, RequestSchedule, RequestTrigger, plan,
};
pub use search::{
    EarlierSearch, FoundRate, LimitJudgement, LimitSearch, LoadgenJudgement, ProbeJudgement, ProbeStep, RateBounds,
    RateProbe, SearchGoal, SearchJudge, SearchProbe, SearchReport, SearchRules,
};
pub use spec::load::{CallSource, LoadLevel, LoadPattern, LoadSegment};
pub use spec::prompts::{DataKind, Pause, PromptFile, PromptSource};
pub use spec::transport::{Api, Http, Transport};
pub use spec::{BenchSpec, SendingSpec, Slo};
pub use sweep::{
    GatheredResult, GpuCount, KNEE_DEFINITION, Knee, KneeState, LatencySummary, MeasuredNumber, PointRole, SWEEP,
    SWEEP_POINTS, SweepLevel, SweepOrigin, SweepPlan, SweepPoint, SweepReport, SweepStep, gather_sweeps, sweep_schema,
};
pub use tokens::{FinishReason, TokenSource, Usage, Violation};
pub use transport::http::read_http_answer;
pub use transport::sent_headers::SentHeaders;
pub use verdict::{UnjudgedRun, failure_cure, preflight};
