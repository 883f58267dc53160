//! `dataset.jsonl`: one sample a line, in the order of LoadGen's indices.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use serde::Deserialize;

use crate::harness::ExternalSample;

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
pub fn read(path: &Path, most: u32, is_synthetic: bool) -> Result<Vec<ExternalSample>, String> {
    let told = |what: String| format!("{}: {what}", path.display());
    let file = File::open(path).map_err(|error| told(error.to_string()))?;
    let mut samples = Vec::new();
    for (number, line) in (1..).zip(BufReader::with_capacity(1 << 20, file).lines()) {
        let line = line.map_err(|error| told(error.to_string()))?;
        let line: Line = serde_json::from_str(&line).map_err(|error| told(format!("line {number}: {error}")))?;
        if line.input_ids.is_empty() {
            return Err(told(format!("line {number}: a sample without `input_ids`")));
        }
        let output_len = line.output_len(most, is_synthetic);
        samples.push(ExternalSample { prompt: line.input_ids.into(), output_len });
    }
    if samples.is_empty() { Err(told("it has no samples".to_owned())) } else { Ok(samples) }
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
        assert!(read("{\"input_ids\":[5]}\n{}\n").unwrap_err().contains("line 2: missing field `input_ids`"));
        assert!(read("{\"input_ids\":[]}\n").unwrap_err().contains("line 1: a sample without"));
        assert!(read("").unwrap_err().contains("no samples"));
    }
}
