//! What was expected: the references of a data set, in the order of its samples.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// One sample's reference.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ReferenceAnswer {
    /// None: the form that the data set came in has none.
    #[serde(default)]
    pub reference: Option<String>,
    /// The part of the data set: `GSM8K`, `niah_em`, `gpqa`.
    #[serde(default)]
    pub task: String,
}

/// Why the references cannot be used. Lines count from 1.
#[derive(Debug, thiserror::Error)]
pub enum ReferencesError {
    #[error("{}: {source}", path.display())]
    Open { path: PathBuf, source: std::io::Error },
    #[error("{}:{line}: {source}", path.display())]
    Read { path: PathBuf, line: usize, source: std::io::Error },
    #[error("{}:{line}: {source}", path.display())]
    Json { path: PathBuf, line: usize, source: serde_json::Error },
}

/// Reads `dataset.jsonl`; its token ids are passed over. Err: with the line.
pub(super) fn read(file: &Path) -> Result<Vec<ReferenceAnswer>, ReferencesError> {
    let opened = File::open(file).map_err(|source| ReferencesError::Open { path: file.to_owned(), source })?;
    let mut reader = BufReader::with_capacity(1 << 20, opened);
    let mut references = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        let (path, number) = (file, references.len() + 1);
        let unreadable = |source| ReferencesError::Read { path: path.to_owned(), line: number, source };
        if reader.read_until(b'\n', &mut line).map_err(unreadable)? == 0 {
            return Ok(references);
        }
        let invalid = |source| ReferencesError::Json { path: path.to_owned(), line: number, source };
        let reference = serde_json::from_slice(&line).map_err(invalid)?;
        references.push(reference);
    }
}
