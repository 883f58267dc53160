//! What runs of MLPerf Inference are worth: accuracy, audit tests, the package and its check, by the `rules`.
//!
//! ```text
//!  mlperf_log_*.txt, accuracy log, test.json ─→ accuracy.txt, verify_*.txt ─→ package ─→ submission check
//! ```
//!
//! Pure, except for [`loadgen`]: reads and writes texts and folders that it is given, starts no process and connects to
//! no server. [`loadgen`] drives the harness with MLPerf's own LoadGen, in a process of its own.

pub mod accuracy;
mod archive;
mod assemble;
pub mod audit;
pub mod dataset;
mod diff;
mod explain;
mod layout;
pub mod loadgen;
mod official_checker;
mod package;
mod provenance;
mod submission_check;
mod test_record;
mod truncate_accuracy_log;

pub use archive::{WrittenUpload, require_archive_name, write_upload};
pub use assemble::{AssembleRequest, ForeignResult, assemble};
pub use diff::{DiffSelection, DiffedRun, ResultDifference, ValueChange, compare};
pub use explain::{Explanation, RuleViolation, explain};
pub use layout::{
    NOT_SUPPORTED, OWN_CHECKER, REHEARSAL_FILE, REPORT_FOLDER, SubmissionLayout, endpoints_result, is_endpoints_result,
};
pub use official_checker::{Official, OfficialFinding};
pub use package::{FinishedTask, PackageEntry, PackageRequest, Unpacked, WrittenPackage, pack};
pub use provenance::{LockedResult, LockedRun, PACKAGE_LOCK_FILE, PackageProvenance, ProvenanceStage};
pub use submission_check::{
    ExaminedResult, FindingGrade, FindingWeight, JudgedRun, MeasuredPower, POWER_PATHS, SubmissionCheck,
    SubmissionFinding, SubmissionReport, UnexaminedBenchmark, Witnesses, examine, round_of, rounds_of, run_value,
};
pub use test_record::{DatasetRecord, SIMULATED_SUT, TEST_FILE, TestRecord};
