//! The one loop: queries the schedule, looks in the cache, starts attempts, handles their results.

mod attempt_end;
mod cache_lookup;
mod run_end;

pub(crate) use cache_lookup::age_notice;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cache_lookup::KeyState;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};

use super::attempt::{AttemptInputs, AttemptOutcome};
use super::keying::{Keyed, TaskOutput};
use super::options::{EventEmitter, GPUS_HINT, RunOptions, RunSummary, TaskRole, gpus_together};
use super::schedule::{StartItem, TaskEnd, TaskIndex, TaskSchedule};
use super::task_executor::{BatchSlot, TaskExecutor, assign_slots};
use crate::schedule::ScheduledTask;
use crate::store::{Digests, FinishedOutput, Latest, Lookup, OutputCache};
use base::event::{Endpoint, Event, Failure, FailureKind, GpuId, ReducedSetting, RunId, Stop, TaskId};
use base::files::Digest;
use plan::{Lifetime, Plan, SharedTask, Task};

enum RunnerMessage {
    Keyed(TaskIndex, Result<Keyed, Failure>),
    /// What the shared store has for a key.
    RemoteLookup(TaskIndex, Option<Box<FinishedOutput>>),
    Ready(TaskIndex, Vec<Endpoint>),
    /// A step has ended, and its large output is being hashed.
    Hashing(TaskIndex),
    AttemptEnded(TaskIndex, AttemptOutcome),
    /// The pause before the next attempt has ended, after this failure.
    RetryDue(TaskIndex, Box<Failure>),
    /// The same, when the key is computed again before the next attempt.
    RekeyDue(TaskIndex, Box<Failure>),
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
    /// The task that makes the output of each key, or requests it from other machines.
    task_by_key: HashMap<Digest, TaskIndex>,
    outputs: Vec<Option<TaskOutput>>,
    running: BTreeMap<TaskIndex, Running>,
    /// Attempts that were thrown away because an input changed under them.
    stale: BTreeMap<TaskIndex, u32>,
    /// Attempts that lost their machine.
    lost_machine_attempts: BTreeMap<TaskIndex, u32>,
    /// Running steps that were stopped because this server died.
    stopped_by_server: BTreeMap<TaskIndex, TaskIndex>,
    /// Of those, the ones that wait for a restart of their server.
    to_repeat: BTreeSet<TaskIndex>,
    /// Attempts of tasks whose key is computed again before the next one.
    attempts: BTreeMap<TaskIndex, u32>,
    /// The caller has the addresses of its services.
    services_announced: bool,
    /// Groups of tasks that were started together.
    batches: u32,
    summary: RunSummary,
    /// An output counts for this run alone.
    has_uncached: bool,
    /// What is reported of the sources of cached outputs.
    source_checks: JoinSet<()>,
    send: mpsc::UnboundedSender<RunnerMessage>,
}

/// Runs a plan to its end. The caller holds the project's lock and has called [`OutputCache::begin`].
#[expect(clippy::too_many_arguments, reason = "everything that a run is made of, once")]
pub async fn run<W: TaskExecutor>(
    plan: Arc<Plan>,
    work: Arc<W>,
    output_cache: Arc<OutputCache>,
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
        latest: Latest::new(output_cache.home(), &plan.name),
        plan,
        work,
        cache: output_cache,
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
        attempts: BTreeMap::new(),
        services_announced: false,
        batches: 0,
        summary: RunSummary::default(),
        has_uncached: false,
        source_checks: JoinSet::new(),
        send,
    };
    runner.run_loop(receive).await;
    while runner.source_checks.join_next().await.is_some() {}
    runner.finish()
}

impl<W: TaskExecutor> Runner<W> {
    async fn run_loop(&mut self, mut receive: mpsc::UnboundedReceiver<RunnerMessage>) {
        /// How often what was recorded is made to survive a power cut.
        const SYNC: Duration = Duration::from_secs(5);
        let mut sync = tokio::time::interval_at(tokio::time::Instant::now() + SYNC, SYNC);
        sync.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (stop, release) = (
            self.stop.clone(),
            self.options.kept_services.as_ref().map_or_else(Stop::new, |services| services.release.clone()),
        );
        let (mut stopping, mut released) = (false, false);
        let mut syncing: Option<JoinHandle<()>> = None;
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
                    // A slow disk may still be at the one before.
                    if syncing.as_ref().is_none_or(JoinHandle::is_finished) {
                        let output_cache = Arc::clone(&self.cache);
                        // The last one, at the end of the run, returns the first error of all.
                        syncing = Some(tokio::task::spawn_blocking(move || drop(output_cache.sync())));
                    }
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
            if self.schedule.deadlocked_task().is_none() {
                return;
            }
            // They hold nothing that another one waits for.
            while let Some(ix) = self.schedule.deadlocked_task() {
                self.cannot_have_gpus(ix);
            }
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

    /// Everything that may start in this moment: those that could be one job array are linked with each other.
    fn start_all(&mut self, starts: Vec<StartItem>) {
        let tasks: Vec<SharedTask> = starts.iter().map(|start| self.task(start.task)).collect();
        let slots = assign_slots(&self.run, &mut self.batches, &tasks);
        for (start, slot) in starts.into_iter().zip(slots) {
            let attempt = 1 + self.attempts.get(&start.task).copied().unwrap_or_default();
            self.start(start.task, attempt, start.gpus, slot);
        }
    }

    fn start(&mut self, ix: TaskIndex, attempt: u32, gpus: Vec<GpuId>, slot: Option<BatchSlot>) {
        let task = self.task(ix);
        let Some(keyed) = self.keyed(ix) else { return };
        let service = task.lifetime == Lifetime::Service;
        let mut start_reasons = if attempt > 1 {
            vec![format!("attempt {attempt}")]
        } else if service {
            Vec::new()
        } else {
            let context = self.key_context();
            let look = context.look_up(&task, &keyed.digest);
            let look = look.unwrap_or_else(|error| Lookup::Corrupt(error.to_string()));
            context.reasons(&task, &keyed, &look, self.options.forced[ix as usize])
        };
        start_reasons.extend(keyed.lowered.as_ref().map(ReducedSetting::because));
        (self.emit)(Event::TaskStarted {
            task: task.id.clone(),
            attempt,
            service,
            reasons: start_reasons,
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
        let made = task.needs.iter().map(|need| match &self.outputs[need.task as usize] {
            Some(TaskOutput::Output(record)) => TaskOutput::Output(self.cache.refreshed(record)),
            other => other.clone().unwrap_or(TaskOutput::Nothing),
        });
        let made = made.collect();
        let attempt_now = AttemptInputs {
            plan: Arc::clone(&self.plan),
            task,
            keyed,
            attempt,
            is_anew: self.options.forced[ix as usize] && !self.options.resumes_forced,
            gpus: gpus.clone(),
            batch_slot: slot,
            outputs: made,
            run: self.run.clone(),
            cache: Arc::clone(&self.cache),
            digests: Arc::clone(&self.digests),
            stop: stop.clone(),
            emit: Arc::clone(&self.emit),
            ready,
            on_hashing: Box::new({
                let send = self.send.clone();
                move || drop(send.send(RunnerMessage::Hashing(ix)))
            }),
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
            RunnerMessage::Hashing(ix) => self.schedule.release_slots(ix),
            RunnerMessage::AttemptEnded(ix, tried) => self.take_tried(ix, tried),
            RunnerMessage::RetryDue(ix, failure) => self.retry(ix, *failure),
            RunnerMessage::RekeyDue(ix, failure) => self.rekey_for_retry(ix, *failure),
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

    fn fail(&mut self, ix: TaskIndex, attempt: u32, failure: Failure, seconds: f64) {
        self.emit_failed(ix, attempt, &failure, false, seconds);
        self.summary.tally.failed += 1;
        self.summary.failures.push((self.id(ix).clone(), failure));
        self.schedule.finish_task(ix, TaskEnd::Failed);
        if !self.options.keep_going && !self.schedule.is_halted {
            self.schedule.halt();
        }
        self.emit_cancelled();
    }

    fn emit_failed(&self, ix: TaskIndex, attempt: u32, failure: &Failure, will_retry: bool, seconds: f64) {
        let (task, failure) = (self.id(ix).clone(), Box::new(failure.clone()));
        (self.emit)(Event::TaskFailed { task, attempt, failure, will_retry, seconds });
    }

    fn cannot_have_gpus(&mut self, ix: TaskIndex) {
        let kept = self.options.kept_services.iter().flat_map(|kept| (0..).zip(&kept.tasks));
        let kept = kept.filter(|(_, is_kept)| **is_kept).map(|(at, _)| at);
        let wanted = gpus_together(&self.plan, ix as usize, kept);
        let failure = Failure::new(
            FailureKind::Refused,
            format!(
                "it needs {}, but this run can lease only {}",
                base::units::counted(wanted, "GPU"),
                self.options.gpus.len()
            ),
        )
        .hint(GPUS_HINT);
        self.fail(ix, 1, failure, 0.0);
    }

    fn emit_cancelled(&mut self) {
        for (ix, because) in self.schedule.take_cancelled() {
            let task = self.task(ix);
            if self.options.roles[ix as usize] == TaskRole::NotNeeded || task.lifetime == Lifetime::Service {
                continue;
            }
            self.summary.tally.cancelled += 1;
            let reason = if ix == because {
                if self.summary.interrupted { "interrupted" } else { "an earlier stage failed" }.to_owned()
            } else {
                format!("it needs {}", self.id(because))
            };
            (self.emit)(Event::TaskCancelled { task: task.id.clone(), why: reason });
        }
    }
}

// What the schedule has to know of each task.

/// Of a whole plan, in its order.
fn items(plan: &Plan, options: &RunOptions) -> Vec<ScheduledTask> {
    let mut groups: HashMap<&str, u32> = HashMap::new();
    let kept = |ix: usize| options.kept_services.as_ref().is_some_and(|hold| hold.tasks[ix]);
    let parts = plan.tasks.iter().zip(&options.roles).enumerate();
    parts.map(|(ix, (task, part))| item(task, *part, kept(ix), &mut groups)).collect()
}

fn item<'a>(task: &'a Task, part: TaskRole, kept: bool, groups: &mut HashMap<&'a str, u32>) -> ScheduledTask {
    let skipped = task.skipped.is_some() || part == TaskRole::NotNeeded;
    let elsewhere = task.host.is_some();
    let next = groups.len() as u32;
    // Steps of one stage that run elsewhere may be one job array.
    let in_group = elsewhere && task.lifetime == Lifetime::Step;
    ScheduledTask {
        // A task that does not run waits for no server and keeps none up.
        needs: if skipped { Vec::new() } else { task.needs.iter().map(|need| need.task).collect() },
        service: task.lifetime == Lifetime::Service,
        cpus: task.cpus,
        gpus: if elsewhere { 0 } else { task.gpus },
        elsewhere,
        group: in_group.then(|| *groups.entry(&task.stage).or_insert(next)),
        skipped,
        kept: kept && !skipped,
    }
}
