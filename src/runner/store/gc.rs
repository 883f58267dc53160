//! What could go, and making it go.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use walkdir::WalkDir;

use super::durable::{PathError, WithPath as _, discard, half_written_by, is_there, items_in};
use super::earlier_attempts::is_resumed_by;
use super::folder_digest::has_result;
use super::state_folder::{RESUMED, is_output_name, is_own_file};
use super::{OutputCache, StateFolder, TaskRecord, read_journal, runs, tags_of};
use base::event::{Event, RunId, TaskId};
use base::files::is_absence;

/// Something under the state folder that no longer has a use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Garbage {
    pub path: PathBuf,
    pub bytes: u64,
    /// As text.
    pub why: String,
}

/// Outputs that no record names, older outputs of a task beyond its newest `keep`, and run folders beyond as many
/// newest ones. Nothing of a run with a tag. `is_running`: what no record names may be what a task is writing, and is
/// left out. Reads only.
///
/// # Errors
/// What is to be kept cannot be known.
pub fn garbage(output_cache: &OutputCache, keep: usize, is_running: bool) -> Result<Vec<Garbage>, PathError> {
    let home = output_cache.home();
    let mut kept = kept_folders(output_cache, keep);
    kept.extend(output_cache.newer_folders());
    let all_runs = runs(home)?;
    let (tagged, of_tagged) = tagged_runs(home, &all_runs)?;
    kept.extend(of_tagged);
    let (records, recorded) = (output_cache.all_records(), output_cache.recorded_folders());
    let owners: HashMap<&str, &TaskRecord> = records.iter().map(|record| (record.folder.as_str(), &**record)).collect();
    let mut garbage_list = Vec::new();
    for path in items_in(&home.outputs())? {
        let name = name_of(&path);
        let folder = name.strip_suffix(".files").unwrap_or(&name);
        // A user's own, or a job may be filling it.
        if !is_output_name(folder) || kept.contains(folder) || is_there(&home.jobs().join(folder))? {
            continue;
        }
        let owner = owners.get(folder);
        if is_running && owner.is_none() {
            continue;
        }
        let reason = match owner {
            Some(record) if record.manifest.is_empty() => format!("an older output of {}", record.task),
            Some(record) => format!("an older output of {}, manifest {}", record.task, record.manifest),
            None if recorded.contains(folder) => "an older output".to_owned(),
            None => why_unrecorded(&path, folder, &records),
        };
        garbage_list.push(Garbage { bytes: bytes_in(&path), path, why: reason });
    }
    for run in all_runs.iter().take(all_runs.len().saturating_sub(keep)).filter(|run| !tagged.contains(*run)) {
        let path = home.run(run);
        garbage_list.push(Garbage { bytes: bytes_in(&path), path, why: "journal and logs of an older run".to_owned() });
    }
    garbage_list.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(garbage_list)
}

/// Why an output folder, or the list of its files, is there that no record has ever named.
fn why_unrecorded(path: &Path, folder: &str, records: &[Arc<TaskRecord>]) -> String {
    let task = records.iter().map(|record| &record.task).find(|task| is_resumed_by(folder, task));
    let of_task = task.map(|task| format!(" of {task}")).unwrap_or_default();
    if has_result(path) {
        format!("the result of a failed attempt{of_task}")
    } else {
        format!("left by an attempt{of_task} that did not finish")
    }
}

/// Leftovers of a crash: files and links that were being replaced, and output folders of attempts that did not end (no
/// record and no run with a tag names them, they were never shown, nothing continues in them, they are no result).
///
/// # Errors
/// What is to be kept cannot be known.
pub fn unfinished(output_cache: &OutputCache) -> Result<Vec<PathBuf>, PathError> {
    let home = output_cache.home();
    let mut named = output_cache.recorded_folders();
    named.extend(tagged_runs(home, &runs(home)?)?.1);
    let mut shown = HashSet::new();
    for link in items_in(&home.failed())? {
        match fs::read_link(&link) {
            Ok(folder) => drop(shown.insert(folder)),
            // It is not a link, or it was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput || is_absence(&error) => {}
            Err(error) => return Err(error).at("read", &link),
        }
    }
    let mut unfinished_list = Vec::new();
    for path in items_in(&home.outputs())? {
        let name = name_of(&path);
        let folder = name.strip_suffix(".files").unwrap_or(&name);
        let is_used = named.contains(folder) || folder.ends_with(RESUMED) || shown.contains(&path) || has_result(&path);
        if is_output_name(folder) && !is_used && !is_there(&home.jobs().join(folder))? {
            unfinished_list.push(path);
        }
    }
    unfinished_list.extend(
        items_in(home.state())?.into_iter().filter(|path| half_written_by(path).is_some() && is_own_file(path)),
    );
    let replaced = [home.plans(), home.failed()].into_iter().map(|folder| (folder, 1));
    for (folder, depth) in replaced.chain([(home.by_manifest(), usize::MAX), (home.bench_manifests(), 2)]) {
        let items = WalkDir::new(folder).min_depth(1).max_depth(depth).into_iter().flatten();
        unfinished_list.extend(items.map(walkdir::DirEntry::into_path).filter(|path| half_written_by(path).is_some()));
    }
    // `latest` itself is a link that is replaced. Whatever else is in its folder is the user's.
    let latest = home.latest();
    let beside = latest.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let is_ours =
        |path: &PathBuf| path.with_extension("") == latest && path.is_symlink() && half_written_by(path).is_some();
    unfinished_list.extend(beside.map(|item| item.path()).filter(is_ours));
    unfinished_list.sort();
    Ok(unfinished_list)
}

/// Compiled plans that were being written by a process that is gone. They are written before the lock is taken, so no
/// journal shows such a crash.
pub fn unfinished_plans(home: &StateFolder) -> Vec<PathBuf> {
    let items = fs::read_dir(home.plans()).into_iter().flatten().flatten();
    items
        .map(|item| item.path())
        .filter(|path| half_written_by(path).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()))
        .collect()
}

/// Those of the runs that have a tag, and the names of the output folders that they made or used.
fn tagged_runs<'a>(home: &StateFolder, all: &'a [RunId]) -> Result<(HashSet<&'a RunId>, HashSet<String>), PathError> {
    let (mut tagged, mut folders) = (HashSet::new(), HashSet::new());
    for run in all {
        if !tags_of(home, run)?.is_empty() {
            folders.extend(folders_of_run(home, run)?);
            tagged.insert(run);
        }
    }
    Ok((tagged, folders))
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

/// Removes garbage, and adds to `removed` what went. What no record names goes first. Records of the other outputs are
/// forgotten before these go, so that a crash in between leaves only unnamed folders. If the disk is still too full for
/// that, they are forgotten after it: an output that is recorded and not there is made again.
///
/// # Errors
/// Something could not be removed, or the records could not be written.
pub fn remove(output_cache: &OutputCache, garbage: Vec<Garbage>, removed: &mut Vec<Garbage>) -> Result<(), PathError> {
    remove_with(output_cache, garbage, removed, |keep| output_cache.drop_records_except(keep))
}

/// `drop_records_except` forgets the records of all other outputs.
fn remove_with(
    output_cache: &OutputCache,
    garbage: Vec<Garbage>,
    removed: &mut Vec<Garbage>,
    mut drop_records_except: impl FnMut(&HashSet<String>) -> Result<(), PathError>,
) -> Result<(), PathError> {
    let (home, all_named) = (output_cache.home(), output_cache.named_folders());
    let is_named = |item: &Garbage| {
        item.path.parent() == Some(&home.outputs()) && all_named.contains(name_of(&item.path).as_str())
    };
    let (named, unnamed): (Vec<_>, Vec<_>) = garbage.into_iter().partition(is_named);
    let gone: HashSet<String> = named.iter().map(|item| name_of(&item.path)).collect();
    let mut discard_all = |items: Vec<Garbage>| {
        items.into_iter().try_for_each(|item| -> Result<(), PathError> {
            discard(&item.path)?;
            removed.push(item);
            Ok(())
        })
    };
    discard_all(unnamed)?;
    // An output that stays may name one that goes: the next run looks at each of them, whatever the last one saw.
    for path in items_in(&home.plans())?.into_iter().filter(|path| path.extension().is_some_and(|end| end == "rest")) {
        discard(&path)?;
    }
    let keep = all_named.into_iter().filter(|folder| !gone.contains(folder)).collect();
    match drop_records_except(&keep) {
        Err(error) if error.is_full_disk() => {
            discard_all(named)?;
            drop_records_except(&keep)
        }
        written => written.and_then(|()| discard_all(named)),
    }
}

/// Bytes of a file, or of all in a folder; of a link none.
pub fn bytes_in(path: &Path) -> u64 {
    if path.is_symlink() {
        return 0;
    }
    WalkDir::new(path).into_iter().flatten().filter_map(|item| item.metadata().ok()).map(|m| m.len()).sum()
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;
    use crate::store::journal::seal;
    use crate::store::output_cache::tests::{append, append_text, begun};
    use crate::store::record::{VERSION, WrittenLine};
    use base::files::Digest;

    fn records_error(home: &StateFolder, errno: Errno) -> PathError {
        PathError { doing: "write", path: home.records(), source: errno.into() }
    }

    #[test]
    fn on_a_full_disk_garbage_goes_before_its_records() {
        let folder = tempfile::tempdir().unwrap();
        let cache = begun(folder.path());
        let home = cache.home().clone();
        append(&cache, 0);
        append(&cache, 1);
        let (old_run, unfinished) = (home.run(&RunId::new("r")), home.outputs().join("left"));
        fs::create_dir_all(&old_run).unwrap();
        fs::create_dir_all(&unfinished).unwrap();
        let output = home.outputs().join(&cache.records()[0].folder);
        let garbage = |path: &PathBuf| Garbage { path: path.clone(), bytes: 1, why: String::new() };
        let items = [&output, &unfinished, &old_run].map(garbage);
        let mut removed = Vec::new();
        let mut tries = 0;
        remove_with(&cache, items.to_vec(), &mut removed, |keep| {
            tries += 1;
            if output.exists() { Err(records_error(&home, Errno::NOSPC)) } else { cache.drop_records_except(keep) }
        })
        .unwrap();
        assert_eq!((tries, removed), (2, [&unfinished, &old_run, &output].map(garbage).to_vec()));
        assert!(!output.exists() && !unfinished.exists() && !old_run.exists());
        let records = OutputCache::open(&home).unwrap().records();
        assert_eq!(records.len(), 1);
        assert!(home.outputs().join(&records[0].folder).exists());
    }

    #[test]
    fn replaced_outputs_are_no_leftovers_of_a_crash() {
        let folder = tempfile::tempdir().unwrap();
        let cache = begun(folder.path());
        let home = cache.home().clone();
        let replaced = append_text(&cache, 0, "a");
        append_text(&cache, 0, "b");
        let left = cache.new_folder(&TaskId::new("c"), &Digest::hash(b"c"), None).unwrap();
        let failed = cache.new_folder(&TaskId::new("d"), &Digest::hash(b"d"), None).unwrap();
        fs::write(failed.join("result.json"), "{}").unwrap();
        assert_eq!(unfinished(&cache).unwrap(), std::slice::from_ref(&left));
        for _ in 0..2 {
            cache.drop_records_except(&cache.named_folders()).unwrap();
            let opened = OutputCache::open(&home).unwrap();
            assert_eq!(opened.all_records().len(), 2, "once in the file, once by its key");
            assert_eq!(unfinished(&opened).unwrap(), std::slice::from_ref(&left));
        }
        fs::remove_dir_all(&replaced).unwrap();
        cache.drop_records_except(&cache.named_folders()).unwrap();
        assert_eq!(fs::read_to_string(home.replaced()).unwrap(), "");
    }

    #[test]
    fn garbage_is_named_by_its_task() {
        let folder = tempfile::tempdir().unwrap();
        let cache = begun(folder.path());
        let home = cache.home().clone();
        append_text(&cache, 0, "a");
        append_text(&cache, 0, "b");
        let whys = |cache: &OutputCache| {
            let listed = garbage(cache, 1, false).unwrap();
            listed.into_iter().map(|garbage| garbage.why).collect::<Vec<_>>()
        };
        assert_eq!(whys(&cache), ["an older output of t0, manifest m"]);
        cache.drop_records_except(&cache.named_folders()).unwrap();
        assert_eq!(whys(&OutputCache::open(&home).unwrap()), ["an older output"]);
        let (task, key) = (TaskId::new("t0"), Digest::hash(b"key"));
        let resumed = cache.new_folder(&task, &key, Some(|_| true)).unwrap();
        assert!(whys(&cache).contains(&"left by an attempt of t0 that did not finish".to_owned()));
        fs::write(resumed.join("result.json"), "{}").unwrap();
        assert!(whys(&cache).contains(&"the result of a failed attempt of t0".to_owned()));
    }

    #[test]
    fn what_a_newer_program_recorded_is_kept_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let cache = begun(folder.path());
        let home = cache.home().clone();
        append_text(&cache, 0, "a");
        append_text(&cache, 0, "b");
        let make = |name: &str| cache.new_folder(&TaskId::new(name), &Digest::hash(b"new"), None).unwrap();
        let [form, version] = ["form", "version"].map(|name| name_of(&make(name)));
        let record = TaskRecord { version: VERSION + 1, folder: version, ..TaskRecord::clone(&cache.records()[0]) };
        let of_form = seal(&serde_json::json!({"output": {"in": [{"folder": form}]}})).unwrap();
        let lines = [of_form, seal(&WrittenLine::Record(&record)).unwrap()].concat();
        let before = fs::read(home.records()).unwrap();
        fs::write(home.records(), [&before[..], &lines].concat()).unwrap();
        for _ in 0..2 {
            let opened = OutputCache::open(&home).unwrap();
            opened.begin().unwrap();
            assert_eq!((opened.newer_folders().len(), opened.records().len()), (2, 1));
            assert_eq!(unfinished(&opened).unwrap(), [""; 0].map(PathBuf::from));
            let listed = garbage(&opened, 1, false).unwrap();
            assert!(listed.iter().all(|garbage| garbage.why.starts_with("an older output")), "{listed:?}");
            opened.drop_records_except(&opened.named_folders()).unwrap();
            let text = fs::read(home.records()).unwrap();
            assert!(memchr::memmem::find(&text, &lines).is_some());
        }
    }

    #[test]
    fn what_a_run_a_job_or_a_later_try_needs_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let cache = begun(folder.path());
        let home = cache.home().clone();
        let new = |name: &str| cache.new_folder(&TaskId::new(name), &Digest::hash(name.as_bytes()), None).unwrap();
        let left = new("a");
        let paths = |is_running| -> Vec<PathBuf> {
            garbage(&cache, 1, is_running).unwrap().into_iter().map(|garbage| garbage.path).collect()
        };
        assert_eq!((paths(false), paths(true)), (vec![left.clone()], vec![]), "a run may be writing it");
        fs::create_dir_all(home.jobs().join(name_of(&left))).unwrap();
        assert_eq!(paths(false), Vec::<PathBuf>::new(), "a job may be filling it");
        let failed = new("b");
        fs::write(failed.join("log"), "").unwrap();
        cache.set_aside(&TaskId::new("b"), &failed, false).unwrap();
        cache.new_folder(&TaskId::new("c"), &Digest::hash(b"c"), Some(|_| true)).unwrap();
        fs::create_dir(home.outputs().join("of-the-user")).unwrap();
        assert_eq!(unfinished(&cache).unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn all_runs_but_the_newest_are_garbage_unless_they_have_a_tag() {
        let folder = tempfile::tempdir().unwrap();
        let cache = begun(folder.path());
        let home = cache.home().clone();
        let made = ["20260101-000000.000-1", "20260102-000000.000-1", "20260103-000000.000-1"].map(RunId::new);
        for run in &made {
            drop(crate::store::Journal::create(&home, run).unwrap());
        }
        let paths =
            || -> Vec<PathBuf> { garbage(&cache, 1, false).unwrap().into_iter().map(|item| item.path).collect() };
        assert_eq!(paths(), [home.run(&made[0]), home.run(&made[1])]);
        crate::store::set_tag(&home, &made[0], &"v1".parse().unwrap()).unwrap();
        assert_eq!(paths(), [home.run(&made[1])]);
    }

    #[test]
    fn only_what_went_counts_as_removed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = begun(folder.path());
        let home = cache.home().clone();
        append(&cache, 0);
        let output = home.outputs().join(cache.named_folders().into_iter().next().unwrap());
        let mut removed = Vec::new();
        let garbage = Garbage { path: output.clone(), bytes: 1, why: String::new() };
        // Which is not for want of space.
        let refused = |_: &HashSet<String>| Err(records_error(&home, Errno::ACCESS));
        remove_with(&cache, vec![garbage], &mut removed, refused).unwrap_err();
        assert!(removed.is_empty());
        assert!(output.exists());
    }
}
