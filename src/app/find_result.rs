//! Finds results by the names that users have for them: a task of the last run, a run, `RUN/TASK`, a folder, a file.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::import_sources::located_runs;
use super::project::Project;
use crate::app::error::CommandError;
use crate::app::output::print_error;
use crate::cli::Global;
use crate::event::RunId;
use crate::files::{read_bytes, read_text};
use crate::harness::{REQUESTS, RESULT, RequestRecord, SWEEP, SearchReport, SweepReport, read_records, repeat_folders};
use crate::interop::{ImportError, Imported, MeasuredResult, MeasuredRun, RequestTrace, import_sweep};
use crate::report::{RunState, TaskPhase, TaskState};
use crate::runner::store::{PathError, StateFolder, is_there, last_run, read_journal, readable_runs, tagged_run};

pub(super) const SEEN: &str = "seen.jsonl";

/// A result with its requests.
#[derive(Clone)]
pub(super) struct FoundResult {
    pub run: MeasuredRun,
    /// The argument that names it alone.
    pub argument: String,
    /// The run it is of, where it stands for a task that the last run did not have.
    pub earlier: Option<RunId>,
    /// What a search found, whose last probe it is.
    pub search: Option<SearchReport>,
    /// Its folder or file, without links: the same place is the same measurement.
    location: PathBuf,
    /// The file of Regatta's own records, where it measured.
    requests: Option<PathBuf>,
}

impl FoundResult {
    /// Regatta's own records; none where another tool measured.
    pub(super) fn records(&self) -> Result<Vec<RequestRecord>, CommandError> {
        self.requests.as_deref().map_or_else(|| Ok(Vec::new()), lines)
    }

    /// `load/8 is of run 20261120-…: the last run did not have it`.
    pub(super) fn earlier_text(&self) -> Option<String> {
        let run = self.earlier.as_ref()?;
        Some(format!("{} is of run {run}: the last run did not have it", self.argument))
    }
}

/// The runs of one task, as one side of a comparison.
pub(super) struct TaskRuns {
    /// `None`: its results name none.
    pub task: Option<String>,
    /// The argument that names it alone.
    pub argument: String,
    /// At least one.
    pub runs: Vec<FoundResult>,
}

/// Where a result is that an argument names.
#[derive(Clone, Debug)]
struct Place {
    /// As it is shown: a task, or a path.
    name: String,
    /// The argument that names it alone.
    argument: String,
    path: PathBuf,
    /// Whether its name is that of a task.
    is_task: bool,
    /// See [`FoundResult`].
    earlier: Option<RunId>,
}

impl Place {
    fn of_path((name, path): (String, PathBuf)) -> Self {
        Self { argument: name.clone(), name, path, is_task: false, earlier: None }
    }

    /// A task of the last run.
    fn of_task((name, path): (String, PathBuf)) -> Self {
        Self { is_task: true, ..Self::of_path((name, path)) }
    }

    /// A task of the run that `named` names.
    fn of_run(named: &str, (name, path): (String, PathBuf)) -> Self {
        Self { argument: format!("{named}/{name}"), ..Self::of_task((name, path)) }
    }
}

/// One result, or an error that lists the existing ones.
pub(super) fn find(global: &Global, word: &str) -> Result<FoundResult, CommandError> {
    let mut all = find_all(global, word)?;
    match (all.pop(), all.is_empty()) {
        (Some(found), true) => Ok(found),
        (last, _) => {
            let (names, arguments): (Vec<String>, Vec<String>) =
                all.into_iter().chain(last).map(|found| (found.run.name, found.argument)).unzip();
            let what = format!("{word} has several results: {}", names.join(", "));
            Err(CommandError::Usage(format!("{what}\n  hint: name one of them: {}", arguments.join(", "))))
        }
    }
}

/// All results that an argument names; at least one.
pub(super) fn find_all(global: &Global, word: &str) -> Result<Vec<FoundResult>, CommandError> {
    let found = places(global, word)?.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    for line in found.iter().filter_map(FoundResult::earlier_text) {
        print_error(&format!("note: {line}\n"));
    }
    Ok(found)
}

/// The sweep that an argument names: a `sweep.json`, its folder, a task that left one, or a run with no other measurement. `None`: it names something else.
pub(super) fn find_sweep(global: &Global, word: &str) -> Result<Option<SweepReport>, CommandError> {
    let path = Path::new(word);
    let read = |path: &Path| SweepReport::read(path).map(Some).map_err(|error| anyhow::Error::from(error).into());
    if path.is_dir() {
        let file = path.join(SWEEP);
        return match (file.is_file(), only_sweep_below(path)) {
            (true, _) => read(&file),
            (false, Some(below)) => read(&below),
            (false, None) => of_another_tool(word, path),
        };
    }
    if path.is_file() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        return if name.starts_with("sweep") && name.ends_with(".json") {
            read(path)
        } else {
            of_another_tool(word, path)
        };
    }
    let home = Project::open_current(global)?.home;
    let last = last_run(&home)?.map(|run| run_state(&home, &run)).transpose()?.unwrap_or_default();
    if let Some(place) = named_output(&home, &last, word, SWEEP)? {
        if let Some(run) = &place.earlier {
            print_error(&format!("note: {word} is of run {run}: the last run did not have it\n"));
        }
        return read(&place.path.join(SWEEP));
    }
    match named_run(&home, word)? {
        Some(run) => only_sweep_of_run(&home, &run, word)?.map_or(Ok(None), |file| read(&file)),
        None => Ok(None),
    }
}

/// The sweep of a run that has measured nothing else.
fn only_sweep_of_run(home: &StateFolder, run: &RunId, word: &str) -> Result<Option<PathBuf>, CommandError> {
    let state = run_state(home, run)?;
    if !outputs_with(home, &state, RESULT)?.is_empty() {
        return Ok(None);
    }
    let mut sweeps = outputs_with(home, &state, SWEEP)?;
    match (sweeps.pop(), sweeps.len()) {
        (Some((_, folder)), 0) => Ok(Some(folder.join(SWEEP))),
        (None, _) => Ok(None),
        (Some(last), _) => {
            sweeps.push(last);
            let names: Vec<String> = sweeps.iter().map(|(task, _)| format!("{word}/{task}")).collect();
            let (count, hint) = (sweeps.len(), format!("name one of them: {}", names.join(", ")));
            Err(CommandError::Usage(format!("run {word} has {count} sweeps\n  hint: {hint}")))
        }
    }
}

/// The run with that name or tag.
pub(super) fn named_run(home: &StateFolder, word: &str) -> Result<Option<RunId>, PathError> {
    let named = readable_runs(home)?.0.into_iter().find(|run| run.as_str() == word);
    match (named, word.parse()) {
        (None, Ok(tag)) => tagged_run(home, &tag),
        (named, _) => Ok(named),
    }
}

/// The run and the task of `RUN/TASK`, where there is such a run.
fn run_and_task<'a>(home: &StateFolder, word: &'a str) -> Result<Option<(RunId, &'a str, &'a str)>, PathError> {
    let Some((named, task)) = word.split_once('/') else { return Ok(None) };
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
fn of_another_tool(name: &str, path: &Path) -> Result<Option<SweepReport>, CommandError> {
    if path.is_dir() && (path.join(RESULT).is_file() || !in_folder(path, name).is_empty()) {
        return Ok(None);
    }
    let runs = located_runs(&[path.to_owned()]).unwrap_or_default();
    if runs.len() < 2 {
        return Ok(None);
    }
    import_sweep(name, runs).map(|sweep| Some(sweep.report)).map_err(CommandError::usage)
}

/// One side of a comparison, task by task: a result and its repeats, a folder of results, the tasks of a run or a stage, or a list
/// with commas. The results of a list whose items name one result each are runs of one measurement.
pub(super) fn find_runs(global: &Global, word: &str) -> Result<Vec<TaskRuns>, CommandError> {
    let path = Path::new(word);
    if !path.exists() && word.contains(',') {
        let items = word.split(',').filter(|item| !item.is_empty());
        let items = items.map(|item| find_runs(global, item)).collect::<Result<Vec<_>, _>>()?;
        let is_one = items.iter().all(|tasks| tasks.len() == 1);
        let mut all = Vec::new();
        for task in items.into_iter().flatten() {
            put(&mut all, task, |known, new| is_one || known.task == new.task);
        }
        return Ok(all);
    }
    let below = if path.is_dir() && !path.join(RESULT).is_file() { in_folder(path, word) } else { Vec::new() };
    let places = if below.is_empty() { places(global, word)? } else { below.into_iter().map(Place::of_path).collect() };
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

/// Where the results are that an argument names; at least one.
fn places(global: &Global, word: &str) -> Result<Vec<Place>, CommandError> {
    let path = Path::new(word);
    if is_there(path)? {
        return Ok(vec![Place::of_path((word.to_owned(), path.to_owned()))]);
    }
    let home = Project::open_current(global)?.home;
    let last = last_run(&home)?.map(|run| run_state(&home, &run)).transpose()?.unwrap_or_default();
    if let Some(place) = named_output(&home, &last, word, RESULT)? {
        return Ok(vec![place]);
    }
    if let Some(run) = named_run(&home, word)? {
        let all = results_or_points(&home, &run_state(&home, &run)?)?;
        if all.is_empty() {
            return Err(CommandError::Usage(format!("run {word} has no benchmark with a result that still exists")));
        }
        return Ok(all.into_iter().map(|found| Place::of_run(word, found)).collect());
    }
    let of_last = outputs_with(&home, &last, RESULT)?;
    let of_stage = |all: &[(String, PathBuf)], stage: &str| -> Vec<(String, PathBuf)> {
        all.iter().filter(|(task, _)| is_below(task, stage)).cloned().collect()
    };
    let stage = of_stage(&of_last, word);
    if !stage.is_empty() {
        return Ok(stage.into_iter().map(Place::of_task).collect());
    }
    let below = in_folder(&home.latest().join(word), word);
    let below: Vec<Place> = below.into_iter().filter_map(|found| of_latest(&home, &last, found, RESULT)).collect();
    if !below.is_empty() {
        return Ok(below);
    }
    if let Some((run, named, task)) = run_and_task(&home, word)? {
        let all = results_or_points(&home, &run_state(&home, &run)?)?;
        let stage = of_stage(&all, task);
        if !stage.is_empty() {
            return Ok(stage.into_iter().map(|found| Place::of_run(named, found)).collect());
        }
        let known: Vec<String> = all.into_iter().map(|(name, _)| format!("{named}/{name}")).collect();
        return Err(no_result(word, &known, "no result of this run still exists"));
    }
    if let Some(error) = left_without_result(&home, &last, word)? {
        return Err(error);
    }
    let known = in_folder(&home.latest(), "").into_iter().chain(of_last).map(|(name, _)| name);
    let known: Vec<String> = known.collect::<BTreeSet<_>>().into_iter().collect();
    Err(no_result(word, &known, "no benchmark has run in this folder yet; a folder with a result.json will do, too"))
}

fn no_result(word: &str, known: &[String], none: &str) -> CommandError {
    let hint = crate::diag::did_you_mean(word, known.iter().map(String::as_str)).unwrap_or_else(|| {
        if known.is_empty() {
            none.to_owned()
        } else {
            format!("there are {}; a folder with a result.json will do, too", known.join(", "))
        }
    });
    CommandError::Usage(format!("there is no result `{word}`\n  hint: {hint}"))
}

/// The output with that file that an argument names alone: a task of the last run, `RUN/TASK`, or a folder below one of these.
fn named_output(home: &StateFolder, last: &RunState, word: &str, file: &str) -> Result<Option<Place>, CommandError> {
    if let Some(path) = output_at(home, last, word, file)? {
        return Ok(Some(Place::of_task((word.to_owned(), path))));
    }
    let latest = home.latest().join(word);
    if is_there(&latest.join(file))?
        && let Some(place) = of_latest(home, last, (word.to_owned(), latest), file)
    {
        return Ok(Some(place));
    }
    let Some((run, named, task)) = run_and_task(home, word)? else { return Ok(None) };
    let path = output_at(home, &run_state(home, &run)?, task, file)?;
    Ok(path.map(|path| Place::of_run(named, (task.to_owned(), path))))
}

/// A task in `latest`. `None`: the last run had it, too, and did not finish it, so that this is an older result than that run's.
fn of_latest(home: &StateFolder, last: &RunState, found: (String, PathBuf), file: &str) -> Option<Place> {
    let of_last = last.tasks.iter().find(|(task, _)| found.0 == task.as_str() || is_below(&found.0, task.as_str()));
    if let Some((_, entry)) = of_last {
        return is_finished(entry).then(|| Place::of_task(found));
    }
    let earlier = run_with(home, &found.0, file).ok().flatten();
    Some(Place { earlier, ..Place::of_task(found) })
}

fn is_finished(entry: &TaskState) -> bool {
    matches!(entry.state, TaskPhase::Ran | TaskPhase::Cached)
}

/// The newest run with an output of that task that has that file.
fn run_with(home: &StateFolder, task: &str, file: &str) -> Result<Option<RunId>, PathError> {
    for run in readable_runs(home)?.0.into_iter().rev() {
        // One that cannot be read is left out.
        if run_state(home, &run).and_then(|state| output_at(home, &state, task, file)).is_ok_and(|it| it.is_some()) {
            return Ok(Some(run));
        }
    }
    Ok(None)
}

/// The error for a task of the last run, or a stage, that did not get as far as a result.
fn left_without_result(home: &StateFolder, last: &RunState, word: &str) -> Result<Option<CommandError>, PathError> {
    let is_named = |task: &str| word == task || is_below(task, word) || is_below(word, task);
    let unfinished = last.tasks.iter().find(|(task, entry)| is_named(task.as_str()) && !is_finished(entry));
    let Some((task, entry)) = unfinished else { return Ok(None) };
    let hint = match run_with(home, task.as_str(), RESULT)? {
        Some(run) => format!("`{run}/{task}` is the result of an earlier run"),
        None => "`regatta status` shows why".to_owned(),
    };
    let what = format!("the last run has no result of {task}: {}", entry.label());
    Ok(Some(CommandError::Usage(format!("{what}\n  hint: {hint}"))))
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
    for event in &read_journal(&home.run(run).join("journal.jsonl"))?.events {
        state.fold(event);
    }
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

/// A result of Regatta, an imported one, or another tool's files.
fn read(place: &Place) -> Result<FoundResult, CommandError> {
    let (name, path) = (&place.name, &place.path);
    let file = if path.is_dir() { path.join(RESULT) } else { path.clone() };
    if file.is_file() {
        let text = read_text(&file)
            .map_err(|error| anyhow::Error::from(error).context(format!("cannot read {}", file.display())))?;
        if MeasuredResult::is_one(&text) {
            let result = MeasuredResult::read(&text)
                .map_err(|error| anyhow::anyhow!("{} cannot be read: {error}", file.display()))?;
            return read_regatta_result(place, file.parent().unwrap_or(Path::new(".")), result);
        }
    }
    let mut runs = located_runs(std::slice::from_ref(path))?;
    match (runs.pop(), runs.len()) {
        (Some(only), 0) => {
            let imported = Imported { name: name.clone(), ..only.run };
            Ok(found(place, path, imported.into(), None))
        }
        (_, others) => {
            Err(CommandError::usage(ImportError::SeveralRuns { name: path.display().to_string(), count: others + 1 }))
        }
    }
}

fn read_regatta_result(place: &Place, folder: &Path, result: MeasuredResult) -> Result<FoundResult, CommandError> {
    let name = place.name.clone();
    let (seen, requests) = (folder.join(SEEN), folder.join(REQUESTS));
    if result.imported().is_some() {
        let request_traces: Vec<RequestTrace> = if seen.is_file() { lines(&seen)? } else { Vec::new() };
        return Ok(found(place, folder, MeasuredRun { name, result, request_traces }, None));
    }
    let requests = Some(requests).filter(|requests| requests.is_file());
    let mut request_traces = Vec::new();
    if let Some(requests) = &requests {
        let kept = read_records(requests, |record: RequestRecord| request_traces.push(RequestTrace::from(&record)));
        kept.map_err(anyhow::Error::from)?;
    }
    Ok(found(place, folder, MeasuredRun { name, result, request_traces }, requests))
}

fn found(place: &Place, location: &Path, run: MeasuredRun, requests: Option<PathBuf>) -> FoundResult {
    FoundResult {
        run,
        argument: place.argument.clone(),
        earlier: place.earlier.clone(),
        search: search_in(location),
        location: fs::canonicalize(location).unwrap_or_else(|_| location.to_owned()),
        requests,
    }
}

/// What the search of that output found. A file that this version cannot read is left out.
pub(super) fn search_in(folder: &Path) -> Option<SearchReport> {
    read_bytes(folder.join("search.json")).ok().and_then(|text| serde_json::from_slice(&text).ok())
}

fn lines<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Vec<T>, CommandError> {
    let mut all = Vec::new();
    read_records(path, |record| all.push(record)).map_err(anyhow::Error::from)?;
    Ok(all)
}
