//! The result files of other tools in files and folders: those that belong together, and the runs in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

use super::file_format::OtherFile;
use super::printed::LOADGEN_LOG_FILES;
use super::read::{ImportError, ImportSource, Imported, import_runs};
use base::files::{foreign_text, read_bytes, read_document};

/// How many levels of folders below a named folder are searched.
const DEPTH: usize = 5;
/// Suffixes of files that may contain what a tool printed, or its table.
const PRINTED: [&str; 4] = ["log", "out", "txt", "csv"];
/// The largest log that is searched for printed results; a server's log can fill a disk.
const MAX_PRINTED: u64 = 64 << 20;

/// One run and the path of its files, whose names tell the level where the contents do not.
#[derive(Clone, Debug)]
pub struct LocatedRun {
    pub place: PathBuf,
    pub run: Imported,
}

/// The runs in files and folders.
#[derive(Debug, Default)]
pub struct LocatedRuns {
    pub runs: Vec<LocatedRun>,
    /// Named files that are no results of runs, and those of folders of which it is known why they are not read.
    pub unread: Vec<String>,
}

/// Every run in files and folders, with those in folders below. At least one.
///
/// # Errors
/// A file cannot be read, no file is a known result, or the files of one folder are from several tools.
pub fn locate_runs(paths: &[PathBuf]) -> Result<LocatedRuns, ImportError> {
    let name = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" + ");
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = paths.iter().cloned().partition(|path| path.is_dir());
    let mut none = ImportError::Unknown { name: name.clone() };
    let mut located = runs_of_files(&name, &files)?;
    if located.runs.is_empty()
        && !files.is_empty()
        && let Err(error @ ImportError::Other { .. }) = import_runs(&name, &read(&files)?)
    {
        none = error.of_files(&files);
    }
    let mut below = Vec::new();
    for folder in &folders {
        groups_below(folder, DEPTH, &mut below)?;
    }
    for FolderFiles { results, printed } in below {
        // The printed output of a tool has the same numbers as the result file next to it.
        for files in [results, printed] {
            let sources = read(&files)?;
            match import_runs(&name, &sources) {
                Ok(runs) => {
                    let is_read = |name: &String| runs.iter().any(|(_, run)| run.result.imported.from.contains(name));
                    let others = files.iter().zip(&sources).filter(|(_, source)| !is_read(&source.name));
                    let named = |(file, source): (&PathBuf, &ImportSource)| {
                        Some(format!("{} ({})", file.display(), OtherFile::detect(&source.text)?.is))
                    };
                    located.unread.extend(others.filter_map(named));
                    located.runs.extend(with_places(&files, runs));
                    break;
                }
                // Files that are no results, and accuracy runs beside the performance runs of a submission.
                Err(ImportError::Unknown { .. }) => {}
                Err(
                    error @ (ImportError::AccuracyRun { .. } | ImportError::Empty { .. } | ImportError::Other { .. }),
                ) => {
                    // The first says most: a stray file may lie beside the log of an accuracy run.
                    if matches!(none, ImportError::Unknown { .. }) {
                        none = error.of_files(&files);
                    }
                }
                Err(error) => return Err(error.of_files(&files)),
            }
        }
    }
    // Folders are listed by name: `c10` before `c2`.
    if located.runs.is_empty() { Err(none) } else { Ok(located) }
}

/// The run whose logs LoadGen wrote into a folder; `None` if the folder has no such logs.
///
/// # Errors
/// The logs cannot be read, or are of an accuracy run.
pub fn loadgen_run(folder: &Path) -> Option<Result<Imported, ImportError>> {
    let logs = loadgen_logs(folder);
    let runs = (!logs.is_empty()).then(|| locate_runs(&logs))?;
    runs.map(|located| located.runs.into_iter().next().map(|located| located.run)).transpose()
}

/// Files that were named are those of one run, or those of each folder belong together. Those that are no results are
/// listed.
fn runs_of_files(name: &str, files: &[PathBuf]) -> Result<LocatedRuns, ImportError> {
    let mut located = LocatedRuns::default();
    if files.is_empty() {
        return Ok(located);
    }
    // The summary of a run and its records may be in two folders.
    let together = import_runs(name, &read(files)?);
    if let Ok([(_, run)]) = together.as_deref()
        && run.result.imported.from.len() == files.len()
    {
        located.runs = with_places(files, together?);
        return Ok(located);
    }
    let mut groups: Vec<Vec<PathBuf>> = Vec::new();
    for file in files {
        match groups.iter_mut().find(|group| group[0].parent() == file.parent()) {
            Some(group) => group.push(file.clone()),
            None => groups.push(vec![file.clone()]),
        }
    }
    for group in groups {
        let runs = match import_runs(name, &read(&group)?) {
            Err(ImportError::Unknown { .. } | ImportError::Other { .. }) => Vec::new(),
            runs => runs?,
        };
        let is_read = |name: &String| {
            let is_pair = runs.len() == 1 && LOADGEN_LOG_FILES.contains(&name.as_str());
            is_pair || runs.iter().any(|(_, run)| run.result.imported.from.contains(name))
        };
        let unread = group.iter().filter(|file| !is_read(&file_name(file)));
        located.unread.extend(unread.map(|file| file.display().to_string()));
        located.runs.extend(with_places(&group, runs));
    }
    if located.runs.is_empty() {
        located.unread.clear();
    }
    Ok(located)
}

fn with_places(files: &[PathBuf], runs: Vec<(String, Imported)>) -> Vec<LocatedRun> {
    let place = |name: &str| files.iter().find(|file| file_name(file) == name).cloned().unwrap_or_else(|| name.into());
    runs.into_iter().map(|(name, run)| LocatedRun { place: place(&name), run }).collect()
}

/// The files of a folder that a tool may have left in it.
struct FolderFiles {
    results: Vec<PathBuf>,
    /// Logs, which may have what a tool printed.
    printed: Vec<PathBuf>,
}

fn groups_below(folder: &Path, depth: usize, groups: &mut Vec<FolderFiles>) -> Result<(), ImportError> {
    let mut items: Vec<PathBuf> = fs::read_dir(folder)
        .map_err(read_error(folder))?
        .flatten()
        .map(|item| item.path())
        .filter(|path| !file_name(path).starts_with('.'))
        .collect();
    items.sort();
    groups.push(files_of(folder, &items));
    if depth == 0 {
        return Ok(());
    }
    let mut folders = items.iter().filter(|item| item.is_dir());
    folders.try_for_each(|folder| groups_below(folder, depth - 1, groups))
}

fn files_of(folder: &Path, items: &[PathBuf]) -> FolderFiles {
    // The folder of a LoadGen run has further files, with every answer.
    let logs = loadgen_logs(folder);
    if !logs.is_empty() {
        return FolderFiles { results: logs, printed: Vec::new() };
    }
    let files = || items.iter().filter(|item| item.is_file());
    let is_short = |file: &&PathBuf| fs::metadata(file).is_ok_and(|file| file.len() <= MAX_PRINTED);
    FolderFiles {
        results: files().filter(|file| has_end(file, &["json", "jsonl", "yaml"])).cloned().collect(),
        printed: files().filter(|file| has_end(file, &PRINTED)).filter(is_short).cloned().collect(),
    }
}

fn loadgen_logs(folder: &Path) -> Vec<PathBuf> {
    LOADGEN_LOG_FILES.iter().map(|name| folder.join(name)).filter(|file| file.is_file()).collect()
}

fn has_end(path: &Path, ends: &[&str]) -> bool {
    path.extension().is_some_and(|end| ends.iter().any(|other| end == *other))
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn read(files: &[PathBuf]) -> Result<Vec<ImportSource>, ImportError> {
    let source = |path: &PathBuf| {
        // A log may contain bytes that another program wrote.
        let text = if has_end(path, &PRINTED) {
            let lossy = |error: FromUtf8Error| String::from_utf8_lossy(error.as_bytes()).into_owned();
            read_bytes(path).map(|bytes| foreign_text(bytes).unwrap_or_else(lossy))
        } else {
            read_document(path)
        };
        Ok(ImportSource { name: file_name(path), text: text.map_err(read_error(path))? })
    };
    files.iter().map(source).collect()
}

fn read_error(path: &Path) -> impl Fn(std::io::Error) -> ImportError {
    move |source| ImportError::File { path: path.to_owned(), source }
}
