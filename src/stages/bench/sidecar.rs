//! A process that runs beside a stage's work and ends with it: dropping it ends it, whatever the reason.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::task_context::TaskContext;
use base::event::Event;
use base::files::read_bytes;
use exec::process::{ExitKind, Running, SpawnError};

/// A process beside a task. Its start and end are reported to whatever cleans up after a killed run.
pub struct Sidecar {
    running: Option<Running>,
    /// All that it writes; gone with it.
    file: PathBuf,
    counted: CountedLines,
    ended: Box<dyn Fn() + Send + Sync>,
}

/// The part of its file whose lines were counted.
#[derive(Default)]
struct CountedLines {
    bytes: u64,
    lines: usize,
}

impl CountedLines {
    fn update(&mut self, path: &Path) -> io::Result<usize> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(self.bytes))?;
        let mut piece = vec![0; 64 << 10];
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(self.lines),
                length => {
                    self.bytes += length as u64;
                    self.lines += memchr::memchr_iter(b'\n', &piece[..length]).count();
                }
            }
        }
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        drop(self.running.take());
        let _ = std::fs::remove_file(&self.file);
        (self.ended)();
    }
}

impl Sidecar {
    /// Starts a command in the task's environment plus these variables. `name` distinguishes its log file from those of others.
    pub fn start(
        context: &TaskContext,
        argv: Vec<String>,
        env: &[(&str, &str)],
        name: &str,
    ) -> Result<Self, SpawnError> {
        let file = context.lease.log.with_extension(name);
        let _ = std::fs::remove_file(&file);
        // Written directly to the file: the command has no secrets, and nothing would forward its output.
        let mut command = context.command(argv.into_iter().map(Into::into).collect()).secrets(Vec::new());
        for (name, value) in env {
            command = command.set(*name, *value);
        }
        command.log.clone_from(&file);
        let running = Running::start(command)?;
        let (task, emit, pgid) = (context.lease.task.id.clone(), context.lease.emit.clone(), running.pgid());
        emit(Event::ProcessStarted { task: task.clone(), pgid });
        let ended = Box::new(move || emit(Event::ProcessEnded { task: task.clone(), pgid }));
        Ok(Self { running: Some(running), file, counted: CountedLines::default(), ended })
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    /// What it has written so far.
    pub fn written(&self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&read_bytes(&self.file)?).into_owned())
    }

    /// How many whole lines it has written so far. Reads only what came since the last call.
    pub fn count_lines(&mut self) -> io::Result<usize> {
        self.counted.update(&self.file)
    }

    pub fn seconds(&self) -> f64 {
        self.running.as_ref().map_or(0.0, Running::seconds)
    }

    /// Resolves when the process ends by itself. Can be dropped and awaited again.
    pub async fn ended(&mut self) -> ExitKind {
        match &mut self.running {
            Some(running) => running.ended().await,
            None => ExitKind::Stopped,
        }
    }

    /// Ends it; what it wrote can still be read. Its own end, if it came first.
    pub async fn stop(&mut self, context: &TaskContext, grace: Duration) -> ExitKind {
        match self.running.take() {
            Some(running) => running.stop(grace, &context.lease.stop).await.how,
            None => ExitKind::Stopped,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn lines_are_counted_as_they_come() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut counted = CountedLines::default();
        for (text, lines) in [("", 0), ("a\nb", 1), ("c\n", 2), ("", 2), ("\n\nd", 4)] {
            file.write_all(text.as_bytes()).unwrap();
            assert_eq!(counted.update(file.path()).unwrap(), lines, "{text:?}");
        }
        assert_eq!(counted.bytes, 8);
    }
}
