//! Finds results by the names that users have for them: a task of the last run, a run, a folder, a file.

use std::fs;
use std::path::{Path, PathBuf};

use super::import_sources::located_runs;
use super::project::Project;
use crate::app::error::CommandError;
use crate::cli::Global;
use crate::event::RunId;
use crate::files::read_text;
use crate::harness::{REQUESTS, RESULT, RequestRecord, SWEEP, SweepReport, read_records, repeat_folders};
use crate::interop::{ImportError, Imported, MeasuredResult, MeasuredRun, RequestTrace, import_sweep};
use crate::report::RunState;
use crate::runner::store::{PathError, StateFolder, is_there, last_run, read_journal, readable_runs, tagged_run};

pub(super) const SEEN: &str = "seen.jsonl";

/// A result with its requests.
#[derive(Clone)]
pub(super) struct FoundResult {
    pub run: MeasuredRun,
    /// The file of Regatta's own records, where it measured.
    requests: Option<PathBuf>,
}

impl FoundResult {
    /// Regatta's own records; none where another tool measured.
    pub(super) fn records(&self) -> Result<Vec<RequestRecord>, CommandError> {
        self.requests.as_deref().map_or_else(|| Ok(Vec::new()), lines)
    }
}

/// One result, or an error that lists the existing ones.
pub(super) fn find(global: &Global, word: &str) -> Result<FoundResult, CommandError> {
    let mut all = find_all(global, word)?;
    match (all.pop(), all.is_empty()) {
        (Some(found), true) => Ok(found),
        (last, _) => {
            let names: Vec<String> = all.into_iter().chain(last).map(|found| found.run.name).collect();
            let hint = "name one of them";
            Err(CommandError::Usage(format!("{word} has several results: {}\n  hint: {hint}", names.join(", "))))
        }
    }
}

/// All results that an argument names; at least one.
pub(super) fn find_all(global: &Global, word: &str) -> Result<Vec<FoundResult>, CommandError> {
    places(global, word)?.iter().map(|(name, path)| read(name, path)).collect()
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
    let file = home.latest().join(word).join(SWEEP);
    if file.is_file() {
        return read(&file);
    }
    match named_run(&home, word)? {
        Some(run) => only_sweep_of_run(&home, &run, word)?.map_or(Ok(None), |file| read(&file)),
        None => Ok(None),
    }
}

/// The sweep of a run that has measured nothing else.
fn only_sweep_of_run(home: &StateFolder, run: &RunId, word: &str) -> Result<Option<PathBuf>, CommandError> {
    if !of_run(home, run)?.is_empty() {
        return Ok(None);
    }
    let mut sweeps = files_of_run(home, run, SWEEP)?.1;
    match (sweeps.pop(), sweeps.len()) {
        (Some((_, folder)), 0) => Ok(Some(folder.join(SWEEP))),
        (None, _) => Ok(None),
        (Some(last), _) => {
            sweeps.push(last);
            let folders: Vec<String> = sweeps.iter().map(|(_, folder)| folder.display().to_string()).collect();
            let (count, hint) = (sweeps.len(), format!("name one of their folders: {}", folders.join(", ")));
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

/// The runs of one side of a comparison: a result and its repeats, a folder of results, several tasks, or a list with commas.
pub(super) fn find_runs(global: &Global, word: &str) -> Result<Vec<FoundResult>, CommandError> {
    let path = Path::new(word);
    if !path.exists() && word.contains(',') {
        let parts = word.split(',').filter(|part| !part.is_empty());
        return Ok(parts.map(|part| find_runs(global, part)).collect::<Result<Vec<_>, _>>()?.concat());
    }
    let below = if path.is_dir() && !path.join(RESULT).is_file() { in_folder(path, word) } else { Vec::new() };
    let places = if below.is_empty() { places(global, word)? } else { below };
    let mut runs = Vec::new();
    for (name, path) in places {
        let beside = if path.is_file() { path.parent().unwrap_or(Path::new(".")) } else { &path };
        let repeats = repeat_folders(beside)?;
        if repeats.is_empty() {
            runs.push(read(&name, &path)?);
        }
        for (n, folder) in (1..).zip(repeats) {
            runs.push(read(&format!("{name}, run {n}"), &folder)?);
        }
    }
    Ok(runs)
}

/// Where the results are that an argument names, and the name of each; at least one.
fn places(global: &Global, word: &str) -> Result<Vec<(String, PathBuf)>, CommandError> {
    let path = Path::new(word);
    if is_there(path)? {
        return Ok(vec![(word.to_owned(), path.to_owned())]);
    }
    let home = Project::open_current(global)?.home;
    let latest = home.latest().join(word);
    if is_there(&latest.join(RESULT))? {
        return Ok(vec![(word.to_owned(), latest)]);
    }
    if let Some(run) = named_run(&home, word)? {
        let mut folders = of_run(&home, &run)?;
        if folders.is_empty() {
            // The points of its sweeps.
            let sweeps = files_of_run(&home, &run, SWEEP)?.1;
            folders = sweeps.iter().flat_map(|(task, folder)| in_folder(folder, task)).collect();
        }
        if folders.is_empty() {
            return Err(CommandError::Usage(format!("run {word} has no benchmark with a result that still exists")));
        }
        return Ok(folders);
    }
    let below = in_folder(&latest, word);
    if !below.is_empty() {
        return Ok(below);
    }
    // A benchmark that was not valid is in no `latest`, but can be shown all the same.
    let last = last_run(&home)?.map(|run| of_run(&home, &run)).transpose()?.unwrap_or_default();
    let named = |name: &str| name == word || name.strip_prefix(word).is_some_and(|rest| rest.starts_with('/'));
    let of_last: Vec<_> = last.iter().filter(|(name, _)| named(name)).collect();
    if !of_last.is_empty() {
        return Ok(of_last.into_iter().cloned().collect());
    }
    let mut known: Vec<String> = in_folder(&home.latest(), "").into_iter().chain(last).map(|(name, _)| name).collect();
    known.sort();
    known.dedup();
    let hint = crate::diag::did_you_mean(word, known.iter().map(String::as_str)).unwrap_or_else(|| {
        if known.is_empty() {
            "no benchmark has run in this folder yet; a folder with a result.json will do, too".to_owned()
        } else {
            format!("there are {}; a folder with a result.json will do, too", known.join(", "))
        }
    });
    Err(CommandError::Usage(format!("there is no result `{word}`\n  hint: {hint}")))
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

/// The benchmarks of a run, valid or not, that still have outputs.
fn of_run(home: &StateFolder, run: &RunId) -> Result<Vec<(String, PathBuf)>, CommandError> {
    Ok(results_of_run(home, run)?.1)
}

/// The manifest of a run, and the task and folder of each of its results that still exists.
pub(super) fn results_of_run(home: &StateFolder, run: &RunId) -> Result<(String, Vec<(String, PathBuf)>), PathError> {
    files_of_run(home, run, RESULT)
}

/// The manifest of a run, and the task and folder of each output with that file.
fn files_of_run(home: &StateFolder, run: &RunId, file: &str) -> Result<(String, Vec<(String, PathBuf)>), PathError> {
    let mut run_state = RunState::new();
    for event in &read_journal(&home.run(run).join("journal.jsonl"))?.events {
        run_state.fold(event);
    }
    let mut results = Vec::new();
    for (task, of_task) in &run_state.tasks {
        let kept = || of_task.failure.as_ref()?.kept.clone();
        let Some(out) = of_task.out.clone().or_else(kept) else { continue };
        let has_file = match is_there(&out.join(file)) {
            // Where the project was before it was moved or copied: of no use, like what is not there any more.
            Err(_) if !out.starts_with(home.outputs()) => false,
            looked => looked?,
        };
        if has_file {
            results.push((task.to_string(), out));
        }
    }
    Ok((run_state.manifest, results))
}

/// A result of Regatta, an imported one, or another tool's files.
fn read(name: &str, path: &Path) -> Result<FoundResult, CommandError> {
    let file = if path.is_dir() { path.join(RESULT) } else { path.to_owned() };
    if file.is_file() {
        let text = read_text(&file)
            .map_err(|error| anyhow::Error::from(error).context(format!("cannot read {}", file.display())))?;
        if MeasuredResult::is_one(&text) {
            let result = MeasuredResult::read(&text)
                .map_err(|error| anyhow::anyhow!("{} cannot be read: {error}", file.display()))?;
            return read_regatta_result(name, file.parent().unwrap_or(Path::new(".")), result);
        }
    }
    let mut runs = located_runs(&[path.to_owned()])?;
    match (runs.pop(), runs.len()) {
        (Some(only), 0) => {
            let imported = Imported { name: name.to_owned(), ..only.run };
            Ok(FoundResult { run: imported.into(), requests: None })
        }
        (_, others) => {
            Err(CommandError::usage(ImportError::SeveralRuns { name: path.display().to_string(), count: others + 1 }))
        }
    }
}

fn read_regatta_result(name: &str, folder: &Path, result: MeasuredResult) -> Result<FoundResult, CommandError> {
    let (seen, requests) = (folder.join(SEEN), folder.join(REQUESTS));
    if result.imported().is_some() {
        let seen: Vec<RequestTrace> = if seen.is_file() { lines(&seen)? } else { Vec::new() };
        return Ok(FoundResult {
            run: MeasuredRun { name: name.to_owned(), result, request_traces: seen },
            requests: None,
        });
    }
    let requests = Some(requests).filter(|requests| requests.is_file());
    let mut request_traces = Vec::new();
    if let Some(requests) = &requests {
        let kept = read_records(requests, |record: RequestRecord| request_traces.push(RequestTrace::from(&record)));
        kept.map_err(anyhow::Error::from)?;
    }
    Ok(FoundResult { run: MeasuredRun { name: name.to_owned(), result, request_traces }, requests })
}

fn lines<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Vec<T>, CommandError> {
    let mut all = Vec::new();
    read_records(path, |record| all.push(record)).map_err(anyhow::Error::from)?;
    Ok(all)
}
