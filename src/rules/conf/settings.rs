//! What LoadGen will work with: its built-in configuration, user.conf and audit.config, one over the other.

use serde_json::Value;

use super::super::test_request::ResolvedTest;
use super::super::{MlperfScenario, TestRequest};
use base::spec::TestMode;

/// Ten minutes: what every language model's run must last.
pub const MIN_DURATION_MS: u64 = 600_000;
/// Default duration of a rehearsal.
pub const REHEARSAL_DURATION_MS: u64 = 10_000;
/// A rehearsal draws from this many samples, if there are as many.
const REHEARSAL_SAMPLES: u64 = 256;
/// Of fewer queries early stopping believes no 99th percentile, also where all were in time: it needs 459.
const REHEARSAL_QUERIES: u64 = 480;
/// LoadGen's own default where mlperf.conf has none.
const DEFAULT_MIN_QUERIES: u64 = 100;
/// LoadGen's own default for SingleStream, milliseconds.
const DEFAULT_EXPECTED_LATENCY_MS: f64 = 10.0;

/// Settings in force. Durations in milliseconds; 0 as a maximum means none.
#[derive(Clone, Debug, PartialEq)]
pub struct TestSettings {
    pub scenario: MlperfScenario,
    pub mode: TestMode,
    /// Of SingleStream what follows from the latency that is expected.
    pub target_qps: f64,
    pub min_duration_ms: u64,
    pub max_duration_ms: u64,
    pub min_query_count: u64,
    pub max_query_count: u64,
    /// Samples that are loaded at once: never more than the data set has.
    pub performance_samples: u64,
    /// Samples of an accuracy run.
    pub accuracy_samples: u64,
    /// Every sample is issued equally often (`sample_concatenate_permutation`).
    pub equal_issue: bool,
    /// Every sample is issued once (`performance_issue_unique`).
    pub issue_unique: bool,
}

impl TestSettings {
    /// Settings of a test with known names.
    pub(crate) fn of(request: &TestRequest<'_>, found: &ResolvedTest) -> Self {
        let set = |name: &str| request.user_conf.get(name);
        let count = |name: &str| set(name).and_then(Value::as_u64);
        let flag =
            |name: &str| set(name).and_then(|value| value.as_bool().or_else(|| value.as_u64().map(|one| one == 1)));
        let benchmark = &found.benchmark;
        let here = request.dataset_samples.unwrap_or(u64::MAX);
        let drawn = if request.rehearsal { here.min(REHEARSAL_SAMPLES) } else { here };
        let target_qps = match request.scenario {
            MlperfScenario::SingleStream => {
                1e3 / set("target_latency").and_then(Value::as_f64).unwrap_or(DEFAULT_EXPECTED_LATENCY_MS)
            }
            _ => request.target_qps.unwrap_or(1.0),
        };
        let rule = if request.rehearsal { REHEARSAL_DURATION_MS } else { MIN_DURATION_MS };
        let least = match request.scenario {
            MlperfScenario::Offline if request.rehearsal => benchmark.offline_min_samples.min(drawn),
            MlperfScenario::Offline => benchmark.offline_min_samples,
            MlperfScenario::Server | MlperfScenario::Interactive if request.rehearsal => REHEARSAL_QUERIES,
            _ => DEFAULT_MIN_QUERIES,
        };
        let samples = count("performance_sample_count_override").unwrap_or(benchmark.performance_samples.min(drawn));
        let accuracy = benchmark.accuracy_samples.unwrap_or(benchmark.dataset_samples).min(drawn);
        let plain = Self {
            scenario: request.scenario,
            mode: request.mode,
            target_qps,
            min_duration_ms: count("min_duration").unwrap_or(rule),
            max_duration_ms: count("max_duration").unwrap_or(0),
            min_query_count: count("min_query_count").unwrap_or(least),
            max_query_count: count("max_query_count").unwrap_or(0),
            performance_samples: samples.min(here),
            accuracy_samples: count("accuracy_sample_count_override").unwrap_or(accuracy).min(here),
            equal_issue: flag("sample_concatenate_permutation").unwrap_or(true),
            issue_unique: flag("performance_issue_unique").unwrap_or(false),
        };
        plain.audited(request, found)
    }

    /// With what audit.config puts over it.
    fn audited(self, request: &TestRequest<'_>, found: &ResolvedTest) -> Self {
        let rehearsed = request.rehearsal.then_some(self.performance_samples);
        let Some(audit) = super::super::audit_config::audit_config(found, request.mode, rehearsed) else { return self };
        let its_own = found.benchmark.audits.get(&request.mode).map_or(u64::MAX, |audit| audit.samples);
        Self {
            performance_samples: self.performance_samples.min(its_own),
            min_duration_ms: 0,
            min_query_count: audit.min_query_count,
            equal_issue: false,
            issue_unique: audit.issue_unique || self.issue_unique,
            ..self
        }
    }
}
