//! The job's lines for the run. A shared filesystem that is full, or does not answer, takes them later: a run that misses the line of a
//! server that is ready would wait for it for ever.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::job_protocol::JobEvent;
use base::event::Event;
use runner::store::{LineFile, PathError, WithPath as _};

/// Lines that wait at the most; messages beyond that are dropped.
const LONGEST: usize = 1000;

/// Writes lines for the run to read.
pub struct JobEventWriter {
    lines: Mutex<PendingLines>,
}

struct PendingLines {
    file: LineFile,
    /// In order. The file has none of them.
    pending: VecDeque<Vec<u8>>,
}

impl JobEventWriter {
    pub const fn new(file: LineFile) -> Self {
        Self { lines: Mutex::new(PendingLines { file, pending: VecDeque::new() }) }
    }

    pub fn write_event(&self, line: &JobEvent) {
        let Ok(mut text) = serde_json::to_vec(line) else { return };
        text.push(b'\n');
        let mut lines = self.lines.lock();
        let is_transient = matches!(line, JobEvent::Event(Event::Progress { .. }));
        let is_message = matches!(line, JobEvent::Event(_));
        if is_transient && !lines.pending.is_empty() || is_message && lines.pending.len() >= LONGEST {
            return;
        }
        lines.pending.push_back(text);
        // What is not taken is no reason to stop working.
        if lines.write().is_err() && is_transient {
            lines.pending.pop_back();
        } else if !is_transient {
            // Else a network's filesystem may show it after the job's end, when it is not read any more.
            let _ = lines.sync();
        }
    }

    /// Writes what could not be written before.
    ///
    /// # Errors
    /// It cannot be written yet.
    pub fn write_pending(&self) -> Result<(), PathError> {
        let mut lines = self.lines.lock();
        if lines.pending.is_empty() {
            return Ok(());
        }
        lines.write()?;
        let _ = lines.sync();
        Ok(())
    }

    /// The messages for the run: its processes concern only this node.
    pub fn event(&self, event: Event) {
        match event {
            Event::Notice { .. } | Event::Progress { .. } => self.write_event(&JobEvent::Event(event)),
            Event::ExternalResourceStarted { resource: thing, .. } => {
                self.write_event(&JobEvent::ExternalResource { thing, there: true });
            }
            Event::ExternalResourceRemoved { resource: thing, .. } => {
                self.write_event(&JobEvent::ExternalResource { thing, there: false });
            }
            _ => {}
        }
    }
}

impl PendingLines {
    fn write(&mut self) -> Result<(), PathError> {
        let Self { file, pending } = self;
        write_each(pending, |line| file.append(line))
    }

    fn sync(&self) -> Result<(), PathError> {
        self.file.try_clone()?.sync_data().at("sync", self.file.path())
    }
}

/// By one write each: a reader must not have read what is cut off again after half of them.
fn write_each(
    pending: &mut VecDeque<Vec<u8>>,
    mut append: impl FnMut(&[u8]) -> Result<(), PathError>,
) -> Result<(), PathError> {
    while let Some(line) = pending.front() {
        append(line)?;
        pending.pop_front();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::event::TaskId;
    use runner::store::JobFolder;

    #[test]
    fn a_line_that_a_full_disk_refused_is_written_later_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let job = JobFolder::at(folder.path());
        let events = folder.path().join("events");
        // What it takes no byte of: a device that is always full, and then a disk.
        std::os::unix::fs::symlink("/dev/full", &events).unwrap();
        let writer = JobEventWriter::new(job.open_events_file().unwrap());
        writer.write_event(&JobEvent::Ready(Vec::new()));
        let task = Some(TaskId::new("it"));
        writer.event(Event::Notice { task, text: "one".to_owned() });
        assert!(writer.write_pending().is_err());
        assert_eq!(writer.lines.lock().pending.len(), 2);
        std::fs::remove_file(&events).unwrap();
        writer.lines.lock().file = job.open_events_file().unwrap();
        writer.write_pending().unwrap();
        let (lines, _) = job.read_event_lines(0).unwrap();
        let read: Vec<JobEvent> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(matches!(&read[..], [JobEvent::Ready(_), JobEvent::Event(Event::Notice { .. })]), "{read:?}");
    }
}
