//! `regatta gc` and `regatta clean`: what could be deleted; `--yes` deletes it.

use std::fs;
use std::path::Path;

use super::project::Project;
use crate::app::error::CommandError;
use crate::app::output::print;
use crate::cli::{CliExit, Gc, Global};
use crate::event::{RunId, is_absence};
use crate::runner::store::{Garbage, LockAttempt, OutputCache, ProjectLock, StateFolder, garbage, is_there, remove};
use crate::units::size;

pub(super) fn gc(global: &Global, request: Gc) -> Result<CliExit, CommandError> {
    let home = Project::open_current(global)?.home;
    let _lock = if request.yes { lock(&home)? } else { None };
    let output_cache = OutputCache::open(&home)?;
    let found = garbage(&home, &output_cache, request.keep, request.keep.max(1))?;
    print_garbage(&home, &found, request.yes);
    if request.yes {
        remove(&home, &output_cache, &found)?;
    }
    Ok(CliExit::Done)
}

pub(super) fn clean(global: &Global, yes: bool) -> Result<CliExit, CommandError> {
    let home = Project::open_current(global)?.home;
    let _lock = if yes { lock(&home)? } else { None };
    let mut all = Vec::new();
    for path in [home.state().to_owned(), home.latest()] {
        if path.is_symlink() || is_there(&path)? {
            all.push(Garbage { bytes: bytes_in(&path), why: "all state of this project".to_owned(), path });
        }
    }
    print_garbage(&home, &all, yes);
    if yes {
        // The links first: their targets can only be read while they exist.
        for item in all.iter().rev() {
            if item.path == home.latest() {
                remove_links(&home)?;
            } else {
                fs::remove_dir_all(&item.path)?;
            }
        }
    }
    Ok(CliExit::Done)
}

/// Links into the state, links to nothing, and the folders they leave empty. A folder `latest` may have existed before, with
/// other things in it.
fn remove_links(home: &StateFolder) -> std::io::Result<()> {
    let state = fs::canonicalize(home.state()).ok();
    if home.latest().is_symlink() {
        return fs::remove_file(home.latest());
    }
    for item in walkdir::WalkDir::new(home.latest()).contents_first(true).into_iter().flatten() {
        let path = item.path();
        if item.path_is_symlink() {
            let is_ours = match fs::canonicalize(path) {
                Ok(to) => state.as_ref().is_some_and(|state| to.starts_with(state)),
                Err(error) => is_absence(&error),
            };
            if is_ours {
                fs::remove_file(path)?;
            }
        } else if item.file_type().is_dir() && fs::read_dir(path)?.next().is_none() {
            fs::remove_dir(path)?;
        }
    }
    Ok(())
}

/// Nothing is removed during a run. `None` where there is no state at all.
fn lock(home: &StateFolder) -> Result<Option<ProjectLock>, CommandError> {
    if !is_there(home.state())? {
        return Ok(None);
    }
    match ProjectLock::try_take(home, || Ok(RunId::new("cleaning")))? {
        LockAttempt::Acquired(lock) => Ok(Some(lock)),
        LockAttempt::No(held) => {
            let holder =
                held.map_or_else(|| "another run".to_owned(), |held| format!("run {} ({})", held.run, held.pid));
            Err(CommandError::Usage(format!(
                "{holder} is working in this folder\n  hint: wait for it, or stop it first"
            )))
        }
    }
}

fn print_garbage(home: &StateFolder, found: &[Garbage], yes: bool) {
    let base = home.project();
    for item in found {
        let path = item.path.strip_prefix(base).unwrap_or(&item.path);
        print(&format!("{:>10}  {}  {}\n", size(item.bytes), path.display(), item.why));
    }
    let total = size(found.iter().map(|item| item.bytes).sum());
    match (found.len(), yes) {
        (0, _) => print("nothing to remove\n"),
        (n, true) => print(&format!("{n} removed, {total}\n")),
        (n, false) => print(&format!("{n} would be removed, {total}; `--yes` removes them\n")),
    }
}

fn bytes_in(path: &Path) -> u64 {
    if path.is_symlink() {
        return 0;
    }
    walkdir::WalkDir::new(path).into_iter().flatten().filter_map(|item| item.metadata().ok()).map(|m| m.len()).sum()
}
