//! The result files of other tools: those that belong together, and the runs in them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::console::print_error;
use crate::error::CommandError;
use base::files::{read_bytes, read_text};
use interop::{ImportError, ImportSource, LOADGEN_LOG_FILES, LocatedRun};

/// Folders below a named one are looked into so far.
const DEPTH: usize = 4;
/// Ends of files that may have what a tool printed.
const PRINTED: [&str; 3] = ["log", "out", "txt"];
/// Bytes of a log in a folder that may have what a tool printed; a server's may be as large as a disk.
const MOST_PRINTED: u64 = 64 << 20;

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
    for FolderFiles { results, printed } in below {
        // What a tool printed has the same numbers as its result beside it.
        for files in [results, printed] {
            match interop::import_runs(&name, &read(&files)?) {
                Ok(found) => {
                    runs.extend(located(&files, found));
                    break;
                }
                // Files that are no results, and accuracy runs beside the performance runs of a submission.
                Err(ImportError::Unknown { .. }) => {}
                Err(error @ ImportError::AccuracyRun { .. }) => none = error,
                Err(error) => return Err(CommandError::usage(error)),
            }
        }
    }
    if runs.is_empty() {
        return Err(CommandError::usage(none));
    }
    // Folders are listed by name: `c10` before `c2`.
    Ok(runs)
}

/// Files that were named are those of one run, or those of each folder belong together. Those that are no results are reported.
fn of_files(name: &str, files: &[PathBuf]) -> Result<Vec<LocatedRun>, CommandError> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    // The numbers of a run and its records may be in two folders.
    let together = interop::import_runs(name, &read(files)?);
    if let Ok([(_, run)]) = together.as_deref()
        && run.result.imported.from.len() == files.len()
    {
        return Ok(located(files, together.map_err(CommandError::usage)?));
    }
    let mut groups: Vec<Vec<PathBuf>> = Vec::new();
    for file in files {
        match groups.iter_mut().find(|group| group[0].parent() == file.parent()) {
            Some(group) => group.push(file.clone()),
            None => groups.push(vec![file.clone()]),
        }
    }
    let (mut runs, mut unread) = (Vec::new(), Vec::new());
    for group in groups {
        let found = match interop::import_runs(name, &read(&group)?) {
            Err(ImportError::Unknown { .. }) => Vec::new(),
            found => found.map_err(CommandError::usage)?,
        };
        let is_read = |name: &String| {
            let is_pair = found.len() == 1 && LOADGEN_LOG_FILES.contains(&name.as_str());
            is_pair || found.iter().any(|(_, run)| run.result.imported.from.contains(name))
        };
        for file in group.iter().filter(|file| !is_read(&file_name(file))) {
            unread.push(file.display().to_string());
        }
        runs.extend(located(&group, found));
    }
    if !runs.is_empty() && !unread.is_empty() {
        print_error(&format!("note: left out, because they are no results of runs: {}\n", unread.join(", ")));
    }
    Ok(runs)
}

fn located(files: &[PathBuf], runs: Vec<(String, interop::Imported)>) -> Vec<LocatedRun> {
    let place = |name: &str| files.iter().find(|file| file_name(file) == name).cloned().unwrap_or_else(|| name.into());
    runs.into_iter().map(|(name, run)| LocatedRun { place: place(&name), run }).collect()
}

/// The files of a folder that a tool may have left in it.
struct FolderFiles {
    results: Vec<PathBuf>,
    /// Logs, which may have what a tool printed.
    printed: Vec<PathBuf>,
}

fn groups_below(folder: &Path, depth: usize, groups: &mut Vec<FolderFiles>) -> Result<(), CommandError> {
    groups.push(files_of(folder)?);
    if depth == 0 {
        return Ok(());
    }
    let mut below: Vec<PathBuf> = items(folder)?.into_iter().filter(|item| item.is_dir() && !is_hidden(item)).collect();
    below.sort();
    below.iter().try_for_each(|folder| groups_below(folder, depth - 1, groups))
}

fn files_of(folder: &Path) -> Result<FolderFiles, CommandError> {
    // The folder of a LoadGen run has further files, with every answer.
    let logs: Vec<PathBuf> =
        LOADGEN_LOG_FILES.iter().map(|name| folder.join(name)).filter(|file| file.is_file()).collect();
    if !logs.is_empty() {
        return Ok(FolderFiles { results: logs, printed: Vec::new() });
    }
    let mut inside: Vec<PathBuf> =
        items(folder)?.into_iter().filter(|item| item.is_file() && !is_hidden(item)).collect();
    inside.sort();
    let with_ends = |ends: [&str; 3]| {
        let has_end = |item: &&PathBuf| item.extension().is_some_and(|end| ends.iter().any(|known| end == *known));
        inside.iter().filter(has_end).cloned().collect::<Vec<PathBuf>>()
    };
    let is_short = |file: &PathBuf| fs::metadata(file).is_ok_and(|file| file.len() <= MOST_PRINTED);
    let printed = with_ends(PRINTED).into_iter().filter(is_short).collect();
    Ok(FolderFiles { results: with_ends(["json", "jsonl", "yaml"]), printed })
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
        // A log may have bytes of another program.
        let is_log = path.extension().is_some_and(|end| PRINTED.iter().any(|known| end == *known));
        let text = if is_log {
            read_bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        } else {
            read_text(path)
        };
        let text = text.map_err(read_error(path))?;
        Ok(ImportSource { name: file_name(path), text })
    };
    files.iter().map(source).collect()
}

fn read_error(path: &Path) -> impl Fn(std::io::Error) -> CommandError {
    move |error| anyhow::Error::from(error).context(format!("cannot read {}", path.display())).into()
}
