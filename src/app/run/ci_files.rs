//! What a run writes for the CI job that it is part of: JUnit XML where it is requested, and a part of the job's summary page.

use std::path::Path;

use crate::console::print_error;
use crate::error::CommandError;
use report::{RunState, junit_xml, markdown_summary};
use runner::store::{PathError, append_named, write_named};

/// The variable in which GitHub Actions names the file of the job's summary.
pub(super) const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// What of them could not be written.
#[derive(Default)]
pub(super) struct CiFiles {
    junit: Option<PathError>,
    step_summary: Option<PathError>,
}

/// Before anything runs: a stage makes no folder for it.
///
/// # Errors
/// There is no folder for the file, or a folder in its place.
pub(super) fn check_junit(file: &Path) -> Result<(), CommandError> {
    if file.is_dir() {
        return Err(CommandError::Usage(format!("`--junit {}` is a folder: name a file", file.display())));
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.is_dir() {
        return Ok(());
    }
    Err(CommandError::Usage(format!("`--junit {}`: there is no folder {}", file.display(), folder.display())))
}

impl CiFiles {
    pub(super) fn write(state: &RunState, junit: Option<&Path>, step_summary: Option<&Path>) -> Self {
        Self {
            junit: junit.and_then(|path| write_named(path, junit_xml(state)).err()),
            // Other steps of the job have written theirs into the same file.
            step_summary: step_summary.and_then(|path| append_named(path, markdown_summary(state)).err()),
        }
    }

    /// Whether the JUnit file was written, if one is requested: it is the user's output. The summary is for readers only, so
    /// the run ends as it would have ended without it.
    pub(super) const fn is_junit_written(&self) -> bool {
        self.junit.is_none()
    }

    pub(super) fn print_errors(&self) {
        for (severity, error) in [("error", &self.junit), ("warning", &self.step_summary)] {
            if let Some(error) = error {
                print_error(&format!("{severity}: {error}\n"));
            }
        }
    }
}
