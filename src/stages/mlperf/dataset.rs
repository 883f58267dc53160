//! `mlperf: { dataset: … }` — the data set of a benchmark as the harness reads it.

use super::round;
use crate::task_context::TaskContext;
use base::event::{Done, Failure, FailureKind};
use mlperf::dataset::{DatasetError, DatasetRequest, make, read};
use plan::manifest::model::MlperfDataset;

/// Fills the output with `dataset.jsonl` and `dataset.json`.
pub fn perform(context: &TaskContext, step: &MlperfDataset) -> Result<Done, Failure> {
    let round = round(&step.round)?;
    let wanted = DatasetRequest { round: &round, benchmark: &step.benchmark, out: context.lease.out() };
    let file = match (&step.from, &step.synthetic) {
        (Some(from), None) => read(&wanted, &context.path(from)),
        (None, Some(synthetic)) => make(&wanted, synthetic.seed, synthetic.samples, synthetic.part.as_deref()),
        _ => {
            let what = "a data set is either read, `from: PATH`, or synthetic, `synthetic: {}`";
            return Err(Failure::new(FailureKind::Refused, what));
        }
    };
    let file = file.map_err(|error| {
        let kind = match error {
            DatasetError::Write { .. } => FailureKind::System,
            DatasetError::Read(_) => FailureKind::Files,
            _ => FailureKind::Refused,
        };
        let failure = Failure::new(kind, error.to_string());
        match error {
            DatasetError::Pickle { command, .. } => failure.hint(format!("convert it, and name the result: {command}")),
            DatasetError::Count { .. } => {
                failure.hint("the whole data set is needed; for a rehearsal there is `synthetic: { samples: N }`")
            }
            _ => failure,
        }
    })?;
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
    let headline = format!(
        "{} {kind}, {:.0} input tokens on average, {} to {}",
        dataset_record.samples, tokens.mean, tokens.min, tokens.max
    );
    Ok(Done { headline: Some(headline), ..Done::default() })
}
