//! `mlperf: { score: … }` — what an accuracy run is worth.

use std::fs;
use std::path::Path;

use super::round;
use crate::task_context::TaskContext;
use base::event::{Done, Failure, FailureKind};
use base::files::{cores, read_bytes, read_text};
use base::spec::TestMode;
use mlperf::accuracy::{ACCURACY_FILE, ACCURACY_TEXT, ScoreError, Scoring, ScoringMethod, score};
use mlperf::dataset::{DATASET_FILE, SAMPLES_FILE};
use mlperf::{DatasetRecord, TestRecord};
use plan::manifest::model::MlperfScore;
use rules::log;
use rules::log::Width;

/// Fills the output with `accuracy.txt` and `accuracy.json`. A missed bound is an answer, not a failure.
pub fn perform(context: &TaskContext, step: &MlperfScore) -> Result<Done, Failure> {
    let round = round(&step.round)?;
    let dataset = context.path(&step.dataset);
    let dataset_record = read_dataset_record(&dataset.join(DATASET_FILE))?;
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
    });
    let scored = scored.map_err(|error| failure(&error))?;
    let method = ScoringMethod::for_benchmark(&step.benchmark);
    let width = scored.report.log.token_ids.unwrap_or(Width::Int32);
    let has_option = method.is_some_and(ScoringMethod::has_dtype_option);
    let option = if has_option { format!(" with `--dtype {}`", width.dtype()) } else { String::new() };
    // What the reference prints and the round does not judge is missing without a word.
    for missing in scored.report.unscored.iter().filter(|missing| missing.wanted) {
        context.lease.notice(format!(
            "{} is not scored: {}; run the reference's evaluator over {}{option} and name what it prints: `score: {{ official: FILE }}`",
            missing.name,
            missing.why,
            scoring.log.display()
        ));
    }
    if let (Some(method), Width::Int64, false) = (method, width, has_option) {
        context.lease.notice(format!(
            "{} reads token ids of 4 bytes, and those of {} have 8: run the accuracy test again (`--force`) before you run it",
            method.script(),
            scoring.log.display()
        ));
    }
    if scored.report.unknown_tokens > 0 {
        context.lease.notice(format!(
            "{} token ids of the answers are outside the tokenizer's vocabulary, and are scored as nothing: is it the model's?",
            scored.report.unknown_tokens
        ));
    }
    let out = context.lease.out();
    write(&out.join(ACCURACY_TEXT), &scored.text)?;
    let json = serde_json::to_string_pretty(&scored.report).expect("it has only text keys");
    write(&out.join(ACCURACY_FILE), &(json + "\n"))?;
    Ok(Done { headline: Some(scored.report.headline()), ..Done::default() })
}

/// What the run was for. Logs of another harness have no record, and are those of accuracy mode.
fn mode(run: &Path) -> Result<TestMode, Failure> {
    let record = TestRecord::in_folder(run).map_err(|error| Failure::new(FailureKind::Files, error.to_string()))?;
    Ok(record.map_or(TestMode::Accuracy, |record| record.mode))
}

fn read_official(file: &Path) -> Result<String, Failure> {
    read_text(file).map_err(|error| {
        Failure::new(FailureKind::Files, format!("{}: {error}", file.display()))
            .hint("`official` is what the reference's evaluator printed: `python3 eval_accuracy.py … > FILE`")
    })
}

fn read_dataset_record(file: &Path) -> Result<DatasetRecord, Failure> {
    let no = |why: &dyn std::fmt::Display| {
        Failure::new(FailureKind::Files, format!("{}: {why}", file.display()))
            .hint("`dataset` is the output of a stage with `mlperf: { dataset: … }`")
    };
    let text = read_bytes(file).map_err(|error| no(&error))?;
    serde_json::from_slice(&text).map_err(|error| no(&error))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text)
        .map_err(|error| Failure::new(FailureKind::System, format!("cannot write {}: {error}", path.display())))
}

fn failure(error: &ScoreError) -> Failure {
    let kind = match error {
        ScoreError::Open { .. }
        | ScoreError::Log(_)
        | ScoreError::OtherDataset { .. }
        | ScoreError::SampleCount { .. }
        | ScoreError::References(_)
        | ScoreError::Sentences(_) => FailureKind::Files,
        _ => FailureKind::Refused,
    };
    let failure = Failure::new(kind, error.to_string());
    match error {
        ScoreError::Open { .. } => failure.hint("`accuracy` is the output of a bench stage with `loadgen: { mode: accuracy }`"),
        ScoreError::Log(_) => failure.hint("score the log as LoadGen wrote it: packages get their truncated copy afterwards"),
        ScoreError::TokenDecoder(_) => failure.hint("name the model's `tokenizer.json`: `score: { tokenizer: PATH }`"),
        ScoreError::Sentences(_) => failure
            .hint("`sentences` is the folder `tokenizers/punkt_tab/english` of NLTK's data: `python3 -m nltk.downloader punkt_tab`"),
        _ => failure,
    }
}
