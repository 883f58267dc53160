//! The load of a benchmark: how and when requests arrive, pauses, levels of a sweep, when the schedule ends, and the
//! seed; what a test of MLPerf is for, and for which division.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::prompts::LONGEST_LENGTH;
use super::quantity::TimeSpan;
use super::schema_format::MOST_REQUESTS;
use crate::units::{four_digits, rounded_within};

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

// The levels of a sweep: a list, or a range that is cut in equal ratios.

/// More points than this are an error in a manifest.
const MOST: usize = 200;

/// `[1, 2, 4]`, `1..64` (doubling) or `1..64:5` (5 levels, ends included, with equal ratios).
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged, expecting = "a list of numbers, or a range such as `1..64` or `1..64:5`")]
pub enum SweepLevels {
    List(#[serde(serialize_with = "whole_where_it_is")] Vec<f64>),
    Range(LevelRange),
}

/// `1..64` or `1..64:5`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelRange {
    low: f64,
    high: f64,
    /// `None`: each level is twice the one before.
    count: Option<usize>,
}

/// `[1, 2.5]`: a whole number has no point.
fn whole_where_it_is<S: Serializer>(levels: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_seq(Some(levels.len()))?;
    for level in levels {
        if level.fract() == 0.0 && level.abs() < 1e15 {
            list.serialize_element(&(*level as i64))?;
        } else {
            list.serialize_element(level)?;
        }
    }
    list.end()
}

/// What is wrong with levels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SweepLevelsError {
    #[error("`{0}` is not a list of numbers such as `1,2,4` or a range such as `1..64` or `1..64:5`")]
    Text(String),
    #[error("every level must be above 0")]
    NotAboveZero,
    #[error("levels must be whole numbers here, but `{0}` is not")]
    NotWhole(String),
    #[error("levels are at most {LONGEST_LENGTH} here, but `{0}` is more")]
    TooHigh(String),
    #[error("the list of levels is empty")]
    Empty,
    #[error("there are more than {MOST} levels")]
    TooMany,
}

impl SweepLevels {
    /// The levels in ascending order, each once; `is_whole` rounds those of a range to whole numbers.
    ///
    /// # Errors
    /// No level, too many, one that is not above 0, or one that is not a whole number where it has to be.
    pub fn ascending(&self, is_whole: bool) -> Result<Vec<f64>, SweepLevelsError> {
        let mut levels = match self {
            Self::List(levels) => levels.clone(),
            Self::Range(range) => range.levels(is_whole),
        };
        if levels.iter().any(|level| !level.is_finite() || *level <= 0.0) {
            return Err(SweepLevelsError::NotAboveZero);
        }
        if let Some(level) = levels.iter().find(|level| is_whole && level.fract() != 0.0) {
            return Err(SweepLevelsError::NotWhole(level.to_string()));
        }
        if let Some(level) = levels.iter().find(|level| is_whole && **level > f64::from(LONGEST_LENGTH)) {
            return Err(SweepLevelsError::TooHigh(level.to_string()));
        }
        levels.sort_by(f64::total_cmp);
        levels.dedup_by(|a, b| a.total_cmp(b).is_eq());
        match levels.len() {
            0 => Err(SweepLevelsError::Empty),
            count if count > MOST => Err(SweepLevelsError::TooMany),
            _ => Ok(levels),
        }
    }
}

impl LevelRange {
    fn levels(&self, is_whole: bool) -> Vec<f64> {
        let &Self { low, high, count } = self;
        // A level that is whole is round enough: 32 between 16 and 64.
        let rounded = |level: f64, below: f64| match four_digits(level) {
            _ if is_whole => level.round().max(1.0),
            level if level.fract() == 0.0 => level,
            level => rounded_within(level, level - below),
        };
        let inner: Vec<f64> = match count {
            None => std::iter::successors(Some(low), |level| Some(level * 2.0))
                .take_while(|level| *level < high * 0.999_999)
                .take(MOST + 1)
                .collect(),
            Some(count) => {
                let ratio = (high / low).powf(1.0 / (count.max(2) - 1) as f64);
                (0..count.saturating_sub(1)).map(|step| low * ratio.powi(step as i32)).collect()
            }
        };
        // The ends are as they were given.
        let pairs = inner.windows(2).map(|pair| rounded(pair[1], pair[0]));
        [low].into_iter().chain(pairs).chain([high]).collect()
    }
}

impl FromStr for LevelRange {
    type Err = SweepLevelsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (range, count) = text.split_once(':').map_or((text, None), |(range, count)| (range, Some(count)));
            let (low, high) = range.split_once("..")?;
            let number = |text: &str| text.trim().parse::<f64>().ok().filter(|level| level.is_finite());
            let count = match count {
                Some(count) => Some(count.trim().parse::<usize>().ok().filter(|count| *count > 0)?),
                None => None,
            };
            Some(Self { low: number(low)?, high: number(high)?, count })
        };
        let range = read().ok_or_else(|| SweepLevelsError::Text(text.to_owned()))?;
        if range.low <= 0.0 {
            return Err(SweepLevelsError::NotAboveZero);
        }
        if range.count.is_some_and(|count| count > MOST) {
            return Err(SweepLevelsError::TooMany);
        }
        if range.low >= range.high || range.count == Some(1) {
            return Err(SweepLevelsError::Text(text.to_owned()));
        }
        Ok(range)
    }
}

impl FromStr for SweepLevels {
    type Err = SweepLevelsError;

    /// As on a command line: `1,2,4`, `1..64`, `1..64:5`, or one number.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains("..") {
            return Ok(Self::Range(text.parse()?));
        }
        let levels = text.split(',').map(|level| level.trim().parse::<f64>());
        let levels: Result<Vec<f64>, _> = levels.collect();
        Ok(Self::List(levels.map_err(|_| SweepLevelsError::Text(text.to_owned()))?))
    }
}

impl fmt::Display for LevelRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.low, self.high)?;
        self.count.map_or(Ok(()), |count| write!(f, ":{count}"))
    }
}

crate::text_serde!(LevelRange);

impl JsonSchema for SweepLevels {
    fn schema_name() -> Cow<'static, str> {
        "SweepLevels".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "array", "items": { "type": "number" }, "minItems": 1, "maxItems": MOST },
                { "type": "string" },
            ]
        })
    }
}

// `bench.sweep:` — one benchmark at several levels of one of its values.

/// The value that changes from point to point, and its levels. Each point is a whole measurement with a verdict of its
/// own. A level list is `[1, 2, 4]`; `1..64` doubles from 1 to 64; `1..64:5` is 5 levels with equal ratios.
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
    /// With the scenario `server`: one user (idle), more until throughput stops growing (saturation), then this many
    /// rates in between.
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

    fn levels(text: &str, is_whole: bool) -> Result<Vec<f64>, SweepLevelsError> {
        text.parse::<SweepLevels>()?.ascending(is_whole)
    }

    #[test]
    fn lists_are_in_numeric_order_and_ranges_have_equal_ratios() {
        assert_eq!(levels("10,2,5,2", true).unwrap(), [2.0, 5.0, 10.0]);
        assert_eq!(levels("1..16", true).unwrap(), [1.0, 2.0, 4.0, 8.0, 16.0]);
        assert_eq!(levels("1..20", true).unwrap(), [1.0, 2.0, 4.0, 8.0, 16.0, 20.0]);
        assert_eq!(levels("2..64:6", false).unwrap(), [2.0, 4.0, 8.0, 16.0, 32.0, 64.0]);
        assert_eq!(levels("0.5..4:3", false).unwrap(), [0.5, 1.4, 4.0]);
        assert_eq!(levels("1..8:6", true).unwrap(), [1.0, 2.0, 3.0, 5.0, 8.0]);
        assert_eq!(levels("7", true).unwrap(), [7.0]);
    }

    #[test]
    fn what_is_no_level_is_refused() {
        for wrong in ["", "a", "1,,2", "1...4", "4..1", "1..1", "1..4:0", "1..4:1", "..4", "1..4:x"] {
            assert!(matches!(levels(wrong, false), Err(SweepLevelsError::Text(_))), "{wrong}");
        }
        assert_eq!(levels("0,1", false), Err(SweepLevelsError::NotAboveZero));
        assert_eq!(levels("0..4", false), Err(SweepLevelsError::NotAboveZero));
        assert_eq!(levels("1.5,2", true), Err(SweepLevelsError::NotWhole("1.5".to_owned())));
        assert_eq!(levels("2000000000", true), Err(SweepLevelsError::TooHigh("2000000000".to_owned())));
        assert_eq!(levels("1..2:201", false), Err(SweepLevelsError::TooMany));
        assert_eq!(SweepLevels::List(Vec::new()).ascending(true), Err(SweepLevelsError::Empty));
    }

    #[test]
    fn a_manifest_has_a_list_or_a_text() {
        let read = |json: serde_json::Value| serde_json::from_value::<SweepLevels>(json);
        assert_eq!(read(serde_json::json!([1, 2])).unwrap(), SweepLevels::List(vec![1.0, 2.0]));
        let range = read(serde_json::json!("1..64:5")).unwrap();
        assert_eq!(serde_json::to_value(&range).unwrap(), serde_json::json!("1..64:5"));
        assert!(read(serde_json::json!("1-64")).unwrap_err().to_string().contains("a range such as"));
    }
}
