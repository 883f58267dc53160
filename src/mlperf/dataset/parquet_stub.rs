//! A program without the feature `parquet` reads no Parquet files.

use std::path::Path;

use super::error::SampleFileError;
use super::row::{Columns, RowSink};
use base::diag::FeatureLeftOut;

pub fn read(file: &Path, _: &Columns, _: &mut RowSink<'_>) -> Result<(), SampleFileError> {
    let error = FeatureLeftOut("parquet").into();
    Err(SampleFileError::Parquet { path: file.to_owned(), error })
}
