//! The rules of MLPerf Inference as data and checks: rounds, benchmarks, LoadGen's settings and logs, the description
//! of a system.
//!
//! ```text
//!  manifests/rounds/v6.1.yaml ─→ Round ─→ Benchmark ─→ TestRequest ─→ user.conf and audit.config, or RuleError
//!  mlperf_log_*.txt ─→ LoadgenSummary, Detail, AnswerLog
//! ```
//!
//! Pure: reads the texts that it is given. What a run was worth and what a package needs is decided in `mlperf`.

pub mod conf;
mod description;
mod estimate;
pub mod log;
mod round;
pub mod system;
mod test_request;

pub use description::{
    GivenDescription, MEASUREMENT_FIELDS, PackageDescription, needs_sentences, with_text_flags, written_metric,
    written_name,
};
pub use estimate::{Estimate, time};
pub use round::{Accuracy, Audit, Benchmark, LatencyLimits, LoadgenPin, Round, Seeds};
pub use system::{
    Accelerator, EXAMPLE_SUBMITTER, FIELDS, MissingField, SystemField, WrongValue, gpus_of_table, misspelt_fields,
    wrong_values,
};
pub use test_request::{AuditConfig, LOG_SEED, MlperfScenario, ResolvedTest, RuleError, TestRequest, audit_config};
