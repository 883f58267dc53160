//! TEST09: answers are as long as the reference's, on average.

use std::fmt::Write as _;

use rules::Accuracy;
use rules::log::{LogError, LoggedAnswer};

/// Lengths of answers, tokens.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AnswerLengths {
    pub count: u64,
    sum: u64,
    squares: f64,
    min: u64,
    max: u64,
}

impl AnswerLengths {
    pub(super) fn of(answers: impl Iterator<Item = Result<LoggedAnswer, LogError>>) -> Result<Self, LogError> {
        let mut lengths = Self { count: 0, sum: 0, squares: 0.0, min: u64::MAX, max: 0 };
        for answer in answers {
            let length = answer?.tokens()?.len() as u64;
            lengths.count += 1;
            lengths.sum += length;
            lengths.squares += (length as f64).powi(2);
            lengths.min = lengths.min.min(length);
            lengths.max = lengths.max.max(length);
        }
        Ok(lengths)
    }

    /// None: there is no answer.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// What is wrong with the mean.
    pub(super) fn mean_violation(&self, bounds: Accuracy) -> Option<String> {
        let Some(mean) = self.mean() else { return Some("there is no answer".to_owned()) };
        let at_least = bounds.min.filter(|min| mean < *min);
        let at_most = bounds.max.filter(|max| mean > *max);
        let describe = |limit: f64, side: &str| format!("answers have {mean:.2} tokens on average, {side} {limit}");
        at_least.map(|min| describe(min, "less than")).or_else(|| at_most.map(|max| describe(max, "more than")))
    }

    /// `verify_output_len.txt`: the checker looks for its last line.
    /// `note`: lines in front of the last one. `judges`: whether the bounds are applied.
    pub(super) fn text(&self, bounds: Accuracy, note: &str, outcome: &str, judges: bool) -> String {
        let mean = self.mean().unwrap_or(0.0);
        let spread =
            if self.count == 0 { 0.0 } else { (self.squares / self.count as f64 - mean.powi(2)).max(0.0).sqrt() };
        let least = if self.count == 0 { 0 } else { self.min };
        let mut text = format!(
            "TEST09: length of answers in performance mode\n\nTotal samples: {}\nMean output tokens: {mean:.2}\n\
             Min output tokens: {least}\nMax output tokens: {}\nStd deviation: {spread:.2}\n\n",
            self.count, self.max
        );
        let flag = |fine: bool| match (judges, fine) {
            (false, _) => "Not judged",
            (true, true) => "True",
            (true, false) => "False",
        };
        if let Some(min) = bounds.min {
            let _ = writeln!(text, "Min threshold: {min}\nMin check pass: {}", flag(mean >= min));
        }
        if let Some(max) = bounds.max {
            let _ = writeln!(text, "Max threshold: {max}\nMax check pass: {}", flag(mean <= max));
        }
        let _ = write!(text, "\n{note}TEST {outcome}\n");
        text
    }
}
