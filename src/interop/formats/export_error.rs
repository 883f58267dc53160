//! Why a run was not written in the format of another tool.

use base::diag::FeatureLeftOut;

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[cfg(feature = "parquet")]
    #[error(transparent)]
    Parquet(#[from] parquet::errors::ParquetError),
    #[error(transparent)]
    LeftOut(#[from] FeatureLeftOut),
}
