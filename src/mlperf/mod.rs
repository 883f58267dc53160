//! The rule book of MLPerf Inference: rounds, benchmarks, LoadGen's settings and logs, accuracy, audit tests, the package.
//!
//! ```text
//!  manifests/rounds/v6.1.yaml ─→ Round ─→ Benchmark ─→ user.conf, checks before a run
//!  mlperf_log_*.txt, accuracy log, test.json ─→ what a run is worth ─→ accuracy.txt, verify_*.txt ─→ package ─→ gate
//! ```
//!
//! Pure: reads and writes texts and folders that it is given. It never starts a process, never talks to a server and never
//! drives LoadGen; that is the room `loadgen`.

pub mod accuracy;
mod ask;
pub mod audit;
pub mod conf;
pub mod dataset;
mod diff;
mod estimate;
mod explain;
mod gate;
mod layout;
mod lock;
pub mod log;
mod official;
mod package;
mod round;
mod sha256;
mod system;
mod test;
mod truncate;
mod words;

pub use ask::{TestRequest, ResolvedTest, RuleError};
pub use diff::{ValueChange, ResultDifference, DiffedRun, compare};
pub use estimate::{Estimate, time};
pub use explain::{Explanation, RuleViolation, explain};
pub use gate::{Examined, GateFinding, JudgedRun, MEASUREMENT_FIELDS, ExaminedResult, FindingWeight, examine, judge, round_of};
pub use layout::SubmissionLayout;
pub use lock::{LOCK_FILE, PackageProvenance, LockedResult, LockedRun, ProvenanceStage};
pub use official::{Official, OfficialFinding};
pub use package::{PackageEntry, FinishedTask, PackageRequest, Packed, Unpacked, pack};
pub use round::{Accuracy, Audit, Benchmark, LatencyLimits, LoadgenPin, Round, Seeds};
pub use system::{FIELDS, SystemField, Accelerator, MissingField, gpus_of_table, is_meaningful};
pub use test::{DatasetRecord, Division, TestMode, MlperfScenario, TEST_FILE, TestRecord};
