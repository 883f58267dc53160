//! A program without the feature `parquet` reads no Parquet files.

use std::path::Path;

use super::row::{Columns, RowSink};
use base::diag::{ErrorText, FeatureLeftOut, in_file};

pub fn read(file: &Path, _: &Columns, _: &mut RowSink<'_>) -> Result<(), ErrorText> {
    Err(in_file(file)(FeatureLeftOut("parquet")))
}
