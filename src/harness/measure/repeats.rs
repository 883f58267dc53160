//! One measurement made several times with different seeds: the summary of all runs in `result.json`.
//!
//! ```text
//!  result.json               the first run, with the verdict of all and `repeats`
//!  repeats/01/result.json    each run whole, with its requests
//!  repeats/02/…
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::Verdict;
use crate::harness::{Reason, ReasonSeverity, RunResult, verdict};
use crate::stats::{RunValues, mean_interval};

/// The folder of the runs, below that of their result.
pub const REPEATS: &str = "repeats";
/// Statistics of a metric that are told over runs.
const STATISTICS: [&str; 5] = ["mean", "p50", "p90", "p95", "p99"];
const RATES: [&str; 3] = ["requests_full", "requests_loadgen_completed", "output_tokens"];
/// More folders than this are not of our making.
const MOST: usize = 10_000;

/// `repeats` of a result: the runs of one measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Repeats {
    pub runs: Vec<RepeatedRun>,
    /// Which of the runs, from 1, all other numbers of this result are from.
    pub shown: u64,
    /// By metric and statistic: `ttft_p99`, `output_tokens`. A number that not every run has is left out.
    pub over_runs: BTreeMap<String, OverRuns>,
}

/// One of the runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RepeatedRun {
    /// Below the folder of the result.
    pub folder: PathBuf,
    pub seed: u64,
    pub verdict: Verdict,
    /// Start of set-up, RFC 3339, UTC.
    pub started: String,
}

/// One number of all runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverRuns {
    /// `ms` or `/s`.
    pub unit: String,
    /// In the order of the runs.
    pub values: Vec<f64>,
    pub mean: f64,
    /// Between runs, with n − 1.
    pub stddev: f64,
    /// 95 % interval of the mean over runs, by Student's t: where the mean of many more such runs would be.
    pub low: f64,
    pub high: f64,
}

/// Where the run of this number, from 1, is kept.
pub fn repeat_folder(number: u32) -> PathBuf {
    Path::new(REPEATS).join(format!("{number:02}"))
}

/// Folders of the runs that `folder` has the result of, in their order; none where it was measured once.
pub fn repeat_folders(folder: &Path) -> Vec<PathBuf> {
    let below = std::fs::read_dir(folder.join(REPEATS)).into_iter().flatten().flatten().take(MOST);
    let mut found: Vec<PathBuf> =
        below.map(|item| item.path()).filter(|path| path.join("result.json").is_file()).collect();
    let number = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok());
    found.sort_by_key(|path| (number(path).is_none(), number(path), path.clone()));
    found
}

/// The result of all runs: the first one's numbers, everybody's reasons, and what is known over runs. `None` without runs.
pub fn result_of_repeats(runs: &[RunResult]) -> Option<RunResult> {
    let mut result = runs.first()?.clone();
    result.reasons = runs
        .iter()
        .zip(1..)
        .flat_map(|(run, number)| {
            run.reasons.iter().map(move |reason| {
                let mut reason = reason.clone();
                reason.text = format!("run {number}: {}", reason.text);
                reason
            })
        })
        .collect();
    for (run, number) in runs.iter().zip(1..).skip(1) {
        let (Some(one), Some(another)) = (&runs[0].identity, &run.identity) else { continue };
        let changed = one.changes(another);
        if !changed.is_empty() {
            let text = format!(
                "run {number} measured another server than run 1, so their numbers are of no one server: {}",
                changed.join("; ")
            );
            result.reasons.push(Reason { check: "identity".to_owned(), severity: ReasonSeverity::InvalidServer, text });
        }
    }
    result.reasons.sort_by_key(|reason| reason.severity);
    result.verdict = verdict::verdict(&result.reasons);
    let told = runs.iter().zip(1..).map(|(run, number)| RepeatedRun {
        folder: repeat_folder(number),
        seed: run.asked.seed,
        verdict: run.verdict,
        started: run.started.clone(),
    });
    result.repeats = Some(Repeats { runs: told.collect(), shown: 1, over_runs: over_runs(runs) });
    Some(result)
}

fn over_runs(runs: &[RunResult]) -> BTreeMap<String, OverRuns> {
    let told: Vec<Value> = runs.iter().filter_map(|run| serde_json::to_value(run).ok()).collect();
    let mut all = BTreeMap::new();
    let mut add = |name: String, unit: &str, place: &str| {
        let values: Option<Vec<f64>> = told.iter().map(|run| run.pointer(place)?.as_f64()).collect();
        let Some(values) = values.filter(|values| values.len() == runs.len()) else { return };
        if let (Some(of), Some((low, high))) = (RunValues::of(&values), mean_interval(&values)) {
            let stddev = of.variance.sqrt();
            all.insert(name, OverRuns { unit: unit.to_owned(), values, mean: of.mean, stddev, low, high });
        }
    };
    let metrics = told.first().and_then(|run| run["latency"].as_object()).into_iter().flatten();
    for (metric, _) in metrics {
        for statistic in STATISTICS {
            add(format!("{metric}_{statistic}"), "ms", &format!("/latency/{metric}/{statistic}"));
        }
    }
    for rate in RATES {
        add(rate.to_owned(), "/s", &format!("/rates/{rate}"));
    }
    add("goodput".to_owned(), "/s", "/goodput/requests");
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_different_servers_are_not_pooled() {
        let text = include_str!("../../../tests/golden/results/benchmark/result.json");
        let one: RunResult = serde_json::from_str(text).unwrap();
        let alike = result_of_repeats(&std::iter::repeat_n(one.clone(), 2).collect::<Vec<_>>()).unwrap();
        assert!(alike.reasons.iter().all(|reason| reason.check != "identity"), "{:?}", alike.reasons);
        assert!(alike.headline().contains("SIMULATED"), "{}", alike.headline());
        let mut other = one.clone();
        other.identity.as_mut().unwrap().servers[0].version = Some("99".to_owned());
        let pooled = result_of_repeats(&std::iter::once(one).chain([other]).collect::<Vec<_>>()).unwrap();
        assert_eq!(pooled.verdict, Verdict::InvalidServer);
        let text = &pooled.reasons[0].text;
        assert!(text.starts_with("run 2 measured another server than run 1"), "{text}");
    }
}
