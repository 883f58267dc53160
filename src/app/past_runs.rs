//! Runs that another process began or that have ended, from their journals: `status`, `logs`, `report`, and the page
//! that a run leaves.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::io::{IsTerminal as _, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use std::{fs, io};

use serde_json::json;

use super::console::{PiecePrinter, is_closed};
use super::found_result::search_in;
use super::history::shown_manifest;
use super::project::{Project, hint_of_runs_above};
use super::result_name::named_run;
use crate::cli::{self, CliExit, Global, LogsRequest, StatusRequest};
use crate::console::{print, print_as, print_error};
use crate::error::CommandError;
use base::event::{RunId, TaskId};
use base::files::{is_absence, open_regular, read_text};
use harness::{GatheredResult, RESULT, SWEEP, SweepPoint, SweepReport, first_requests, gather_sweeps};
use interop::MeasuredResult;
use plan::Plan;
use report::{PageResult, ResultRow, RunState};
use runner::store::{
    Latest, PathError, ProjectLock, StateFolder, WithPath as _, fold_run, is_there, items_in, last_run, read_progress,
    readable_runs, tags_of, write_named,
};

/// Erases the screen of a terminal, and goes to its upper left corner.
const CLEAR: &str = "\x1b[2J\x1b[H";

pub(super) fn status(global: &Global, request: StatusRequest) -> Result<CliExit, CommandError> {
    let home = Project::open_current(global)?.home;
    let Some(run) = last_run(&home)? else { return Err(no_run_error(&home)) };
    let is_terminal = std::io::stdout().is_terminal();
    loop {
        let ObservedRun { state: mut run_state, is_alive: alive } = ObservedRun::read(&home, &run)?;
        if alive {
            for event in read_progress(&home, &run) {
                run_state.fold(&event);
            }
        }
        let text = if request.json {
            format!("{:#}\n", report::run_status_json(&run_state, alive))
        } else {
            report::run_status(&run_state, alive, global.styler())
        };
        let is_repainted = request.follow && is_terminal && !request.json;
        print(&if is_repainted { format!("{CLEAR}{text}") } else { text });
        if !(request.follow && alive) || is_closed() {
            return Ok(exit_of(&run_state, alive));
        }
        thread::sleep(if is_repainted { Duration::from_secs(1) } else { Duration::from_secs(10) });
    }
}

/// The exit code of a run as its own command left with it, or would have; 0 while it runs.
fn exit_of(run_state: &RunState, is_alive: bool) -> CliExit {
    match run_state.finished {
        Some(end) => CliExit::from_code(end.exit.into()),
        None if is_alive => CliExit::Done,
        None => CliExit::Interrupted,
    }
}

/// Prints a line about each run that cannot be looked at, and returns the others.
pub(super) fn report_unreadable((runs, unreadable): (Vec<RunId>, Vec<PathError>)) -> Vec<RunId> {
    for error in unreadable {
        print_error(&format!("left out: {error}\n"));
    }
    runs
}

/// What was read; else prints a line about it, unless it was removed meanwhile.
pub(super) fn or_left_out<T>(read: Result<T, PathError>) -> Option<T> {
    if let Err(error) = &read
        && !is_absence(&error.source)
    {
        print_error(&format!("left out: {error}\n"));
    }
    read.ok()
}

/// The runs of this project, newest first.
pub(super) fn list(global: &Global, request: &cli::RunsRequest) -> Result<CliExit, CommandError> {
    let home = Project::open_current(global)?.home;
    let mut rows = Vec::new();
    let runs = report_unreadable(readable_runs(&home)?);
    // After their names and before their journals: see `ObservedRun`.
    let holding = holding_run(&home)?;
    for run in runs.iter().rev() {
        if rows.len() == request.most {
            break;
        }
        let observed = ObservedRun::read_after(&home, run, || holding.as_ref() == Some(run));
        let Some(ObservedRun { state, is_alive }) = or_left_out(observed) else { continue };
        let is_wanted = request.manifest.as_ref().is_none_or(|part| state.manifest.contains(part.as_str()));
        let is_good = state.finished.is_some_and(|end| end.exit == 0);
        if is_wanted && !(request.failed && (is_good || is_alive)) {
            let Some(tags) = or_left_out(tags_of(&home, run)) else { continue };
            let mut row = report::RunRow::new(&state, tags, is_alive);
            row.manifest = shown_manifest(&home, &state.manifest);
            if request.json || request.csv {
                add_numbers(&mut row);
            }
            rows.push(row);
        }
    }
    if request.csv {
        print(&report::run_list_csv(&rows));
    } else {
        print_as(global.styler(), request.json, || json!({ "runs": rows }), |styler| report::run_list(&rows, styler));
    }
    Ok(CliExit::Done)
}

/// Of the results that are still there; those of a sweep's points take its place.
fn add_numbers(row: &mut report::RunRow) {
    row.results = row.results.drain(..).flat_map(points).collect();
    for result in &mut row.results {
        let file = result.folder.as_ref().map(|folder| folder.join(RESULT));
        if let Some(read) = file.and_then(|file| harness::read_result(&file).ok()) {
            result.numbers = report::result_numbers(&read);
            result.workload = Some(read.workload().to_string());
        }
    }
}

fn points(result: ResultRow) -> Vec<ResultRow> {
    let sweep = result.folder.as_ref().and_then(|out| Some((out, SweepReport::read(&out.join(SWEEP)).ok()?)));
    let Some((out, sweep)) = sweep.filter(|(_, sweep)| !sweep.points.is_empty()) else { return vec![result] };
    let of_point =
        |point: &SweepPoint| ResultRow { folder: Some(out.join(&point.folder)), workload: None, ..result.clone() };
    sweep.points.iter().map(of_point).collect()
}

/// The name of the last run.
pub(super) fn last(global: &Global) -> Result<String, CommandError> {
    let home = Project::open_current(global)?.home;
    last_run(&home)?.map(|run| run.to_string()).ok_or_else(|| no_run_error(&home))
}

pub(super) fn no_run_error(home: &StateFolder) -> CommandError {
    let hint = hint_of_runs_above(home).unwrap_or_else(|| "`regatta run quickstart` runs everywhere".to_owned());
    CommandError::hinted("nothing has run in this folder yet", hint)
}

/// Without a stage: lists the logs. A stage may be a task id or the name of a stage with one log.
pub(super) fn logs(global: &Global, request: &LogsRequest) -> Result<CliExit, CommandError> {
    let home = Project::open_current(global)?.home;
    let Some(newest) = last_run(&home)? else { return Err(no_run_error(&home)) };
    let Some(wanted) = &request.stage else {
        let logs = logs_in(&home.run(&newest))?;
        let names = LogNames::new(&home, &newest);
        for log in &logs {
            print(&format!("{}\n", names.task(log)));
        }
        if logs.is_empty() {
            print_error("the last run wrote no logs: nothing had to run, or no stage that prints\n");
        }
        return Ok(CliExit::Done);
    };
    let task = TaskId::new(wanted.as_str());
    let (file, earlier_file) = (task.file_name(), task.undigested_file_name());
    let mut is_task = false;
    for run in readable_runs(&home)?.0.iter().rev() {
        let logs = logs_in(&home.run(run))?;
        let named = |name: &str| logs.iter().find(|log| name_of(log) == name);
        // In a later run it may be the log of a task with another name.
        let exact = named(&file).or_else(|| named(&earlier_file).filter(|_| has_task(&home, run, wanted)));
        let instances: Vec<_> = logs.iter().filter(|log| name_of(log).starts_with(&format!("{file}."))).collect();
        match (exact, instances.as_slice()) {
            (Some(log), _) => return show(&home, &newest, log, request.follow),
            (None, [log]) => return show(&home, &newest, log, request.follow),
            (None, []) => is_task = is_task || has_task(&home, run, wanted),
            (None, several) => {
                let of_logs = LogNames::new(&home, run);
                let names: Vec<String> = several.iter().map(|log| of_logs.task(log)).collect();
                return Err(CommandError::Usage(format!("{wanted} has several tasks: {}", names.join(", "))));
            }
        }
    }
    if is_task {
        return Err(CommandError::hinted(
            format!("{wanted} has no log: no run of it started a program whose output is kept"),
            "`regatta logs` lists the logs of the last run",
        ));
    }
    let names = LogNames::new(&home, &newest);
    let tasks: Vec<String> = logs_in(&home.run(&newest))?.iter().map(|log| names.task(log)).collect();
    let hint = base::diag::did_you_mean(wanted, tasks.iter().map(String::as_str));
    let hint = hint.unwrap_or_else(|| "`regatta logs` lists them; cached tasks write none".to_owned());
    Err(CommandError::hinted(format!("no run has a task {wanted}"), hint))
}

/// Whether a run had a task of that name, or of a stage of that name.
fn has_task(home: &StateFolder, run: &RunId, name: &str) -> bool {
    let is_named = |task: &str| task.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    // A run that cannot be read is left out.
    ObservedRun::read(home, run).is_ok_and(|observed| observed.state.tasks.keys().any(|task| is_named(task.as_str())))
}

fn logs_in(folder: &Path) -> Result<Vec<PathBuf>, PathError> {
    let mut logs = items_in(folder)?;
    logs.retain(|path| path.extension().is_some_and(|e| e == "log"));
    Ok(logs)
}

fn name_of(log: &Path) -> String {
    log.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The tasks of a run, by the names of their logs.
struct LogNames(BTreeMap<String, String>);

impl LogNames {
    fn new(home: &StateFolder, run: &RunId) -> Self {
        // Without a journal that can be read, logs keep the names of their files.
        let state = ObservedRun::read(home, run).map(|observed| observed.state).unwrap_or_default();
        let named = |name: fn(&TaskId) -> String| state.tasks.keys().map(move |task| (name(task), task.to_string()));
        Self(named(TaskId::undigested_file_name).chain(named(TaskId::file_name)).collect())
    }

    fn task(&self, log: &Path) -> String {
        let name = name_of(log);
        self.0.get(&name).cloned().unwrap_or(name)
    }
}

fn show(home: &StateFolder, run: &RunId, log: &Path, follow: bool) -> Result<CliExit, CommandError> {
    let mut file = match open_regular(log).map(|(file, _)| file) {
        Err(error) if is_absence(&error) => return Err(no_log_yet(log)),
        file => file.at("read", log)?,
    };
    let mut printer = PiecePrinter::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        // Check first, read after: what is written before the run ends is then always shown.
        let going_on = follow && is_held(home, run)?;
        loop {
            // The middle of a long log is a hole.
            let at = file.stream_position()?;
            let _ = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at));
            match file.read(&mut piece)? {
                0 => break,
                length => printer.print(&piece[..length]),
            }
            if is_closed() {
                break;
            }
        }
        if !going_on || is_closed() {
            if file.stream_position()? == 0 {
                print_error(&format!("{} is empty: its task printed nothing\n", log.display()));
            }
            return Ok(CliExit::Done);
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// It leads to the log of a job, which the job makes when it begins.
fn no_log_yet(log: &Path) -> CommandError {
    CommandError::hinted(
        format!("{} does not exist: the task's job has not started yet, or ended before it could start", log.display()),
        "`regatta status` shows what became of the task",
    )
}

pub(super) fn report(global: &Global, request: &cli::ReportRequest) -> Result<CliExit, CommandError> {
    let home = Project::open_current(global)?.home;
    let run = match &request.run {
        Some(name) => named_run(&home, name)?.unwrap_or_else(|| RunId::new(name.as_str())),
        None => last_run(&home)?.ok_or_else(|| no_run_error(&home))?,
    };
    let its_page = home.run(&run).join("report.html");
    // A run whose tasks were all cached has no folder of its own: `latest` links to the report of the run that it
    // repeats.
    let shown = || home.latest().join("report.html").canonicalize().ok();
    let page = if request.run.is_none() && is_there(&its_page)? { shown().unwrap_or(its_page) } else { its_page };
    if !is_there(&page)? {
        let run_names: Vec<String> = readable_runs(&home)?.0.iter().map(ToString::to_string).collect();
        let there = if run_names.is_empty() { "none".to_owned() } else { run_names.join(", ") };
        return Err(CommandError::hinted(format!("run {run} has no report"), format!("runs of this folder: {there}")));
    }
    print(&format!("{}\n", page.display()));
    Ok(CliExit::Done)
}

/// Not every kind of stage writes a log; a page must not point to a missing one.
fn with_logs_that_are_there<'a>(run_state: &'a RunState, folder: &Path) -> Result<Cow<'a, RunState>, PathError> {
    let there: HashSet<PathBuf> = logs_in(folder)?.into_iter().collect();
    let is_missing = |log: &Option<PathBuf>| log.as_ref().is_some_and(|log| !there.contains(log));
    let mut shown = Cow::Borrowed(run_state);
    if run_state.tasks.values().any(|entry| is_missing(&entry.log)) {
        for entry in shown.to_mut().tasks.values_mut().filter(|entry| is_missing(&entry.log)) {
            entry.log = None;
        }
    }
    Ok(shown)
}

fn kept_by_failed(run_state: &RunState) -> impl Iterator<Item = (TaskId, PathBuf)> {
    run_state.tasks.iter().filter_map(|(task, entry)| Some((task.clone(), entry.failure.as_ref()?.kept.clone()?)))
}

/// The benchmarks of a stage that a `foreach` made, as sweeps.
fn gathered(results: &[PageResult], folders: &BTreeMap<TaskId, PathBuf>) -> Vec<(String, SweepReport)> {
    let gathered = results.iter().filter_map(|page| {
        let folder = folders.get(&page.task)?.clone();
        Some(GatheredResult { task: page.task.as_str(), folder, result: page.result.own()? })
    });
    gather_sweeps(&gathered.collect::<Vec<_>>())
}

/// The result in a folder. A search keeps the result of its best probe; the other probes are in a file in the same
/// folder. If this version cannot read that file, it is left out, and the result is shown all the same.
fn page_result(task: TaskId, folder: &Path) -> Option<PageResult> {
    let result = MeasuredResult::read(&read_text(folder.join(RESULT)).ok()?).ok()?;
    let requests = first_requests(folder, PageResult::REQUESTS);
    Some(PageResult { search: search_in(folder), requests, ..PageResult::new(task, result) })
}

/// Writes the page of a run, with the results of all its benchmarks, cached ones too. `measured`: the output folders
/// that may hold one. Returns its path.
pub(super) fn write_report(
    home: &StateFolder,
    run: &RunId,
    run_state: &RunState,
    plan: &Plan,
    measured: &[(TaskId, PathBuf)],
) -> anyhow::Result<PathBuf> {
    let mut results = Vec::new();
    let mut sweeps = Vec::new();
    let mut folders = BTreeMap::new();
    for (task, out) in measured.iter().cloned().chain(kept_by_failed(run_state)) {
        // One that this version cannot read is left out.
        if let Ok(sweep) = SweepReport::read(&out.join(SWEEP)) {
            let points = sweep.points.iter().filter(|point| !point.folder.as_os_str().is_empty());
            results.extend(points.take(PageResult::DETAILED).filter_map(|point| {
                let level = TaskId::new(point.level.to_string());
                Some(PageResult { sweep: Some(task.to_string()), ..page_result(level, &out.join(&point.folder))? })
            }));
            sweeps.push((task.to_string(), sweep));
        }
        results.extend(page_result(task.clone(), &out).inspect(|_| {
            folders.insert(task, out);
        }));
    }
    let of_stages = gathered(&results, &folders);
    for (name, sweep) in &of_stages {
        let path = home.run(run).join(format!("sweep-{}.json", TaskId::new(name.as_str()).file_name()));
        write_named(&path, sweep.text())?;
    }
    sweeps.extend(of_stages);
    let run_state = &*with_logs_that_are_there(run_state, &home.run(run))?;
    let page = report::run_page(run_state, &results, &sweeps, plan)?;
    let path = home.run(run).join("report.html");
    write_named(&path, page)?;
    Ok(Latest::new(home, &plan.name).point_report(&path)?)
}

pub(super) struct ObservedRun {
    pub state: RunState,
    /// It has not ended, and its process exists.
    pub is_alive: bool,
}

impl ObservedRun {
    pub(super) fn read(home: &StateFolder, run: &RunId) -> Result<Self, PathError> {
        let is_held = is_held(home, run)?;
        Self::read_after(home, run, || is_held)
    }

    /// `is_held` is asked first: the journal of a run that does not hold the lock any more is complete. In the other
    /// order a run that ends in between would look like one that was killed.
    pub(super) fn read_after(
        home: &StateFolder,
        run: &RunId,
        is_held: impl FnOnce() -> bool,
    ) -> Result<Self, PathError> {
        let is_held = is_held();
        let state = run_state(home, run)?;
        let journal = home.run(run).join("journal.jsonl");
        let is_foreign = state.run.is_none() && state.finished.is_none();
        if is_foreign && fs::metadata(&journal).is_ok_and(|file| file.len() > 0) {
            let text = "it does not begin as a journal that this Regatta can read";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text)).at("read", &journal);
        }
        Ok(Self { is_alive: is_held && state.finished.is_none(), state })
    }
}

/// The state of a run, by its journal.
pub(super) fn run_state(home: &StateFolder, run: &RunId) -> Result<RunState, PathError> {
    let mut state = RunState::new();
    fold_run(home, run, |event| state.fold(&event))?;
    Ok(state)
}

/// Whether that run's process still exists.
pub(super) fn is_held(home: &StateFolder, run: &RunId) -> Result<bool, PathError> {
    Ok(holding_run(home)?.is_some_and(|holding| holding == *run))
}

/// The run that the lock names, if its process is alive. The lock alone is not enough: the watchdog of a killed run
/// holds it for a moment longer.
pub(super) fn holding_run(home: &StateFolder) -> Result<Option<RunId>, PathError> {
    let holder = match ProjectLock::holder(home) {
        // That of another user: the journals can be read all the same.
        Err(error) if error.source.kind() == io::ErrorKind::PermissionDenied => None,
        holder => holder?,
    };
    Ok(holder.filter(|held| exec::process::is_alive(held.pid.cast_signed())).map(|held| RunId::new(held.run)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::event::{Event, TaskTally};
    use runner::store::Journal;

    #[test]
    fn a_run_that_ends_while_it_is_looked_at_is_not_one_that_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().to_owned(), folder.path().join(".regatta"));
        let run = RunId::new("r");
        let mut journal = Journal::create(&home, &run).unwrap();
        let mut end =
            || journal.append(&Event::RunFinished { tally: TaskTally::default(), exit: 0, seconds: 1.0 }).unwrap();
        let mut observed = |is_held| {
            ObservedRun::read_after(&home, &run, || {
                end();
                is_held
            })
            .unwrap()
        };
        for is_held in [true, false] {
            let ObservedRun { state, is_alive } = observed(is_held);
            assert!(state.finished.is_some() && !is_alive);
        }
    }
}
