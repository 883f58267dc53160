//! `mlperf: { verify: … }` — whether an audit test holds.

use std::fs;
use std::path::Path;

use crate::task_context::TaskContext;
use base::event::{Done, Failure, FailureKind, Verdict};
use base::files::read_bytes;
use base::spec::{Division, TestMode};
use mlperf::accuracy::{ACCURACY_FILE, AccuracyReport};
use mlperf::audit::{self, Test07Score, VerifyError};
use plan::manifest::model::MlperfVerify;
use rules::{MlperfScenario, TestRequest};

pub fn perform(context: &TaskContext, step: &MlperfVerify) -> Result<Done, Failure> {
    let none = indexmap::IndexMap::new();
    let named = TestRequest {
        round: &step.round,
        benchmark: &step.benchmark,
        scenario: MlperfScenario::Offline,
        mode: TestMode::Performance,
        division: Division::Closed,
        rehearsal: false,
        target_qps: None,
        user_conf: &none,
        dataset_samples: None,
    };
    let found = named.find().map_err(|wrong| {
        let lines: Vec<String> = wrong.iter().map(|one| format!("`{}` {}", one.at.join("."), one.what)).collect();
        Failure::new(FailureKind::Refused, lines.join("; "))
    })?;
    let end_ids = if step.end_ids.is_empty() { &found.benchmark.end_ids } else { &step.end_ids };
    let score = step.score.as_deref().map(|score| exact_match(&context.path(score))).transpose()?;
    let verified = audit::verify(&context.path(&step.audit), &found, &step.benchmark, end_ids, score)
        .map_err(|error| refused(&error))?;
    let path = context.lease.out.join(verified.file);
    fs::write(&path, &verified.text).map_err(|error| {
        Failure::new(FailureKind::System, format!("`{}` cannot be written: {error}", path.display()))
    })?;
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

fn refused(error: &VerifyError) -> Failure {
    let hint = match error {
        VerifyError::NoScore => {
            Some("add `score: \"{{ stages.NAME.out }}\"` of an `mlperf: { score: … }` stage over the run")
        }
        VerifyError::NotScored => Some(
            "run the reference's evaluator over the run's mlperf_log_accuracy.json and name what it prints: `score: { official: FILE }`",
        ),
        VerifyError::NoTest { .. } => {
            Some("`audit` is the output of a `bench` with `loadgen: { mode: test06 }` or another test")
        }
        _ => None,
    };
    let failure = Failure::new(FailureKind::Refused, error.to_string());
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// The exact match that a `score` stage found, percent.
fn exact_match(score: &Path) -> Result<Test07Score, Failure> {
    let path = score.join(ACCURACY_FILE);
    let refuse = |what: String| Failure::new(FailureKind::Refused, format!("`{}` {what}", path.display()));
    let text = read_bytes(&path).map_err(|error| refuse(format!("cannot be read: {error}")))?;
    let report: AccuracyReport =
        serde_json::from_slice(&text).map_err(|error| refuse(format!("is no accuracy.json: {error}")))?;
    let metric = report.metrics.iter().find(|metric| metric.name == "exact_match");
    Ok(metric.map_or(Test07Score::Unscored, |metric| Test07Score::ExactMatch(metric.value)))
}
