//! What a long prefix of `records` says, kept parsed beside it: 10,000 JSON lines take longer to read than to compare.
//!
//! Only a cache: it names the bytes that it was made from by their digest, and lines after them are read as ever.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::folder_digest::OutputEntry;
use super::record::{KeyText, TaskRecord};
use super::{StateFolder, sealed};
use base::event::{Done, MovingSource, TaskId};
use base::files::Digest;

/// Fewer lines are read faster than looked up.
const WORTH_IT: usize = 500;

/// Goes up with the fields of [`ParsedRecord`], or with what is in them: other programs' are not taken for it.
const FORMAT: u8 = 3;

/// What is known of the first `length` bytes beside their records.
#[derive(Serialize, Deserialize)]
struct ParsedPrefix {
    length: u64,
    /// Of these bytes and [`FORMAT`].
    digest: Digest,
    /// This many records are above the last line that says they were synced.
    synced: usize,
}

/// The records of a whole number of lines, in their order, and what these lines are.
#[derive(Debug, Default)]
pub(super) struct RecordHistory {
    pub records: Vec<Arc<TaskRecord>>,
    /// This many of them are above the last line that says they were synced.
    pub synced: usize,
    /// Bytes.
    pub length: u64,
    /// Of these bytes.
    hasher: blake3::Hasher,
    /// This many of the records are kept parsed already.
    kept: usize,
}

/// The fields of a [`TaskRecord`], all of them, in a form that needs no names.
#[derive(Serialize, Deserialize)]
struct ParsedRecord {
    manifest: String,
    task: TaskId,
    key: Digest,
    folder: String,
    digest: Digest,
    headline: Option<String>,
    below: Vec<(String, String)>,
    warnings: Vec<String>,
    source: Option<Box<MovingSource>>,
    seconds: f64,
    run: String,
    finished: i64,
    from: Option<String>,
    place: Option<String>,
    boot: Digest,
    entries: Vec<OutputEntry>,
    fields: KeyText,
}

fn path(home: &StateFolder) -> PathBuf {
    home.records().with_extension("parsed")
}

impl RecordHistory {
    /// What is known of the beginning of `records`, and where that ends in the file; nothing, if it begins with other bytes: then
    /// the file is at its beginning.
    pub(super) fn load(home: &StateFolder, records: &mut File) -> io::Result<Self> {
        let known = Self::of_prefix(home, records)?;
        if known.is_none() {
            records.rewind()?;
        }
        Ok(known.unwrap_or_default())
    }

    /// Reads the prefix without keeping it: it is several times as large as what is known of it.
    fn of_prefix(home: &StateFolder, file: &mut File) -> io::Result<Option<Self>> {
        if file.metadata()?.len() == 0 {
            return Ok(None);
        }
        let record = |parsed: ParsedRecord| Arc::new(parsed.into_record());
        let Some((ParsedPrefix { length, digest, synced }, records)) = sealed::read_list(&path(home), record) else {
            return Ok(None);
        };
        let mut hasher = blake3::Hasher::new();
        let read = io::copy(&mut file.take(length), &mut hasher)?;
        if read != length || digest_of_prefix(&hasher) != digest || synced > records.len() {
            return Ok(None);
        }
        Ok(Some(Self { kept: records.len(), records, synced, length, hasher }))
    }

    /// A line, with its end, and the record in it.
    pub(super) fn push(&mut self, line: &[u8], record: Option<Arc<TaskRecord>>) {
        self.hasher.update(line);
        self.length += line.len() as u64;
        self.records.extend(record);
    }

    /// Everything up to here was synced.
    pub(super) fn push_synced(&mut self, line: &[u8]) {
        self.push(line, None);
        self.synced = self.records.len();
    }

    /// Keeps it, if that is much more than what is kept already. A cache that cannot be written is left out.
    pub(super) fn keep(&mut self, home: &StateFolder) {
        if self.records.len() < WORTH_IT || self.records.len() - self.kept < self.records.len() / 8 {
            return;
        }
        let digest = digest_of_prefix(&self.hasher);
        let prefix = ParsedPrefix { length: self.length, digest, synced: self.synced };
        // One at a time: together they are as large as what they are copied from.
        let records = self.records.iter().map(|record| ParsedRecord::of(record));
        if sealed::write_list(&path(home), &prefix, records).is_ok() {
            self.kept = self.records.len();
        }
    }
}

/// `bytes`: has read them.
fn digest_of_prefix(bytes: &blake3::Hasher) -> Digest {
    Digest::from_bytes(*bytes.clone().update(&[FORMAT]).finalize().as_bytes())
}

impl ParsedRecord {
    fn of(record: &TaskRecord) -> Self {
        let TaskRecord {
            manifest,
            task,
            key,
            folder,
            digest,
            done: Done { headline, below, warnings, source },
            seconds,
            run,
            finished,
            from,
            place,
            boot,
            entries,
            fields,
        } = record.clone();
        Self {
            manifest,
            task,
            key,
            folder,
            digest,
            headline,
            below,
            warnings,
            source,
            seconds,
            run,
            finished,
            from,
            place,
            boot,
            entries,
            fields,
        }
    }

    fn into_record(self) -> TaskRecord {
        TaskRecord {
            manifest: self.manifest,
            task: self.task,
            key: self.key,
            folder: self.folder,
            digest: self.digest,
            done: Done { headline: self.headline, below: self.below, warnings: self.warnings, source: self.source },
            seconds: self.seconds,
            run: self.run,
            finished: self.finished,
            from: self.from,
            place: self.place,
            boot: self.boot,
            entries: self.entries,
            fields: self.fields,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::record;
    use super::*;
    use crate::store::{FinishedOutput, OutputCache, TaskKey, list_folder};
    use base::event::RunId;

    fn key(n: usize) -> TaskKey {
        TaskKey::of_action(format!("{{\"shell\":\"echo {n}\"}}"))
    }

    /// Accepts these outputs, and ends like a run.
    fn run(home: &StateFolder, tasks: std::ops::Range<usize>) {
        let cache = OutputCache::open(home).unwrap();
        cache.begin().unwrap();
        for n in tasks {
            let (task, key) = (TaskId::new(format!("t{n}")), key(n));
            let folder = cache.new_folder(&task, &key.digest(), None).unwrap();
            fs::write(folder.join("out"), n.to_string()).unwrap();
            let sealed = list_folder(&folder).unwrap().seal().unwrap();
            let done = Done { headline: Some(format!("{n}")), ..Done::default() };
            let output = FinishedOutput { folder, sealed, done, seconds: 0.5, from: None };
            cache.accept(&RunId::new("r"), "m", &task, &key, output).unwrap();
        }
        cache.sync().unwrap();
        cache.keep_parsed();
    }

    fn read(home: &StateFolder) -> (Vec<String>, usize, u64) {
        let (history, torn) = record::read(home).unwrap();
        let records = history.records.iter().map(|record| serde_json::to_string(&**record).unwrap()).collect();
        (records, history.kept, torn)
    }

    #[test]
    fn what_is_kept_parsed_is_what_the_lines_say_and_other_bytes_are_read_anew() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().into(), folder.path().join(".regatta"));
        fs::create_dir_all(home.outputs()).unwrap();
        run(&home, 0..WORTH_IT);
        run(&home, WORTH_IT..WORTH_IT + 3);
        let with = read(&home);
        assert_eq!((with.0.len(), with.1), (WORTH_IT + 3, WORTH_IT));
        let lines = fs::read(home.records()).unwrap();
        fs::remove_file(path(&home)).unwrap();
        let without = read(&home);
        assert_eq!((&without.0, without.1), (&with.0, 0));
        // Kept again; then a byte of a line changes, which the cache must not hide.
        run(&home, 0..0);
        assert_eq!(read(&home).1, WORTH_IT + 3);
        let second = lines.iter().position(|byte| *byte == b'\n').unwrap() + 60;
        for at in [40, second] {
            let mut bytes = lines.clone();
            bytes[at] ^= 1;
            fs::write(home.records(), bytes).unwrap();
            let now = read(&home);
            assert_eq!((now.0.len(), now.1), (WORTH_IT + 2, 0), "the altered record is not believed");
        }
        // Cut in its last line, and in what is kept.
        fs::write(home.records(), &lines[..lines.len() / 2]).unwrap();
        assert_eq!(read(&home).1, 0);
        fs::write(home.records(), &lines).unwrap();
        let whole = fs::read(path(&home)).unwrap();
        for at in (0..whole.len()).step_by(whole.len() / 9) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(path(&home), bytes).unwrap();
            assert_eq!(read(&home).0, with.0, "byte {at} of what is kept");
        }
    }
}
