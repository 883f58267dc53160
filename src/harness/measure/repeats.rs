//! One measurement made several times with different seeds: the result of all runs in `result.json`.
//!
//! ```text
//!  result.json               the first run, with the verdict of all and `repeats`
//!  repeats/01/result.json    each run whole, with its requests
//!  repeats/02/…
//! ```
//!
//! A result of several runs shows the numbers of the first run. One number for the whole measurement is a mean over
//! runs: [`RunResult::number`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::measure::reasons::VerdictReasons;
use crate::{HarnessError, Metric, Reason, ReasonSeverity, RunResult, VerdictCheck, changes_of_servers};
use base::event::Verdict;
use base::files::{is_absence, metadata_if_there};
use base::stats::{RunValues, mean_interval};

/// The folder of the runs, below that of their result.
pub const REPEATS: &str = "repeats";
/// More folders than this are not of our making.
const MOST: usize = 10_000;

/// `repeats` of a result: the runs of one measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Repeats {
    pub runs: Vec<RepeatedRun>,
    /// Which of the runs, from 1, all other numbers of this result are from.
    pub shown: u64,
    /// By metric and statistic: `ttft_p99`, `output_tokens`; counts, too: `requests_failed`, `ttft_n`. A number that
    /// not every run has is left out.
    pub over_runs: BTreeMap<String, AcrossRuns>,
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AcrossRuns {
    /// `ms`, `s`, `/s` or `/J`; empty for counts and shares.
    pub unit: String,
    /// In the order of the runs.
    pub values: Vec<f64>,
    pub mean: f64,
    /// Between runs, with n − 1.
    pub stddev: f64,
    /// 95 % interval of the mean over runs, by Student's t: where the mean of many more such runs would be. It ends at
    /// 0 where no run is below.
    pub low: f64,
    pub high: f64,
}

impl AcrossRuns {
    /// `None` for fewer than two runs, and where a value is not a number.
    pub fn new(unit: &str, values: Vec<f64>) -> Option<Self> {
        let (of, (low, high)) = (RunValues::new(&values)?, mean_interval(&values)?);
        // Student's interval of few runs may reach below what no latency, rate or count can be.
        let low = if values.iter().all(|value| *value >= 0.0) { low.max(0.0) } else { low };
        Some(Self { unit: unit.to_owned(), values, mean: of.mean, stddev: of.variance.sqrt(), low, high })
    }

    /// Of a count, what all runs have together.
    pub fn sum(&self) -> u64 {
        self.values.iter().sum::<f64>() as u64
    }
}

/// Where the run of this number, from 1, is kept.
pub fn repeat_folder(number: u32) -> PathBuf {
    Path::new(REPEATS).join(format!("{number:02}"))
}

/// Folders of the runs that `folder` has the result of, in their order; none where it was measured once.
///
/// # Errors
/// Whether one is there cannot be known.
pub fn repeat_folders(folder: &Path) -> Result<Vec<PathBuf>, HarnessError> {
    let below = folder.join(REPEATS);
    let items = match std::fs::read_dir(&below) {
        Err(error) if is_absence(&error) => return Ok(Vec::new()),
        items => items.map_err(|error| unreadable(&below, error))?,
    };
    let mut folders = Vec::new();
    for item in items.take(MOST) {
        let run = item.map_err(|error| unreadable(&below, error))?.path();
        let result = run.join("result.json");
        if metadata_if_there(&result)
            .map_err(|error| unreadable(&result, error))?
            .is_some_and(|folders| folders.is_file())
        {
            folders.push(run);
        }
    }
    let number = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok());
    folders.sort_by_key(|path| (number(path).is_none(), number(path), path.clone()));
    Ok(folders)
}

fn unreadable(path: &Path, source: std::io::Error) -> HarnessError {
    HarnessError::system(format!("cannot look at {}", path.display()))(source)
}

impl RunResult {
    /// How many runs the measurement is of.
    pub fn runs(&self) -> usize {
        self.repeats.as_ref().map_or(1, |repeats| repeats.runs.len())
    }

    /// A number of all runs, of a measurement that was made several times: `ttft_p99`, `output_tokens`.
    pub fn over_runs(&self, name: &str) -> Option<&AcrossRuns> {
        self.repeats.as_ref()?.over_runs.get(name)
    }

    /// A number of the whole measurement: `of_run`, or of several runs their mean, which a number that not every run
    /// has does not have.
    pub fn number(&self, name: &str, of_run: Option<f64>) -> Option<f64> {
        if self.runs() > 1 { self.over_runs(name).map(|over| over.mean) } else { of_run }
    }

    /// A count of the whole measurement: `of_run`, or of several runs their sum; `None` where the file does not have
    /// that.
    pub fn count(&self, name: &str, of_run: u64) -> Option<u64> {
        if self.runs() > 1 { self.over_runs(name).map(AcrossRuns::sum) } else { Some(of_run) }
    }

    /// A latency of the whole measurement: the numbers of the run that the result shows, or of several runs their
    /// means. `key`: its name in the result.
    pub fn metric_over_runs(&self, key: &str, of_run: &Metric) -> Metric {
        let number = |statistic: &str, value| self.number(&format!("{key}_{statistic}"), value);
        Metric {
            mean: number("mean", of_run.mean),
            p50: number("p50", of_run.p50),
            p90: number("p90", of_run.p90),
            p95: number("p95", of_run.p95),
            p99: number("p99", of_run.p99),
            ..of_run.clone()
        }
    }
}

/// Statistics of a metric that are reported over runs.
const STATISTICS: [&str; 5] = ["mean", "p50", "p90", "p95", "p99"];
const RATES: [&str; 6] = [
    "requests_full",
    "requests_loadgen_completed",
    "output_tokens",
    "requests_while_arriving",
    "output_tokens_while_arriving",
    "offered",
];
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

/// The result of all runs: the first run's numbers, the reasons of every run, and statistics over runs. `None` without
/// runs.
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
    let mut reasons = VerdictReasons::default();
    reasons.extend(runs.iter().zip(1..).flat_map(of_run));
    for (run, number) in runs.iter().zip(1..).skip(1) {
        let (Some(one), Some(another)) = (&runs[0].identity, &run.identity) else { continue };
        let changed = changes_of_servers(&one.servers, &another.servers);
        if !changed.is_empty() {
            let text = format!(
                "run {number} measured a different server than run 1, so the results are a mixture: {}",
                changed.join("; ")
            );
            reasons.add(VerdictCheck::Identity, ReasonSeverity::InvalidServer, text);
        }
    }
    reasons
}

fn over_runs(runs: &[RunResult]) -> BTreeMap<String, AcrossRuns> {
    let results: Vec<Value> = runs.iter().filter_map(|run| run.json().ok()).collect();
    let mut numbers = BTreeMap::new();
    let mut add = |name: String, unit: &str, place: &str| {
        let values: Option<Vec<f64>> = results.iter().map(|run| run.pointer(place)?.as_f64()).collect();
        let Some(values) = values.filter(|values| values.len() == runs.len()) else { return };
        if let Some(over) = AcrossRuns::new(unit, values) {
            numbers.insert(name, over);
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
    numbers
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_interval_of_what_is_never_below_0_ends_there() {
        let across = |values: &[f64]| AcrossRuns::new("/s", values.to_vec()).unwrap();
        let two = across(&[7.0, 9.8]);
        assert!(two.low == 0.0 && two.high > 26.0, "{two:?}");
        assert!(across(&[-1.0, 1.0]).low < -10.0);
        assert!(across(&[8.0, 8.1, 8.2]).low > 7.8);
    }

    /// A link to itself cannot be followed, not even by root: like a result on a filesystem that does not answer.
    #[test]
    fn a_run_whose_result_cannot_be_looked_at_is_not_left_out() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(repeat_folders(folder.path()).unwrap(), [] as [PathBuf; 0]);
        let runs = [10, 9].map(|number| folder.path().join(repeat_folder(number)));
        for run in &runs {
            fs::create_dir_all(run).unwrap();
            fs::write(run.join("result.json"), "{}").unwrap();
        }
        fs::create_dir(folder.path().join(repeat_folder(11))).unwrap();
        assert_eq!(repeat_folders(folder.path()).unwrap(), [runs[1].clone(), runs[0].clone()]);
        let result = runs[0].join("result.json");
        fs::remove_file(&result).unwrap();
        std::os::unix::fs::symlink("result.json", &result).unwrap();
        let error = repeat_folders(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot look at {}: ", result.display())), "{error}");
    }
}

#[cfg(test)]
mod repeats_result_tests {
    use super::*;
    use base::event::Verdict;

    #[test]
    fn of_all_runs_numbers_are_means_and_counts_are_sums() {
        let text = include_str!("../../../tests/golden/results/benchmark/result.json");
        let run: RunResult = serde_json::from_str(text).unwrap();
        let runs = [(200.0, 0), (300.0, 2), (400.0, 1)].map(|(p99, failed)| {
            let mut run = run.clone();
            run.latency.ttft.p99 = Some(p99);
            run.counts.failed = failed;
            run
        });
        let whole = result_of_repeats(&runs).unwrap();
        assert_eq!((whole.runs(), whole.latency.ttft.p99, whole.counts.failed), (3, Some(200.0), 0), "run 1 is shown");
        assert_eq!(whole.number("ttft_p99", whole.latency.ttft.p99), Some(300.0));
        assert_eq!(whole.count("requests_failed", whole.counts.failed), Some(3));
        assert_eq!(whole.number("a number that no run has", Some(1.0)), None);
        assert_eq!((run.number("ttft_p99", Some(1.0)), run.count("requests_failed", 4)), (Some(1.0), Some(4)));
    }

    #[test]
    fn runs_of_different_servers_are_not_pooled() {
        let text = include_str!("../../../tests/golden/results/benchmark/result.json");
        let run: RunResult = serde_json::from_str(text).unwrap();
        let alike = result_of_repeats(&std::iter::repeat_n(run.clone(), 2).collect::<Vec<_>>()).unwrap();
        assert!(alike.reasons().iter().all(|reason| reason.check != VerdictCheck::Identity), "{:?}", alike.reasons());
        assert!(alike.headline().contains("SIMULATED"), "{}", alike.headline());
        // Of the few requests that its p99 is the largest of.
        let mut smoke = run.clone();
        (smoke.latency.ttft.n, smoke.counts.ok) = (100, 100);
        assert!(smoke.headline().contains("  smoke, 100 requests (100 requests; "), "{}", smoke.headline());
        smoke.latency.ttft.n = 101;
        assert!(!smoke.headline().contains("smoke"), "{}", smoke.headline());
        let mut other = run.clone();
        other.identity.as_mut().unwrap().servers[0].version = Some("99".to_owned());
        let pooled = result_of_repeats(&std::iter::once(run).chain([other]).collect::<Vec<_>>()).unwrap();
        assert_eq!(pooled.verdict(), Verdict::InvalidServer);
        let text = &pooled.reasons()[0].text;
        assert!(text.starts_with("run 2 measured a different server than run 1"), "{text}");
    }
}
