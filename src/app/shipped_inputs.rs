//! Files that a shipped manifest reads are parts of this program, too: where the project has none of that name, the stages get copies.

use std::fs;
use std::path::{Path, PathBuf};

use base::files::read_bytes;
use plan::Plan;
use plan::manifest::{is_shipped, shipped};
use runner::store::{PathError, WithPath as _, is_there, replace};

/// Writes the shipped files that the plan's inputs name and the project does not have into the state folder, and lets the inputs
/// lead there. Returns the paths in the project that would have been read: a file there would change the plan.
///
/// # Errors
///
/// A copy cannot be written, or it cannot be known whether the project has a file.
pub(super) fn provide(plan: &mut Plan, project: &Path, state: &Path) -> Result<Vec<PathBuf>, PathError> {
    let mut absent = Vec::new();
    for task in &mut plan.tasks {
        for path in task.inputs.values_mut().flatten() {
            let hiding = project.join(path.as_str());
            if !is_shipped(path) || is_there(&hiding)? {
                continue;
            }
            let copy = state.join("shipped").join(path.as_str());
            if !absent.contains(&hiding) {
                write(path, &copy)?;
                absent.push(hiding);
            }
            let written = std::mem::replace(path, copy.to_string_lossy().into_owned());
            task.shipped.insert(written, copy);
        }
    }
    Ok(absent)
}

/// A file, or all files of a folder.
fn write(path: &str, copy: &Path) -> Result<(), PathError> {
    let path = path.trim_end_matches('/');
    for (file, bytes) in shipped() {
        let Some(rest) = file.strip_prefix(path).filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
            continue;
        };
        let target = if rest.is_empty() { copy.to_owned() } else { copy.join(&rest[1..]) };
        if read_bytes(&target).is_ok_and(|there| there == bytes) {
            continue;
        }
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).at("create", parent)?;
        }
        replace(&target, bytes)?;
    }
    Ok(())
}
