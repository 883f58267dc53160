//! A program without the feature `parquet` writes no Parquet files.

use super::export::{ExportError, Exported};
use crate::metrics::MeasuredRun;
use base::diag::FeatureLeftOut;
use harness::RequestRecord;

pub(super) fn write(_: &MeasuredRun, _: &[RequestRecord], _: &mut Exported) -> Result<(), ExportError> {
    Err(FeatureLeftOut("parquet").into())
}
