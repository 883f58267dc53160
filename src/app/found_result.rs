//! A result with its requests, read from where it is: Regatta's own, an imported one, or another tool's files.

use std::fs;
use std::path::{Path, PathBuf};

use super::export_import::{import_error, located_runs};
use crate::error::CommandError;
use base::event::RunId;
use base::files::{read_bytes, read_text};
use harness::{REQUESTS, RESULT, RequestRecord, SearchReport, read_records};
use interop::{ImportError, Imported, MeasuredResult, MeasuredRun, RequestTrace};

pub(super) const SEEN: &str = "seen.jsonl";

/// The run that a result is of, where it stands for a task that the last run did not have.
#[derive(Clone, Debug)]
pub(super) struct TaskOfRun {
    pub run: RunId,
    pub task: String,
}

/// A result with its requests.
#[derive(Clone)]
pub(super) struct FoundResult {
    pub run: MeasuredRun,
    /// The argument that names it alone.
    pub argument: String,
    pub earlier: Option<TaskOfRun>,
    /// What a search found, whose last probe it is.
    pub search: Option<SearchReport>,
    /// Its folder or file, without links: the same place is the same measurement.
    pub location: PathBuf,
}

impl FoundResult {
    /// Of [`FoundResult::earlier`].
    pub(super) fn earlier_text(&self) -> Option<String> {
        self.earlier.as_ref().map(|earlier| earlier_text(&self.argument, &earlier.run))
    }
}

/// `load/8 is from run 20261120-…; the last run does not have it`.
pub(super) fn earlier_text(argument: &str, run: &RunId) -> String {
    format!("{argument} is from run {run}; the last run does not have it")
}

/// Where a result is that an argument names.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// As it is shown: a task, or a path.
    pub name: String,
    /// The argument that names it alone.
    pub argument: String,
    pub path: PathBuf,
    /// Whether its name is that of a task.
    pub is_task: bool,
    pub earlier: Option<TaskOfRun>,
}

impl Place {
    pub(super) fn of_path((name, path): (String, PathBuf)) -> Self {
        Self { argument: name.clone(), name, path, is_task: false, earlier: None }
    }

    /// A task of the last run.
    pub(super) fn of_task((name, path): (String, PathBuf)) -> Self {
        Self { is_task: true, ..Self::of_path((name, path)) }
    }

    /// A task of the run that `named` names.
    pub(super) fn of_run(named: &str, (name, path): (String, PathBuf)) -> Self {
        Self { argument: format!("{named}/{name}"), ..Self::of_task((name, path)) }
    }
}

/// A result of Regatta, an imported one, or another tool's files.
pub(super) fn read(place: &Place) -> Result<FoundResult, CommandError> {
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
    let mut runs = located_runs(interop::locate_runs(std::slice::from_ref(path)))?;
    match (runs.pop(), runs.len()) {
        (Some(only), 0) => {
            let imported = Imported { name: name.clone(), ..only.run };
            Ok(found(place, path, imported.into()))
        }
        (_, others) => {
            Err(import_error(ImportError::SeveralRuns { name: path.display().to_string(), count: others + 1 }))
        }
    }
}

fn read_regatta_result(place: &Place, folder: &Path, result: MeasuredResult) -> Result<FoundResult, CommandError> {
    let name = place.name.clone();
    let mut request_traces = Vec::new();
    let read = if result.imported().is_some() {
        let seen = folder.join(SEEN);
        seen.is_file().then(|| read_records(&seen, |trace: RequestTrace| request_traces.push(trace)))
    } else {
        let requests = folder.join(REQUESTS);
        let add = |record: RequestRecord| request_traces.push(RequestTrace::from(&record));
        requests.is_file().then(|| read_records(&requests, add))
    };
    read.transpose().map_err(anyhow::Error::from)?;
    Ok(found(place, folder, MeasuredRun { name, result, request_traces }))
}

fn found(place: &Place, location: &Path, run: MeasuredRun) -> FoundResult {
    FoundResult {
        run,
        argument: place.argument.clone(),
        earlier: place.earlier.clone(),
        search: search_in(location),
        location: without_links(location),
    }
}

/// What the search of that output found. A file that this version cannot read is left out.
pub(super) fn search_in(folder: &Path) -> Option<SearchReport> {
    read_bytes(folder.join("search.json")).ok().and_then(|text| serde_json::from_slice(&text).ok())
}

/// Where a path leads, without links; of one that leads nowhere, the path itself.
pub(super) fn without_links(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
