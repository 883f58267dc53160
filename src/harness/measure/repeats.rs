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

use crate::HarnessError;
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
    /// 95 % interval of the mean over runs, by Student's t: where the mean of many more such runs would be. It ends at 0 where no run is below.
    pub low: f64,
    pub high: f64,
}

impl AcrossRuns {
    /// `None` for fewer than two runs, and where a value is not a number.
    pub fn of(unit: &str, values: Vec<f64>) -> Option<Self> {
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
    let mut found = Vec::new();
    for item in items.take(MOST) {
        let run = item.map_err(|error| unreadable(&below, error))?.path();
        let result = run.join("result.json");
        if metadata_if_there(&result).map_err(|error| unreadable(&result, error))?.is_some_and(|found| found.is_file())
        {
            found.push(run);
        }
    }
    let number = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok());
    found.sort_by_key(|path| (number(path).is_none(), number(path), path.clone()));
    Ok(found)
}

fn unreadable(path: &Path, source: std::io::Error) -> HarnessError {
    HarnessError::System { what: format!("cannot look at {}", path.display()), source }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_interval_of_what_is_never_below_0_ends_there() {
        let of = |values: &[f64]| AcrossRuns::of("/s", values.to_vec()).unwrap();
        let two = of(&[7.0, 9.8]);
        assert!(two.low == 0.0 && two.high > 26.0, "{two:?}");
        assert!(of(&[-1.0, 1.0]).low < -10.0);
        assert!(of(&[8.0, 8.1, 8.2]).low > 7.8);
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
