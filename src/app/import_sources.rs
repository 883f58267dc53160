//! The result files of other tools: those that belong together, and the runs in them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::app::error::CommandError;
use crate::files::read_text;
use crate::interop::{self, ImportError, ImportSource, LOADGEN_LOG_FILES, LocatedRun};

/// Folders below a named one are looked into so far.
const DEPTH: usize = 4;

/// Every run in files and folders, with those in folders below. At least one.
pub(super) fn located_runs(paths: &[PathBuf]) -> Result<Vec<LocatedRun>, CommandError> {
    let name = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" + ");
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = paths.iter().cloned().partition(|path| path.is_dir());
    let mut runs = of_files(&name, &files)?;
    let mut below = Vec::new();
    for folder in &folders {
        groups_below(folder, DEPTH, &mut below)?;
    }
    let mut none = ImportError::Unknown { name: name.clone() };
    for files in below {
        match interop::import_runs(&name, &read(&files)?) {
            Ok(found) => runs.extend(located(&files, found)),
            // Files that are no results, and accuracy runs beside the performance runs of a submission.
            Err(ImportError::Unknown { .. }) => {}
            Err(error @ ImportError::AccuracyRun { .. }) => none = error,
            Err(error) => return Err(CommandError::usage(error)),
        }
    }
    if runs.is_empty() {
        return Err(CommandError::usage(none));
    }
    // Folders are listed by name: `c10` before `c2`.
    Ok(runs)
}

/// Files that were named are those of one run, or those of each folder belong together.
fn of_files(name: &str, files: &[PathBuf]) -> Result<Vec<LocatedRun>, CommandError> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let together = interop::import_runs(name, &read(files)?);
    if together.as_ref().is_ok_and(|runs| runs.len() == 1) || files.len() == 1 {
        return Ok(located(files, together.map_err(CommandError::usage)?));
    }
    let mut groups: Vec<Vec<PathBuf>> = Vec::new();
    for file in files {
        match groups.iter_mut().find(|group| group[0].parent() == file.parent()) {
            Some(group) => group.push(file.clone()),
            None => groups.push(vec![file.clone()]),
        }
    }
    let mut runs = Vec::new();
    for group in groups {
        let found = interop::import_runs(name, &read(&group)?).map_err(CommandError::usage)?;
        runs.extend(located(&group, found));
    }
    Ok(runs)
}

fn located(files: &[PathBuf], runs: Vec<(String, interop::Imported)>) -> Vec<LocatedRun> {
    let place = |name: &str| files.iter().find(|file| file_name(file) == name).cloned().unwrap_or_else(|| name.into());
    runs.into_iter().map(|(name, run)| LocatedRun { place: place(&name), run }).collect()
}

/// The files of each folder that a tool may have left in it.
fn groups_below(folder: &Path, depth: usize, groups: &mut Vec<Vec<PathBuf>>) -> Result<(), CommandError> {
    groups.push(files_of(folder)?);
    if depth == 0 {
        return Ok(());
    }
    let mut below: Vec<PathBuf> = items(folder)?.into_iter().filter(|item| item.is_dir() && !is_hidden(item)).collect();
    below.sort();
    below.iter().try_for_each(|folder| groups_below(folder, depth - 1, groups))
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>, CommandError> {
    // The folder of a LoadGen run has further files, with every answer.
    let logs: Vec<PathBuf> =
        LOADGEN_LOG_FILES.iter().map(|name| folder.join(name)).filter(|file| file.is_file()).collect();
    if !logs.is_empty() {
        return Ok(logs);
    }
    let is_result = |item: &PathBuf| {
        let known = item.extension().is_some_and(|end| ["json", "jsonl", "yaml"].iter().any(|known| end == *known));
        known && item.is_file() && !is_hidden(item)
    };
    let mut inside: Vec<PathBuf> = items(folder)?.into_iter().filter(is_result).collect();
    inside.sort();
    Ok(inside)
}

fn items(folder: &Path) -> Result<Vec<PathBuf>, CommandError> {
    Ok(fs::read_dir(folder).map_err(read_error(folder))?.flatten().map(|item| item.path()).collect())
}

fn is_hidden(path: &Path) -> bool {
    file_name(path).starts_with('.')
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn read(files: &[PathBuf]) -> Result<Vec<ImportSource>, CommandError> {
    let source = |path: &PathBuf| {
        let text = read_text(path).map_err(read_error(path))?;
        Ok(ImportSource { name: file_name(path), text })
    };
    files.iter().map(source).collect()
}

fn read_error(path: &Path) -> impl Fn(std::io::Error) -> CommandError {
    move |error| anyhow::Error::from(error).context(format!("cannot read {}", path.display())).into()
}
