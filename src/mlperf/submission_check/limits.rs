//! Latency limits of Server and Interactive: those that were in force, and what came out.

use std::path::Path;

use super::finding::GateFindings;
use super::gate_check::GateCheck;
use crate::mlperf::log::Detail;
use crate::mlperf::{Benchmark, MlperfScenario};

/// Time to the first token and between tokens: what was in force, and what came out.
pub(super) fn check(
    to: &mut GateFindings,
    at: &Path,
    detail: &Detail,
    benchmark: &Benchmark,
    scenario: MlperfScenario,
) {
    if detail.flag("requested_use_token_latencies") != Some(true) {
        let what = "use_token_latencies was off";
        let why = "language models are judged by tokens; LoadGen drops the rule for a model name that it does not know";
        to.refuse(
            GateCheck::TokenLatencies,
            at,
            what,
            why,
            format!("LoadGen's name of the model is `{}`", benchmark.loadgen_model),
        );
    }
    let Some(limit) = benchmark.latency.get(&scenario) else { return };
    if detail.number("effective_target_latency_percentile").is_some_and(|percentile| percentile < 0.99) {
        to.refuse(
            GateCheck::LatencyLimits,
            at,
            "the percentile in force is below 99",
            "limits are for the 99th percentile",
            "take it out of user.conf; run again",
        );
    }
    let kinds = [
        ("TTFT", "ttft", limit.ttft_ms, "result_first_token_99.00_percentile_latency_ns"),
        ("TPOT", "tpot", limit.tpot_ms, "result_time_per_output_token_99.00_percentile_ns"),
    ];
    for (name, key, limit_ms, measured) in kinds {
        let in_force = detail.number(&format!("requested_server_{key}_latency")).map(|ns| ns / 1e6);
        if in_force.is_none_or(|ms| ms > limit_ms) {
            let what = format!(
                "the {name} limit in force was {} ms, {} has {limit_ms} ms",
                in_force.map_or("no".to_owned(), |ms| ms.to_string()),
                scenario.title()
            );
            let why = "LoadGen judged this run by looser limits than its folder's; the official checker takes it";
            to.refuse(
                GateCheck::LatencyLimits,
                at,
                what,
                why,
                format!("run it as model `{}`", benchmark.loadgen_model(scenario)),
            );
        }
        match detail.number(measured).map(|ns| ns / 1e6) {
            Some(ms) if ms > 0.0 && ms < limit_ms => {}
            found => {
                let what = format!(
                    "p99 {name} (LoadGen's, from issue) is {}, the limit is {limit_ms} ms",
                    found.map_or("not logged".to_owned(), |ms| format!("{ms:.1} ms"))
                );
                let why = format!("{} of {} keeps the limit", scenario.title(), benchmark.loadgen_model);
                to.refuse(GateCheck::Latency, at, what, why, "lower target_qps and run again");
            }
        }
    }
}
