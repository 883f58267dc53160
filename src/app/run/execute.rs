//! One run on this machine: the lock, the journal, the watchdog, the loop, the run state, the exit code.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::after_crash::clear_up;
use super::no_op_run::{keep_rest, nothing_to_do};
use super::progress_printer::ProgressPrinter;
use super::run_end::{RunEnd, places, told};
use super::signals::heed;
use super::sink::EventSink;
use crate::app::error::CommandError;
use crate::app::project::{Project, gpus_here, options};
use crate::app::{history, lockfile, sharing};
use crate::cli::{self, CliExit, EventsAs, Force, GivenSetting, Global, GpuSelection, Locking, Loudness, On};
use crate::event::{Event, RunId, Stop};
use crate::exec::process;
use crate::plan::Plan;
use crate::report::{LiveOptions, RunPaths, Styler};
use crate::runner::remote_cache::Address;
use crate::runner::store::{
    CompilerId, Digests, Home, LockAttempt, OutputCache, ProjectLock, abandoned, discard, ended_well, last_run,
    name_run, unfinished_plans,
};
use crate::runner::{self, Emit, RunOptions, RunSummary, TaskRole};
use crate::stages::{StageExecutor, end_abandoned};

/// `aside` shows the run on stderr.
pub fn perform(global: &Global, request: &cli::RunRequest, aside: bool) -> Result<RunEnd, CommandError> {
    let begun = Instant::now();
    let project = Project { env: request.env.clone(), ..Project::here(global)? };
    let compiler = project.compiler(&request.manifest, &request.settings, &request.select);
    let look = LiveOptions {
        json_lines: request.events == EventsAs::JsonLines,
        quiet: global.loudness == Loudness::Quiet,
        verbose: matches!(global.loudness, Loudness::Verbose(_)),
        color: global.color.choice(),
        aside,
    };
    if request.select.force == Force::Nothing
        && !matches!(request.locking, Locking::Hold(..))
        && compiler.is_fresh(|name| project.variable(name))
        && let Some(rest) = compiler.rest()
        && rest.holds()
    {
        let told = nothing_to_do(&rest, look, &project.home, begun);
        return Ok(RunEnd { exit: CliExit::Done, outs: Vec::new(), report: None, told });
    }
    let mut plan = project.plan(&request.manifest, &request.settings, &request.select, &compiler, true)?;
    let jobs = request.jobs.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), NonZeroUsize::get);
    let gpus = match &request.gpus {
        None => gpus_here(),
        Some(GpuSelection::Count(n)) => gpus_here().into_iter().chain(0..).take(*n as usize).collect(),
        Some(GpuSelection::These(ids)) => ids.clone(),
    };
    let mut options = options(&plan, &request.select, jobs as u32, gpus, request.keep_going)?;
    project.has_files_of(&plan, &options)?;
    let store = sharing::address(request.store.as_deref())?;
    let holding = lockfile::command::hold(&project, request, &mut plan, &mut options, Styler::chosen(look.color))?;
    let prepared = PreparedRun {
        project,
        plan: Arc::new(plan),
        options,
        compiler,
        manifest: request.manifest.clone(),
        settings: request.settings.clone(),
        look,
        begun,
        in_place: request.on == On::InPlace,
        store,
        locking: request.locking.clone(),
        holding,
    };
    prepared.go()
}

struct PreparedRun {
    project: Project,
    plan: Arc<Plan>,
    options: RunOptions,
    compiler: CompilerId,
    manifest: String,
    settings: Vec<GivenSetting>,
    look: LiveOptions,
    begun: Instant,
    /// On the nodes of an allocation already.
    in_place: bool,
    /// The cache that machines share.
    store: Option<Address>,
    locking: Locking,
    holding: lockfile::command::LockReport,
}

/// What a run works with.
struct Work<'a> {
    shelf: &'a Arc<OutputCache>,
    digests: &'a Arc<Digests>,
    id: &'a RunId,
    stop: &'a Stop,
    emit: &'a Emit,
}

impl PreparedRun {
    fn go(self) -> Result<RunEnd, CommandError> {
        let home = self.project.home.clone();
        let stop = Stop::new();
        // Starting a process holds a thread until the new program is loaded, so one thread could not keep the cores busy.
        let threads = thread::available_parallelism().map_or(1, usize::from).clamp(1, 8);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
        let teller = ProgressPrinter::start(self.look);
        let send = teller.send.clone();
        heed(stop.clone(), move |event| drop(send.send(Some(event))))?;
        process::adopt_orphans()?;
        let Some(lock) = take_lock(&home, &stop, &teller)? else {
            teller.close();
            return Ok(RunEnd { exit: CliExit::Interrupted, outs: Vec::new(), report: None, told: Vec::new() });
        };
        let id = lock.run.clone();
        for plan in unfinished_plans(&home) {
            let _ = discard(&plan);
        }
        let crashed = !ended_well(&home);
        let before = last_run(&home);
        let shelf = Arc::new(OutputCache::open(&home)?);
        shelf.begin()?;
        let digests = Arc::new(Digests::load(&home));
        let sink = Arc::new(EventSink::new(&home, &id, &lock, teller.send.clone(), stop.clone())?);
        let emit: Emit = {
            let sink = Arc::clone(&sink);
            Arc::new(move |event| sink.take(&event))
        };
        self.announce(&id, &lock, &emit);
        if crashed {
            clear_up(&home, before.as_ref(), &id, &shelf, &emit);
        }
        let work = Work { shelf: &shelf, digests: &digests, id: &id, stop: &stop, emit: &emit };
        let summary = runtime.block_on(self.work(&work))?;
        // Do not wait for an input that is still being read after a stop request.
        runtime.shutdown_background();
        shelf.sync()?;
        let _ = digests.save(&home);
        let exit = exit_of(&summary);
        if exit == CliExit::Done
            && let Some(text) = lockfile::command::write(
                &self.project,
                &self.locking,
                &self.settings,
                &self.plan,
                &self.options.parts,
                &summary.settled,
            )
        {
            emit(Event::Notice { task: None, text });
        }
        emit(Event::RunFinished {
            tally: summary.tally,
            exit: exit.code(),
            seconds: self.begun.elapsed().as_secs_f64(),
        });
        let broken = sink.finish();
        let live = teller.close();
        let report = history::write_report(&home, &id, live.story(), &self.plan, &summary.done);
        let outs = history::outputs(live.story(), &summary.done);
        let report = report.ok();
        let told = told(live.story());
        let places = RunPaths { logs: Some(home.run(&id)), report: report.clone(), ..places(&home) };
        live.finish(&places);
        if let Some(error) = broken {
            return Err(anyhow::Error::from(error)
                .context("the run was stopped, because its journal could not be written")
                .into());
        }
        if let Locking::Write(file) = &self.locking {
            let file = self.project.home.project().join(file);
            keep_rest(&self.compiler, &id, &self.plan, summary, &self.manifest, &file);
        }
        drop(lock);
        Ok(RunEnd { exit, outs, report, told })
    }

    /// Reported before anything happens.
    fn announce(&self, id: &RunId, lock: &ProjectLock, emit: &Emit) {
        let is_part = |part: &TaskRole| *part != TaskRole::Out;
        emit(Event::RunStarted {
            run: id.clone(),
            manifest: self.manifest.clone(),
            params: self.plan.params.clone(),
            tasks: self.options.parts.iter().filter(|part| is_part(part)).count(),
            jobs: self.options.jobs as usize,
            at: jiff::Timestamp::now().to_string(),
            pid: std::process::id(),
        });
        let chosen: Vec<bool> = self.options.parts.iter().map(is_part).collect();
        for text in self.plan.idle(&chosen) {
            emit(Event::Notice { task: None, text });
        }
        for (task, text) in &self.holding.told {
            emit(Event::Notice { task: task.clone(), text: text.clone() });
        }
        if lock.unprotected {
            let text = "this filesystem has no locks: two runs of this project at once would not see each other";
            emit(Event::Notice { task: None, text: text.to_owned() });
        }
    }

    /// Runs the tasks, with the store beside them, and ends what they have left running.
    async fn work(&self, work: &Work<'_>) -> Result<RunSummary, tokio::task::JoinError> {
        let Work { shelf, digests, id, stop, emit } = work;
        let home = &self.project.home;
        let share = self.store.clone().and_then(|store| sharing::open(&store, &self.plan, shelf, emit));
        let options = RunOptions { shared: share.clone().map(|share| Arc::new(share) as _), ..self.options.clone() };
        let abandoned = abandoned(home);
        if !abandoned.is_empty() {
            let emit = Arc::clone(emit);
            // A controller that does not answer must not delay the run.
            tokio::spawn(async move {
                for text in end_abandoned(abandoned).await {
                    emit(Event::Notice { task: None, text });
                }
            });
        }
        let stages = Arc::new(StageExecutor::new(home.state(), (*id).clone()).in_place(self.in_place));
        let running = runner::run(
            Arc::clone(&self.plan),
            stages,
            Arc::clone(shelf),
            Arc::clone(digests),
            options,
            (*id).clone(),
            (*stop).clone(),
            Arc::clone(emit),
        );
        let summary = tokio::spawn(running).await;
        for leftover in process::sweep(Duration::from_secs(1)).await {
            let text = format!("ended {} ({}), which a stage had left running", leftover.pid, leftover.command);
            emit(Event::Notice { task: None, text });
        }
        if let Some(share) = share {
            sharing::finish(&share, stop, &self.manifest, emit).await;
        }
        summary
    }
}

/// Waits for another run of this project, reporting so once. `None` if a stop request comes meanwhile.
fn take_lock(home: &Home, stop: &Stop, teller: &ProgressPrinter) -> Result<Option<ProjectLock>, CommandError> {
    let mut said = false;
    loop {
        match ProjectLock::try_take(home, || name_run(home))? {
            LockAttempt::Yes(lock) => return Ok(Some(lock)),
            LockAttempt::No(held) => {
                if !said {
                    said = true;
                    let (run, pid) = held.map_or(("?".to_owned(), 0), |held| (held.run, held.pid));
                    let _ = teller.send.send(Some(Event::Waiting { run, pid }));
                }
                if stop.is_asked() {
                    return Ok(None);
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

fn exit_of(summary: &RunSummary) -> CliExit {
    if summary.interrupted {
        return CliExit::Interrupted;
    }
    CliExit::of_all(summary.failures.iter().map(|(_, failure)| failure.kind))
}
