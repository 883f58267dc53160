//! MLPerf's division of a submission, and what a LoadGen test is for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The division of a submission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Division {
    #[default]
    Closed,
    Open,
}

impl Division {
    /// As a manifest, and the result directory, write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
        }
    }
}

/// What a test is for. LoadGen's performance and accuracy modes, and the audit tests of the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TestMode {
    #[default]
    Performance,
    Accuracy,
    Test06,
    Test07,
    Test09,
}

impl TestMode {
    /// As a manifest writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Performance => "performance",
            Self::Accuracy => "accuracy",
            Self::Test06 => "test06",
            Self::Test07 => "test07",
            Self::Test09 => "test09",
        }
    }
}
