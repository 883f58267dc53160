//! The result of several runs of one measurement.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::measure::repeats::{AcrossRuns, RepeatedRun, Repeats, repeat_folder};
use crate::measure::verdict_check::VerdictCheck;
use crate::measure::verdict_reason::{ReasonSeverity, VerdictReasons};
use crate::{Reason, RunResult};

/// Statistics of a metric that are reported over runs.
const STATISTICS: [&str; 5] = ["mean", "p50", "p90", "p95", "p99"];
const RATES: [&str; 4] = ["requests_full", "requests_loadgen_completed", "output_tokens", "offered"];
/// Other numbers, each with its unit and its place in a result.
const OTHERS: [(&str, &str, &str); 7] = [
    ("goodput", "/s", "/goodput/requests"),
    ("attainment", "", "/goodput/attainment"),
    ("window", "s", "/rates/window_s"),
    ("requests_scheduled", "", "/counts/scheduled"),
    ("requests_ok", "", "/counts/ok"),
    ("requests_failed", "", "/counts/failed"),
    ("tokens_per_joule", "/J", "/gpu/tokens_per_joule"),
];

/// The result of all runs: the first run's numbers, the reasons of every run, and statistics over runs. `None` without runs.
pub fn result_of_repeats(runs: &[RunResult]) -> Option<RunResult> {
    let mut result = runs.first()?.clone();
    result.judged(judge(runs));
    let repeated = runs.iter().zip(1..).map(|(run, number)| RepeatedRun {
        folder: repeat_folder(number),
        seed: run.requested.seed,
        verdict: run.verdict(),
        started: run.started.clone(),
    });
    result.repeats = Some(Repeats { runs: repeated.collect(), shown: 1, over_runs: over_runs(runs) });
    Some(result)
}

/// The findings of every run, and whether all of them measured the same servers.
fn judge(runs: &[RunResult]) -> VerdictReasons {
    let of_run = |(run, number): (&RunResult, u32)| -> Vec<Reason> {
        let named = |reason: &Reason| Reason { text: format!("run {number}: {}", reason.text), ..reason.clone() };
        run.reasons().iter().map(named).collect()
    };
    let mut found: VerdictReasons = runs.iter().zip(1..).flat_map(of_run).collect();
    for (run, number) in runs.iter().zip(1..).skip(1) {
        let (Some(one), Some(another)) = (&runs[0].identity, &run.identity) else { continue };
        let changed = one.changes(another);
        if !changed.is_empty() {
            let text = format!(
                "run {number} measured another server than run 1, so their numbers are of no one server: {}",
                changed.join("; ")
            );
            found.add(VerdictCheck::Identity, ReasonSeverity::InvalidServer, text);
        }
    }
    found
}

fn over_runs(runs: &[RunResult]) -> BTreeMap<String, AcrossRuns> {
    let results: Vec<Value> = runs.iter().filter_map(|run| serde_json::to_value(run).ok()).collect();
    let mut all = BTreeMap::new();
    let mut add = |name: String, unit: &str, place: &str| {
        let values: Option<Vec<f64>> = results.iter().map(|run| run.pointer(place)?.as_f64()).collect();
        let Some(values) = values.filter(|values| values.len() == runs.len()) else { return };
        if let Some(over) = AcrossRuns::of(unit, values) {
            all.insert(name, over);
        }
    };
    let metrics = results.first().and_then(|run| run["latency"].as_object()).into_iter().flatten();
    for (metric, _) in metrics {
        for statistic in STATISTICS {
            add(format!("{metric}_{statistic}"), "ms", &format!("/latency/{metric}/{statistic}"));
        }
        add(format!("{metric}_n"), "", &format!("/latency/{metric}/n"));
    }
    for rate in RATES {
        add(rate.to_owned(), "/s", &format!("/rates/{rate}"));
    }
    for (name, unit, place) in OTHERS {
        add(name.to_owned(), unit, place);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::event::Verdict;

    #[test]
    fn of_all_runs_numbers_are_means_and_counts_are_sums() {
        let text = include_str!("../../../tests/golden/results/benchmark/result.json");
        let one: RunResult = serde_json::from_str(text).unwrap();
        let runs = [(200.0, 0), (300.0, 2), (400.0, 1)].map(|(p99, failed)| {
            let mut run = one.clone();
            run.latency.ttft.p99 = Some(p99);
            run.counts.failed = failed;
            run
        });
        let whole = result_of_repeats(&runs).unwrap();
        assert_eq!((whole.runs(), whole.latency.ttft.p99, whole.counts.failed), (3, Some(200.0), 0), "run 1 is shown");
        assert_eq!(whole.number("ttft_p99", whole.latency.ttft.p99), Some(300.0));
        assert_eq!(whole.count("requests_failed", whole.counts.failed), Some(3));
        assert_eq!(whole.number("a number that no run has", Some(1.0)), None);
        assert_eq!((one.number("ttft_p99", Some(1.0)), one.count("requests_failed", 4)), (Some(1.0), Some(4)));
    }

    #[test]
    fn runs_of_different_servers_are_not_pooled() {
        let text = include_str!("../../../tests/golden/results/benchmark/result.json");
        let one: RunResult = serde_json::from_str(text).unwrap();
        let alike = result_of_repeats(&std::iter::repeat_n(one.clone(), 2).collect::<Vec<_>>()).unwrap();
        assert!(alike.reasons().iter().all(|reason| reason.check != VerdictCheck::Identity), "{:?}", alike.reasons());
        assert!(alike.headline().contains("SIMULATED"), "{}", alike.headline());
        let mut other = one.clone();
        other.identity.as_mut().unwrap().servers[0].version = Some("99".to_owned());
        let pooled = result_of_repeats(&std::iter::once(one).chain([other]).collect::<Vec<_>>()).unwrap();
        assert_eq!(pooled.verdict(), Verdict::InvalidServer);
        let text = &pooled.reasons()[0].text;
        assert!(text.starts_with("run 2 measured another server than run 1"), "{text}");
    }
}
