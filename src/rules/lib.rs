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
mod estimate;
pub mod log;
mod round;
pub mod system;
mod test_request;

pub use conf::{AuditConfig, LOG_SEED, audit_config, audit_test};
pub use estimate::{Estimate, last_arrival, time};
pub use round::{Accuracy, Audit, Benchmark, LatencyLimits, LoadgenPin, Round, Seeds};
pub use system::{
    Accelerator, EXAMPLE_SUBMITTER, FIELDS, GivenDescription, MEASUREMENT_FIELDS, MissingField, PackageDescription,
    SystemField, WrongValue, gpus_of_table, misspelt_fields, needs_sentences, with_text_flags, written_metric,
    written_name, wrong_values,
};
pub use test_request::{MlperfScenario, ResolvedTest, RuleError, TestRequest};
