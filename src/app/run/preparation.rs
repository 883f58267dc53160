//! From a command line to a run that may begin, or to an end before any task: nothing to do, or something that cannot
//! work.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;
use std::{env, thread};

use crate::before_run::{EarlierRun, earlier_runs, refuse_known_failures};
use crate::cli::{CliExit, Force, Global, GpuSelection, LockMode, OutputVerbosity};
use crate::console::print_error;
use crate::error::CommandError;
use crate::planning::refuse_impossible_launches;
use crate::project::{Project, options};
use crate::run::finish::{self, RunEnd, places};
use crate::run::kept_servers::KeptServers;
use crate::run::signals::StopSignals;
use crate::{cli, console, lockfile, store};
use base::diag::ErrorText;
use base::event::{Event, GpuId, RunId, TaskId, TaskTally};
use base::files::{Digest, cores};
use plan::{Lifetime, Plan};
use report::{LiveDisplay, LiveOptions, RunState};
use runner::shared_store::{SignaturePolicy, StoreAddress};
use runner::store::{
    CachedSource, CompilerId, FileStamp, Latest, NoOpConditions, OutputCache, PathError, StateFolder, unplanned,
};
use runner::{RunOptions, RunSummary, TaskRole, WatchedRun};
use stages::source_notice;

/// What a run is made for.
#[derive(Clone, Copy)]
pub enum RunPurpose<'a> {
    Ordinary,
    /// One run of a list. The signals are shared by all of them: a Ctrl-C between two runs ends the next.
    OfList(&'a StopSignals),
    /// It may use servers that another run keeps up: instead of waiting for it, it ends with [`RunEnd::gave_way`]. The
    /// signals are shared by all attempts.
    BesideServers(&'a StopSignals),
    Serve(&'a cli::ServeRequest),
}

/// How it ended.
pub(super) enum Preparation {
    Ready(Box<PreparedRun>),
    /// There is nothing to do, or it was refused.
    Ended(Box<RunEnd>),
}

impl From<RunEnd> for Preparation {
    fn from(end: RunEnd) -> Self {
        Self::Ended(Box::new(end))
    }
}

/// Everything that is known before anything starts. Reports what is wrong with it.
pub(super) fn prepare(
    global: &Global,
    mut request: cli::RunRequest,
    aside: bool,
    purpose: RunPurpose<'_>,
) -> Result<Preparation, CommandError> {
    let begun = Instant::now();
    let serve = if let RunPurpose::Serve(request) = purpose { Some(request) } else { None };
    let project = Project { env: request.env.clone(), ..Project::open_current(global)? };
    let lock = match request.mode.locking.mode() {
        LockMode::Write { file, .. } => Some(file),
        LockMode::Ignore | LockMode::Verify(..) => None,
    };
    let compiler = project.compiler_of_run(&request.subject, &request.select, lock.as_deref());
    let look = LiveOptions {
        json_lines: request.mode.events.is_some(),
        quiet: global.loudness == OutputVerbosity::Quiet,
        verbose: matches!(global.loudness, OutputVerbosity::Verbose(_)),
        color: global.color,
        aside,
        frameless: matches!(purpose, RunPurpose::BesideServers(_)) && global.loudness == OutputVerbosity::Normal,
    };
    let earlier = earlier_run(&project, &request, serve.is_some(), lock.as_deref(), &compiler);
    if let Some(earlier) = &earlier
        && is_no_op(earlier, &request)
    {
        let state = report_no_op_run(&earlier.conditions, look, &project.home, begun);
        return Ok(RunEnd { state, ..RunEnd::without_tasks(CliExit::Done) }.into());
    }
    // Beside all that is checked before it has the lock.
    let home = project.home.clone();
    let early_cache = thread::Builder::new().spawn(move || OutputCache::open(&home)).ok();
    let (mut plan, compiled) = project.plan_with_digest(&request.subject, &request.select, &compiler, true)?;
    // The manifest may have changed since.
    let earlier = earlier.filter(|earlier| Some(earlier.conditions.plan) == compiled);
    request.mode.junit.as_deref().map(finish::check_junit).transpose()?;
    let kept_servers = serve.map(|serve| KeptServers::choose(&plan, serve)).transpose()?;
    request.select.until.extend(kept_servers.iter().map(|servers| servers.name.clone()));
    let jobs = request.mode.jobs.map_or_else(cores, NonZeroUsize::get);
    let mut options = RunOptions {
        jobs: jobs as u32,
        gpus: leasable_gpus(request.mode.gpus.as_ref())?,
        keep_going: request.keep_going,
        ..options(&plan, &request.select)?
    };
    if let Some(servers) = &kept_servers {
        servers.check_gpus(&plan, &options)?;
    }
    let launches = refuse_impossible_launches(&project, &plan, &options)?;
    if launches != CliExit::Done {
        return Ok(RunEnd::without_tasks(launches).into());
    }
    if kept_servers.is_none() {
        note_servers_alone(&request.subject.manifest, &plan, &options);
    }
    let store = match store::address(request.mode.store.address.as_deref())? {
        Some(address) => Some((address, store::signatures(&request.mode.store)?)),
        None => None,
    };
    let lock_report = lockfile::command::enforce(&project, &request, &mut plan, &mut options, global.styler())?;
    let failures = refuse_known_failures(&project, &request, &plan, &options)?;
    if failures != CliExit::Done {
        return Ok(RunEnd::without_tasks(failures).into());
    }
    let prepared = PreparedRun {
        project,
        plan: Arc::new(plan),
        options,
        compiler,
        compiled,
        earlier,
        early_cache,
        request,
        display_options: look,
        begun,
        store,
        lock_report,
        kept_servers,
        gives_way: matches!(purpose, RunPurpose::BesideServers(_)),
        signals: match purpose {
            RunPurpose::OfList(signals) | RunPurpose::BesideServers(signals) => signals.clone(),
            RunPurpose::Ordinary | RunPurpose::Serve(_) => StopSignals::new(),
        },
    };
    Ok(Preparation::Ready(Box::new(prepared)))
}

/// An earlier run of the same plan, where the shortest path may be taken: its manifest and the program are unchanged.
fn earlier_run(
    project: &Project,
    request: &cli::RunRequest,
    serves: bool,
    lock: Option<&Path>,
    compiler: &CompilerId,
) -> Option<EarlierRun> {
    let may_be_no_op = !serves && request.select.force == Force::Nothing && request.mode.locking.locked.is_none();
    let fresh = may_be_no_op.then(|| compiler.fresh_plan(|name| project.variable(name))).flatten()?;
    earlier_runs(project, &request.subject, &request.select, lock, fresh).next()
}

/// Whether nothing has to run, and only the terminal is told so: a JUnit file and metrics are of a whole run.
fn is_no_op(earlier: &EarlierRun, request: &cli::RunRequest) -> bool {
    earlier.has_same_selection
        && (earlier.has_same_lock || request.mode.locking.no_lock)
        && request.mode.junit.is_none()
        && request.mode.metrics_listen.is_none()
        && earlier.conditions.is_unchanged()
}

/// Servers run while a stage needs them: where only servers are chosen, none is started.
fn note_servers_alone(manifest: &str, plan: &Plan, options: &RunOptions) {
    let chosen = || plan.tasks.iter().zip(&options.roles).filter(|(_, part)| **part == TaskRole::Run);
    let mut tasks = chosen().map(|(task, _)| task).filter(|task| task.skipped.is_none()).peekable();
    if tasks.peek().is_some() && tasks.all(|task| task.lifetime == Lifetime::Service) {
        let note = ErrorText::new(format!("note: no stage needs the servers of `{manifest}`, so none is started"));
        print_error(&format!("{}\n", note.hint(format!("`regatta serve {manifest}` starts them and keeps them up"))));
    }
}

pub(super) struct PreparedRun {
    pub project: Project,
    pub plan: Arc<Plan>,
    pub options: RunOptions,
    pub compiler: CompilerId,
    /// The digest of the stored plan.
    pub compiled: Option<Digest>,
    /// What an earlier run of the same plan looked at.
    pub earlier: Option<EarlierRun>,
    /// Being read before the lock is there.
    pub early_cache: Option<JoinHandle<Result<OutputCache, PathError>>>,
    pub request: cli::RunRequest,
    pub display_options: LiveOptions,
    pub begun: Instant,
    /// The shared store, and whose signatures count there.
    pub store: Option<(StoreAddress, SignaturePolicy)>,
    pub lock_report: lockfile::command::LockReport,
    /// The servers that stay up.
    pub kept_servers: Option<KeptServers>,
    /// It does not wait for a run that keeps its servers up.
    pub gives_way: bool,
    pub signals: StopSignals,
}

/// So many are named.
const NAMED: usize = 10;

/// A message about them. They are not ended: with other parameters the manifest may have their tasks again.
pub(super) fn unplanned_jobs(home: &StateFolder, plan: &Plan) -> Option<String> {
    let planned: BTreeSet<&TaskId> = plan.tasks.iter().map(|task| &task.id).collect();
    let mut jobs: Vec<(TaskId, Option<String>)> = unplanned(home, &plan.name, |task| planned.contains(task))
        .into_iter()
        .map(|(task, job)| (task, job.claimant().ok().flatten().or_else(|| job.number())))
        .collect();
    jobs.sort();
    (!jobs.is_empty()).then(|| message(&jobs))
}

fn message(jobs: &[(TaskId, Option<String>)]) -> String {
    let name = |(task, number): &(TaskId, Option<String>)| {
        let job = number.as_ref().map(|number| format!(" (job {number})")).unwrap_or_default();
        format!("{task}{job}")
    };
    let names: Vec<String> = jobs.iter().take(NAMED).map(name).collect();
    let more = jobs.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!(
        "jobs of an earlier run belong to tasks that the manifest no longer has: {}{more}; a run with these tasks \
         waits for them, and `scancel` ends them",
        names.join(", ")
    )
}

/// Those of `--gpus`, or all of this machine.
///
/// # Errors
/// `CUDA_VISIBLE_DEVICES` names a GPU in a form that is not known.
pub(super) fn leasable_gpus(selection: Option<&GpuSelection>) -> Result<Vec<GpuId>, CommandError> {
    Ok(match selection {
        None => gpus_here()?,
        Some(GpuSelection::Count(count)) => first_gpus(gpus_here()?, *count as usize),
        Some(GpuSelection::Ids(ids)) => ids.clone(),
    })
}

/// The GPUs that this process may use: those of `CUDA_VISIBLE_DEVICES`, or every device file of the driver.
fn gpus_here() -> Result<Vec<GpuId>, CommandError> {
    match env::var("CUDA_VISIBLE_DEVICES") {
        Ok(list) => GpuId::visible(&list).map_err(|error| {
            CommandError::hinted(
                format!("CUDA_VISIBLE_DEVICES={list}: {error}"),
                "write whole UUIDs, or name the GPUs of this run with `--gpus`",
            )
        }),
        Err(_) => Ok((0..64).filter(|n| Path::new(&format!("/dev/nvidia{n}")).exists()).map(GpuId::Index).collect()),
    }
}

/// This many: those that are here, and then numbers that are not among them. To a UUID no number is added, which could
/// be the same GPU.
fn first_gpus(here: Vec<GpuId>, count: usize) -> Vec<GpuId> {
    let has_numbers_only = here.iter().all(|gpu| matches!(gpu, GpuId::Index(_)));
    let missing = if has_numbers_only { count.saturating_sub(here.len()) } else { 0 };
    let more: Vec<GpuId> = (0..).map(GpuId::Index).filter(|gpu| !here.contains(gpu)).take(missing).collect();
    here.into_iter().chain(more).take(count).collect()
}

/// Everything was checked, and nothing has changed since the last run.
pub(super) fn report_no_op_run(
    rest: &NoOpConditions,
    look: LiveOptions,
    home: &StateFolder,
    begun: Instant,
) -> RunState {
    let mut live = LiveDisplay::new(look, console::writer(look));
    let mut notices = source_notices(&rest.sources);
    for event in rest.events.lines().filter_map(|line| serde_json::from_str::<Event>(line).ok()) {
        if matches!(event, Event::RunFinished { .. }) {
            notices.drain(..).for_each(|notice| live.event(&notice));
        }
        let event = match event {
            Event::RunFinished { tally, exit, .. } => {
                Event::RunFinished { tally, exit, seconds: begun.elapsed().as_secs_f64() }
            }
            event => event,
        };
        live.event(&event);
    }
    // A failed run since then has left its own page there.
    let page = live.state().run.as_ref().map(|run| home.run(run).join("report.html")).filter(|page| page.exists());
    page.and_then(|page| Latest::new(home, &live.state().manifest).point_report(&page).ok());
    live.finish(&places(home, true))
}

/// What is to be reported of outputs whose source may be another by now. The remotes of clones are queried, all at
/// once.
fn source_notices(sources: &[CachedSource]) -> Vec<Event> {
    std::thread::scope(|scope| {
        let query = |CachedSource { task, stage, source }: &CachedSource| {
            let text = source_notice(source, stage, true)?;
            Some(Event::Notice { task: Some(task.clone()), text })
        };
        let queries: Vec<_> = sources.iter().map(|source| scope.spawn(move || query(source))).collect();
        queries.into_iter().filter_map(|query| query.join().ok().flatten()).collect()
    })
}

/// Records what makes the next run a no-op, if this one finished everything, and the lock file, if it writes one, as it
/// would be written again. `compiled`: the stored plan that it ran, which may have been replaced since by that of a
/// changed manifest.
pub(super) fn record_no_op_conditions(
    compiler: &CompilerId,
    compiled: Option<Digest>,
    id: &RunId,
    plan: &Plan,
    summary: RunSummary,
    manifest: &str,
    lock: Option<&Path>,
) {
    /// With more tasks than this the next run shows how many there are, not each.
    const EACH: usize = 200;
    let (Some(mut watched), Some(compiled)) = (summary.watched, compiled) else {
        return compiler.drop_rest();
    };
    if let Some(lock) = lock {
        let Ok(stamp) = FileStamp::of_path(lock) else { return compiler.drop_rest() };
        watched.shared.push((lock.to_owned(), stamp));
    }
    let cached = summary.tally.ran + summary.tally.cached;
    // Nothing was finished: the next run says why again.
    if cached == 0 {
        return compiler.drop_rest();
    }
    let started = Event::RunStarted {
        run: id.clone(),
        manifest: manifest.to_owned(),
        params: plan.params.clone(),
        settings: plan.settings(),
        tasks: cached + summary.tally.skipped,
        jobs: 0,
        at: String::new(),
        pid: 0,
    };
    let sources = summary.done.iter().filter_map(|(id, done, _)| {
        let source = done.source.clone()?;
        let stage = plan.tasks.iter().find(|task| task.id == *id)?.stage.clone();
        Some(CachedSource { task: id.clone(), stage, source })
    });
    let sources = sources.collect();
    let mut events = vec![started];
    if cached <= EACH {
        events.extend(
            summary.skipped.iter().map(|(task, why)| Event::TaskSkipped { task: task.clone(), why: why.clone() }),
        );
        events.extend(summary.done.iter().map(|(task, done, out)| Event::TaskCached {
            task: task.clone(),
            done: done.clone(),
            out: Some(out.clone()),
            from: None,
        }));
    } else {
        events.push(Event::AllCached { tasks: cached });
    }
    let tally = TaskTally { cached, skipped: summary.tally.skipped, ..TaskTally::default() };
    events.push(Event::RunFinished { tally, exit: 0, seconds: 0.0 });
    let text = events.iter().filter_map(|event| serde_json::to_string(event).ok()).collect::<Vec<_>>().join("\n");
    let WatchedRun { shared, tasks } = watched;
    let conditions = NoOpConditions { plan: compiled, events: text, shared, tasks, sources };
    let _ = compiler.write_no_op_conditions(&conditions);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_other_tasks_are_named_with_their_numbers() {
        let jobs = [(TaskId::new("s/5"), Some("126_0".to_owned())), (TaskId::new("s/6"), None)];
        let text = message(&jobs);
        assert!(text.contains("no longer has: s/5 (job 126_0), s/6; a run with"), "{text}");
        let many: Vec<_> = (0..12).map(|number| (TaskId::new(format!("s/{number}")), None)).collect();
        assert!(message(&many).contains("s/9 and 2 more;"));
    }

    #[test]
    fn a_count_of_gpus_names_each_once() {
        const WHOLE: &str = "GPU-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f";
        let first = |here: &str, count| GpuId::list(&first_gpus(GpuId::visible(here).unwrap(), count));
        assert_eq!(first("0,1", 4), "0,1,2,3");
        assert_eq!(first("2,5", 4), "2,5,0,1");
        assert_eq!(first("3,4", 1), "3");
        assert_eq!(first("", 2), "0,1");
        assert_eq!(first(WHOLE, 2), WHOLE);
    }
}
