//! What an accuracy run is worth: `accuracy.json`.

use serde::{Deserialize, Serialize};

use rules::log::Width;

/// The file that holds an [`AccuracyReport`].
pub const ACCURACY_FILE: &str = "accuracy.json";
/// The file that the official checker reads.
pub const ACCURACY_TEXT: &str = "accuracy.txt";

/// The whole of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccuracyReport {
    pub round: String,
    pub benchmark: String,
    pub verdict: AccuracyVerdict,
    /// Scored with a synthetic data set: it shows nothing about any model.
    pub synthetic: bool,
    /// Each with its bounds in the round.
    pub metrics: Vec<MetricScore>,
    /// Metrics of the reference that are not in `metrics`: why, and which script computes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unscored: Vec<UnscoredMetric>,
    /// Where a benchmark has parts that are right or wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<DatasetPart>,
    /// Samples that the round requires answers to.
    pub expected: u64,
    /// Samples with an answer.
    pub samples: u64,
    /// Further answers to the same sample, which do not count.
    pub duplicates: u64,
    /// Token ids of answers that the tokenizer has no token for. They are scored as nothing, as by the reference.
    #[serde(default)]
    pub unknown_tokens: u64,
    pub log: AccuracyLogSummary,
    /// SHA-256 of `tokenizer.json`. None: texts are synthetic, one word for each token id.
    pub tokenizer_sha256: Option<String>,
    /// SHA-256 of the model that found sentences. None: there was none, and what needs sentences is not scored.
    pub sentences_sha256: Option<String>,
}

/// The accuracy log, as it was before truncation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccuracyLogSummary {
    pub sha256: String,
    pub entries: u64,
    /// None: no answer had a token.
    pub token_ids: Option<Width>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccuracyVerdict {
    /// All bounds of the round are kept.
    Met,
    /// Some are not.
    Missed,
    /// No bound is broken, but a metric or an answer is missing: the outcome is unknown.
    Incomplete,
}

/// One number, and its bounds in the round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricScore {
    /// As the rules call it: `ROUGE1`, `TOKENS_PER_SAMPLE`.
    pub name: String,
    /// As the reference prints it.
    pub value: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// None: the round has no bound for it.
    pub met: Option<bool>,
    /// How far inside its nearest bound; negative: how far outside.
    pub margin: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnscoredMetric {
    pub name: String,
    /// The round has a bound for it: without it no verdict is possible.
    pub wanted: bool,
    pub why: String,
}

/// A part of a data set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetPart {
    pub task: String,
    pub samples: u64,
    /// Right answers; fractions where an answer can be right in part. None: only the official script computes it.
    pub right: Option<f64>,
}

impl MetricScore {
    pub fn new(name: &str, value: f64, bounds: Option<&rules::Accuracy>) -> Self {
        let (min, max) = bounds.map_or((None, None), |bounds| (bounds.min, bounds.max));
        let margins = [min.map(|min| value - min), max.map(|max| max - value)];
        let margin = margins.into_iter().flatten().reduce(f64::min);
        Self { name: name.to_owned(), value, min, max, met: margin.map(|margin| margin >= 0.0), margin }
    }
}

impl AccuracyReport {
    /// One line: what is missed or missing, else what is met.
    pub fn headline(&self) -> String {
        let shown = |metric: &MetricScore| {
            let value = metric.value;
            match (metric.min, metric.max) {
                (Some(min), _) if value < min => format!("{} {value} < {min} by {:.4}", metric.name, min - value),
                (_, Some(max)) if value > max => format!("{} {value} > {max} by {:.4}", metric.name, value - max),
                (Some(min), _) => format!("{} {value} ≥ {min}", metric.name),
                (None, Some(max)) => format!("{} {value} ≤ {max}", metric.name),
                (None, None) => format!("{} {value}", metric.name),
            }
        };
        let bounded = self.metrics.iter().filter(|metric| metric.met.is_some());
        let missed: Vec<String> = bounded.clone().filter(|metric| metric.met == Some(false)).map(shown).collect();
        let answers = format!("{} of {} samples answered", self.samples, self.expected);
        let mut text = match self.verdict {
            AccuracyVerdict::Met => format!("accuracy met: {}", bounded.map(shown).collect::<Vec<_>>().join(", ")),
            AccuracyVerdict::Missed => format!("accuracy MISSED: {}", missed.join(", ")),
            AccuracyVerdict::Incomplete => {
                let missing =
                    self.unscored.iter().filter(|one| one.wanted).map(|one| format!("{} not scored", one.name));
                let short = (self.samples < self.expected).then_some(answers.clone());
                format!("accuracy INCOMPLETE: {}", missing.chain(short).collect::<Vec<_>>().join(", "))
            }
        };
        if self.verdict == AccuracyVerdict::Missed && self.samples < self.expected {
            text = format!("{text}; {answers}");
        }
        if self.synthetic { format!("{text} · synthetic data, not submittable") } else { text }
    }
}
