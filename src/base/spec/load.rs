//! The load of a benchmark: how and when requests arrive, pauses, when the schedule ends, and the seed; what a test of
//! MLPerf is for, and for which division.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::quantity::TimeSpan;
use super::schema_format::MOST_REQUESTS;

// The distribution of arrivals at a rate.

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(deny_unknown_fields)]
pub enum Arrivals {
    /// Exponential gaps.
    #[default]
    Poisson,
    /// Exponential gaps, scaled so that the last of N requests arrives at N / rate, as in vLLM's benchmark. Needs
    /// `stop.requests` without `stop.duration`.
    PoissonScaled,
    /// Equal gaps.
    Constant,
    /// Gamma gaps with this coefficient of variation: 1 is Poisson, 2 is bursty; vLLM's burstiness is 1/cv².
    Gamma { cv: f64 },
}

// `bench.stop:` — when the schedule ends.

/// When the schedule ends: after N requests, or after the arrivals of this time; with both, whichever is later. One of
/// them is required.
#[crate::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct StopAfter {
    /// At least N requests. With `duration`, whichever is longer.
    #[schemars(range(min = 1, max = MOST_REQUESTS))]
    pub requests: Option<u64>,
    /// Arrivals for this long: `60s`, `10m`.
    pub duration: Option<TimeSpan>,
}

impl StopAfter {
    pub fn time(&self) -> Option<Duration> {
        self.duration.as_ref().map(TimeSpan::time)
    }

    pub const fn is_open(&self) -> bool {
        self.requests.is_none() && self.duration.is_none()
    }
}

// `bench.think_time:` — the pause between an answer and the next request.

/// A pause of a user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(deny_unknown_fields)]
pub enum ThinkTime {
    /// Always the same: `2s`.
    Fixed(TimeSpan),
    /// Exponential with this mean.
    Exponential(TimeSpan),
    /// Uniformly from min to max.
    Uniform {
        /// The shortest pause.
        min: TimeSpan,
        /// The longest pause.
        max: TimeSpan,
    },
}

// `bench.ramp:` — a rate, or a number of users, that changes.

/// A rate, or a number of users, that changes. After the last step it stays.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(deny_unknown_fields)]
pub enum Ramp {
    /// One level after the other.
    Steps(Vec<RampStep>),
    /// A straight line from one level to the other.
    Linear {
        /// The first level: requests per second, or users.
        from: f64,
        /// The last level.
        to: f64,
        /// How long it takes: `60s`.
        over: TimeSpan,
    },
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RampStep {
    /// Requests per second, or users.
    pub level: f64,
    /// How long: `30s`.
    pub lasts: TimeSpan,
}

// `bench.scenario:` — how requests arrive.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scenario {
    /// All requests at once; metric tokens/s.
    Offline,
    /// Arrivals at a rate; latency from the intended time.
    Server,
    /// Arrivals at the time stamps of `data`, later turns after the previous answer; latency from the intended time.
    Trace,
    /// N users, each of whom waits for an answer before the next request; latency from then.
    Concurrency,
    /// With `loadgen`: Server with the round's tighter limits.
    Interactive,
    /// With `loadgen`: one request after the other.
    SingleStream,
}

// The seed of a server's sampling.

/// The seed of sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(deny_unknown_fields)]
pub enum RandomSeed {
    /// The same for every request.
    Fixed(u64),
    /// `true`: one for each request, drawn with the bench's seed and the request's number.
    PerRequest(bool),
}

impl<'de> Deserialize<'de> for RandomSeed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Seed {
            Fixed(u64),
            PerRequest(bool),
        }
        /// Results that were written before have the word alone.
        #[derive(Deserialize)]
        enum Word {
            #[serde(rename = "per_request")]
            PerRequest,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Seed(Seed),
            Word(Word),
        }
        Ok(match Written::deserialize(from)? {
            Written::Seed(Seed::Fixed(seed)) => Self::Fixed(seed),
            Written::Seed(Seed::PerRequest(each)) => Self::PerRequest(each),
            Written::Word(Word::PerRequest) => Self::PerRequest(true),
        })
    }
}

crate::named! {
    /// The division of a submission.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
    pub enum Division {
        #[default]
        Closed = "closed",
        Open = "open",
    }
}

/// Ten minutes: the minimum duration of an MLPerf run of a language model.
pub const MIN_DURATION_MS: u64 = 600_000;

crate::named! {
    /// LoadGen's performance or accuracy mode, or an audit test.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
    pub enum TestMode {
        #[default]
        Performance = "performance",
        Accuracy = "accuracy",
        Test06 = "test06",
        Test07 = "test07",
        Test09 = "test09",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_is_written_now_and_as_it_was_before() {
        for seed in [RandomSeed::Fixed(7), RandomSeed::PerRequest(true)] {
            let text = serde_json::to_string(&seed).unwrap();
            assert_eq!(serde_json::from_str::<RandomSeed>(&text).unwrap(), seed, "{text}");
        }
        assert_eq!(serde_json::from_str::<RandomSeed>("\"per_request\"").unwrap(), RandomSeed::PerRequest(true));
        assert!(serde_json::from_str::<RandomSeed>("\"each\"").is_err());
    }
}
