//! `mlperf: { package: … }` — the result directory of a submission.

use crate::event::{Done, Failure, FailureKind};
use crate::manifest::model::MlperfPackage;
use crate::stage::errand::Errand;

pub async fn perform(_errand: &Errand, _step: &MlperfPackage) -> Result<Done, Failure> {
    Err(Failure::new(FailureKind::Refused, "this step is not there yet"))
}
