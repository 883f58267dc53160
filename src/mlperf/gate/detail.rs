//! A `mlperf_log_detail.txt` as the gate reads it: every key with its values, and every line that LoadGen marked as an error.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

const MARK: &str = ":::MLLOG";

/// What one run logged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Detail {
    values: BTreeMap<String, Vec<Value>>,
    /// Texts of errors, in their order, each once with how often it came.
    pub errors: Vec<(String, u64)>,
    pub warnings: u64,
    /// Lines that are no log lines: their numbers, counted from 1.
    pub unreadable: Vec<usize>,
}

#[derive(Deserialize)]
struct Line {
    key: String,
    value: Value,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    is_warning: bool,
}

impl Detail {
    pub(crate) fn read(path: &Path) -> std::io::Result<Self> {
        let mut detail = Self::default();
        let mut reader = BufReader::new(File::open(path)?);
        let mut bytes = Vec::new();
        let mut number = 0;
        while reader.read_until(b'\n', &mut bytes)? > 0 {
            number += 1;
            let line = String::from_utf8_lossy(&bytes);
            let line = line.trim_end();
            if !line.is_empty() {
                match line.strip_prefix(MARK).and_then(|json| serde_json::from_str::<Line>(json).ok()) {
                    Some(line) => detail.take(line),
                    None => detail.unreadable.push(number),
                }
            }
            bytes.clear();
        }
        Ok(detail)
    }

    fn take(&mut self, line: Line) {
        if line.metadata.is_error {
            let text = match &line.value {
                Value::String(text) => text.clone(),
                other => format!("{}: {other}", line.key),
            };
            match self.errors.iter_mut().find(|(known, _)| *known == text) {
                Some((_, times)) => *times += 1,
                None => self.errors.push((text, 1)),
            }
        }
        self.warnings += u64::from(line.metadata.is_warning);
        self.values.entry(line.key).or_default().push(line.value);
    }

    /// The first value of a key, as the official checker takes it.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)?.first()
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        self.get(key)?.as_f64()
    }

    pub(crate) fn whole(&self, key: &str) -> Option<u64> {
        self.get(key)?.as_u64()
    }

    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        match self.get(key)? {
            Value::Bool(flag) => Some(*flag),
            Value::Number(number) => number.as_u64().map(|n| n != 0),
            _ => None,
        }
    }

    /// Keys that say what was asked for or was in force, with their values: what two runs can be compared by.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values
            .iter()
            .filter(|(key, _)| key.starts_with("effective_") || key.starts_with("requested_"))
            .filter_map(|(key, values)| Some((key.as_str(), values.first()?)))
    }

    /// How many errors LoadGen counted, or how many lines say so: the larger one.
    pub(crate) fn error_count(&self) -> u64 {
        let lines = self.errors.iter().map(|(_, times)| times).sum::<u64>();
        lines.max(self.whole("num_errors").unwrap_or(0))
    }

    /// `6.0.17` of `6.0.17 @ d6147c7eb7`.
    pub(crate) fn version(&self) -> Option<&str> {
        self.text("loadgen_version")?.split_whitespace().next()
    }
}
