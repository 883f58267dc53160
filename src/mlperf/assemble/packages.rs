//! Packages as parts: submission folders, of Regatta or of another tool.

use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use walkdir::WalkDir;

use super::request::{AssembleError, AssembleRequest};
use super::tree::{FileSource, SubmissionTree};
use crate::layout::scenario_titled;
use crate::{LockedResult, LockedRun, PackageProvenance, REHEARSAL_FILE, SubmissionLayout};
use base::files::sha256_of_file;
use base::spec::TestMode;
use rules::log::{DETAIL_FILE, SUMMARY_FILE};

const LOGS: [&str; 2] = [SUMMARY_FILE, DETAIL_FILE];
const DIVISIONS: [&str; 3] = ["closed", "open", "network"];

/// The folder with the divisions: the part itself, or the package of a project's last run.
pub(super) fn root(part: &Path) -> Result<PathBuf, AssembleError> {
    let has_division = |folder: &Path| DIVISIONS.iter().any(|division| folder.join(division).is_dir());
    let found = [part.to_owned(), part.join("latest/package")].into_iter().find(|folder| has_division(folder));
    found.ok_or_else(|| AssembleError::NoPackage(part.to_owned()))
}

/// Adds everything below the divisions of a package.
pub(super) fn add(tree: &mut SubmissionTree, root: &Path, request: &AssembleRequest) -> Result<(), AssembleError> {
    for division in DIVISIONS {
        let Ok(items) = std::fs::read_dir(root.join(division)) else { continue };
        for item in items {
            let submitter = item.map_err(AssembleError::io(root))?.path();
            if submitter.is_dir() {
                let below = submitter.strip_prefix(root).unwrap_or(&submitter).to_owned();
                submitted(tree, &submitter, &below, request)?;
            }
        }
    }
    Ok(())
}

fn submitted(
    tree: &mut SubmissionTree,
    submitter: &Path,
    below: &Path,
    request: &AssembleRequest,
) -> Result<(), AssembleError> {
    let locks = PackageProvenance::all(submitter)
        .map_err(|error| AssembleError::Parts(vec![format!("{}: {error}", submitter.display())]))?;
    for lock in &locks {
        if lock.rehearsal && !request.rehearse {
            tree.problem(format!("{} is a rehearsal; --rehearse assembles it for practice", submitter.display()));
        }
    }
    let system = systems(submitter).into_iter().next().unwrap_or_default();
    let of_others = systems(submitter).into_iter().filter(|system| locks.iter().all(|lock| lock.system != *system));
    for system in of_others.collect::<Vec<_>>() {
        let lock = recorded(tree, submitter, below, system)?;
        tree.lock(below, lock);
    }
    for lock in locks {
        tree.lock(below, lock);
    }
    for item in WalkDir::new(submitter).follow_links(true).sort_by_file_name() {
        let item = item.map_err(|error| AssembleError::Io { path: submitter.to_owned(), source: error.into() })?;
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
fn recorded(
    tree: &SubmissionTree,
    submitter: &Path,
    below: &Path,
    system: String,
) -> Result<PackageProvenance, AssembleError> {
    let mut results = Vec::new();
    for benchmark in names(&submitter.join("results").join(&system)) {
        for title in names(&submitter.join("results").join(&system).join(&benchmark)) {
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
    Ok(PackageProvenance {
        regatta: env!("CARGO_PKG_VERSION").to_owned(),
        round: tree.round.name.clone(),
        division: below.iter().next().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        submitter: below.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        system,
        rehearsal: false,
        results,
        stages: Vec::new(),
    })
}

/// The hashes of those files that are there.
fn hashed(paths: impl IntoIterator<Item = PathBuf>) -> Result<LockedRun, AssembleError> {
    let mut run = LockedRun::default();
    for path in paths.into_iter().filter(|path| path.is_file()) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        run.files.insert(name, sha256_of_file(&path).map_err(AssembleError::io(&path))?);
    }
    Ok(run)
}

/// Names of the systems that a package has results of.
fn systems(submitter: &Path) -> Vec<String> {
    names(&submitter.join("results"))
}

/// Names of what is in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let items = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = items.map(|item| item.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Puts a folder of texts into the documentation of every submitter.
pub(super) fn documentation(tree: &mut SubmissionTree, folder: &Path) -> Result<(), AssembleError> {
    let mut submitters: Vec<PathBuf> = tree.files.keys().map(|path| path.iter().take(2).collect()).collect();
    submitters.dedup();
    for item in WalkDir::new(folder).sort_by_file_name() {
        let item = item.map_err(|error| AssembleError::Io { path: folder.to_owned(), source: error.into() })?;
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
