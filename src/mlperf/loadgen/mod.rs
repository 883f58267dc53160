//! MLPerf's own LoadGen drives the harness: it issues samples, and receives first tokens and answers.
//!
//! ```text
//!  stage ─orders→ child process:    LoadGen's thread ─issue→ harness::CallInlet ─→ workers ─→ servers
//!                                   reporter's thread ←─ ExternalObserver ←───────────┘
//!                                       └─ first tokens, completions → LoadGen
//! ```
//!
//! One test is one process: LoadGen would keep its settings for a second one. It issues all samples on one thread, and
//! receives all reports from one other, which is joined before the process ends. `ffi` is the only file of the
//! program with `unsafe`.

mod child;
mod ffi;
mod reporter;
mod test_run;

use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use base::diag::{ErrorText, in_file};
use base::files::read_bytes;
use base::spec::{Division, TestMode};
pub use child::{ChildError, ChildMessage, ChildOrders, LibraryFacts, LibraryProbe, LoadgenTest, perform};
use rules::{MlperfScenario, Seeds};
pub use test_run::MonotonicTime;

/// The sources that are compiled together with LoadGen's, by name.
pub const SHIM: [(&str, &str); 3] = [
    ("shim.h", include_str!("shim/shim.h")),
    ("shim.cc", include_str!("shim/shim.cc")),
    ("shim.map", include_str!("shim/shim.map")),
];

// What one LoadGen test was: the file beside its logs, from which later stages read what the logs belong to.

/// The file beside LoadGen's logs that holds a [`TestRecord`].
pub const TEST_FILE: &str = "test.json";

/// One LoadGen test, as it was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestRecord {
    pub round: String,
    pub benchmark: String,
    pub scenario: MlperfScenario,
    pub mode: TestMode,
    pub division: Division,
    /// With shortened durations: cannot be submitted.
    pub rehearsal: bool,
    /// The version of `mlcommons-loadgen`.
    pub loadgen_version: String,
    /// Those that were in force.
    pub seeds: Seeds,
    pub dataset: DatasetRecord,
    pub target_qps: Option<f64>,
    pub sut_name: String,
    /// The result in LoadGen's summary: `VALID`, `INVALID`. None in accuracy mode, which has no result.
    pub result: Option<String>,
    /// Errors that LoadGen logged.
    pub errors: u64,
}

impl TestRecord {
    /// The record in a folder of LoadGen's logs. `None`: another harness wrote them, without a record.
    pub fn in_folder(folder: &Path) -> Result<Option<Self>, ErrorText> {
        let path = folder.join(TEST_FILE);
        match read_bytes(&path) {
            Ok(bytes) => {
                let text = |error| format!("`{}` does not describe a LoadGen test: {error}", path.display());
                serde_json::from_slice(&bytes).map(Some).map_err(|error| ErrorText::new(text(error)))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(in_file(&path)(error)),
        }
    }
}

/// The beginning of LoadGen's name of a simulated system: its logs show it wherever they are copied.
pub const SIMULATED_SUT: &str = "SIMULATED";

/// Whether the run in a folder was on the simulator, by Regatta's own record of its requests. Another harness leaves
/// none.
pub(super) fn is_simulated(folder: &Path) -> bool {
    harness::read_result(&folder.join(harness::RESULT)).is_ok_and(|result| result.is_simulated())
}

/// The data set as a stage prepared it: `dataset.json` in its output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetRecord {
    pub benchmark: String,
    /// Made up: nothing that is measured with it can be submitted.
    pub synthetic: bool,
    pub samples: u64,
    /// Of the file it was made from; of a made-up one, of what was made.
    pub sha256: String,
}
