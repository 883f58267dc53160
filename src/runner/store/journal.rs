//! What happened in a run, one sealed JSON line for each fact.
//!
//! Why JSON lines: they can be read with `tail -f` and `jq`, and any prefix cut at any byte replays to a prefix. The
//! seal is the first 8 bytes of BLAKE3 over the line, in hex. A bad last line is a torn write; a bad line before
//! others is corruption and reported as such.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::civil::DateTime;
use serde::Serialize;

use super::StateFolder;
use super::durable::{
    LineFile, PathError, WithPath as _, create_folder, is_there, items_in, replace, sealed_json, text_if_there,
};
use base::event::{Event, RunId, RunTag, TaskId};
use base::files::{Digest, read_bytes, read_text};

/// More is not kept back.
const WAITING_BYTES: usize = 256 * 1024;

/// Bytes of the seal, with the space behind it.
const SEAL: usize = 17;

/// The time in the name of a run.
const RUN_TIME: &str = "%Y%m%d-%H%M%S.%3f";

/// A value as a sealed line.
pub(super) fn seal(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = Vec::with_capacity(1 << 10);
    line.extend_from_slice(&[b' '; SEAL]);
    serde_json::to_writer(&mut line, value)?;
    let seal = Digest::hash(&line[SEAL..]).short();
    line[..SEAL - 1].copy_from_slice(seal.as_bytes());
    line.push(b'\n');
    Ok(line)
}

/// The JSON of a sealed line without its newline, if the seal is right.
pub(super) fn unseal(line: &[u8]) -> Option<&[u8]> {
    let (seal, json) = line.split_at_checked(SEAL)?;
    let digits = seal.strip_suffix(b" ")?;
    (Digest::hash(json).short().as_bytes() == digits).then_some(json)
}

/// The journal of the run that is going on.
#[derive(Debug)]
pub struct Journal {
    file: LineFile,
    /// Lines that are written with the next one.
    waiting: Vec<u8>,
}

impl Journal {
    /// Creates the run's folder and an empty journal in it.
    pub fn create(home: &StateFolder, run: &RunId) -> Result<Self, PathError> {
        let folder = home.run(run);
        create_folder(&folder)?;
        let path = folder.join("journal.jsonl");
        Ok(Self { file: LineFile::open(&path, 0)?, waiting: Vec::new() })
    }

    /// One write for each fact; chatter is left out. Two kinds of facts are written with the one that follows: that a
    /// task is cached, which is a fact of earlier runs, and large plans have thousands of them; and that a process has
    /// ended, because what it came to follows at once.
    pub fn append(&mut self, event: &Event) -> Result<(), PathError> {
        if !event.is_fact() {
            return Ok(());
        }
        self.waiting.append(&mut sealed_json(self.file.path(), event)?);
        let may_wait = matches!(event, Event::TaskCached { .. } | Event::ProcessEnded { .. });
        if may_wait && self.waiting.len() < WAITING_BYTES {
            return Ok(());
        }
        let written = self.file.append(&self.waiting);
        self.waiting.clear();
        written
    }
}

/// A journal as it was read back.
#[derive(Debug, Default)]
pub struct ReadJournal {
    pub events: Vec<Event>,
    /// The last line was cut off in the middle.
    pub torn: bool,
    /// Number (from 1) of a bad line that others follow.
    pub corrupt: Option<usize>,
}

/// Reads a journal up to its first bad line.
pub fn read_journal(path: &Path) -> Result<ReadJournal, PathError> {
    let mut events = Vec::new();
    let read = fold_journal(path, |event| events.push(event))?;
    Ok(ReadJournal { events, ..read })
}

/// Like `read_journal`, one event at a time; none is in what it returns.
pub fn fold_journal(path: &Path, mut take: impl FnMut(Event)) -> Result<ReadJournal, PathError> {
    let bytes = read_bytes(path).at("read", path)?;
    let mut read = ReadJournal::default();
    let mut rest = &bytes[..];
    let mut number = 0;
    while !rest.is_empty() {
        number += 1;
        let (line, tail) = match memchr::memchr(b'\n', rest) {
            Some(end) => (Some(&rest[..end]), &rest[end + 1..]),
            None => (None, &rest[..0]),
        };
        rest = tail;
        match line.and_then(unseal).and_then(|json| serde_json::from_slice(json).ok()) {
            Some(event) => take(event),
            None if rest.is_empty() => read.torn = true,
            None => {
                read.corrupt = Some(number);
                break;
            }
        }
    }
    Ok(read)
}

/// The journal of a run, one event at a time, with outputs where they are now: since the run the project may have been
/// moved or copied.
pub fn fold_run(home: &StateFolder, run: &RunId, mut take: impl FnMut(Event)) -> Result<ReadJournal, PathError> {
    fold_journal(&home.run(run).join("journal.jsonl"), |mut event| {
        let out = match &mut event {
            Event::TaskCached { out, .. } | Event::TaskFinished { out, .. } => out.as_mut(),
            Event::TaskFailed { failure, .. } => failure.kept.as_mut(),
            _ => None,
        };
        if let Some(out) = out
            && let Some(now) = home.own_output(out)
        {
            *out = now;
        }
        take(event);
    })
}

/// All runs of a project, oldest first.
///
/// # Errors
/// One of them cannot be looked at.
pub fn runs(home: &StateFolder) -> Result<Vec<RunId>, PathError> {
    let (runs, unreadable) = readable_runs(home)?;
    unreadable.into_iter().next().map_or(Ok(runs), Err)
}

/// Those that can be looked at, oldest first, and why others cannot.
pub fn readable_runs(home: &StateFolder) -> Result<(Vec<RunId>, Vec<PathError>), PathError> {
    let (mut runs, mut unreadable) = (Vec::new(), Vec::new());
    for name in run_names(home)? {
        match has_journal(home, &name) {
            Ok(true) => runs.push(RunId::new(name)),
            Ok(false) => {}
            Err(error) => unreadable.push(error),
        }
    }
    Ok((runs, unreadable))
}

/// Folders of runs, sorted. Another folder, as some filesystems have, does not begin with a date.
fn run_names(home: &StateFolder) -> Result<Vec<String>, PathError> {
    let name = |path: PathBuf| path.file_name()?.to_str().map(str::to_owned);
    let is_run = |name: &String| name.starts_with(|first: char| first.is_ascii_digit());
    Ok(items_in(&home.runs())?.into_iter().filter_map(name).filter(is_run).collect())
}

fn has_journal(home: &StateFolder, name: &str) -> Result<bool, PathError> {
    is_there(&home.runs().join(name).join("journal.jsonl"))
}

/// A name for a run that begins now: local time and process id. It sorts after the names of all runs before it,
/// whatever the clock did meanwhile, because the last name is how a crash is noticed. The caller must hold the lock.
pub fn name_run(home: &StateFolder) -> Result<RunId, PathError> {
    let now = jiff::Zoned::now().strftime(RUN_TIME).to_string();
    // A run whose journal cannot be read still counts.
    let is_run = |name: &String| has_journal(home, name).unwrap_or(true);
    Ok(name_after(run_names(home)?.into_iter().rev().find(is_run).map(RunId::new), &now))
}

fn name_after(last: Option<RunId>, now: &str) -> RunId {
    let pid = std::process::id();
    let name = RunId::new(format!("{now}-{pid}"));
    match last {
        Some(last) if last >= name => {
            let time = last.as_str().rsplit_once('-').map_or(last.as_str(), |(time, _)| time);
            let time = millisecond_after(time).unwrap_or_else(|| format!("{time}~"));
            RunId::new(format!("{time}-{pid}"))
        }
        _ => name,
    }
}

/// The time of a name that sorts after one with this time. All are of one length: a clock that was ahead may name many
/// runs. Those of an earlier build have a `~` for each run of that time.
fn millisecond_after(time: &str) -> Option<String> {
    let time = DateTime::strptime("%Y%m%d-%H%M%S%.f", time.trim_end_matches('~')).ok()?;
    Some(time.checked_add(Duration::from_millis(1)).ok()?.strftime(RUN_TIME).to_string())
}

pub fn last_run(home: &StateFolder) -> Result<Option<RunId>, PathError> {
    for name in run_names(home)?.into_iter().rev() {
        if has_journal(home, &name)? {
            return Ok(Some(RunId::new(name)));
        }
    }
    Ok(None)
}

/// Whether the last run came to its own end, whatever end that was. `false` after a crash or a `kill -9`.
pub fn ended_well(home: &StateFolder) -> Result<bool, PathError> {
    let Some(run) = last_run(home)? else { return Ok(true) };
    let path = home.run(&run).join("journal.jsonl");
    let bytes = read_bytes(&path).at("read", &path)?;
    let last = bytes.strip_suffix(b"\n").and_then(|b| b.rsplit(|b| *b == b'\n').next()).and_then(unseal);
    Ok(matches!(last.and_then(|json| serde_json::from_slice(json).ok()), Some(Event::RunFinished { .. })))
}

// How far a run's tasks are, for other processes that look at the run. Progress is not recorded in the journal,
// and the file goes away with the run.

/// Between two versions of the file.
const PAUSE: Duration = Duration::from_millis(500);

/// The last progress of each task. A file that cannot be written is left out: the run does not depend on it.
#[derive(Debug)]
pub struct ProgressFile {
    path: PathBuf,
    last: BTreeMap<TaskId, Event>,
    written: Option<Instant>,
}

impl ProgressFile {
    /// Writes nothing yet.
    pub fn new(home: &StateFolder, run: &RunId) -> Self {
        Self { path: path(home, run), last: BTreeMap::new(), written: None }
    }

    pub fn take(&mut self, event: &Event) {
        match event {
            Event::Progress { task, .. } => {
                self.last.insert(task.clone(), event.clone());
                if self.written.is_none_or(|at| at.elapsed() >= PAUSE) {
                    self.written = Some(Instant::now());
                    self.write();
                }
            }
            Event::TaskFinished { task, .. } | Event::TaskFailed { task, .. } | Event::ServiceStopped { task, .. } => {
                self.last.remove(task);
            }
            _ => {}
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a reader must see a whole file, and no later run depends on it")]
    fn write(&self) {
        let lines = self.last.values().filter_map(|event| serde_json::to_string(event).ok());
        let text: String = lines.map(|line| line + "\n").collect();
        let next = self.path.with_extension("next");
        let _ = fs::write(&next, text).and_then(|()| fs::rename(&next, &self.path));
    }

    /// The run has ended.
    pub fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn path(home: &StateFolder, run: &RunId) -> PathBuf {
    home.run(run).join("progress.jsonl")
}

/// The last progress of each task of a run that is under way.
pub fn read_progress(home: &StateFolder, run: &RunId) -> Vec<Event> {
    let text = read_text(path(home, run)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

// The names that a user gives to runs: lines of `tags` in a run's folder. What a tagged run measured is kept by `gc`.

fn file(home: &StateFolder, run: &RunId) -> PathBuf {
    home.run(run).join("tags")
}

/// The tags of a run, in the order in which they were given. Lines that are not tags are skipped.
pub fn tags_of(home: &StateFolder, run: &RunId) -> Result<Vec<RunTag>, PathError> {
    let text = text_if_there(&file(home, run))?.unwrap_or_default();
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// The run with that tag, of those that can be looked at.
pub fn tagged_run(home: &StateFolder, tag: &RunTag) -> Result<Option<RunId>, PathError> {
    for run in readable_runs(home)?.0.into_iter().rev() {
        if tags_of(home, &run)?.contains(tag) {
            return Ok(Some(run));
        }
    }
    Ok(None)
}

/// Gives a run a tag, and takes it from the run that had it.
pub fn set_tag(home: &StateFolder, run: &RunId, tag: &RunTag) -> Result<(), PathError> {
    remove_tag(home, tag)?;
    let mut tags = tags_of(home, run)?;
    tags.push(tag.clone());
    write(home, run, &tags)
}

/// Takes a tag from the run that has it, and returns that run.
pub fn remove_tag(home: &StateFolder, tag: &RunTag) -> Result<Option<RunId>, PathError> {
    let Some(run) = tagged_run(home, tag)? else { return Ok(None) };
    let mut tags = tags_of(home, &run)?;
    tags.retain(|other| other != tag);
    write(home, &run, &tags)?;
    Ok(Some(run))
}

fn write(home: &StateFolder, run: &RunId, tags: &[RunTag]) -> Result<(), PathError> {
    let lines: Vec<&str> = tags.iter().map(RunTag::as_str).collect();
    replace(&file(home, run), lines.join("\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use base::event::TaskId;

    fn three() -> Vec<Event> {
        ["a", "b", "c"].map(|name| Event::TaskSkipped { task: TaskId::new(name), why: "when is false".into() }).to_vec()
    }

    #[test]
    fn cut_at_every_byte_a_journal_replays_to_a_prefix() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().into(), folder.path().join(".regatta"));
        let run = RunId::new("r");
        let mut journal = Journal::create(&home, &run).unwrap();
        for event in three() {
            journal.append(&event).unwrap();
        }
        let path = home.run(&run).join("journal.jsonl");
        let whole = fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let read = read_journal(&path).unwrap();
            assert_eq!(read.events, three()[..read.events.len()]);
            assert_eq!(read.corrupt, None);
            assert_eq!(read.torn, cut > 0 && whole[cut - 1] != b'\n');
        }
    }

    #[test]
    fn a_run_sorts_after_the_one_before_it_even_when_the_clock_went_back() {
        let mut last = None;
        for now in ["20261025-025959.999", "20261025-020000.000", "20261025-020000.000", "20261025-030000.000"] {
            let name = name_after(last.clone(), now);
            assert!(Some(&name) > last.as_ref(), "{name} after {last:?}");
            last = Some(name);
        }
        let older = RunId::new("20261025-030000-999999");
        assert!(name_after(Some(older.clone()), "20261025-030000.001") > older, "names without milliseconds, too");
    }

    #[test]
    fn names_of_runs_under_a_clock_that_was_ahead_do_not_grow() {
        let usual = name_after(None, "20261025-020000.000").as_str().len();
        for first in [
            "29991231-235959.998-1".to_owned(),
            "29991231-235959-1".to_owned(),
            format!("29991231-235959.998{}-1", "~".repeat(230)),
        ] {
            let mut last = RunId::new(first);
            for _ in 0..1000 {
                let name = name_after(Some(last.clone()), "20261025-020000.000");
                assert!(name > last && name.as_str().len() == usual, "{name} after {last}");
                last = name;
            }
        }
    }

    #[test]
    fn a_changed_byte_in_the_middle_is_corruption() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let mut bytes: Vec<u8> = three().iter().flat_map(|e| seal(e).unwrap()).collect();
        bytes[30] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!(read_journal(&path).unwrap().corrupt, Some(1));
    }
}
