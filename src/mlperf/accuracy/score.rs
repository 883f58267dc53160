//! The whole way from a log to a verdict: one reader, a worker on every core, outcomes back in the log's order.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, mpsc};
use std::thread;

use super::characters::stripped;
use super::errors::{AnswerError, AnswerErrors};
use super::punkt::{ModelError, PunktModel};
use super::references::{self, ReferenceAnswer, ReferencesError};
use super::report::{AccuracyLogSummary, AccuracyReport, AccuracyVerdict};
use super::rouge::WordInterner;
use super::score_sum::{ScoreSum, ScoredAnswer};
use super::scoring_method::ScoringMethod;
use super::sentences::one_sentence_per_line;
use super::token_decoder::{TokenDecoder, TokenDecoderError};
use crate::DatasetRecord;
use base::spec::TestMode;
use base::units::counted;
use rules::Round;
use rules::log::{AnswerLog, LogError, LoggedAnswer, Width};

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

#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    #[error("round {round} has no benchmark `{benchmark}` that is scored here; it has {}", known.join(", "))]
    Unknown { round: String, benchmark: String, known: Vec<String> },
    #[error("the data set is that of {found}, and {benchmark} is to be scored")]
    OtherDataset { found: String, benchmark: String },
    #[error("{} has {found} samples, and dataset.json has {recorded}", path.display())]
    SampleCount { path: PathBuf, found: usize, recorded: u64 },
    #[error(transparent)]
    References(#[from] ReferencesError),
    #[error(transparent)]
    TokenDecoder(#[from] TokenDecoderError),
    #[error("the model that finds sentences cannot be used: {0}")]
    Sentences(#[from] ModelError),
    #[error("{path}: {source}")]
    Open { path: String, source: std::io::Error },
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("{} in the accuracy log:\n{}", counted(*.count, "error"), .messages.join("\n"))]
    Answers { count: u64, messages: Vec<String> },
}

/// What a worker needs.
struct Bench<'a> {
    scoring_method: ScoringMethod,
    token_decoder: TokenDecoder,
    model: Option<PunktModel>,
    references: &'a [ReferenceAnswer],
}

/// Scores a log. `progress` receives the number of answers that have been scored.
pub fn score(scoring: &Scoring<'_>, progress: &mut dyn FnMut(u64)) -> Result<Scored, ScoreError> {
    let unknown = || {
        let known = scoring.round.benchmarks.keys().cloned().collect();
        ScoreError::Unknown { round: scoring.round.name.clone(), benchmark: scoring.benchmark.to_owned(), known }
    };
    let benchmark = &scoring.round.benchmarks.get(scoring.benchmark).ok_or_else(unknown)?.scored_in(scoring.mode);
    let scoring_method = ScoringMethod::of(scoring.benchmark).ok_or_else(unknown)?;
    let dataset_record = scoring.dataset_record;
    if ScoringMethod::of(&dataset_record.benchmark) != Some(scoring_method) {
        let (found, benchmark) = (dataset_record.benchmark.clone(), scoring.benchmark.to_owned());
        return Err(ScoreError::OtherDataset { found, benchmark });
    }
    let references = references::read(scoring.dataset)?;
    if references.len() as u64 != dataset_record.samples {
        let path = scoring.dataset.to_owned();
        return Err(ScoreError::SampleCount { path, found: references.len(), recorded: dataset_record.samples });
    }
    let token_decoder = match scoring.tokenizer {
        Some(file) => TokenDecoder::load(file, scoring_method.skips_special())?,
        None if dataset_record.synthetic => TokenDecoder::synthetic(),
        None => return Err(TokenDecoderError::NoTokenizer.into()),
    };
    let model = scoring.sentences.map(PunktModel::load).transpose()?;
    let bench = Bench { scoring_method, token_decoder, model, references: &references };
    let read = read(scoring, &bench, progress)?;
    let has_sentences = bench.model.is_some();
    let sum = ScoreSum::of(scoring_method, benchmark, &read.outcomes, read.log.entries, has_sentences);
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

fn read(scoring: &Scoring<'_>, bench: &Bench<'_>, progress: &mut dyn FnMut(u64)) -> Result<ReadLog, ScoreError> {
    let open = |source| ScoreError::Open { path: scoring.log.display().to_string(), source };
    let mut log = AnswerLog::open(scoring.log).map_err(open)?;
    let (jobs, queue) = mpsc::sync_channel::<(usize, LoggedAnswer, Width)>(IN_FLIGHT);
    let (done, results) = mpsc::channel::<(usize, u64, Result<ScoredAnswer, AnswerError>)>();
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
        let mut errors = AnswerErrors::default();
        let (mut entries, mut answered, mut scored) = (0, vec![false; bench.references.len()], 0);
        let mut width: Option<Width> = None;
        let mut take = |(at, offset, outcome): (usize, u64, Result<ScoredAnswer, AnswerError>),
                        outcomes: &mut Vec<Option<ScoredAnswer>>,
                        errors: &mut AnswerErrors| {
            scored += 1;
            if scored % 1024 == 0 {
                progress(scored);
            }
            match outcome {
                Ok(outcome) => outcomes[at] = Some(outcome),
                Err(error) => errors.push_error(offset, &error),
            }
        };
        while let Some(entry) = log.next().transpose()? {
            entries += 1;
            let index = entry.qsl_idx as usize;
            if index >= answered.len() {
                errors.push_error(entry.offset, &AnswerError::NoSample { sample: index, samples: answered.len() });
                continue;
            }
            if std::mem::replace(&mut answered[index], true) {
                continue;
            }
            let own = Width::of(&entry);
            width = width.or(own);
            if let (Some(first), Some(own), Some(_)) = (width, own, entry.token_count)
                && first != own
            {
                errors.push_error(entry.offset, &AnswerError::OtherWidth);
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
        errors.end()?;
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
    ) -> Result<ScoredAnswer, AnswerError> {
        let index = entry.qsl_idx;
        let reference = &self.references[index as usize];
        let Some(target) = &reference.reference else {
            return Err(AnswerError::NoReference { sample: index });
        };
        let ids = width.ids(&entry.data).map_err(|error| AnswerError::Tokens { sample: index, error })?;
        let text = self.token_decoder.spell(&ids).map_err(AnswerError::Spell)?;
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
