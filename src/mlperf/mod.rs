//! The rule book of MLPerf Inference: rounds, benchmarks, LoadGen's settings and logs, accuracy, audit tests, the package.
//!
//! ```text
//!  manifests/rounds/v6.1.yaml ─→ Round ─→ Benchmark ─→ user.conf, checks before a run
//!  mlperf_log_*.txt, accuracy log, test.json ─→ what a run is worth ─→ accuracy.txt, verify_*.txt ─→ package ─→ submission check
//! ```
//!
//! Pure, except for [`loadgen`]: reads and writes texts and folders that it is given, starts no process and connects to no server.
//! [`loadgen`] drives the harness with MLPerf's own LoadGen, in a process of its own.

pub mod accuracy;
mod archive;
mod assemble;
pub mod audit;
pub mod conf;
pub mod dataset;
mod diff;
mod endpoints;
mod estimate;
mod explain;
mod layout;
pub mod loadgen;
pub mod log;
mod official_checker;
mod package;
mod provenance;
mod round;
mod submission_check;
mod synthetic_words;
mod system;
mod test_record;
mod test_request;
mod truncate_accuracy_log;

pub use archive::{ArchiveError, WrittenChecksum, compress_divisions, require_archive_name, write_checksum};
pub use assemble::{AssembleError, AssembleRequest, ForeignResult, assemble};
pub use diff::{DiffError, DiffedRun, ResultDifference, ValueChange, compare};
pub use endpoints::{NOT_SUPPORTED, OWN_CHECKER, endpoints_result, is_endpoints_result};
pub use estimate::{Estimate, time};
pub use explain::{Explanation, RuleViolation, explain};
pub use layout::{REHEARSAL_FILE, REPORT_FOLDER, SubmissionLayout};
pub use official_checker::{Official, OfficialFinding};
pub use package::{
    FinishedTask, GivenDescription, PackageDescription, PackageEntry, PackageRequest, Unpacked, WrittenPackage, pack,
};
pub use provenance::{LockedResult, LockedRun, PACKAGE_LOCK_FILE, PackageProvenance, ProvenanceError, ProvenanceStage};
pub use round::{Accuracy, Audit, Benchmark, LatencyLimits, LoadgenPin, Round, Seeds};
pub use submission_check::{
    ExaminedResult, FindingWeight, JudgedRun, MeasuredPower, SubmissionCheck, SubmissionFinding, SubmissionReport,
    UnexaminedBenchmark, examine, round_of, run_value,
};
pub use system::{
    Accelerator, EXAMPLE_SUBMITTER, FIELDS, MissingField, SystemField, WrongValue, gpus_of_table, misspelt_fields,
    wrong_values,
};
pub use test_record::{DatasetRecord, MlperfScenario, TEST_FILE, TestRecord, TestRecordError};
pub use test_request::{ResolvedTest, RuleError, TestRequest};
