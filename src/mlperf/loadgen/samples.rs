//! `dataset.jsonl`: one sample a line, in the order of LoadGen's indices.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use base::files::open_regular;
use harness::ExternalSample;

/// Why the samples cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SamplesError {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// Lines count from 1.
    #[error("{}: line {line}: {source}", path.display())]
    Line { path: PathBuf, line: usize, source: serde_json::Error },
    #[error("{}: line {line}: a sample without `input_ids`", path.display())]
    NoIds { path: PathBuf, line: usize },
    #[error("{}: it has no samples", path.display())]
    Empty { path: PathBuf },
}

#[derive(Deserialize)]
struct Line {
    input_ids: Vec<i32>,
    /// Of made-up samples: where a model would end its answer.
    #[serde(default)]
    output_tokens: Option<u32>,
    #[serde(default)]
    reference: String,
}

impl Line {
    /// The most tokens in its answer. Real models end their answers themselves; for synthetic samples the reference sets the
    /// length: it has a word for each token.
    fn output_len(&self, most: u32, is_synthetic: bool) -> u32 {
        let words = || self.reference.split_whitespace().count() as u32;
        let wanted = self.output_tokens.or_else(|| is_synthetic.then(words).filter(|words| *words > 0));
        // LoadGen cannot count an answer of one token.
        wanted.unwrap_or(most).clamp(2, most.max(2))
    }
}

/// Reads all samples; answers have at most `most` tokens.
pub fn read(path: &Path, most: u32, is_synthetic: bool) -> Result<Vec<ExternalSample>, SamplesError> {
    let own = || path.to_owned();
    let unreadable = |source| SamplesError::Read { path: own(), source };
    let (file, _) = open_regular(path).map_err(unreadable)?;
    let mut samples = Vec::new();
    for (line, text) in (1..).zip(BufReader::with_capacity(1 << 20, file).lines()) {
        let text = text.map_err(unreadable)?;
        let sample: Line =
            serde_json::from_str(&text).map_err(|source| SamplesError::Line { path: own(), line, source })?;
        if sample.input_ids.is_empty() {
            return Err(SamplesError::NoIds { path: own(), line });
        }
        let output_len = sample.output_len(most, is_synthetic);
        samples.push(ExternalSample { prompt: sample.input_ids.into(), output_len });
    }
    if samples.is_empty() { Err(SamplesError::Empty { path: own() }) } else { Ok(samples) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_and_mistakes_have_their_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dataset.jsonl");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read(&path, 1024, true)
        };
        let good = read("{\"input_ids\":[5,6],\"output_tokens\":1}\n{\"id\":1,\"input_ids\":[7],\"reference\":\"a b c\"}\n{\"input_ids\":[8]}\n").unwrap();
        assert_eq!(
            good.iter().map(|s| (s.prompt.to_vec(), s.output_len)).collect::<Vec<_>>(),
            [(vec![5, 6], 2), (vec![7], 3), (vec![8], 1024)]
        );
        assert!(
            read("{\"input_ids\":[5]}\n{}\n").unwrap_err().to_string().contains("line 2: missing field `input_ids`")
        );
        assert!(read("{\"input_ids\":[]}\n").unwrap_err().to_string().contains("line 1: a sample without"));
        assert!(read("").unwrap_err().to_string().contains("no samples"));
    }
}
