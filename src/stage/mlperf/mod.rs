//! `mlperf:` — the steps towards a submission.

mod dataset;
mod library;
mod package;
mod score;
mod verify;

pub use library::LIBRARY;

use std::path::Path;

use super::errand::Errand;
use crate::event::{Done, Failure};
use crate::manifest::model::Mlperf;

pub async fn perform(errand: &Errand, step: &Mlperf, program: Option<&Path>) -> Result<Done, Failure> {
    match step {
        Mlperf::Loadgen(step) => library::perform(errand, step, program).await,
        Mlperf::Dataset(step) => dataset::perform(errand, step),
        Mlperf::Score(step) => score::perform(errand, step),
        Mlperf::Verify(step) => verify::perform(errand, step),
        Mlperf::Package(step) => package::perform(errand, step).await,
    }
}
