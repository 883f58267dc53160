//! What a run writes for the CI job that it is part of: JUnit XML where it is requested, and a part of the job's summary page.

use std::path::Path;

use crate::app::output::print_error;
use crate::report::{RunState, junit_xml, markdown_summary};
use crate::runner::store::{PathError, append_named, write_named};

/// The variable in which GitHub Actions names the file of the job's summary.
pub(super) const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// Writes them. Whether the JUnit file was written, if one is requested: it is the user's output. The summary is for readers only, so
/// the run ends as it would have ended without it.
pub(super) fn write(state: &RunState, junit: Option<&Path>, step_summary: Option<&Path>) -> bool {
    let written = |severity: &str, result: Result<(), PathError>| {
        if let Err(error) = &result {
            print_error(&format!("{severity}: {error}\n"));
        }
        result.is_ok()
    };
    let is_written = junit.is_none_or(|path| written("error", write_named(path, junit_xml(state))));
    if let Some(path) = step_summary {
        // Other steps of the job have written theirs into the same file.
        written("warning", append_named(path, markdown_summary(state)));
    }
    is_written
}
