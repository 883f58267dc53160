//! The request for a LoadGen test, and what can be wrong with it.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Benchmark, Round};
use base::diag::{did_you_mean, list_of};
use base::spec::{Division, Scenario, TestMode};

// The scenarios of the rules.

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

/// One test as requested. Nothing in it has been checked.
#[derive(Clone, Debug)]
pub struct TestRequest<'a> {
    /// `v6.1`.
    pub round: &'a str,
    /// `llama2-70b-99.9`.
    pub benchmark: &'a str,
    pub scenario: MlperfScenario,
    pub mode: TestMode,
    pub division: Division,
    /// All rules but the durations.
    pub rehearsal: bool,
    pub target_qps: Option<f64>,
    /// Settings of user.conf by LoadGen's names, without model and scenario.
    pub user_conf: &'a IndexMap<String, Value>,
    /// Of the existing data set. None: it is not made yet, and will be whole.
    pub dataset_samples: Option<u64>,
}

/// Something that the rules or LoadGen forbid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// Where: keys below `bench.loadgen`, or `["scenario"]` for `bench.scenario`.
    pub at: Vec<String>,
    /// What is wrong, beginning with a verb: `must be at least 600000`.
    pub what: String,
    /// The rule, in short.
    pub rule: String,
    pub hint: Option<String>,
    /// It is the key that is wrong, whatever its value.
    pub is_of_key: bool,
}

impl RuleError {
    pub(super) fn new(at: &[&str], what: impl Into<String>, rule: impl Into<String>) -> Self {
        let at = at.iter().map(|&key| key.to_owned()).collect();
        Self { at, what: what.into(), rule: rule.into(), hint: None, is_of_key: false }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) const fn of_key(mut self) -> Self {
        self.is_of_key = true;
        self
    }

    pub(super) fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }
}

/// Its names found in the tables.
#[derive(Clone, Debug)]
pub struct ResolvedTest {
    pub round: Round,
    pub benchmark: Benchmark,
}

impl ResolvedTest {
    /// The round and the benchmark of these names, or what is wrong with one of them.
    pub fn named(round: &str, benchmark: &str) -> Result<Self, RuleError> {
        let Some(table) = Round::named(round) else {
            let wrong = RuleError::new(&["round"], format!("cannot be `{round}`"), "it has no table");
            return Err(wrong.maybe_hint(did_you_mean(round, Round::NAMES)));
        };
        match table.benchmarks.get(benchmark).cloned() {
            Some(benchmark) => Ok(Self { round: table, benchmark }),
            None => Err(not_in(&table, benchmark)),
        }
    }
}

impl TestRequest<'_> {
    /// The round and the benchmark that are named, or what is wrong with the names.
    pub fn find(&self) -> Result<ResolvedTest, Vec<RuleError>> {
        ResolvedTest::named(self.round, self.benchmark).map_err(|wrong| vec![wrong])
    }

    /// Whether durations and numbers of samples are those of the rules: not in rehearsals, nor where a test sets its
    /// own.
    pub fn is_measured(&self) -> bool {
        !self.rehearsal && matches!(self.mode, TestMode::Performance)
    }
}

/// A benchmark that the round does not have: perhaps another round has, or LoadGen calls a model so.
fn not_in(round: &Round, name: &str) -> RuleError {
    if let Some(why) = round.left_out(name) {
        let message = format!("cannot be `{name}`");
        let rule = format!("of {}, but left out here: {why}", round.name);
        let benchmarks = list_of(round.benchmarks.keys().map(String::as_str));
        return RuleError::new(&["benchmark"], message, rule).hint(format!("there are {benchmarks}"));
    }
    let elsewhere: Vec<&str> = Round::NAMES
        .into_iter()
        .filter(|other| Round::named(other).is_some_and(|round| round.benchmarks.contains_key(name)))
        .collect();
    let variants: Vec<&str> = round
        .benchmarks
        .iter()
        .filter(|(variant, benchmark)| {
            benchmark.loadgen_model == name || variant.strip_prefix(name).is_some_and(|rest| rest.starts_with("-99"))
        })
        .map(|(variant, _)| variant.as_str())
        .collect();
    let names = || round.benchmarks.keys().map(String::as_str);
    let hint = if !variants.is_empty() {
        Some(format!("name it: {}", list_of(variants)))
    } else if elsewhere.is_empty() {
        did_you_mean(name, names())
    } else {
        let is_of = list_of(elsewhere);
        Some(format!("it is in {is_of}; {} has {}", round.name, list_of(names())))
    };
    let message = format!("cannot be `{name}`");
    RuleError::new(&["benchmark"], message, format!("not a benchmark of {}", round.name)).maybe_hint(hint)
}
