//! The folder through which a run and a job on another machine communicate: what is to be done, how it goes, how it
//! ended.
//!
//! ```text
//! jobs/<output folder>/
//!   job.json     what is to be done; there before it is submitted
//!   script       what the batch system runs; an array has one script for all, elsewhere (`arrays`)
//!   number       the batch system's number for it, once that is known
//!   claim        made by the job that works on it, with its number: a second one with the same task ends at once
//!   events       what happens, one JSON line each
//!   beat         counts up while a run waits for the job
//!   alive        counts up while the job's own program runs
//!   cancel       it is to end
//!   ended.json   how it ended, published whole
//!   output       what the batch system and the job itself print
//! ```
//!
//! `job.json`, `number`, `claim` and `ended.json` are sealed: a number that is off by a digit is another job's.
//!
//! Each attempt has an output folder of its own, and this folder has its name. So an attempt that was cut off and goes
//! on writing does so in a folder that is not read any more. The folder is removed when its attempt has been judged;
//! one that is there belongs to an attempt whose end no run has seen.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::durable::{
    LineFile, PathError, WithPath as _, create_folder, discard_aside, is_there, items_in, read_sealed_json, replace,
    replace_sealed_json, sealed_json,
};
use super::{ArrayFiles, StateFolder};
use base::event::TaskId;
use base::files::{Digest, is_absence, open_regular, read_text};
use plan::Lifetime;

/// One attempt's folder. Making this touches nothing on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFolder {
    path: PathBuf,
}

/// The fields that every `job.json` has, beside those that only its reader knows.
#[derive(Deserialize)]
struct JobHeader {
    task: HeadTask,
    #[serde(default)]
    project: PathBuf,
    /// Empty in files of an older program.
    #[serde(default)]
    manifest: String,
}

#[derive(Deserialize)]
struct HeadTask {
    id: TaskId,
    lifetime: Lifetime,
}

/// Whose attempt a job is. Manifests, and projects that share a state folder, may have tasks of the same name.
#[derive(Clone, Copy, Debug)]
pub struct JobOwner<'a> {
    pub project: &'a Path,
    /// Its name.
    pub manifest: &'a str,
    pub task: &'a TaskId,
}

impl JobFolder {
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Of the attempt that fills `out`; `state` is the project's state folder.
    pub fn for_output(state: &Path, out: &Path) -> Self {
        Self::at(state.join("jobs").join(out.file_name().unwrap_or_default()))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn script(&self) -> PathBuf {
        self.path.join("script")
    }

    pub fn output(&self) -> PathBuf {
        self.path.join("output")
    }

    /// Where the arrays of the same project have their files.
    pub fn arrays(&self) -> ArrayFiles {
        let state = self.path.parent().and_then(Path::parent).unwrap_or(&self.path);
        ArrayFiles::new(state)
    }

    /// What is to be done: the script first, so that a reader that finds `job.json` finds all. An element of an array
    /// has none of its own.
    pub fn write(&self, job: &impl Serialize, script: Option<&str>) -> Result<(), PathError> {
        create_folder(&self.path)?;
        if let Some(script) = script {
            replace(&self.script(), script.as_bytes())?;
        }
        replace_sealed_json(&self.path.join("job.json"), job)
    }

    /// `None` where no job was written.
    ///
    /// # Errors
    /// `job.json` is there and cannot be read: its job may run all the same.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, PathError> {
        read_sealed_json(&self.path.join("job.json"))
    }

    /// An error of the filesystem does not show that it is gone: errors of a network filesystem pass.
    pub fn is_gone(&self) -> bool {
        matches!(self.path.join("job.json").try_exists(), Ok(false))
    }

    pub fn note_number(&self, number: &str) -> Result<(), PathError> {
        replace_sealed_json(&self.path.join("number"), &number)
    }

    /// `None` also for a file that was altered: it might name another job.
    pub fn number(&self) -> Option<String> {
        read_sealed_json(&self.path.join("number")).ok().flatten()
    }

    /// False if another job works on it already, or did.
    pub fn claim(&self, number: &str) -> Result<bool, PathError> {
        let path = self.path.join("claim");
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => file
                .write_all(&sealed_json(&path, &number)?)
                .and_then(|()| file.sync_all())
                .at("write", &path)
                .map(|()| true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(e).at("create", &path),
        }
    }

    /// The number of the job that works on it. `None` also while the claim is not whole: a reader that took the empty
    /// file for another job's claim would cancel the job that is just writing it.
    ///
    /// # Errors
    /// The system cannot read it now: a job may work on it.
    pub fn claimant(&self) -> Result<Option<String>, PathError> {
        match read_sealed_json(&self.path.join("claim")) {
            Err(error) if error.is_of_system() => Err(error),
            read => Ok(read.ok().flatten()),
        }
    }

    /// A job works on it, or did; also where its claim is not whole, or cannot be read now.
    pub fn is_claimed(&self) -> bool {
        !matches!(self.path.join("claim").try_exists(), Ok(false))
    }

    /// Opens the file of events for writing.
    pub fn open_events_file(&self) -> Result<LineFile, PathError> {
        LineFile::open(&self.path.join("events"), 0)
    }

    /// Whole lines from `from` on, and where the next ones will begin.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn read_event_lines(&self, from: u64) -> Result<(Vec<String>, u64), PathError> {
        let path = self.path.join("events");
        let read = || -> io::Result<Vec<u8>> {
            let (mut file, _) = open_regular(&path)?;
            file.seek(SeekFrom::Start(from))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = match read() {
            Err(error) if is_absence(&error) => Vec::new(),
            read => read.at("read", &path)?,
        };
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let text = String::from_utf8_lossy(&bytes[..whole]);
        Ok((text.lines().map(str::to_owned).collect(), from + whole as u64))
    }

    /// The names in it. On a filesystem of the network a file that another machine made is often seen only after its
    /// folder was listed.
    ///
    /// # Errors
    /// The folder is there and cannot be listed.
    pub fn list(&self) -> Result<BTreeSet<OsString>, PathError> {
        let read = || -> io::Result<BTreeSet<OsString>> {
            fs::read_dir(&self.path)?.map(|item| item.map(|item| item.file_name())).collect()
        };
        match read() {
            Err(error) if is_absence(&error) => Ok(BTreeSet::new()),
            read => read.at("list", &self.path),
        }
    }

    pub fn end(&self, how: &impl Serialize) -> Result<(), PathError> {
        replace_sealed_json(&self.path.join("ended.json"), how)
    }

    /// `None`: it has not ended yet.
    ///
    /// # Errors
    /// `ended.json` is there and cannot be read.
    pub fn ended<T: DeserializeOwned>(&self) -> Result<Option<T>, PathError> {
        read_sealed_json(&self.path.join("ended.json"))
    }

    pub fn beat(&self, count: u64) -> Result<(), PathError> {
        let path = self.path.join("beat");
        fs::write(&path, count.to_string()).at("write", &path)
    }

    pub fn beats(&self) -> Option<String> {
        let _ = self.list();
        self.count_in("beat")
    }

    /// The job's own sign of life.
    pub fn write_heartbeat(&self, count: u64) -> Result<(), PathError> {
        let path = self.path.join("alive");
        fs::write(&path, count.to_string()).at("write", &path)
    }

    pub fn heartbeat(&self) -> Option<String> {
        self.count_in("alive")
    }

    /// `None` also while it is being written.
    fn count_in(&self, name: &str) -> Option<String> {
        read_text(self.path.join(name)).ok().filter(|count| !count.is_empty())
    }

    /// Requests the job's end; works for any process that finds the folder later.
    pub fn cancel(&self) -> Result<(), PathError> {
        let path = self.path.join("cancel");
        File::create(&path).at("create", &path).map(drop)
    }

    pub fn is_cancelled(&self) -> bool {
        let _ = self.list();
        self.path.join("cancel").exists()
    }

    /// Its attempt has been judged. A job that is just being ended may still write: it must not find the folder, or
    /// what it writes meanwhile would keep it from being removed. Returns whether the job was still there: of several
    /// callers, true for one.
    pub fn remove(&self) -> Result<bool, PathError> {
        let path = self.path.join("job.json");
        // If we are killed in between: a process that finds a folder without it finishes this.
        let was_there = match fs::remove_file(&path) {
            Err(error) if is_absence(&error) => false,
            removed => removed.at("remove", &path).map(|()| true)?,
        };
        discard_aside(&self.path)?;
        Ok(was_there)
    }

    /// `None` also for a broken file: such a job is among the [`abandoned()`], and reported when they are ended.
    ///
    /// # Errors
    /// The system cannot read it now: its job may run.
    fn head(&self) -> Result<Option<JobHeader>, PathError> {
        match self.read() {
            Err(error) if error.is_of_system() => Err(error),
            read => Ok(read.ok().flatten()),
        }
    }
}

/// The output folder of an attempt at this task that an earlier run submitted and did not see end.
pub fn left_running(home: &StateFolder, task: &TaskId, key: &Digest) -> Result<Option<PathBuf>, PathError> {
    let prefix = format!("{}-", key.short());
    for job in all(&home.jobs())? {
        let Some(name) = job.path.file_name().and_then(|name| name.to_str()).filter(|name| name.starts_with(&prefix))
        else {
            continue;
        };
        let Some(JobHeader { task: head, .. }) = job.head()? else { continue };
        let out = home.output(name);
        if head.id == *task && head.lifetime == Lifetime::Step && !job.is_cancelled() && is_there(&out)? {
            return Ok(Some(out));
        }
    }
    Ok(None)
}

/// Jobs of earlier runs that no run can resume: servers, and jobs that were to be ended. Beside them, why others are
/// not known.
pub fn abandoned(home: &StateFolder) -> (Vec<JobFolder>, Vec<PathError>) {
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    let jobs = all(&home.jobs()).unwrap_or_else(|error| {
        unknown.push(error);
        Vec::new()
    });
    for job in jobs {
        if job.is_cancelled() {
            found.push(job);
            continue;
        }
        match job.head() {
            Ok(head) if head.as_ref().is_none_or(|head| head.task.lifetime != Lifetime::Step) => found.push(job),
            Ok(_) => {}
            Err(error) => unknown.push(error),
        }
    }
    (found, unknown)
}

/// Jobs of earlier runs for a task that is about to be done by `own`: their outputs are not needed any more. A job of
/// an older program is kept: its manifest is not known.
pub fn superseded(own: &JobFolder, owner: JobOwner<'_>) -> Result<Vec<JobFolder>, PathError> {
    let is_owners = |head: JobHeader| {
        head.task.id == *owner.task && head.manifest == owner.manifest && head.project == owner.project
    };
    let mut jobs_found = Vec::new();
    for job in own.path.parent().map(all).transpose()?.unwrap_or_default() {
        if job != *own && job.head()?.is_some_and(is_owners) {
            jobs_found.push(job);
        }
    }
    Ok(jobs_found)
}

/// Jobs of earlier runs of a manifest for tasks that it does not have now, which nothing else ends. What cannot be read
/// is in [`abandoned()`].
pub fn unplanned(home: &StateFolder, manifest: &str, is_planned: impl Fn(&TaskId) -> bool) -> Vec<(TaskId, JobFolder)> {
    let mut jobs_found = Vec::new();
    for job in all(&home.jobs()).unwrap_or_default() {
        let Ok(Some(JobHeader { task, project, manifest: of })) = job.head() else { continue };
        let is_of_manifest = of == manifest && project == home.project() && task.lifetime == Lifetime::Step;
        let goes_on = !job.is_cancelled() && !job.path.join("ended.json").exists();
        if is_of_manifest && goes_on && !is_planned(&task.id) {
            jobs_found.push((task.id, job));
        }
    }
    jobs_found
}

/// Every attempt without an observed end.
fn all(jobs: &Path) -> Result<Vec<JobFolder>, PathError> {
    Ok(items_in(jobs)?.into_iter().map(JobFolder::at).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job_json(id: &str, lifetime: &str) -> serde_json::Value {
        let task = json!({ "id": id, "lifetime": lifetime, "more": 1 });
        json!({ "task": task, "project": "/project", "manifest": "m", "more": 2 })
    }

    fn owner(task: &TaskId) -> JobOwner<'_> {
        JobOwner { project: Path::new("/project"), manifest: "m", task }
    }

    #[test]
    fn a_job_that_still_writes_does_not_keep_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let jobs = folder.path().join("jobs");
        std::thread::scope(|scope| {
            for index in 0..100 {
                let job = JobFolder::at(jobs.join(format!("0123-{index}")));
                job.write(&json!({}), None).unwrap();
                let writer = scope.spawn({
                    let job = job.clone();
                    move || (0..100_000).find(|count| job.write_heartbeat(*count).is_err())
                });
                job.remove().unwrap();
                assert!(writer.join().is_ok());
            }
        });
        assert_eq!(all(&jobs).unwrap(), []);
    }

    #[test]
    fn an_attempt_is_found_by_its_task_and_key_until_it_is_judged() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().to_owned(), folder.path().join(".regatta"));
        let key = Digest::hash(b"key");
        let out = home.output(&format!("{}-3", key.short()));
        fs::create_dir_all(&out).unwrap();
        let it = TaskId::new("it");
        let folder = JobFolder::for_output(home.state(), &out);
        assert_eq!(left_running(&home, &it, &key).unwrap(), None);
        folder.write(&job_json("it", "Step"), Some("#!/bin/sh\n")).unwrap();
        assert_eq!(left_running(&home, &it, &key).unwrap(), Some(out));
        assert_eq!(left_running(&home, &TaskId::new("other"), &key).unwrap(), None, "two tasks may have one key");
        assert_eq!(left_running(&home, &it, &Digest::hash(b"another")).unwrap(), None);
        assert_eq!(abandoned(&home).0, []);
        let other = JobFolder::for_output(home.state(), &home.output("ffff-0"));
        let older = superseded(&other, owner(&it)).unwrap();
        assert_eq!(older, std::slice::from_ref(&folder), "for another key of the same task");
        assert_eq!(superseded(&other, owner(&TaskId::new("other"))).unwrap(), []);
        assert_eq!(superseded(&other, JobOwner { manifest: "n", ..owner(&it) }).unwrap(), []);
        assert_eq!(superseded(&other, JobOwner { project: Path::new("/other"), ..owner(&it) }).unwrap(), []);
        assert_eq!(superseded(&folder, owner(&it)).unwrap(), []);
        let outside = |project: &str, manifest, planned: &str| {
            let home = StateFolder::new(project.into(), home.state().to_owned());
            unplanned(&home, manifest, |task| task.as_str() == planned).len()
        };
        assert_eq!(outside("/project", "m", "other"), 1);
        assert_eq!(
            [outside("/project", "m", "it"), outside("/project", "n", "other"), outside("/p", "m", "other")],
            [0; 3]
        );
        folder.cancel().unwrap();
        assert_eq!(left_running(&home, &it, &key).unwrap(), None, "that one is to end");
        assert_eq!(abandoned(&home).0, std::slice::from_ref(&folder));
        assert!(folder.remove().unwrap());
        assert!(!folder.remove().unwrap(), "it is reported once");
        assert_eq!(abandoned(&home).0, []);
    }

    #[test]
    fn a_broken_file_is_no_absent_one() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().to_owned(), folder.path().join(".regatta"));
        let job = JobFolder::for_output(home.state(), &home.output("0123-0"));
        assert!(matches!(job.read::<serde_json::Value>(), Ok(None)));
        job.write(&job_json("it", "Step"), None).unwrap();
        assert!(matches!(job.ended::<serde_json::Value>(), Ok(None)));
        for name in ["job.json", "ended.json"] {
            fs::write(job.path().join(name), "{").unwrap();
        }
        let error = job.read::<serde_json::Value>().unwrap_err().to_string();
        assert!(error.contains("0123-0/job.json: it was cut off or altered"), "{error}");
        assert!(job.ended::<serde_json::Value>().is_err());
        assert_eq!(abandoned(&home).0, [job]);
    }

    #[test]
    fn a_file_that_was_cut_or_altered_is_no_other_jobs() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().to_owned(), folder.path().join(".regatta"));
        let (task, key) = (TaskId::new("it"), Digest::hash(b"key"));
        let out = home.output(&format!("{}-0", key.short()));
        fs::create_dir_all(&out).unwrap();
        let job = JobFolder::for_output(home.state(), &out);
        let other = JobFolder::for_output(home.state(), &home.output("ffff-0"));
        job.write(&job_json("it", "Step"), None).unwrap();
        job.note_number("4711").unwrap();
        assert!(job.claim("4711_3").unwrap());
        job.end(&json!({ "code": 0 })).unwrap();
        for name in ["job.json", "number", "claim", "ended.json"] {
            let path = job.path().join(name);
            let whole = fs::read(&path).unwrap();
            let cut = (0..whole.len()).map(|length| whole[..length].to_vec());
            let flipped = (0..whole.len() * 8).map(|bit| {
                let mut bytes = whole.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                bytes
            });
            for bytes in cut.chain(flipped) {
                fs::write(&path, &bytes).unwrap();
                let shown = String::from_utf8_lossy(&bytes);
                let (read, ended) = (job.read::<serde_json::Value>(), job.ended::<serde_json::Value>());
                match name {
                    "number" => assert_eq!(job.number(), None, "{shown}"),
                    "claim" => {
                        assert_eq!(job.claimant().unwrap(), None, "{shown}");
                        assert!(!job.claim("4712").unwrap(), "it is taken all the same");
                    }
                    _ => {
                        let error = if name == "job.json" { read.unwrap_err() } else { ended.unwrap_err() };
                        assert_eq!(
                            error.to_string(),
                            format!("cannot read {}: it was cut off or altered", path.display())
                        );
                    }
                }
                if name == "job.json" {
                    assert_eq!(left_running(&home, &task, &key).unwrap(), None, "{shown}");
                    assert_eq!(superseded(&other, owner(&task)).unwrap(), [], "{shown}");
                    assert_eq!(abandoned(&home).0, std::slice::from_ref(&job), "it is reported, and not forgotten");
                }
            }
            fs::write(&path, whole).unwrap();
            assert_eq!((job.number().as_deref(), job.claimant().unwrap().as_deref()), (Some("4711"), Some("4711_3")));
            assert_eq!(left_running(&home, &task, &key).unwrap(), Some(out.clone()));
            assert_eq!(job.ended::<serde_json::Value>().unwrap(), Some(json!({ "code": 0 })));
        }
    }

    #[test]
    fn a_job_that_cannot_be_looked_at_is_neither_ended_nor_submitted_again() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().to_owned(), folder.path().join(".regatta"));
        let (task, key) = (TaskId::new("it"), Digest::hash(b"key"));
        let job = JobFolder::for_output(home.state(), &home.output(&format!("{}-0", key.short())));
        create_folder(job.path()).unwrap();
        // It is there, and cannot be followed, not even by root.
        std::os::unix::fs::symlink("job.json", job.path().join("job.json")).unwrap();
        let other = JobFolder::for_output(home.state(), &home.output("ffff-0"));
        let server = JobFolder::for_output(home.state(), &home.output("0000-0"));
        server.write(&job_json("server", "Service"), None).unwrap();
        let (found, unknown) = abandoned(&home);
        assert_eq!((found.as_slice(), unknown.len()), (&[server][..], 1), "it does not hide the others");
        assert!(left_running(&home, &task, &key).is_err());
        assert!(superseded(&other, owner(&task)).is_err());
    }

    #[test]
    fn one_job_gets_the_claim() {
        let folder = tempfile::tempdir().unwrap();
        let job = JobFolder::at(folder.path());
        assert!(job.claim("7").unwrap());
        assert!(!job.claim("8").unwrap(), "nor does a job that was put into the queue again");
        assert!(!job.claim("7").unwrap());
        assert_eq!(job.claimant().unwrap().as_deref(), Some("7"));
    }

    #[test]
    fn a_claim_that_is_being_written_names_no_job() {
        let folder = tempfile::tempdir().unwrap();
        let job = JobFolder::at(folder.path());
        assert!(job.claim("12_7").unwrap());
        let claim = folder.path().join("claim");
        let whole = fs::read(&claim).unwrap();
        for length in 0..whole.len() {
            fs::write(&claim, &whole[..length]).unwrap();
            assert_eq!(job.claimant().unwrap(), None, "after {length} bytes");
            assert!(!job.claim("12_8").unwrap(), "it is taken all the same");
        }
    }

    #[test]
    fn only_complete_lines_are_read_and_each_once() {
        let folder = tempfile::tempdir().unwrap();
        let job = JobFolder::at(folder.path());
        assert_eq!(job.read_event_lines(0).unwrap(), (vec![], 0));
        let mut teller = job.open_events_file().unwrap();
        teller.append(b"one\ntw").unwrap();
        let (lines, at) = job.read_event_lines(0).unwrap();
        assert_eq!((lines, at), (vec!["one".to_owned()], 4));
        teller.append(b"o\n").unwrap();
        assert_eq!(job.read_event_lines(at).unwrap(), (vec!["two".to_owned()], 8));
    }
}
