//! How far a run's tasks are, for other processes that look at the run. Progress is no fact: it is not in the journal, and the file
//! goes away with the run.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::StateFolder;
use base::event::{Event, RunId, TaskId};
use base::files::read_text;

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
