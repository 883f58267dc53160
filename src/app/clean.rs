//! `regatta gc` and `regatta clean`: what could be deleted; `--yes` deletes it.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::found_result::without_links;
use super::past_runs::holding_run;
use super::project::{Project, hint_of_runs_above};
use super::result_name::measured_outputs;
use crate::cli::{CliExit, GcRequest, Global};
use crate::console::{print, print_error};
use crate::error::CommandError;
use base::diag::ErrorText;
use base::event::RunId;
use base::files::is_absence;
use base::units::{counted, plain_path, size};
use plan::manifest::is_shipped;
use runner::store::{
    Garbage, LockAttempt, OutputCache, PathError, ProjectLock, StateFolder, StateItems, bytes_in, garbage, is_there,
    readable_runs, remove,
};

pub(super) fn gc(global: &Global, request: GcRequest) -> Result<CliExit, CommandError> {
    let home = Project::open_current(global)?.home;
    items_of(&home)?;
    if !is_there(home.state())? {
        print_garbage(&home, &[], request.yes);
        return Ok(CliExit::Done);
    }
    let _lock = if request.yes { lock(&home)? } else { None };
    let output_cache = OutputCache::open(&home)?;
    let running = if request.yes { None } else { holding_run(&home)? };
    let leftovers = garbage(&output_cache, request.keep.get(), running.is_some())?;
    if let Some(text) = newer_note(&output_cache) {
        print_error(&format!("note: {text}\n"));
    }
    if !request.yes {
        if let Some(run) = running {
            print_error(&format!("note: {run} is running; what it has not finished is not listed\n"));
        }
        print_garbage(&home, &leftovers, false);
        let (lost, unreadable) = lost_measurements(&home, &leftovers)?;
        for error in unreadable {
            print_error(&format!("note: cannot check what `regatta history` would lose: {error}\n"));
        }
        if lost > 0 {
            print_error(&format!(
                "note: `regatta history` would lose {}; `regatta tag` keeps what a run measured\n",
                counted(lost, "measurement")
            ));
        }
        return Ok(CliExit::Done);
    }
    let mut removed = Vec::new();
    let ended = remove(&output_cache, leftovers, &mut removed);
    if ended.is_ok() || !removed.is_empty() {
        removed.sort_by(|a, b| a.path.cmp(&b.path));
        print_garbage(&home, &removed, true);
    }
    ended?;
    Ok(CliExit::Done)
}

/// How many of the measurements in the history would no longer be there, and why some runs are not counted.
fn lost_measurements(home: &StateFolder, found: &[Garbage]) -> Result<(usize, Vec<PathError>), CommandError> {
    let gone: HashSet<PathBuf> = found.iter().map(|item| without_links(&item.path)).collect();
    let goes = |path: &Path| path.ancestors().any(|folder| gone.contains(folder));
    let (mut all, mut kept) = (HashSet::new(), HashSet::new());
    let (runs, mut unreadable) = readable_runs(home)?;
    for run in runs {
        let outputs = match measured_outputs(home, &run) {
            Ok(outputs) => outputs,
            Err(error) => {
                unreadable.push(error);
                continue;
            }
        };
        let run_goes = goes(&without_links(&home.run(&run)));
        for folder in outputs.results.iter().map(|(_, folder)| without_links(folder)) {
            if !run_goes && !goes(&folder) {
                kept.insert(folder.clone());
            }
            all.insert(folder);
        }
    }
    Ok((all.len() - kept.len(), unreadable))
}

pub(super) fn clean(global: &Global, yes: bool) -> Result<CliExit, CommandError> {
    let home = Project::open_current(global)?.home;
    let items = items_of(&home)?;
    let lock = if yes { lock(&home)? } else { None };
    let reason = if is_within_project(&home) {
        "all state of this project"
    } else {
        "all state of every project that uses this folder"
    };
    let mut leftovers = Vec::new();
    if (items.others.is_empty() || !items.own.is_empty()) && is_there(home.state())? {
        let bytes = items.own.iter().map(|path| bytes_in(path)).sum();
        leftovers.push(Garbage { path: home.state().to_owned(), bytes, why: reason.to_owned() });
    }
    let links = links_into_state(&home)?;
    if !links.is_empty() {
        leftovers.push(Garbage { path: home.latest(), bytes: 0, why: reason.to_owned() });
    }
    if yes {
        // The links first: their targets can only be read while they exist.
        for link in &links {
            fs::remove_file(link)?;
            let folders = link.ancestors().skip(1).take_while(|folder| folder.starts_with(home.latest()));
            // One with other things in it stays.
            let _ = folders.map_while(|folder| fs::remove_dir(folder).ok()).count();
        }
        items.remove()?;
    }
    drop(lock);
    print_garbage(&home, &leftovers, yes);
    for other in &items.others {
        print_error(&format!("note: {} stays: Regatta did not make it\n", shown(&home, other).display()));
    }
    Ok(CliExit::Done)
}

/// What is in the state folder.
fn items_of(home: &StateFolder) -> Result<StateItems, CommandError> {
    StateItems::find(home, &is_shipped)?.ok_or_else(|| {
        let folder = shown(home, home.state());
        CommandError::hinted(
            format!("{} is not a folder with state of Regatta, so nothing in it is removed", folder.display()),
            "`--home` and REGATTA_HOME name the folder in which runs keep their state",
        )
    })
}

/// Otherwise other projects may use the state folder, too.
fn is_within_project(home: &StateFolder) -> bool {
    match (fs::canonicalize(home.project()), fs::canonicalize(home.state())) {
        (Ok(project), Ok(state)) => state.starts_with(project),
        _ => home.state().starts_with(home.project()),
    }
}

/// The link `latest`; or the links in a folder of that name, which may have existed before, with other things in it.
/// Only those that lead into the state.
fn links_into_state(home: &StateFolder) -> std::io::Result<Vec<PathBuf>> {
    let leads_into_state = |link: &Path| -> std::io::Result<bool> {
        let target = link.parent().unwrap_or(link).join(fs::read_link(link)?);
        Ok(match (fs::canonicalize(&target), fs::canonicalize(home.state())) {
            (Ok(to), Ok(state)) => to.starts_with(state),
            // Of a link to nothing, there is nothing to look at.
            _ => plain_path(&target).starts_with(plain_path(home.state())),
        })
    };
    let mut links = Vec::new();
    for item in walkdir::WalkDir::new(home.latest()).follow_root_links(false).contents_first(true) {
        match item {
            Ok(item) if item.path_is_symlink() && leads_into_state(item.path())? => links.push(item.into_path()),
            Ok(_) => {}
            Err(error) if error.io_error().is_some_and(is_absence) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(links)
}

/// A path as it is shown: relative to the project, if it is in it.
fn shown(home: &StateFolder, path: &Path) -> PathBuf {
    let plain = plain_path(path);
    match plain.strip_prefix(home.project()) {
        Ok(below) if below.as_os_str().is_empty() => PathBuf::from("."),
        Ok(below) => below.to_owned(),
        Err(_) => plain,
    }
}

/// Of outputs that this program can neither use nor judge.
pub(super) fn newer_note(output_cache: &OutputCache) -> Option<String> {
    let outputs = Some(output_cache.newer_folders().len()).filter(|count| *count > 0)?;
    Some(format!("{} recorded by a newer Regatta: kept, and not used by this one", counted(outputs, "output")))
}

/// Nothing is removed during a run. `None` if the project has no state at all.
fn lock(home: &StateFolder) -> Result<Option<ProjectLock>, CommandError> {
    if !is_there(home.state())? {
        return Ok(None);
    }
    match ProjectLock::try_take(home, || Ok(RunId::new("cleaning")))? {
        LockAttempt::Acquired(lock) => Ok(Some(lock)),
        LockAttempt::No(held) => {
            let holder =
                held.map_or_else(|| "another run".to_owned(), |held| format!("run {} ({})", held.run, held.pid));
            Err(anyhow::Error::new(
                ErrorText::new(format!("{holder} is working in this folder")).hint("wait for it, or stop it first"),
            )
            .into())
        }
    }
}

fn print_garbage(home: &StateFolder, found: &[Garbage], yes: bool) {
    for item in found {
        print(&format!("{:>10}  {}  {}\n", size(item.bytes), shown(home, &item.path).display(), item.why));
    }
    let total = size(found.iter().map(|item| item.bytes).sum());
    match (found.len(), yes) {
        (0, _) => {
            print("nothing to remove\n");
            if let Some(above) = hint_of_runs_above(home).filter(|_| !home.state().exists()) {
                print_error(&format!("note: {above}\n"));
            }
        }
        (n, true) => print(&format!("{n} removed, {total}\n")),
        (n, false) => print(&format!("{n} would be removed, {total}; `--yes` removes them\n")),
    }
}
