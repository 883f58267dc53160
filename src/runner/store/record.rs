//! `records`: one sealed line for each finished task. What has a record is done; what has none is not.

use std::io;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::durable::{PathError, WithPath as _, bytes_if_there};
use super::folder_digest::OutputEntry;
use super::sealed::parallel_map;
use super::state_folder::RESUMED;
use super::{StateFolder, TaskKey};
use base::event::{Done, TaskId};
use base::files::{Digest, read_bytes};

/// Goes up when a program of the version before would misunderstand a record.
pub(super) const VERSION: u32 = 1;

/// A finished task: what it was made from, and where its output is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskRecord {
    /// See [`VERSION`]; 0 in records of older programs.
    #[serde(default)]
    pub(super) version: u32,
    /// The name of the manifest of the run that did the task; empty in records of older programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub manifest: String,
    pub task: TaskId,
    pub key: Digest,
    /// Name of the folder under `out/`.
    pub folder: String,
    /// Of the folder's content.
    pub digest: Digest,
    pub done: Done,
    pub seconds: f64,
    /// The run that made it.
    pub run: String,
    /// When it was finished: seconds since 1970, UTC; 0 in records of older programs.
    #[serde(default)]
    pub finished: i64,
    /// The shared store that it came from; `None`: it was made here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// A trusted key had signed its record there: another signature does not say more of it than that one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_signed: bool,
    /// The project's folder when it was made, if the output names it and the key does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The boot of the machine that wrote it: see "What survives what".
    pub boot: Digest,
    /// What is in the folder. Empty when there is more than a line should hold: then it is in `out/<folder>.files`.
    pub(super) entries: Vec<OutputEntry>,
    /// The key, parsed only when an explanation needs it.
    pub(super) fields: KeyText,
}

/// A [`TaskKey`] as JSON.
#[derive(Clone, Debug)]
pub(super) struct KeyText(Box<str>);

impl KeyText {
    pub(super) fn new(key: &TaskKey) -> serde_json::Result<Self> {
        Ok(Self(serde_json::to_string(key)?.into()))
    }
}

impl Serialize for KeyText {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(&self.0).map_err(serde::ser::Error::custom)?.serialize(to)
    }
}

impl<'de> Deserialize<'de> for KeyText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(from).map(|text| Self(text.into()))
    }
}

/// More entries than this are kept beside the folder, so that loading `records` stays cheap.
const INLINE: usize = 64;

impl TaskRecord {
    /// # Errors
    /// Another version of this program wrote it.
    pub fn parsed_key(&self) -> serde_json::Result<TaskKey> {
        serde_json::from_str(&self.fields.0)
    }

    /// Whether one of these files may be in its folder; a long list is not read for that.
    pub fn may_hold(&self, names: &[&str]) -> bool {
        let is_one = |entry: &OutputEntry| names.iter().any(|name| entry.path.as_os_str() == *name);
        self.entries.is_empty() || self.entries.iter().any(is_one)
    }

    pub(super) fn entries(&self, home: &StateFolder) -> Result<std::borrow::Cow<'_, [OutputEntry]>, PathError> {
        if !self.entries.is_empty() {
            return Ok(std::borrow::Cow::Borrowed(&self.entries));
        }
        let path = home.output_files(&self.folder);
        let bytes = read_bytes(&path).at("read", &path)?;
        let entries = postcard::from_bytes(&bytes).map_err(io::Error::other).at("read", &path)?;
        Ok(std::borrow::Cow::Owned(entries))
    }

    /// Puts long lists beside the folder, and that of a `-resume` folder always: it shows that the folder was accepted.
    /// Returns what goes into the line.
    pub(super) fn externalize_entries(
        home: &StateFolder,
        folder: &str,
        entries: Vec<OutputEntry>,
    ) -> Result<Vec<OutputEntry>, PathError> {
        if entries.len() <= INLINE && !folder.ends_with(RESUMED) {
            return Ok(entries);
        }
        let path = home.output_files(folder);
        let bytes = postcard::to_stdvec(&entries).map_err(io::Error::other).at("write", &path)?;
        super::durable::replace(&path, &bytes)?;
        Ok(Vec::new())
    }
}

/// A line of `records`, to be written.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WrittenLine<'a> {
    Record(&'a TaskRecord),
    Synced,
}

/// A line of `records`, as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RecordLine {
    Record(Box<TaskRecord>),
    /// Everything above was synced to disk.
    Synced,
    /// A newer program wrote this.
    #[serde(skip)]
    Newer(String),
}

impl RecordLine {
    /// `None` for a line with a wrong seal.
    fn parse(line: &[u8]) -> Option<Self> {
        let json = super::journal::unseal(line)?;
        Some(match serde_json::from_slice(json) {
            Ok(read) if !matches!(&read, Self::Record(record) if record.version > VERSION) => read,
            _ => Self::Newer(String::from_utf8(line.to_vec()).ok()?),
        })
    }
}

/// The records of a whole number of lines, in their order.
#[derive(Debug, Default)]
pub(super) struct RecordHistory {
    pub records: Vec<Arc<TaskRecord>>,
    /// This many of them are above the last line that says they were synced.
    pub synced: usize,
    /// Lines of a newer program, which are kept as they are.
    pub newer: Vec<String>,
}

impl RecordHistory {
    /// The folders that lines of a newer program name, wherever in them: they are not this program's to remove.
    pub(super) fn newer_folders(&self) -> impl Iterator<Item = &str> {
        let values = self.newer.iter().flat_map(|line| line.split("\"folder\":\"").skip(1));
        values.filter_map(|rest| rest.split('"').next())
    }
}

/// Reads `records`. A line with a wrong seal is left out: its task is simply not done. The second value is how many
/// bytes at the end are a torn line.
pub(super) fn read(home: &StateFolder) -> Result<(RecordHistory, u64), PathError> {
    /// Lines that one thread parses, at least.
    const LINES: usize = 64;
    let path = home.records();
    let Some(bytes) = bytes_if_there(&path)? else { return Ok((RecordHistory::default(), 0)) };
    let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |end| end + 1);
    let lines: Vec<&[u8]> = bytes[..whole].split_inclusive(|byte| *byte == b'\n').collect();
    let mut history = RecordHistory::default();
    for line in parallel_map(&lines, LINES, |line| RecordLine::parse(&line[..line.len() - 1])) {
        match line {
            Some(RecordLine::Record(record)) => history.records.push(Arc::new(*record)),
            Some(RecordLine::Synced) => history.synced = history.records.len(),
            Some(RecordLine::Newer(line)) => history.newer.push(line),
            None => {}
        }
    }
    let boot = boot();
    let synced = history.synced;
    // Above the last `synced` the boot does not matter any more.
    for record in history.records[..synced].iter_mut().filter(|record| record.boot != boot) {
        Arc::make_mut(record).boot = boot;
    }
    Ok((history, (bytes.len() - whole) as u64))
}

/// Which boot of the machine this is.
pub(super) fn boot() -> Digest {
    static BOOT: std::sync::OnceLock<Digest> = std::sync::OnceLock::new();
    *BOOT.get_or_init(|| Digest::hash(&read_bytes("/proc/sys/kernel/random/boot_id").unwrap_or_default()))
}
