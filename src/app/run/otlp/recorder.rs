//! What a trace needs of a run: its state with times, and the phases of each task.

use std::time::Instant;

use indexmap::IndexMap;

use base::event::{Event, TaskId};
use report::RunState;

/// A task with more phases is one whose progress has no phases: each line is another.
const MOST_PHASES: usize = 12;

/// What a task does before its first progress.
const SET_UP: &str = "set-up";

/// A part of a task, as its progress named it. Times in seconds from the start of the run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TaskPart {
    pub name: String,
    pub from: f64,
    pub to: f64,
}

/// Folds the events of a run as they happen.
#[derive(Debug)]
pub struct OtlpRecorder {
    begun: Instant,
    state: RunState,
    parts: IndexMap<TaskId, Vec<TaskPart>>,
}

impl OtlpRecorder {
    pub fn new() -> Self {
        Self { begun: Instant::now(), state: RunState::new(), parts: IndexMap::new() }
    }

    pub fn take(&mut self, event: &Event) {
        if matches!(event, Event::RunStarted { .. }) {
            self.begun = Instant::now();
        }
        self.take_at(event, self.begun.elapsed().as_secs_f64());
    }

    fn take_at(&mut self, event: &Event, now: f64) {
        self.state.fold_at(event, now);
        match event {
            Event::TaskStarted { task, .. } => {
                self.parts.insert(task.clone(), vec![TaskPart { name: SET_UP.to_owned(), from: now, to: now }]);
            }
            Event::Progress { task, text, live, .. } => {
                // "answered, 3 failed" is the same phase with another number in it.
                let name = if live.is_some() { "measurement" } else { text.split(',').next().unwrap_or(text) };
                self.enter(task, name, now);
            }
            Event::TaskFinished { task, .. } | Event::TaskFailed { task, .. } | Event::ServiceReady { task, .. } => {
                if let Some(last) = self.parts.get_mut(task).and_then(|parts| parts.last_mut()) {
                    last.to = now;
                }
            }
            _ => {}
        }
    }

    fn enter(&mut self, task: &TaskId, name: &str, now: f64) {
        let parts = self.parts.entry(task.clone()).or_default();
        match parts.last_mut() {
            Some(last) if last.name == name => last.to = now,
            last => {
                if let Some(last) = last {
                    last.to = now;
                }
                parts.push(TaskPart { name: name.to_owned(), from: now, to: now });
            }
        }
    }

    pub(super) const fn state(&self) -> &RunState {
        &self.state
    }

    pub(super) fn parts(&self, task: &TaskId) -> &[TaskPart] {
        let parts = self.parts.get(task).map_or(&[][..], Vec::as_slice);
        let is_set_up_alone = matches!(parts, [only] if only.name == SET_UP);
        if is_set_up_alone || parts.len() > MOST_PHASES { &[] } else { parts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::event::LiveMeasurement;

    #[test]
    fn the_parts_of_a_task_follow_each_other_and_lines_without_end_are_none() {
        let mut recorder = OtlpRecorder::new();
        let task = TaskId::new("load/server");
        let progress = |text: &str, live: Option<LiveMeasurement>| Event::Progress {
            task: task.clone(),
            text: text.to_owned(),
            done: 0,
            total: None,
            live,
        };
        let live = Some(LiveMeasurement::default());
        let started =
            Event::TaskStarted { task: task.clone(), attempt: 1, service: false, reasons: Vec::new(), log: None };
        recorder.take_at(&started, 0.5);
        assert_eq!(recorder.parts(&task), []);
        for (at, event) in [
            (1.0, progress("connecting", None)),
            (2.0, progress("answered", live)),
            (3.0, progress("answered, 2 failed", live)),
            (7.5, progress("writing results", None)),
        ] {
            recorder.take_at(&event, at);
        }
        let found: Vec<_> = recorder.parts(&task).iter().map(|part| (part.name.as_str(), part.from, part.to)).collect();
        let expected =
            [("set-up", 0.5, 1.0), ("connecting", 1.0, 2.0), ("measurement", 2.0, 7.5), ("writing results", 7.5, 7.5)];
        assert_eq!(found, expected);
        for n in 0..20 {
            recorder.take_at(&progress(&format!("file {n}"), None), 8.0);
        }
        assert_eq!(recorder.parts(&task), []);
    }
}
