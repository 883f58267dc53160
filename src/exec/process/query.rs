//! A short query to a program, or a short order: its answer, or whether it ended well, within a limit. For facts of the
//! machine and for cleaning up, not for a stage's work. And a conversation with a program, line by line.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use duct::Expression;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe::{Receiver, Sender};

use super::command::absolute_search;
use super::orphans;
use super::running::{SIGN_KEY_VARIABLE, has_key_text, wait_within};

/// The result of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    Answered(ProbeOutput),
    /// The program was not found.
    Missing,
    /// It did not answer in time, and was killed.
    TimedOut,
    /// It could not be queried.
    Failed(String),
}

/// Exit code and what was written; 128 + n for signal n.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeOutput {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl ProbeResult {
    /// What it wrote to its standard output, if it ended well.
    pub fn successful_output(self) -> Option<String> {
        match self {
            Self::Answered(ProbeOutput { code: 0, out, .. }) => Some(out),
            _ => None,
        }
    }
}

/// Sends the query. Blocks for at most `limit`.
pub fn probe(argv: impl IntoIterator<Item: AsRef<OsStr>>, limit: Duration) -> ProbeResult {
    match command(argv) {
        Some(question) => query(&question.stdout_capture().stderr_capture(), limit),
        None => ProbeResult::Missing,
    }
}

/// Whether the command ended well within `limit`. Its output is not read: a helper that it leaves running may hold it
/// open.
pub fn succeeds(argv: impl IntoIterator<Item: AsRef<OsStr>>, limit: Duration) -> bool {
    let order = command(argv).map(|order| query(&order.stdout_null().stderr_null(), limit));
    matches!(order, Some(ProbeResult::Answered(ProbeOutput { code: 0, .. })))
}

fn command(argv: impl IntoIterator<Item: AsRef<OsStr>>) -> Option<Expression> {
    let mut words = argv.into_iter().map(|word| word.as_ref().to_owned());
    let program = words.next()?;
    let words: Vec<OsString> = words.collect();
    Some(duct::cmd(program, words).stdin_null().unchecked())
}

/// Starts the command, and waits for its answer. Blocks for at most `limit`.
pub fn query(question: &Expression, limit: Duration) -> ProbeResult {
    let question = &question.before_spawn(|child| {
        let path = child.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, path)| path.map(absolute_search));
        if let Some(path) = path {
            child.env("PATH", path);
        }
        Ok(())
    });
    let starting = orphans::starting();
    let begun = if has_key_text() { question.env_remove(SIGN_KEY_VARIABLE).start() } else { question.start() };
    let handle = match begun {
        Ok(handle) => handle,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return ProbeResult::Missing,
        Err(error) => return ProbeResult::Failed(error.to_string()),
    };
    let pids: Vec<i32> = handle.pids().into_iter().map(|pid| pid as i32).collect();
    for &pid in &pids {
        orphans::awaited(pid);
    }
    drop(starting);
    let probed = match wait_within(&handle, limit) {
        Ok(Some(output)) => {
            let status = output.status;
            let signal = std::os::unix::process::ExitStatusExt::signal(&status);
            ProbeResult::Answered(ProbeOutput {
                code: status.code().unwrap_or_else(|| 128 + signal.unwrap_or(0)),
                out: String::from_utf8_lossy(&output.stdout).into_owned(),
                err: String::from_utf8_lossy(&output.stderr).into_owned(),
            })
        }
        Ok(None) => {
            // Where it leads a group, what it started goes with it.
            for pid in pids.iter().filter_map(|&pid| Pid::from_raw(pid)) {
                let _ = kill_process_group(pid, Signal::KILL);
            }
            let _ = handle.kill();
            ProbeResult::TimedOut
        }
        Err(error) => ProbeResult::Failed(error.to_string()),
    };
    for &pid in &pids {
        orphans::remove_awaited(pid);
    }
    probed
}

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
    use super::*;

    #[test]
    fn a_question_has_its_answer_its_code_and_its_limit() {
        let minute = Duration::from_mins(1);
        let answer = ProbeOutput { code: 3, out: "a\n".to_owned(), err: "b\n".to_owned() };
        assert_eq!(probe(["sh", "-c", "echo a; echo b >&2; exit 3"], minute), ProbeResult::Answered(answer.clone()));
        assert_eq!(ProbeResult::Answered(answer).successful_output(), None);
        assert_eq!(probe(["echo", "a"], minute).successful_output().as_deref(), Some("a\n"));
        assert_eq!(probe(["no-such-program-here"], minute), ProbeResult::Missing);
        assert_eq!(probe(["sleep", "1000"], Duration::from_millis(1)), ProbeResult::TimedOut);
    }
}

#[cfg(test)]
mod line_pipe_tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};

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
