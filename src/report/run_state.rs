//! The one fold: events in, a run state out. Live events and replayed ones give the same state.
//!
//! It reads no clock. A caller that knows when an event happened uses [`RunState::fold_at`]; without times there is
//! everything but the timeline.

use std::collections::BTreeMap;
use std::path::PathBuf;

use indexmap::IndexMap;
use serde::Serialize;

use base::event::{Done, Endpoint, Event, Failure, FailureKind, LiveMeasurement, RunId, TaskId, TaskTally, Verdict};
use base::files::Digest;
use base::units::run_command;

/// The state of a run after the events so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunState {
    pub run: Option<RunId>,
    pub manifest: String,
    pub params: BTreeMap<String, String>,
    /// The `KEY=VALUE` arguments that make the same plan.
    #[serde(skip)]
    pub settings: Vec<String>,
    /// How many tasks the plan has.
    pub total: usize,
    pub jobs: usize,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// The run this one waits for: its name and process.
    pub waiting_for: Option<(String, u32)>,
    /// In the order in which they first appear.
    pub tasks: IndexMap<TaskId, TaskState>,
    /// Cached tasks that were reported as a number only.
    pub cached_at_once: usize,
    pub notices: Vec<Notice>,
    pub stopping: Option<String>,
    pub finished: Option<Finished>,
    /// What ended so far, counted from the events themselves.
    pub tally: TaskTally,
    /// Servers that were not started because no task needed them. No event reports them: they are counted from the
    /// plan, after the end.
    #[serde(skip)]
    pub not_needed: usize,
}

/// One task's part.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TaskState {
    pub state: TaskPhase,
    pub service: bool,
    pub attempts: u32,
    /// The shared store that a cached one came from, in this run.
    pub from: Option<String>,
    /// Why it was not cached.
    pub reasons: Vec<String>,
    /// Why it was skipped or cancelled.
    pub why: Option<String>,
    pub headline: Option<String>,
    /// Lines below it, each with a name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<(String, String)>,
    /// What qualifies its verdict.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    pub failure: Option<Box<Failure>>,
    /// What went wrong in attempts that were tried again.
    pub retried: Vec<String>,
    pub log: Option<PathBuf>,
    pub out: Option<PathBuf>,
    pub digest: Option<Digest>,
    pub unchanged: bool,
    /// How long it took, or a service was up; of the last attempt.
    pub seconds: Option<f64>,
    /// Seconds from the start of the run, where known.
    pub started: Option<f64>,
    pub ended: Option<f64>,
    /// Services: seconds until ready.
    pub ready: Option<f64>,
    pub endpoints: Vec<Endpoint>,
    /// The last progress event; removed when the task ends.
    pub progress: Option<Box<TaskProgress>>,
    /// Process groups that are up.
    pub groups: Vec<i32>,
}

base::named! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    pub enum TaskPhase {
        #[default]
        Running = "running",
        /// A service that is ready.
        Serving = "up",
        Ran = "ran",
        Cached = "cached",
        Skipped = "skipped",
        Failed = "failed",
        Cancelled = "cancelled",
        /// Failed, and about to be tried again.
        Retrying = "retrying",
    }
}

impl TaskPhase {
    pub const fn is_finished(self) -> bool {
        !matches!(self, Self::Running | Self::Serving | Self::Retrying)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskProgress {
    pub text: String,
    pub done: u64,
    pub total: Option<u64>,
    /// Of a benchmark that measures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveMeasurement>,
}

impl TaskProgress {
    /// How far it is; the text of a measurement begins with its count.
    pub fn line(&self) -> String {
        match self.total.filter(|_| self.live.is_none()) {
            Some(total) => format!("{} of {total} {}", self.done, self.text),
            None => self.text.clone(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    pub task: Option<TaskId>,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Finished {
    /// As the runner counted.
    pub tally: TaskTally,
    pub exit: u8,
    pub seconds: f64,
}

impl TaskState {
    fn set_done(&mut self, done: &Done) {
        self.headline.clone_from(&done.headline);
        self.below.clone_from(&done.below);
        self.warnings.clone_from(&done.warnings);
    }

    /// Of a benchmark: its server and its load in a line.
    pub fn workload(&self) -> Option<&String> {
        self.below.iter().find(|(name, _)| name == "workload").map(|(_, line)| line)
    }

    /// `service` as given, which attempt it was, and whether its output is what it was.
    pub(crate) fn notes(&self, service: Option<&str>) -> Vec<String> {
        let attempt = (self.attempts > 1).then(|| format!("attempt {}", self.attempts));
        let unchanged = self.unchanged.then(|| "output unchanged".to_owned());
        service.map(str::to_owned).into_iter().chain(attempt).chain(unchanged).collect()
    }

    /// The state as text for readers: an interrupted task did not fail.
    pub fn label(&self) -> &'static str {
        if self.is_interrupted() { "interrupted" } else { self.state.as_str() }
    }

    /// Where its output is; of one that failed, what it kept.
    pub fn folder(&self) -> Option<&PathBuf> {
        self.out.as_ref().or_else(|| self.failure.as_ref()?.kept.as_ref())
    }

    fn is_interrupted(&self) -> bool {
        let kind = self.failure.as_ref().map(|failure| failure.kind);
        self.state == TaskPhase::Failed && kind == Some(FailureKind::Interrupted)
    }
}

impl RunState {
    pub fn new() -> Self {
        Self::default()
    }

    /// The command that runs it again.
    pub fn again(&self) -> String {
        run_command(std::iter::once(&self.manifest).chain(&self.settings).map(String::as_str))
    }

    /// The next event, at an unknown time.
    pub fn fold(&mut self, event: &Event) {
        self.fold_at(event, None);
    }

    /// How many tasks are finished, in any way.
    pub const fn done(&self) -> usize {
        let TaskTally { ran, cached, skipped, failed, cancelled } = self.tally;
        ran + cached + skipped + failed + cancelled
    }

    /// How many tasks that were running were interrupted; the tally has them among those that failed.
    pub fn interrupted(&self) -> usize {
        self.in_phase(TaskPhase::Failed).filter(|(_, entry)| entry.is_interrupted()).count()
    }

    /// The worst verdict of the benchmarks that failed, where nothing else did.
    pub fn verdict(&self) -> Option<Verdict> {
        let failures = self.in_phase(TaskPhase::Failed).filter_map(|(_, entry)| entry.failure.as_deref());
        let verdict = |failure: &Failure| match failure.kind {
            FailureKind::Invalid(verdict) => Some(verdict),
            _ => None,
        };
        failures.map(verdict).collect::<Option<Vec<Verdict>>>()?.into_iter().max()
    }

    /// How many tasks have no event of their end: those that the run did not reach, and servers that no task needed.
    pub const fn unmentioned(&self) -> usize {
        self.total.saturating_sub(self.done())
    }

    /// How many tasks came to an end of their own: not those that were interrupted, or not started.
    pub fn finished_tasks(&self) -> usize {
        self.done() - self.tally.cancelled - self.interrupted()
    }

    /// Tasks that are running, services that are up.
    pub fn running(&self) -> impl Iterator<Item = (&TaskId, &TaskState)> {
        self.tasks.iter().filter(|(_, entry)| !entry.state.is_finished())
    }

    /// Tasks in a state, in the order in which they first appear.
    pub fn in_phase(&self, state: TaskPhase) -> impl Iterator<Item = (&TaskId, &TaskState)> {
        self.tasks.iter().filter(move |(_, entry)| entry.state == state)
    }

    /// The state of a task; creates it if the task is new.
    fn entry(&mut self, task: &TaskId) -> &mut TaskState {
        if !self.tasks.contains_key(task) {
            self.tasks.insert(task.clone(), TaskState::default());
        }
        &mut self.tasks[task]
    }

    /// Every change of state passes here, so that the tally equals the count of the tasks even if an event repeats.
    fn set(&mut self, task: &TaskId, state: TaskPhase, at: Option<f64>) -> &mut TaskState {
        let before = self.tasks.get(task).map(|entry| entry.state);
        if let Some(count) = before.and_then(|state| count_of(&mut self.tally, state)) {
            *count -= 1;
        }
        if let Some(count) = count_of(&mut self.tally, state) {
            *count += 1;
        }
        let entry = self.entry(task);
        entry.state = state;
        entry.progress = None;
        entry.ended = if state.is_finished() { at.or(entry.ended) } else { None };
        entry
    }

    /// The next event; `at`: how many seconds after the run started, where that is known.
    pub fn fold_at(&mut self, event: &Event, at: Option<f64>) {
        match event {
            Event::RunStarted { run, manifest, params, settings, tasks, jobs, at, pid: _ } => {
                self.run = Some(run.clone());
                self.manifest.clone_from(manifest);
                self.params.clone_from(params);
                self.settings.clone_from(settings);
                self.total = *tasks;
                // Growing in steps takes twice the memory; what a file says may be wrong.
                self.tasks.reserve((*tasks).min(1 << 17));
                self.jobs = *jobs;
                self.started_at.clone_from(at);
                self.waiting_for = None;
            }
            Event::Waiting { run, pid } => self.waiting_for = Some((run.clone(), *pid)),
            Event::TaskCached { task, done, out, from } => {
                let entry = self.set(task, TaskPhase::Cached, at);
                entry.set_done(done);
                entry.out.clone_from(out);
                entry.from.clone_from(from);
            }
            Event::TaskFetching { task, .. } => {
                self.set(task, TaskPhase::Running, at).started = at;
            }
            Event::AllCached { tasks } => {
                self.cached_at_once += tasks;
                self.tally.cached += tasks;
            }
            Event::TaskSkipped { task, why } => {
                self.set(task, TaskPhase::Skipped, at).why = Some(why.clone());
            }
            Event::TaskStarted { task, attempt, service, reasons, log } => {
                let entry = self.set(task, TaskPhase::Running, at);
                entry.service = *service;
                entry.attempts = *attempt;
                entry.reasons.clone_from(reasons);
                entry.log.clone_from(log);
                entry.started = at;
            }
            Event::ProcessStarted { task, pgid } => self.entry(task).groups.push(*pgid),
            Event::ExternalResourceStarted { .. }
            | Event::ExternalResourceRemoved { .. }
            | Event::MetricsServed { .. } => {}
            Event::ProcessEnded { task, pgid } => {
                let groups = &mut self.entry(task).groups;
                groups.retain(|group| group != pgid);
                // Of thousands of tasks, few have a process.
                groups.shrink_to_fit();
            }
            Event::ServiceReady { task, endpoints, seconds } => {
                let entry = self.set(task, TaskPhase::Serving, at);
                entry.service = true;
                entry.ready = Some(*seconds);
                entry.endpoints.clone_from(endpoints);
            }
            Event::ServiceStopped { task, seconds } => {
                // A service that failed stays failed: that it went down as well adds nothing.
                if self.tasks.get(task).is_none_or(|entry| entry.state != TaskPhase::Failed) {
                    self.set(task, TaskPhase::Ran, at);
                }
                let entry = self.entry(task);
                entry.service = true;
                entry.seconds = Some(*seconds);
            }
            Event::TaskFinished { task, done, out, digest, unchanged, seconds } => {
                let entry = self.set(task, TaskPhase::Ran, at);
                entry.set_done(done);
                entry.out.clone_from(out);
                entry.digest = *digest;
                entry.unchanged = *unchanged;
                entry.seconds = Some(*seconds);
            }
            Event::TaskFailed { task, attempt, failure, will_retry, seconds } => {
                let entry = if *will_retry {
                    let entry = self.set(task, TaskPhase::Retrying, at);
                    entry.retried.push(failure.what.clone());
                    entry
                } else {
                    let entry = self.set(task, TaskPhase::Failed, at);
                    entry.below.clone_from(&failure.below);
                    entry.failure = Some(failure.clone());
                    entry
                };
                entry.attempts = *attempt;
                entry.seconds = Some(*seconds);
            }
            Event::TaskCancelled { task, why } => {
                self.set(task, TaskPhase::Cancelled, at).why = Some(why.clone());
            }
            Event::Notice { task, text } => self.notices.push(Notice { task: task.clone(), text: text.clone() }),
            Event::Progress { task, text, done, total, live } => {
                // Progress events may come late; they never bring a task back, and a server that is ready no longer
                // loads.
                let is_over = |entry: &TaskState| entry.state.is_finished() || entry.state == TaskPhase::Serving;
                if let Some(entry) = self.tasks.get_mut(task).filter(|entry| !is_over(entry)) {
                    let progress = TaskProgress { text: text.clone(), done: *done, total: *total, live: *live };
                    entry.progress = Some(Box::new(progress));
                }
            }
            Event::Stopping { why } => self.stopping = Some(why.clone()),
            Event::RunFinished { tally, exit, seconds } => {
                self.finished = Some(Finished { tally: *tally, exit: *exit, seconds: *seconds });
            }
        }
    }
}

const fn count_of(tally: &mut TaskTally, state: TaskPhase) -> Option<&mut usize> {
    match state {
        TaskPhase::Ran => Some(&mut tally.ran),
        TaskPhase::Cached => Some(&mut tally.cached),
        TaskPhase::Skipped => Some(&mut tally.skipped),
        TaskPhase::Failed => Some(&mut tally.failed),
        TaskPhase::Cancelled => Some(&mut tally.cancelled),
        TaskPhase::Running | TaskPhase::Serving | TaskPhase::Retrying => None,
    }
}

#[cfg(test)]
mod tests {
    // Whatever events come in whatever order, the run state keeps its invariants.

    use proptest::prelude::*;

    use super::*;
    use base::event::{Done, FailureKind};

    fn a_task() -> impl Strategy<Value = TaskId> {
        (0..4u8).prop_map(|n| TaskId::new(format!("task/{n}")))
    }

    fn an_event() -> impl Strategy<Value = Event> {
        prop_oneof![
            (a_task(), any::<bool>()).prop_map(|(task, service)| Event::TaskStarted {
                task,
                attempt: 1,
                service,
                reasons: vec!["input `a` changed".to_owned()],
                log: None,
            }),
            (a_task(), "[a-z]{0,4}", any::<u16>()).prop_map(|(task, text, done)| Event::Progress {
                task,
                text,
                done: done.into(),
                total: None,
                live: None,
            }),
            a_task().prop_map(|task| Event::TaskCached { task, done: Done::default(), out: None, from: None }),
            a_task().prop_map(|task| Event::TaskSkipped { task, why: "`when` is false".to_owned() }),
            a_task().prop_map(|task| Event::TaskCancelled { task, why: "`a` failed".to_owned() }),
            (a_task(), 1..99i32).prop_map(|(task, pgid)| Event::ProcessStarted { task, pgid }),
            (a_task(), 1..99i32).prop_map(|(task, pgid)| Event::ProcessEnded { task, pgid }),
            (a_task(), 0..9u8).prop_map(|(task, s)| Event::ServiceStopped { task, seconds: s.into() }),
            (a_task(), 0..9u8).prop_map(|(task, s)| Event::ServiceReady { task, endpoints: vec![], seconds: s.into() }),
            (a_task(), any::<bool>(), 0..9u8).prop_map(|(task, unchanged, s)| Event::TaskFinished {
                task,
                done: Done { headline: Some("VALID  9 tok/s".to_owned()), ..Done::default() },
                out: None,
                digest: None,
                unchanged,
                seconds: s.into(),
            }),
            (a_task(), any::<bool>()).prop_map(|(task, will_retry)| Event::TaskFailed {
                task,
                attempt: 1,
                failure: Box::new(Failure::new(FailureKind::Exit(1), "exit code 1")),
                will_retry,
                seconds: 1.0,
            }),
            (0..3usize).prop_map(|tasks| Event::AllCached { tasks }),
            Just(Event::Notice { task: None, text: "something".to_owned() }),
            Just(Event::Stopping { why: "interrupted".to_owned() }),
        ]
    }

    fn folded_state(events: &[Event]) -> RunState {
        let mut run_state = RunState::new();
        for event in events {
            run_state.fold(event);
        }
        run_state
    }

    proptest! {
        /// A state can be saved at any point and completed by a reader that has the rest from a file of JSON lines.
        #[test]
        fn a_prefix_and_then_the_rest_are_all(events in prop::collection::vec(an_event(), 0..60), cut in 0..60usize) {
            let (head, rest) = events.split_at(cut.min(events.len()));
            let mut run_state = folded_state(head).clone();
            for event in rest {
                let line = serde_json::to_string(event).expect("JSON");
                run_state.fold(&serde_json::from_str(&line).expect("an event"));
            }
            prop_assert_eq!(run_state, folded_state(&events));
        }

        /// The journal has no progress events; a state folded from it differs in nothing that lasts.
        #[test]
        fn chatter_leaves_no_trace(events in prop::collection::vec(an_event(), 0..60)) {
            let facts: Vec<Event> = events.iter().filter(|event| event.is_fact()).cloned().collect();
            let mut live = folded_state(&events);
            live.tasks.values_mut().for_each(|entry| entry.progress = None);
            prop_assert_eq!(live, folded_state(&facts));
        }

        /// A finished task is counted once, and in the column it is shown in.
        #[test]
        fn the_tally_is_the_count_of_the_chapters(events in prop::collection::vec(an_event(), 0..60)) {
            let run_state = folded_state(&events);
            let count = |state| run_state.in_phase(state).count();
            let expected = TaskTally {
                ran: count(TaskPhase::Ran),
                cached: count(TaskPhase::Cached) + run_state.cached_at_once,
                skipped: count(TaskPhase::Skipped),
                failed: count(TaskPhase::Failed),
                cancelled: count(TaskPhase::Cancelled),
            };
            prop_assert_eq!(run_state.tally, expected);
        }
    }

    #[test]
    fn a_retry_that_succeeds_is_no_failure_but_is_remembered() {
        let task = TaskId::new("fetch");
        let started =
            |attempt| Event::TaskStarted { task: task.clone(), attempt, service: false, reasons: vec![], log: None };
        let run_state = folded_state(&[
            started(1),
            Event::TaskFailed {
                task: task.clone(),
                attempt: 1,
                failure: Box::new(Failure::new(FailureKind::Timeout, "ran past 10s")),
                will_retry: true,
                seconds: 10.0,
            },
            started(2),
            Event::TaskFinished {
                task: task.clone(),
                done: Done::default(),
                out: None,
                digest: None,
                unchanged: false,
                seconds: 2.0,
            },
        ]);
        let entry = &run_state.tasks[&task];
        assert_eq!((entry.state, entry.attempts), (TaskPhase::Ran, 2));
        assert_eq!(entry.retried, ["ran past 10s"]);
        assert!(entry.failure.is_none());
        assert_eq!(run_state.tally, TaskTally { ran: 1, ..TaskTally::default() });
    }
}
