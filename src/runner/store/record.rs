//! `records`: one sealed line for each finished task. What has a record is done; what has none is not.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::durable::{PathError, WithPath as _};
use super::folder_digest::OutputEntry;
use super::line_file::LineFile;
use super::parsed_records::RecordHistory;
use super::state_folder::RESUMED;
use super::{StateFolder, TaskKey};
use base::event::{Done, TaskId};
use base::files::{Digest, read_bytes};

/// A finished task: what it was made from, and where its output is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskRecord {
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
    pub(super) fn of(key: &TaskKey) -> serde_json::Result<Self> {
        Ok(Self(serde_json::to_string(key)?.into()))
    }
}

impl Serialize for KeyText {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            serde_json::from_str::<&RawValue>(&self.0).map_err(serde::ser::Error::custom)?.serialize(to)
        } else {
            to.serialize_str(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for KeyText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if from.is_human_readable() {
            Box::<RawValue>::deserialize(from).map(|text| Self(text.into()))
        } else {
            Box::<str>::deserialize(from).map(Self)
        }
    }
}

/// More entries than this are kept beside the folder, so that loading `records` stays cheap.
const INLINE: usize = 64;

impl TaskRecord {
    pub fn key_fields(&self) -> Option<TaskKey> {
        self.parsed_key().ok()
    }

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

    /// Puts long lists beside the folder, and that of a `-resume` folder always: it shows that the folder was accepted. Returns what goes
    /// into the line.
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
}

/// Reads `records`. A line with a wrong seal is left out: its task is simply not done. The second value is how many
/// bytes at the end are a torn line.
pub(super) fn read(home: &StateFolder) -> Result<(RecordHistory, u64), PathError> {
    let path = home.records();
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((RecordHistory::default(), 0)),
        Err(e) => return Err(e).at("read", &path),
    };
    let mut history = RecordHistory::load(home, &mut file).at("read", &path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).at("read", &path)?;
    let mut rest = &bytes[..];
    while let Some(end) = memchr::memchr(b'\n', rest) {
        let (line, tail) = rest.split_at(end + 1);
        rest = tail;
        let read = super::journal::unseal(&line[..end]).and_then(|json| serde_json::from_slice(json).ok());
        match read {
            Some(RecordLine::Record(record)) => history.push(line, Some(Arc::new(*record))),
            Some(RecordLine::Synced) => history.push_synced(line),
            None => history.push(line, None),
        }
    }
    let boot = boot();
    let synced = history.synced;
    // Above the last `synced` the boot does not matter any more.
    for record in history.records[..synced].iter_mut().filter(|record| record.boot != boot) {
        Arc::make_mut(record).boot = boot;
    }
    Ok((history, rest.len() as u64))
}

/// `records`, open for appending by the run that holds the lock.
#[derive(Debug)]
pub(super) struct RecordsFile(LineFile);

impl RecordsFile {
    /// A torn line at the end is cut off first.
    pub(super) fn open(path: &Path, torn: u64) -> Result<Self, PathError> {
        LineFile::open(path, torn).map(Self)
    }

    /// The line as it was written, with its end.
    pub(super) fn append(&mut self, line: &WrittenLine) -> Result<Vec<u8>, PathError> {
        let line = super::journal::seal(line).map_err(io::Error::other).at("write", self.0.path())?;
        self.0.append(&line)?;
        Ok(line)
    }

    /// To be synced without holding this one.
    pub(super) fn try_clone(&self) -> Result<File, PathError> {
        self.0.try_clone()
    }
}

/// Which boot of the machine this is.
pub(super) fn boot() -> Digest {
    static BOOT: std::sync::OnceLock<Digest> = std::sync::OnceLock::new();
    *BOOT.get_or_init(|| Digest::of(&read_bytes("/proc/sys/kernel/random/boot_id").unwrap_or_default()))
}
