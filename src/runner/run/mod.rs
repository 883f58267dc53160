//! The one loop: queries the schedule, looks in the cache, starts tries, handles their results.

mod announce_services;
mod cache_lookup;
mod finish;
mod key_state;
mod retry;
mod schedule_items;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::attempt::{AttemptInputs, AttemptOutcome, accept, system};
use super::batches::{BatchSlot, Batches};
use super::keying::{Keyed, TaskOutput, key_of, look_up, own_patterns, reasons};
use super::options::{EventEmitter, RunOptions, RunSummary, TaskRole};
use super::output_source::FetchedOutput;
use super::schedule::{ScheduleState, StartItem, TaskEnd, TaskIndex, TaskSchedule};
use super::task_executor::TaskExecutor;
use crate::event::{Digest, Endpoint, Event, Failure, FailureKind, GpuId, ReducedSetting, RunId, Stop, TaskId};
use crate::plan::{Lifetime, Plan, SharedTask};
use crate::runner::store::{Digests, Latest, Lookup, OutputCache};
use key_state::KeyState;
use schedule_items::items;

enum RunnerMessage {
    Keyed(TaskIndex, Result<Keyed, Failure>),
    /// What the shared store has for a key.
    RemoteLookup(TaskIndex, Option<Box<FetchedOutput>>),
    Ready(TaskIndex, Vec<Endpoint>),
    AttemptEnded(TaskIndex, AttemptOutcome),
    /// The pause before the next try has ended.
    RetryDue(TaskIndex),
    /// The same, when the next try has another key.
    RetryDueWithNewKey(TaskIndex),
}

struct Running {
    stop: Stop,
    attempt: u32,
    begun: Instant,
    gpus: Vec<GpuId>,
}

struct Runner<W> {
    plan: Arc<Plan>,
    work: Arc<W>,
    cache: Arc<OutputCache>,
    latest: Latest,
    digests: Arc<Digests>,
    options: RunOptions,
    run: RunId,
    stop: Stop,
    emit: EventEmitter,
    schedule: TaskSchedule,
    keys: Vec<KeyState>,
    /// Tasks with the output that the last run of this plan left.
    unchanged: Vec<bool>,
    /// `latest` leads to this manifest's outputs.
    is_latest_shown: bool,
    /// The task that makes the output of each key.
    task_by_key: HashMap<Digest, TaskIndex>,
    outputs: Vec<Option<TaskOutput>>,
    running: BTreeMap<TaskIndex, Running>,
    /// Tries that were thrown away because an input changed under them.
    stale: BTreeMap<TaskIndex, u32>,
    /// Attempts that lost their machine.
    lost_machine_attempts: BTreeMap<TaskIndex, u32>,
    /// Running steps that were stopped because this server died.
    stopped_by_server: BTreeMap<TaskIndex, TaskIndex>,
    /// Of those, the ones that wait for a restart of their server.
    to_repeat: BTreeSet<TaskIndex>,
    /// Tries of tasks that are tried again under another key.
    tries: BTreeMap<TaskIndex, u32>,
    /// The caller has the addresses of its services.
    services_announced: bool,
    /// Groups of tasks that were started together.
    parties: u32,
    summary: RunSummary,
    send: mpsc::UnboundedSender<RunnerMessage>,
}

/// Runs a plan to its end. The caller holds the project's lock and has called [`OutputCache::begin`].
#[expect(clippy::too_many_arguments, reason = "everything that a run is made of, once")]
pub async fn run<W: TaskExecutor>(
    plan: Arc<Plan>,
    work: Arc<W>,
    shelf: Arc<OutputCache>,
    digests: Arc<Digests>,
    options: RunOptions,
    id: RunId,
    stop: Stop,
    emit: EventEmitter,
) -> RunSummary {
    let (send, receive) = mpsc::unbounded_channel();
    let n = plan.tasks.len();
    let mut runner = Runner {
        schedule: TaskSchedule::new(items(&plan, &options), options.jobs, options.gpus.iter().copied()),
        latest: Latest::new(shelf.home(), &plan.name),
        plan,
        work,
        cache: shelf,
        digests,
        options,
        run: id,
        stop,
        emit,
        keys: vec![KeyState::Unseen; n],
        unchanged: vec![false; n],
        is_latest_shown: false,
        task_by_key: HashMap::new(),
        outputs: vec![None; n],
        running: BTreeMap::new(),
        stale: BTreeMap::new(),
        lost_machine_attempts: BTreeMap::new(),
        stopped_by_server: BTreeMap::new(),
        to_repeat: BTreeSet::new(),
        tries: BTreeMap::new(),
        services_announced: false,
        parties: 0,
        summary: RunSummary::default(),
        send,
    };
    runner.run_loop(receive).await;
    runner.finish()
}

impl<W: TaskExecutor> Runner<W> {
    async fn run_loop(&mut self, mut receive: mpsc::UnboundedReceiver<RunnerMessage>) {
        /// How often what was recorded is made to survive a power cut.
        const SYNC: Duration = Duration::from_secs(5);
        let mut sync = tokio::time::interval_at(tokio::time::Instant::now() + SYNC, SYNC);
        sync.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (stop, release) = (self.stop.clone(), self.services_release());
        let (mut stopping, mut released) = (false, false);
        self.note_skipped();
        loop {
            self.advance();
            if self.schedule.is_finished() {
                break;
            }
            tokio::select! {
                biased;
                () = stop.requested(), if !stopping => {
                    stopping = true;
                    self.summary.interrupted = true;
                    self.schedule.halt();
                }
                () = release.requested(), if !released => {
                    released = true;
                    self.schedule.release_kept_services();
                }
                Some(msg) = receive.recv() => {
                    self.take(msg);
                    while let Ok(msg) = receive.try_recv() {
                        self.take(msg);
                    }
                }
                _ = sync.tick() => {
                    let output_cache = Arc::clone(&self.cache);
                    drop(tokio::task::spawn_blocking(move || output_cache.sync()));
                }
            }
        }
    }

    /// Everything that can be decided without waiting.
    fn advance(&mut self) {
        loop {
            while let Some(ix) = self.schedule.next_to_key() {
                self.key(ix);
            }
            self.emit_cancelled();
            for ix in self.schedule.take_to_stop() {
                match self.running.get(&ix) {
                    Some(running) => running.stop.request(),
                    None => self.schedule.finish_task(ix, TaskEnd::Done),
                }
            }
            let starts: Vec<StartItem> = std::iter::from_fn(|| self.schedule.next_to_start()).collect();
            if !starts.is_empty() {
                self.start_all(starts);
                continue;
            }
            if let Some(ix) = self.schedule.deadlocked_task() {
                self.cannot_have_gpus(ix);
                continue;
            }
            return;
        }
    }

    fn task(&self, ix: TaskIndex) -> SharedTask {
        SharedTask::new(&self.plan, ix as usize)
    }

    fn id(&self, ix: TaskIndex) -> &TaskId {
        &self.plan.tasks[ix as usize].id
    }

    fn note_skipped(&mut self) {
        for (ix, task) in self.plan.tasks.iter().enumerate() {
            if let (Some(why), false) = (&task.skipped, self.options.roles[ix] == TaskRole::NotNeeded) {
                self.summary.tally.skipped += 1;
                self.summary.skipped.push((task.id.clone(), why.clone()));
                (self.emit)(Event::TaskSkipped { task: task.id.clone(), why: why.clone() });
            }
        }
    }

    fn key(&mut self, ix: TaskIndex) {
        if let Some(record) = self.unchanged_record(ix) {
            return self.take_unchanged(ix, &record);
        }
        let task = self.task(ix);
        let upstream: BTreeMap<u32, _> = task
            .needs
            .iter()
            .filter_map(|need| Some((need.task, self.outputs[need.task as usize].as_ref()?.digest()?)))
            .collect();
        let project = self.cache.home().project();
        let asks_servers = task.cache && task.external.is_some();
        let slow = task.container.is_some()
            || asks_servers
            || task.inputs.values().any(|p| own_patterns(p) && !self.digests.is_quick(project, p));
        let work = Arc::clone(&self.work);
        let (plan, shelf, digests) = (Arc::clone(&self.plan), Arc::clone(&self.cache), Arc::clone(&self.digests));
        let key =
            move || key_of(&plan, &task, work.facts(&task), |need| upstream.get(&need).copied(), &shelf, &digests);
        if slow {
            // Reading a large input is not the loop's work, nor is waiting for a container program.
            let send = self.send.clone();
            tokio::task::spawn_blocking(move || {
                let _ = send.send(RunnerMessage::Keyed(ix, key()));
            });
        } else {
            let keyed = key();
            self.take_keyed(ix, keyed);
        }
    }

    fn take_keyed(&mut self, ix: TaskIndex, keyed: Result<Keyed, Failure>) {
        if self.schedule.state(ix) != ScheduleState::ComputingKey {
            return;
        }
        let keyed = match keyed {
            Ok(keyed) => Arc::new(keyed),
            Err(failure) => return self.fail(ix, 1, failure, 0.0),
        };
        let forced = self.options.forced[ix as usize];
        if forced && keyed.lowered.is_some() && !self.tries.contains_key(&ix) {
            // A forced task runs with the manifest's value.
            self.cache.forget_lowered(&keyed.base);
            return self.key(ix);
        }
        self.set_key(ix, Arc::clone(&keyed));
        let task = self.task(ix);
        if task.lifetime == Lifetime::Service {
            return self.schedule.set_keyed(ix);
        }
        if forced || !task.cache {
            return self.schedule.set_cache_miss(ix);
        }
        match look_up(&*self.work, &task, &keyed.digest, &self.cache) {
            Lookup::Hit(record) => self.take_hit(ix, &record, None),
            _ if self.options.roles[ix as usize] == TaskRole::Restore && self.options.output_source.is_none() => {
                self.missed(ix);
            }
            _ => {
                let maker =
                    if task.is_determined_by_key() { *self.task_by_key.entry(keyed.digest).or_insert(ix) } else { ix };
                if maker != ix && !matches!(self.schedule.state(maker), ScheduleState::Finished(_)) {
                    return self.schedule.waits_for(ix, maker);
                }
                if !self.request_remote_output(ix, &keyed) {
                    self.missed(ix);
                }
            }
        }
    }

    fn set_key(&mut self, ix: TaskIndex, keyed: Arc<Keyed>) {
        if self.task(ix).lifetime == Lifetime::Service {
            let (key, lowered) = (keyed.digest, keyed.lowered.clone());
            self.outputs[ix as usize] =
                Some(TaskOutput::Service { key, endpoints: Vec::new(), gpus: Vec::new(), lowered });
        }
        self.keys[ix as usize] = KeyState::Keyed(keyed);
    }

    /// Everything that may start in this moment: those that could be one job array are linked with each other.
    fn start_all(&mut self, starts: Vec<StartItem>) {
        let tasks: Vec<SharedTask> = starts.iter().map(|start| self.task(start.task)).collect();
        let seats = Batches::new(&self.run, &mut self.parties).assign_slots(&tasks);
        for (start, seat) in starts.into_iter().zip(seats) {
            let attempt = 1 + self.tries.get(&start.task).copied().unwrap_or_default();
            self.start(start.task, attempt, start.gpus, seat);
        }
    }

    fn start(&mut self, ix: TaskIndex, attempt: u32, gpus: Vec<GpuId>, seat: Option<BatchSlot>) {
        let task = self.task(ix);
        let Some(keyed) = self.keyed(ix) else { return };
        let service = task.lifetime == Lifetime::Service;
        let mut why = if attempt > 1 {
            vec![format!("try {attempt}")]
        } else if service {
            Vec::new()
        } else {
            let look = look_up(&*self.work, &task, &keyed.digest, &self.cache);
            reasons(&self.plan, &task, &keyed, &look, &self.cache, self.options.forced[ix as usize])
        };
        why.extend(keyed.lowered.as_ref().map(ReducedSetting::because));
        (self.emit)(Event::TaskStarted {
            task: task.id.clone(),
            attempt,
            service,
            reasons: why,
            log: Some(self.cache.home().log(&self.run, &task.id)),
        });
        let stop = self.stop.child();
        let ready = service.then(|| {
            let (sender, receiver) = oneshot::channel();
            let send = self.send.clone();
            tokio::spawn(async move {
                if let Ok(endpoints) = receiver.await {
                    let _ = send.send(RunnerMessage::Ready(ix, endpoints));
                }
            });
            sender
        });
        let made =
            task.needs.iter().map(|n| self.outputs[n.task as usize].clone().unwrap_or(TaskOutput::Nothing)).collect();
        let attempt_now = AttemptInputs {
            plan: Arc::clone(&self.plan),
            task,
            keyed,
            attempt,
            gpus: gpus.clone(),
            batch_slot: seat,
            outputs: made,
            run: self.run.clone(),
            cache: Arc::clone(&self.cache),
            digests: Arc::clone(&self.digests),
            stop: stop.clone(),
            emit: Arc::clone(&self.emit),
            ready,
        };
        self.running.insert(ix, Running { stop, attempt, begun: Instant::now(), gpus });
        let (work, send) = (Arc::clone(&self.work), self.send.clone());
        tokio::spawn(async move {
            let tried = attempt_now.run(work).await;
            let _ = send.send(RunnerMessage::AttemptEnded(ix, tried));
        });
    }

    fn take(&mut self, msg: RunnerMessage) {
        match msg {
            RunnerMessage::Keyed(ix, keyed) => self.take_keyed(ix, keyed),
            RunnerMessage::RemoteLookup(ix, fetched) => self.take_fetched(ix, fetched.map(|fetched| *fetched)),
            RunnerMessage::Ready(ix, endpoints) => self.take_ready(ix, endpoints),
            RunnerMessage::AttemptEnded(ix, tried) => self.take_tried(ix, tried),
            RunnerMessage::RetryDue(ix) => {
                let Some(running) = self.running.remove(&ix) else { return };
                if self.stop.is_requested() {
                    let failure = Failure::new(FailureKind::Interrupted, "interrupted before the next attempt");
                    return self.fail(ix, running.attempt, failure, 0.0);
                }
                self.start(ix, running.attempt + 1, running.gpus, None);
            }
            RunnerMessage::RetryDueWithNewKey(ix) => self.restart_with_new_key(ix),
        }
    }

    fn take_ready(&mut self, ix: TaskIndex, endpoints: Vec<Endpoint>) {
        let Some(running) = self.running.get(&ix) else { return };
        let seconds = running.begun.elapsed().as_secs_f64();
        (self.emit)(Event::ServiceReady { task: self.id(ix).clone(), endpoints: endpoints.clone(), seconds });
        let leased = running.gpus.clone();
        if let Some(TaskOutput::Service { endpoints: known, gpus, .. }) = &mut self.outputs[ix as usize] {
            *known = endpoints;
            *gpus = leased;
        }
        self.schedule.up(ix);
        self.announce_services();
    }

    fn take_tried(&mut self, ix: TaskIndex, tried: AttemptOutcome) {
        let Some(running) = self.running.remove(&ix) else { return };
        let task = self.task(ix);
        let AttemptOutcome { result, folder, seconds } = tried;
        if task.lifetime == Lifetime::Service {
            return self.take_service_end(ix, running, result.map(|_| ()), folder, seconds);
        }
        let Some(keyed) = self.keyed(ix) else { return };
        let shown = self.show_latest();
        let result = result.and_then(|(done, sealed)| {
            shown.map_err(|e| Box::new(system(&e)))?;
            let folder = folder.as_deref().unwrap_or_else(|| self.cache.home().state());
            let sealed = sealed.ok_or_else(|| Box::new(Failure::new(FailureKind::System, "a step left no output")))?;
            let (record, unchanged) =
                accept(&self.cache, &self.run, &self.plan.name, &task, &keyed, folder, sealed, done, seconds, None)
                    .map_err(Box::new)?;
            self.latest.link(&task.id, &self.cache.folder(&record)).map_err(|e| Box::new(system(&e)))?;
            self.passes(ix, &record).map_err(Box::new)?;
            Ok((record, unchanged))
        });
        match result {
            Ok((record, unchanged)) => {
                let folder = self.cache.folder(&record);
                (self.emit)(Event::TaskFinished {
                    task: task.id.clone(),
                    done: record.done.clone(),
                    out: Some(folder.clone()),
                    digest: Some(record.digest),
                    unchanged,
                    seconds,
                });
                self.push_output(&record);
                self.summary.tally.ran += 1;
                self.note_done(task.id.clone(), &record, folder);
                self.unchanged[ix as usize] = self.options.unchanged.is_output_as_before(ix, &record);
                self.outputs[ix as usize] = Some(TaskOutput::Output(record));
                self.forget_key(ix);
                self.schedule.finish_task(ix, TaskEnd::Done);
            }
            Err(failure) => self.take_failure(ix, running, *failure, folder, seconds),
        }
    }

    fn take_failure(
        &mut self,
        ix: TaskIndex,
        running: Running,
        mut failure: Failure,
        folder: Option<PathBuf>,
        seconds: f64,
    ) {
        let task = self.task(ix);
        if self.cache.home().is_full() {
            // Often the stage could not even log why. What it left is in the way of the next try.
            failure.cause = Some("the disk is full; the unfinished output was removed".to_owned());
            failure.hint = Some("`regatta gc` lists what can be removed; finished outputs are kept".to_owned());
            if let Some(folder) = folder {
                let _ = std::fs::remove_dir_all(folder);
            }
        } else {
            failure.kept = folder.and_then(|folder| self.cache.set_aside(&task.id, &folder, task.resume));
        }
        let blamed = self.stopped_by_server.remove(&ix);
        // A measurement records its own result, and keeps its verdict.
        if let (Some(server), false) = (blamed, matches!(failure.kind, FailureKind::Invalid(_))) {
            let server = self.id(server);
            failure.cause = Some(format!("its server {server} ended; see its failure"));
            failure.kind = FailureKind::Service;
        }
        if self.to_repeat.remove(&ix) && !self.schedule.is_halted() {
            let text = "its server is started again, and it is run again then".to_owned();
            (self.emit)(Event::Notice { task: Some(task.id.clone()), text });
            return self.schedule.rekey(ix);
        }
        if self.lower(ix, running.attempt, &mut failure) {
            return self.retry_with_new_key(ix, running, failure, seconds);
        }
        if let Some(text) = self.is_no_end(ix, &failure) {
            (self.emit)(Event::Notice { task: Some(task.id.clone()), text });
            return self.schedule.rekey(ix);
        }
        let rule = task.retry.as_ref().filter(|rule| rule.lower.is_none());
        let rule = rule.filter(|rule| !rule.on_oom || failure.out_of_memory.is_some());
        let tries = 1 + rule.map_or(0, |r| r.times);
        // Without its server a new try would have no endpoint to connect to.
        let hopeless = blamed.is_some()
            || matches!(failure.kind, FailureKind::Refused | FailureKind::Differs | FailureKind::Interrupted);
        if running.attempt < tries && !hopeless && !self.stop.is_requested() {
            (self.emit)(Event::TaskFailed {
                task: task.id.clone(),
                attempt: running.attempt,
                failure: Box::new(failure),
                will_retry: true,
                seconds,
            });
            self.running.insert(ix, running);
            self.after_pause(ix, RunnerMessage::RetryDue(ix));
            return;
        }
        self.fail(ix, running.attempt, failure, seconds);
    }

    fn take_service_end(
        &mut self,
        ix: TaskIndex,
        running: Running,
        result: Result<(), Box<Failure>>,
        folder: Option<PathBuf>,
        seconds: f64,
    ) {
        let task = self.task(ix);
        if let Some(folder) = folder {
            let _ = std::fs::remove_dir(folder);
        }
        let is_stopping = self.schedule.state(ix) == ScheduleState::Stopping || self.stop.is_requested();
        match result {
            Err(mut failure) if !is_stopping => {
                let again = !self.is_announced(ix)
                    && (self.lower(ix, running.attempt, &mut failure) || self.restarts(ix, running.attempt, &failure));
                for dependent in self.schedule.running_dependents(ix) {
                    self.stopped_by_server.insert(dependent, ix);
                    if again {
                        self.to_repeat.insert(dependent);
                    }
                    if let Some(step) = self.running.get(&dependent) {
                        step.stop.request_with_reason(format!("{}: {}", task.id, failure.what));
                    }
                }
                if again {
                    self.retry_with_new_key(ix, running, *failure, seconds);
                } else {
                    self.fail(ix, running.attempt, *failure, seconds);
                }
            }
            // Found dead at the stop request: those that failed have failed because of it.
            Err(failure)
                if failure.kind == FailureKind::Service && !self.stop.is_requested() && self.a_dependent_failed(ix) =>
            {
                self.fail(ix, running.attempt, *failure, seconds);
            }
            result => {
                if let Err(failure) = result
                    && failure.kind != FailureKind::Interrupted
                {
                    let text = format!("while it was stopped: {}", failure.what);
                    (self.emit)(Event::Notice { task: Some(task.id.clone()), text });
                }
                (self.emit)(Event::ServiceStopped { task: task.id.clone(), seconds });
                self.schedule.finish_task(ix, TaskEnd::Done);
            }
        }
    }

    fn a_dependent_failed(&self, ix: TaskIndex) -> bool {
        let failed = |id: &TaskId| self.summary.failures.iter().any(|(task, _)| task == id);
        self.plan.tasks.iter().any(|task| task.needs.iter().any(|need| need.task == ix) && failed(&task.id))
    }

    fn fail(&mut self, ix: TaskIndex, attempt: u32, failure: Failure, seconds: f64) {
        let task = self.id(ix).clone();
        (self.emit)(Event::TaskFailed {
            task: task.clone(),
            attempt,
            failure: Box::new(failure.clone()),
            will_retry: false,
            seconds,
        });
        self.summary.tally.failed += 1;
        self.summary.failures.push((task, failure));
        self.schedule.finish_task(ix, TaskEnd::Failed);
        if !self.options.keep_going && !self.schedule.is_halted() {
            self.schedule.halt();
        }
        self.emit_cancelled();
    }

    fn cannot_have_gpus(&mut self, ix: TaskIndex) {
        let wanted = self.plan.tasks[ix as usize].gpus.max(
            self.plan.tasks[ix as usize].needs.iter().map(|n| self.plan.tasks[n.task as usize].gpus).max().unwrap_or(0),
        );
        let failure = Failure::new(
            FailureKind::Refused,
            format!("it needs {wanted} GPUs, and this run can lease {}", self.options.gpus.len()),
        )
        .hint("`--gpus N` or `--gpus 0,1,…` sets the GPUs that a run may lease");
        self.fail(ix, 1, failure, 0.0);
    }

    fn emit_cancelled(&mut self) {
        for (ix, because) in self.schedule.take_cancelled() {
            let task = self.task(ix);
            if self.options.roles[ix as usize] == TaskRole::NotNeeded || task.lifetime == Lifetime::Service {
                continue;
            }
            self.summary.tally.cancelled += 1;
            let why = if ix == because {
                if self.summary.interrupted { "interrupted" } else { "an earlier stage failed" }.to_owned()
            } else {
                format!("it needs {}", self.id(because))
            };
            (self.emit)(Event::TaskCancelled { task: task.id.clone(), why });
        }
    }
}
