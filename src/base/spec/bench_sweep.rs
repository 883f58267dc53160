//! `bench.sweep:` — one benchmark at several levels of one of its values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sweep_levels::SweepLevels;

/// The value that changes from point to point, and its levels. Each point is a whole measurement with a verdict of its own. A level
/// list is `[1, 2, 4]`; `1..64` doubles from 1 to 64; `1..64:5` is 5 levels with equal ratios.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BenchSweep {
    /// Users, with the scenario `concurrency`.
    Concurrency(SweepLevels),
    /// Requests per second, with the scenario `server`.
    Rate(SweepLevels),
    /// Tokens of every prompt.
    InputTokens(SweepLevels),
    /// Tokens of every answer.
    OutputTokens(SweepLevels),
    /// With the scenario `server`: one user alone (the latency of an idle server), then users until the throughput stops growing
    /// (saturation), then this many rates evenly between the two.
    Auto(#[schemars(range(min = 1, max = 200))] u32),
}

impl BenchSweep {
    /// Its key in a manifest.
    pub const fn key(&self) -> &'static str {
        match self {
            Self::Concurrency(_) => "concurrency",
            Self::Rate(_) => "rate",
            Self::InputTokens(_) => "input_tokens",
            Self::OutputTokens(_) => "output_tokens",
            Self::Auto(_) => "auto",
        }
    }

    /// The levels that were given; a sweep that finds its own has none.
    pub const fn levels(&self) -> Option<&SweepLevels> {
        match self {
            Self::Concurrency(levels) | Self::Rate(levels) | Self::InputTokens(levels) | Self::OutputTokens(levels) => {
                Some(levels)
            }
            Self::Auto(_) => None,
        }
    }

    /// Whether its levels are counts.
    pub const fn is_whole(&self) -> bool {
        matches!(self, Self::Concurrency(_) | Self::InputTokens(_) | Self::OutputTokens(_))
    }
}
