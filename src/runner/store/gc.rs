//! What could go, and making it go.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use super::durable::{PathError, WithPath as _, discard, half_written_by, is_there, items_in};
use super::home::is_output_name;
use super::own_items::is_own_file;
use super::{OutputCache, StateFolder, read_journal, runs, tags_of};
use crate::event::{Event, RunId, TaskId};
use crate::files::is_absence;

/// Something under the state folder that no longer has a use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Garbage {
    pub path: PathBuf,
    pub bytes: u64,
    /// As text.
    pub why: String,
}

/// Outputs that no record names, older outputs of a task beyond its newest `keep`, and run folders beyond the newest
/// `keep_runs`. Nothing of a run with a tag. Reads only.
///
/// # Errors
/// What is to be kept cannot be known.
pub fn garbage(
    home: &StateFolder,
    output_cache: &OutputCache,
    keep: usize,
    keep_runs: usize,
) -> Result<Vec<Garbage>, PathError> {
    let mut kept = kept_folders(output_cache, keep);
    let all = runs(home)?;
    let mut tagged = HashSet::new();
    for run in &all {
        if !tags_of(home, run)?.is_empty() {
            kept.extend(folders_of_run(home, run)?);
            tagged.insert(run);
        }
    }
    let named = output_cache.named_folders();
    let mut found = Vec::new();
    for path in items_in(&home.outputs())? {
        let name = name_of(&path);
        let folder = name.strip_suffix(".files").unwrap_or(&name);
        // A user's own, or a job may be filling it.
        if !is_output_name(folder) || kept.contains(folder) || is_there(&home.jobs().join(folder))? {
            continue;
        }
        let why = if named.contains(folder) { "an older output" } else { "left by an attempt that did not finish" };
        found.push(Garbage { bytes: size(&path), path, why: why.to_owned() });
    }
    for run in all.iter().take(all.len().saturating_sub(keep_runs)).filter(|run| !tagged.contains(*run)) {
        let path = home.run(run);
        found.push(Garbage { bytes: size(&path), path, why: "journal and logs of an older run".to_owned() });
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Leftovers of a crash: files and links that were being replaced, and output folders of tries that did not end (no record
/// names them, they were never shown, nothing continues in them).
///
/// # Errors
/// What is to be kept cannot be known.
pub fn unfinished(home: &StateFolder, output_cache: &OutputCache) -> Result<Vec<PathBuf>, PathError> {
    let named = output_cache.named_folders();
    let mut shown = HashSet::new();
    for link in items_in(&home.failed())? {
        match fs::read_link(&link) {
            Ok(folder) => drop(shown.insert(folder)),
            // It is no link, or it went meanwhile.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput || is_absence(&error) => {}
            Err(error) => return Err(error).at("read", &link),
        }
    }
    let mut found = Vec::new();
    for path in items_in(&home.outputs())? {
        let name = name_of(&path);
        let folder = name.strip_suffix(".files").unwrap_or(&name);
        let is_used = named.contains(folder) || folder.ends_with("-resume") || shown.contains(&path);
        if is_output_name(folder) && !is_used && !is_there(&home.jobs().join(folder))? {
            found.push(path);
        }
    }
    found.extend(
        items_in(home.state())?.into_iter().filter(|path| half_written_by(path).is_some() && is_own_file(path)),
    );
    let replaced = [home.plans(), home.failed()].into_iter().map(|folder| (folder, 1));
    for (folder, depth) in replaced.chain([(home.by_manifest(), usize::MAX), (home.bench_manifests(), 2)]) {
        let items = WalkDir::new(folder).min_depth(1).max_depth(depth).into_iter().flatten();
        found.extend(items.map(walkdir::DirEntry::into_path).filter(|path| half_written_by(path).is_some()));
    }
    // `latest` itself is a link that is replaced. Whatever else is in its folder is the user's.
    let latest = home.latest();
    let beside = latest.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let is_ours =
        |path: &PathBuf| path.with_extension("") == latest && path.is_symlink() && half_written_by(path).is_some();
    found.extend(beside.map(|item| item.path()).filter(is_ours));
    found.sort();
    Ok(found)
}

/// Compiled plans that were being written by a process that is gone. They are written before the lock is taken, so no journal
/// shows such a crash.
pub fn unfinished_plans(home: &StateFolder) -> Vec<PathBuf> {
    let items = fs::read_dir(home.plans()).into_iter().flatten().flatten();
    items
        .map(|item| item.path())
        .filter(|path| half_written_by(path).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()))
        .collect()
}

/// The names of the output folders that a run made or used.
fn folders_of_run(home: &StateFolder, run: &RunId) -> Result<Vec<String>, PathError> {
    let events = read_journal(&home.run(run).join("journal.jsonl"))?.events;
    let out = |event: &Event| match event {
        Event::TaskCached { out, .. } | Event::TaskFinished { out, .. } => out.clone(),
        Event::TaskFailed { failure, .. } => failure.kept.clone(),
        _ => None,
    };
    Ok(events.iter().filter_map(out).map(|path| name_of(&path)).collect())
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The folders of each task's newest `keep` outputs, for each manifest.
fn kept_folders(output_cache: &OutputCache, keep: usize) -> HashSet<String> {
    let mut by_task: BTreeMap<(String, TaskId), Vec<(String, String)>> = BTreeMap::new();
    for record in output_cache.records() {
        let owner = (record.manifest.clone(), record.task.clone());
        by_task.entry(owner).or_default().push((record.run.clone(), record.folder.clone()));
    }
    let mut kept = output_cache.last_folders();
    for mut folders in by_task.into_values() {
        folders.sort();
        let mut seen = HashSet::new();
        let newest = folders.into_iter().rev().map(|(_, folder)| folder).filter(|f| seen.insert(f.clone()));
        kept.extend(newest.take(keep));
    }
    kept
}

/// Removes garbage; records of removed outputs are forgotten first, so that a crash in between leaves only unnamed folders.
pub fn remove(home: &StateFolder, output_cache: &OutputCache, garbage: &[Garbage]) -> Result<(), PathError> {
    let gone: HashSet<String> = garbage
        .iter()
        .filter(|g| g.path.parent() == Some(&home.outputs()))
        .filter_map(|g| g.path.file_name().map(|n| n.to_string_lossy().into_owned()))
        .collect();
    let keep = output_cache.named_folders().into_iter().filter(|f| !gone.contains(f)).collect();
    output_cache.drop_records_except(&keep)?;
    for item in garbage {
        discard(&item.path)?;
    }
    Ok(())
}

fn size(path: &Path) -> u64 {
    WalkDir::new(path).into_iter().flatten().filter_map(|item| item.metadata().ok()).map(|m| m.len()).sum()
}
