//! `mlperf_log_detail.txt`: one JSON object a line, behind `:::MLLOG`.

use std::collections::BTreeMap;
use std::io::{BufRead, Read as _};

use serde::Deserialize;
use serde_json::Value;

use super::super::Seeds;

const MARK: &str = ":::MLLOG";
/// LoadGen may log an error for every sample; a few say what there is to say.
const SHOWN: usize = 20;
/// No line of LoadGen's is longer; a broken file may be one long line.
const LONGEST_LINE: u64 = 64 << 20;

/// The detail log, folded: of each key the last value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Detail {
    values: BTreeMap<String, Value>,
    /// How many errors LoadGen logged, as counted here: `num_errors` is only written by runs that end.
    pub errors: u64,
    pub warnings: u64,
    /// The first errors.
    pub first_errors: Vec<String>,
    /// Numbers of lines that could not be read, counted from 1; the first of them.
    pub unread: Vec<usize>,
}

/// A file that is none of LoadGen's.
#[derive(Debug, thiserror::Error)]
pub enum DetailError {
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    #[error("holds no line of LoadGen's (they begin with `:::MLLOG`)")]
    Empty,
    #[error("line {0} is longer than any of LoadGen's")]
    Long(usize),
}

#[derive(Deserialize)]
struct Entry {
    key: String,
    value: Value,
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
    /// Reads line by line.
    pub fn read(mut from: impl BufRead) -> Result<Self, DetailError> {
        let mut detail = Self::default();
        let mut line = Vec::new();
        let mut any = false;
        for number in 1.. {
            line.clear();
            if from.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            if line.len() as u64 == LONGEST_LINE {
                return Err(DetailError::Long(number));
            }
            let text = String::from_utf8_lossy(&line);
            let Some(json) = text.trim().strip_prefix(MARK) else {
                if !text.trim().is_empty() {
                    detail.not_read(number);
                }
                continue;
            };
            any = true;
            match entry(json.trim()) {
                Some(entry) => detail.add(entry),
                None => detail.not_read(number),
            }
        }
        if any { Ok(detail) } else { Err(DetailError::Empty) }
    }

    fn add(&mut self, entry: Entry) {
        if entry.metadata.is_error {
            self.errors += 1;
            if self.first_errors.len() < SHOWN {
                let value = entry.value.as_str().map_or_else(|| entry.value.to_string(), str::to_owned);
                self.first_errors.push(format!("{}: {}", entry.key, value.trim()));
            }
        }
        self.warnings += u64::from(entry.metadata.is_warning);
        self.values.insert(entry.key, entry.value);
    }

    fn not_read(&mut self, line: usize) {
        if self.unread.len() < SHOWN {
            self.unread.push(line);
        }
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    pub fn count(&self, key: &str) -> Option<u64> {
        self.get(key)?.as_u64()
    }

    pub fn number(&self, key: &str) -> Option<f64> {
        self.get(key)?.as_f64()
    }

    pub fn flag(&self, key: &str) -> Option<bool> {
        self.get(key)?.as_bool()
    }

    /// Errors by LoadGen's own count, or ours, whichever is more.
    pub fn all_errors(&self) -> u64 {
        self.errors.max(self.count("num_errors").unwrap_or(0))
    }

    /// `VALID`, `INVALID`; None in accuracy mode, and of runs that were cut off.
    pub fn result(&self) -> Option<&str> {
        self.text("result_validity")
    }

    /// `6.0.17`, without the revision behind it.
    pub fn loadgen_version(&self) -> Option<&str> {
        self.text("loadgen_version")?.split_whitespace().next()
    }

    /// The seeds that were in force.
    pub fn seeds(&self) -> Option<Seeds> {
        Some(Seeds {
            qsl: self.count("effective_qsl_rng_seed")?,
            sample_index: self.count("effective_sample_index_rng_seed")?,
            schedule: self.count("effective_schedule_rng_seed")?,
        })
    }
}

/// LoadGen writes numbers as C++ prints them: what is no number is no JSON either.
fn entry(json: &str) -> Option<Entry> {
    serde_json::from_str(json).ok().or_else(|| {
        let (before, rest) = json.split_once("\"value\": ")?;
        let (value, after) = rest.split_once(',')?;
        let is_none = matches!(value.trim().trim_start_matches('-'), "nan" | "inf");
        is_none.then(|| serde_json::from_str(&format!("{before}\"value\": null,{after}")).ok())?
    })
}
