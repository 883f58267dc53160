//! What runs of MLPerf Inference are worth: accuracy, audit tests, the package and its check, by the `rules`.
//!
//! ```text
//!  mlperf_log_*.txt, accuracy log, test.json ─→ accuracy.txt, verify_*.txt ─→ package ─→ submission check
//! ```
//!
//! Pure, except for [`loadgen`]: reads and writes texts and folders that it is given, starts no process and connects to
//! no server. [`loadgen`] drives the harness with MLPerf's own LoadGen, in a process of its own.

pub mod accuracy;
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
mod truncate_accuracy_log;

pub use assemble::{AssembleRequest, ForeignResult, WrittenUpload, assemble, require_archive_name, write_upload};
pub use diff::{DiffSelection, DiffedRun, ResultDifference, ValueChange, compare};
pub use explain::{Explanation, RuleViolation, explain};
pub use layout::{
    NOT_SUPPORTED, OWN_CHECKER, REHEARSAL_FILE, REPORT_FOLDER, SubmissionLayout, endpoints_result, is_endpoints_result,
};
pub use loadgen::{DatasetRecord, SIMULATED_SUT, TEST_FILE, TestRecord};
pub use official_checker::{Official, OfficialFinding};
pub use package::{FinishedTask, PackageEntry, PackageRequest, Unpacked, WrittenPackage, pack};
pub use provenance::{LockedResult, LockedRun, PACKAGE_LOCK_FILE, PackageProvenance, ProvenanceStage};
pub use submission_check::{
    ExaminedResult, FindingGrade, FindingWeight, JudgedRun, MeasuredPower, POWER_PATHS, SubmissionCheck,
    SubmissionFinding, SubmissionReport, UnexaminedBenchmark, Witnesses, examine, round_of, rounds_of, run_value,
};
