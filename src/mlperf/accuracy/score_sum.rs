//! From the score of each answer to the numbers of a benchmark, and to the text in which its reference prints them.

use std::collections::BTreeMap;

use super::numbers::{mean, mean_of_some, numpy_round, python_round, repr};
use super::report::{DatasetPart, MetricScore, UnscoredMetric};
use super::rouge::Rouge;
use super::scoring_method::{AnswerScore, ScoringMethod};
use rules::Benchmark;

/// One scored answer.
#[derive(Clone, Debug)]
pub(super) struct ScoredAnswer {
    /// Token ids outside of the vocabulary.
    pub unknown: u64,
    pub task: String,
    pub tokens: u64,
    /// Characters of its text with a sentence a line. None: does not count, or no sentences were found.
    pub length: Option<u64>,
    pub worth: AnswerScore,
}

/// All numbers of a run.
pub(super) struct ScoreSum<'a> {
    scoring_method: ScoringMethod,
    benchmark: &'a Benchmark,
    pub metrics: Vec<MetricScore>,
    pub unscored: Vec<UnscoredMetric>,
    pub parts: Vec<DatasetPart>,
    /// As Python prints a dictionary.
    printed: Vec<(&'static str, String)>,
}

impl<'a> ScoreSum<'a> {
    /// `outcomes` in the log's order; `entries` counts also repeated answers; `has_sentences`: a model found them.
    pub fn of(
        scoring_method: ScoringMethod,
        benchmark: &'a Benchmark,
        outcomes: &[ScoredAnswer],
        entries: u64,
        has_sentences: bool,
    ) -> Self {
        let (metrics, unscored, printed) = (Vec::new(), Vec::new(), Vec::new());
        let mut sum =
            Self { scoring_method, benchmark, metrics, unscored, parts: parts(scoring_method, outcomes), printed };
        let count = outcomes.len() as u64;
        let tokens: u64 = outcomes.iter().map(|outcome| outcome.tokens).sum();
        let per_sample = tokens as f64 / count.max(1) as f64;
        match scoring_method {
            ScoringMethod::OpenOrca | ScoringMethod::CnnDailyMail => {
                sum.rouge(outcomes, has_sentences);
                sum.length(outcomes, has_sentences);
                sum.print("gen_num", count.to_string());
            }
            ScoringMethod::Mixed => {
                sum.rouge(outcomes, has_sentences);
                let gsm8k = sum.part("GSM8K").map(|(right, total)| 100.0 * right / total as f64);
                match gsm8k {
                    Some(share) => sum.metric("gsm8k", "gsm8k_accuracy", share, repr(share)),
                    None => sum.without("gsm8k_accuracy", "there is no answer to a sample of GSM8K".to_owned()),
                }
                sum.mark_unscored("mbxp_accuracy", &["MBXP"]);
                sum.length(outcomes, has_sentences);
                sum.print("gen_num", entries.to_string());
            }
            ScoringMethod::LongContext => {
                sum.long_context(outcomes);
                sum.length(outcomes, has_sentences);
                sum.print("gen_num", count.to_string());
            }
            ScoringMethod::DeepSeek => sum.reasoning(|sum| {
                let (right, total) = sum.all_parts(|_| 1);
                Some(right * 100.0 / total).filter(|share| share.is_finite())
            }),
            ScoringMethod::GptOss => sum.reasoning(|sum| {
                let (right, total) = sum.all_parts(|task| scoring_method.repeats(task));
                Some(right / total * 100.0).filter(|share| share.is_finite())
            }),
        }
        match scoring_method {
            ScoringMethod::OpenOrca | ScoringMethod::Mixed | ScoringMethod::LongContext => {
                sum.print("gen_tok_len", tokens.to_string());
                let denominator = if scoring_method == ScoringMethod::Mixed { entries } else { count };
                let rounded = python_round(tokens as f64 / denominator.max(1) as f64, 1);
                sum.metric("tokens_per_sample", "TOKENS_PER_SAMPLE", rounded, repr(rounded));
            }
            ScoringMethod::DeepSeek => {
                sum.metric("tokens_per_sample", "TOKENS_PER_SAMPLE", per_sample, repr(per_sample));
                sum.print("num-samples", count.to_string());
            }
            ScoringMethod::GptOss => sum.metric("tokens_per_sample", "TOKENS_PER_SAMPLE", per_sample, repr(per_sample)),
            // The reference prints none; bounds are on the length of texts.
            ScoringMethod::CnnDailyMail => {}
        }
        sum
    }

    /// `accuracy.txt` without its hash.
    pub fn text(&self) -> String {
        let quote = |key: &str, value: &str| {
            let is_score = self.scoring_method == ScoringMethod::CnnDailyMail && key.starts_with("rouge");
            if is_score { format!("'{key}': '{value}'") } else { format!("'{key}': {value}") }
        };
        let items: Vec<String> = self.printed.iter().map(|(key, value)| quote(key, value)).collect();
        if self.scoring_method == ScoringMethod::GptOss {
            return format!("\nPrinting for submission_checker:\n\n{}\n", items.join("\n"));
        }
        format!("\nResults\n\n{{{}}}\n", items.join(", "))
    }

    fn print(&mut self, key: &'static str, value: String) {
        self.printed.push((key, value));
    }

    fn metric(&mut self, key: &'static str, name: &str, value: f64, printed: String) {
        self.print(key, printed);
        self.metrics.push(MetricScore::new(name, value, self.benchmark.accuracy.get(name)));
    }

    fn without(&mut self, name: &str, why: String) {
        let wanted = self.benchmark.accuracy.contains_key(name);
        self.unscored.push(UnscoredMetric { name: name.to_owned(), wanted, why });
    }

    fn rouge(&mut self, outcomes: &[ScoredAnswer], has_sentences: bool) {
        let scores: Vec<Rouge> = outcomes
            .iter()
            .filter_map(|outcome| if let AnswerScore::Rouge(rouge) = outcome.worth { Some(rouge) } else { None })
            .collect();
        let all: [(&'static str, &str, Get); 4] = [
            ("rouge1", "ROUGE1", |rouge| rouge.rouge1),
            ("rouge2", "ROUGE2", |rouge| rouge.rouge2),
            ("rougeL", "ROUGEL", |rouge| rouge.rouge_l),
            ("rougeLsum", "ROUGELSUM", |rouge| rouge.rouge_lsum),
        ];
        for (key, name, get) in all {
            if name == "ROUGELSUM" && !has_sentences {
                self.without(name, NO_SENTENCES.to_owned());
                continue;
            }
            let values: Vec<f64> = scores.iter().map(get).collect();
            match mean(&values) {
                Some(mean) => {
                    let rounded = numpy_round(mean * 100.0, 4);
                    self.metric(key, name, rounded, repr(rounded));
                }
                None => self.without(name, "there is no answer to score".to_owned()),
            }
        }
    }

    fn length(&mut self, outcomes: &[ScoredAnswer], has_sentences: bool) {
        if has_sentences {
            let length: u64 = outcomes.iter().filter_map(|outcome| outcome.length).sum();
            self.metric("gen_len", "GEN_LEN", length as f64, length.to_string());
        } else {
            self.without("GEN_LEN", NO_SENTENCES.to_owned());
        }
    }

    fn long_context(&mut self, outcomes: &[ScoredAnswer]) {
        let exact =
            |outcome: &ScoredAnswer| if let AnswerScore::Exact(share) = outcome.worth { Some(share) } else { None };
        let rouge = |outcome: &ScoredAnswer| {
            if let AnswerScore::Rouge(rouge) = outcome.worth { Some(100.0 * rouge.rouge_l) } else { None }
        };
        let exact: Vec<Option<f64>> = outcomes.iter().map(exact).collect();
        let rouge: Vec<Option<f64>> = outcomes.iter().map(rouge).collect();
        for (key, name, values) in [("exact_match", "exact_match", exact), ("rougeL", "ROUGEL", rouge)] {
            match mean_of_some(&values) {
                Some(mean) => self.metric(key, name, mean, repr(mean)),
                None => self.without(name, "there is no answer to score".to_owned()),
            }
        }
    }

    /// Exact match over all sets, if all of them can be scored here.
    fn reasoning(&mut self, share: impl Fn(&Self) -> Option<f64>) {
        if self.parts.iter().any(|part| part.right.is_none()) {
            let tasks: Vec<String> =
                self.parts.iter().filter(|part| part.right.is_none()).map(|part| part.task.clone()).collect();
            self.mark_unscored("exact_match", &tasks.iter().map(String::as_str).collect::<Vec<_>>());
            return;
        }
        match share(self) {
            Some(share) if self.scoring_method == ScoringMethod::GptOss => {
                let rounded = python_round(share, 3);
                self.metric("exact_match", "exact_match", rounded, format!("{share:.3}"));
            }
            Some(share) => self.metric("exact_match", "exact_match", share, repr(share)),
            None => self.without("exact_match", "there is no answer to score".to_owned()),
        }
    }

    fn mark_unscored(&mut self, name: &str, tasks: &[&str]) {
        let why = format!(
            "answers of {} are programs to be run, or formulas for a computer algebra system; {} of mlcommons/inference does that",
            tasks.join(", "),
            self.scoring_method.script()
        );
        self.without(name, why);
    }

    fn part(&self, task: &str) -> Option<(f64, u64)> {
        let part = self.parts.iter().find(|part| part.task == task)?;
        Some((part.right?, part.samples))
    }

    /// Right answers and all answers, each set's divided by its repeats.
    fn all_parts(&self, repeats: impl Fn(&str) -> u32) -> (f64, f64) {
        self.parts.iter().fold((0.0, 0.0), |(right, total), part| {
            let repeats = f64::from(repeats(&part.task));
            (right + part.right.unwrap_or(0.0) / repeats, total + part.samples as f64 / repeats)
        })
    }
}

/// Takes one of the four.
type Get = fn(&Rouge) -> f64;

const NO_SENTENCES: &str = "sentences are needed, and `sentences` does not name NLTK's punkt_tab/english";

/// By task, in the order of their names; none where a benchmark has no parts.
fn parts(scoring_method: ScoringMethod, outcomes: &[ScoredAnswer]) -> Vec<DatasetPart> {
    let mut parts: BTreeMap<String, (u64, Option<f64>)> = BTreeMap::new();
    for outcome in outcomes {
        let task = match (scoring_method, outcome.worth) {
            (_, AnswerScore::Rouge(_)) | (ScoringMethod::OpenOrca | ScoringMethod::CnnDailyMail, _) => continue,
            (ScoringMethod::GptOss, _) => outcome.task.to_lowercase(),
            _ => outcome.task.clone(),
        };
        let part = parts.entry(task).or_insert((0, Some(0.0)));
        part.0 += 1;
        part.1 = match outcome.worth {
            AnswerScore::Exact(share) => part.1.map(|right| right + share / 100.0),
            _ => None,
        };
    }
    parts.into_iter().map(|(task, (samples, right))| DatasetPart { task, samples, right }).collect()
}
