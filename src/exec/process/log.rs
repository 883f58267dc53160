//! Reads the end of a log: of all of it, or of what one attempt wrote; and bounds its size. The log of an MPI world is
//! split by rank: which rank printed what, and which failed first. Open MPI's `--tag-output` writes
//! `[JOB,RANK]<stdout>:` in front of each line.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate};

use base::files::open_regular;
use base::units::size;

/// No line is shown longer than this (bytes).
const LINE: usize = 4096;
/// No more than this is read from the end of a log (bytes).
const WINDOW: u64 = 256 * 1024;

/// A log keeps this much of its beginning, and of its end (bytes).
const KEPT: u64 = 512 << 20;

const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Keeps a log from becoming too long for as long as its command has the returned path.
pub fn bounded(log: PathBuf) -> Arc<PathBuf> {
    static LOGS: Mutex<Vec<Weak<PathBuf>>> = Mutex::new(Vec::new());
    static WATCHER: Once = Once::new();
    let watch = || {
        loop {
            thread::sleep(LOOK_INTERVAL);
            LOGS.lock().retain(|log| log.strong_count() > 0);
            let logs = LOGS.lock().clone();
            // A filesystem without holes keeps all of it.
            logs.iter().filter_map(Weak::upgrade).for_each(|log| drop(cut(&log, KEPT)));
        }
    };
    WATCHER.call_once(|| drop(thread::Builder::new().name("logs".to_owned()).spawn(watch)));
    let log = Arc::new(log);
    LOGS.lock().push(Arc::downgrade(&log));
    log
}

/// Gives the middle of a log that has become too long back to the disk, while its command goes on writing. What follows
/// keeps its place in the file, where its readers look for it.
fn cut(log: &Path, kept: u64) -> io::Result<()> {
    let length = log.metadata()?.len().saturating_sub(2 * kept);
    if length == 0 {
        return Ok(());
    }
    let file = File::options().write(true).open(log)?;
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, kept, length)?;
    file.write_all_at(format!("\n[{} of this log were cut out here]\n", size(length)).as_bytes(), kept)
}

/// The last `n` lines of a log, without terminal escapes, each cut at 4 KiB. A log that is not there has none.
pub fn tail(log: &Path, n: usize) -> Vec<String> {
    tail_from(log, 0, n)
}

/// A log from where an attempt begins in it. All attempts at a task append to the same file, and what an earlier one
/// wrote says nothing about this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptLog {
    path: PathBuf,
    begin: u64,
}

impl AttemptLog {
    /// What is written to it from now on.
    pub fn from_now(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let begin = path.metadata().map_or(0, |log| log.len());
        Self { path, begin }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes before the attempt.
    pub const fn begin(&self) -> u64 {
        self.begin
    }

    /// The last `n` lines of the attempt, as [`tail`] has them.
    pub fn tail(&self, n: usize) -> Vec<String> {
        tail_from(&self.path, self.begin, n)
    }
}

fn tail_from(log: &Path, begin: u64, n: usize) -> Vec<String> {
    let read = || -> std::io::Result<Vec<u8>> {
        let (mut file, metadata) = open_regular(log)?;
        file.seek(SeekFrom::Start(metadata.len().saturating_sub(WINDOW).max(begin)))?;
        let mut bytes = Vec::new();
        file.take(WINDOW).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    // A tail is an extra in a message about something else: an unreadable log must not hide that.
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut lines: Vec<String> = text.lines().rev().map(clean).filter(|line| !line.is_empty()).take(n).collect();
    lines.reverse();
    lines
}

/// One line as a terminal would leave it: escapes gone, only what follows the last carriage return, at most 4 KiB.
fn clean(line: &str) -> String {
    let line = line.trim_end();
    let line = line.rsplit_once('\r').map_or(line, |(_, last)| last);
    let mut text = String::with_capacity(line.len().min(LINE));
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if text.len() >= LINE {
            text.push('…');
            break;
        }
        match c {
            '\u{1b}' => skip_escape(&mut chars),
            '\t' => text.push_str("    "),
            c if c.is_control() => {}
            c => text.push(c),
        }
    }
    text
}

/// Skips a control sequence (`ESC [ … letter`), an operating system command (`ESC ] … BEL`), or a two-character escape
/// (ECMA-48).
fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.next() {
        Some('[') => {
            for c in chars.by_ref() {
                if ('\u{40}'..='\u{7e}').contains(&c) {
                    break;
                }
            }
        }
        Some(']') => {
            while let Some(c) = chars.next() {
                if c == '\u{7}' {
                    break;
                }
                if c == '\u{1b}' {
                    chars.next();
                    break;
                }
            }
        }
        _ => {}
    }
}

/// The rank that a line comes from, and the line without its tag.
pub fn untagged(line: &str) -> (Option<u32>, &str) {
    let tagged = || {
        let (tag, rest) = line.strip_prefix('[')?.split_once(']')?;
        let rank = tag.split_once(',')?.1.parse().ok()?;
        let rest = rest.strip_prefix('<')?.split_once(">:")?.1;
        Some((rank, rest))
    };
    tagged().map_or((None, line), |(rank, rest)| (Some(rank), rest))
}

/// The rank that `mpirun` names as the first to fail.
pub fn first_to_fail(lines: &[String]) -> Option<u32> {
    lines.iter().find_map(|line| {
        let line = line.trim();
        // `Process name: [[12776,1],1]`,
        // `… noticed that process rank 1 with PID 0 on node x exited on signal 9 (Killed).`,
        // `MPI_ABORT was invoked on rank 2 in communicator …`
        let number = line
            .strip_prefix("Process name: [[")
            .and_then(|rest| rest.rsplit_once("],"))
            .map(|(_, rank)| rank.trim_end_matches(']'))
            .or_else(|| line.split_once("noticed that process rank ")?.1.split(' ').next())
            .or_else(|| line.split_once("MPI_ABORT was invoked on rank ")?.1.split(' ').next());
        number?.parse().ok()
    })
}

/// Follows a log, or another file that grows, line by line, with little of it in memory: a line need not end.
#[derive(Debug, Default)]
pub struct FollowedLog {
    path: PathBuf,
    read: u64,
    /// Of a line that has not ended yet.
    line: Vec<u8>,
}

impl FollowedLog {
    /// Bytes of a line; what it has after them is passed over.
    const LONGEST_LINE: usize = 16 << 20;

    /// From this byte on.
    pub fn new(path: impl Into<PathBuf>, begin: u64) -> Self {
        Self { path: path.into(), read: begin, line: Vec::new() }
    }

    /// Hands on the lines that have ended since the last call, without the byte that ended each, one of `ends`. Returns
    /// whether the file has grown.
    pub fn read_lines(&mut self, ends: &[u8], mut take: impl FnMut(&str) -> io::Result<()>) -> io::Result<bool> {
        let (file, _) = open_regular(&self.path)?;
        let (begin, mut piece) = (self.read, vec![0; 64 << 10]);
        loop {
            // The middle of a long log is a hole.
            self.read = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(self.read)).unwrap_or(self.read);
            let length = file.read_at(&mut piece, self.read)?;
            if length == 0 {
                return Ok(self.read > begin);
            }
            self.read += length as u64;
            let mut rest = &piece[..length];
            while let Some(end) = rest.iter().position(|byte| ends.contains(byte)) {
                self.extend_line(&rest[..end]);
                take(&String::from_utf8_lossy(&self.line))?;
                self.line.clear();
                rest = &rest[end + 1..];
            }
            self.extend_line(rest);
        }
    }

    /// The line at the end of the file that has not ended.
    pub fn open_line(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.line)
    }

    fn extend_line(&mut self, bytes: &[u8]) {
        let room = Self::LONGEST_LINE - self.line.len();
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// Writes what an attempt adds to a world's log, rank by rank, into `<log>.rank<k>.log`, in place of an earlier
/// attempt's; goes on where it stopped.
#[derive(Debug)]
pub struct Splitter {
    log: PathBuf,
    lines: FollowedLog,
    ranks: BTreeMap<u32, File>,
}

impl Splitter {
    /// Removes the logs of an earlier attempt's ranks: a rank that prints nothing has none.
    pub fn new(log: &AttemptLog) -> Self {
        let log_path = log.path();
        let stem = log_path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let items = log_path.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        for item in items {
            let name = item.file_name();
            let rank =
                name.to_str().and_then(|name| name.strip_prefix(&stem)?.strip_prefix(".rank")?.strip_suffix(".log"));
            if rank.is_some_and(|rank| rank.parse::<u32>().is_ok()) {
                let _ = fs::remove_file(item.path());
            }
        }
        Self { log: log_path.to_owned(), lines: FollowedLog::new(log_path, log.begin()), ranks: BTreeMap::new() }
    }

    /// Where a rank's own log is: `triton.log` → `triton.rank1.log`.
    pub fn path(log: &Path, rank: u32) -> PathBuf {
        log.with_extension(format!("rank{rank}.log"))
    }

    /// Takes the whole lines that came since.
    pub fn step(&mut self) -> io::Result<()> {
        let Self { log, lines, ranks } = self;
        let step = lines.read_lines(b"\n", |line| {
            let (Some(rank), text) = untagged(line) else { return Ok(()) };
            let file = match ranks.entry(rank) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(File::create(Self::path(log, rank))?),
            };
            writeln!(file, "{text}")
        });
        step.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_and_progress_bars_leave_what_a_person_would_see() {
        assert_eq!(clean("\u{1b}[31merror\u{1b}[0m: no"), "error: no");
        assert_eq!(clean("10%\r50%\r100%"), "100%");
        assert_eq!(clean("\u{1b}]0;title\u{7}text"), "text");
    }

    #[test]
    fn the_tail_is_the_last_lines_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        std::fs::write(&log, b"one\ntwo\n\xff three\n\n").unwrap();
        assert_eq!(tail(&log, 2), ["two", "\u{fffd} three"]);
        assert_eq!(tail(&dir.path().join("none"), 2), [""; 0]);
    }

    #[test]
    fn a_log_without_end_keeps_its_beginning_and_its_end_and_takes_no_disk_for_the_rest() {
        use std::io::Write as _;
        use std::os::unix::fs::MetadataExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut writer = File::options().append(true).create(true).open(&path).unwrap();
        let line = |n: usize| format!("{n:031}\n");
        let lines = |first: usize| (first..first + (1 << 16)).map(line).collect::<Vec<_>>().concat();
        writer.write_all(lines(0).as_bytes()).unwrap();
        let kept = 1 << 16;
        cut(&path, 1 << 30).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), lines(0).as_bytes(), "it is not too long");
        cut(&path, kept).unwrap();
        // Its command goes on.
        writer.write_all(lines(1 << 16).as_bytes()).unwrap();
        cut(&path, kept).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let (whole, kept) = (lines(0) + &lines(1 << 16), kept as usize);
        assert_eq!(bytes.len(), whole.len());
        assert_eq!(bytes[..kept], whole.as_bytes()[..kept]);
        assert_eq!(bytes[bytes.len() - kept..], whole.as_bytes()[whole.len() - kept..]);
        assert!(bytes[kept..].starts_with(b"\n[4.1 MB of this log were cut out here]\n"));
        assert_eq!(tail(&path, 1), [format!("{:031}", (1 << 17) - 1)]);
        assert!(path.metadata().unwrap().blocks() * 512 < whole.len() as u64 / 4, "{:?}", path.metadata());
    }

    #[test]
    fn what_earlier_attempts_wrote_is_not_of_this_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let first = AttemptLog::from_now(&path);
        std::fs::write(&path, "CUDA out of memory\n").unwrap();
        let second = AttemptLog::from_now(&path);
        assert_eq!((first.tail(9), second.tail(9)), (vec!["CUDA out of memory".to_owned()], Vec::new()));
        std::fs::write(&path, "CUDA out of memory\nno such file\n").unwrap();
        assert_eq!(second.tail(9), ["no such file"]);
        std::fs::write(&path, "").unwrap();
        assert_eq!(second.tail(9), [""; 0], "something has cut it off");
    }

    #[test]
    fn a_line_without_end_is_cut() {
        assert_eq!(clean(&"x".repeat(10_000)).len(), LINE + '…'.len_utf8());
    }
}

#[cfg(test)]
mod mpi_log_tests {
    use super::*;

    #[test]
    fn a_log_is_taken_apart_as_it_grows() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("triton.log");
        let mut file = File::create(&log).unwrap();
        file.write_all(b"[1,0]<stdout>:of an earlier attempt\n").unwrap();
        std::fs::write(folder.path().join("triton.rank7.log"), "of an earlier attempt\n").unwrap();
        let mut splitter = Splitter::new(&AttemptLog::from_now(&log));
        assert!(!folder.path().join("triton.rank7.log").exists());
        file.write_all(b"[1,0]<stdout>:one\n[1,1]<stderr>:two\n[1,0]<std").unwrap();
        splitter.step().unwrap();
        file.write_all(b"out>:three\nmpirun says\n").unwrap();
        splitter.step().unwrap();
        let read = |rank| std::fs::read_to_string(folder.path().join(format!("triton.rank{rank}.log"))).unwrap();
        assert_eq!((read(0), read(1)), ("one\nthree\n".to_owned(), "two\n".to_owned()));
    }

    #[test]
    fn of_a_line_without_end_only_its_beginning_is_in_memory_and_a_hole_is_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let file = File::create(&path).unwrap();
        file.write_all_at(b"first\rsecond\n", 0).unwrap();
        // A terabyte that was cut out.
        let far = 1 << 40;
        file.write_all_at(&vec![b'x'; FollowedLog::LONGEST_LINE + 9], far).unwrap();
        let (mut lengths, mut log) = (Vec::new(), FollowedLog::new(&path, 0));
        let mut read = |log: &mut FollowedLog| {
            log.read_lines(b"\r\n", |line| {
                lengths.push(line.len());
                Ok(())
            })
        };
        assert!(read(&mut log).unwrap());
        assert_eq!(log.line.len(), FollowedLog::LONGEST_LINE);
        file.write_all_at(b"y\nlast\n", far + FollowedLog::LONGEST_LINE as u64 + 9).unwrap();
        assert!(read(&mut log).unwrap());
        assert!(!read(&mut log).unwrap());
        assert_eq!(lengths, [5, 6, FollowedLog::LONGEST_LINE, 4]);
    }

    #[test]
    fn the_first_to_fail_is_the_one_that_mpirun_names() {
        let first = |line: &str| first_to_fail(&["x".to_owned(), line.to_owned()]);
        assert_eq!(first("  Process name: [[12776,1],3]"), Some(3));
        assert_eq!(
            first("mpirun noticed that process rank 6 with PID 0 on node n1 exited on signal 9 (Killed)."),
            Some(6)
        );
        assert_eq!(first("MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD"), Some(2));
        assert_eq!(first("[1,0]<stdout>:fine"), None);
    }

    #[test]
    fn a_line_without_a_tag_is_left_alone() {
        assert_eq!(untagged("[TensorRT-LLM][INFO] MPI size: 2"), (None, "[TensorRT-LLM][INFO] MPI size: 2"));
        assert_eq!(untagged("[1,2]<stderr>:[TensorRT-LLM][INFO] x"), (Some(2), "[TensorRT-LLM][INFO] x"));
    }
}
