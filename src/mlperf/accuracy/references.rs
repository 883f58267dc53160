//! What was expected: the references of a data set, in the order of its samples.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

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

/// Reads `dataset.jsonl`; its token ids are passed over. Err: with the line.
pub(super) fn read(file: &Path) -> Result<Vec<ReferenceAnswer>, String> {
    let opened = File::open(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut reader = BufReader::with_capacity(1 << 20, opened);
    let mut references = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        let place = || format!("{}:{}", file.display(), references.len() + 1);
        if reader.read_until(b'\n', &mut line).map_err(|error| format!("{}: {error}", place()))? == 0 {
            return Ok(references);
        }
        let reference = serde_json::from_slice(&line).map_err(|error| format!("{}: {error}", place()))?;
        references.push(reference);
    }
}
