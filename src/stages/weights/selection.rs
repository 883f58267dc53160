//! Which files of a repository are wanted.

use super::failures::refused;
use super::index::{ExpectedFile, HubIndex, stays_inside};
use base::event::Failure;
use plan::manifest::model::Weights;

/// The files of a repository that are wanted; never none, and each in the output folder.
pub(super) fn chosen(index: &HubIndex, weights: &Weights) -> Result<Vec<ExpectedFile>, Failure> {
    let include = globs(&weights.include)?;
    let exclude = globs(&weights.exclude)?;
    let is_wanted = |file: &&ExpectedFile| {
        (weights.include.is_empty() || include.is_match(&file.path)) && !exclude.is_match(&file.path)
    };
    let wanted: Vec<ExpectedFile> = index.files.iter().filter(is_wanted).cloned().collect();
    if wanted.is_empty() {
        let names: Vec<&str> = index.files.iter().map(|file| file.path.as_str()).take(20).collect();
        return Err(refused("none of its files is wanted").hint(format!("it has {}", names.join(", "))));
    }
    wanted.iter().try_for_each(|file| stays_inside(&file.path))?;
    Ok(wanted)
}

pub(super) fn globs(patterns: &[String]) -> Result<globset::GlobSet, Failure> {
    let mut set = globset::GlobSetBuilder::new();
    for pattern in patterns {
        set.add(globset::Glob::new(pattern).map_err(|error| refused(error.to_string()))?);
    }
    set.build().map_err(|error| refused(error.to_string()))
}
