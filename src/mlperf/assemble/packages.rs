//! Packages as parts: submission folders, of Regatta or of another tool.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use walkdir::WalkDir;

use super::{AssembleRequest, Assembled};
use crate::layout::scenario_titled;
use crate::submission_check::{DIVISIONS, folders};
use crate::{LockedResult, LockedRun, PackageProvenance, REHEARSAL_FILE, SubmissionLayout, truncate_accuracy_log};
use base::diag::{ErrorText, in_file};
use base::files::{read_bytes, sha256_of_file};
use base::spec::TestMode;
use rules::Round;
use rules::log::{DETAIL_FILE, SUMMARY_FILE};

const LOGS: [&str; 2] = [SUMMARY_FILE, DETAIL_FILE];

/// The folder with the divisions: the part itself, or the package of a project's last run.
pub(super) fn root(part: &Path) -> Assembled<PathBuf> {
    let has_division = |folder: &Path| DIVISIONS.iter().any(|division| folder.join(division).is_dir());
    let package_root = [part.to_owned(), part.join("latest/package")].into_iter().find(|folder| has_division(folder));
    package_root.ok_or_else(|| in_file(part)("it contains neither closed/, open/ or network/ nor latest/package"))
}

/// Adds everything below the divisions of a package.
pub(super) fn add(tree: &mut SubmissionTree, root: &Path, request: &AssembleRequest) -> Assembled {
    for division in DIVISIONS {
        let Ok(items) = std::fs::read_dir(root.join(division)) else { continue };
        for item in items {
            let submitter = item.map_err(in_file(root))?.path();
            if submitter.is_dir() {
                let below = submitter.strip_prefix(root).unwrap_or(&submitter).to_owned();
                submitted(tree, &submitter, &below, request)?;
            }
        }
    }
    Ok(())
}

fn submitted(tree: &mut SubmissionTree, submitter: &Path, below: &Path, request: &AssembleRequest) -> Assembled {
    let locks = PackageProvenance::all(submitter).map_err(in_file(submitter))?;
    for lock in &locks {
        if lock.rehearsal && !request.rehearse {
            tree.problem(format!("{} is a rehearsal; --rehearse assembles it for practice", submitter.display()));
        }
    }
    let systems = folders(&submitter.join("results"));
    let system = systems.first().cloned().unwrap_or_default();
    for system in systems.into_iter().filter(|system| locks.iter().all(|lock| lock.system != *system)) {
        let lock = recorded(tree, submitter, below, system)?;
        tree.lock(below, lock);
    }
    for lock in locks {
        tree.lock(below, lock);
    }
    for item in WalkDir::new(submitter).follow_links(true).sort_by_file_name() {
        let item = item.map_err(in_file(submitter))?;
        if !item.file_type().is_file() {
            continue;
        }
        let inside = item.path().strip_prefix(submitter).unwrap_or(item.path());
        let from = FileSource::Copy(item.path().to_owned());
        let mut parts = inside.components();
        match parts.next().and_then(|first| first.as_os_str().to_str()) {
            Some("documentation") if is_own(inside) => {}
            // One folder of texts is for all of them.
            Some("documentation") if request.documentation.is_some() && !inside.ends_with(REHEARSAL_FILE) => {}
            Some(source) if source == tree.layout.source() => {
                tree.add_beside(&below.join(source), parts.as_path(), &system, from)?;
            }
            _ => tree.add(below.join(inside), from)?,
        }
    }
    Ok(())
}

/// Whether a file of the documentation is a lock, which is written anew.
fn is_own(inside: &Path) -> bool {
    inside.file_name().and_then(|name| name.to_str()).is_some_and(PackageProvenance::is_file_name)
}

/// What is known of a system that another tool packed: its files as they are now.
fn recorded(tree: &SubmissionTree, submitter: &Path, below: &Path, system: String) -> Assembled<PackageProvenance> {
    let mut results = Vec::new();
    for benchmark in folders(&submitter.join("results").join(&system)) {
        for title in folders(&submitter.join("results").join(&system).join(&benchmark)) {
            let Some(scenario) = scenario_titled(&title) else { continue };
            let folder = submitter.join(tree.layout.result(&system, &benchmark, &title));
            let conf = submitter.join(tree.layout.measurements(&system, &benchmark, &title)).join("user.conf");
            let logs = |folder: PathBuf| LOGS.map(|name| folder.join(name));
            let performance = logs(folder.join("performance/run_1")).into_iter().chain([conf]);
            let runs = IndexMap::from([
                (TestMode::Performance, hashed(performance)?),
                (TestMode::Accuracy, hashed(logs(folder.join("accuracy")))?),
            ]);
            results.push(LockedResult { benchmark: benchmark.clone(), scenario, runs });
        }
    }
    Ok(PackageProvenance::of_another_tool(&tree.round.name, below, system, results))
}

/// The hashes of those files that are there.
fn hashed(paths: impl IntoIterator<Item = PathBuf>) -> Assembled<LockedRun> {
    let mut run = LockedRun::default();
    for path in paths.into_iter().filter(|path| path.is_file()) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        run.files.insert(name, sha256_of_file(&path).map_err(in_file(&path))?);
    }
    Ok(run)
}

/// Puts a folder of texts into the documentation of every submitter.
pub(super) fn documentation(tree: &mut SubmissionTree, folder: &Path) -> Assembled {
    let mut submitters: Vec<PathBuf> = tree.files.keys().map(|path| path.iter().take(2).collect()).collect();
    submitters.dedup();
    for item in WalkDir::new(folder).sort_by_file_name() {
        let item = item.map_err(in_file(folder))?;
        if item.file_type().is_file() {
            let inside = item.path().strip_prefix(folder).unwrap_or(item.path());
            for submitter in &submitters {
                let path = submitter.join("documentation").join(inside);
                tree.add(path, FileSource::Copy(item.path().to_owned()))?;
            }
        }
    }
    Ok(())
}

/// Below a submitter, the folders that have one of each result: results, and in older rounds what lies beside them.
pub(super) fn result_folders(layout: SubmissionLayout) -> &'static [&'static str] {
    match layout {
        SubmissionLayout::Split => &["results", "measurements", "compliance"],
        SubmissionLayout::Single => &["results"],
    }
}

// The tree of a submission before it is written: each path with where its bytes are from.

/// Where the bytes of a file are from.
#[derive(Clone, Debug)]
pub(super) enum FileSource {
    Copy(PathBuf),
    /// An accuracy log, of which a submission has the ends.
    Truncated(PathBuf),
    Text(String),
}

/// `closed/Example`: the folder of a submitter in a division.
pub(super) type SubmitterPath = PathBuf;

/// What a submission will be.
pub(super) struct SubmissionTree {
    pub round: Round,
    pub layout: SubmissionLayout,
    pub files: BTreeMap<PathBuf, FileSource>,
    /// Of each submitter, by system.
    pub locks: BTreeMap<(SubmitterPath, String), PackageProvenance>,
    /// Files of parts that have no place in it.
    pub left_out: Vec<PathBuf>,
    problems: Vec<String>,
}

impl SubmissionTree {
    pub(super) fn new(round: &Round) -> Self {
        Self {
            round: round.clone(),
            layout: SubmissionLayout::for_round(&round.name),
            files: BTreeMap::new(),
            locks: BTreeMap::new(),
            left_out: Vec::new(),
            problems: Vec::new(),
        }
    }

    pub(super) fn problem(&mut self, what: String) {
        self.problems.push(what);
    }

    /// Adds a file; one that another part has, too, must have the same bytes.
    pub(super) fn add(&mut self, path: PathBuf, from: FileSource) -> Assembled {
        match self.files.get(&path) {
            Some(other) if !is_same(other, &from)? => {
                let (one, other) = (place(other), place(&from));
                self.problem(format!("{}: {one} and {other} differ", path.display()));
            }
            Some(_) => {}
            None => drop(self.files.insert(path, from)),
        }
        Ok(())
    }

    /// Whether a file of a part is in it.
    pub(super) fn is_used(&self, from: &Path) -> bool {
        self.files.values().any(|source| match source {
            FileSource::Copy(path) | FileSource::Truncated(path) => path == from,
            FileSource::Text(_) => false,
        })
    }

    /// Whether there is a file below a folder.
    pub(super) fn has_below(&self, folder: &Path) -> bool {
        self.files.range(folder.to_owned()..).next().is_some_and(|(path, _)| path.starts_with(folder))
    }

    /// Adds a file whose name may be taken: then it goes below a folder of the system's name.
    pub(super) fn add_beside(&mut self, above: &Path, name: &Path, system: &str, from: FileSource) -> Assembled {
        let path = above.join(name);
        match self.files.get(&path) {
            Some(other) if !is_same(other, &from)? => self.add(above.join(system).join(name), from),
            _ => self.add(path, from),
        }
    }

    /// What is known of a system's results; several packages of one system are one.
    pub(super) fn lock(&mut self, submitter: &Path, lock: PackageProvenance) {
        let key = (submitter.to_owned(), lock.system.clone());
        match self.locks.get_mut(&key) {
            Some(known) => {
                known.rehearsal |= lock.rehearsal;
                for result in lock.results {
                    if known.result(&result.benchmark, result.scenario).is_none() {
                        known.results.push(result);
                    }
                }
                let others = lock.stages.into_iter().filter(|stage| !known.stages.contains(stage));
                let others: Vec<_> = others.collect();
                known.stages.extend(others);
            }
            None => drop(self.locks.insert(key, lock)),
        }
    }

    /// Writes all of it, unless parts disagree. Gives the files that were left out.
    pub(super) fn write(self, out: &Path) -> Assembled<Vec<PathBuf>> {
        if !self.problems.is_empty() {
            return Err(ErrorText::new(self.problems.join("\n")));
        }
        for (path, from) in &self.files {
            let path = above(out, path)?;
            match from {
                FileSource::Copy(from) => drop(fs::copy(from, &path).map_err(in_file(from))?),
                FileSource::Truncated(from) => {
                    truncate_accuracy_log::truncated(from, &path).map_err(in_file(from))?;
                }
                FileSource::Text(text) => fs::write(&path, text).map_err(in_file(&path))?,
            }
        }
        for ((submitter, system), lock) in &self.locks {
            let alone = self.locks.keys().filter(|(other, _)| other == submitter).count() == 1;
            let name = PackageProvenance::file_name((!alone).then_some(system));
            let path = above(out, &submitter.join("documentation").join(name))?;
            let text = serde_json::to_string_pretty(lock).map_err(in_file(&path))?;
            fs::write(&path, text + "\n").map_err(in_file(&path))?;
        }
        Ok(self.left_out)
    }
}

/// The path in `out`, with the folders above it made.
fn above(out: &Path, path: &Path) -> Assembled<PathBuf> {
    let path = out.join(path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(in_file(folder))?;
    }
    Ok(path)
}

fn is_same(one: &FileSource, other: &FileSource) -> Assembled<bool> {
    let hash = |path: &PathBuf| sha256_of_file(path).map_err(in_file(path));
    Ok(match (one, other) {
        (FileSource::Copy(one), FileSource::Copy(other))
        | (FileSource::Truncated(one), FileSource::Truncated(other)) => hash(one)? == hash(other)?,
        (FileSource::Text(one), FileSource::Text(other)) => one == other,
        (FileSource::Copy(path), FileSource::Text(text)) | (FileSource::Text(text), FileSource::Copy(path)) => {
            read_bytes(path).map_err(in_file(path))? == text.as_bytes()
        }
        _ => false,
    })
}

fn place(source: &FileSource) -> String {
    match source {
        FileSource::Copy(path) | FileSource::Truncated(path) => path.display().to_string(),
        FileSource::Text(_) => "a text made here".to_owned(),
    }
}
