//! What one LoadGen test was: the file beside its logs, from which later stages read what the logs belong to.

use serde::{Deserialize, Serialize};

use super::Seeds;

/// The file beside LoadGen's logs that holds a [`TestRecord`].
pub const TEST_FILE: &str = "test.json";

/// Scenarios of the rules. Interactive is LoadGen's Server with tighter limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MlperfScenario {
    Offline,
    Server,
    Interactive,
    SingleStream,
}

impl MlperfScenario {
    /// As the result directory and the rules write it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Offline => "Offline",
            Self::Server => "Server",
            Self::Interactive => "Interactive",
            Self::SingleStream => "SingleStream",
        }
    }

    /// LoadGen's name of it.
    pub const fn loadgen(self) -> &'static str {
        match self {
            Self::Interactive => "Server",
            other => other.title(),
        }
    }
}

/// What a test is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestMode {
    Performance,
    Accuracy,
    Test06,
    Test07,
    Test09,
}

impl TestMode {
    /// As a manifest writes it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Performance => "performance",
            Self::Accuracy => "accuracy",
            Self::Test06 => "test06",
            Self::Test07 => "test07",
            Self::Test09 => "test09",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Division {
    Closed,
    Open,
}

impl Division {
    /// As a manifest, and the result directory, write it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
        }
    }
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
