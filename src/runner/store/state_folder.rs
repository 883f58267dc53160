//! Where things are: the state folder with its job arrays, and the link `latest` next to it.
//!
//! What a job array has beside the folders of its elements is one script, and for each element a file for what the
//! batch system prints. They lie together in one folder that stays: a job whose output file cannot be made fails
//! without a message.
//!
//! A state folder can come with an archive or a clone, and then its journals hold what another person wrote. They name
//! what a crashed run has left: containers, shared memory, locked clocks. These are only removed where the folder has
//! the mark that a run leaves in it: a digest over the machine, the user, and the inode of the folder with the time at
//! which that was made, which no person can choose. A folder that is moved keeps it, a copy does not.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use walkdir::WalkDir;

use super::durable::{
    PathError, WithPath as _, create_folder, discard, half_written_by, is_there, items_in, replace, replace_cache,
};
use super::latest::only_links;
use super::lock::is_lock;
use base::event::{RunId, TaskId};
use base::files::{Digest, is_absence, read_text};

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

    /// The folder of one of them, by its text.
    pub fn bench_manifest(&self, text: &[u8]) -> PathBuf {
        self.below(&["bench", &Digest::hash(text).short()])
    }

    pub fn output(&self, folder: &str) -> PathBuf {
        self.below(&[OUTPUTS, folder])
    }

    /// Where an output is now that had this path when this folder was at another place. `None`: it has this path, or
    /// no output has its name.
    pub fn own_output(&self, before: &Path) -> Option<PathBuf> {
        let name = before.file_name().and_then(|name| name.to_str()).filter(|name| is_output_name(name))?;
        let now = self.output(name);
        (now != before && is_there(&now).unwrap_or(false)).then_some(now)
    }

    /// The list of the files of an output, where it is not in the record: beside its folder.
    pub(super) fn output_files(&self, folder: &str) -> PathBuf {
        self.below(&[OUTPUTS, &format!("{folder}.files")])
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

    /// The link that leads to the outputs of the manifest that ran last: see [`super::Latest`]. It is beside a folder
    /// of the usual name, and inside one that a user named: nothing is written into the folder above that.
    pub fn latest(&self) -> PathBuf {
        let beside = self.state.parent().filter(|_| self.has_usual_name());
        beside.unwrap_or(&self.state).join("latest")
    }
}

/// Files and folders directly in a state folder.
macro_rules! places {
    ($($(#[$doc:meta])* $visible:vis $name:ident = $path:expr;)*) => {
        impl StateFolder {
            $($(#[$doc])* $visible fn $name(&self) -> PathBuf { self.state.join($path) })*
        }
    };
}

places! {
    pub lock = "lock";
    /// The state of commands that use servers while a run keeps these up, and holds the lock.
    pub clients = "clients";
    /// The manifests of `regatta bench` lines.
    pub bench_manifests = "bench";
    pub records = "records";
    /// Shows that it was made here: see [`Self::mark_as_made_here`].
    pub(super) binding = "binding";
    pub stats = "stats";
    /// Where outputs are named that `records` has forgotten.
    pub(super) replaced = "replaced";
    pub outputs = OUTPUTS;
    pub jobs = "jobs";
    pub failed = "failed";
    pub lowered = "lowered";
    pub plans = "plans";
    pub runs = "runs";
    /// The links of each manifest.
    pub by_manifest = "by-manifest";
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

/// `None`: the path is not named as the folders of outputs are (see [`super::OutputCache::new_folder`]). `state`: of
/// this project.
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

// What in a state folder is Regatta's own, by the names that the store gives: a user can name any folder with `--home`.

/// Files directly in a state folder.
const FILES: [&str; 5] = ["binding", "lock", "records", "replaced", "stats"];

/// What is in a state folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StateItems {
    /// What Regatta made, without the folders that it is in.
    pub own: Vec<PathBuf>,
    /// What something else put there.
    pub others: Vec<PathBuf>,
    /// Folders that only hold such items, the deepest last.
    folders: Vec<PathBuf>,
}

impl StateItems {
    /// `is_shipped`: whether the program has a file of this name in it, of which `shipped` has a copy. The link
    /// `latest` is not among the items. `None`: the folder has something in it, and nothing of it shows that Regatta
    /// ever kept state there.
    ///
    /// # Errors
    /// A folder in it cannot be listed.
    pub fn find(home: &StateFolder, is_shipped: &impl Fn(&str) -> bool) -> Result<Option<Self>, PathError> {
        let mut items = Self::default();
        items.read(home, is_shipped)?;
        let telling = [home.outputs(), home.plans(), home.bench_manifests(), home.runs()];
        let is_proof = |path: &PathBuf| {
            telling.iter().any(|folder| path.parent() == Some(folder)) || *path == home.lock() && is_lock(path)
        };
        let is_state = home.has_usual_name() || items.own.iter().any(is_proof);
        Ok((is_state || items.own.is_empty() && items.others.is_empty()).then_some(items))
    }

    fn read(&mut self, home: &StateFolder, is_shipped: &impl Fn(&str) -> bool) -> Result<(), PathError> {
        self.folders.push(home.state().to_owned());
        for path in items_in(home.state())? {
            let is_folder = path.is_dir() && !path.is_symlink();
            match name_of(&path) {
                _ if !is_folder && is_own_file(&path) => self.own.push(path),
                _ if path == home.latest() => {}
                "clients" if is_folder => self.read(&StateFolder::new(home.project().to_owned(), path), is_shipped)?,
                "shipped" if is_folder => self.read_shipped(&path, is_shipped)?,
                folder if is_folder && is_own(folder).is_some() => {
                    let is_own = is_own(folder).unwrap_or(|_| false);
                    for item in items_in(&path)? {
                        if is_own(&item) { &mut self.own } else { &mut self.others }.push(item);
                    }
                    self.folders.push(path);
                }
                _ => self.others.push(path),
            }
        }
        Ok(())
    }

    fn read_shipped(&mut self, folder: &Path, is_shipped: &impl Fn(&str) -> bool) -> Result<(), PathError> {
        for item in WalkDir::new(folder) {
            let item = item.at("list", folder)?;
            let name = item.path().strip_prefix(folder).unwrap_or(item.path()).to_string_lossy().into_owned();
            let list = if item.file_type().is_dir() {
                &mut self.folders
            } else if is_shipped(&name) || half_written_by(item.path()).is_some() {
                &mut self.own
            } else {
                &mut self.others
            };
            list.push(item.into_path());
        }
        Ok(())
    }

    /// Removes Regatta's own, and then the folders that are empty without it.
    ///
    /// # Errors
    /// Something cannot be removed.
    pub fn remove(&self) -> Result<(), PathError> {
        for path in &self.own {
            discard(path)?;
        }
        for folder in self.folders.iter().rev() {
            match fs::remove_dir(folder) {
                Err(error) if !is_absence(&error) && items_in(folder)?.is_empty() && !folder.is_symlink() => {
                    return Err(error).at("remove", folder);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether a path is named as the files directly in a state folder are, or as one that was to replace such a file.
pub(super) fn is_own_file(path: &Path) -> bool {
    let is_half = half_written_by(path).is_some();
    let stem = path.file_stem().unwrap_or_default();
    FILES.iter().map(Path::new).any(|file| if is_half { file.file_stem() == Some(stem) } else { path.ends_with(file) })
}

/// For a folder directly in a state folder: which items in it are Regatta's own.
fn is_own(folder: &str) -> Option<fn(&Path) -> bool> {
    Some(match folder {
        "out" | "jobs" => |item| is_output_name(name_of(item)) || is_allocation(item),
        "allocations" => is_allocation,
        "arrays" => |item| item.extension().is_some_and(|end| end == "script" || end == "output"),
        "failed" => Path::is_symlink,
        "lowered" => |item| stem(item).len() == 64 && stem(item).bytes().all(|byte| byte.is_ascii_hexdigit()),
        "bench" | "plans" => |item| is_short_digest(stem(item)),
        "runs" => |item| is_run(name_of(item)),
        "by-manifest" => |item| item.is_dir() && only_links(item),
        _ => return None,
    })
}

/// As [`super::name_run`] names them: `20261127-045250.123-4711`.
fn is_run(name: &str) -> bool {
    let are_digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = name.split(['-', '.']);
    [8, 6, 3].into_iter().all(|count| parts.next().is_some_and(|part| are_digits(part.trim_end_matches('~'), count)))
        && parts.next().is_some_and(|process| are_digits(process, process.len()) && !process.is_empty())
}

/// `run-0123456789abcdef`; with `-1` behind it where an allocation was lost, and submitted again.
fn is_allocation(item: &Path) -> bool {
    let digest = stem(item).strip_prefix("run-").map(|name| name.split_once('-').unwrap_or((name, "0")));
    digest.is_some_and(|(digest, attempt)| is_short_digest(digest) && attempt.parse::<u32>().is_ok())
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// The name up to its first dot.
fn stem(path: &Path) -> &str {
    name_of(path).split('.').next().unwrap_or_default()
}

/// Files of the arrays of a project. Making this touches nothing on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayFiles {
    folder: PathBuf,
}

impl ArrayFiles {
    /// `state` is the project's state folder.
    pub fn new(state: &Path) -> Self {
        Self { folder: state.join("arrays") }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn script(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.script"))
    }

    /// As Slurm writes it: `%a` is an element's index.
    pub fn pattern(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}-%a.output"))
    }

    /// What the batch system and the script print for one element.
    pub fn output(&self, name: &str, element: u32) -> PathBuf {
        self.folder.join(format!("{name}-{element}.output"))
    }

    /// Everything that a submission needs. What the elements printed before stays.
    pub fn write(&self, name: &str, script: &str, elements: &[u32]) -> Result<(), PathError> {
        create_folder(&self.folder)?;
        for element in elements {
            let path = self.output(name, *element);
            File::options().create(true).append(true).open(&path).at("create", &path)?;
        }
        replace(&self.script(name), script.as_bytes())
    }

    /// The batch system has a copy of it.
    pub fn forget_script(&self, name: &str) {
        let _ = fs::remove_file(self.script(name));
    }

    /// An element has been judged.
    pub fn forget(&self, name: &str, element: u32) {
        let _ = fs::remove_file(self.output(name, element));
    }
}

impl StateFolder {
    /// Whether a run of this user on this machine has left its mark in it.
    pub fn is_made_here(&self) -> bool {
        self.mark().is_some_and(|mark| read_text(self.binding()).is_ok_and(|text| text == mark))
    }

    /// Leaves the mark, for the runs that follow.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn mark_as_made_here(&self) -> Result<(), PathError> {
        match self.mark() {
            Some(mark) if !self.is_made_here() => replace_cache(&self.binding(), mark.as_bytes()),
            _ => Ok(()),
        }
    }

    /// `None`: the folder cannot be looked at.
    fn mark(&self) -> Option<String> {
        let folder = statx(CWD, self.state(), AtFlags::empty(), StatxFlags::INO | StatxFlags::BTIME).ok()?;
        let machine = read_text("/etc/machine-id").unwrap_or_default();
        let user = rustix::process::geteuid().as_raw();
        let made = format!("{} {} {}", folder.stx_ino, folder.stx_btime.tv_sec, folder.stx_btime.tv_nsec);
        Some(Digest::hash(format!("{machine} {user} {made}").as_bytes()).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(files: &[&str]) -> (tempfile::TempDir, StateFolder) {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        fs::create_dir(&state).unwrap();
        for file in files {
            let path = state.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        let home = StateFolder::new(folder.path().to_owned(), state);
        (folder, home)
    }

    #[test]
    fn a_folder_without_anything_of_regatta_is_no_state_folder() {
        let has_items = |files: &[&str]| StateItems::find(&folder_with(files).1, &|_| false).unwrap().is_some();
        assert!(has_items(&[]));
        for files in [
            &["thesis.tex"][..],
            &["records", "stats"],
            &["lock"],
            &["bench/notes", "out/mine/x", "runs/20261127-045250/x"],
        ] {
            assert!(!has_items(files), "{files:?}");
        }
        assert!(has_items(&["plans/0123456789abcdef.plan"]) && has_items(&["out/0123456789abcdef-0/x"]));
    }

    #[test]
    fn only_what_regatta_made_is_removed() {
        let own_files = [
            "allocations/run-0123456789abcdef.log",
            "bench/0123456789abcdef/bench.yaml",
            "clients/records",
            "jobs/0123456789abcdef-0/job.json",
            "jobs/run-0123456789abcdef-1/job.json",
            "out/0123456789abcdef-0/x",
            "out/0123456789abcdef-0123456789abcdef-resume/x",
            "plans/0123456789abcdef.plan",
            "records",
            "records.tmp7",
            "runs/20261127-045250.123-4711/journal.jsonl",
            "shipped/a/b",
            "stats",
        ];
        let others = [
            "bench/mine/x",
            "clients/notes",
            "jobs/run-0123456789abcdef-mine/x",
            "notes.tmp7",
            "out/mine/x",
            "shipped/mine",
            "thesis.tex",
        ];
        let (_folder, home) = folder_with(&[&own_files[..], &others].concat());
        let items = StateItems::find(&home, &|name| name == "a/b").unwrap().unwrap();
        items.remove().unwrap();
        let left = WalkDir::new(home.state()).sort_by_file_name().into_iter().flatten();
        let left: Vec<String> = left
            .filter(|item| item.file_type().is_file())
            .map(|item| item.path().strip_prefix(home.state()).unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(left, others);
        assert!(!home.plans().exists());
    }
}

#[cfg(test)]
mod binding_tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_folder_that_is_moved_keeps_its_mark_and_a_copy_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let home = |name: &str| StateFolder::new(folder.path().to_owned(), folder.path().join(name));
        for name in ["made", "copied"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        assert!(!home("made").is_made_here(), "as one of an older program or from elsewhere");
        home("made").mark_as_made_here().unwrap();
        assert!(home("made").is_made_here());
        fs::copy(home("made").binding(), home("copied").binding()).unwrap();
        assert!(!home("copied").is_made_here());
        rustix::fs::rename(folder.path().join("made"), folder.path().join("moved")).unwrap();
        assert!(home("moved").is_made_here());
        assert!(!home("absent").is_made_here());
    }
}
