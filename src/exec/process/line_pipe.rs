//! A conversation with a command that runs: lines to its standard input, lines from its standard output.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe::{Receiver, Sender};

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
