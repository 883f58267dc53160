//! A program without the feature `parquet` writes no Parquet files.

use super::export_error::ExportError;
use crate::diag::FeatureLeftOut;
use crate::harness::RequestRecord;
use crate::interop::metrics::MeasuredRun;
use crate::interop::results::exported::Exported;

pub(super) fn write(_: &MeasuredRun, _: &[RequestRecord], _: &mut Exported) -> Result<(), ExportError> {
    Err(FeatureLeftOut("parquet").into())
}
