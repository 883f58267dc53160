//! `mlperf:` — the steps toward a submission: `dataset` is the data set of a benchmark as the harness reads it,
//! `score` what an accuracy run is worth, `verify` whether an audit test holds. `loadgen` and `package` have files of
//! their own.

mod library;
mod package;

use std::path::Path;

use crate::Run;
use crate::task_context::TaskContext;
use base::event::{Done, Failure, FailureKind, Verdict};
use base::files::{cores, read_bytes, read_text};
use base::spec::TestMode;
pub use library::{LIBRARY, MeteredTest, RECORD_FILE as LOADGEN_RECORD_FILE, run as run_loadgen};
use mlperf::accuracy::{ACCURACY_FILE, ACCURACY_TEXT, AccuracyReport, Scoring, ScoringMethod, score};
use mlperf::audit::{self, Test07Score};
use mlperf::dataset::{DATASET_FILE, DatasetRequest, SAMPLES_FILE, assumed_lengths, make, read};
use mlperf::{DatasetRecord, TestRecord};
use plan::manifest::model::{Mlperf, MlperfDataset, MlperfScore, MlperfVerify};
use rules::log::Width;
use rules::{ResolvedTest, Round, log};

impl Run for Mlperf {
    const FORMAT: Option<u32> = Some(1);

    async fn run(&self, context: TaskContext) -> Result<Done, Failure> {
        let context = &context;
        match self {
            Self::Loadgen(step) => library::perform(context, step).await,
            Self::Dataset(step) => perform_dataset(context, step),
            Self::Score(step) => perform_score(context, step),
            Self::Verify(step) => perform_verify(context, step),
            Self::Package(step) => package::perform(context, step).await,
        }
    }
}

/// A round by its name.
pub(super) fn round(name: &str) -> Result<Round, Failure> {
    Round::named(name).ok_or_else(|| {
        Failure::refused(format!("unknown round `{name}`")).hint(format!("known are: {}", Round::NAMES.join(", ")))
    })
}

/// Fills the output with `dataset.jsonl` and `dataset.json`.
pub fn perform_dataset(context: &TaskContext, step: &MlperfDataset) -> Result<Done, Failure> {
    let round = round(&step.round)?;
    let wanted = DatasetRequest { round: &round, benchmark: &step.benchmark, out: &context.lease.out };
    let file = match (&step.from, &step.synthetic) {
        (Some(from), None) => read(&wanted, &context.path(from)),
        (None, Some(synthetic)) => make(&wanted, synthetic.seed, synthetic.samples, synthetic.part.as_deref()),
        _ => Err(Failure::refused("a data set is either read, `from: PATH`, or synthetic, `synthetic: {}`")),
    }?;
    let dataset_record = &file.record;
    if file.references < dataset_record.samples {
        let without = dataset_record.samples - file.references;
        context.lease.notice(format!(
            "{without} of {} samples have no reference: no answer to them can be scored",
            dataset_record.samples
        ));
    }
    let kind = if dataset_record.synthetic { "synthetic samples, not submittable" } else { "samples" };
    let tokens = file.input_tokens;
    let is_short = dataset_record.synthetic && assumed_lengths(&step.benchmark).is_none();
    let answers = if is_short { "; answers of 64 at most, where the benchmark's have thousands" } else { "" };
    let headline = format!(
        "{} {kind}, {:.0} input tokens on average, {} to {}{answers}",
        dataset_record.samples, tokens.mean, tokens.min, tokens.max
    );
    Ok(Done { headline: Some(headline), ..Done::default() })
}

/// Fills the output with `accuracy.txt` and `accuracy.json`. A missed bound is an answer, not a failure.
pub fn perform_score(context: &TaskContext, step: &MlperfScore) -> Result<Done, Failure> {
    let round = round(&step.round)?;
    let dataset = context.path(&step.dataset);
    let dataset_record = read_dataset_record(&dataset)?;
    let (tokenizer, sentences) = (step.tokenizer.as_ref(), step.sentences.as_ref());
    let (tokenizer, sentences) = (tokenizer.map(|path| context.path(path)), sentences.map(|path| context.path(path)));
    let official = step.official.as_ref().map(|path| read_official(&context.path(path))).transpose()?;
    let scoring = Scoring {
        round: &round,
        benchmark: &step.benchmark,
        mode: mode(&context.path(&step.accuracy))?,
        log: &context.path(&step.accuracy).join(log::ACCURACY_FILE),
        dataset: &dataset.join(SAMPLES_FILE),
        dataset_record: &dataset_record,
        tokenizer: tokenizer.as_deref(),
        sentences: sentences.as_deref(),
        official: official.as_deref(),
        threads: cores(),
    };
    let scored = score(&scoring, &mut |done| {
        context.lease.report_progress("answers scored", done, Some(dataset_record.samples));
    })?;
    let method = ScoringMethod::for_benchmark(&step.benchmark);
    let width = scored.report.log.token_ids.unwrap_or(Width::Int32);
    let has_option = method.is_some_and(ScoringMethod::has_dtype_option);
    let option = if has_option { format!(" with `--dtype {}`", width.dtype()) } else { String::new() };
    // What the reference prints and the round does not judge is missing without a word.
    for missing in scored.report.unscored.iter().filter(|missing| missing.wanted) {
        context.lease.notice(format!(
            "{} is not scored: {}; run the reference's evaluator over {}{option} and name what it prints: `score: {{ \
             official: FILE }}`",
            missing.name,
            missing.why,
            scoring.log.display()
        ));
    }
    if let (Some(method), Width::Int64, false) = (method, width, has_option) {
        context.lease.notice(format!(
            "{} reads token ids of 4 bytes, and those of {} have 8: run the accuracy test again (`--force`) before \
             you run it",
            method.script(),
            scoring.log.display()
        ));
    }
    if scored.report.unknown_tokens > 0 {
        context.lease.notice(format!(
            "{} token ids of the answers are outside the tokenizer's vocabulary, and are scored as nothing: is it \
             the model's?",
            scored.report.unknown_tokens
        ));
    }
    context.write(ACCURACY_TEXT, &scored.text)?;
    context.write_json(ACCURACY_FILE, &scored.report)?;
    Ok(Done { headline: Some(scored.report.headline()), ..Done::default() })
}

/// What the run was for. Logs of another harness have no record, and are those of accuracy mode.
fn mode(run: &Path) -> Result<TestMode, Failure> {
    let record = TestRecord::in_folder(run).map_err(|error| Failure::files(error.to_string()))?;
    Ok(record.map_or(TestMode::Accuracy, |record| record.mode))
}

fn read_official(file: &Path) -> Result<String, Failure> {
    read_text(file).map_err(|error| {
        Failure::files(format!("{}: {error}", file.display()))
            .hint("`official` is what the reference's evaluator printed: `python3 eval_accuracy.py … > FILE`")
    })
}

/// Of a folder with a data set.
pub fn read_dataset_record(folder: &Path) -> Result<DatasetRecord, Failure> {
    let file = folder.join(DATASET_FILE);
    let no = |why: &dyn std::fmt::Display| {
        Failure::files(format!("{}: {why}", file.display()))
            .hint("`dataset` is the output of a stage with `mlperf: { dataset: … }`")
    };
    let text = read_bytes(&file).map_err(|error| no(&error))?;
    serde_json::from_slice(&text).map_err(|error| no(&error))
}

pub fn perform_verify(context: &TaskContext, step: &MlperfVerify) -> Result<Done, Failure> {
    let rules = ResolvedTest::named(&step.round, &step.benchmark)
        .map_err(|wrong| Failure::refused(format!("`{}` {}", wrong.at.join("."), wrong.what)))?;
    let end_ids = if step.end_ids.is_empty() { &rules.benchmark.end_ids } else { &step.end_ids };
    let score = step.score.as_deref().map(|score| exact_match(&context.path(score))).transpose()?;
    let verified = audit::verify(&context.path(&step.audit), &rules, &step.benchmark, end_ids, score)?;
    context.write(verified.file, &verified.text)?;
    match verified.wrong.first() {
        None => {
            if let Some(what) = verified.not_judged {
                context.lease.notice(format!("SIMULATED, not judged: {what}"));
            }
            Ok(Done { headline: Some(verified.headline), ..Done::default() })
        }
        Some(first) => {
            let failure = Failure::new(FailureKind::Invalid(Verdict::InvalidServer), verified.headline);
            Err(failure.cause(first.clone()).tail(verified.wrong))
        }
    }
}

/// The exact match that a `score` stage found, percent.
fn exact_match(score: &Path) -> Result<Test07Score, Failure> {
    let path = score.join(ACCURACY_FILE);
    let refuse = |what: String| Failure::refused(format!("`{}` {what}", path.display()));
    let text = read_bytes(&path).map_err(|error| refuse(format!("cannot be read: {error}")))?;
    let report: AccuracyReport =
        serde_json::from_slice(&text).map_err(|error| refuse(format!("is not an accuracy.json: {error}")))?;
    let metric = report.metrics.iter().find(|metric| metric.name == "exact_match");
    Ok(metric.map_or(Test07Score::Unscored, |metric| Test07Score::ExactMatch(metric.value)))
}
