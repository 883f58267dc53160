//! `documentation/regatta.lock` of a package: where every file is from. Not the project's lock file (`app/lockfile`):
//! another format.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::TestRecord;
use super::submission_check::files;
use base::files::read_text;
use base::spec::TestMode;

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

/// Digests as a text, the beginning of each.
pub(crate) fn shortened<'d>(digests: impl IntoIterator<Item = &'d String>) -> String {
    digests.into_iter().map(|digest| digest.get(..12).unwrap_or(digest)).collect::<Vec<_>>().join(", ")
}

impl PackageProvenance {
    /// Of a submitter's folder: one for each system that Regatta packed, or that was assembled. An error names what is
    /// wrong.
    pub fn all(submitter: &Path) -> std::io::Result<Vec<Self>> {
        let folder = submitter.join("documentation");
        let read = |name: String| Ok(serde_json::from_str(&read_text(folder.join(name))?)?);
        files(&folder).into_iter().filter(|name| Self::is_file_name(name)).map(read).collect()
    }

    /// Of results that another tool made: its stages are unknown.
    pub fn of_another_tool(round: &str, submitter: &Path, system: String, results: Vec<LockedResult>) -> Self {
        let part = |part: Option<&OsStr>| part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default();
        Self {
            regatta: env!("CARGO_PKG_VERSION").to_owned(),
            round: round.to_owned(),
            division: part(submitter.iter().next()),
            submitter: part(submitter.file_name()),
            system,
            rehearsal: false,
            results,
            stages: Vec::new(),
        }
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
