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
fn what_was_read_before_the_lock_is_used_only_if_no_other_run_has_written_since() {
    let folder = tempfile::tempdir().unwrap();
    let home = StateFolder::new(folder.path().into(), folder.path().join(".regatta"));
    let tick = || std::thread::sleep(std::time::Duration::from_millis(25));
    let empty = OutputCache::open(&home).unwrap();
    assert!(empty.is_current());
    let other = begun(folder.path());
    append(&other, 1);
    assert!(!empty.is_current(), "there is a record now");
    tick();
    let early = OutputCache::open(&home).unwrap();
    assert!(early.is_current());
    append(&other, 2);
    assert!(!early.is_current());
    assert!(!OutputCache::open(&home).unwrap().is_current(), "it may be written again in this tick of the clock");
    tick();
    let early = OutputCache::open(&home).unwrap();
    fs::copy(home.records(), folder.path().join("copy")).unwrap();
    #[expect(clippy::disallowed_methods, reason = "another run puts a shorter list in its place so")]
    fs::rename(folder.path().join("copy"), home.records()).unwrap();
    assert!(!early.is_current(), "another file with the same text");
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

/// What holds of the records after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterPowerCut {
    /// What was flushed before a line says so is read.
    SyncedIsKept,
    /// Only what was written is read, in its order.
    NothingIsMadeUp,
    /// Only what was flushed counts as synced.
    SyncedIsTrue,
    /// The next record is read, and takes no other one with it.
    TheNextRunGoesOn,
}

/// Positions in the file: a line's begin, and whether it says that what is above it was synced.
fn lines_of(bytes: &[u8]) -> Vec<(usize, bool)> {
    let breaks = memchr::memchr_iter(b'\n', bytes).map(|at| at + 1);
    let begins: Vec<usize> = std::iter::once(0).chain(breaks).collect();
    let is_synced = |pair: &[usize]| bytes[pair[0]..pair[1]].ends_with(b" \"synced\"\n");
    begins.windows(2).map(|pair| (pair[0], is_synced(pair))).collect()
}

/// On a disk that writes sectors in any order, leaves some of them empty, and cuts the file off. A seed decides what it
/// does: `below(seed, n, end)` is the n-th of its decisions.
fn power_cut(seed: u64, whole: &[u8], lines: &[(usize, bool)]) -> Result<(), AfterPowerCut> {
    const SECTOR: usize = 512;
    let below = |n: usize, end: usize| {
        let hash = Digest::hash(format!("{seed} {n}").as_bytes());
        u64::from_le_bytes(hash.bytes()[..8].try_into().unwrap()) as usize % end
    };
    // So much was written; before the last line that says so, all was flushed.
    let written = 1 + below(0, whole.len());
    let ends = lines.iter().skip(1).map(|line| line.0).chain([whole.len()]);
    let said = lines.iter().zip(ends).filter(|((_, is_synced), end)| *is_synced && *end <= written);
    let flushed = said.map(|((begin, _), _)| *begin).last().unwrap_or(0);
    let mut image = whole[..written].to_vec();
    for sector in (flushed / SECTOR..=written / SECTOR).filter(|sector| below(sector + 3, 3) == 0) {
        let from = (sector * SECTOR).max(flushed).min(written);
        image[from..(sector * SECTOR + SECTOR).min(written).max(from)].fill(0);
    }
    if below(1, 2) == 0 {
        image.truncate(flushed + below(2, written - flushed + 1));
    }
    let number = |record: &Arc<TaskRecord>| record.task.as_str()[1..].parse::<usize>().unwrap();
    let is_above = |limit: usize| lines.iter().filter(|(begin, is_synced)| !is_synced && *begin < limit).count();
    let folder = tempfile::tempdir().unwrap();
    let home = StateFolder::new(folder.path().into(), folder.path().join(".regatta"));
    fs::create_dir_all(home.records().parent().unwrap()).unwrap();
    fs::write(home.records(), &image).unwrap();
    let read = || record::read(&home).unwrap().0;
    let before = read();
    let numbers: Vec<usize> = before.records.iter().map(number).collect();
    let holds = |property, is_so: bool| if is_so { Ok(()) } else { Err(property) };
    let flushed_records = is_above(flushed);
    let are_kept =
        numbers.len() >= flushed_records && (0..flushed_records).eq(numbers[..flushed_records].iter().copied());
    holds(AfterPowerCut::SyncedIsKept, are_kept)?;
    let is_written = numbers.windows(2).all(|pair| pair[0] < pair[1]) && numbers.iter().all(|n| *n < is_above(written));
    holds(AfterPowerCut::NothingIsMadeUp, is_written)?;
    holds(AfterPowerCut::SyncedIsTrue, before.synced <= flushed_records)?;
    append(&begun(folder.path()), 1000);
    let after: Vec<usize> = read().records.iter().map(number).collect();
    holds(AfterPowerCut::TheNextRunGoesOn, after == [numbers, vec![1000]].concat())
}

#[test]
fn on_a_disk_that_loses_power_no_synced_record_is_lost_and_none_is_made_up() {
    let folder = tempfile::tempdir().unwrap();
    let cache = begun(folder.path());
    for n in 0..24 {
        append(&cache, n);
        if n % 5 == 3 {
            cache.sync().unwrap();
        }
    }
    let whole = fs::read(cache.home().records()).unwrap();
    let lines = lines_of(&whole);
    assert_eq!(lines.iter().filter(|(_, is_synced)| *is_synced).count(), 5);
    let failed = |seed| power_cut(seed, &whole, &lines).err().map(|property| (seed, property));
    let failures: Vec<(u64, AfterPowerCut)> = (0..400).filter_map(failed).collect();
    assert!(failures.is_empty(), "{failures:?}");
}
