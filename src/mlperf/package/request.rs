//! What is to be packed, and why it was not.

use std::io;
use std::path::PathBuf;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::record::FinishedTask;
use crate::accuracy::{self, AccuracyReport};
use base::files::read_text;
use base::spec::{Division, TestMode};
use rules::log::{ACCURACY_FILE, AnswerLog, Width};
use rules::system::Accelerator;
use rules::{GivenDescription, MlperfScenario, Round};

/// What is to be packed.
#[derive(Clone, Debug)]
pub struct PackageRequest {
    pub round: Round,
    pub division: Division,
    pub submitter: String,
    pub system: String,
    /// The user's description of the system; it takes precedence over the machine's facts.
    pub system_json: Map<String, Value>,
    pub measurements: Map<String, Value>,
    /// The root folder of the machine that was measured, `/`. None: it is not this one.
    pub machine: Option<PathBuf>,
    pub gpus: Vec<Accelerator>,
    pub results: Vec<PackageEntry>,
    pub source: Option<PathBuf>,
    pub documentation: Option<PathBuf>,
    pub rehearse: bool,
    /// The version of Regatta.
    pub version: String,
    /// The command that makes it all again: `regatta run … a=b`.
    pub command: String,
    /// Everything that the results were made from.
    pub upstream_tasks: Vec<FinishedTask>,
}

impl PackageRequest {
    pub(super) fn given_description(&self) -> GivenDescription<'_> {
        GivenDescription {
            division: self.division,
            submitter: &self.submitter,
            system: &self.system,
            system_json: &self.system_json,
            measurements: &self.measurements,
        }
    }
}

/// One benchmark in one scenario: outputs of its stages.
#[derive(Clone, Debug)]
pub struct PackageEntry {
    pub benchmark: String,
    /// The benchmark whose runs these are, where it is another: that for 99.9 % of one for 99 %.
    pub copy_of: Option<String>,
    pub scenario: MlperfScenario,
    pub performance: PathBuf,
    pub accuracy: PathBuf,
    pub score: PathBuf,
    pub audits: IndexMap<TestMode, PathBuf>,
    pub verified: IndexMap<TestMode, PathBuf>,
}

impl PackageEntry {
    /// The type of token ids in the accuracy log. Where no answer has one, that which LoadGen is given.
    pub(super) fn token_ids(&self) -> Width {
        let report = read_text(self.score.join(accuracy::ACCURACY_FILE)).ok();
        let report: Option<AccuracyReport> = report.and_then(|text| serde_json::from_str(&text).ok());
        report.and_then(|report| report.log.token_ids).unwrap_or(Width::Int32)
    }

    /// The type of token ids in the log of an audit. None: no answer there has one.
    pub(super) fn audit_token_ids(&self, mode: TestMode) -> Option<Width> {
        let log = AnswerLog::open(&self.audits.get(&mode)?.join(ACCURACY_FILE)).ok()?;
        log.map_while(Result::ok).find_map(|answer| Width::of(&answer))
    }

    /// The same result for 99 % of the reference's accuracy. None: it is not for 99.9 %, or the round has no other.
    pub fn lowered(&self, round: &Round) -> Option<Self> {
        let low = round.lower_accuracy(&self.benchmark)?;
        Some(Self { benchmark: low, copy_of: Some(self.benchmark.clone()), ..self.clone() })
    }
}

/// Why nothing was packed: all of it at once.
#[derive(Debug, thiserror::Error)]
pub enum Unpacked {
    #[error("{}", .problems.join("\n"))]
    Incomplete {
        problems: Vec<String>,
        /// What the user must add, as a part of a manifest.
        snippet: Option<String>,
    },
    #[error("{0}: {1}")]
    Io(PathBuf, #[source] io::Error),
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_audits_log_has_a_type_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = folder.path().join("none");
        let entry = PackageEntry {
            benchmark: "deepseek-r1".to_owned(),
            copy_of: None,
            scenario: MlperfScenario::Offline,
            performance: nowhere.clone(),
            accuracy: nowhere.clone(),
            score: nowhere,
            audits: IndexMap::from([(TestMode::Test06, folder.path().to_owned())]),
            verified: IndexMap::new(),
        };
        let width_in = |answers: &str| {
            fs::write(folder.path().join(ACCURACY_FILE), answers).unwrap();
            entry.audit_token_ids(TestMode::Test06)
        };
        let answer = |data: &str, count: u64| {
            format!(r#"{{"seq_id": 0, "qsl_idx": 0, "data": "{data}", "token_count": {count}}}"#)
        };
        let (empty, narrow) = (answer("", 0), answer("0500000006000000", 2));
        assert_eq!(width_in(&format!("[{empty},{narrow}]")), Some(Width::Int32));
        assert_eq!(width_in(&format!("[{}]", answer("0500000000000000", 1))), Some(Width::Int64));
        assert_eq!(width_in(&format!("[{empty}]")), None);
        assert_eq!(entry.audit_token_ids(TestMode::Test09), None);
    }
}
