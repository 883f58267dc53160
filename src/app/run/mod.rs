//! `regatta run` and `regatta serve`: on this machine ([`perform`]), or as a job of Slurm that runs the same command
//! (`slurm_allocation`).

mod begun_run;
mod finish;
mod kept_servers;
mod preparation;
mod signals;
mod slurm_allocation;

pub(super) use finish::RunEnd;
pub(super) use preparation::RunPurpose;
pub(super) use signals::StopSignals;
pub(super) use slurm_allocation::run_in_allocation;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::JoinError;

use crate::cli::{CliExit, Global};
use crate::error::CommandError;
use crate::expression_guard::watch_templates;
use crate::run::begun_run::{BegunRun, ProgressPrinter};
use crate::run::finish::finish;
use crate::run::kept_servers::{KeptServers, ServingContext, ServingPhase};
use crate::run::preparation::{Preparation, PreparedRun, prepare, unplanned_jobs};
use crate::run::signals::interrupt;
use crate::{cli, store};
use base::diag::ErrorText;
use base::event::{Event, Stop};
use base::files::cores;
use exec::process::{self, ExitKind};
use runner::store::{LockAttempt, PathError, ProjectLock, StateFolder, abandoned, name_run};
use runner::{RunOptions, RunSummary};
use stages::{StageExecutor, end_abandoned};

pub(super) fn run(global: &Global, request: &cli::RunRequest) -> Result<CliExit, CommandError> {
    if request.mode.on.is_some() {
        return slurm_allocation::submit_and_follow(global, request);
    }
    perform(global, request, false, RunPurpose::Ordinary).map(RunEnd::exit_of_process)
}

/// `regatta serve`: a run that keeps servers up.
pub(super) fn serve(global: &Global, request: &cli::ServeRequest) -> Result<CliExit, CommandError> {
    match &request.run.mode.on {
        Some(_) => slurm_allocation::submit_and_follow(global, &request.run),
        None => serve_here(global, request),
    }
}

/// Starts the servers of a plan and keeps them up; the run is shown on stderr, except as events.
pub fn serve_here(global: &Global, request: &cli::ServeRequest) -> Result<CliExit, CommandError> {
    let aside = request.run.mode.events.is_none();
    perform(global, &request.run, aside, RunPurpose::Serve(request)).map(|ran| ran.exit)
}

/// Runs the plan of a request on this machine. With `aside`, progress goes to stderr.
pub(super) fn perform(
    global: &Global,
    request: &cli::RunRequest,
    aside: bool,
    purpose: RunPurpose<'_>,
) -> Result<RunEnd, CommandError> {
    match prepare(global, request.clone(), aside, purpose)? {
        Preparation::Ready(prepared) => execute(*prepared),
        Preparation::Ended(end) => Ok(*end),
    }
}

/// For a thread that polls tasks, in bytes. A sweep of repeated runs is deep, and a build without optimization copies
/// each result on its stack; what is not used takes no memory.
pub(super) const TASK_STACK: usize = 8 << 20;

/// Threads of a run beside those that drive it: the display, signals, the watchdog, and some for files.
const THREADS_BESIDE: usize = 6;

fn execute(mut prepared: PreparedRun) -> Result<RunEnd, CommandError> {
    let signals = prepared.signals.clone();
    let stop = signals.stop().clone();
    // Starting a process holds a thread until the new program is loaded, so one thread could not keep the cores busy.
    let threads = cores().clamp(1, 8);
    check_threads(threads + THREADS_BESIDE)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_stack_size(TASK_STACK)
        .enable_all()
        .build()?;
    let printer = ProgressPrinter::start(prepared.display_options);
    let send = printer.send.clone();
    let phase = prepared.kept_servers.as_ref().map(KeptServers::phase);
    let first = move |stop: &Stop| phase.as_ref().and_then(ServingPhase::end).unwrap_or_else(|| interrupt(stop));
    let _answered = signals.answer(first, move |event| drop(send.send(Some(event))))?;
    let interrupted = RunEnd::without_tasks(CliExit::Interrupted);
    // While it was prepared, after another one of the same command.
    if stop.is_requested() {
        printer.close();
        return Ok(interrupted);
    }
    process::adopt_orphans()?;
    let asked = Instant::now();
    let lock = match take_lock(&prepared.project.home, prepared.gives_way, &stop, &printer.send)? {
        LockWait::Acquired(lock) => lock,
        LockWait::Interrupted => {
            printer.close();
            return Ok(interrupted);
        }
        LockWait::Inside(run) => {
            printer.close();
            let message = format!("this command runs in a stage of run {run}, which has this folder until it ends");
            let hint = "make it a stage of the same manifest, start it after that run, or add `--home DIR`";
            return Err(CommandError::hinted(message, hint));
        }
        LockWait::GaveWay => {
            printer.close();
            return Ok(RunEnd { gave_way: true, ..interrupted });
        }
    };
    // A run begins when no other one is in the way.
    prepared.begun += asked.elapsed();
    let begun = BegunRun::new(&mut prepared, lock, &printer, &runtime)?;
    let (summary, of_command) = runtime.block_on(run_tasks(&prepared, &begun))?;
    // Do not wait for an input that is still being read after a stop request.
    runtime.shutdown_background();
    finish(prepared, begun, printer, summary, of_command)
}

/// Runs the tasks, with the store beside them, and ends what they have left running.
async fn run_tasks(prepared: &PreparedRun, begun: &BegunRun) -> Result<(RunSummary, Option<ExitKind>), JoinError> {
    let BegunRun { cache: output_cache, digests, id, stop, emit, lock, .. } = begun;
    let PreparedRun { plan, kept_servers, .. } = prepared;
    let home = &prepared.project.home;
    let shared_store =
        prepared.store.as_ref().and_then(|(store, keys)| store::open(store, keys, plan, output_cache, emit));
    let (kept_services, ready) = kept_servers.as_ref().map(KeptServers::kept_services).unzip();
    let output_source = shared_store.clone().map(|store| Arc::new(store) as _);
    let options = RunOptions { output_source, kept_services, ..prepared.options.clone() };
    let (abandoned, unknown) = abandoned(home);
    for error in unknown {
        emit(Event::Notice { task: None, text: format!("a job of an earlier run could not be canceled: {error}") });
    }
    if let Some(text) = unplanned_jobs(home, plan) {
        emit(Event::Notice { task: None, text });
    }
    if !abandoned.is_empty() {
        let emit = Arc::clone(emit);
        // A controller that does not answer must not delay the run.
        tokio::spawn(async move {
            for text in end_abandoned(abandoned).await {
                emit(Event::Notice { task: None, text });
            }
        });
    }
    watch_templates();
    let mut stages = StageExecutor::new(home.state(), id.clone()).of_manifest(&plan.name);
    stages.in_place = prepared.request.in_place;
    let stages = Arc::new(stages);
    let running = runner::run(
        Arc::clone(plan),
        stages,
        Arc::clone(output_cache),
        Arc::clone(digests),
        options,
        id.clone(),
        stop.clone(),
        Arc::clone(emit),
    );
    let running = tokio::spawn(running);
    let summary = match (kept_servers, ready) {
        (Some(servers), Some(ready)) => {
            let around = ServingContext { home, plan, id, stop, emit, lock };
            servers.attend(running, ready, &around).await
        }
        _ => running.await.map(|summary| (summary, None)),
    };
    for leftover in process::sweep(Duration::from_secs(1)).await {
        let text = format!("ended {} ({}), which a stage had left running", leftover.program(), leftover.pid);
        emit(Event::Notice { task: None, text });
    }
    if let Some(store) = shared_store {
        store::finish(&store, stop, &prepared.request.subject.manifest, emit).await;
    }
    summary
}

/// Whether this many threads can be had at once. Those that are started later cannot report it.
pub(super) fn check_threads(count: usize) -> Result<(), CommandError> {
    let gate = parking_lot::RwLock::new(());
    let outcome = thread::scope(|scope| {
        // Each thread ends when all are there.
        let _shut = gate.write();
        let wait = || drop(gate.read());
        (0..count).try_for_each(|_| thread::Builder::new().stack_size(64 * 1024).spawn_scoped(scope, wait).map(drop))
    });
    outcome.map_err(|error| {
        let message = format!("a run needs {count} threads, and the system allows no more: {error}");
        let hint = "`ulimit -u` shows how many processes and threads this user may have";
        CommandError::Other(ErrorText::new(message).hint(hint).into())
    })
}

/// Does both, `aside` on a thread of its own if one can be had. Not in the pool that hashes files, where it could wait
/// behind a large one.
pub(super) fn parallel_join<A: Send, B>(aside: impl Fn() -> A + Sync, here: impl FnOnce() -> B) -> (A, B) {
    thread::scope(|scope| {
        let started = thread::Builder::new().spawn_scoped(scope, &aside);
        let here = here();
        let aside = match started {
            Ok(started) => started.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => aside(),
        };
        (aside, here)
    })
}

/// How it ended.
pub(super) enum LockWait {
    Acquired(ProjectLock),
    /// A stop request came meanwhile.
    Interrupted,
    /// The other run waits for this one, which is in one of its stages.
    Inside(String),
    /// The other run keeps its servers up, and this one was not to wait for that.
    GaveWay,
}

/// Waits for another run of this project, reporting so once. `gives_way`: not for one that keeps its servers up, also
/// if it begins to do so meanwhile.
pub(super) fn take_lock(
    home: &StateFolder,
    gives_way: bool,
    stop: &Stop,
    send: &Sender<Option<Event>>,
) -> Result<LockWait, PathError> {
    let mut is_reported = false;
    let begun = Instant::now();
    loop {
        match ProjectLock::try_take(home, || name_run(home))? {
            LockAttempt::Acquired(lock) => return Ok(LockWait::Acquired(lock)),
            LockAttempt::No(held) => {
                if stop.is_requested() {
                    return Ok(LockWait::Interrupted);
                }
                let own_run = std::env::var(process::RUN).ok();
                let is_inside = |run: &String| own_run.as_ref() == Some(run) || process::is_inside(home.state(), run);
                if let Some(held) = held.as_ref().filter(|held| is_inside(&held.run)) {
                    return Ok(LockWait::Inside(held.run.clone()));
                }
                if gives_way && held.as_ref().is_some_and(|held| held.serving) {
                    return Ok(LockWait::GaveWay);
                }
                if !is_reported {
                    is_reported = true;
                    let (run, pid) = held.map_or(("?".to_owned(), 0), |held| (held.run, held.pid));
                    let _ = send.send(Some(Event::Waiting { run, pid }));
                }
                pause(begun.elapsed(), stop);
            }
        }
    }
}

/// Sleeps for a tenth of the time waited so far, or until a stop request: the other run may take hours, and each check
/// costs several requests to the server of a network filesystem.
fn pause(waited: Duration, stop: &Stop) {
    const SHORTEST: Duration = Duration::from_millis(20);
    const LONGEST: Duration = Duration::from_secs(1);
    let (begun, pause) = (Instant::now(), (waited / 10).clamp(SHORTEST, LONGEST));
    while begun.elapsed() < pause && !stop.is_requested() {
        thread::sleep(SHORTEST);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_wait_ends_when_the_other_run_begins_to_serve() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().to_owned(), folder.path().join(".regatta"));
        let (send, receive) = channel();
        let stop = Stop::new();
        let LockWait::Acquired(lock) = take_lock(&home, true, &stop, &send).unwrap() else { panic!("it is free") };
        thread::scope(|scope| {
            let waiting = scope.spawn(|| take_lock(&home, true, &stop, &send).unwrap());
            assert!(matches!(receive.recv(), Ok(Some(Event::Waiting { .. }))));
            lock.show_serving().unwrap();
            assert!(matches!(waiting.join(), Ok(LockWait::GaveWay)));
        });
    }
    #[test]
    fn a_stop_request_ends_a_pause() {
        let stop = Stop::new();
        stop.request();
        let begun = Instant::now();
        pause(Duration::from_hours(1), &stop);
        assert!(begun.elapsed() < Duration::from_millis(500));
    }
}
