//! The orders of the child process, and its standard output: one line of JSON for each message.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::clock::MonotonicTime;
use crate::DatasetRecord;
use base::spec::{Division, TestMode};
use harness::BenchSpec;
use rules::{MlperfScenario, Seeds};

/// The file with which the child is started.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildOrders {
    Probe(LibraryProbe),
    Test(Box<LoadgenTest>),
}

/// Report which library this is.
#[derive(Debug, Serialize, Deserialize)]
pub struct LibraryProbe {
    pub library: PathBuf,
    /// An empty user.conf, for LoadGen to read its built-in one.
    pub user_conf: PathBuf,
}

/// A library's description of itself.
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
    /// The servers and the requests. Its scenario is `External`.
    pub spec: BenchSpec,
    pub round: String,
    pub benchmark: String,
    pub scenario: MlperfScenario,
    pub mode: TestMode,
    pub division: Division,
    /// For a rehearsal: how many samples it draws from.
    pub rehearsal: Option<u64>,
    pub target_qps: Option<f64>,
    pub user_conf: PathBuf,
    /// Keys that this user.conf sets: the table's values are not expected for them.
    pub user_keys: Vec<String>,
    pub audit: Option<PathBuf>,
    pub sut_name: String,
}

/// A message of the child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildMessage {
    /// The current phase.
    Phase(String),
    /// Samples issued, answered, failed so far.
    Progress {
        issued: u64,
        ended: u64,
        failed: u64,
    },
    Probed(LibraryFacts),
    /// When the first sample was issued: all stamps in the files count from it.
    Zero(MonotonicTime),
    /// The test has finished, and its files are written.
    Done,
    /// The test could not run. `is_refused`: because of the request itself.
    Failed {
        why: String,
        is_refused: bool,
    },
}
