//! `mlperf:` — the steps towards a submission.

mod checker;
mod dataset;
mod library;
mod package;
mod score;
mod verify;

pub use library::{LIBRARY, TOLD as LOADGEN_TOLD};

use std::path::Path;

use super::task_context::TaskContext;
use crate::event::{Done, Failure, FailureKind};
use crate::manifest::model::Mlperf;
use crate::mlperf::Round;

pub async fn perform(context: &TaskContext, step: &Mlperf, program: Option<&Path>) -> Result<Done, Failure> {
    match step {
        Mlperf::Loadgen(step) => library::perform(context, step, program).await,
        Mlperf::Dataset(step) => dataset::perform(context, step),
        Mlperf::Score(step) => score::perform(context, step),
        Mlperf::Verify(step) => verify::perform(context, step),
        Mlperf::Package(step) => package::perform(context, step).await,
    }
}

/// A round by its name.
fn round(name: &str) -> Result<Round, Failure> {
    Round::named(name).ok_or_else(|| {
        Failure::new(FailureKind::Refused, format!("there is no round `{name}` here"))
            .hint(format!("known are: {}", Round::NAMES.join(", ")))
    })
}
