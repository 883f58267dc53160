//! A checkpoint that is on this machine already: looked through, listed, linked.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use super::completeness;
use super::failures::{refused, stopped, system};
use super::hub_digest::HubDigest;
use super::list::{Checked, LIST, write_list};
use super::selection::globs;
use crate::task_context::TaskContext;
use base::event::{Done, Failure, FailureKind};
use base::files::{Digest, metadata_if_there};
use plan::manifest::model::Weights;
use runner::store::{PathError, WithPath as _};

pub(super) async fn perform(context: &TaskContext, weights: &Weights, path: &str) -> Result<Done, Failure> {
    let folder = fs::canonicalize(context.path(path)).map_err(|error| system(&context.path(path), &error))?;
    let names = names(&folder, weights)?;
    let mut wrong: Vec<String> = Vec::new();
    wrong.extend(completeness::check_strictly(&folder).err().map(|error| error.to_string()));
    for name in names.iter().filter(|name| Path::new(name).extension().is_some_and(|end| end == "safetensors")) {
        wrong.extend(completeness::is_cut_off(&folder.join(name)).err().map(|error| error.to_string()));
    }
    if !wrong.is_empty() {
        return Err(Failure::new(FailureKind::Files, wrong.join("; "))
            .hint(format!("{path} is not a whole checkpoint: copy or fetch it again, `hf:` does that and checks it")));
    }
    let mut files = Vec::new();
    let total = names.iter().filter_map(|name| Some(folder.join(name).metadata().ok()?.len())).sum();
    let mut done = 0;
    for name in names {
        context.lease.report_progress("bytes read", done, Some(total));
        let from = folder.join(&name);
        let reading = {
            let from = from.clone();
            tokio::task::spawn_blocking(move || {
                Ok((from.metadata()?.len(), HubDigest::Sha256(String::new()).of_file(&from)?))
            })
        };
        let read: std::io::Result<(u64, HubDigest)> = tokio::select! {
            read = reading => read.map_err(|error| refused(error.to_string()))?,
            () = context.lease.stop.requested() => return Err(stopped()),
        };
        let (size, sum) = read.map_err(|error| system(&from, &error))?;
        link(&from, &context.lease.out.join(&name)).map_err(|error| system(&from, &error))?;
        done += size;
        files.push(Checked { path: name, size, sum });
    }
    write_list(&context.lease.out, None, &files)
}

/// The links of a finished output, as if they led nowhere: which files they lead to is in the list, with the digest of each.
pub fn portable_links(folder: &Path) -> Result<BTreeMap<PathBuf, Digest>, PathError> {
    let mut links = BTreeMap::new();
    for item in WalkDir::new(folder) {
        let item = item.at("list", folder)?;
        if item.path_is_symlink() {
            links.insert(item.path().strip_prefix(folder).unwrap_or(item.path()).to_owned(), Digest::hash(b""));
        }
    }
    Ok(links)
}

/// Names of the files, sorted; names that begin with a dot are not part of the weights.
fn names(folder: &Path, weights: &Weights) -> Result<Vec<String>, Failure> {
    let found = metadata_if_there(folder).map_err(|error| system(folder, &error))?;
    if !found.is_some_and(|found| found.is_dir()) {
        return Err(refused(format!("{} is no folder", folder.display())));
    }
    let (include, exclude) = (globs(&weights.include)?, globs(&weights.exclude)?);
    let is_hidden = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with('.');
    let mut names = Vec::new();
    let walk = WalkDir::new(folder).follow_links(true).sort_by_file_name();
    for item in walk.into_iter().filter_entry(|item| item.depth() == 0 || !is_hidden(item.file_name())) {
        let item = item.map_err(|error| refused(error.to_string()))?;
        let Some(name) = item.path().strip_prefix(folder).ok().and_then(Path::to_str) else { continue };
        let is_wanted = (weights.include.is_empty() || include.is_match(name)) && !exclude.is_match(name);
        if item.file_type().is_file() && is_wanted && name != LIST {
            names.push(name.to_owned());
        }
    }
    if names.is_empty() {
        return Err(refused(format!("{} has no files that are wanted", folder.display())));
    }
    Ok(names)
}

fn link(from: &Path, to: &PathBuf) -> std::io::Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    symlink(from, to)
}
