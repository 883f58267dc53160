//! Why a data set could not be read or written.

use std::path::PathBuf;

use base::diag::{ErrorText, FeatureLeftOut, LibraryPanic};

#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    #[error("round {round} has no benchmark `{benchmark}` whose data set Regatta can read{why}; it can read {known}")]
    Unknown { round: String, benchmark: String, why: String, known: String },
    /// With the command that converts it.
    #[error("{} is a pickle, which runs what is in it when it is read", path.display())]
    Pickle { path: PathBuf, command: String },
    #[error("{benchmark} has no part `{part}`; its parts are: {known}")]
    Part { benchmark: String, part: String, known: String },
    #[error(transparent)]
    Read(#[from] SampleFileError),
    #[error("{}", .messages.join("\n"))]
    Rows { messages: Vec<String> },
    #[error("{path} has {found} samples, but {benchmark} of round {round} has {expected}", path = path.display())]
    Count { path: PathBuf, found: u64, expected: String, round: String, benchmark: String },
    #[error("{}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

/// Why a file of samples cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SampleFileError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{}: it is empty", path.display())]
    Empty { path: PathBuf },
    /// `column` is what one of its values has wrong, where that is the error.
    #[error("{}: {source}{}", path.display(), ColumnError::json_hint(column.as_ref()))]
    Json { path: PathBuf, source: serde_json::Error, column: Option<ColumnError> },
    #[error("{}: {error}", path.display())]
    Parquet { path: PathBuf, error: ParquetFileError },
    #[error("{}: {error}", path.display())]
    Npy { path: PathBuf, error: ErrorText },
    #[error("{} has {rows} rows, and {} lengths of shape {shape:?}", ids.display(), lengths.display())]
    NpyLengths { ids: PathBuf, rows: usize, lengths: PathBuf, shape: Vec<usize> },
    #[error("{}: {error}", path.display())]
    NpyRows { path: PathBuf, error: NpyRowsError },
}

/// A column that holds another kind of value than its name announces.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    #[error("`{0}` is not a list of whole numbers")]
    NotIds(String),
    #[error("`{0}` is a list, but a text is expected")]
    NotText(String),
}

impl ColumnError {
    /// What to try with a JSON file: one that is laid out by columns has all values of a column in one list.
    fn json_hint(error: Option<&Self>) -> &'static str {
        match error {
            Some(Self::NotIds(_)) => "; is it laid out by columns? Write it with orient=\"records\"",
            _ => "",
        }
    }
}

/// Why a Parquet file gives no samples.
#[derive(Debug, thiserror::Error)]
pub enum ParquetFileError {
    #[cfg(feature = "parquet")]
    #[error("{source}{}", compression_hint(source))]
    Parquet {
        #[from]
        source: parquet::errors::ParquetError,
    },
    #[error("Parquet error: {0}")]
    Library(#[from] LibraryPanic),
    #[error(transparent)]
    LeftOut(#[from] FeatureLeftOut),
    #[error("Parquet error: {0}")]
    Column(#[from] ColumnError),
    #[error("Parquet error: `{column}` holds {value}")]
    Value { column: String, value: String },
}

/// The reader has one compression built in. Its message for another one is all that it has.
#[cfg(feature = "parquet")]
fn compression_hint(error: &parquet::errors::ParquetError) -> &'static str {
    let text = error.to_string();
    if text.contains("isabled feature at compile time") || text.contains("codec") {
        "; write it with compression=\"snappy\""
    } else {
        ""
    }
}

/// What is wrong with rows of ids that a `.npy` file holds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NpyRowsError {
    #[error("expected a matrix; its shape is {0:?}")]
    Dimensions(Vec<usize>),
    #[error("row {row} has length {length}, and rows have {columns} ids")]
    RowLength { row: usize, length: i64, columns: usize },
}
