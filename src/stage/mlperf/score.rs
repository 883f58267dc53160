//! `mlperf: { score: … }` — what an accuracy run is worth.

use crate::event::{Done, Failure, FailureKind};
use crate::manifest::model::MlperfScore;
use crate::stage::errand::Errand;

pub fn perform(_errand: &Errand, _step: &MlperfScore) -> Result<Done, Failure> {
    Err(Failure::new(FailureKind::Refused, "this step is not there yet"))
}
