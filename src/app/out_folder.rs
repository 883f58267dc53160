//! A folder that a user names with `--out` for the copy of a result: what in it an earlier copy left, and what is the
//! user's own.

use std::fs;
use std::path::{Path, PathBuf};

use super::bench::manifest::is_bench_manifest;
use super::found_result::SEEN;
use crate::error::CommandError;
use base::diag::ErrorText;
use base::files::read_text;
use harness::{GPU_READINGS, REPEATS, REQUESTS, RESULT, SWEEP, SWEEP_POINTS, SweepReport};
use interop::MeasuredResult;
use runner::store::{PathError, WithPath as _, copy_named, discard, is_there, items_in, move_items, write_named};

/// The files of one run that are copied.
pub(super) const FILES: [&str; 3] = [RESULT, REQUESTS, GPU_READINGS];
/// How many files a message names.
const NAMED: usize = 5;

/// What is in the way of a copy.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OutFolder {
    /// Whether an earlier copy is there.
    pub has_result: bool,
    /// Files of an earlier copy.
    own: Vec<PathBuf>,
    /// The folders that these are in, the deepest last.
    folders: Vec<PathBuf>,
    /// What would be replaced, and was not written by Regatta.
    others: Vec<PathBuf>,
}

impl OutFolder {
    /// # Errors
    /// What is in the folder cannot be known, or some of it would be replaced and was not written by Regatta.
    pub(super) fn of(folder: &Path) -> Result<Self, CommandError> {
        if folder.is_file() {
            return Err(CommandError::Usage(format!("`--out {}` is a file: name a folder", folder.display())));
        }
        let mut contents = Self::default();
        let is_result = has_result(folder);
        let is_sweep = SweepReport::read(&folder.join(SWEEP)).is_ok();
        contents.has_result = is_result || is_sweep;
        for path in items_in(folder)? {
            let is_own = match path.file_name().and_then(|name| name.to_str()).unwrap_or_default() {
                RESULT => is_result,
                SWEEP => is_sweep,
                REQUESTS | SEEN | GPU_READINGS | "report.html" | "sweep.html" => contents.has_result,
                "manifest.yaml" => contents.has_result && read_text(&path).is_ok_and(|text| is_bench_manifest(&text)),
                REPEATS | SWEEP_POINTS => {
                    contents.read_runs(path)?;
                    continue;
                }
                _ => continue,
            };
            if is_own && path.is_file() { &mut contents.own } else { &mut contents.others }.push(path);
        }
        if contents.others.is_empty() { Ok(contents) } else { Err(contents.refusal(folder)) }
    }

    /// A folder with a folder for each run.
    fn read_runs(&mut self, folder: PathBuf) -> Result<(), CommandError> {
        if !folder.is_dir() || folder.is_symlink() {
            self.others.push(folder);
            return Ok(());
        }
        self.folders.push(folder.clone());
        for run in items_in(&folder)? {
            if !has_result(&run) {
                self.others.push(run);
                continue;
            }
            self.folders.push(run.clone());
            for item in items_in(&run)? {
                if item.ends_with(REPEATS) {
                    self.read_runs(item)?;
                } else if FILES.iter().any(|name| item.ends_with(name)) || item.ends_with(SEEN) {
                    self.own.push(item);
                } else {
                    self.others.push(item);
                }
            }
        }
        Ok(())
    }

    /// The same benchmark again replaces its own result, and nothing else.
    ///
    /// # Errors
    /// The earlier copy is of another benchmark than the one of this manifest.
    pub(super) fn refuse_another_benchmark(&self, folder: &Path, manifest: &str) -> Result<(), CommandError> {
        let is_same = || read_text(folder.join("manifest.yaml")).is_ok_and(|text| text == manifest);
        if !self.has_result || is_same() {
            return Ok(());
        }
        let name = folder.display();
        let message = format!("`--out {name}` holds the result of another benchmark, which would be lost");
        let hint = format!("name another folder, or remove {name} first; only the same benchmark may replace a result");
        Err(CommandError::hinted(message, hint))
    }

    fn refusal(&self, folder: &Path) -> CommandError {
        let names: Vec<String> = self.others.iter().take(NAMED).map(|path| path.display().to_string()).collect();
        let more = match self.others.len().saturating_sub(NAMED) {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        let (folder, names) = (folder.display(), names.join(", "));
        let message = format!("`--out {folder}` would replace what Regatta did not write there: {names}{more}");
        CommandError::hinted(message, "name another folder, or move these away")
    }

    /// Removes the earlier copy: its parts would be taken for those of the next one.
    ///
    /// # Errors
    /// A file of it cannot be removed.
    fn remove(&self) -> Result<(), CommandError> {
        for path in &self.own {
            discard(path)?;
        }
        for folder in self.folders.iter().rev() {
            // One with other things in it stays.
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }
}

/// A result for a folder that a user names. It is collected in a folder of its own inside of that one, and takes the
/// place of an earlier copy only when it is whole.
pub(super) struct NewResult {
    folder: PathBuf,
    collected: PathBuf,
    makes_folder: bool,
    stays: bool,
}

impl NewResult {
    /// # Errors
    /// It would replace what Regatta did not write, or the folder cannot be used.
    pub(super) fn begin(folder: &Path) -> Result<Self, CommandError> {
        OutFolder::of(folder)?;
        let new = Self {
            folder: folder.to_owned(),
            collected: folder.join(format!(".regatta.tmp{}", std::process::id())),
            makes_folder: !is_there(folder)?,
            stays: false,
        };
        // An earlier process with this number may have left one.
        discard(&new.collected)?;
        fs::create_dir_all(&new.collected).at("create", folder)?;
        Ok(new)
    }

    /// Adds a copy of a file, under this path in the folder.
    pub(super) fn copy(&self, from: &Path, name: &Path) -> Result<(), CommandError> {
        let add = || self.place(name).and_then(|place| copy_named(from, &place));
        add().map_err(|error| {
            let to = self.folder.join(name);
            anyhow::anyhow!("cannot copy {} to {}: {}", from.display(), to.display(), error.source).into()
        })
    }

    /// Adds a file.
    pub(super) fn write(&self, name: &Path, bytes: impl AsRef<[u8]>) -> Result<(), CommandError> {
        let add = || self.place(name).and_then(|place| write_named(&place, bytes));
        Ok(add().map_err(|error| PathError { doing: "write", path: self.folder.join(name), source: error.source })?)
    }

    fn place(&self, name: &Path) -> Result<PathBuf, PathError> {
        let place = self.collected.join(name);
        let above = place.parent().unwrap_or(&self.collected);
        fs::create_dir_all(above).at("create", above)?;
        Ok(place)
    }

    /// Replaces the earlier copy: its parts would be taken for those of this one.
    pub(super) fn publish(mut self) -> Result<(), CommandError> {
        // Something may have been put there meanwhile.
        OutFolder::of(&self.folder)?.remove()?;
        if let Err(error) = move_items(&self.collected, &self.folder) {
            self.stays = true;
            let place = self.collected.display();
            return Err(anyhow::Error::new(
                ErrorText::new(error).hint(format!("what could not be moved is in {place}")),
            )
            .into());
        }
        Ok(())
    }
}

impl Drop for NewResult {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        let _ = discard(&self.collected);
        if self.makes_folder {
            // Only if nothing is in it.
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// Whether a measurement's result is there, or an imported one.
fn has_result(folder: &Path) -> bool {
    read_text(folder.join(RESULT)).is_ok_and(|text| MeasuredResult::read(&text).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str = include_str!("../../tests/golden/results/benchmark/result.json");

    fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn what_an_earlier_copy_left_is_removed_and_the_rest_stays() {
        let manifest = "regatta: 1\nname: bench\nabout: regatta bench sim:h100\n";
        let folder = folder_with(&[
            ("manifest.yaml", manifest),
            ("notes", "mine"),
            ("points/01-2/repeats/01/result.json", RESULT),
            ("points/01-2/result.json", RESULT),
            ("report.html", ""),
            ("requests.jsonl", ""),
            ("result.json", RESULT),
        ]);
        let Ok(found) = OutFolder::of(folder.path()) else { panic!("refused") };
        assert!(found.has_result);
        assert!(found.remove().is_ok());
        assert_eq!(items_in(folder.path()).unwrap(), [folder.path().join("notes")]);
    }

    #[test]
    fn an_earlier_copy_stays_until_the_new_one_is_whole() {
        let files = [("notes", "mine"), ("requests.jsonl", "old"), ("result.json", RESULT)];
        let folder = folder_with(&files);
        let source = folder_with(&[("requests.jsonl", "new")]);
        let begin = |folder: &Path| {
            let Ok(new) = NewResult::begin(folder) else { panic!("refused") };
            assert!(new.copy(&source.path().join("requests.jsonl"), Path::new("requests.jsonl")).is_ok());
            new
        };
        let new = begin(folder.path());
        let Err(CommandError::Other(why)) = new.copy(source.path(), Path::new("points/1/result.json")) else {
            panic!("a folder is not a file")
        };
        let to = folder.path().join("points/1/result.json");
        let text = format!("cannot copy {} to {}: ", source.path().display(), to.display());
        assert!(why.to_string().starts_with(&text), "{why}");
        drop(new);
        assert_eq!(items_in(folder.path()).unwrap(), files.map(|(name, _)| folder.path().join(name)));
        assert_eq!(read_text(folder.path().join("requests.jsonl")).unwrap(), "old");

        let new = begin(folder.path());
        assert!(new.write(Path::new("points/1/result.json"), RESULT).is_ok());
        assert!(new.publish().is_ok());
        let names = ["notes", "points", "requests.jsonl"].map(|name| folder.path().join(name));
        assert_eq!(items_in(folder.path()).unwrap(), names);
        assert_eq!(read_text(folder.path().join("requests.jsonl")).unwrap(), "new");

        let absent = folder.path().join("absent");
        drop(begin(&absent));
        assert!(!absent.exists());
    }

    #[test]
    fn what_is_not_of_regatta_is_refused_by_its_name() {
        for (name, text) in [
            ("manifest.yaml", "mine"),
            ("points/gps.csv", "x"),
            ("points/01-2/requests.jsonl", "x"),
            ("repeats/01/x", "x"),
            ("requests.jsonl", "x"),
            ("result.json", "{}"),
        ] {
            let folder = folder_with(&[(name, text)]);
            let Err(CommandError::Usage(why)) = OutFolder::of(folder.path()) else { panic!("{name} is taken") };
            let first = name.rsplit_once('/').map_or(name, |(above, _)| above);
            assert!(why.contains(first), "{why}");
            assert!(folder.path().join(name).exists());
        }
        let beside = folder_with(&[("result.json", RESULT), ("manifest.yaml", "mine")]);
        assert!(OutFolder::of(beside.path()).is_err());
        let file = OutFolder::of(&beside.path().join("manifest.yaml"));
        assert!(matches!(file, Err(CommandError::Usage(why)) if why.ends_with("is a file: name a folder")));
        assert!(OutFolder::of(&beside.path().join("absent")).is_ok());
    }
}
