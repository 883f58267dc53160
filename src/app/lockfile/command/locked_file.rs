//! Opens a lock file, or one run of it, for commands that need it to exist.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::CommandError;
use crate::lockfile::{LockFile, LockFileError, LockSection, read};
use base::diag::ErrorText;
use base::files::{metadata_if_there, read_text};

/// One run of a lock file; else lists the existing ones.
pub(super) fn section_of<'a>(file: &'a LockFile, run: &str, path: &str) -> Result<&'a LockSection, CommandError> {
    file.runs.get(run).ok_or_else(|| {
        let known: Vec<&str> = file.runs.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "it has none".to_owned() } else { format!("it has: {}", known.join("; ")) };
        let error = ErrorText::new(format!("error: {path} has no run `{run}`\n  {known}"));
        CommandError::Differs(format!("{}\n", error.hint("the same command without --locked writes it after success")))
    })
}

/// A lock file that must exist; with `#RUN`, that run alone.
pub(super) fn open(word: &str) -> Result<LockFile, CommandError> {
    locked_at(word)?.ok_or_else(|| {
        let path = word.split('#').next().unwrap_or(word);
        let what = match metadata_if_there(Path::new(path)) {
            Ok(Some(_)) => "is no lock file",
            Ok(None) => "is not there",
            Err(error) => return anyhow::anyhow!("cannot read {path}: {error}").into(),
        };
        CommandError::usage(
            ErrorText::new(format!("{path} {what}")).hint("`regatta run MANIFEST` writes one when all has ended well"),
        )
    })
}

/// `None`: there is nothing there, or something else.
pub(super) fn locked_at(word: &str) -> Result<Option<LockFile>, CommandError> {
    let (path, run) = word.split_once('#').map_or((word, None), |(path, run)| (path, Some(run)));
    let Ok(text) = read_text(path) else { return Ok(None) };
    let mut file = match read(&text) {
        Ok(file) => file,
        Err(LockFileError::Text(_)) if !text.lines().any(|line| line.starts_with("lock:")) => return Ok(None),
        Err(why) => return Err(unreadable(path, &why)),
    };
    if let Some(run) = run {
        let section = section_of(&file, run, path)?.clone();
        file.runs = BTreeMap::from([(run.to_owned(), section)]);
    }
    Ok(Some(file))
}

pub(super) fn unreadable(path: &str, why: &LockFileError) -> CommandError {
    let hint = match why {
        LockFileError::Newer(_) => "install a newer regatta",
        LockFileError::Merge => "take either side, or remove the file; a run that ends well writes its own part anew",
        LockFileError::Text(_) => {
            "take it from version control, or remove it; a successful run writes its own entry again"
        }
    };
    CommandError::usage(ErrorText::new(format!("{path} cannot be read: {why}")).hint(hint))
}
