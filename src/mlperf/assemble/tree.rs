//! The tree of a submission before it is written: each path with where its bytes are from.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::request::AssembleError;
use crate::{PackageProvenance, SubmissionLayout, truncate_accuracy_log};
use base::files::{read_bytes, sha256_of_file};
use rules::Round;

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
    problems: Vec<String>,
}

impl SubmissionTree {
    pub(super) fn new(round: &Round) -> Self {
        Self {
            round: round.clone(),
            layout: SubmissionLayout::of(&round.name),
            files: BTreeMap::new(),
            locks: BTreeMap::new(),
            problems: Vec::new(),
        }
    }

    pub(super) fn problem(&mut self, what: String) {
        self.problems.push(what);
    }

    /// Adds a file; one that another part has, too, must have the same bytes.
    pub(super) fn add(&mut self, path: PathBuf, from: FileSource) -> Result<(), AssembleError> {
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

    /// Whether there is a file below a folder.
    pub(super) fn has_below(&self, folder: &Path) -> bool {
        self.files.range(folder.to_owned()..).next().is_some_and(|(path, _)| path.starts_with(folder))
    }

    /// Adds a file whose name may be taken: then it goes below a folder of the system's name.
    pub(super) fn add_beside(
        &mut self,
        above: &Path,
        name: &Path,
        system: &str,
        from: FileSource,
    ) -> Result<(), AssembleError> {
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

    /// Writes all of it, unless parts disagree.
    pub(super) fn write(mut self, out: &Path) -> Result<(), AssembleError> {
        if !self.problems.is_empty() {
            return Err(AssembleError::Parts(std::mem::take(&mut self.problems)));
        }
        for (path, from) in &self.files {
            let path = above(out, path)?;
            match from {
                FileSource::Copy(from) => drop(fs::copy(from, &path).map_err(AssembleError::io(from))?),
                FileSource::Truncated(from) => {
                    truncate_accuracy_log::truncated(from, &path).map_err(AssembleError::io(from))?;
                }
                FileSource::Text(text) => fs::write(&path, text).map_err(AssembleError::io(&path))?,
            }
        }
        for ((submitter, system), lock) in &self.locks {
            let alone = self.locks.keys().filter(|(other, _)| other == submitter).count() == 1;
            let name = PackageProvenance::file_name((!alone).then_some(system));
            let path = above(out, &submitter.join("documentation").join(name))?;
            let text = serde_json::to_string_pretty(lock)
                .map_err(|source| AssembleError::Json { path: path.clone(), source })?;
            fs::write(&path, text + "\n").map_err(AssembleError::io(&path))?;
        }
        Ok(())
    }
}

/// The path in `out`, with the folders above it made.
fn above(out: &Path, path: &Path) -> Result<PathBuf, AssembleError> {
    let path = out.join(path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(AssembleError::io(folder))?;
    }
    Ok(path)
}

fn is_same(one: &FileSource, other: &FileSource) -> Result<bool, AssembleError> {
    let hash = |path: &PathBuf| sha256_of_file(path).map_err(AssembleError::io(path));
    Ok(match (one, other) {
        (FileSource::Copy(one), FileSource::Copy(other))
        | (FileSource::Truncated(one), FileSource::Truncated(other)) => hash(one)? == hash(other)?,
        (FileSource::Text(one), FileSource::Text(other)) => one == other,
        (FileSource::Copy(path), FileSource::Text(text)) | (FileSource::Text(text), FileSource::Copy(path)) => {
            read_bytes(path).map_err(AssembleError::io(path))? == text.as_bytes()
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
