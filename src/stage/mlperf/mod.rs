//! `mlperf:` — the steps towards a submission.

mod checker;
mod dataset;
mod library;
mod package;
mod score;
mod verify;

use super::errand::Errand;
use crate::event::{Done, Failure};
use crate::manifest::model::Mlperf;

pub async fn perform(errand: &Errand, step: &Mlperf) -> Result<Done, Failure> {
    match step {
        Mlperf::Loadgen(step) => library::perform(errand, step).await,
        Mlperf::Dataset(step) => dataset::perform(errand, step),
        Mlperf::Score(step) => score::perform(errand, step),
        Mlperf::Verify(step) => verify::perform(errand, step),
        Mlperf::Package(step) => package::perform(errand, step).await,
    }
}
