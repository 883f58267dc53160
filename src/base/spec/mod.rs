//! The settings that a manifest may have and that the harness and the launch of servers act on: one type for each, in the
//! manifest's form, with values already typed.
//!
//! Keys that a type does not know are reported by the walk over a manifest's YAML, which has places to point at. serde
//! ignores them here: a result of another version may have some, and is read all the same.

mod acceptance_rate;
mod arrivals;
mod bench_sweep;
mod container;
mod counts;
mod division;
mod goodput_limit;
mod gpu_clocks;
mod job_time_limit;
mod latency_limit;
mod launcher;
mod length;
mod limits;
mod percent;
mod prompts;
mod protocol;
mod quantity;
mod ramp;
mod random_seed;
mod request;
mod request_field;
mod request_headers;
mod response_size_limits;
mod retries;
mod scenario;
mod server_mode;
mod sim_calibration;
mod slo_limits;
mod stop_after;
mod stream_mode;
mod sweep_levels;
mod test_mode;
mod text_format;
mod text_schema;
mod think_time;
mod time_span;
mod tls;

pub use acceptance_rate::{AcceptanceRate, AcceptanceRateError};
pub use arrivals::Arrivals;
pub use bench_sweep::BenchSweep;
pub use container::{ContainerEngine, ContainerGpus};
pub use counts::{
    LARGEST_SHAPE, MOST_ANSWER_BYTES, MOST_PARAMETERS, MOST_PARTS, MOST_REQUESTS, MOST_SECONDS, MOST_USERS,
};
pub use division::Division;
pub use goodput_limit::{GoodputLimit, GoodputLimitError};
pub use gpu_clocks::GpuClocks;
pub use job_time_limit::JobTimeLimit;
pub use latency_limit::{LatencyLimit, LimitedMetric, Statistic};
pub use launcher::{Launcher, Mpi, Srun};
pub use length::{LONGEST_LENGTH, Length, Weighted};
pub use limits::Limits;
pub use percent::{Percent, PercentError};
pub use prompts::{DelayPlace, History, Prefixes, RecordOrder, Sessions};
pub use protocol::{Protocol, requests_token_ids, sets_length};
pub use quantity::{BLANK, Formula, NumberKind, Numeric, Quantity};
pub use ramp::{Ramp, RampStep};
pub use random_seed::RandomSeed;
pub use request::{CancelBy, CancelPolicy, Interface, LengthField, Request, WordList};
pub use request_field::{
    BenchOption, FieldKind, FieldValue, REQUEST_FIELDS, RequestField, UnsendableSetting, WireForm,
};
pub use request_headers::{
    AUTHORIZATION, HeaderFault, HeaderPart, RequestHeaders, is_secret_header, parts as header_parts, secret_variable,
};
pub use response_size_limits::ResponseSizeLimits;
pub use retries::{Retries, RetryOn};
pub use scenario::Scenario;
pub use server_mode::ServerMode;
pub use sim_calibration::{SimCalibration, SimScheduler};
pub use slo_limits::SloLimits;
pub use stop_after::StopAfter;
pub use stream_mode::StreamMode;
pub use sweep_levels::{LevelRange, SweepLevels, SweepLevelsError};
pub use test_mode::TestMode;
pub use text_format::TextFormat;
pub use think_time::ThinkTime;
pub use time_span::TimeSpan;
pub use tls::Tls;
