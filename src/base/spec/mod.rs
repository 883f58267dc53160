//! The settings that a manifest may have and that the harness and the launch of servers act on: one type for each, in
//! the manifest's form, with values already typed.
//!
//! Keys that a type does not know are reported by the walk over a manifest's YAML, which has places to point at. serde
//! ignores them here: a result of another version may have some, and is read all the same.

mod connection;
mod limits;
mod load;
mod placement;
mod prompts;
mod quantity;
mod request;
mod request_field;
mod request_headers;
mod schema_format;
mod sim_calibration;
mod triton_server;

pub use connection::{
    Protocol, ResponseSizeLimits, Retries, RetryOn, StreamMode, Tls, UNMEASURED, UnmeasuredProtocol,
    requests_token_ids, sets_length,
};
pub use limits::{
    GoodputLimit, GoodputLimitError, LatencyLimit, LimitedMetric, Limits, Percent, PercentError, SloLimits, Statistic,
};
pub use load::{
    Arrivals, BenchSweep, Division, LevelRange, MIN_DURATION_MS, Ramp, RampStep, RandomSeed, Scenario, StopAfter,
    SweepLevels, SweepLevelsError, TestMode, ThinkTime,
};
pub use placement::{
    Container, ContainerEngine, ContainerGpus, GpuClocks, JobTimeLimit, Launcher, Mpi, ServerMode, Srun,
};
pub use prompts::{DelayPlace, History, LONGEST_LENGTH, Length, Prefixes, RecordOrder, Sessions, Weighted};
pub use quantity::{BLANK, Formula, NumberKind, Numeric, Quantity, TimeSpan};
pub use request::{CancelBy, CancelPolicy, Interface, LengthField, Request, WordList};
pub use request_field::{
    BenchOption, FieldKind, FieldValue, REQUEST_FIELDS, RequestField, UnsendableSetting, WireForm,
};
pub use request_headers::{
    AUTHORIZATION, HeaderFault, HeaderPart, RequestHeaders, is_secret_header, parts as header_parts, secret_variable,
};
pub use schema_format::{
    LARGEST_SHAPE, MOST_ANSWER_BYTES, MOST_PARAMETERS, MOST_PARTS, MOST_REQUESTS, MOST_SECONDS, MOST_USERS, TextFormat,
    schema_id,
};
pub use sim_calibration::{AcceptanceRate, Drafter, Drafting, LoraConfig, ModelShape, SimCalibration, SimScheduler};
pub use triton_server::{ModelControl, RateLimit, ReadyWhen, Trace, TraceLevel, TraceMode, TritonServer};
