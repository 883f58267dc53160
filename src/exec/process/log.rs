//! Reads the end of a log: of all of it, or of what one attempt wrote.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe::{Receiver, Sender};

/// No line is shown longer than this (bytes).
const LINE: usize = 4096;
/// No more than this is read from the end of a log (bytes).
const WINDOW: u64 = 256 * 1024;

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
    let mut bytes = Vec::new();
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(WINDOW).max(begin)))?;
        file.take(WINDOW).read_to_end(&mut bytes)?;
        Ok(std::mem::take(&mut bytes))
    };
    // A tail is an extra in a message about something else: an unreadable log must not hide that.
    let bytes = { read }().unwrap_or_default();
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

// A conversation with a command that runs: lines to its standard input, lines from its standard output.

/// Longer lines are not part of the protocol (bytes).
const LONGEST: usize = 16 << 20;
const CHUNK: usize = 16 * 1024;

/// Writes to the command. Dropping it ends the command's standard input.
#[derive(Debug)]
pub struct LineWriter {
    pipe: Sender,
}

/// Reads from the command. Can be dropped and awaited again.
#[derive(Debug)]
pub struct LineReader {
    pipe: Receiver,
    /// The beginning of a line that has not ended yet.
    rest: Vec<u8>,
    /// That line is too long.
    is_too_long: bool,
    lines: VecDeque<String>,
    open: bool,
}

impl LineWriter {
    pub(super) fn new(write: OwnedFd) -> io::Result<Self> {
        Ok(Self { pipe: Sender::from_owned_fd(write)? })
    }

    /// Writes a line. It waits while the reader does not read.
    pub async fn line(&mut self, line: &str) -> io::Result<()> {
        self.pipe.write_all(format!("{line}\n").as_bytes()).await
    }
}

impl LineReader {
    pub(super) fn new(read: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            pipe: Receiver::from_owned_fd(read)?,
            rest: Vec::new(),
            is_too_long: false,
            lines: VecDeque::new(),
            open: true,
        })
    }

    /// The next line, without its end. `None`: no writer is left.
    pub async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            if !self.open || self.pipe.readable().await.is_err() {
                return None;
            }
            self.read();
        }
    }

    /// The lines that are there, without waiting: after the command has ended, when others may still hold its output
    /// open.
    pub fn rest(&mut self) -> Vec<String> {
        while self.open && self.read() {}
        self.lines.drain(..).collect()
    }

    /// Whether something came.
    fn read(&mut self) -> bool {
        // Past the runtime's own memory of what is readable, which may be behind.
        self.read_first_with(|pipe, buffer| rustix::io::read(pipe, buffer).map_err(io::Error::from))
    }

    fn read_first_with(&mut self, first: impl FnOnce(&Receiver, &mut [u8]) -> io::Result<usize>) -> bool {
        let mut buffer = vec![0; CHUNK];
        let read = match first(&self.pipe, &mut buffer) {
            // Makes the runtime wait for the next one. What has come since the first read is read here.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.pipe.try_read(&mut buffer),
            read => read,
        };
        match read {
            Ok(n) if n > 0 => self.take(buffer.get(..n).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            _ => {
                self.open = false;
                return false;
            }
        }
        true
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while let Some(at) = memchr::memchr(b'\n', bytes) {
            self.extend_line(&bytes[..at]);
            bytes = &bytes[at + 1..];
            if !std::mem::take(&mut self.is_too_long) {
                self.lines.push_back(String::from_utf8_lossy(&self.rest).trim_end().to_owned());
            }
            self.rest.clear();
        }
        self.extend_line(bytes);
    }

    fn extend_line(&mut self, bytes: &[u8]) {
        self.is_too_long |= self.rest.len() + bytes.len() > LONGEST;
        if self.is_too_long {
            self.rest = Vec::new();
        } else {
            self.rest.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::pipe::{PipeFlags, pipe_with};

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

    #[tokio::test]
    async fn lines_are_read_complete_and_in_order() {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let (mut reader, mut writer) = (LineReader::new(read).unwrap(), LineWriter::new(write).unwrap());
        writer.line("one").await.unwrap();
        writer.line("two\nthree").await.unwrap();
        assert_eq!(reader.line().await.as_deref(), Some("one"));
        assert_eq!(reader.rest(), ["two", "three"]);
        drop(writer);
        assert_eq!(reader.line().await, None);
    }

    #[tokio::test]
    async fn a_line_that_is_written_between_the_two_reads_is_read() {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let (mut reader, mut writer) = (LineReader::new(read).unwrap(), LineWriter::new(write).unwrap());
        writer.line("one").await.unwrap();
        assert_eq!(reader.line().await.as_deref(), Some("one"));
        let is_read = reader.read_first_with(|_, _| {
            rustix::io::write(&writer.pipe, b"ready\n").unwrap();
            Err(io::ErrorKind::WouldBlock.into())
        });
        assert!(is_read);
        assert_eq!(reader.line().await.as_deref(), Some("ready"));
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_left_out_to_its_end() {
        let (read, _write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut reader = LineReader::new(read).unwrap();
        reader.take(b"one\nx");
        reader.take(&vec![b'x'; LONGEST]);
        reader.take(b"the rest of it\ntwo\nthr");
        reader.take(b"ee\n");
        assert_eq!(reader.lines, ["one", "two", "three"]);
    }
}
