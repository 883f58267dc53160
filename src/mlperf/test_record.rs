//! What one LoadGen test was: the file beside its logs, from which later stages read what the logs belong to.
//!
//! `documentation/regatta.lock` of a package: where every file is from. Not the project's lock file (`app/lockfile`):
//! another format.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use base::files::{read_bytes, read_text};
use base::spec::{Division, TestMode};
use rules::{MlperfScenario, Seeds};

/// The file beside LoadGen's logs that holds a [`TestRecord`].
pub const TEST_FILE: &str = "test.json";

/// Why the record beside LoadGen's logs cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TestRecordError {
    #[error("`{}` cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("`{}` does not describe a LoadGen test: {source}", path.display())]
    Json { path: PathBuf, source: serde_json::Error },
}

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
    pub fn in_folder(folder: &Path) -> Result<Option<Self>, TestRecordError> {
        let path = folder.join(TEST_FILE);
        match read_bytes(&path) {
            Ok(bytes) => {
                let record = serde_json::from_slice(&bytes);
                record.map(Some).map_err(|source| TestRecordError::Json { path, source })
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(TestRecordError::Read { path, source }),
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

/// Its name, below `<division>/<submitter>/documentation/`. Where a submission has several systems, each has one of its
/// own: `regatta.<system>.lock`.
pub const PACKAGE_LOCK_FILE: &str = "regatta.lock";

/// The provenance of a package.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PackageProvenance {
    /// The version of Regatta that packed it.
    pub regatta: String,
    pub round: String,
    /// The name of its folder: `closed`, `open` or `network`.
    pub division: String,
    pub submitter: String,
    pub system: String,
    /// Packed as a rehearsal: cannot be submitted.
    pub rehearsal: bool,
    pub results: Vec<LockedResult>,
    /// Everything that the results were made from.
    pub stages: Vec<ProvenanceStage>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LockedResult {
    pub benchmark: String,
    pub scenario: rules::MlperfScenario,
    pub runs: IndexMap<TestMode, LockedRun>,
}

/// One LoadGen test of a result.
#[base::omit_empty(except(files))]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockedRun {
    pub task: Option<String>,
    pub test: Option<TestRecord>,
    /// Name → SHA-256, as LoadGen wrote them: of a log that was truncated for the package, of the whole log.
    pub files: BTreeMap<String, String>,
    /// What was measured: kind of stage (`engine`, `repository`, `serve`) → what it was made of. Two runs of one system
    /// have the same.
    pub under_test: BTreeMap<String, BTreeSet<String>>,
    /// Its server was the simulator.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub simulated: bool,
}

/// One finished task, from its record.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProvenanceStage {
    pub task: String,
    /// `git`, `engine`, `serve`, …
    pub kind: String,
    /// Of what it was made from. None of a service, which leaves no record.
    pub key: Option<String>,
    /// Of its output.
    pub digest: Option<String>,
    /// Of a `git` stage.
    pub commit: Option<String>,
    /// As the manifest meant it: versions, image ids, flags.
    pub action: Value,
    pub facts: BTreeMap<String, String>,
    /// Name → digest of files of the project.
    pub inputs: BTreeMap<String, String>,
    /// Task → digest of its output; of a service, of its key.
    pub upstream: BTreeMap<String, String>,
}

impl PackageProvenance {
    /// Of a submitter's folder: one for each system that Regatta packed, or that was assembled. An error names what is
    /// wrong.
    pub fn all(submitter: &Path) -> std::io::Result<Vec<Self>> {
        let folder = submitter.join("documentation");
        let items = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut names: Vec<_> = items.filter_map(|item| item.file_name().into_string().ok()).collect();
        names.retain(|name| Self::is_file_name(name));
        names.sort();
        let read = |name: String| Ok(serde_json::from_str(&read_text(folder.join(name))?)?);
        names.into_iter().map(read).collect()
    }

    /// The name of its file; that of one of several systems.
    pub fn file_name(system: Option<&String>) -> String {
        system.map_or_else(|| PACKAGE_LOCK_FILE.to_owned(), |system| format!("regatta.{system}.lock"))
    }

    /// Whether a file of the documentation is one.
    pub fn is_file_name(name: &str) -> bool {
        name == PACKAGE_LOCK_FILE
            || name.strip_prefix("regatta.").is_some_and(|rest| rest.strip_suffix(".lock").is_some())
    }

    /// What is known of one run.
    pub fn run(&self, benchmark: &str, scenario: rules::MlperfScenario, mode: TestMode) -> Option<&LockedRun> {
        self.result(benchmark, scenario)?.runs.get(&mode)
    }

    pub fn result(&self, benchmark: &str, scenario: rules::MlperfScenario) -> Option<&LockedResult> {
        self.results.iter().find(|result| result.benchmark == benchmark && result.scenario == scenario)
    }
}
