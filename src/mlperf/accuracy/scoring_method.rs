//! How the reference implementation of each benchmark scores: which text metrics, in which format it prints them, and
//! what it leaves to other programs.

use serde::{Deserialize, Serialize};

use super::answers::{self, Choices, Reader};
use super::rouge::{Rouge, WordInterner};
use base::diag::ErrorText;
use rules::log::Width;

/// One benchmark's way of scoring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoringMethod {
    /// ROUGE of all samples: Llama 2 70B on OpenOrca.
    OpenOrca,
    /// ROUGE of all samples, numbers in quotes: Llama 3.1 8B on CNN/DailyMail.
    CnnDailyMail,
    /// OpenOrca by ROUGE, GSM8K by number, MBXP by running programs: Mixtral 8x7B.
    Mixed,
    /// Summaries by ROUGE-L, questions by exact match: Llama 3.1 405B.
    LongContext,
    /// Exact match of five sets: DeepSeek-R1.
    DeepSeek,
    /// Exact match of three sets, each repeated several times: gpt-oss-120b.
    GptOss,
}

/// What one answer was worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AnswerScore {
    Rouge(Rouge),
    /// From 0 to 100.
    Exact(f64),
    /// Only the official script computes it.
    OfficialScriptOnly,
}

impl ScoringMethod {
    /// Of a benchmark, by the name that the rounds give it. None: it is not scored here.
    pub fn for_benchmark(benchmark: &str) -> Option<Self> {
        [
            ("llama2-70b", Self::OpenOrca),
            ("llama3.1-8b", Self::CnnDailyMail),
            ("mixtral-8x7b", Self::Mixed),
            ("llama3.1-405b", Self::LongContext),
            ("deepseek-r1", Self::DeepSeek),
            ("gpt-oss-120b", Self::GptOss),
        ]
        .into_iter()
        .find_map(|(name, method)| benchmark.starts_with(name).then_some(method))
    }

    /// The official scorer, in mlcommons/inference.
    pub const fn script(self) -> &'static str {
        match self {
            Self::OpenOrca => "language/llama2-70b/evaluate-accuracy.py",
            Self::CnnDailyMail => "language/llama3.1-8b/evaluation.py",
            Self::Mixed => "language/mixtral-8x7b/evaluate-accuracy.py",
            Self::LongContext => "language/llama3.1-405b/evaluate-accuracy.py",
            Self::DeepSeek => "language/deepseek-r1/eval_accuracy.py",
            Self::GptOss => "language/gpt-oss-120b/eval_mlperf_accuracy.py",
        }
    }

    /// Whether the official scorer has the option `--dtype`, int64 by default. The others read four bytes for each
    /// token id.
    pub const fn has_dtype_option(self) -> bool {
        !matches!(self, Self::DeepSeek | Self::GptOss)
    }

    /// Whether the reference spells answers with the slow tokenizer of a model that has a fast one, too
    /// (`use_fast=False`, SentencePiece).
    pub const fn has_slow_tokenizer(self) -> bool {
        matches!(self, Self::OpenOrca | Self::Mixed)
    }

    /// Whether the reference leaves special tokens out of the text.
    pub const fn skips_special(self) -> bool {
        !matches!(self, Self::GptOss)
    }

    /// Whether texts are stripped and split into sentences before they are compared.
    pub const fn splits_sentences(self) -> bool {
        matches!(self, Self::OpenOrca | Self::CnnDailyMail | Self::Mixed | Self::LongContext)
    }

    /// Whether the length of this sample's text counts in `gen_len`.
    pub fn counts_length(self, task: &str) -> bool {
        match self {
            Self::Mixed => task == "OpenOrca",
            other => other.splits_sentences(),
        }
    }

    /// Compares an answer with what was expected. `task` is the sample's part of the data set.
    pub fn score_answer(
        self,
        task: &str,
        target: &str,
        text: &str,
        lexicon: &mut WordInterner,
    ) -> Result<AnswerScore, ErrorText> {
        let exact = |is_right: bool| AnswerScore::Exact(if is_right { 100.0 } else { 0.0 });
        match self {
            Self::OpenOrca | Self::CnnDailyMail => Ok(AnswerScore::Rouge(lexicon.score(target, text))),
            Self::Mixed => match task {
                "OpenOrca" => Ok(AnswerScore::Rouge(lexicon.score(target, text))),
                "GSM8K" => Ok(exact(answers::gsm8k(text).is_some_and(|found| answers::number(target) == Some(found)))),
                _ => Ok(AnswerScore::OfficialScriptOnly),
            },
            Self::LongContext => match task {
                "rouge" => Ok(AnswerScore::Rouge(lexicon.score(target, text))),
                "niah_em" => Ok(AnswerScore::Exact(answers::needle_score(target, text))),
                "qa_em" => Ok(exact(answers::contains_answer(target, text))),
                other => {
                    let text = format!("the metric `{other}` is not one of rouge, niah_em, qa_em");
                    Err(ErrorText::new(text))
                }
            },
            Self::DeepSeek => set(task, target, text, Reader::DeepSeek),
            Self::GptOss => set(task, target, text, Reader::GptOss),
        }
    }

    /// How often a set is repeated: each of its answers counts for this much less.
    pub fn repeats(self, task: &str) -> u32 {
        match (self, task.to_lowercase().as_str()) {
            (Self::GptOss, "aime25") => 8,
            (Self::GptOss, "gpqa_diamond") => 5,
            (Self::GptOss, "livecodebench_v6") => 3,
            _ => 1,
        }
    }
}

/// The sets of the reasoning benchmarks, looked for in this order.
fn set(task: &str, target: &str, text: &str, reader: Reader) -> Result<AnswerScore, ErrorText> {
    let task = task.to_lowercase();
    let exact = |is_right: bool| Ok(AnswerScore::Exact(if is_right { 100.0 } else { 0.0 }));
    let is_choice = |choices| {
        answers::choice(text, choices, reader).is_some_and(|letter| target.to_uppercase() == letter.to_string())
    };
    if task.contains("gpqa") {
        exact(is_choice(Choices::Four))
    } else if task.contains("mmlu_pro") {
        exact(is_choice(Choices::Ten))
    } else if task.contains("math500") || task.contains("livecodebench") {
        Ok(AnswerScore::OfficialScriptOnly)
    } else if task.contains("aime") {
        exact(answers::aime(text).is_some_and(|found| answers::number(target) == Some(f64::from(found))))
    } else if task.contains("mmlu") && reader == Reader::GptOss {
        exact(is_choice(Choices::Ten))
    } else {
        let sets = "gpqa, mmlu_pro, math500, aime, livecodebench";
        Err(ErrorText::new(format_args!("the set `{task}` is not one of {sets}")))
    }
}

// What an accuracy run is worth: `accuracy.json`.

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
