//! Which outputs the cache knows, and when they are on the disk.

use super::*;
use crate::store::list_folder;

pub fn begun(folder: &Path) -> OutputCache {
    let home = StateFolder::new(folder.into(), folder.join(".regatta"));
    let cache = OutputCache::open(&home).unwrap();
    cache.begin().unwrap();
    cache
}

pub fn key(n: usize) -> TaskKey {
    TaskKey::of_action(n.to_string())
}

pub fn accept(cache: &OutputCache, task: &TaskId, key: &TaskKey, folder: PathBuf) {
    let sealed = list_folder(&folder).unwrap().seal(None).unwrap();
    let output = FinishedOutput { folder, sealed, done: Done::default(), seconds: 0.5, from: None, is_signed: false };
    cache.accept(&RunId::new("r"), "m", task, key, output).unwrap();
}

/// The task `t<n>` has made this; its folder.
pub fn append_text(cache: &OutputCache, n: usize, text: &str) -> PathBuf {
    let (task, key) = (TaskId::new(format!("t{n}")), key(n));
    let folder = cache.new_folder(&task, &key.digest(), None).unwrap();
    fs::write(folder.join("out"), text).unwrap();
    accept(cache, &task, &key, folder.clone());
    folder
}

pub fn append(cache: &OutputCache, n: usize) {
    append_text(cache, n, &n.to_string());
}

#[test]
fn an_output_that_was_altered_and_restored_is_noticed_once() {
    let folder = tempfile::tempdir().unwrap();
    let cache = begun(folder.path());
    let file = append_text(&cache, 1, "one").join("out");
    let record = cache.newest(&key(1).digest()).unwrap();
    assert_eq!(cache.compare(&record).unwrap(), ContentChange::Same);
    std::thread::sleep(std::time::Duration::from_millis(20));
    for text in ["two", "one"] {
        fs::write(&file, text).unwrap();
    }
    assert_eq!(cache.compare(&record).unwrap(), ContentChange::Restored(file.clone()));
    // A stage that begins now has not seen that.
    let refreshed = cache.refreshed(&record);
    assert_eq!(cache.compare(&refreshed).unwrap(), ContentChange::Same);
    fs::write(&file, "two").unwrap();
    assert!(matches!(cache.compare(&refreshed).unwrap(), ContentChange::Changed(_)));
}

#[test]
fn the_tasks_of_a_key_are_those_that_had_it_last() {
    let folder = tempfile::tempdir().unwrap();
    let cache = begun(folder.path());
    let [a, b] = ["a", "b"].map(TaskId::new);
    let made = |task: &TaskId, n: usize, text: &str| {
        let folder = cache.new_folder(task, &key(n).digest(), None).unwrap();
        fs::write(folder.join("out"), text).unwrap();
        accept(&cache, task, &key(n), folder);
    };
    let tasks = |n: usize| cache.tasks_of_key("m", &key(n).digest());
    made(&a, 0, "1");
    assert_eq!(tasks(0), HashSet::from([a.clone()]));
    made(&b, 0, "2");
    assert_eq!(tasks(0), HashSet::from([a.clone(), b.clone()]));
    made(&a, 1, "3");
    assert_eq!((tasks(0), tasks(1)), (HashSet::from([b]), HashSet::from([a])));
    assert!(cache.tasks_of_key("n", &key(0).digest()).is_empty());
}

#[test]
fn the_name_of_a_folder_that_has_gone_does_not_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let (task, key) = (TaskId::new("t"), Digest::hash(b"key"));
    let names: HashSet<PathBuf> = (0..3)
        .map(|_| {
            // A run takes longer.
            std::thread::sleep(std::time::Duration::from_millis(2));
            let new = begun(folder.path()).new_folder(&task, &key, None).unwrap();
            fs::remove_dir(&new).unwrap();
            new
        })
        .collect();
    assert_eq!(names.len(), 3);
}

/// How many records there are, and how many of them count as synced.
fn counts(cache: &OutputCache) -> (usize, usize) {
    let (history, _) = record::read(cache.home()).unwrap();
    (history.records.len(), history.synced)
}

#[test]
fn a_record_that_is_appended_during_a_flush_is_synced_by_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let cache = begun(folder.path());
    append(&cache, 0);
    cache
        .sync_by(|_| {
            append(&cache, 1);
            Ok(())
        })
        .unwrap();
    assert_eq!(counts(&cache), (2, 0));
    cache.sync().unwrap();
    assert_eq!(counts(&cache), (2, 2));
    cache.sync_by(|_| panic!("there is nothing to flush")).unwrap();
}

#[test]
fn a_flush_that_failed_is_an_error_until_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let cache = begun(folder.path());
    append(&cache, 0);
    cache.sync_by(|_| Err(Errno::IO)).unwrap_err();
    append(&cache, 1);
    let error = cache.sync().unwrap_err();
    assert_eq!(error.source.raw_os_error(), Some(Errno::IO.raw_os_error()));
    assert_eq!(counts(&cache), (2, 0));
}
