//! The result of an accuracy run: LoadGen's log decoded, detokenized, compared with the references and checked against
//! the round.
//!
//! ```text
//!  mlperf_log_accuracy.json ─AnswerLog→ LoggedAnswer ─Width→ token ids ─TokenDecoder→ text ─┐
//!  dataset.jsonl ─→ target ─────────────────────────────────────────────────────────────────┴─→ ScoringMethod
//!  ScoringMethod ─→ AnswerScore, … ─→ accuracy.txt, accuracy.json
//! ```
//!
//! The numbers are those of the reference scripts, to the last digit that they print; tests hold them against values
//! that those scripts gave.

mod answers;
mod rouge;
mod score;
mod scoring_method;
mod sentences;

pub use answers::TokenDecoder;
pub use rouge::{Rouge, WordInterner, stem};
use rules::{Benchmark, written_metric};
pub use score::{Scored, Scoring, score};
pub use scoring_method::{
    ACCURACY_FILE, ACCURACY_TEXT, AccuracyLogSummary, AccuracyReport, AccuracyVerdict, AnswerScore, DatasetPart,
    MetricScore, ScoringMethod, UnscoredMetric,
};
pub use sentences::{FILES as SENTENCE_FILES, PunktModel as SentenceModel, one_sentence_per_line};

// Which characters end a sentence, stand outside words, or are spaces, as Python and NLTK decide it.

/// A text without the spaces at its ends, as Python takes them off.
fn stripped(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Python's `str.isspace`.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn is_end(c: char) -> bool {
    matches!(c, '.' | '?' | '!')
}

fn is_outside_words(c: char) -> bool {
    matches!(c, ')' | '"' | ';' | '}' | ']' | '*' | ':' | '@' | '\'' | '(' | '{' | '[' | '?' | '!')
}

// Errors in a file; only the first ones are reported.

/// How many errors are reported one by one.
const MOST: usize = 8;

/// What is wrong with the entries of a file, by place.
#[derive(Default)]
pub(crate) struct FirstErrors {
    pub count: u64,
    first: Vec<(u64, String)>,
}

impl FirstErrors {
    pub fn push(&mut self, place: u64, error: String) {
        self.count += 1;
        self.first.push((place, error));
        self.first.sort_unstable();
        self.first.truncate(MOST);
    }

    /// One for each error, and one for all that are left out.
    pub fn lines(self) -> Vec<String> {
        let more = self.count - self.first.len() as u64;
        let more = (more > 0).then(|| format!("… and {more} more"));
        self.first.into_iter().map(|(_, error)| error).chain(more).collect()
    }
}

// Means, rounding and formatting of numbers as in Python, NumPy and pandas: `accuracy.txt` matches the
// reference's to the last digit.

/// NumPy's sum: pairwise, in blocks of 128 with eight running sums each.
fn sum(values: &[f64]) -> f64 {
    match values.len() {
        0..8 => values.iter().fold(-0.0, |sum, value| sum + value),
        8..=128 => {
            let (eights, rest) = values.as_chunks::<8>();
            let mut sums = [-0.0; 8];
            sums.copy_from_slice(&eights[0]);
            for eight in &eights[1..] {
                for (sum, value) in sums.iter_mut().zip(eight) {
                    *sum += value;
                }
            }
            let block_sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
            rest.iter().fold(block_sum, |sum, value| sum + value)
        }
        length => {
            let half = length / 2 - (length / 2) % 8;
            sum(&values[..half]) + sum(&values[half..])
        }
    }
}

/// `numpy.mean`. None: of nothing.
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| (0.0 + sum(values)) / values.len() as f64)
}

/// pandas' mean of a column in which some rows have no value: those are summed as zero and not counted.
fn mean_of_some(values: &[Option<f64>]) -> Option<f64> {
    let count = values.iter().flatten().count();
    let filled: Vec<f64> = values.iter().map(|value| value.unwrap_or(0.0)).collect();
    (count > 0).then(|| (0.0 + sum(&filled)) / count as f64)
}

/// `round` of a NumPy number: scaled, rounded half to even, scaled back.
fn numpy_round(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round_ties_even() / scale
}

/// `round` of a Python number: the nearest decimal.
fn python_round(value: f64, digits: usize) -> f64 {
    format!("{value:.digits$}").parse().unwrap_or(value)
}

/// `repr` of a Python number.
fn repr(value: f64) -> String {
    if value != 0.0 && (value.abs() < 1e-4 || value.abs() >= 1e16) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{value:?}")
}

// Scores that the reference's evaluator printed, where they cannot be computed here: programs that have to be run,
// formulas for a computer algebra system.

impl AccuracyReport {
    /// Takes what is not scored here from the evaluator's output, `'exact_match': 83.1`.
    fn complete(&mut self, output: &str, benchmark: &Benchmark) {
        self.unscored.retain(|missing| {
            let mut lines = output.lines().rev();
            let Some(value) = lines.find_map(|line| written_metric(line, &missing.name)) else { return true };
            self.metrics.push(MetricScore::new(&missing.name, value, benchmark.accuracy.get(&missing.name)));
            false
        });
        self.verdict = self.judge();
    }

    /// Of the metrics and the number of answers.
    fn judge(&self) -> AccuracyVerdict {
        if self.metrics.iter().any(|metric| metric.met == Some(false)) {
            AccuracyVerdict::Missed
        } else if self.samples < self.expected || self.unscored.iter().any(|one| one.wanted) {
            AccuracyVerdict::Incomplete
        } else {
            AccuracyVerdict::Met
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{mean, mean_of_some, numpy_round, python_round, repr};

    #[test]
    fn numbers_look_as_in_python() {
        for (value, text) in [
            (44.0, "44.0"),
            (44.4312, "44.4312"),
            (0.0, "0.0"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (90.086_985_440_105_89, "90.08698544010589"),
            (1e16, "1e+16"),
        ] {
            assert_eq!(repr(value), text);
        }
        assert_eq!((python_round(2.675, 2), python_round(0.25, 1)), (2.67, 0.2));
        assert_eq!(repr(numpy_round(2.675, 2)), "2.68");
        assert_eq!((mean(&[]), mean_of_some(&[None])), (None, None));
        assert_eq!(mean_of_some(&[Some(1.0), None, Some(2.0)]), Some(1.5));
    }
}
