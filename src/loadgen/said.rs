//! What LoadGen said in its detail log: lines of `:::MLLOG {…}`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use serde_json::Value;

/// Everything of a finished test that is judged.
#[derive(Debug, Default)]
pub struct Said {
    /// Key → its last value.
    values: BTreeMap<String, Value>,
    /// Of `result_invalid_reason` and its like.
    pub why: Vec<String>,
    /// The first errors, as `key: value`.
    pub first_errors: Vec<String>,
    errors_seen: u64,
}

const SHOWN: usize = 5;

impl Said {
    pub fn read(out: &Path) -> Result<Self, String> {
        let path = out.join("mlperf_log_detail.txt");
        let told = |what: String| format!("{}: {what}", path.display());
        let file = File::open(&path).map_err(|error| told(error.to_string()))?;
        let mut said = Self::default();
        for line in BufReader::new(file).lines() {
            said.take(&line.map_err(|error| told(error.to_string()))?);
        }
        Ok(said)
    }

    fn take(&mut self, line: &str) {
        let Some(record) = line.strip_prefix(":::MLLOG ") else { return };
        let Ok(record) = serde_json::from_str::<Value>(record) else { return };
        let (Some(key), Some(value)) = (record["key"].as_str(), record.get("value")) else { return };
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let is_error = record["metadata"]["is_error"].as_bool().unwrap_or(false) || key.starts_with("error_");
        if is_error {
            self.errors_seen += 1;
            if self.first_errors.len() < SHOWN {
                self.first_errors.push(format!("{key}: {text}"));
            }
        }
        let is_missed = key.starts_with("early_stopping") && key.ends_with("result") && text.contains("unsuccessful");
        if key == "result_invalid_reason" || is_missed {
            self.why.extend(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned));
        }
        self.values.insert(key.to_owned(), value.clone());
    }

    pub fn number(&self, key: &str) -> Option<f64> {
        let value = self.values.get(key)?;
        value.as_f64().or_else(|| value.as_str()?.parse().ok())
    }

    /// `VALID` or `INVALID`; None in accuracy mode.
    pub fn result(&self) -> Option<String> {
        self.values.get("result_validity")?.as_str().map(str::to_owned)
    }

    pub fn errors(&self) -> u64 {
        self.number("num_errors").map_or(self.errors_seen, |errors| errors as u64).max(self.errors_seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_counts_and_errors_are_quoted() {
        let mut said = Said::default();
        for line in [
            r#":::MLLOG {"key": "result_validity", "value": "INVALID", "metadata": {"is_error": false, "is_warning": false}}"#,
            r#":::MLLOG {"key": "result_invalid_reason", "value": "Reduce target QPS.\nAgain.", "metadata": {"is_error": false}}"#,
            r#":::MLLOG {"key": "error_runtime", "value": "n_tokens argument missing", "metadata": {"is_error": true}}"#,
            r#":::MLLOG {"key": "result_samples_per_second", "value": 12.5, "metadata": {"is_error": false}}"#,
            "something else",
        ] {
            said.take(line);
        }
        assert_eq!(said.result().as_deref(), Some("INVALID"));
        assert_eq!(said.why, ["Reduce target QPS.", "Again."]);
        assert_eq!(said.first_errors, ["error_runtime: n_tokens argument missing"]);
        assert_eq!((said.number("result_samples_per_second"), said.errors()), (Some(12.5), 1));
    }
}
