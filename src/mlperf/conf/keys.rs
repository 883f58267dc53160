//! The keys of user.conf: LoadGen reads these and ignores, without a word, any other.

use super::super::{Division, Scenario};

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A whole number, 0 or more.
    Count,
    /// Whole milliseconds.
    Milliseconds,
    /// 0 or 1.
    Flag,
    /// A number above 0.
    Number,
    /// Above 0, below 100.
    Percent,
}

/// One key, and who may set it where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub name: &'static str,
    pub kind: Kind,
    /// LoadGen reads it in these scenarios only. Empty: in all.
    pub scenarios: &'static [Scenario],
    /// Closed: both divisions may set it.
    pub division: Division,
}

const SERVER: &[Scenario] = &[Scenario::Server, Scenario::Interactive];

const fn key(name: &'static str, kind: Kind) -> Key {
    Key { name, kind, scenarios: &[], division: Division::Closed }
}

const fn of(scenarios: &'static [Scenario], key: Key) -> Key {
    Key { scenarios, ..key }
}

const fn open(key: Key) -> Key {
    Key { division: Division::Open, ..key }
}

/// Sources: `TestSettings::FromConfig` of LoadGen 6.0.17 for names and scenarios, the rules for the divisions.
pub(super) const KEYS: [Key; 23] = [
    key("min_duration", Kind::Milliseconds),
    key("max_duration", Kind::Milliseconds),
    key("min_query_count", Kind::Count),
    key("max_query_count", Kind::Count),
    key("performance_sample_count_override", Kind::Count),
    key("accuracy_sample_count_override", Kind::Count),
    key("sample_concatenate_permutation", Kind::Flag),
    key("print_timestamps", Kind::Flag),
    key("accuracy_log_rng_seed", Kind::Count),
    key("accuracy_log_sampling_target", Kind::Count),
    of(SERVER, key("coalesce_queries", Kind::Flag)),
    of(SERVER, key("max_async_queries", Kind::Count)),
    // Of Server it is a limit, of SingleStream what is expected: `check` tells them apart.
    key("target_latency", Kind::Number),
    of(
        &[Scenario::Server, Scenario::Interactive, Scenario::SingleStream],
        open(key("target_latency_percentile", Kind::Percent)),
    ),
    of(SERVER, open(key("ttft_latency", Kind::Milliseconds))),
    of(SERVER, open(key("tpot_latency", Kind::Milliseconds))),
    open(key("use_token_latencies", Kind::Flag)),
    open(key("infer_token_latencies", Kind::Flag)),
    open(key("token_latency_scaling_factor", Kind::Count)),
    open(key("performance_issue_unique", Kind::Flag)),
    open(key("performance_issue_same", Kind::Flag)),
    open(key("performance_issue_same_index", Kind::Count)),
    // Never set: no scenario here is MultiStream. Named so that its scenario can be told.
    of(&[], open(key("samples_per_query", Kind::Count))),
];

/// LoadGen reads these from its own mlperf.conf only; in user.conf they do nothing.
pub(super) const BUILT_IN: [&str; 8] = [
    "qsl_rng_seed",
    "sample_index_rng_seed",
    "schedule_rng_seed",
    "accuracy_log_probability",
    "test05",
    "test05_qsl_rng_seed",
    "test05_sample_index_rng_seed",
    "test05_schedule_rng_seed",
];

/// Keys that the manifest says elsewhere, and where.
pub(super) const SAID_ELSEWHERE: [(&str, &str); 2] = [("mode", "mode"), ("target_qps", "target_qps")];

impl Key {
    pub(super) fn named(name: &str) -> Option<Self> {
        KEYS.into_iter().find(|key| key.name == name)
    }

    /// Whether LoadGen looks at it in this scenario.
    pub(super) fn is_read_in(&self, scenario: Scenario) -> bool {
        match self.name {
            // MultiStream's.
            "samples_per_query" => false,
            "target_latency" => scenario != Scenario::Offline,
            _ => self.scenarios.is_empty() || self.scenarios.contains(&scenario),
        }
    }

    /// Which division may set it here.
    pub(super) fn division_in(&self, scenario: Scenario) -> Division {
        match (self.name, scenario) {
            ("target_latency", Scenario::Server | Scenario::Interactive) => Division::Open,
            _ => self.division,
        }
    }
}
