//! What in a state folder is Regatta's own, by the names that the store gives: a user can name any folder with `--home`.

use std::fs;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use super::StateFolder;
use super::durable::{PathError, WithPath as _, discard, half_written_by, items_in};
use super::latest::only_links;
use super::lock::is_lock;
use super::state_folder::{is_output_name, is_short_digest};
use base::files::is_absence;

/// Files directly in a state folder.
const FILES: [&str; 4] = ["lock", "records", "replaced", "stats"];

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
    /// `is_shipped`: whether the program has a file of this name in it, of which `shipped` has a copy. The link `latest` is not
    /// among the items. `None`: the folder has something in it, and nothing of it shows that Regatta ever kept state there.
    ///
    /// # Errors
    /// A folder in it cannot be listed.
    pub fn of(home: &StateFolder, is_shipped: &impl Fn(&str) -> bool) -> Result<Option<Self>, PathError> {
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
        let of = |files: &[&str]| StateItems::of(&folder_with(files).1, &|_| false).unwrap().is_some();
        assert!(of(&[]));
        for files in [
            &["thesis.tex"][..],
            &["records", "stats"],
            &["lock"],
            &["bench/notes", "out/mine/x", "runs/20261127-045250/x"],
        ] {
            assert!(!of(files), "{files:?}");
        }
        assert!(of(&["plans/0123456789abcdef.plan"]) && of(&["out/0123456789abcdef-0/x"]));
    }

    #[test]
    fn only_what_regatta_made_is_removed() {
        let own = [
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
        let (_folder, home) = folder_with(&[&own[..], &others].concat());
        let items = StateItems::of(&home, &|name| name == "a/b").unwrap().unwrap();
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
