//! Everything a job needs is written before it is submitted, so that a later reader finds all of it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::batch_script;
use super::commands::{SlurmJob, at_clusters, environment, has_many_clusters, max_array_size};
use super::submission::SlurmContext;
use crate::remote::RemoteTask;
use base::event::{Done, Endpoint, Event, ExternalResource, Failure};
use plan::manifest::model::Slurm;
use runner::store::{JobFolder, LineFile, PathError, WithPath as _};
use runner::{BatchSlot, Lease, UpstreamProvenance};

/// What makes the array's name unique and the place there, for a task of a batch; `None` where it is a job of its own.
pub async fn place(
    slurm: &Slurm,
    batch_slot: Option<&BatchSlot>,
    folder: &JobFolder,
    cluster: &SlurmContext,
) -> Option<(String, u32)> {
    let batch_slot = batch_slot?;
    let env = at_clusters(environment(std::env::vars_os(), None), &slurm.args);
    // An element is cancelled by its number.
    if has_many_clusters(&env) {
        return None;
    }
    let most = *cluster.max_array_size.get_or_init(|| max_array_size(&env)).await;
    let (array, element) = (batch_slot.ix.checked_div(most)?, batch_slot.ix % most);
    Some((format!("{} {} {array}", folder.arrays().folder().display(), batch_slot.name()), element))
}

/// The attempt's own log, beside that of its task: both names in one, unless a filesystem takes no name of that length.
fn own_log(log: &Path, attempt: &str) -> PathBuf {
    const LONGEST_NAME: usize = 255;
    let both = log.with_extension(format!("{attempt}.log"));
    let is_short = both.file_name().is_none_or(|name| name.len() <= LONGEST_NAME);
    if is_short { both } else { log.with_file_name(format!("{attempt}.log")) }
}

/// Everything that the job needs to know.
pub async fn write_job_spec(
    lease: &Lease,
    slurm: Slurm,
    words: Option<Vec<String>>,
    folder: &JobFolder,
    place: Option<(String, u32)>,
    manifest: &str,
) -> Result<JobSpec, PathError> {
    // Only a package records its origins, and computing them reads many records.
    let writes_them = lease.task.kind.facts().writes_provenance;
    let origins = if writes_them { (lease.origins)() } else { UpstreamProvenance::default() };
    let output_name = lease.out.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let own_salt = || format!("{} {:?} {}", folder.path().display(), std::time::SystemTime::now(), std::process::id());
    let (label, salt, element) = match place {
        Some((salt, element)) => (lease.task.stage.clone(), salt, Some(element)),
        None => (lease.task.id.file_name(), own_salt(), None),
    };
    let spec = JobSpec {
        work: RemoteTask::new(lease, origins, lease.out.clone(), own_log(&lease.log, &output_name)),
        name: batch_script::name(&label, &salt),
        salt,
        element,
        manifest: manifest.to_owned(),
        slurm,
        words,
    };
    let program = batch_script::program(&spec.slurm, &spec.work.project).at("find", Path::new("this program"))?;
    let comment = format!("{} of {}", spec.work.task.id, spec.work.project.display());
    let script = element.is_none().then(|| batch_script::script(&program, folder.path(), &comment));
    let folder = folder.clone();
    // It waits for the disk, and a thousand elements of an array do so at once.
    let written = spawn_blocking(move || folder.write(&spec, script.as_deref()).map(|()| spec)).await;
    written.at("write", Path::new("job.json")).flatten()
}

// Files through which run and job communicate.

/// `job.json`: everything that the job needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobSpec {
    #[serde(flatten)]
    pub work: RemoteTask,
    /// The job's name: nothing else has it.
    pub name: String,
    /// What the name ends with the digest of: it begins with the state folder. Empty in files of an older program.
    #[serde(default)]
    pub salt: String,
    /// Its index, when it is an element of an array: then all elements have the name.
    pub element: Option<u32>,
    /// The manifest's name. Empty in files of an older program, and of a whole run.
    #[serde(default)]
    pub manifest: String,
    pub slurm: Slurm,
    /// A whole run instead of the one task: the arguments of its command line.
    pub words: Option<Vec<String>>,
}

impl JobSpec {
    /// Whether its name was made for this folder. The file of one that came with an archive could name any job.
    pub fn is_made_for(&self, folder: &JobFolder) -> bool {
        let state = folder.path().ancestors().nth(2).unwrap_or(folder.path());
        let below = self.salt.strip_prefix(&*state.to_string_lossy());
        below.is_some_and(|rest| rest.starts_with('/')) && batch_script::is_name(&self.name, &self.salt)
    }

    pub fn job(&self) -> SlurmJob {
        SlurmJob { name: self.name.clone(), element: self.element }
    }
}

/// A line of `events`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobEvent {
    /// The job has claimed the attempt.
    Began { number: String, node: String, host: String },
    #[serde(alias = "told")]
    Event(Event),
    /// Something on the node that outlives its processes is about to be there, or is gone.
    #[serde(alias = "outliving")]
    ExternalResource { thing: ExternalResource, there: bool },
    /// A service listens. Names of this machine are those of the node.
    Ready(Vec<Endpoint>),
}

/// `ended.json`: how the attempt ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobEnd {
    pub number: String,
    pub node: String,
    pub how: Result<Done, Failure>,
    /// What is in the output folder, as the node sees it.
    pub extent: FolderSize,
}

/// Files and bytes in a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderSize {
    pub files: u64,
    pub bytes: u64,
}

impl FolderSize {
    /// Links count as files; what cannot be looked at does not count.
    pub fn measure(folder: &std::path::Path) -> Self {
        let items = walkdir::WalkDir::new(folder).into_iter().flatten().filter(|item| !item.file_type().is_dir());
        items
            .filter_map(|item| item.metadata().ok())
            .fold(Self::default(), |sum, meta| Self { files: sum.files + 1, bytes: sum.bytes + meta.len() })
    }
}

// The job's lines for the run. A shared filesystem that is full, or does not answer, takes them later: a run that
// misses the line of a server that is ready would wait for it for ever.

/// Lines that wait at the most; messages beyond that are dropped.
const LONGEST: usize = 1000;

/// Writes lines for the run to read.
pub struct JobEventWriter {
    lines: Mutex<PendingLines>,
}

struct PendingLines {
    file: LineFile,
    /// In order. The file has none of them.
    pending: VecDeque<Vec<u8>>,
}

impl JobEventWriter {
    pub const fn new(file: LineFile) -> Self {
        Self { lines: Mutex::new(PendingLines { file, pending: VecDeque::new() }) }
    }

    pub fn write_event(&self, line: &JobEvent) {
        let Ok(mut text) = serde_json::to_vec(line) else { return };
        text.push(b'\n');
        let mut lines = self.lines.lock();
        let is_transient = matches!(line, JobEvent::Event(Event::Progress { .. }));
        let is_message = matches!(line, JobEvent::Event(_));
        if is_transient && !lines.pending.is_empty() || is_message && lines.pending.len() >= LONGEST {
            return;
        }
        lines.pending.push_back(text);
        // A line that cannot be written now does not stop the work.
        if lines.write().is_err() && is_transient {
            lines.pending.pop_back();
        } else if !is_transient {
            // Else a network's filesystem may show it after the job's end, when it is not read any more.
            let _ = lines.sync();
        }
    }

    /// Writes what could not be written before.
    ///
    /// # Errors
    /// It cannot be written yet.
    pub fn write_pending(&self) -> Result<(), PathError> {
        let mut lines = self.lines.lock();
        if lines.pending.is_empty() {
            return Ok(());
        }
        lines.write()?;
        let _ = lines.sync();
        Ok(())
    }

    /// Forwards events to the run, except those about processes, which matter only on this node.
    pub fn event(&self, event: Event) {
        match event {
            Event::Notice { .. } | Event::Progress { .. } => self.write_event(&JobEvent::Event(event)),
            Event::ExternalResourceStarted { resource: thing, .. } => {
                self.write_event(&JobEvent::ExternalResource { thing, there: true });
            }
            Event::ExternalResourceRemoved { resource: thing, .. } => {
                self.write_event(&JobEvent::ExternalResource { thing, there: false });
            }
            _ => {}
        }
    }
}

impl PendingLines {
    fn write(&mut self) -> Result<(), PathError> {
        let Self { file, pending } = self;
        write_each(pending, |line| file.append(line))
    }

    fn sync(&self) -> Result<(), PathError> {
        self.file.try_clone()?.sync_data().at("sync", self.file.path())
    }
}

/// By one write each: a reader must not have read what is cut off again after half of them.
fn write_each(
    pending: &mut VecDeque<Vec<u8>>,
    mut append: impl FnMut(&[u8]) -> Result<(), PathError>,
) -> Result<(), PathError> {
    while let Some(line) = pending.front() {
        append(line)?;
        pending.pop_front();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::event::TaskId;
    use runner::store::JobFolder;

    #[test]
    fn a_long_name_of_a_task_is_no_part_of_the_log_of_an_attempt() {
        let log = |name: &str| own_log(Path::new(&format!("/runs/1/{name}.log")), "0123456789abcdef-0");
        assert_eq!(log("it"), Path::new("/runs/1/it.0123456789abcdef-0.log"));
        assert_eq!(log(&"x".repeat(240)), Path::new("/runs/1/0123456789abcdef-0.log"));
    }

    #[test]
    fn a_line_that_a_full_disk_refused_is_written_later_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let job = JobFolder::at(folder.path());
        let events = folder.path().join("events");
        // What it takes no byte of: a device that is always full, and then a disk.
        std::os::unix::fs::symlink("/dev/full", &events).unwrap();
        let writer = JobEventWriter::new(job.open_events_file().unwrap());
        writer.write_event(&JobEvent::Ready(Vec::new()));
        let task = Some(TaskId::new("it"));
        writer.event(Event::Notice { task, text: "one".to_owned() });
        assert!(writer.write_pending().is_err());
        assert_eq!(writer.lines.lock().pending.len(), 2);
        std::fs::remove_file(&events).unwrap();
        writer.lines.lock().file = job.open_events_file().unwrap();
        writer.write_pending().unwrap();
        let (lines, _) = job.read_event_lines(0).unwrap();
        let read: Vec<JobEvent> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(matches!(&read[..], [JobEvent::Ready(_), JobEvent::Event(Event::Notice { .. })]), "{read:?}");
    }
}
