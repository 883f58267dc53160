//! One run on this machine: the lock, the tasks, the end.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::JoinError;

use super::begun_run::BegunRun;
use super::finish::finish;
use super::kept_servers::{KeptServers, ServingContext, ServingPhase};
use super::lock_wait::{LockWait, take_lock};
use super::preparation::{Preparation, RunPurpose, prepare};
use super::prepared_run::PreparedRun;
use super::progress_printer::ProgressPrinter;
use super::run_end::RunEnd;
use super::signals::{StopSignals, interrupt};
use super::thread_limit::check_threads;
use super::unplanned_jobs::unplanned_jobs;
use crate::cli::{self, CliExit, EventFormat, Global};
use crate::error::CommandError;
use crate::expression_guard::watch_templates;
use crate::{run_store, shared_results};
use base::event::{Event, Stop};
use exec::process::{self, ExitKind};
use runner::store::abandoned;
use runner::{RunOptions, RunSummary};
use stages::{StageExecutor, end_abandoned};

/// Runs the plan of a request on this machine. With `aside`, progress goes to stderr.
pub fn perform(global: &Global, request: &cli::RunRequest, aside: bool) -> Result<RunEnd, CommandError> {
    perform_for(global, request.clone(), aside, RunPurpose::Ordinary)
}

/// Runs one run of a list; `signals` are shared by all of them: a Ctrl-C between two runs ends the next.
pub fn perform_of_list(
    global: &Global,
    request: &cli::RunRequest,
    signals: &StopSignals,
) -> Result<RunEnd, CommandError> {
    perform_for(global, request.clone(), false, RunPurpose::OfList(signals))
}

/// Like [`perform`], but returns [`RunEnd::gave_way`] instead of waiting for a run that keeps servers up. `signals` are shared by
/// all attempts.
pub fn perform_beside_servers(
    global: &Global,
    request: &cli::RunRequest,
    aside: bool,
    signals: &StopSignals,
) -> Result<RunEnd, CommandError> {
    perform_for(global, request.clone(), aside, RunPurpose::BesideServers(signals))
}

/// Starts the servers of a plan and keeps them up; the run is shown on stderr, except as events.
pub fn serve(global: &Global, request: &cli::ServeRequest) -> Result<CliExit, CommandError> {
    let aside = request.run.events == EventFormat::Terminal;
    perform_for(global, request.run.clone(), aside, RunPurpose::Serve(request)).map(|ran| ran.exit)
}

fn perform_for(
    global: &Global,
    request: cli::RunRequest,
    aside: bool,
    purpose: RunPurpose<'_>,
) -> Result<RunEnd, CommandError> {
    match prepare(global, request, aside, purpose)? {
        Preparation::Ready(prepared) => execute(*prepared),
        Preparation::Ended(end) => Ok(*end),
    }
}

/// Threads of a run beside those that drive it: the display, signals, the watchdog, and some for files.
const THREADS_BESIDE: usize = 6;

fn execute(mut prepared: PreparedRun) -> Result<RunEnd, CommandError> {
    let signals = prepared.signals.clone();
    let stop = signals.stop().clone();
    // Starting a process holds a thread until the new program is loaded, so one thread could not keep the cores busy.
    let threads = thread::available_parallelism().map_or(1, usize::from).clamp(1, 8);
    check_threads(threads + THREADS_BESIDE)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
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
        prepared.store.as_ref().and_then(|(store, keys)| run_store::open(store, keys, plan, output_cache, emit));
    let (kept_services, ready) = kept_servers.as_ref().map(KeptServers::kept_services).unzip();
    let output_source = shared_store.clone().map(|store| Arc::new(store) as _);
    let options = RunOptions { output_source, kept_services, ..prepared.options.clone() };
    let (abandoned, unknown) = abandoned(home);
    for error in unknown {
        emit(Event::Notice { task: None, text: format!("a job of an earlier run is not ended: {error}") });
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
    let stages = StageExecutor::new(home.state(), id.clone()).of_manifest(&plan.name);
    let stages = Arc::new(stages.in_place(prepared.in_place));
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
        run_store::finish(&store, stop, &prepared.manifest, emit).await;
    }
    if let (Some((address, signatures)), Ok((summary, _))) = (&prepared.store, &summary) {
        shared_results::share((address, signatures), home, id, plan, &summary.done, emit).await;
    }
    summary
}
