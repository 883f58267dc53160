//! What the child process is to do, and what it says on its standard output: a line of JSON each.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::clock::Moment;
use crate::harness::BenchSpec;
use crate::mlperf::{DatasetRecord, Division, MlperfScenario, Seeds, TestMode};

/// The file that the child is started with.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildJob {
    Probe(LibraryProbe),
    Test(Box<LoadgenTest>),
}

/// Say what a library is.
#[derive(Debug, Serialize, Deserialize)]
pub struct LibraryProbe {
    pub library: PathBuf,
    /// An empty user.conf, for LoadGen to read its built-in one.
    pub user_conf: PathBuf,
}

/// What a library says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryFacts {
    pub version: String,
    pub revision: String,
    pub seeds: Seeds,
}

/// One LoadGen test.
#[derive(Debug, Serialize, Deserialize)]
pub struct LoadgenTest {
    pub library: PathBuf,
    /// `dataset.jsonl`
    pub samples: PathBuf,
    pub dataset: DatasetRecord,
    /// Logs and results go here.
    pub out: PathBuf,
    /// Whom to ask and how. Its scenario is `Outside`.
    pub spec: BenchSpec,
    pub round: String,
    pub benchmark: String,
    pub scenario: MlperfScenario,
    pub mode: TestMode,
    pub division: Division,
    /// Of a rehearsal: how many samples it draws from.
    pub rehearsal: Option<u64>,
    pub target_qps: Option<f64>,
    pub user_conf: PathBuf,
    /// Keys that this user.conf sets: what the table says of them is not asked for.
    pub user_keys: Vec<String>,
    pub audit: Option<PathBuf>,
    pub sut_name: String,
}

/// What the child says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildMessage {
    /// What happens now.
    Phase(String),
    /// Samples issued, answered, failed so far.
    Progress {
        issued: u64,
        ended: u64,
        failed: u64,
    },
    Probed(LibraryFacts),
    /// When the first sample was asked for: what all stamps in the files count from.
    Zero(Moment),
    /// The test is over, and its files are written.
    Done,
    /// It could not take place. `is_refused`: because of what was asked for.
    Failed {
        why: String,
        is_refused: bool,
    },
}
