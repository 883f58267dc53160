//! `mlperf_log_detail.txt`: one JSON object a line, behind `:::MLLOG`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;
use std::fmt;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::DETAIL_FILE;
use base::files::open_regular;

const MARK: &str = ":::MLLOG";
/// LoadGen may log an error for every sample; a few are enough.
const SHOWN: usize = 20;
/// How LoadGen's logger warns that it had to wait or to allocate memory: in one of seven published results.
const OF_LOGGER: [&str; 2] = ["Logging allocation detected", "CAS failed"];
/// No line of LoadGen's is longer; a broken file may be one long line.
const LONGEST_LINE: u64 = 64 << 20;

/// The detail log, folded: of each key the first value, which is the one that the official checker takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Detail {
    values: BTreeMap<String, Value>,
    /// How many errors LoadGen logged, as counted here: `num_errors` is only written by runs that end.
    pub errors: u64,
    /// LoadGen's first warning, except those of its logger about itself.
    pub first_warning: Option<String>,
    /// Errors that differ, the first of them.
    pub first_errors: Vec<LoggedError>,
    /// Keys that LoadGen writes once and this log has with several values: the first that is not the one taken. A file
    /// with two runs has many.
    pub contradictions: BTreeMap<String, Value>,
    /// When the last line was written, milliseconds after the first by LoadGen's clock.
    pub last_ms: Option<f64>,
    /// The first line that another process wrote, or that is older than the one before: the log is of several runs.
    pub spliced_at: Option<usize>,
    /// None: no line names a process; LoadGen writes it in each.
    pub process: Option<u64>,
    /// Lines that could not be read.
    pub unread: u64,
    /// Numbers of the first of these, counted from 1.
    pub first_unread: Vec<usize>,
}

/// An error as LoadGen logged it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedError {
    pub key: String,
    pub text: String,
    /// How often it was logged.
    pub times: u64,
}

impl fmt::Display for LoggedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.text)
    }
}

/// Why a file is not a detail log of LoadGen's.
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
    time_ms: Option<f64>,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    is_error: bool,
    is_warning: bool,
    pid: Option<u64>,
}

impl Detail {
    /// Reads that of a run, in the folder that the run filled.
    pub fn read_folder(folder: &Path) -> Result<Self, DetailError> {
        Self::read(BufReader::new(open_regular(&folder.join(DETAIL_FILE))?.0))
    }

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
                    detail.count_unread(number);
                }
                continue;
            };
            any = true;
            match entry(json.trim()) {
                Some(entry) => detail.add(entry, number),
                None => detail.count_unread(number),
            }
        }
        if any { Ok(detail) } else { Err(DetailError::Empty) }
    }

    fn add(&mut self, entry: Entry, line: usize) {
        // Threads log a little out of order.
        let is_older = entry.time_ms.zip(self.last_ms).is_some_and(|(now, before)| now + 1000.0 < before);
        let is_foreign = entry.metadata.pid.is_some_and(|pid| *self.process.get_or_insert(pid) != pid);
        self.spliced_at = self.spliced_at.or((is_older || is_foreign).then_some(line));
        self.last_ms = entry.time_ms.or(self.last_ms);
        if entry.metadata.is_error {
            self.errors += 1;
            self.error(&entry);
        }
        let text = entry.value.as_str().unwrap_or_default().trim();
        if entry.metadata.is_warning && !OF_LOGGER.iter().any(|of_logger| text.starts_with(of_logger)) {
            self.first_warning.get_or_insert_with(|| text.to_owned());
        }
        match self.values.entry(entry.key) {
            MapEntry::Vacant(place) => drop(place.insert(entry.value)),
            MapEntry::Occupied(known) if *known.get() != entry.value && !may_come_again(known.key()) => {
                self.contradictions.entry(known.key().clone()).or_insert(entry.value);
            }
            MapEntry::Occupied(_) => {}
        }
    }

    fn error(&mut self, entry: &Entry) {
        let text = entry.value.as_str().map_or_else(|| entry.value.to_string(), |text| text.trim().to_owned());
        let is_known = |known: &&mut LoggedError| known.key == entry.key && known.text == text;
        if let Some(known) = self.first_errors.iter_mut().find(is_known) {
            known.times += 1;
        } else if self.first_errors.len() < SHOWN {
            self.first_errors.push(LoggedError { key: entry.key.clone(), text, times: 1 });
        }
    }

    fn count_unread(&mut self, line: usize) {
        self.unread += 1;
        if self.first_unread.len() < SHOWN {
            self.first_unread.push(line);
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

    /// `true`, `false`, or a number that stands for one of them.
    pub fn flag(&self, key: &str) -> Option<bool> {
        let value = self.get(key)?;
        value.as_bool().or_else(|| value.as_u64().map(|number| number != 0))
    }

    /// Keys of requested and effective settings, with their values: what two runs can be compared by.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &Value)> {
        let is_setting = |key: &str| key.starts_with("effective_") || key.starts_with("requested_");
        self.values.iter().filter(move |(key, _)| is_setting(key)).map(|(key, value)| (key.as_str(), value))
    }

    /// Of a LoadGen before 5.0, which logs less.
    pub fn is_of_version_4(&self) -> bool {
        self.loadgen_version().is_some_and(|version| version.starts_with("4."))
    }

    /// Errors by LoadGen's own count, or Regatta's, whichever is more.
    pub fn all_errors(&self) -> u64 {
        self.errors.max(self.count("num_errors").unwrap_or(0))
    }

    /// LoadGen's reasons for an INVALID result, one by one.
    pub fn invalid_reasons(&self) -> Vec<String> {
        let missed = ["early_stopping_result", "early_stopping_ttft_result", "early_stopping_tpot_result"]
            .into_iter()
            .filter_map(|key| self.text(key))
            .filter(|text| text.contains("unsuccessful"));
        let chain = self.text("result_invalid_reason").into_iter().chain(missed);
        // It joins what it lists by ` * `; in its logs no line ends inside a value.
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        chain.flat_map(|text| text.split(" * ")).map(plain).filter(|one| !one.is_empty()).collect()
    }

    /// `VALID`, `INVALID`; None in accuracy mode, and of runs that were cut off.
    pub fn result(&self) -> Option<&str> {
        self.text("result_validity")
    }

    /// `6.0.17`, without the revision behind it.
    pub fn loadgen_version(&self) -> Option<&str> {
        self.text("loadgen_version")?.split_whitespace().next()
    }
}

/// LoadGen writes texts for readers, warnings and errors as often as it has one, and each set of samples that it loads:
/// an accuracy run goes through the data set in several.
fn may_come_again(key: &str) -> bool {
    key == "loaded_qsl_set"
        || key.ends_with("generic_message")
        || key.starts_with("warning_")
        || key.starts_with("error_")
}

/// LoadGen writes numbers as C++ prints them, so `nan` and `inf` are not valid JSON.
fn entry(json: &str) -> Option<Entry> {
    serde_json::from_str(json).ok().or_else(|| {
        let (before, rest) = json.split_once("\"value\": ")?;
        let (value, after) = rest.split_once(',')?;
        let is_none = matches!(value.trim().trim_start_matches('-'), "nan" | "inf");
        is_none.then(|| serde_json::from_str(&format!("{before}\"value\": null,{after}")).ok())?
    })
}
