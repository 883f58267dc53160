//! The one loop: queries the schedule, looks in the cache, starts tries, handles their results.

mod finish;
mod items;
mod retry;
mod sharing;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::attempt::{AttemptInputs, AttemptOutcome, accept, system};
use super::batches::{BatchSlot, Batches};
use super::keying::{Keyed, TaskOutput, key_of, look, own_patterns, reasons};
use super::options::{Emit, RunOptions, RunSummary, TaskRole};
use super::remote_outputs::FetchedOutput;
use super::schedule::{Ix, ScheduleState, StartItem, TaskEnd, TaskSchedule};
use super::work::TaskExecutor;
use crate::event::{Digest, Endpoint, Event, Failure, FailureKind, Lowered, RunId, Stop, TaskId};
use crate::plan::{Lifetime, Plan, Task};
use crate::runner::store::{Digests, Latest, Lookup, OutputCache};
use items::items;

enum Msg {
    Keyed(Ix, Result<Keyed, Failure>),
    /// What the shared store has for a key.
    Asked(Ix, Option<Box<FetchedOutput>>),
    Ready(Ix, Vec<Endpoint>),
    Tried(Ix, AttemptOutcome),
    /// The pause before the next try has ended.
    Again(Ix),
    /// The same, when the next try has another key.
    Anew(Ix),
}

struct Running {
    stop: Stop,
    attempt: u32,
    begun: Instant,
    gpus: Vec<u32>,
}

struct Runner<W> {
    plan: Arc<Plan>,
    tasks: Vec<Arc<Task>>,
    work: Arc<W>,
    shelf: Arc<OutputCache>,
    latest: Latest,
    digests: Arc<Digests>,
    options: RunOptions,
    run: RunId,
    stop: Stop,
    emit: Emit,
    schedule: TaskSchedule,
    keyed: Vec<Option<Arc<Keyed>>>,
    /// The task that makes the output of each key.
    makers: HashMap<Digest, Ix>,
    made: Vec<Option<TaskOutput>>,
    running: BTreeMap<Ix, Running>,
    /// Tries that were thrown away because an input changed under them.
    stale: BTreeMap<Ix, u32>,
    /// Attempts that lost their machine.
    lost: BTreeMap<Ix, u32>,
    /// Running steps that were stopped because this server died.
    blame: BTreeMap<Ix, Ix>,
    /// Of those, the ones that wait for a restart of their server.
    to_repeat: BTreeSet<Ix>,
    /// Tries of tasks that are tried again under another key.
    tries: BTreeMap<Ix, u32>,
    /// Groups of tasks that were started together.
    parties: u32,
    summary: RunSummary,
    send: mpsc::UnboundedSender<Msg>,
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
    emit: Emit,
) -> RunSummary {
    let (send, receive) = mpsc::unbounded_channel();
    let n = plan.tasks.len();
    let mut runner = Runner {
        tasks: plan.tasks.iter().map(|task| Arc::new(task.clone())).collect(),
        schedule: TaskSchedule::new(items(&plan, &options.parts), options.jobs, options.gpus.iter().copied()),
        latest: Latest::new(shelf.home(), &plan.name),
        plan,
        work,
        shelf,
        digests,
        options,
        run: id,
        stop,
        emit,
        keyed: vec![None; n],
        makers: HashMap::new(),
        made: vec![None; n],
        running: BTreeMap::new(),
        stale: BTreeMap::new(),
        lost: BTreeMap::new(),
        blame: BTreeMap::new(),
        to_repeat: BTreeSet::new(),
        tries: BTreeMap::new(),
        parties: 0,
        summary: RunSummary::default(),
        send,
    };
    runner.go(receive).await;
    runner.finish()
}

impl<W: TaskExecutor> Runner<W> {
    async fn go(&mut self, mut receive: mpsc::UnboundedReceiver<Msg>) {
        /// How often what was recorded is made to survive a power cut.
        const SYNC: Duration = Duration::from_secs(5);
        let mut sync = tokio::time::interval_at(tokio::time::Instant::now() + SYNC, SYNC);
        sync.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let stop = self.stop.clone();
        let mut stopping = false;
        self.note_skipped();
        loop {
            self.advance();
            if self.schedule.is_over() {
                break;
            }
            tokio::select! {
                biased;
                () = stop.asked(), if !stopping => {
                    stopping = true;
                    self.summary.interrupted = true;
                    self.schedule.halt();
                }
                Some(msg) = receive.recv() => {
                    self.take(msg);
                    while let Ok(msg) = receive.try_recv() {
                        self.take(msg);
                    }
                }
                _ = sync.tick() => {
                    let shelf = Arc::clone(&self.shelf);
                    drop(tokio::task::spawn_blocking(move || shelf.sync()));
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
            self.tell_cancelled();
            for ix in self.schedule.take_to_stop() {
                match self.running.get(&ix) {
                    Some(running) => running.stop.gently(),
                    None => self.schedule.over(ix, TaskEnd::Done),
                }
            }
            let starts: Vec<StartItem> = std::iter::from_fn(|| self.schedule.next_to_start()).collect();
            if !starts.is_empty() {
                self.start_all(starts);
                continue;
            }
            if let Some(ix) = self.schedule.stuck() {
                self.cannot_have_gpus(ix);
                continue;
            }
            return;
        }
    }

    fn task(&self, ix: Ix) -> &Arc<Task> {
        &self.tasks[ix as usize]
    }

    fn note_skipped(&mut self) {
        for (ix, task) in self.plan.tasks.iter().enumerate() {
            if let (Some(why), false) = (&task.skipped, self.options.parts[ix] == TaskRole::Out) {
                self.summary.tally.skipped += 1;
                self.summary.skipped.push((task.id.clone(), why.clone()));
                (self.emit)(Event::TaskSkipped { task: task.id.clone(), why: why.clone() });
            }
        }
    }

    fn key(&mut self, ix: Ix) {
        let task = Arc::clone(self.task(ix));
        let upstream: BTreeMap<u32, _> = task
            .needs
            .iter()
            .filter_map(|need| Some((need.task, self.made[need.task as usize].as_ref()?.digest()?)))
            .collect();
        let project = self.shelf.home().project();
        let asks_servers = task.cache && task.external.is_some();
        let slow = task.container.is_some()
            || asks_servers
            || task.inputs.values().any(|p| own_patterns(p) && !self.digests.is_quick(project, p));
        let work = Arc::clone(&self.work);
        let (plan, shelf, digests) = (Arc::clone(&self.plan), Arc::clone(&self.shelf), Arc::clone(&self.digests));
        let key =
            move || key_of(&plan, &task, work.facts(&task), |need| upstream.get(&need).copied(), &shelf, &digests);
        if slow {
            // Reading a large input is not the loop's work, nor is waiting for a container program.
            let send = self.send.clone();
            tokio::task::spawn_blocking(move || {
                let _ = send.send(Msg::Keyed(ix, key()));
            });
        } else {
            let keyed = key();
            self.take_keyed(ix, keyed);
        }
    }

    fn take_keyed(&mut self, ix: Ix, keyed: Result<Keyed, Failure>) {
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
            self.shelf.forget_lowered(&keyed.base);
            return self.key(ix);
        }
        self.know(ix, Arc::clone(&keyed));
        let task = Arc::clone(self.task(ix));
        if task.lifetime == Lifetime::Service {
            return self.schedule.known(ix);
        }
        if forced || !task.cache {
            return self.schedule.missed(ix);
        }
        match look(&*self.work, &task, &keyed.digest, &self.shelf) {
            Lookup::Hit(record) => self.take_hit(ix, &record, None),
            _ if self.options.parts[ix as usize] == TaskRole::Restore && self.options.shared.is_none() => {
                self.missed(ix);
            }
            _ => {
                let maker = if task.is_its_key() { *self.makers.entry(keyed.digest).or_insert(ix) } else { ix };
                if maker != ix && !matches!(self.schedule.state(maker), ScheduleState::Finished(_)) {
                    return self.schedule.waits_for(ix, maker);
                }
                if !self.ask(ix, &keyed) {
                    self.missed(ix);
                }
            }
        }
    }

    fn know(&mut self, ix: Ix, keyed: Arc<Keyed>) {
        if self.task(ix).lifetime == Lifetime::Service {
            let (key, lowered) = (keyed.digest, keyed.lowered.clone());
            self.made[ix as usize] =
                Some(TaskOutput::Service { key, endpoints: Vec::new(), gpus: Vec::new(), lowered });
        }
        self.keyed[ix as usize] = Some(keyed);
    }

    /// Everything that may start in this moment: those that could be one job array are linked with each other.
    fn start_all(&mut self, starts: Vec<StartItem>) {
        let tasks: Vec<Arc<Task>> = starts.iter().map(|start| Arc::clone(self.task(start.task))).collect();
        let seats = Batches::new(&self.run, &mut self.parties).seats(&tasks);
        for (start, seat) in starts.into_iter().zip(seats) {
            let attempt = 1 + self.tries.get(&start.task).copied().unwrap_or_default();
            self.start(start.task, attempt, start.gpus, seat);
        }
    }

    fn start(&mut self, ix: Ix, attempt: u32, gpus: Vec<u32>, seat: Option<BatchSlot>) {
        let task = Arc::clone(self.task(ix));
        let Some(keyed) = self.keyed[ix as usize].clone() else { return };
        let service = task.lifetime == Lifetime::Service;
        let mut why = if attempt > 1 {
            vec![format!("try {attempt}")]
        } else if service {
            Vec::new()
        } else {
            let look = look(&*self.work, &task, &keyed.digest, &self.shelf);
            reasons(&self.plan, &task, &keyed, &look, &self.shelf, self.options.forced[ix as usize])
        };
        why.extend(keyed.lowered.as_ref().map(Lowered::because));
        (self.emit)(Event::TaskStarted {
            task: task.id.clone(),
            attempt,
            service,
            reasons: why,
            log: Some(self.shelf.home().log(&self.run, &task.id)),
        });
        let stop = self.stop.child();
        let ready = service.then(|| {
            let (told, hears) = oneshot::channel();
            let send = self.send.clone();
            tokio::spawn(async move {
                if let Ok(endpoints) = hears.await {
                    let _ = send.send(Msg::Ready(ix, endpoints));
                }
            });
            told
        });
        let made =
            task.needs.iter().map(|n| self.made[n.task as usize].clone().unwrap_or(TaskOutput::Nothing)).collect();
        let attempt_now = AttemptInputs {
            plan: Arc::clone(&self.plan),
            task,
            keyed,
            attempt,
            gpus: gpus.clone(),
            seat,
            made,
            run: self.run.clone(),
            shelf: Arc::clone(&self.shelf),
            digests: Arc::clone(&self.digests),
            stop: stop.clone(),
            emit: Arc::clone(&self.emit),
            ready,
        };
        self.running.insert(ix, Running { stop, attempt, begun: Instant::now(), gpus });
        let (work, send) = (Arc::clone(&self.work), self.send.clone());
        tokio::spawn(async move {
            let tried = attempt_now.go(work).await;
            let _ = send.send(Msg::Tried(ix, tried));
        });
    }

    fn take(&mut self, msg: Msg) {
        match msg {
            Msg::Keyed(ix, keyed) => self.take_keyed(ix, keyed),
            Msg::Asked(ix, fetched) => self.take_fetched(ix, fetched.map(|fetched| *fetched)),
            Msg::Ready(ix, endpoints) => self.take_ready(ix, endpoints),
            Msg::Tried(ix, tried) => self.take_tried(ix, tried),
            Msg::Again(ix) => {
                let Some(running) = self.running.remove(&ix) else { return };
                if self.stop.is_asked() {
                    let failure = Failure::new(FailureKind::Interrupted, "interrupted before the next attempt");
                    return self.fail(ix, running.attempt, failure, 0.0);
                }
                self.start(ix, running.attempt + 1, running.gpus, None);
            }
            Msg::Anew(ix) => self.anew(ix),
        }
    }

    fn take_ready(&mut self, ix: Ix, endpoints: Vec<Endpoint>) {
        let Some(running) = self.running.get(&ix) else { return };
        let seconds = running.begun.elapsed().as_secs_f64();
        (self.emit)(Event::ServiceReady { task: self.task(ix).id.clone(), endpoints: endpoints.clone(), seconds });
        let leased = running.gpus.clone();
        if let Some(TaskOutput::Service { endpoints: known, gpus, .. }) = &mut self.made[ix as usize] {
            *known = endpoints;
            *gpus = leased;
        }
        self.schedule.up(ix);
    }

    fn take_tried(&mut self, ix: Ix, tried: AttemptOutcome) {
        let Some(running) = self.running.remove(&ix) else { return };
        let task = Arc::clone(self.task(ix));
        let AttemptOutcome { result, folder, seconds } = tried;
        if task.lifetime == Lifetime::Service {
            return self.take_service_end(ix, running, result.map(|_| ()), folder, seconds);
        }
        let Some(keyed) = self.keyed[ix as usize].clone() else { return };
        let result = result.and_then(|(done, sealed)| {
            let folder = folder.as_deref().unwrap_or_else(|| self.shelf.home().state());
            let sealed = sealed.ok_or_else(|| Box::new(Failure::new(FailureKind::System, "a step left no output")))?;
            let (record, unchanged) =
                accept(&self.shelf, &self.run, &self.plan.name, &task, &keyed, folder, sealed, done, seconds, None)
                    .map_err(Box::new)?;
            self.latest.point(&task.id, &self.shelf.folder(&record)).map_err(|e| Box::new(system(&e)))?;
            self.passes(ix, &record).map_err(Box::new)?;
            Ok((record, unchanged))
        });
        match result {
            Ok((record, unchanged)) => {
                let folder = self.shelf.folder(&record);
                (self.emit)(Event::TaskFinished {
                    task: task.id.clone(),
                    done: record.done.clone(),
                    out: Some(folder.clone()),
                    digest: Some(record.digest),
                    unchanged,
                    seconds,
                });
                self.offer(&record);
                self.summary.tally.ran += 1;
                self.summary.done.push((task.id.clone(), record.done.clone(), folder));
                self.made[ix as usize] = Some(TaskOutput::Output(record));
                self.schedule.over(ix, TaskEnd::Done);
            }
            Err(failure) => self.take_failure(ix, running, *failure, folder, seconds),
        }
    }

    fn take_failure(&mut self, ix: Ix, running: Running, mut failure: Failure, folder: Option<PathBuf>, seconds: f64) {
        let task = Arc::clone(self.task(ix));
        if self.shelf.home().is_full() {
            // Often the stage could not even log why. What it left is in the way of the next try.
            failure.cause = Some("the disk is full; the unfinished output was removed".to_owned());
            failure.hint = Some("`regatta gc` lists what can be removed; finished outputs are kept".to_owned());
            if let Some(folder) = folder {
                let _ = std::fs::remove_dir_all(folder);
            }
        } else {
            failure.kept = folder.and_then(|folder| self.shelf.set_aside(&task.id, &folder, task.resume));
        }
        let blamed = self.blame.remove(&ix);
        // A measurement records its own result, and keeps its verdict.
        if let (Some(server), false) = (blamed, matches!(failure.kind, FailureKind::Invalid(_))) {
            let server = &self.task(server).id;
            failure.cause = Some(format!("its server {server} ended; see its failure"));
            failure.kind = FailureKind::Service;
        }
        if self.to_repeat.remove(&ix) && !self.schedule.is_halted() {
            let text = "its server is started again, and it is run again then".to_owned();
            (self.emit)(Event::Notice { task: Some(task.id.clone()), text });
            return self.schedule.rekey(ix);
        }
        if self.lower(ix, running.attempt, &mut failure) {
            return self.try_anew(ix, running, failure, seconds);
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
        if running.attempt < tries && !hopeless && !self.stop.is_asked() {
            (self.emit)(Event::TaskFailed {
                task: task.id.clone(),
                attempt: running.attempt,
                failure: Box::new(failure),
                will_retry: true,
                seconds,
            });
            self.running.insert(ix, running);
            self.after_pause(ix, Msg::Again(ix));
            return;
        }
        self.fail(ix, running.attempt, failure, seconds);
    }

    fn take_service_end(
        &mut self,
        ix: Ix,
        running: Running,
        result: Result<(), Box<Failure>>,
        folder: Option<PathBuf>,
        seconds: f64,
    ) {
        let task = Arc::clone(self.task(ix));
        if let Some(folder) = folder {
            let _ = std::fs::remove_dir(folder);
        }
        let asked = self.schedule.state(ix) == ScheduleState::Stopping || self.stop.is_asked();
        match result {
            Err(mut failure) if !asked => {
                let again =
                    self.lower(ix, running.attempt, &mut failure) || self.restarts(ix, running.attempt, &failure);
                for dependent in self.schedule.running_dependents(ix) {
                    self.blame.insert(dependent, ix);
                    if again {
                        self.to_repeat.insert(dependent);
                    }
                    if let Some(step) = self.running.get(&dependent) {
                        step.stop.because(format!("{}: {}", task.id, failure.what));
                    }
                }
                if again {
                    self.try_anew(ix, running, *failure, seconds);
                } else {
                    self.fail(ix, running.attempt, *failure, seconds);
                }
            }
            // Found dead at the stop request: those that failed have failed because of it.
            Err(failure)
                if failure.kind == FailureKind::Service && !self.stop.is_asked() && self.a_dependent_failed(ix) =>
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
                self.schedule.over(ix, TaskEnd::Done);
            }
        }
    }

    fn a_dependent_failed(&self, ix: Ix) -> bool {
        let failed = |id: &TaskId| self.summary.failures.iter().any(|(task, _)| task == id);
        self.tasks.iter().any(|task| task.needs.iter().any(|need| need.task == ix) && failed(&task.id))
    }

    fn fail(&mut self, ix: Ix, attempt: u32, failure: Failure, seconds: f64) {
        let task = self.task(ix).id.clone();
        (self.emit)(Event::TaskFailed {
            task: task.clone(),
            attempt,
            failure: Box::new(failure.clone()),
            will_retry: false,
            seconds,
        });
        self.summary.tally.failed += 1;
        self.summary.failures.push((task, failure));
        self.schedule.over(ix, TaskEnd::Failed);
        if !self.options.keep_going && !self.schedule.is_halted() {
            self.schedule.halt();
        }
        self.tell_cancelled();
    }

    fn cannot_have_gpus(&mut self, ix: Ix) {
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

    fn tell_cancelled(&mut self) {
        for (ix, because) in self.schedule.take_cancelled() {
            let task = Arc::clone(self.task(ix));
            if self.options.parts[ix as usize] == TaskRole::Out || task.lifetime == Lifetime::Service {
                continue;
            }
            self.summary.tally.cancelled += 1;
            let why = if ix == because {
                if self.summary.interrupted { "interrupted" } else { "an earlier stage failed" }.to_owned()
            } else {
                format!("it needs {}", self.task(because).id)
            };
            (self.emit)(Event::TaskCancelled { task: task.id.clone(), why });
        }
    }
}
