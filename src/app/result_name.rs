//! The names that users have for results: a task of the last run, a run, `RUN/TASK`, a folder, a file. An argument is
//! parsed once ([`ResultName`]), and what it names is looked up in the outputs of one run ([`RunOutputs`]).

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::export_import::located_runs;
use super::found_result::{FoundResult, Place, TaskOfRun, earlier_text, read, without_links};
use super::past_runs::run_state;
use super::project::Project;
use crate::cli::Global;
use crate::console::print_error;
use crate::error::CommandError;
use base::event::{RunId, TaskId};
use harness::{RESULT, SWEEP, SweepReport, repeat_folders};
use interop::import_sweep;
use report::{RunState, TaskPhase, TaskState};
use runner::store::{PathError, StateFolder, is_there, last_run, readable_runs, tagged_run};

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

/// What an argument that names results is.
enum ResultName<'a> {
    /// A file or folder, other than the project's own link `latest`.
    Path(&'a Path),
    /// The link `latest`, as it was given: the last run. `task`: what is below it; empty for the link itself.
    Latest { link: String, task: String },
    /// A task, a stage or a folder in an output of the last run; a run; or `RUN/TASK`.
    Name(&'a str),
}

/// The outputs of one run, as far as they still exist. A project in which nothing has run has an empty one.
struct RunOutputs {
    home: StateFolder,
    state: RunState,
}

/// Finds what arguments name. The project's last run is read once, and only where an argument needs it.
pub(super) struct ResultFinder<'a> {
    global: &'a Global,
    last: OnceCell<RunOutputs>,
}

/// One result, or an error that lists the existing ones.
pub(super) fn find(global: &Global, argument: &str) -> Result<FoundResult, CommandError> {
    let mut results = find_all(global, argument)?;
    match (results.pop(), results.is_empty()) {
        (Some(result), true) => Ok(result),
        (last, _) => {
            let (names, arguments): (Vec<String>, Vec<String>) =
                results.into_iter().chain(last).map(|result| (result.run.name, result.argument)).unzip();
            let message = format!("{argument} has several results: {}", names.join(", "));
            Err(CommandError::hinted(message, format!("name one of them: {}", arguments.join(", "))))
        }
    }
}

/// All results that an argument names; at least one.
pub(super) fn find_all(global: &Global, argument: &str) -> Result<Vec<FoundResult>, CommandError> {
    let places = ResultFinder::new(global).places(argument)?;
    let results = places.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    for line in results.iter().filter_map(FoundResult::earlier_text) {
        print_error(&format!("note: {line}\n"));
    }
    Ok(results)
}

impl<'a> ResultFinder<'a> {
    pub(super) const fn new(global: &'a Global) -> Self {
        Self { global, last: OnceCell::new() }
    }

    fn last(&self) -> Result<&RunOutputs, CommandError> {
        if let Some(last) = self.last.get() {
            return Ok(last);
        }
        let home = Project::open_current(self.global)?.home;
        let last = match last_run(&home)? {
            Some(run) => RunOutputs::read(&home, &run)?,
            None => RunOutputs { home, state: RunState::new() },
        };
        Ok(self.last.get_or_init(|| last))
    }

    /// The link `latest` is the last run, and what is below it a task of that: it leads to older outputs where that run
    /// did not finish one.
    fn parse<'n>(&self, argument: &'n str) -> Result<ResultName<'n>, CommandError> {
        let path = Path::new(argument);
        if let Some(latest) = self.parse_latest(path.components().as_path())? {
            return Ok(latest);
        }
        Ok(if is_there(path)? { ResultName::Path(path) } else { ResultName::Name(argument) })
    }

    /// `None`: the path does not lead through the project's own `latest`.
    fn parse_latest(&self, path: &Path) -> Result<Option<ResultName<'static>>, CommandError> {
        let is_link = |above: &Path| above.ends_with("latest") && above.is_symlink();
        if !path.ancestors().any(is_link) {
            return Ok(None);
        }
        let folder = |link: &Path| {
            let folder = link.parent().filter(|folder| !folder.as_os_str().is_empty());
            without_links(folder.unwrap_or(Path::new(".")))
        };
        let project = folder(&self.last()?.home.latest());
        let Some(link) = path.ancestors().find(|above| is_link(above) && folder(above) == project) else {
            return Ok(None);
        };
        let below = path.strip_prefix(link).unwrap_or(path);
        let is_file_of_task = below.ends_with(RESULT) || below.ends_with(SWEEP);
        let task = below.parent().filter(|_| is_file_of_task).unwrap_or(below).to_string_lossy().into_owned();
        Ok(Some(ResultName::Latest { link: link.display().to_string(), task }))
    }

    /// The sweep that an argument names: a `sweep.json`, its folder, a task that left one, or a run with no other
    /// measurement. `None`: it names something else.
    pub(super) fn find_sweep(&self, argument: &str) -> Result<Option<FoundSweep>, CommandError> {
        match self.parse(argument)? {
            ResultName::Latest { task, .. } if task.is_empty() => self.last()?.only_sweep(argument),
            ResultName::Latest { link, task } => match self.sweep_of_task(&task)? {
                Some(found) => {
                    Ok(Some(FoundSweep { folder: found.folder.map(|name| format!("{link}/{name}")), ..found }))
                }
                None if is_there(Path::new(argument))? && self.last()?.unfinished(&task).is_none() => {
                    of_another_tool(argument, Path::new(argument))
                }
                None => Ok(None),
            },
            ResultName::Path(path) if path.is_dir() => {
                let file = path.join(SWEEP);
                match (file.is_file(), only_sweep_below(path)) {
                    (true, _) => sweep(&file, argument),
                    (false, Some(below)) => sweep(&below, &below.parent().unwrap_or(path).display().to_string()),
                    (false, None) => of_another_tool(argument, path),
                }
            }
            ResultName::Path(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if name.starts_with("sweep") && name.ends_with(".json") {
                    sweep(path, &path.parent().unwrap_or(Path::new("")).display().to_string())
                } else {
                    of_another_tool(argument, path)
                }
            }
            ResultName::Name(name) => {
                if let Some(found) = self.sweep_of_task(name)? {
                    return Ok(Some(found));
                }
                let home = &self.last()?.home;
                match named_run(home, name)? {
                    Some(run) => RunOutputs::read(home, &run)?.only_sweep(name),
                    None => Ok(None),
                }
            }
        }
    }

    /// The sweep of a task that an argument names.
    fn sweep_of_task(&self, argument: &str) -> Result<Option<FoundSweep>, CommandError> {
        let Some(place) = self.last()?.named(argument, SWEEP)? else { return Ok(None) };
        if let Some(earlier) = &place.earlier {
            print_error(&format!("note: {}\n", earlier_text(argument, &earlier.run)));
        }
        sweep(&place.path.join(SWEEP), &place.argument)
    }

    /// One side of a comparison, task by task: a result and its repeats, a folder of results, the tasks of a run or a
    /// stage, or a list with commas. The results of a list whose items name one result each are runs of one
    /// measurement.
    pub(super) fn find_runs(&self, argument: &str) -> Result<Vec<TaskRuns>, CommandError> {
        let path = Path::new(argument);
        if !path.exists() && argument.contains(',') {
            let items = argument.split(',').filter(|item| !item.is_empty());
            let items = items.map(|item| self.find_runs(item)).collect::<Result<Vec<_>, _>>()?;
            let is_one = items.iter().all(|tasks| tasks.len() == 1);
            let mut tasks = Vec::new();
            for task in items.into_iter().flatten() {
                put(&mut tasks, task, |known, new| is_one || known.task == new.task);
            }
            return Ok(tasks);
        }
        let is_path = path.is_dir() && matches!(self.parse(argument)?, ResultName::Path(_));
        let is_folder = is_path && !path.join(RESULT).is_file();
        let below = if is_folder { in_folder(path, argument) } else { Vec::new() };
        let places =
            if below.is_empty() { self.places(argument)? } else { below.into_iter().map(Place::of_path).collect() };
        let names: HashSet<String> = places.iter().map(|place| place.name.clone()).collect();
        let mut tasks = Vec::new();
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
            put(&mut tasks, TaskRuns { task, argument: place.argument, runs }, |known, new| known.task == new.task);
        }
        Ok(tasks)
    }

    /// Where the results are that an argument names; at least one.
    fn places(&self, argument: &str) -> Result<Vec<Place>, CommandError> {
        let of_path = || vec![Place::of_path((argument.to_owned(), PathBuf::from(argument)))];
        let (link, task) = match self.parse(argument)? {
            ResultName::Path(_) => return Ok(of_path()),
            ResultName::Name(name) => return self.places_of_name(name, None),
            ResultName::Latest { task, .. } if task.is_empty() => return self.last()?.places(argument),
            ResultName::Latest { link, task } => (link, task),
        };
        // Not every output has a result of Regatta: another tool's files are read where they are.
        let others = is_there(Path::new(argument))?.then(of_path);
        let named = |place: Place| {
            let is_alone = place.argument == task || place.argument == argument;
            let argument = if is_alone { argument.to_owned() } else { format!("{link}/{}", place.argument) };
            Place { argument, ..place }
        };
        Ok(self.places_of_name(&task, others)?.into_iter().map(named).collect())
    }

    /// The places of a name that is not a path. `others`: what it means if no run has left a result of that name.
    fn places_of_name(&self, name: &str, others: Option<Vec<Place>>) -> Result<Vec<Place>, CommandError> {
        let last = self.last()?;
        let home = &last.home;
        if let Some(place) = last.named(name, RESULT)? {
            return Ok(vec![place]);
        }
        if let Some(run) = named_run(home, name)? {
            return RunOutputs::read(home, &run)?.places(name);
        }
        let of_last = last.with(RESULT)?;
        let of_stage = |all: &[(String, PathBuf)], stage: &str| -> Vec<(String, PathBuf)> {
            all.iter().filter(|(task, _)| is_below(task, stage)).cloned().collect()
        };
        let stage = of_stage(&of_last, name);
        if !stage.is_empty() {
            return Ok(stage.into_iter().map(Place::of_task).collect());
        }
        let below = last.of_latest(in_folder(&home.latest().join(name), name), RESULT)?;
        if !below.is_empty() {
            return Ok(below);
        }
        if let Some((run, named, task)) = run_and_task(home, name)? {
            let results = RunOutputs::read(home, &run)?.results_or_points()?;
            let stage = of_stage(&results, task);
            if !stage.is_empty() {
                return Ok(stage.into_iter().map(|found| Place::of_run(named, found)).collect());
            }
            let names: Vec<String> = results.into_iter().map(|(task, _)| format!("{named}/{task}")).collect();
            return Err(no_result(name, &names, "no result of this run still exists"));
        }
        if let Some(error) = last.left_without_result(name)? {
            return Err(error);
        }
        if let Some(others) = others {
            return Ok(others);
        }
        let tasks = in_folder(&home.latest(), "").into_iter().chain(of_last).map(|(task, _)| task);
        let names: Vec<String> = tasks.collect::<BTreeSet<_>>().into_iter().collect();
        Err(no_result(
            name,
            &names,
            "no benchmark has run in this folder yet; a folder with a result.json works as well",
        ))
    }
}

fn sweep(file: &Path, folder: &str) -> Result<Option<FoundSweep>, CommandError> {
    let report = SweepReport::read(file).map_err(anyhow::Error::from)?;
    Ok(Some(FoundSweep { report, folder: Some(folder.to_owned()) }))
}

impl RunOutputs {
    fn read(home: &StateFolder, run: &RunId) -> Result<Self, PathError> {
        Ok(Self { home: home.clone(), state: run_state(home, run)? })
    }

    /// What tasks made, and what failed ones kept.
    fn folders(&self) -> impl Iterator<Item = (&str, PathBuf)> {
        self.state.tasks.iter().filter_map(|(task, entry)| Some((task.as_str(), entry.folder()?.clone())))
    }

    /// The task and folder of each output with that file.
    fn with(&self, file: &str) -> Result<Vec<(String, PathBuf)>, PathError> {
        let mut folders = Vec::new();
        for (task, out) in self.folders() {
            if self.has_file(&out, file)? {
                folders.push((task.to_owned(), out));
            }
        }
        Ok(folders)
    }

    /// The output of that task, or a folder in it, where it has that file.
    fn at(&self, name: &str, file: &str) -> Result<Option<PathBuf>, PathError> {
        for (task, out) in self.folders() {
            let Some(rest) = name.strip_prefix(task) else { continue };
            let folder = match rest.strip_prefix('/') {
                Some(below) => out.join(below),
                None if rest.is_empty() => out,
                None => continue,
            };
            if self.has_file(&folder, file)? {
                return Ok(Some(folder));
            }
        }
        Ok(None)
    }

    fn has_file(&self, out: &Path, file: &str) -> Result<bool, PathError> {
        match is_there(&out.join(file)) {
            // Where the project was before it was moved or copied: of no use, like what is not there any more.
            Err(_) if !out.starts_with(self.home.outputs()) => Ok(false),
            looked => looked,
        }
    }

    /// The results of a run, valid or not, that still exist; of a run without one, the points of its sweeps.
    fn results_or_points(&self) -> Result<Vec<(String, PathBuf)>, PathError> {
        let results = self.with(RESULT)?;
        if !results.is_empty() {
            return Ok(results);
        }
        let sweeps = self.with(SWEEP)?;
        Ok(sweeps.iter().flat_map(|(task, folder)| in_folder(folder, task)).collect())
    }

    /// All results of a run that `named` names.
    fn places(&self, named: &str) -> Result<Vec<Place>, CommandError> {
        let results = self.results_or_points()?;
        if results.is_empty() {
            return Err(CommandError::Usage(format!("run {named} has no benchmark with a result that still exists")));
        }
        Ok(results.into_iter().map(|found| Place::of_run(named, found)).collect())
    }

    /// The output with that file that an argument names alone: a task of the last run, `RUN/TASK`, or a folder below
    /// one of these.
    fn named(&self, argument: &str, file: &str) -> Result<Option<Place>, CommandError> {
        if let Some(path) = self.at(argument, file)? {
            return Ok(Some(Place::of_task((argument.to_owned(), path))));
        }
        let latest = self.home.latest().join(argument);
        if is_there(&latest.join(file))?
            && let Some(place) = self.of_latest(vec![(argument.to_owned(), latest)], file)?.pop()
        {
            return Ok(Some(place));
        }
        let Some((run, named, task)) = run_and_task(&self.home, argument)? else { return Ok(None) };
        let path = Self::read(&self.home, &run)?.at(task, file)?;
        Ok(path.map(|path| Place::of_run(named, (task.to_owned(), path))))
    }

    /// The results of tasks in `latest`: those that the last run finished, and of tasks that it did not have the
    /// newest, which may not be the one in `latest`: an INVALID one has no link. Left out are those that the last run
    /// had and did not finish.
    fn of_latest(&self, found: Vec<(String, PathBuf)>, file: &str) -> Result<Vec<Place>, PathError> {
        let mut places = Vec::new();
        let mut earlier = Vec::new();
        for found in found {
            let of_last =
                self.state.tasks.iter().find(|(task, _)| found.0 == task.as_str() || is_below(&found.0, task.as_str()));
            match of_last {
                Some((_, entry)) if is_finished(entry) => places.push(Place::of_task(found)),
                Some(_) => {}
                None => earlier.push(Place::of_task(found)),
            }
        }
        set_earlier_runs(&self.home, &mut earlier, file)?;
        places.extend(earlier);
        places.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(places)
    }

    /// A task of that name, of that stage, or with that output, that the run did not finish.
    fn unfinished(&self, name: &str) -> Option<(&TaskId, &TaskState)> {
        let is_named = |task: &str| name == task || is_below(task, name) || is_below(name, task);
        self.state.tasks.iter().find(|(task, entry)| is_named(task.as_str()) && !is_finished(entry))
    }

    /// The error for a task of the last run, or a stage, that did not get as far as a result.
    fn left_without_result(&self, name: &str) -> Result<Option<CommandError>, PathError> {
        let Some((task, entry)) = self.unfinished(name) else { return Ok(None) };
        let has_result = |run: &RunId| {
            let result = Self::read(&self.home, run).and_then(|outputs| outputs.at(task.as_str(), RESULT));
            result.is_ok_and(|path| path.is_some())
        };
        let hint = match readable_runs(&self.home)?.0.into_iter().rev().take(RUNS_FOR_HINT).find(has_result) {
            Some(run) => format!("`{run}/{task}` is the result of an earlier run"),
            None => "`regatta status` shows why".to_owned(),
        };
        let message = format!("the last run has no result of {task}: {}", entry.label());
        Ok(Some(CommandError::hinted(message, hint)))
    }

    /// The sweep of a run that has measured nothing else.
    fn only_sweep(&self, argument: &str) -> Result<Option<FoundSweep>, CommandError> {
        if !self.with(RESULT)?.is_empty() {
            return Ok(None);
        }
        let sweeps = self.with(SWEEP)?;
        match sweeps.as_slice() {
            [] => Ok(None),
            [(task, folder)] => sweep(&folder.join(SWEEP), &format!("{argument}/{task}")),
            several => {
                let names: Vec<String> = several.iter().map(|(task, _)| format!("{argument}/{task}")).collect();
                let (count, hint) = (several.len(), format!("name one of them: {}", names.join(", ")));
                Err(CommandError::hinted(format!("run {argument} has {count} sweeps"), hint))
            }
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

/// The files of another tool, where they hold several runs. What cannot be read as such is left to those who look for a
/// result.
fn of_another_tool(name: &str, path: &Path) -> Result<Option<FoundSweep>, CommandError> {
    if path.is_dir() && (path.join(RESULT).is_file() || !in_folder(path, name).is_empty()) {
        return Ok(None);
    }
    let runs = located_runs(interop::locate_runs(&[path.to_owned()])).unwrap_or_default();
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
        print_error(&format!("warning: {} is named twice, and counts once\n", new.argument));
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

fn no_result(argument: &str, results: &[String], none: &str) -> CommandError {
    let hint = base::diag::did_you_mean(argument, results.iter().map(String::as_str)).unwrap_or_else(|| {
        if results.is_empty() {
            none.to_owned()
        } else {
            format!("there are {}; a folder with a result.json works as well", results.join(", "))
        }
    });
    CommandError::hinted(format!("there is no result `{argument}`"), hint)
}

/// Makes each of these tasks that of the newest run that has that file of it. One that no run has stays as it is.
fn set_earlier_runs(home: &StateFolder, places: &mut [Place], file: &str) -> Result<(), PathError> {
    if places.is_empty() {
        return Ok(());
    }
    for run in readable_runs(home)?.0.into_iter().rev() {
        // One that cannot be read is left out.
        let Ok(outputs) = RunOutputs::read(home, &run) else { continue };
        for place in places.iter_mut().filter(|place| place.earlier.is_none()) {
            if let Ok(Some(path)) = outputs.at(&place.name, file) {
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

/// Whether a name is below another one: `load/4` below `load`.
fn is_below(name: &str, above: &str) -> bool {
    name.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

/// Folders with a result below one, by name, not deeper than tasks are.
fn in_folder(folder: &Path, name: &str) -> Vec<(String, PathBuf)> {
    let mut results = Vec::new();
    let mut items: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|item| item.path()).collect();
    items.sort();
    for item in items.into_iter().filter(|item| item.is_dir()) {
        let below = item.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = if name.is_empty() { below } else { format!("{name}/{below}") };
        if item.join(RESULT).is_file() {
            results.push((name, item));
        } else if name.matches('/').count() < 4 {
            results.extend(in_folder(&item, &name));
        }
    }
    results
}

/// What a run measured that still exists.
pub(super) struct MeasuredOutputs {
    pub manifest: String,
    /// The task and folder of each result.
    pub results: Vec<(String, PathBuf)>,
    pub sweeps: Vec<(String, PathBuf)>,
}

pub(super) fn measured_outputs(home: &StateFolder, run: &RunId) -> Result<MeasuredOutputs, PathError> {
    let outputs = RunOutputs::read(home, run)?;
    let (results, sweeps) = (outputs.with(RESULT)?, outputs.with(SWEEP)?);
    Ok(MeasuredOutputs { manifest: outputs.state.manifest, results, sweeps })
}
