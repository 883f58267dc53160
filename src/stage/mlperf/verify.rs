//! `mlperf: { verify: … }` — whether an audit test holds.

use crate::event::{Done, Failure, FailureKind};
use crate::manifest::model::MlperfVerify;
use crate::stage::errand::Errand;

pub fn perform(_errand: &Errand, _step: &MlperfVerify) -> Result<Done, Failure> {
    Err(Failure::new(FailureKind::Refused, "this step is not there yet"))
}
