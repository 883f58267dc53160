//! `mlperf: { loadgen: … }` — LoadGen of a round, unaltered, as a shared library.

use crate::event::{Done, Failure, FailureKind};
use crate::manifest::model::LoadgenLibrary;
use crate::stage::errand::Errand;

pub async fn perform(_errand: &Errand, _step: &LoadgenLibrary) -> Result<Done, Failure> {
    Err(Failure::new(FailureKind::Refused, "this step is not there yet"))
}
