//! Finds results by the names that users have for them: a task of the last run, a run, `RUN/TASK`, a folder, a file.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::export_import::located_runs;
use super::found_result::{FoundResult, Place, TaskOfRun, earlier_text, read, without_links};
use super::project::Project;
use crate::cli::Global;
use crate::console::print_error;
use crate::error::CommandError;
use base::diag::ErrorText;
use base::event::{RunId, TaskId};
use harness::{RESULT, SWEEP, SweepReport, repeat_folders};
use interop::import_sweep;
use report::{RunState, TaskPhase, TaskState};
use runner::store::{PathError, StateFolder, fold_run, is_there, last_run, readable_runs, tagged_run};

/// How many of the newest runs are read to name one in a hint.
const RUNS_FOR_HINT: usize = 20;

/// The runs of one task, as one side of a comparison.
pub(super) struct TaskRuns {
    /// `None`: its results name none.
    pub task: Option<String>,
    /// The argument that names it alone.
    pub argument: String,
    /// At least one.
    pub runs: Vec<FoundResult>,
}

/// A sweep that an argument names.
pub(super) struct FoundSweep {
    pub report: SweepReport,
    /// The argument that names its folder. `None`: another tool measured, and its points are no results of their own.
    folder: Option<String>,
}

impl FoundSweep {
    /// The argument that names its first point.
    pub(super) fn first_point(&self) -> Option<String> {
        let point = self.report.points.first().filter(|point| !point.folder.as_os_str().is_empty())?;
        Some(Path::new(self.folder.as_ref()?).join(&point.folder).display().to_string())
    }
}

/// A name below the project's own link `latest`.
struct BelowLatest {
    /// The link, as it was given.
    link: String,
    /// Empty for the link itself.
    name: String,
}

struct LastRun {
    home: StateFolder,
    /// Empty where nothing has run.
    state: RunState,
}

/// Finds what arguments name. The project's last run is read once, and only where an argument needs it.
pub(super) struct ResultFinder<'a> {
    global: &'a Global,
    last: OnceCell<LastRun>,
}

/// One result, or an error that lists the existing ones.
pub(super) fn find(global: &Global, argument: &str) -> Result<FoundResult, CommandError> {
    let mut all = find_all(global, argument)?;
    match (all.pop(), all.is_empty()) {
        (Some(found), true) => Ok(found),
        (last, _) => {
            let (names, arguments): (Vec<String>, Vec<String>) =
                all.into_iter().chain(last).map(|found| (found.run.name, found.argument)).unzip();
            let what = format!("{argument} has several results: {}", names.join(", "));
            Err(CommandError::usage(ErrorText::new(what).hint(format!("name one of them: {}", arguments.join(", ")))))
        }
    }
}

/// All results that an argument names; at least one.
pub(super) fn find_all(global: &Global, argument: &str) -> Result<Vec<FoundResult>, CommandError> {
    let places = ResultFinder::new(global).places(argument)?;
    let found = places.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    for line in found.iter().filter_map(FoundResult::earlier_text) {
        print_error(&format!("note: {line}\n"));
    }
    Ok(found)
}

impl<'a> ResultFinder<'a> {
    pub(super) const fn new(global: &'a Global) -> Self {
        Self { global, last: OnceCell::new() }
    }

    fn last(&self) -> Result<&LastRun, CommandError> {
        if let Some(last) = self.last.get() {
            return Ok(last);
        }
        let home = Project::open_current(self.global)?.home;
        let state = last_run(&home)?.map(|run| run_state(&home, &run)).transpose()?.unwrap_or_default();
        Ok(self.last.get_or_init(|| LastRun { home, state }))
    }

    /// What an argument names below the project's own `latest`. The link is the last run, and what is below it a task of that: it
    /// leads to older outputs where that run did not finish one. `None`: another path, or a name.
    fn below_latest(&self, argument: &str) -> Result<Option<BelowLatest>, CommandError> {
        let path = Path::new(argument).components().as_path();
        let is_link = |above: &Path| above.ends_with("latest") && above.is_symlink();
        if !path.ancestors().any(is_link) {
            return Ok(None);
        }
        let folder = |link: &Path| {
            let folder = link.parent().filter(|folder| !folder.as_os_str().is_empty());
            without_links(folder.unwrap_or(Path::new(".")))
        };
        let own = folder(&self.last()?.home.latest());
        let Some(link) = path.ancestors().find(|above| is_link(above) && folder(above) == own) else {
            return Ok(None);
        };
        let below = path.strip_prefix(link).unwrap_or(path);
        let is_file_of_task = below.ends_with(RESULT) || below.ends_with(SWEEP);
        let task = below.parent().filter(|_| is_file_of_task).unwrap_or(below);
        Ok(Some(BelowLatest { link: link.display().to_string(), name: task.to_string_lossy().into_owned() }))
    }

    /// The sweep that an argument names: a `sweep.json`, its folder, a task that left one, or a run with no other measurement.
    /// `None`: it names something else.
    pub(super) fn find_sweep(&self, argument: &str) -> Result<Option<FoundSweep>, CommandError> {
        let path = Path::new(argument);
        if let Some(below) = self.below_latest(argument)? {
            let LastRun { home, state } = self.last()?;
            if below.name.is_empty() {
                return only_sweep_of_run(home, state, argument);
            }
            return match self.sweep_of_task(&below.name)? {
                Some(found) => {
                    Ok(Some(FoundSweep { folder: found.folder.map(|name| format!("{}/{name}", below.link)), ..found }))
                }
                None if is_there(path)? && unfinished(state, &below.name).is_none() => of_another_tool(argument, path),
                None => Ok(None),
            };
        }
        if path.is_dir() {
            let file = path.join(SWEEP);
            return match (file.is_file(), only_sweep_below(path)) {
                (true, _) => sweep(&file, argument),
                (false, Some(below)) => {
                    let folder = below.parent().unwrap_or(path).display().to_string();
                    sweep(&below, &folder)
                }
                (false, None) => of_another_tool(argument, path),
            };
        }
        if path.is_file() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            return if name.starts_with("sweep") && name.ends_with(".json") {
                sweep(path, &path.parent().unwrap_or(Path::new("")).display().to_string())
            } else {
                of_another_tool(argument, path)
            };
        }
        if let Some(found) = self.sweep_of_task(argument)? {
            return Ok(Some(found));
        }
        let home = &self.last()?.home;
        match named_run(home, argument)? {
            Some(run) => only_sweep_of_run(home, &run_state(home, &run)?, argument),
            None => Ok(None),
        }
    }

    /// The sweep of a task that an argument names.
    fn sweep_of_task(&self, argument: &str) -> Result<Option<FoundSweep>, CommandError> {
        let LastRun { home, state } = self.last()?;
        let Some(place) = named_output(home, state, argument, SWEEP)? else { return Ok(None) };
        if let Some(earlier) = &place.earlier {
            print_error(&format!("note: {}\n", earlier_text(argument, &earlier.run)));
        }
        sweep(&place.path.join(SWEEP), &place.argument)
    }

    /// One side of a comparison, task by task: a result and its repeats, a folder of results, the tasks of a run or a stage, or a list
    /// with commas. The results of a list whose items name one result each are runs of one measurement.
    pub(super) fn find_runs(&self, argument: &str) -> Result<Vec<TaskRuns>, CommandError> {
        let path = Path::new(argument);
        if !path.exists() && argument.contains(',') {
            let items = argument.split(',').filter(|item| !item.is_empty());
            let items = items.map(|item| self.find_runs(item)).collect::<Result<Vec<_>, _>>()?;
            let is_one = items.iter().all(|tasks| tasks.len() == 1);
            let mut all = Vec::new();
            for task in items.into_iter().flatten() {
                put(&mut all, task, |known, new| is_one || known.task == new.task);
            }
            return Ok(all);
        }
        let is_folder = path.is_dir() && !path.join(RESULT).is_file() && self.below_latest(argument)?.is_none();
        let below = if is_folder { in_folder(path, argument) } else { Vec::new() };
        let places =
            if below.is_empty() { self.places(argument)? } else { below.into_iter().map(Place::of_path).collect() };
        let names: HashSet<String> = places.iter().map(|place| place.name.clone()).collect();
        let mut all = Vec::new();
        for place in places {
            let measured = measured_task(&place.name);
            // The result of a measurement in turns has its runs in `repeats`.
            if measured != place.name && names.contains(measured) {
                continue;
            }
            let beside = if place.path.is_file() { place.path.parent().unwrap_or(Path::new(".")) } else { &place.path };
            let repeats = repeat_folders(beside)?;
            let run = |(n, path): (usize, PathBuf)| {
                let name = format!("{}, run {n}", place.name);
                let earlier = place.earlier.clone().filter(|_| n == 1);
                read(&Place { name, path, earlier, ..place.clone() })
            };
            let runs = if repeats.is_empty() {
                vec![read(&place)?]
            } else {
                (1..).zip(repeats).map(run).collect::<Result<Vec<_>, _>>()?
            };
            let of_result = || Some(runs.first()?.run.result.identity()?.manifest.as_ref()?.task.clone());
            let task = if place.is_task { Some(place.name) } else { of_result() };
            let task = task.map(|task| measured_task(&task).to_owned());
            put(&mut all, TaskRuns { task, argument: place.argument, runs }, |known, new| known.task == new.task);
        }
        Ok(all)
    }

    /// Where the results are that an argument names; at least one.
    fn places(&self, argument: &str) -> Result<Vec<Place>, CommandError> {
        let of_path = || vec![Place::of_path((argument.to_owned(), PathBuf::from(argument)))];
        let Some(below) = self.below_latest(argument)? else {
            return if is_there(Path::new(argument))? { Ok(of_path()) } else { self.places_of_name(argument, None) };
        };
        let LastRun { home, state } = self.last()?;
        if below.name.is_empty() {
            return places_of_run(home, state, argument);
        }
        // Not every output has a result of Regatta: another tool's files are read where they are.
        let others = is_there(Path::new(argument))?.then(of_path);
        let named = |place: Place| {
            let is_alone = place.argument == below.name || place.argument == argument;
            let argument = if is_alone { argument.to_owned() } else { format!("{}/{}", below.link, place.argument) };
            Place { argument, ..place }
        };
        Ok(self.places_of_name(&below.name, others)?.into_iter().map(named).collect())
    }

    /// Of a name that is no path. `others`: what it stands for where no run has left a result of that name.
    fn places_of_name(&self, name: &str, others: Option<Vec<Place>>) -> Result<Vec<Place>, CommandError> {
        let LastRun { home, state: last } = self.last()?;
        if let Some(place) = named_output(home, last, name, RESULT)? {
            return Ok(vec![place]);
        }
        if let Some(run) = named_run(home, name)? {
            return places_of_run(home, &run_state(home, &run)?, name);
        }
        let of_last = outputs_with(home, last, RESULT)?;
        let of_stage = |all: &[(String, PathBuf)], stage: &str| -> Vec<(String, PathBuf)> {
            all.iter().filter(|(task, _)| is_below(task, stage)).cloned().collect()
        };
        let stage = of_stage(&of_last, name);
        if !stage.is_empty() {
            return Ok(stage.into_iter().map(Place::of_task).collect());
        }
        let below = of_latest(home, last, in_folder(&home.latest().join(name), name), RESULT)?;
        if !below.is_empty() {
            return Ok(below);
        }
        if let Some((run, named, task)) = run_and_task(home, name)? {
            let all = results_or_points(home, &run_state(home, &run)?)?;
            let stage = of_stage(&all, task);
            if !stage.is_empty() {
                return Ok(stage.into_iter().map(|found| Place::of_run(named, found)).collect());
            }
            let known: Vec<String> = all.into_iter().map(|(task, _)| format!("{named}/{task}")).collect();
            return Err(no_result(name, &known, "no result of this run still exists"));
        }
        if let Some(error) = left_without_result(home, last, name)? {
            return Err(error);
        }
        if let Some(others) = others {
            return Ok(others);
        }
        let known = in_folder(&home.latest(), "").into_iter().chain(of_last).map(|(task, _)| task);
        let known: Vec<String> = known.collect::<BTreeSet<_>>().into_iter().collect();
        Err(no_result(
            name,
            &known,
            "no benchmark has run in this folder yet; a folder with a result.json will do, too",
        ))
    }
}

fn sweep(file: &Path, folder: &str) -> Result<Option<FoundSweep>, CommandError> {
    let report = SweepReport::read(file).map_err(anyhow::Error::from)?;
    Ok(Some(FoundSweep { report, folder: Some(folder.to_owned()) }))
}

/// The sweep of a run that has measured nothing else.
fn only_sweep_of_run(home: &StateFolder, state: &RunState, argument: &str) -> Result<Option<FoundSweep>, CommandError> {
    if !outputs_with(home, state, RESULT)?.is_empty() {
        return Ok(None);
    }
    let sweeps = outputs_with(home, state, SWEEP)?;
    match sweeps.as_slice() {
        [] => Ok(None),
        [(task, folder)] => sweep(&folder.join(SWEEP), &format!("{argument}/{task}")),
        several => {
            let names: Vec<String> = several.iter().map(|(task, _)| format!("{argument}/{task}")).collect();
            let (count, hint) = (several.len(), format!("name one of them: {}", names.join(", ")));
            Err(CommandError::usage(ErrorText::new(format!("run {argument} has {count} sweeps")).hint(hint)))
        }
    }
}

/// The run with that name or tag.
pub(super) fn named_run(home: &StateFolder, argument: &str) -> Result<Option<RunId>, PathError> {
    let named = readable_runs(home)?.0.into_iter().find(|run| run.as_str() == argument);
    match (named, argument.parse()) {
        (None, Ok(tag)) => tagged_run(home, &tag),
        (named, _) => Ok(named),
    }
}

/// The run and the task of `RUN/TASK`, where there is such a run.
fn run_and_task<'a>(home: &StateFolder, argument: &'a str) -> Result<Option<(RunId, &'a str, &'a str)>, PathError> {
    let Some((named, task)) = argument.split_once('/') else { return Ok(None) };
    Ok(named_run(home, named)?.map(|run| (run, named, task)))
}

/// The sweep in a folder of outputs, such as `latest`, where it is the only measurement.
fn only_sweep_below(path: &Path) -> Option<PathBuf> {
    let tasks: Vec<PathBuf> = fs::read_dir(path).ok()?.flatten().map(|entry| entry.path()).collect();
    let mut sweeps = tasks.iter().map(|task| task.join(SWEEP)).filter(|file| file.is_file());
    let only = sweeps.next()?;
    (sweeps.next().is_none() && !tasks.iter().any(|task| task.join(RESULT).is_file())).then_some(only)
}

/// The files of another tool, where they hold several runs. What cannot be read as such is left to those who look for a result.
fn of_another_tool(name: &str, path: &Path) -> Result<Option<FoundSweep>, CommandError> {
    if path.is_dir() && (path.join(RESULT).is_file() || !in_folder(path, name).is_empty()) {
        return Ok(None);
    }
    let runs = located_runs(&[path.to_owned()]).unwrap_or_default();
    if runs.len() < 2 {
        return Ok(None);
    }
    let sweep = import_sweep(name, runs).map_err(CommandError::usage)?;
    Ok(Some(FoundSweep { report: sweep.report, folder: None }))
}

/// Adds runs to those of the same measurement. One that is there already counts once.
fn put(all: &mut Vec<TaskRuns>, new: TaskRuns, is_same: impl Fn(&TaskRuns, &TaskRuns) -> bool) {
    let Some(known) = all.iter_mut().find(|known| is_same(known, &new)) else {
        all.push(new);
        return;
    };
    let before = known.runs.len();
    for run in new.runs {
        if !known.runs.iter().any(|other| other.location == run.location) {
            known.runs.push(run);
        }
    }
    if known.runs.len() == before {
        print_error(&format!("warning: {} is a measurement that is named already, and counts once\n", new.argument));
    } else {
        known.argument = format!("{},{}", known.argument, new.argument);
    }
}

/// The task whose run a task is, where its measurements take turns: `load/a` of `load/a@2`.
fn measured_task(task: &str) -> &str {
    match task.rsplit_once('@') {
        Some((measured, number)) if number.parse::<u32>().is_ok() => measured,
        _ => task,
    }
}

/// All results of a run that `named` names.
fn places_of_run(home: &StateFolder, state: &RunState, named: &str) -> Result<Vec<Place>, CommandError> {
    let all = results_or_points(home, state)?;
    if all.is_empty() {
        return Err(CommandError::Usage(format!("run {named} has no benchmark with a result that still exists")));
    }
    Ok(all.into_iter().map(|found| Place::of_run(named, found)).collect())
}

fn no_result(argument: &str, known: &[String], none: &str) -> CommandError {
    let hint = base::diag::did_you_mean(argument, known.iter().map(String::as_str)).unwrap_or_else(|| {
        if known.is_empty() {
            none.to_owned()
        } else {
            format!("there are {}; a folder with a result.json will do, too", known.join(", "))
        }
    });
    CommandError::usage(ErrorText::new(format!("there is no result `{argument}`")).hint(hint))
}

/// The output with that file that an argument names alone: a task of the last run, `RUN/TASK`, or a folder below one of these.
fn named_output(
    home: &StateFolder,
    last: &RunState,
    argument: &str,
    file: &str,
) -> Result<Option<Place>, CommandError> {
    if let Some(path) = output_at(home, last, argument, file)? {
        return Ok(Some(Place::of_task((argument.to_owned(), path))));
    }
    let latest = home.latest().join(argument);
    if is_there(&latest.join(file))?
        && let Some(place) = of_latest(home, last, vec![(argument.to_owned(), latest)], file)?.pop()
    {
        return Ok(Some(place));
    }
    let Some((run, named, task)) = run_and_task(home, argument)? else { return Ok(None) };
    let path = output_at(home, &run_state(home, &run)?, task, file)?;
    Ok(path.map(|path| Place::of_run(named, (task.to_owned(), path))))
}

/// The results of tasks in `latest`: those that the last run finished, and of tasks that it did not have the newest, which may not be
/// the one in `latest`: an INVALID one has no link. Left out are those that the last run had and did not finish.
fn of_latest(
    home: &StateFolder,
    last: &RunState,
    found: Vec<(String, PathBuf)>,
    file: &str,
) -> Result<Vec<Place>, PathError> {
    let mut places = Vec::new();
    let mut earlier = Vec::new();
    for found in found {
        let of_last = last.tasks.iter().find(|(task, _)| found.0 == task.as_str() || is_below(&found.0, task.as_str()));
        match of_last {
            Some((_, entry)) if is_finished(entry) => places.push(Place::of_task(found)),
            Some(_) => {}
            None => earlier.push(Place::of_task(found)),
        }
    }
    set_earlier_runs(home, &mut earlier, file)?;
    places.extend(earlier);
    places.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(places)
}

/// Makes each of these tasks that of the newest run that has that file of it. One that no run has stays as it is.
fn set_earlier_runs(home: &StateFolder, places: &mut [Place], file: &str) -> Result<(), PathError> {
    if places.is_empty() {
        return Ok(());
    }
    for run in readable_runs(home)?.0.into_iter().rev() {
        // One that cannot be read is left out.
        let Ok(state) = run_state(home, &run) else { continue };
        for place in places.iter_mut().filter(|place| place.earlier.is_none()) {
            if let Ok(Some(path)) = output_at(home, &state, &place.name, file) {
                place.path = path;
                place.earlier = Some(TaskOfRun { run: run.clone(), task: place.name.clone() });
            }
        }
        if places.iter().all(|place| place.earlier.is_some()) {
            break;
        }
    }
    Ok(())
}

fn is_finished(entry: &TaskState) -> bool {
    matches!(entry.state, TaskPhase::Ran | TaskPhase::Cached)
}

/// A task of that name, of that stage, or with that output, that the run did not finish.
fn unfinished<'a>(state: &'a RunState, name: &str) -> Option<(&'a TaskId, &'a TaskState)> {
    let is_named = |task: &str| name == task || is_below(task, name) || is_below(name, task);
    state.tasks.iter().find(|(task, entry)| is_named(task.as_str()) && !is_finished(entry))
}

/// The error for a task of the last run, or a stage, that did not get as far as a result.
fn left_without_result(home: &StateFolder, last: &RunState, name: &str) -> Result<Option<CommandError>, PathError> {
    let Some((task, entry)) = unfinished(last, name) else { return Ok(None) };
    let has_result = |run: &RunId| {
        let found = run_state(home, run).and_then(|state| output_at(home, &state, task.as_str(), RESULT));
        found.is_ok_and(|path| path.is_some())
    };
    let hint = match readable_runs(home)?.0.into_iter().rev().take(RUNS_FOR_HINT).find(has_result) {
        Some(run) => format!("`{run}/{task}` is the result of an earlier run"),
        None => "`regatta status` shows why".to_owned(),
    };
    let what = format!("the last run has no result of {task}: {}", entry.label());
    Ok(Some(CommandError::usage(ErrorText::new(what).hint(hint))))
}

/// Whether a name is below another one: `load/4` below `load`.
fn is_below(name: &str, above: &str) -> bool {
    name.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

/// Folders with a result below one, by name, not deeper than tasks are.
fn in_folder(folder: &Path, name: &str) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let mut items: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|item| item.path()).collect();
    items.sort();
    for item in items.into_iter().filter(|item| item.is_dir()) {
        let below = item.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = if name.is_empty() { below } else { format!("{name}/{below}") };
        if item.join(RESULT).is_file() {
            found.push((name, item));
        } else if name.matches('/').count() < 4 {
            found.extend(in_folder(&item, &name));
        }
    }
    found
}

/// The results of a run, valid or not, that still exist; of a run without one, the points of its sweeps.
fn results_or_points(home: &StateFolder, state: &RunState) -> Result<Vec<(String, PathBuf)>, PathError> {
    let results = outputs_with(home, state, RESULT)?;
    if !results.is_empty() {
        return Ok(results);
    }
    let sweeps = outputs_with(home, state, SWEEP)?;
    Ok(sweeps.iter().flat_map(|(task, folder)| in_folder(folder, task)).collect())
}

/// What a run measured that still exists.
pub(super) struct MeasuredOutputs {
    pub manifest: String,
    /// The task and folder of each result.
    pub results: Vec<(String, PathBuf)>,
    pub sweeps: Vec<(String, PathBuf)>,
}

pub(super) fn measured_outputs(home: &StateFolder, run: &RunId) -> Result<MeasuredOutputs, PathError> {
    let state = run_state(home, run)?;
    let (results, sweeps) = (outputs_with(home, &state, RESULT)?, outputs_with(home, &state, SWEEP)?);
    Ok(MeasuredOutputs { manifest: state.manifest, results, sweeps })
}

fn run_state(home: &StateFolder, run: &RunId) -> Result<RunState, PathError> {
    let mut state = RunState::new();
    fold_run(home, run, |event| state.fold(&event))?;
    Ok(state)
}

/// What tasks made, and what failed ones kept.
fn outputs(state: &RunState) -> impl Iterator<Item = (&str, PathBuf)> {
    let kept = |entry: &TaskState| entry.failure.as_ref()?.kept.clone();
    state
        .tasks
        .iter()
        .filter_map(move |(task, entry)| Some((task.as_str(), entry.out.clone().or_else(|| kept(entry))?)))
}

/// The task and folder of each output with that file.
fn outputs_with(home: &StateFolder, state: &RunState, file: &str) -> Result<Vec<(String, PathBuf)>, PathError> {
    let mut found = Vec::new();
    for (task, out) in outputs(state) {
        if has_file(home, &out, file)? {
            found.push((task.to_owned(), out));
        }
    }
    Ok(found)
}

/// The output of that task, or a folder in it, where it has that file.
fn output_at(home: &StateFolder, state: &RunState, name: &str, file: &str) -> Result<Option<PathBuf>, PathError> {
    for (task, out) in outputs(state) {
        let Some(rest) = name.strip_prefix(task) else { continue };
        let folder = match rest.strip_prefix('/') {
            Some(below) => out.join(below),
            None if rest.is_empty() => out,
            None => continue,
        };
        if has_file(home, &folder, file)? {
            return Ok(Some(folder));
        }
    }
    Ok(None)
}

fn has_file(home: &StateFolder, out: &Path, file: &str) -> Result<bool, PathError> {
    match is_there(&out.join(file)) {
        // Where the project was before it was moved or copied: of no use, like what is not there any more.
        Err(_) if !out.starts_with(home.outputs()) => Ok(false),
        looked => looked,
    }
}
