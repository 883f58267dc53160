//! The keys of user.conf: LoadGen reads these and silently ignores any other.

use super::super::MlperfScenario;
use base::spec::Division;

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConfValueKind {
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

/// One key, and which file may set it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConfKey {
    pub name: &'static str,
    pub kind: ConfValueKind,
    /// LoadGen reads it in these scenarios only. Empty: in all.
    pub scenarios: &'static [MlperfScenario],
    /// Closed: both divisions may set it.
    pub division: Division,
}

const SERVER: &[MlperfScenario] = &[MlperfScenario::Server, MlperfScenario::Interactive];

const fn key(name: &'static str, kind: ConfValueKind) -> ConfKey {
    ConfKey { name, kind, scenarios: &[], division: Division::Closed }
}

const fn of(scenarios: &'static [MlperfScenario], key: ConfKey) -> ConfKey {
    ConfKey { scenarios, ..key }
}

const fn open(key: ConfKey) -> ConfKey {
    ConfKey { division: Division::Open, ..key }
}

/// Sources: `TestSettings::FromConfig` of LoadGen 6.0.17 for names and scenarios, the rules for the divisions.
pub(super) const KEYS: [ConfKey; 23] = [
    key("min_duration", ConfValueKind::Milliseconds),
    key("max_duration", ConfValueKind::Milliseconds),
    key("min_query_count", ConfValueKind::Count),
    key("max_query_count", ConfValueKind::Count),
    key("performance_sample_count_override", ConfValueKind::Count),
    key("accuracy_sample_count_override", ConfValueKind::Count),
    key("sample_concatenate_permutation", ConfValueKind::Flag),
    key("print_timestamps", ConfValueKind::Flag),
    key("accuracy_log_rng_seed", ConfValueKind::Count),
    key("accuracy_log_sampling_target", ConfValueKind::Count),
    of(SERVER, key("coalesce_queries", ConfValueKind::Flag)),
    of(SERVER, key("max_async_queries", ConfValueKind::Count)),
    // In Server it is a limit, in SingleStream the expected value: `check` distinguishes them.
    key("target_latency", ConfValueKind::Number),
    of(
        &[MlperfScenario::Server, MlperfScenario::Interactive, MlperfScenario::SingleStream],
        open(key("target_latency_percentile", ConfValueKind::Percent)),
    ),
    of(SERVER, open(key("ttft_latency", ConfValueKind::Milliseconds))),
    of(SERVER, open(key("tpot_latency", ConfValueKind::Milliseconds))),
    open(key("use_token_latencies", ConfValueKind::Flag)),
    open(key("infer_token_latencies", ConfValueKind::Flag)),
    open(key("token_latency_scaling_factor", ConfValueKind::Count)),
    open(key("performance_issue_unique", ConfValueKind::Flag)),
    open(key("performance_issue_same", ConfValueKind::Flag)),
    open(key("performance_issue_same_index", ConfValueKind::Count)),
    // Never set: no scenario here is MultiStream. Listed so that an error can name its scenario.
    of(&[], open(key("samples_per_query", ConfValueKind::Count))),
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

/// Keys that the manifest sets elsewhere, and where.
pub(super) const SAID_ELSEWHERE: [(&str, &str); 2] = [("mode", "mode"), ("target_qps", "target_qps")];

/// Whether only a submission to Open may set it.
pub fn is_open_only(name: &str, scenario: MlperfScenario) -> bool {
    ConfKey::named(name).is_some_and(|key| key.division_in(scenario) == Division::Open)
}

impl ConfKey {
    pub(super) fn named(name: &str) -> Option<Self> {
        KEYS.into_iter().find(|key| key.name == name)
    }

    /// Whether LoadGen looks at it in this scenario.
    pub(super) fn is_read_in(&self, scenario: MlperfScenario) -> bool {
        match self.name {
            // MultiStream's.
            "samples_per_query" => false,
            "target_latency" => scenario != MlperfScenario::Offline,
            _ => self.scenarios.is_empty() || self.scenarios.contains(&scenario),
        }
    }

    /// Which division may set it here.
    pub(super) fn division_in(&self, scenario: MlperfScenario) -> Division {
        match (self.name, scenario) {
            ("target_latency", MlperfScenario::Server | MlperfScenario::Interactive) => Division::Open,
            _ => self.division,
        }
    }
}
