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

use crate::event::Verdict;
use crate::stats::{RunValues, mean_interval};

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
    /// By metric and statistic: `ttft_p99`, `output_tokens`; counts, too: `requests_failed`, `ttft_n`. A number that not every
    /// run has is left out.
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
    /// 95 % interval of the mean over runs, by Student's t: where the mean of many more such runs would be.
    pub low: f64,
    pub high: f64,
}

impl AcrossRuns {
    /// `None` for fewer than two runs, and where a value is not a number.
    pub fn of(unit: &str, values: Vec<f64>) -> Option<Self> {
        let (of, (low, high)) = (RunValues::of(&values)?, mean_interval(&values)?);
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
pub fn repeat_folders(folder: &Path) -> Vec<PathBuf> {
    let below = std::fs::read_dir(folder.join(REPEATS)).into_iter().flatten().flatten().take(MOST);
    let mut found: Vec<PathBuf> =
        below.map(|item| item.path()).filter(|path| path.join("result.json").is_file()).collect();
    let number = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok());
    found.sort_by_key(|path| (number(path).is_none(), number(path), path.clone()));
    found
}
