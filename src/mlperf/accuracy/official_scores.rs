//! Scores that the reference's evaluator printed, where they cannot be computed here: programs that have to be run, formulas
//! for a computer algebra system.

use super::report::{AccuracyReport, AccuracyVerdict, MetricScore};
use rules::{Benchmark, written_metric};

impl AccuracyReport {
    /// Takes what is not scored here from the evaluator's output, `'exact_match': 83.1`.
    pub(super) fn complete(&mut self, output: &str, benchmark: &Benchmark) {
        self.unscored.retain(|missing| {
            let mut lines = output.lines().rev();
            let Some(value) = lines.find_map(|line| written_metric(line, &missing.name)) else { return true };
            self.metrics.push(MetricScore::new(&missing.name, value, benchmark.accuracy.get(&missing.name)));
            false
        });
        self.verdict = self.judge();
    }

    /// Of the metrics and the number of answers.
    pub(super) fn judge(&self) -> AccuracyVerdict {
        if self.metrics.iter().any(|metric| metric.met == Some(false)) {
            AccuracyVerdict::Missed
        } else if self.samples < self.expected || self.unscored.iter().any(|one| one.wanted) {
            AccuracyVerdict::Incomplete
        } else {
            AccuracyVerdict::Met
        }
    }
}
