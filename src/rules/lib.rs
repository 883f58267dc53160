//! The rules of MLPerf Inference as data and checks: rounds, benchmarks, LoadGen's settings and logs, the description
//! of a system.
//!
//! ```text
//!  manifests/rounds/v6.1.yaml ─→ Round ─→ Benchmark ─→ TestRequest ─→ user.conf and audit.config, or RuleError
//!  mlperf_log_*.txt ─→ LoadgenSummary, Detail, AnswerLog
//! ```
//!
//! Pure: reads the texts that it is given. What a run was worth and what a package needs is decided in `mlperf`.

mod audit_config;
pub mod conf;
mod description;
mod estimate;
pub mod log;
mod round;
mod scenario;
pub mod system;
mod test_request;

pub use audit_config::{AuditConfig, LOG_SEED, audit_config, audit_test};
pub use description::{
    GivenDescription, MEASUREMENT_FIELDS, PackageDescription, needs_sentences, with_text_flags, written_metric,
    written_name,
};
pub use estimate::{Estimate, last_arrival, time};
pub use round::{Accuracy, Audit, Benchmark, LatencyLimits, LoadgenPin, Round, Seeds};
pub use scenario::MlperfScenario;
pub use system::{
    Accelerator, EXAMPLE_SUBMITTER, FIELDS, MissingField, SystemField, WrongValue, gpus_of_table, misspelt_fields,
    wrong_values,
};
pub use test_request::{ResolvedTest, RuleError, TestRequest};
