//! The cache: what is done, by key; where it lies; whether it still is what it was.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::io::Errno;

use super::durable::{
    LineFile, PathError, WithPath as _, create_folder, discard, items_in, replace, sealed_json, text_if_there,
};
use super::earlier_attempts::{ResumedFolders, start_of_resumed};
use super::folder_digest::{ContentChange, FolderChange, HashedFolder, OutputEntry, compare, have_same_bytes};
use super::record::{self, KeyText, RecordHistory, TaskRecord, WrittenLine};
use super::state_folder::RESUMED;
use super::{FileStamp, StateFolder, TaskKey, WatchedOutput};
use base::event::{Done, RunId, TaskId};
use base::files::{Digest, open_regular};

/// Of the open files: opening makes a network filesystem ask its server, where attributes of a path may be seconds old.
fn stamps(home: &StateFolder) -> [Option<FileStamp>; 2] {
    [home.records(), home.replaced()].map(|path| FileStamp::of_open(&open_regular(&path).ok()?.0).ok())
}

/// All records of a project. Opening it writes nothing.
#[derive(Debug)]
pub struct OutputCache {
    home: StateFolder,
    /// The files that were read, as they were just before. `None`: written in the same tick of the clock, they could
    /// change again without their stamps changing.
    seen: Option<[Option<FileStamp>; 2]>,
    inner: Mutex<Inner>,
    /// Held while records are flushed to the disk.
    syncing: Mutex<()>,
    /// Makes the name of every attempt's folder new, also where that of an earlier run has gone: the run begins with
    /// the time, in ms.
    nonce: AtomicU64,
    /// Failed attempts may have left something.
    pub(super) has_failed: AtomicBool,
    pub(super) resumed: ResumedFolders,
}

#[derive(Debug, Default)]
struct Inner {
    by_key: HashMap<Digest, Arc<TaskRecord>>,
    /// By manifest and task: what a task was made from last, also where another task or manifest made it.
    by_task: BTreeMap<String, HashMap<TaskId, Arc<TaskRecord>>>,
    /// Of each key that several tasks have had: these.
    tasks_of_key: HashMap<Digest, HashSet<TaskId>>,
    /// Folders that were compared with their record in this process and are whole.
    verified: HashSet<String>,
    /// All lines of `records`, until the run ends.
    history: RecordHistory,
    replaced: ReplacedOutputs,
    torn: u64,
    /// `records`, open for appending by the run that holds the lock.
    file: Option<LineFile>,
    /// Records were appended since the last flush began.
    unsynced: bool,
    /// The first flush that failed. The system reports that once, and what was not written may be lost: no later flush
    /// makes up for it.
    sync_error: Option<Errno>,
}

/// An output that is whole and checked, and has no record yet: made here, or brought from the shared store.
#[derive(Debug)]
pub struct FinishedOutput {
    pub folder: PathBuf,
    pub sealed: HashedFolder,
    pub done: Done,
    /// How long making it took, s; where it was made.
    pub seconds: f64,
    /// The name of the shared store that it came from, for the user; `None`: it was made here.
    pub from: Option<String>,
    /// A trusted key had signed its record there.
    pub is_signed: bool,
}

/// Whether an attempt goes on in the folder that an earlier one left.
pub type Resumes = fn(&Path) -> bool;

/// What the cache has for a key.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// Done, and its output still is what it was.
    Hit(Arc<TaskRecord>),
    /// Done once, but its output has changed since: the reason as text.
    Corrupt(String),
    /// Done by this task of the same plan, which the requested one repeats.
    OfRepeated(TaskId),
    Absent,
}

impl OutputCache {
    pub fn open(home: &StateFolder) -> Result<Self, PathError> {
        let seen = Some(stamps(home)).filter(|stamps| !stamps.iter().flatten().any(FileStamp::is_racy));
        let (history, torn) = record::read(home)?;
        let mut inner = Inner { torn, replaced: ReplacedOutputs::read(home)?, ..Inner::default() };
        for record in &history.records {
            inner.index_record(Arc::clone(record));
        }
        inner.history = history;
        Ok(Self {
            home: home.clone(),
            seen,
            inner: Mutex::new(inner),
            syncing: Mutex::new(()),
            nonce: AtomicU64::default(),
            has_failed: AtomicBool::new(false),
            resumed: ResumedFolders::default(),
        })
    }

    pub fn home(&self) -> &StateFolder {
        &self.home
    }

    /// Whether no other run has written since this was opened; to be asked with the project's lock.
    pub fn is_current(&self) -> bool {
        self.seen == Some(stamps(&self.home))
    }

    /// Looks a key up and compares what is there with its record.
    ///
    /// # Errors
    /// The output exists and cannot be read, which does not justify making it again.
    pub fn look_up(&self, key: &Digest) -> Result<Lookup, PathError> {
        self.newest(key).map_or(Ok(Lookup::Absent), |record| self.look_at(record))
    }

    /// Like `look_up`, for a record that is known.
    ///
    /// # Errors
    /// As those of `look_up`.
    pub fn look_at(&self, record: Arc<TaskRecord>) -> Result<Lookup, PathError> {
        let is_elsewhere = |place: &&String| Path::new(place) != self.home.project();
        let change = self.verify(&record)?.or_else(|| {
            let place = record.place.as_ref().filter(is_elsewhere)?;
            Some(format!("its output contains the path {place}, where this project was before"))
        });
        Ok(change.map_or(Lookup::Hit(record), Lookup::Corrupt))
    }

    /// The newest output of a key, whatever it is now.
    pub fn newest(&self, key: &Digest) -> Option<Arc<TaskRecord>> {
        self.inner.lock().by_key.get(key).cloned()
    }

    /// The record of an output that was seen to be whole just now, by the stamps of all that is in it.
    pub fn whole_record(&self, output: &WatchedOutput) -> Option<Arc<TaskRecord>> {
        let mut inner = self.inner.lock();
        let record = inner.by_key.get(&output.key)?;
        if (record.digest, record.folder.as_str()) != (output.digest, output.folder.as_str()) {
            return None;
        }
        let record = Arc::clone(record);
        inner.verified.insert(record.folder.clone());
        Some(record)
    }

    /// What a task's last record was when this manifest ran, whatever its key.
    pub fn last(&self, manifest: &str, task: &TaskId) -> Option<Arc<TaskRecord>> {
        self.inner.lock().last(manifest, task).cloned()
    }

    /// The tasks of a manifest whose last output has this key.
    pub fn tasks_of_key(&self, manifest: &str, key: &Digest) -> HashSet<TaskId> {
        let inner = self.inner.lock();
        let newest = inner.by_key.get(key).map(|record| &record.task);
        let tasks = newest.into_iter().chain(inner.tasks_of_key.get(key).into_iter().flatten());
        tasks.filter(|task| inner.last(manifest, task).is_some_and(|last| last.key == *key)).cloned().collect()
    }

    /// Remembers a record, which may have been made for another task or manifest, as the last one of this task.
    pub fn adopt(&self, manifest: &str, task: &TaskId, record: &Arc<TaskRecord>) -> Result<Arc<TaskRecord>, PathError> {
        if let Some(last) = self.last(manifest, task)
            && last.key == record.key
            && last.folder == record.folder
        {
            return Ok(last);
        }
        let adopted =
            Arc::new(TaskRecord { manifest: manifest.to_owned(), task: task.clone(), ..TaskRecord::clone(record) });
        self.inner.lock().append(&self.home, Arc::clone(&adopted))?;
        Ok(adopted)
    }

    pub fn folder(&self, record: &TaskRecord) -> PathBuf {
        self.home.output(&record.folder)
    }

    /// `None` if the output is what it was when it was recorded. Looked at once in a process.
    fn verify(&self, record: &Arc<TaskRecord>) -> Result<Option<String>, PathError> {
        if self.inner.lock().verified.contains(&record.folder) {
            return Ok(None);
        }
        Ok(match self.compare(record)? {
            ContentChange::Changed(what) => Some(what),
            ContentChange::Same | ContentChange::Restored(_) => None,
        })
    }

    /// What has changed in an output since it was recorded, looked at again even if it was whole before: after a stage
    /// that could have written into it.
    pub fn compare(&self, record: &Arc<TaskRecord>) -> Result<ContentChange, PathError> {
        let folder = self.folder(record);
        let entries = match record.entries(&self.home) {
            Ok(entries) => entries,
            Err(e) if e.is_of_system() => return Err(e),
            Err(e) => return Ok(ContentChange::Changed(e.to_string())),
        };
        let mut change = ContentChange::Same;
        match compare(&folder, &entries, record.boot != record::boot())? {
            FolderChange::Same => {}
            FolderChange::Changed(what) => {
                self.inner.lock().verified.remove(&record.folder);
                return Ok(ContentChange::Changed(what));
            }
            FolderChange::TimesChanged(now) => {
                let is_touched = |(old, new): &(&OutputEntry, &OutputEntry)| {
                    new.stamp.is_touched_since(&old.stamp, &folder.join(&new.path))
                };
                if let Some((old, _)) = entries.iter().zip(&now).find(is_touched) {
                    change = ContentChange::Restored(folder.join(&old.path));
                }
                // Same content with other times: remember the new times, so that it is not read again next time.
                let refreshed = TaskRecord::externalize_entries(&self.home, &record.folder, now)
                    .map(|entries| TaskRecord { entries, boot: record::boot(), ..TaskRecord::clone(record) });
                if let Ok(refreshed) = refreshed {
                    let mut inner = self.inner.lock();
                    if inner.file.is_some() {
                        let _ = inner.append(&self.home, Arc::new(refreshed));
                    }
                }
            }
        }
        self.inner.lock().verified.insert(record.folder.clone());
        Ok(change)
    }

    /// The same output with the stamps that were seen last.
    pub fn refreshed(&self, record: &Arc<TaskRecord>) -> Arc<TaskRecord> {
        let newest = self.newest(&record.key).filter(|newest| newest.folder == record.folder);
        newest.unwrap_or_else(|| Arc::clone(record))
    }

    /// A run that may write begins: the caller holds the lock.
    pub fn begin(&self) -> Result<(), PathError> {
        create_folder(&self.home.outputs())?;
        let mut inner = self.inner.lock();
        let lines = inner.history.records.len();
        if lines > 1000 && lines > 2 * (inner.by_key.len() + inner.by_task.values().map(HashMap::len).sum::<usize>()) {
            inner.compact(&self.home)?;
        }
        inner.file = Some(LineFile::open(&self.home.records(), inner.torn)?);
        self.has_failed.store(!items_in(&self.home.failed())?.is_empty(), Ordering::Relaxed);
        inner.torn = 0;
        self.nonce.fetch_max(jiff::Timestamp::now().as_millisecond() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// An empty folder for an attempt; or the one that earlier attempts of this key left for this task, if `resumes`
    /// has it: two tasks may have the same key and run at once.
    pub fn new_folder(&self, task: &TaskId, key: &Digest, resumes: Option<Resumes>) -> Result<PathBuf, PathError> {
        let (start, end) =
            if resumes.is_some() { (start_of_resumed(task, key), RESUMED) } else { (format!("{}-", key.short()), "") };
        if let Some(resumes) = resumes
            && let Some(left) = self.left_to_resume(&start, end, resumes)?
        {
            return Ok(left);
        }
        loop {
            let n = self.nonce.fetch_add(1, Ordering::Relaxed);
            let folder = self.home.output(&format!("{start}{n:x}{end}"));
            match fs::create_dir(&folder) {
                Ok(()) => {
                    if resumes.is_some() {
                        self.resumed.insert(&folder);
                    }
                    return Ok(folder);
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e).at("create", &folder),
            }
        }
    }

    /// Accepts a finished output. If the task's last record holds the same bytes, that folder stays the output and the
    /// new one goes away, so that paths that others wrote down stay true; then the second value is true.
    pub fn accept(
        &self,
        run: &RunId,
        manifest: &str,
        task: &TaskId,
        key: &TaskKey,
        output: FinishedOutput,
    ) -> Result<(Arc<TaskRecord>, bool), PathError> {
        let FinishedOutput { folder, sealed, done, seconds, from, is_signed } = output;
        let digest = key.digest();
        let fields = KeyText::new(key).map_err(io::Error::other).at("write", &folder)?;
        let before = self.last(manifest, task).filter(|r| {
            // One that cannot be read is left as it is: the new one takes its place. Paths of this machine are no part
            // of the digest.
            r.digest == sealed.digest
                && r.entries(&self.home).is_ok_and(|before| have_same_bytes(&before, &sealed.entries))
                && self.verify(r).is_ok_and(|change| change.is_none())
        });
        let unchanged = before.is_some();
        let (name, entries) = if let Some(before) = &before {
            if self.folder(before) != folder {
                let _ = discard(&folder);
            }
            (before.folder.clone(), before.entries.clone())
        } else {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let entries = TaskRecord::externalize_entries(&self.home, &name, sealed.entries)?;
            (name, entries)
        };
        let list = self.home.output_files(&name);
        let record = Arc::new(TaskRecord {
            version: record::VERSION,
            manifest: manifest.to_owned(),
            task: task.clone(),
            key: digest,
            folder: name,
            digest: sealed.digest,
            done,
            seconds,
            run: run.to_string(),
            finished: jiff::Timestamp::now().as_second(),
            from,
            is_signed,
            place: sealed.place,
            boot: record::boot(),
            entries,
            fields,
        });
        let mut inner = self.inner.lock();
        if let Err(error) = inner.append(&self.home, Arc::clone(&record)) {
            // It is not accepted, and a later attempt may go on in it.
            if !unchanged {
                let _ = fs::remove_file(list);
            }
            return Err(error);
        }
        inner.verified.insert(record.folder.clone());
        drop(inner);
        self.resumed.remove(&record.folder);
        Ok((record, unchanged))
    }

    /// Flushes everything recorded so far to the disk, then records that in a line. One `syncfs` for all: thousands of
    /// small outputs would each cost an `fsync` of 2–3 ms.
    ///
    /// # Errors
    /// This flush failed, or an earlier one of this run.
    pub fn sync(&self) -> Result<(), PathError> {
        self.sync_by(|file| rustix::fs::syncfs(file))
    }

    fn sync_by(&self, flush: impl FnOnce(&File) -> Result<(), Errno>) -> Result<(), PathError> {
        // The last call waits for a flush that is under way.
        let _syncing = self.syncing.lock();
        let path = self.home.records();
        let file = {
            let mut inner = self.inner.lock();
            if let Some(error) = inner.sync_error {
                return Err(error).at("sync", &path);
            }
            let Some(file) = inner.file.as_ref().filter(|_| inner.unsynced) else { return Ok(()) };
            let file = file.try_clone()?;
            inner.unsynced = false;
            file
        };
        let flushed = flush(&file);
        let inner = &mut *self.inner.lock();
        if let Err(error) = flushed {
            inner.sync_error = Some(error);
            return Err(error).at("sync", &path);
        }
        // What was appended meanwhile may not be on the disk: the next flush covers it, and the line follows that one.
        if let Some(file) = inner.file.as_mut().filter(|_| !inner.unsynced) {
            file.append_sealed(&WrittenLine::Synced)?;
            inner.history.synced = inner.history.records.len();
        }
        Ok(())
    }

    /// Folders under `out/` that some record names.
    pub fn named_folders(&self) -> HashSet<String> {
        let mut named = self.last_folders();
        named.extend(self.inner.lock().by_key.values().map(|r| r.folder.clone()));
        named
    }

    /// The folders of all records, also of those that newer ones have replaced.
    pub fn recorded_folders(&self) -> HashSet<String> {
        let mut recorded = self.named_folders();
        let inner = self.inner.lock();
        recorded.extend(inner.history.records.iter().map(|r| r.folder.clone()));
        recorded.extend(inner.replaced.0.iter().cloned());
        recorded.extend(inner.history.newer_folders().map(str::to_owned));
        recorded
    }

    /// The folders of outputs that a newer program has recorded: this one keeps them, and cannot use them.
    pub fn newer_folders(&self) -> HashSet<String> {
        self.inner.lock().history.newer_folders().map(str::to_owned).collect()
    }

    /// The folder of each task's last output, in every manifest.
    pub fn last_folders(&self) -> HashSet<String> {
        self.inner.lock().by_task.values().flat_map(HashMap::values).map(|r| r.folder.clone()).collect()
    }

    /// The newest record of each key, in no order.
    pub fn records(&self) -> Vec<Arc<TaskRecord>> {
        self.inner.lock().by_key.values().cloned().collect()
    }

    /// All records: first those that newer ones replaced, as far as `records` has them.
    pub fn all_records(&self) -> Vec<Arc<TaskRecord>> {
        let inner = self.inner.lock();
        inner.history.records.iter().chain(inner.by_key.values()).cloned().collect()
    }

    /// What must look the same for these records to be whole: absolute paths and stamps.
    pub fn stamps(&self, record: &TaskRecord) -> Result<Vec<(PathBuf, FileStamp)>, PathError> {
        let folder = self.folder(record);
        Ok(record
            .entries(&self.home)?
            .iter()
            .map(|e| (if e.path.as_os_str().is_empty() { folder.clone() } else { folder.join(&e.path) }, e.stamp))
            .collect())
    }

    /// Forgets all records with a folder that is not in `keep`.
    pub fn drop_records_except(&self, keep: &HashSet<String>) -> Result<(), PathError> {
        let mut inner = self.inner.lock();
        inner.by_key.retain(|_, r| keep.contains(&r.folder));
        for of_manifest in inner.by_task.values_mut() {
            of_manifest.retain(|_, r| keep.contains(&r.folder));
        }
        inner.compact(&self.home)
    }
}

impl Inner {
    fn last(&self, manifest: &str, task: &TaskId) -> Option<&Arc<TaskRecord>> {
        self.by_task.get(manifest)?.get(task)
    }

    fn index_record(&mut self, record: Arc<TaskRecord>) {
        if let Some(known) = self.by_key.get(&record.key).filter(|known| known.task != record.task) {
            let tasks = [known.task.clone(), record.task.clone()];
            self.tasks_of_key.entry(record.key).or_default().extend(tasks);
        }
        let (task, last) = (record.task.clone(), Arc::clone(&record));
        match self.by_task.get_mut(&record.manifest) {
            Some(of_manifest) => drop(of_manifest.insert(task, last)),
            None => drop(self.by_task.insert(record.manifest.clone(), HashMap::from([(task, last)]))),
        }
        // Adopting an output is not making it.
        let record = match self.by_key.get(&record.key) {
            Some(known)
                if known.folder == record.folder
                    && (&known.manifest, &known.task) != (&record.manifest, &record.task) =>
            {
                Arc::new(TaskRecord {
                    manifest: known.manifest.clone(),
                    task: known.task.clone(),
                    ..TaskRecord::clone(&record)
                })
            }
            _ => record,
        };
        self.by_key.insert(record.key, record);
    }

    fn append(&mut self, home: &StateFolder, record: Arc<TaskRecord>) -> Result<(), PathError> {
        let path = home.records();
        let Some(file) = &mut self.file else {
            return Err(io::Error::other("the run has not begun")).at("write", &path);
        };
        file.append_sealed(&WrittenLine::Record(&record))?;
        self.unsynced = true;
        self.history.records.push(Arc::clone(&record));
        self.index_record(record);
        Ok(())
    }

    /// Rewrites `records` without the lines that newer ones replaced. A task's last record stays last.
    #[expect(clippy::iter_over_hash_type, reason = "sorted below")]
    fn compact(&mut self, home: &StateFolder) -> Result<(), PathError> {
        // What was made again under the same key replaces what other manifests adopted before. In the same manifest
        // another task's may be a repetition.
        for last in self.by_task.values_mut().flat_map(HashMap::values_mut) {
            let is_newer = |newest: &&Arc<TaskRecord>| newest.folder != last.folder && newest.manifest != last.manifest;
            if let Some(newest) = self.by_key.get(&last.key).filter(is_newer) {
                let (manifest, task) = (last.manifest.clone(), last.task.clone());
                *last = Arc::new(TaskRecord { manifest, task, ..TaskRecord::clone(newest) });
            }
        }
        let mut live: Vec<(bool, &Arc<TaskRecord>)> = Vec::new();
        for record in self.by_task.values().flat_map(HashMap::values) {
            live.push((true, record));
        }
        for record in self.by_key.values() {
            if self.last(&record.manifest, &record.task).is_none_or(|last| last.key != record.key) {
                live.push((false, record));
            }
        }
        live.sort_by_key(|(is_last, r)| (*is_last, r.manifest.clone(), r.task.clone(), r.key));
        let mut history = RecordHistory { newer: self.history.newer.clone(), ..RecordHistory::default() };
        let mut bytes: Vec<u8> = history.newer.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect();
        for (_, record) in &live {
            history.records.push(Arc::clone(record));
            bytes.extend(sealed_json(&home.records(), &WrittenLine::Record(record))?);
        }
        // Before the records are without them.
        let stay: HashSet<&str> = live.iter().map(|(_, record)| record.folder.as_str()).collect();
        let replaced = self.history.records.iter().map(|record| &record.folder);
        self.replaced.add(home, replaced.filter(|folder| !stay.contains(folder.as_str())))?;
        super::durable::replace(&home.records(), &bytes)?;
        self.history = history;
        self.torn = 0;
        Ok(())
    }
}

#[cfg(test)]
pub(in crate::store) mod tests;

// `replaced`: the names of outputs that newer ones replaced, for when `records` has forgotten their lines. They were
// the outputs of runs, so they must survive a crash.

#[derive(Debug, Default)]
struct ReplacedOutputs(BTreeSet<String>);

impl ReplacedOutputs {
    pub(super) fn read(home: &StateFolder) -> Result<Self, PathError> {
        let text = text_if_there(&home.replaced())?.unwrap_or_default();
        Ok(Self(text.lines().map(str::to_owned).collect()))
    }

    /// Adds folders, forgets those that have gone, and writes the rest. Nothing removes a `-resume` folder after a
    /// crash: those are left out.
    pub(super) fn add<'a>(
        &mut self,
        home: &StateFolder,
        folders: impl Iterator<Item = &'a String>,
    ) -> Result<(), PathError> {
        let before = self.0.clone();
        self.0.extend(folders.filter(|folder| !folder.ends_with(RESUMED)).cloned());
        self.0.retain(|folder| home.output(folder).is_dir());
        if self.0 == before {
            return Ok(());
        }
        let lines: String = self.0.iter().flat_map(|folder| [folder, "\n"]).collect();
        replace(&home.replaced(), lines.as_bytes())
    }
}
