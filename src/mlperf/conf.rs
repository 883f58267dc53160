//! `user.conf`: what a test asks of LoadGen beyond the built-in mlperf.conf.

use std::fmt::Write as _;

use indexmap::IndexMap;
use serde_json::Value;

use super::{Benchmark, Scenario};

/// What a rehearsal shortens, as keys of user.conf: durations, and how many samples there are at least.
pub const REHEARSAL_MIN_DURATION_MS: u64 = 10_000;

/// LoadGen's name of the model in this scenario.
pub fn model(benchmark: &Benchmark, scenario: Scenario) -> String {
    match scenario {
        Scenario::Interactive => format!("{}-interactive", benchmark.loadgen_model),
        _ => benchmark.loadgen_model.clone(),
    }
}

/// The text of a user.conf. `more` are further keys by LoadGen's names; `rehearsal` says how many samples a rehearsal issues
/// at least and draws from.
pub fn text(
    benchmark: &Benchmark,
    scenario: Scenario,
    target_qps: Option<f64>,
    more: &IndexMap<String, Value>,
    rehearsal: Option<u64>,
) -> String {
    let mut text = String::new();
    let model = model(benchmark, scenario);
    let mut put = |key: &str, value: &dyn std::fmt::Display| {
        let _ = writeln!(text, "{model}.{}.{key} = {value}", scenario.loadgen());
    };
    if let Some(qps) = target_qps {
        put("target_qps", &qps);
    }
    if let Some(samples) = rehearsal {
        for (key, value) in shortened(samples) {
            if !more.contains_key(key) {
                put(key, &value);
            }
        }
    }
    for (key, value) in more {
        put(key, value);
    }
    text
}

/// What a rehearsal writes into user.conf, and a submission must not.
pub const fn shortened(samples: u64) -> [(&'static str, u64); 3] {
    [
        ("min_duration", REHEARSAL_MIN_DURATION_MS),
        ("min_query_count", samples),
        ("performance_sample_count_override", samples),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlperf::Round;

    #[test]
    fn keys_carry_loadgens_own_names() {
        let round = Round::named("v5.1").unwrap();
        let benchmark = &round.benchmarks["llama2-70b-99.9"];
        let more = IndexMap::from([("min_query_count".to_owned(), Value::from(7))]);
        assert_eq!(
            text(benchmark, Scenario::Interactive, Some(2.5), &more, Some(64)),
            "llama2-70b-interactive.Server.target_qps = 2.5\n\
             llama2-70b-interactive.Server.min_duration = 10000\n\
             llama2-70b-interactive.Server.performance_sample_count_override = 64\n\
             llama2-70b-interactive.Server.min_query_count = 7\n"
        );
        assert_eq!(text(benchmark, Scenario::Offline, None, &IndexMap::new(), None), "");
    }
}
