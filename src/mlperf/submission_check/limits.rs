//! Latency limits of Server and Interactive: those that were in force, and what came out.

use std::path::Path;

use super::checks::SubmissionCheck;
use super::finding::{FindingWeight, SubmissionFindings};
use super::tree::ResultEntry;
use crate::SubmissionLayout;
use rules::log::Detail;
use rules::{Benchmark, MlperfScenario};

/// Time to the first token and between tokens: what came out, and in Closed what was in force.
pub(super) fn check(
    to: &mut SubmissionFindings,
    at: &Path,
    detail: &Detail,
    entry: &ResultEntry,
    benchmark: &Benchmark,
    scenario: MlperfScenario,
) {
    if detail.flag("requested_use_token_latencies") != Some(true) {
        let what = "use_token_latencies was off";
        let why = "language models are judged by tokens; LoadGen drops the rule for a model name that it does not know";
        let fix = format!("LoadGen's name of the model is `{}`", benchmark.loadgen_model);
        to.find(weight(entry), SubmissionCheck::TokenLatencies, at, what, why, fix);
    }
    if entry.is_closed() {
        in_force(to, at, detail, benchmark, scenario);
    }
    target_latency(to, at, detail, benchmark, scenario);
    outcome(to, at, detail, entry, benchmark, scenario);
}

/// The official checker of v6.0 knows no limits of gpt-oss-120b, which matters in Open only: Closed keeps the rules.
fn weight(entry: &ResultEntry) -> FindingWeight {
    let is_known = (entry.round, entry.official) != ("v6.0", "gpt-oss-120b");
    if entry.is_closed() || is_known { FindingWeight::Refused } else { FindingWeight::Review }
}

/// What LoadGen judged the run by. In Open it may be anything.
fn in_force(to: &mut SubmissionFindings, at: &Path, detail: &Detail, benchmark: &Benchmark, scenario: MlperfScenario) {
    let Some(limit) = benchmark.latency.get(&scenario) else { return };
    if detail.number("effective_target_latency_percentile").is_some_and(|percentile| percentile < 0.99) {
        to.refuse(
            SubmissionCheck::LatencyLimits,
            at,
            "the percentile in force is below 99",
            "limits are for the 99th percentile",
            "take it out of user.conf; run again",
        );
    }
    for (name, key, limit_ms) in [("TTFT", "ttft", limit.ttft_ms), ("TPOT", "tpot", limit.tpot_ms)] {
        let in_force = detail.number(&format!("requested_server_{key}_latency")).map(|ns| ns / 1e6);
        if in_force.is_none_or(|ms| ms > limit_ms) {
            let what = format!(
                "the {name} limit in force was {} ms, {} has {limit_ms} ms",
                in_force.map_or("no".to_owned(), |ms| ms.to_string()),
                scenario.title()
            );
            let why = "LoadGen judged this run by looser limits than its folder's; the official checker takes it";
            to.refuse(
                SubmissionCheck::LatencyLimits,
                at,
                what,
                why,
                format!("run it as model `{}`", benchmark.loadgen_model(scenario)),
            );
        }
    }
}

/// The latency of a whole query that early stopping went by, in every division; 0 where LoadGen judges tokens.
fn target_latency(
    to: &mut SubmissionFindings,
    at: &Path,
    detail: &Detail,
    benchmark: &Benchmark,
    scenario: MlperfScenario,
) {
    let Some(most) = benchmark.target_latency_ms.filter(|_| scenario.loadgen() == "Server") else { return };
    let in_force = detail.number("effective_target_latency_ns").map(|ns| ns / 1e6);
    if let Some(ms) = in_force.filter(|ms| *ms > most) {
        let what = format!("target_latency was {ms} ms, {} has {most} ms", scenario.title());
        let why = "early stopping goes by the round's latency of a query, or a shorter one";
        to.refuse(SubmissionCheck::LatencyLimits, at, what, why, "take `target_latency` out of user.conf; run again");
    }
}

/// The 99th percentiles.
fn outcome(
    to: &mut SubmissionFindings,
    at: &Path,
    detail: &Detail,
    entry: &ResultEntry,
    benchmark: &Benchmark,
    scenario: MlperfScenario,
) {
    let Some(limit) = benchmark.latency.get(&scenario) else { return };
    // Since v6.0 the official checker goes by the scenario in the log, which is Server for Interactive, too. In Open that decides.
    let in_log = Some(MlperfScenario::Server).filter(|_| entry.layout == SubmissionLayout::Single);
    let accepted = in_log.and_then(|scenario| benchmark.latency.get(&scenario)).unwrap_or(limit);
    let kinds = [
        ("TTFT", limit.ttft_ms, accepted.ttft_ms, "result_first_token_99.00_percentile_latency_ns"),
        ("TPOT", limit.tpot_ms, accepted.tpot_ms, "result_time_per_output_token_99.00_percentile_ns"),
    ];
    for (name, limit_ms, accepted_ms, measured) in kinds {
        let found = detail.number(measured).map(|ns| ns / 1e6);
        if found.is_some_and(|ms| ms > 0.0 && ms < limit_ms) {
            continue;
        }
        let is_accepted = !entry.is_closed() && found.is_some_and(|ms| ms < accepted_ms);
        let weight = if is_accepted { FindingWeight::Review } else { weight(entry) };
        let what = format!(
            "p99 {name} (LoadGen's, from issue) is {}, the limit is {limit_ms} ms",
            found.map_or("not logged".to_owned(), |ms| format!("{ms:.1} ms"))
        );
        let why = format!("{} of {} keeps the limit", scenario.title(), benchmark.loadgen_model);
        to.find(weight, SubmissionCheck::Latency, at, what, why, "lower target_qps and run again");
    }
}
