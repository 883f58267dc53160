//! Where things are: the state folder and the links beside it.

use std::path::{Path, PathBuf};

use super::durable::is_there;
use base::event::{RunId, TaskId};
use base::files::Digest;

/// The name of a state folder that is not given with `--home`.
const USUAL_NAME: &str = ".regatta";
/// The folder of outputs, in the state folder.
const OUTPUTS: &str = "out";
/// The end of the name of an output folder in which later attempts go on.
pub(super) const RESUMED: &str = "-resume";

/// The state folder of one project. Making a `StateFolder` touches nothing on disk.
#[derive(Clone, Debug)]
pub struct StateFolder {
    state: PathBuf,
    project: PathBuf,
}

impl StateFolder {
    /// `project`: the folder that relative paths in manifests are relative to. `state`: usually `<project>/.regatta`.
    pub fn new(project: PathBuf, state: PathBuf) -> Self {
        Self { state, project }
    }

    pub fn project(&self) -> &Path {
        &self.project
    }

    pub fn state(&self) -> &Path {
        &self.state
    }

    pub fn lock(&self) -> PathBuf {
        self.state.join("lock")
    }

    /// The state of commands that use servers while a run keeps these up, and holds the lock.
    pub fn clients(&self) -> PathBuf {
        self.state.join("clients")
    }

    /// The manifests of `regatta bench` lines.
    pub fn bench_manifests(&self) -> PathBuf {
        self.state.join("bench")
    }

    /// The folder of one of them, by its text.
    pub fn bench_manifest(&self, text: &[u8]) -> PathBuf {
        self.below(&["bench", &Digest::of(text).short()])
    }

    pub fn records(&self) -> PathBuf {
        self.state.join("records")
    }

    pub fn stats(&self) -> PathBuf {
        self.state.join("stats")
    }

    /// Where outputs are named that `records` has forgotten.
    pub(super) fn replaced(&self) -> PathBuf {
        self.state.join("replaced")
    }

    pub fn outputs(&self) -> PathBuf {
        self.state.join(OUTPUTS)
    }

    pub fn output(&self, folder: &str) -> PathBuf {
        self.below(&[OUTPUTS, folder])
    }

    /// Where an output is now that had this path when this folder was at another place. `None`: it has this path, or there is none of its
    /// name.
    pub fn own_output(&self, before: &Path) -> Option<PathBuf> {
        let name = before.file_name().and_then(|name| name.to_str()).filter(|name| is_output_name(name))?;
        let now = self.output(name);
        (now != before && is_there(&now).unwrap_or(false)).then_some(now)
    }

    /// The list of the files of an output, where it is not in the record: beside its folder.
    pub(super) fn output_files(&self, folder: &str) -> PathBuf {
        self.below(&[OUTPUTS, &format!("{folder}.files")])
    }

    pub fn jobs(&self) -> PathBuf {
        self.state.join("jobs")
    }

    pub fn failed(&self) -> PathBuf {
        self.state.join("failed")
    }

    pub fn lowered(&self) -> PathBuf {
        self.state.join("lowered")
    }

    pub fn plans(&self) -> PathBuf {
        self.state.join("plans")
    }

    pub fn runs(&self) -> PathBuf {
        self.state.join("runs")
    }

    pub fn run(&self, run: &RunId) -> PathBuf {
        self.below(&["runs", run.as_str()])
    }

    pub fn log(&self, run: &RunId, task: &TaskId) -> PathBuf {
        self.below(&["runs", run.as_str(), &format!("{}.log", task.file_name())])
    }

    /// Whether it has the name of a state folder that no user named.
    pub fn has_usual_name(&self) -> bool {
        self.state.file_name().is_some_and(|name| name == USUAL_NAME)
    }

    /// In one allocation: outputs are asked for many times in each stage.
    fn below(&self, names: &[&str]) -> PathBuf {
        let length = names.iter().map(|name| name.len() + 1).sum::<usize>();
        let mut path = PathBuf::with_capacity(self.state.as_os_str().len() + length);
        path.push(&self.state);
        path.extend(names);
        path
    }

    /// Nothing more can be written here.
    pub fn is_full(&self) -> bool {
        is_full(&self.state)
    }

    /// The link that leads to the outputs of the manifest that ran last: see [`super::Latest`]. It is beside a folder of the
    /// usual name, and inside one that a user named: nothing is written into the folder above that.
    pub fn latest(&self) -> PathBuf {
        let beside = self.state.parent().filter(|_| self.has_usual_name());
        beside.unwrap_or(&self.state).join("latest")
    }

    /// The links of each manifest.
    pub fn by_manifest(&self) -> PathBuf {
        self.state.join("by-manifest")
    }
}

/// Whether a name is one that [`Digest::short`] gives.
pub(super) fn is_short_digest(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a name is one that an output folder can have (see [`super::OutputCache::new_folder`]).
pub(super) fn is_output_name(name: &str) -> bool {
    name.split_once('-').is_some_and(|(key, _)| is_short_digest(key))
}

/// Whether later attempts go on in an output folder, until it is accepted.
pub(super) fn is_resumed(folder: &Path) -> bool {
    folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(RESUMED))
}

/// Whose output a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputPlace {
    /// This project's: it is in its state folder, or was.
    Here,
    /// It is named as an output of another state folder, or of this one where that was before.
    Elsewhere,
}

/// `None`: the path is not named as the folders of outputs are (see [`super::OutputCache::new_folder`]). `state`: of this project.
pub fn place_of_output(path: &Path, state: &Path) -> Option<OutputPlace> {
    let outputs = path.parent().filter(|outputs| outputs.ends_with(OUTPUTS))?;
    let is_output = path.file_name().and_then(|name| name.to_str()).is_some_and(is_output_name);
    let place = if outputs.parent() == Some(state) { OutputPlace::Here } else { OutputPlace::Elsewhere };
    is_output.then_some(place)
}

/// Nothing more can be written to the disk of this folder, not even a log line.
pub fn is_full(folder: &Path) -> bool {
    rustix::fs::statvfs(folder).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < 64 * 1024)
}
