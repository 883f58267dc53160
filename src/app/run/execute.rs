//! One run on this machine: the lock, the journal, the watchdog, the loop, the run state, the exit code.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::after_crash::{clean_up_after_crash, leftover_resources};
use super::ci_files::{self, CiFiles};
use super::kept_servers::{self, KeptServers, ServingContext, ServingPhase};
use super::leasable_gpus::leasable_gpus;
use super::lock_wait::{LockWait, take_lock};
use super::metrics_listener;
use super::no_op_run::{record_no_op_conditions, report_no_op_run};
use super::otlp::{self, OtlpEndpoints, OtlpRecorder};
use super::parallel_join::parallel_join;
use super::progress_printer::ProgressPrinter;
use super::run_end::{RunEnd, places, servers_not_needed, task_lines};
use super::signals::{StopSignals, interrupt};
use super::sink::EventSink;
use super::unplanned_jobs::unplanned_jobs;
use crate::app::console::print_error;
use crate::app::earlier_runs::{EarlierRun, earlier_runs};
use crate::app::error::{CommandError, with_causes};
use crate::app::expression_guard::watch_templates;
use crate::app::known_failures::refuse_known_failures;
use crate::app::planning::refuse_impossible_launches;
use crate::app::project::{Project, options};
use crate::app::{lockfile, past_runs, run_store, shared_results};
use crate::cli::{self, CliExit, EventFormat, Force, Global, KeyValueArg, LockMode, OutputVerbosity, RunTarget};
use crate::diag::FeatureLeftOut;
use crate::event::{Event, RunId, Stop};
use crate::exec::process::{self, ExitKind};
use crate::files::Digest;
use crate::plan::{Lifetime, Plan};
use crate::report::{LiveOptions, RunPaths, RunState, Styler};
use crate::runner::shared_store::{SignaturePolicy, StoreAddress};
use crate::runner::store::{
    CompilerId, Digests, OutputCache, ProjectLock, abandoned, discard, ended_well, unfinished_plans,
};
use crate::runner::{self, EventEmitter, RunOptions, RunSummary, TaskRole, UnchangedTasks};
use crate::stages::{StageExecutor, end_abandoned};

/// Runs the plan of a request on this machine. With `aside`, progress goes to stderr.
pub fn perform(global: &Global, request: &cli::RunRequest, aside: bool) -> Result<RunEnd, CommandError> {
    prepare_and_execute(global, request.clone(), aside, RunPurpose::Ordinary)
}

/// Runs one run of a list; `signals` are shared by all of them: a Ctrl-C between two runs ends the next.
pub fn perform_of_list(
    global: &Global,
    request: &cli::RunRequest,
    signals: &StopSignals,
) -> Result<RunEnd, CommandError> {
    prepare_and_execute(global, request.clone(), false, RunPurpose::OfList(signals))
}

/// Like [`perform`], but returns [`RunEnd::gave_way`] instead of waiting for a run that keeps servers up. `signals` are shared by
/// all attempts.
pub fn perform_beside_servers(
    global: &Global,
    request: &cli::RunRequest,
    aside: bool,
    signals: &StopSignals,
) -> Result<RunEnd, CommandError> {
    prepare_and_execute(global, request.clone(), aside, RunPurpose::BesideServers(signals))
}

/// Starts the servers of a plan and keeps them up; the run is shown on stderr, except as events.
pub fn serve(global: &Global, request: &cli::ServeRequest) -> Result<CliExit, CommandError> {
    let aside = request.run.events == EventFormat::Terminal;
    prepare_and_execute(global, request.run.clone(), aside, RunPurpose::Serve(request)).map(|ran| ran.exit)
}

#[derive(Clone, Copy)]
enum RunPurpose<'a> {
    Ordinary,
    /// Others of the same command may come after it.
    OfList(&'a StopSignals),
    /// It may use servers that another run keeps up.
    BesideServers(&'a StopSignals),
    Serve(&'a cli::ServeRequest),
}

fn prepare_and_execute(
    global: &Global,
    mut request: cli::RunRequest,
    aside: bool,
    purpose: RunPurpose<'_>,
) -> Result<RunEnd, CommandError> {
    let begun = Instant::now();
    let serve = if let RunPurpose::Serve(request) = purpose { Some(request) } else { None };
    let project = Project { env: request.env.clone(), ..Project::open_current(global)? };
    let lock = match &request.locking {
        LockMode::Write { file, .. } => Some(file.as_path()),
        LockMode::Ignore | LockMode::Verify(..) => None,
    };
    let compiler = project.compiler_of_run(&request.manifest, &request.settings, &request.select, lock);
    let look = LiveOptions {
        json_lines: request.events == EventFormat::JsonLines,
        quiet: global.loudness == OutputVerbosity::Quiet,
        verbose: matches!(global.loudness, OutputVerbosity::Verbose(_)),
        color: global.color.choice(),
        aside,
    };
    let may_be_no_op =
        serve.is_none() && request.select.force == Force::Nothing && !matches!(request.locking, LockMode::Verify(..));
    let fresh = may_be_no_op.then(|| compiler.fresh_plan(|name| project.variable(name))).flatten();
    let earlier = fresh.and_then(|plan| {
        earlier_runs(&project, &request.manifest, &request.settings, &request.select, lock, plan).next()
    });
    if let Some(earlier) = &earlier
        && earlier.has_same_selection
        && (earlier.has_same_lock || request.locking == LockMode::Ignore)
        && request.junit.is_none()
        && request.metrics_listen.is_none()
        && request.otlp.is_none()
        && earlier.conditions.is_unchanged()
    {
        let lines = report_no_op_run(&earlier.conditions, look, &project.home, begun);
        return Ok(RunEnd { task_lines: lines, ..RunEnd::without_tasks(CliExit::Done) });
    }
    let (mut plan, compiled) =
        project.plan_with_digest(&request.manifest, &request.settings, &request.select, &compiler, true)?;
    // The manifest may have changed since.
    let earlier = earlier.filter(|earlier| Some(earlier.conditions.plan) == compiled);
    if request.otlp.is_some() && !cfg!(feature = "otlp") {
        return Err(CommandError::usage(FeatureLeftOut("otlp")));
    }
    let otlp = OtlpEndpoints::of(request.otlp.as_deref(), |name| project.variable(name));
    otlp.check().map_err(CommandError::usage)?;
    request.junit.as_deref().map(ci_files::check_junit).transpose()?;
    let kept_servers = serve.map(|serve| KeptServers::choose(&plan, serve)).transpose()?;
    request.select.until.extend(kept_servers.iter().map(|servers| servers.name.clone()));
    let jobs = request.jobs.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), NonZeroUsize::get);
    let mut options = RunOptions {
        jobs: jobs as u32,
        gpus: leasable_gpus(request.gpus.as_ref())?,
        keep_going: request.keep_going,
        ..options(&plan, &request.select)?
    };
    if let Some(servers) = &kept_servers {
        servers.check_gpus(&plan, &options)?;
    }
    let launches = refuse_impossible_launches(&project, &plan, &options)?;
    if launches != CliExit::Done {
        return Ok(RunEnd::without_tasks(launches));
    }
    if kept_servers.is_none() {
        note_servers_alone(&request.manifest, &plan, &options);
    }
    let store = match run_store::address(request.store.address.as_deref())? {
        Some(address) => Some((address, run_store::signatures(&request.store)?)),
        None => None,
    };
    let lock_report =
        lockfile::command::enforce(&project, &request, &mut plan, &mut options, Styler::chosen(look.color))?;
    let failures = refuse_known_failures(&project, &request, &plan, &options)?;
    if failures != CliExit::Done {
        return Ok(RunEnd::without_tasks(failures));
    }
    let prepared = PreparedRun {
        project,
        plan: Arc::new(plan),
        options,
        compiler,
        compiled,
        earlier,
        manifest: request.manifest.clone(),
        settings: request.settings.clone(),
        display_options: look,
        begun,
        in_place: request.on == RunTarget::InPlace,
        store,
        locking: request.locking.clone(),
        lock_report,
        kept_servers,
        gives_way: matches!(purpose, RunPurpose::BesideServers(_)),
        signals: match purpose {
            RunPurpose::OfList(signals) | RunPurpose::BesideServers(signals) => signals.clone(),
            RunPurpose::Ordinary | RunPurpose::Serve(_) => StopSignals::new(),
        },
        junit: request.junit.clone(),
        metrics_listen: request.metrics_listen.clone(),
        otlp,
    };
    prepared.execute()
}

/// Servers run while a stage needs them: where only servers are chosen, none is started.
fn note_servers_alone(manifest: &str, plan: &Plan, options: &RunOptions) {
    let chosen = || plan.tasks.iter().zip(&options.roles).filter(|(_, part)| **part == TaskRole::Run);
    let mut tasks = chosen().map(|(task, _)| task).filter(|task| task.skipped.is_none()).peekable();
    if tasks.peek().is_some() && tasks.all(|task| task.lifetime == Lifetime::Service) {
        print_error(&format!(
            "note: no stage needs the servers of `{manifest}`, so none is started\n  hint: `regatta serve {manifest}` starts them and keeps them up\n"
        ));
    }
}

struct PreparedRun {
    project: Project,
    plan: Arc<Plan>,
    options: RunOptions,
    compiler: CompilerId,
    /// The digest of the stored plan.
    compiled: Option<Digest>,
    /// What an earlier run of the same plan looked at.
    earlier: Option<EarlierRun>,
    manifest: String,
    settings: Vec<KeyValueArg>,
    display_options: LiveOptions,
    begun: Instant,
    /// On the nodes of an allocation already.
    in_place: bool,
    /// The shared store, and whose signatures count there.
    store: Option<(StoreAddress, SignaturePolicy)>,
    locking: LockMode,
    lock_report: lockfile::command::LockReport,
    /// The servers that stay up.
    kept_servers: Option<KeptServers>,
    /// It does not wait for a run that keeps its servers up.
    gives_way: bool,
    signals: StopSignals,
    /// Where to write JUnit XML.
    junit: Option<PathBuf>,
    metrics_listen: Option<String>,
    /// Where the run goes as a trace and as metrics.
    otlp: OtlpEndpoints,
}

/// Threads of a run beside those that drive it: the display, signals, the watchdog, and some for files.
const THREADS_BESIDE: usize = 6;

/// Whether this many threads can be had at once. Those that are started later cannot report it.
fn check_threads(count: usize) -> Result<(), CommandError> {
    let (send, receive) = std::sync::mpsc::channel::<()>();
    let receive = Arc::new(parking_lot::Mutex::new(receive));
    let mut started = Vec::new();
    let all = (0..count).try_for_each(|_| {
        let receive = Arc::clone(&receive);
        // Ends when all are there.
        let wait = move || {
            let _ = receive.lock().recv();
        };
        let thread = thread::Builder::new().stack_size(64 * 1024).spawn(wait)?;
        started.push(thread);
        Ok::<(), std::io::Error>(())
    });
    drop(send);
    for thread in started {
        let _ = thread.join();
    }
    all.map_err(|error| {
        let what = format!("a run needs {count} threads, and the system gives no more of them: {error}");
        anyhow::anyhow!("{what}\n  hint: `ulimit -u` shows how many processes and threads this user may have").into()
    })
}

/// What a run works with.
struct RunResources<'a> {
    cache: &'a Arc<OutputCache>,
    digests: &'a Arc<Digests>,
    id: &'a RunId,
    stop: &'a Stop,
    emit: &'a EventEmitter,
    lock: &'a ProjectLock,
}

impl PreparedRun {
    fn execute(mut self) -> Result<RunEnd, CommandError> {
        let home = self.project.home.clone();
        let signals = self.signals.clone();
        let stop = signals.stop().clone();
        // Starting a process holds a thread until the new program is loaded, so one thread could not keep the cores busy.
        let threads = thread::available_parallelism().map_or(1, usize::from).clamp(1, 8);
        check_threads(threads + THREADS_BESIDE)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
        let printer = ProgressPrinter::start(self.display_options);
        let send = printer.send.clone();
        let phase = self.kept_servers.as_ref().map(KeptServers::phase);
        let first = move |stop: &Stop| phase.as_ref().and_then(ServingPhase::end).unwrap_or_else(|| interrupt(stop));
        let _answered = signals.answer(first, move |event| drop(send.send(Some(event))))?;
        // While it was prepared, after another one of the same command.
        if stop.is_requested() {
            printer.close();
            return Ok(RunEnd::without_tasks(CliExit::Interrupted));
        }
        process::adopt_orphans()?;
        let asked = Instant::now();
        let lock = match take_lock(&home, self.gives_way, &stop, &printer.send)? {
            LockWait::Acquired(lock) => lock,
            LockWait::Interrupted => {
                printer.close();
                return Ok(RunEnd::without_tasks(CliExit::Interrupted));
            }
            LockWait::GaveWay => {
                printer.close();
                return Ok(RunEnd { gave_way: true, ..RunEnd::without_tasks(CliExit::Interrupted) });
            }
        };
        // A run begins when no other one is in the way.
        self.begun += asked.elapsed();
        let id = lock.run.clone();
        // Only now: while this run waited for the lock, another one may have changed anything.
        let earlier = self.earlier.take();
        let is_lock_file_as_written = earlier.as_ref().is_some_and(|earlier| {
            earlier.has_same_selection && earlier.has_same_lock && earlier.conditions.is_shared_unchanged()
        });
        for plan in unfinished_plans(&home) {
            let _ = discard(&plan);
        }
        // Before this run has a journal, which would be the last one.
        let left = if ended_well(&home)? { None } else { Some(leftover_resources(&home)?) };
        let (opened, unchanged) = parallel_join(
            || OutputCache::open(&home),
            || UnchangedTasks::of(earlier.map(|earlier| earlier.conditions.tasks).unwrap_or_default()),
        );
        self.options.unchanged = Arc::new(unchanged);
        let output_cache = Arc::new(opened?);
        output_cache.begin()?;
        let digests = Arc::new(Digests::load(&home));
        let scraped = self.metrics_listen.as_ref().map(|_| Arc::new(parking_lot::Mutex::new(RunState::new())));
        let sink = Arc::new(EventSink::new(&home, &id, &lock, printer.send.clone(), stop.clone(), scraped.clone())?);
        let recorder = (!self.otlp.is_empty()).then(|| Arc::new(parking_lot::Mutex::new(OtlpRecorder::new())));
        let emit: EventEmitter = {
            let (sink, recorder) = (Arc::clone(&sink), recorder.clone());
            Arc::new(move |event| {
                if let Some(recorder) = &recorder {
                    recorder.lock().take(&event);
                }
                sink.take(&event);
            })
        };
        self.emit_run_started(&id, &lock, &emit);
        if let (Some(address), Some(state)) = (&self.metrics_listen, scraped) {
            let bound = runtime.block_on(metrics_listener::listen(address, state));
            emit(match bound {
                Ok(bound) => Event::MetricsServed { url: format!("http://{bound}/metrics") },
                Err(error) => Event::Notice { task: None, text: format!("no metrics of this run: {address}: {error}") },
            });
        }
        if let Some(left) = left {
            clean_up_after_crash(&home, left, &id, &output_cache, &emit);
        }
        let work =
            RunResources { cache: &output_cache, digests: &digests, id: &id, stop: &stop, emit: &emit, lock: &lock };
        let (mut summary, of_command) = runtime.block_on(self.work(&work))?;
        // Do not wait for an input that is still being read after a stop request.
        runtime.shutdown_background();
        let unsynced = output_cache.sync().err();
        let exit = if unsynced.is_some() { CliExit::Failed } else { exit_of(&summary, of_command) };
        let is_to_lock =
            exit == CliExit::Done && self.kept_servers.is_none() && !(summary.is_as_before && is_lock_file_as_written);
        // Each of them takes a while where the plan is large.
        let (saved, locked) = parallel_join(
            || {
                if unsynced.is_none() {
                    output_cache.keep_parsed();
                }
                digests.save(&home)
            },
            || is_to_lock.then(|| self.write_lock_file(&id, &summary, is_lock_file_as_written)),
        );
        let is_lock_missing =
            matches!(locked, Some(Err(_))) && matches!(self.locking, LockMode::Write { is_named: true, .. });
        let unsaved = saved.err().map(|error| format!("the next run reads its inputs again: {error}"));
        let notice = locked.and_then(|locked| locked.unwrap_or_else(|error| Some(error.to_string())));
        for text in unsaved.into_iter().chain(notice) {
            emit(Event::Notice { task: None, text });
        }
        let mut live = printer.close();
        // How the run ends is settled before it is recorded.
        let seconds = self.begun.elapsed().as_secs_f64();
        let finished = |exit: CliExit| Event::RunFinished { tally: summary.tally, exit: exit.code(), seconds };
        let ci_files = self.write_ci_files(live.state(), &finished(exit));
        let fails = sink.is_broken() || !ci_files.is_junit_written() || is_lock_missing;
        let exit = if exit == CliExit::Done && fails { CliExit::Failed } else { exit };
        let finished = finished(exit);
        emit(finished.clone());
        live.event(&finished);
        let broken = sink.finish();
        let outs = past_runs::outputs(live.state(), &summary.done);
        let (measured, run_state) = (std::mem::take(&mut summary.measured), live.state());
        let (report, ()) = parallel_join(
            || past_runs::write_report(&home, &id, run_state, &self.plan, &measured),
            || {
                if broken.is_none() && unsynced.is_none() && !is_lock_missing {
                    self.record_no_op_conditions(&id, summary);
                }
            },
        );
        let (report, report_error) = match report {
            Ok(report) => (Some(report), None),
            Err(error) => (None, Some(error)),
        };
        live.set_not_needed(servers_not_needed(&self.plan, &self.options.roles, live.state()));
        let lines = task_lines(live.state());
        let places = RunPaths { logs: Some(home.run(&id)), report: report.clone(), ..places(&home) };
        let run_state = live.finish(&places);
        if let Some(error) = report_error {
            print_error(&format!("warning: this run has no report: {}\n", with_causes(&error)));
        }
        ci_files.print_errors();
        if let Some(recorder) = recorder {
            otlp::send(&recorder.lock(), &self.otlp);
        }
        if let Some(error) = broken {
            return Err(anyhow::Error::from(error)
                .context("the run was stopped, because its journal could not be written")
                .into());
        }
        if let Some(error) = unsynced {
            return Err(error.into());
        }
        drop(lock);
        let large_parts = Some((self.plan, output_cache, run_state));
        Ok(RunEnd { exit, outs, report, task_lines: lines, gave_way: false, large_parts })
    }

    /// Of a run that ends so.
    fn write_ci_files(&self, state: &RunState, finished: &Event) -> CiFiles {
        let step_summary = self.project.variable(ci_files::STEP_SUMMARY).map(PathBuf::from);
        if self.junit.is_none() && step_summary.is_none() {
            return CiFiles::default();
        }
        let mut state = state.clone();
        state.fold(finished);
        CiFiles::write(&state, self.junit.as_deref(), step_summary.as_deref())
    }

    /// Returns what the user should know of it.
    ///
    /// # Errors
    /// It could not be written.
    fn write_lock_file(
        &self,
        id: &RunId,
        summary: &RunSummary,
        is_lock_as_written: bool,
    ) -> anyhow::Result<Option<String>> {
        let Self { project, locking, settings, plan, options, .. } = self;
        let roles = &options.roles;
        let run = lockfile::command::FinishedRun { id, plan, settings, roles, summary, is_lock_as_written };
        lockfile::command::write(project, locking, &run)
    }

    /// Not of a run that enforces a lock file, for it changes its plan.
    fn record_no_op_conditions(&self, id: &RunId, summary: RunSummary) {
        let lock_file = match &self.locking {
            LockMode::Write { file, .. } => Some(self.project.home.project().join(file)),
            LockMode::Ignore => None,
            LockMode::Verify(..) => return,
        };
        let lock_file = lock_file.as_deref();
        record_no_op_conditions(&self.compiler, self.compiled, id, &self.plan, summary, &self.manifest, lock_file);
    }

    /// Reported before anything happens.
    fn emit_run_started(&self, id: &RunId, lock: &ProjectLock, emit: &EventEmitter) {
        let is_part = |part: &TaskRole| *part != TaskRole::NotNeeded;
        emit(Event::RunStarted {
            run: id.clone(),
            manifest: self.manifest.clone(),
            params: self.plan.params.clone(),
            settings: self.plan.settings(),
            tasks: self.options.roles.iter().filter(|part| is_part(part)).count(),
            jobs: self.options.jobs as usize,
            at: jiff::Timestamp::now().to_string(),
            pid: std::process::id(),
        });
        let chosen: Vec<bool> = self.options.roles.iter().map(is_part).collect();
        for text in self.plan.idle(&chosen) {
            emit(Event::Notice { task: None, text });
        }
        for (task, text) in &self.lock_report.messages {
            emit(Event::Notice { task: task.clone(), text: text.clone() });
        }
        if lock.unprotected {
            let text = "this filesystem has no locks: two runs of this project at once would not see each other";
            emit(Event::Notice { task: None, text: text.to_owned() });
        }
    }

    /// Runs the tasks, with the store beside them, and ends what they have left running.
    async fn work(&self, work: &RunResources<'_>) -> Result<(RunSummary, Option<ExitKind>), tokio::task::JoinError> {
        let RunResources { cache: output_cache, digests, id, stop, emit, lock } = work;
        let home = &self.project.home;
        let shared_store =
            self.store.as_ref().and_then(|(store, keys)| run_store::open(store, keys, &self.plan, output_cache, emit));
        let (kept_services, ready) = self.kept_servers.as_ref().map(KeptServers::kept_services).unzip();
        let output_source = shared_store.clone().map(|store| Arc::new(store) as _);
        let options = RunOptions { output_source, kept_services, ..self.options.clone() };
        let (abandoned, unknown) = abandoned(home);
        for error in unknown {
            emit(Event::Notice { task: None, text: format!("a job of an earlier run is not ended: {error}") });
        }
        if let Some(text) = unplanned_jobs(home, &self.plan) {
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
        let stages = StageExecutor::new(home.state(), (*id).clone()).of_manifest(&self.plan.name);
        let stages = Arc::new(stages.in_place(self.in_place));
        let running = runner::run(
            Arc::clone(&self.plan),
            stages,
            Arc::clone(output_cache),
            Arc::clone(digests),
            options,
            (*id).clone(),
            (*stop).clone(),
            Arc::clone(emit),
        );
        let running = tokio::spawn(running);
        let summary = match (&self.kept_servers, ready) {
            (Some(servers), Some(ready)) => {
                let around = ServingContext { home, plan: &self.plan, id, stop, emit, lock };
                servers.attend(running, ready, &around).await
            }
            _ => running.await.map(|summary| (summary, None)),
        };
        for leftover in process::sweep(Duration::from_secs(1)).await {
            let text = format!("ended {} ({}), which a stage had left running", leftover.program(), leftover.pid);
            emit(Event::Notice { task: None, text });
        }
        if let Some(store) = shared_store {
            run_store::finish(&store, stop, &self.manifest, emit).await;
        }
        if let (Some((address, signatures)), Ok((summary, _))) = (&self.store, &summary) {
            shared_results::share((address, signatures), home, id, &self.plan, &summary.done, emit).await;
        }
        summary
    }
}

/// `of_command`: the end of the command that the servers were kept up for.
fn exit_of(summary: &RunSummary, of_command: Option<ExitKind>) -> CliExit {
    if summary.interrupted {
        return CliExit::Interrupted;
    }
    match (CliExit::of_all(summary.failures.iter().map(|(_, failure)| failure.kind)), of_command) {
        (CliExit::Done, Some(end)) => kept_servers::exit_of_command(end),
        (exit, _) => exit,
    }
}
