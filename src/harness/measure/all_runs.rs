//! The numbers of a whole measurement, which may be of several runs. A result of several runs shows the first of them and has
//! `repeats`: who reports one number for the measurement takes it from here.

use crate::{AcrossRuns, Metric, RunResult};

impl RunResult {
    /// How many runs the measurement is of.
    pub fn runs(&self) -> usize {
        self.repeats.as_ref().map_or(1, |repeats| repeats.runs.len())
    }

    /// A number of all runs, of a measurement that was made several times: `ttft_p99`, `output_tokens`.
    pub fn over_runs(&self, name: &str) -> Option<&AcrossRuns> {
        self.repeats.as_ref()?.over_runs.get(name)
    }

    /// A number of the whole measurement: `of_run`, or of several runs their mean, which a number that not every run has does
    /// not have.
    pub fn number(&self, name: &str, of_run: Option<f64>) -> Option<f64> {
        if self.runs() > 1 { self.over_runs(name).map(|over| over.mean) } else { of_run }
    }

    /// A count of the whole measurement: `of_run`, or of several runs their sum; `None` where the file does not have that.
    pub fn count(&self, name: &str, of_run: u64) -> Option<u64> {
        if self.runs() > 1 { self.over_runs(name).map(AcrossRuns::sum) } else { Some(of_run) }
    }

    /// The statistics of a latency of the whole measurement, ms. `key`: its name in the result.
    pub fn statistics(&self, key: &str, of_run: &Metric) -> [(&'static str, Option<f64>); 5] {
        let Metric { mean, p50, p90, p95, p99, .. } = *of_run;
        [("mean", mean), ("p50", p50), ("p90", p90), ("p95", p95), ("p99", p99)]
            .map(|(statistic, value)| (statistic, self.number(&format!("{key}_{statistic}"), value)))
    }
}
