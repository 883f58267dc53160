//! The scenarios of the rules.

use serde::{Deserialize, Serialize};

use base::spec::Scenario;

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
    /// LoadGen has no others.
    pub const fn from_scenario(scenario: Scenario) -> Option<Self> {
        match scenario {
            Scenario::Offline => Some(Self::Offline),
            Scenario::Server => Some(Self::Server),
            Scenario::Interactive => Some(Self::Interactive),
            Scenario::SingleStream => Some(Self::SingleStream),
            Scenario::Trace | Scenario::Concurrency => None,
        }
    }

    /// As the result directory and the rules write it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Offline => "Offline",
            Self::Server => "Server",
            Self::Interactive => "Interactive",
            Self::SingleStream => "SingleStream",
        }
    }

    /// LoadGen's keys of the tokens and the samples a second. None: its result is a latency.
    pub const fn rates(self) -> Option<[&'static str; 2]> {
        match self {
            Self::Offline => Some(["result_tokens_per_second", "result_samples_per_second"]),
            Self::Server | Self::Interactive => {
                Some(["result_completed_tokens_per_second", "result_completed_samples_per_sec"])
            }
            Self::SingleStream => None,
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
