//! The whole way from a log to a verdict: one reader, a worker on every core, outcomes back in the log's order.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, mpsc};
use std::thread;

use super::answers::{ReferenceAnswer, TokenDecoder};
use super::rouge::{Rouge, WordInterner};
use super::scoring_method::{
    AccuracyLogSummary, AccuracyReport, AccuracyVerdict, AnswerScore, DatasetPart, MetricScore, ScoringMethod,
    UnscoredMetric,
};
use super::sentences::{PunktModel, one_sentence_per_line};
use super::{FirstErrors, answers, mean, mean_of_some, numpy_round, python_round, repr, stripped};
use crate::DatasetRecord;
use base::diag::{ErrorText, in_file};
use base::event::Failure;
use base::spec::TestMode;
use base::units::counted;
use rules::log::{AnswerLog, LogError, LoggedAnswer, Width};
use rules::{Benchmark, Round};

/// Answers on their way between threads, at most: what bounds memory.
const IN_FLIGHT: usize = 256;
/// What is to be scored.
#[derive(Clone, Copy, Debug)]
pub struct Scoring<'a> {
    pub round: &'a Round,
    pub benchmark: &'a str,
    /// Of the run: TEST07 has samples and a bound of its own.
    pub mode: TestMode,
    /// `mlperf_log_accuracy.json`, not truncated.
    pub log: &'a Path,
    /// `dataset.jsonl`
    pub dataset: &'a Path,
    pub dataset_record: &'a DatasetRecord,
    /// `tokenizer.json`, or the folder that holds it.
    pub tokenizer: Option<&'a Path>,
    /// NLTK's `punkt_tab/english`.
    pub sentences: Option<&'a Path>,
    /// At least one.
    pub threads: usize,
    /// What the reference's evaluator printed of the log, for what is not scored here.
    pub official: Option<&'a str>,
}

/// The files of a score.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    pub report: AccuracyReport,
    /// `accuracy.txt`
    pub text: String,
}

/// What a worker needs.
struct Bench<'a> {
    scoring_method: ScoringMethod,
    token_decoder: TokenDecoder,
    model: Option<PunktModel>,
    references: &'a [ReferenceAnswer],
}

/// Scores a log. `progress` receives the number of answers that have been scored.
pub fn score(scoring: &Scoring<'_>, progress: &mut dyn FnMut(u64)) -> Result<Scored, Failure> {
    let unknown = || {
        let names = scoring.round.benchmarks.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let (round, benchmark) = (&scoring.round.name, scoring.benchmark);
        let text = format!("round {round} has no benchmark `{benchmark}` that Regatta can score; it can score {names}");
        Failure::refused(text)
    };
    let benchmark = &scoring.round.benchmarks.get(scoring.benchmark).ok_or_else(unknown)?.scored_in(scoring.mode);
    let scoring_method = ScoringMethod::for_benchmark(scoring.benchmark).ok_or_else(unknown)?;
    let dataset_record = scoring.dataset_record;
    if ScoringMethod::for_benchmark(&dataset_record.benchmark) != Some(scoring_method) {
        let (found, benchmark) = (&dataset_record.benchmark, scoring.benchmark);
        return Err(Failure::files(format!("the data set is for {found}, but {benchmark} is being scored")));
    }
    let references = answers::read(scoring.dataset).map_err(Failure::files)?;
    if references.len() as u64 != dataset_record.samples {
        let (path, found, recorded) = (scoring.dataset.display(), references.len(), dataset_record.samples);
        return Err(Failure::files(format!("{path} has {found} samples, and dataset.json has {recorded}")));
    }
    let token_decoder = match scoring.tokenizer {
        Some(file) => TokenDecoder::load(file, scoring_method),
        None if dataset_record.synthetic => Ok(TokenDecoder::synthetic()),
        None => Err(ErrorText::new("the answers are token ids; `tokenizer` is needed to decode them")),
    };
    let tokenizer_hint = "name the model's `tokenizer.json`: `score: { tokenizer: PATH }`";
    let token_decoder = token_decoder.map_err(|error| Failure::refused(error).hint(tokenizer_hint))?;
    let sentences_hint = "`sentences` is the folder `tokenizers/punkt_tab/english` of NLTK's data: `python3 -m \
                          nltk.downloader punkt_tab`";
    let unusable =
        |error| Failure::files(format!("the model that finds sentences cannot be used: {error}")).hint(sentences_hint);
    let model = scoring.sentences.map(PunktModel::load).transpose().map_err(unusable)?;
    let bench = Bench { scoring_method, token_decoder, model, references: &references };
    let read = read(scoring, &bench, progress)?;
    let has_sentences = bench.model.is_some();
    let sum = ScoreSum::new(scoring_method, benchmark, &read.outcomes, read.log.entries, has_sentences);
    let expected = if dataset_record.synthetic {
        dataset_record.samples
    } else {
        benchmark.accuracy_samples.unwrap_or(benchmark.dataset_samples)
    };
    let samples = read.outcomes.len() as u64;
    let mut text = format!("{}\nhash={}\n", sum.text(), read.log.sha256);
    let mut accuracy_report = AccuracyReport {
        round: scoring.round.name.clone(),
        benchmark: scoring.benchmark.to_owned(),
        verdict: AccuracyVerdict::Incomplete,
        synthetic: dataset_record.synthetic,
        metrics: sum.metrics,
        unscored: sum.unscored,
        parts: sum.parts,
        expected,
        samples,
        duplicates: read.log.entries - samples,
        unknown_tokens: read.outcomes.iter().map(|answer| answer.unknown).sum(),
        log: read.log,
        tokenizer_sha256: bench.token_decoder.sha256,
        sentences_sha256: bench.model.map(|model| model.sha256),
    };
    accuracy_report.verdict = accuracy_report.judge();
    if let Some(output) = scoring.official {
        accuracy_report.complete(output, benchmark);
        text = format!("{}\n{text}", output.trim_end());
    }
    Ok(Scored { report: accuracy_report, text })
}

struct ReadLog {
    /// In the log's order, the first answer to each sample.
    outcomes: Vec<ScoredAnswer>,
    log: AccuracyLogSummary,
}

fn read(scoring: &Scoring<'_>, bench: &Bench<'_>, progress: &mut dyn FnMut(u64)) -> Result<ReadLog, Failure> {
    let unopened = |error| {
        Failure::files(in_file(scoring.log)(error))
            .hint("`accuracy` is the output of a bench stage with `loadgen: { mode: accuracy }`")
    };
    let unread = |error: LogError| {
        Failure::files(error.to_string())
            .hint("score the log as LoadGen wrote it: packages get their truncated copy afterwards")
    };
    let mut log = AnswerLog::open(scoring.log).map_err(unopened)?;
    let (jobs, queue) = mpsc::sync_channel::<(usize, LoggedAnswer, Width)>(IN_FLIGHT);
    let (done, results) = mpsc::channel::<(usize, u64, Result<ScoredAnswer, ErrorText>)>();
    let queue = Mutex::new(queue);
    thread::scope(|scope| {
        for _ in 0..scoring.threads.max(1) {
            let (queue, done) = (&queue, done.clone());
            scope.spawn(move || {
                let mut lexicon = WordInterner::new();
                loop {
                    let job = queue.lock().map(|queue| queue.recv());
                    let Ok(Ok((at, entry, width))) = job else { return };
                    let outcome = bench.outcome(&entry, width, &mut lexicon);
                    if done.send((at, entry.offset, outcome)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        let mut outcomes: Vec<Option<ScoredAnswer>> = Vec::new();
        let mut errors = FirstErrors::default();
        let (mut entries, mut answered, mut scored) = (0, vec![false; bench.references.len()], 0);
        let mut width: Option<Width> = None;
        let mut take = |(at, offset, outcome): (usize, u64, Result<ScoredAnswer, ErrorText>),
                        outcomes: &mut Vec<Option<ScoredAnswer>>,
                        errors: &mut FirstErrors| {
            scored += 1;
            if scored % 1024 == 0 {
                progress(scored);
            }
            match outcome {
                Ok(outcome) => outcomes[at] = Some(outcome),
                Err(error) => errors.push(offset, format!("byte {offset}: {error}")),
            }
        };
        while let Some(entry) = log.next().transpose().map_err(unread)? {
            entries += 1;
            let (index, offset) = (entry.qsl_idx as usize, entry.offset);
            if index >= answered.len() {
                let samples = answered.len();
                let error = format!("byte {offset}: the data set has no sample {index}; it has {samples}");
                errors.push(offset, error);
                continue;
            }
            if std::mem::replace(&mut answered[index], true) {
                continue;
            }
            let entry_width = Width::guess(&entry);
            width = width.or(entry_width);
            if let (Some(first), Some(entry_width), Some(_)) = (width, entry_width, entry.token_count)
                && first != entry_width
            {
                let error = format!("byte {offset}: its token ids are of another width than those before");
                errors.push(offset, error);
                continue;
            }
            outcomes.push(None);
            let job = (outcomes.len() - 1, entry, width.unwrap_or(Width::Int32));
            if jobs.send(job).is_err() {
                break;
            }
            while let Ok(result) = results.try_recv() {
                take(result, &mut outcomes, &mut errors);
            }
        }
        drop(jobs);
        for result in results {
            take(result, &mut outcomes, &mut errors);
        }
        if errors.count > 0 {
            let count = counted(errors.count, "error");
            return Err(Failure::refused(format!("{count} in the accuracy log:\n{}", errors.lines().join("\n"))));
        }
        let outcomes = outcomes.into_iter().flatten().collect();
        Ok(ReadLog { outcomes, log: AccuracyLogSummary { sha256: log.sha256(), entries, token_ids: width } })
    })
}

impl Bench<'_> {
    fn outcome(
        &self,
        entry: &LoggedAnswer,
        width: Width,
        lexicon: &mut WordInterner,
    ) -> Result<ScoredAnswer, ErrorText> {
        let index = entry.qsl_idx;
        let reference = &self.references[index as usize];
        let Some(target) = &reference.reference else {
            let text = format!("sample {index} has no reference in the data set: it came in a form without");
            return Err(ErrorText::new(text));
        };
        let no_ids = |error| ErrorText::new(format_args!("the answer to sample {index}: {error}"));
        let ids = width.ids(&entry.data).map_err(no_ids)?;
        let text = self.token_decoder.spell(&ids).map_err(ErrorText::new)?;
        let task = reference.task.clone();
        let is_prose = self.scoring_method.splits_sentences()
            && !matches!((self.scoring_method, task.as_str()), (ScoringMethod::Mixed, "GSM8K" | "MBXP"));
        let (target, text) =
            if is_prose { (self.reference_form(target), self.reference_form(&text)) } else { (target.clone(), text) };
        let counts = self.model.is_some() && self.scoring_method.counts_length(&task);
        Ok(ScoredAnswer {
            unknown: self.token_decoder.unknown(&ids),
            tokens: ids.len() as u64,
            length: counts.then(|| text.chars().count() as u64),
            worth: self.scoring_method.score_answer(&task, &target, &text, lexicon)?,
            task,
        })
    }

    /// Stripped, and where sentences can be found one a line.
    fn reference_form(&self, text: &str) -> String {
        let text = stripped(text);
        self.model.as_ref().map_or_else(|| text.to_owned(), |model| one_sentence_per_line(model, text))
    }
}

// From the score of each answer to the numbers of a benchmark, and to the text in which its reference prints them.

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
    pub fn new(
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
        let metrics: [(&'static str, &str, Get); 4] = [
            ("rouge1", "ROUGE1", |rouge| rouge.rouge1),
            ("rouge2", "ROUGE2", |rouge| rouge.rouge2),
            ("rougeL", "ROUGEL", |rouge| rouge.rouge_l),
            ("rougeLsum", "ROUGELSUM", |rouge| rouge.rouge_lsum),
        ];
        for (key, name, get) in metrics {
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
                None => self.without(name, "no answers to score".to_owned()),
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
                None => self.without(name, "no answers to score".to_owned()),
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
            None => self.without("exact_match", "no answers to score".to_owned()),
        }
    }

    fn mark_unscored(&mut self, name: &str, tasks: &[&str]) {
        let reason = format!(
            "answers of {} are programs to be run, or formulas for a computer algebra system; {} of \
             mlcommons/inference does that",
            tasks.join(", "),
            self.scoring_method.script()
        );
        self.without(name, reason);
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
