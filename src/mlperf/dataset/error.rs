//! Why a data set could not be read or written.

use base::diag::ErrorText;

#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// With the command that converts it.
    #[error("{error}")]
    Pickle { error: ErrorText, command: String },
    /// What is wanted does not exist, or rows are not as they must be.
    #[error("{0}")]
    Refused(ErrorText),
    #[error("{0}")]
    Read(#[from] ErrorText),
    /// Not as many samples as the round has.
    #[error("{0}")]
    Count(ErrorText),
    #[error("{0}")]
    Write(ErrorText),
}

/// A column that holds another kind of value than its name announces.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    #[error("`{0}` is not a list of whole numbers")]
    NotIds(String),
    #[error("`{0}` is a list, but a text is expected")]
    NotText(String),
}
