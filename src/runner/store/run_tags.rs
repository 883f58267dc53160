//! The names that a user gives to runs: lines of `tags` in a run's folder. What a tagged run measured is kept by `gc`.

use std::path::PathBuf;

use super::durable::{PathError, replace, text_if_there};
use super::{StateFolder, readable_runs};
use base::event::{RunId, RunTag};

fn file(home: &StateFolder, run: &RunId) -> PathBuf {
    home.run(run).join("tags")
}

/// The tags of a run, in the order in which they were given. A line that is no tag is none.
pub fn tags_of(home: &StateFolder, run: &RunId) -> Result<Vec<RunTag>, PathError> {
    let text = text_if_there(&file(home, run))?.unwrap_or_default();
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// The run with that tag, of those that can be looked at.
pub fn tagged_run(home: &StateFolder, tag: &RunTag) -> Result<Option<RunId>, PathError> {
    for run in readable_runs(home)?.0.into_iter().rev() {
        if tags_of(home, &run)?.contains(tag) {
            return Ok(Some(run));
        }
    }
    Ok(None)
}

/// Gives a run a tag, and takes it from the run that had it.
pub fn set_tag(home: &StateFolder, run: &RunId, tag: &RunTag) -> Result<(), PathError> {
    remove_tag(home, tag)?;
    let mut tags = tags_of(home, run)?;
    tags.push(tag.clone());
    write(home, run, &tags)
}

/// Takes a tag from the run that has it, and returns that run.
pub fn remove_tag(home: &StateFolder, tag: &RunTag) -> Result<Option<RunId>, PathError> {
    let Some(run) = tagged_run(home, tag)? else { return Ok(None) };
    let mut tags = tags_of(home, &run)?;
    tags.retain(|other| other != tag);
    write(home, &run, &tags)?;
    Ok(Some(run))
}

fn write(home: &StateFolder, run: &RunId, tags: &[RunTag]) -> Result<(), PathError> {
    let lines: Vec<&str> = tags.iter().map(RunTag::as_str).collect();
    replace(&file(home, run), lines.join("\n").as_bytes())
}
