//! `mlperf: { dataset: … }` — the data set of a benchmark as the harness reads it.

use crate::event::{Done, Failure, FailureKind};
use crate::manifest::model::MlperfDataset;
use crate::stage::errand::Errand;

pub fn perform(_errand: &Errand, _step: &MlperfDataset) -> Result<Done, Failure> {
    Err(Failure::new(FailureKind::Refused, "this step is not there yet"))
}
