//! Whether an audit run holds. Stricter than the official scripts: an empty log does not pass, nor does a run in which the
//! test's settings were not in force.

use std::path::{Path, PathBuf};

use super::super::log::{ACCURACY_FILE, AnswerLog, DETAIL_FILE, Detail, DetailError, LogError};
use super::super::test_request::ResolvedTest;
use super::super::{TEST_FILE, TestRecord, TestRecordError};
use super::config::{LOG_SEED, config};
use super::lengths::AnswerLengths;
use super::outputs::AuditOutputs;
use crate::spec::TestMode;

/// What a verification found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditVerification {
    pub test: TestMode,
    /// The name of the file for the package.
    pub file: &'static str,
    pub text: String,
    /// Everything that is wrong; empty: it passes.
    pub wrong: Vec<String>,
    /// One line for display.
    pub headline: String,
}

/// Why nothing could be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("`{}` cannot be read: {error}", path.display())]
    Log { path: PathBuf, error: String },
    #[error(transparent)]
    Record(#[from] TestRecordError),
    #[error("`{}` has no {TEST_FILE}, which describes the run", folder.display())]
    NoRecord { folder: PathBuf },
    #[error("`{}`: {error}", path.display())]
    Detail { path: PathBuf, error: DetailError },
    #[error("`{}`: {error}", path.display())]
    Answers { path: PathBuf, error: LogError },
    #[error("`{}` is a {is} run, and that is no audit test", folder.display())]
    NoTest { folder: PathBuf, is: &'static str },
    #[error("TEST07 needs the exact match of the run's answers")]
    NoScore,
}

/// Verifies the audit run in a folder. `end_ids`: tokens that end an answer (TEST06). `exact_match`: percent (TEST07).
pub fn verify(
    folder: &Path,
    found: &ResolvedTest,
    benchmark: &str,
    end_ids: &[i32],
    exact_match: Option<f64>,
) -> Result<AuditVerification, VerifyError> {
    let test_record =
        TestRecord::in_folder(folder)?.ok_or_else(|| VerifyError::NoRecord { folder: folder.to_owned() })?;
    let mut wrong = Vec::new();
    if test_record.round != found.round.name || test_record.benchmark != benchmark {
        wrong.push(format!(
            "it is a run of {} of {}, not of {benchmark} of {}",
            test_record.benchmark, test_record.round, found.round.name
        ));
    }
    let detail = detail(folder)?;
    wrong.extend(not_in_force(&detail, found, test_record.mode));
    let path = folder.join(ACCURACY_FILE);
    let of_log = |error| VerifyError::Answers { path: path.clone(), error };
    let answers =
        || AnswerLog::open(&path).map_err(|error| VerifyError::Log { path: path.clone(), error: error.to_string() });
    let samples = config(found, test_record.mode).map_or(0, |config| config.min_query_count);
    match test_record.mode {
        TestMode::Performance | TestMode::Accuracy => {
            Err(VerifyError::NoTest { folder: folder.to_owned(), is: test_record.mode.as_str() })
        }
        TestMode::Test06 => {
            let outputs = AuditOutputs::of(answers()?, test_record.scenario, end_ids).map_err(of_log)?;
            wrong.extend(outputs.first_offences.iter().cloned());
            wrong.extend(too_few(outputs.answers, samples));
            let passes = wrong.is_empty() && outputs.holds();
            let headline = format!("TEST06 {}: {} answers looked at", verdict(passes), outputs.answers);
            Ok(AuditVerification {
                test: test_record.mode,
                file: "verify_accuracy.txt",
                text: outputs.text(passes),
                wrong,
                headline,
            })
        }
        TestMode::Test07 => {
            let score = exact_match.ok_or(VerifyError::NoScore)?;
            let lengths = AnswerLengths::of(answers()?).map_err(of_log)?;
            wrong.extend(too_few(lengths.count, samples));
            let bounds =
                found.benchmark.audits.get(&TestMode::Test07).and_then(|audit| audit.exact_match).unwrap_or_default();
            let least = bounds.min.unwrap_or(0.0);
            if score < least {
                wrong.push(format!("exact match is {score}, less than {least}"));
            }
            let passes = wrong.is_empty();
            let text = format!(
                "'exact_match': {score}\n\nTEST07 Verification Summary\nAccuracy score: {score}\nAccuracy threshold: {least}\n\
                 Accuracy check pass: {}\nTEST {}\n",
                if score >= least { "True" } else { "False" },
                if passes { "PASS" } else { "FAIL" }
            );
            let headline = format!(
                "TEST07 {}: exact match {score} of at least {least}, {} answers",
                verdict(passes),
                lengths.count
            );
            Ok(AuditVerification { test: test_record.mode, file: "verify_accuracy.txt", text, wrong, headline })
        }
        TestMode::Test09 => {
            let lengths = AnswerLengths::of(answers()?).map_err(of_log)?;
            let bounds =
                found.benchmark.audits.get(&TestMode::Test09).and_then(|audit| audit.output_tokens).unwrap_or_default();
            wrong.extend(lengths.mean_violation(bounds));
            wrong.extend(too_few(lengths.count, samples));
            let passes = wrong.is_empty();
            let mean = lengths.mean().unwrap_or(0.0);
            let headline =
                format!("TEST09 {}: {mean:.2} tokens on average of {} answers", verdict(passes), lengths.count);
            let text = lengths.text(bounds, passes);
            Ok(AuditVerification { test: test_record.mode, file: "verify_output_len.txt", text, wrong, headline })
        }
    }
}

const fn verdict(passes: bool) -> &'static str {
    if passes { "passes" } else { "fails" }
}

fn detail(folder: &Path) -> Result<Detail, VerifyError> {
    Detail::of(folder).map_err(|error| VerifyError::Detail { path: folder.join(DETAIL_FILE), error })
}

/// Whether LoadGen worked with the test's audit.config.
fn not_in_force(detail: &Detail, found: &ResolvedTest, mode: TestMode) -> Vec<String> {
    let Some(config) = config(found, mode) else { return Vec::new() };
    let mut wrong = Vec::new();
    let mut expect = |key: &str, is: Option<String>, should: String| {
        if is.as_deref() != Some(&should) {
            let is = is.unwrap_or_else(|| "not reported".to_owned());
            wrong.push(format!("audit.config was not in force: `{key}` is {is}, not {should}"));
        }
    };
    let count = |key: &str| detail.count(key).map(|value| value.to_string());
    let flag = |key: &str| detail.flag(key).map(|value| value.to_string());
    expect("accuracy_log_rng_seed", count("effective_accuracy_log_rng_seed"), LOG_SEED.to_string());
    expect(
        "accuracy_log_sampling_target",
        count("effective_accuracy_log_sampling_target"),
        config.sampling_target.to_string(),
    );
    expect("min_query_count", count("requested_min_query_count"), config.min_query_count.to_string());
    expect("sample_concatenate_permutation", flag("effective_sample_concatenate_permutation"), "false".to_owned());
    expect("performance_issue_unique", flag("effective_performance_issue_unique"), config.issue_unique.to_string());
    let errors = detail.all_errors();
    if errors > 0 {
        let first = detail.first_errors.first().map_or_else(String::new, |first| format!("; the first: {first}"));
        wrong.push(format!("LoadGen logged {errors} errors{first}"));
    }
    wrong
}

fn too_few(answers: u64, needed: u64) -> Option<String> {
    (answers < needed).then(|| format!("the log holds {answers} answers; the test logs {needed}"))
}
