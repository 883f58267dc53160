//! `weights:` — a checkpoint in the output folder, every file checked against its size and digest.
//!
//! ```text
//!  hf:    index of the repository ─→ fetch and check each file ─→ weights.json
//!  path:  read the folder         ─→ whole? ─→ links           ─→ weights.json
//! ```
//!
//! A download that was cut off goes on with the bytes that are there; what has been checked is not read again. A
//! checkpoint that is on this machine already is looked through, listed and linked. `weights.json` says what it is,
//! wherever it came from.

mod completeness;
mod fetch;
mod hub;
mod index;

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Serialize;
use walkdir::WalkDir;

use crate::Run;
use crate::task_context::TaskContext;
use base::event::{Done, Failure, MovingSource};
use base::files::{Digest, metadata_if_there};
use base::units::{counted, size};
use completeness::{CheckedFiles, HubDigest};
use fetch::{STOPPED, hub_token};
pub use fetch::{listed_size, weights_size};
use hub::{Hub, choice, chosen};
use index::WeightsFile;
use plan::manifest::model::Weights;
use runner::store::{PathError, WithPath as _};

impl Run for Weights {
    const FORMAT: Option<u32> = Some(1);

    // 2, of weights that are on this machine already: their digest is without paths of the machine.
    fn format(&self) -> Option<u32> {
        if self.path.is_some() { Some(2) } else { Self::FORMAT }
    }

    async fn run(&self, context: TaskContext) -> Result<Done, Failure> {
        match (&self.hf, &self.path) {
            (Some(name), _) => from_hub(context, self, name).await,
            (None, Some(path)) => perform(&context, self, path).await,
            (None, None) => Err(Failure::refused("it names neither `hf` nor `path`")),
        }
    }
}

async fn from_hub(mut context: TaskContext, weights: &Weights, name: &str) -> Result<Done, Failure> {
    let token = hub_token(&weights.token_env);
    let hub = Hub::new(name, token)?;
    context.hide(hub.secrets());
    context.lease.report_progress(format!("asking for {name}"), 0, None);
    let index = context.unless_stopped(hub.index(&weights.revision), STOPPED).await??;
    let source = (weights.revision != index.commit).then(|| {
        let version = format!("commit {}", index.commit.get(..12).unwrap_or(&index.commit));
        Box::new(MovingSource { name: format!("`revision: {}`", weights.revision), version, ..MovingSource::default() })
    });
    let wanted = chosen(&index, weights)?;
    let out = context.lease.out.clone();
    let mut memory = CheckedFiles::open(&out).at("open", &out)?;
    fetch::all(&context, &hub, &index, &wanted, &mut memory).await?;
    completeness::check(&out, &wanted)
        .map_err(|error| Failure::refused(error.to_string()).hint("was it left out by `include` or `exclude`?"))?;
    memory.remove_record();
    Ok(Done { source, ..write_list(&context, Some((name, &index.commit)), &wanted)? })
}

/// What is read on a thread, which may take long.
async fn read_unless_stopped<T: Send + 'static>(
    context: &TaskContext,
    read: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<io::Result<T>, Failure> {
    let read = context.unless_stopped(tokio::task::spawn_blocking(read), STOPPED).await?;
    read.map_err(|error| Failure::refused(error.to_string()))
}

pub(super) async fn perform(context: &TaskContext, weights: &Weights, path: &str) -> Result<Done, Failure> {
    let folder = fs::canonicalize(context.path(path)).at("read", &context.path(path))?;
    let names = names(&folder, weights)?;
    let mut wrong: Vec<String> = Vec::new();
    wrong.extend(completeness::check_strictly(&folder).err().map(|error| error.to_string()));
    for name in names.iter().filter(|name| Path::new(name).extension().is_some_and(|end| end == "safetensors")) {
        wrong.extend(completeness::is_cut_off(&folder.join(name)).err().map(|error| error.to_string()));
    }
    if !wrong.is_empty() {
        return Err(Failure::files(wrong.join("; "))
            .hint(format!("{path} is an incomplete checkpoint: copy it again, or fetch and check it with `hf:`")));
    }
    let mut files = Vec::new();
    let total = names.iter().filter_map(|name| Some(folder.join(name).metadata().ok()?.len())).sum();
    let mut done = 0;
    for name in names {
        context.lease.report_progress("bytes read", done, Some(total));
        let from = folder.join(&name);
        let file = from.clone();
        let read = move || Ok((file.metadata()?.len(), HubDigest::Sha256(String::new()).of_file(&file)?));
        let (size, sum) = read_unless_stopped(context, read).await?.at("read", &from)?;
        link(&from, &context.lease.out.join(&name)).at("link to", &from)?;
        done += size;
        files.push(WeightsFile { path: name, size, sum });
    }
    write_list(context, None, &files)
}

/// The links of a finished output, as if they led nowhere: which files they lead to is in the list, with the digest of
/// each.
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
    let metadata = metadata_if_there(folder).at("look at", folder)?;
    if !metadata.is_some_and(|metadata| metadata.is_dir()) {
        return Err(Failure::refused(format!("{} is not a folder", folder.display())));
    }
    let is_chosen = choice(weights)?;
    let is_hidden = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with('.');
    let mut names = Vec::new();
    let walk = WalkDir::new(folder).follow_links(true).sort_by_file_name();
    for item in walk.into_iter().filter_entry(|item| item.depth() == 0 || !is_hidden(item.file_name())) {
        let item = item.map_err(|error| Failure::refused(error.to_string()))?;
        let Some(name) = item.path().strip_prefix(folder).ok().and_then(Path::to_str) else { continue };
        if item.file_type().is_file() && is_chosen(name) && name != LIST {
            names.push(name.to_owned());
        }
    }
    if names.is_empty() {
        return Err(Failure::refused(format!("{} has no selected files", folder.display())));
    }
    Ok(names)
}

fn link(from: &Path, to: &PathBuf) -> io::Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    symlink(from, to)
}

/// What is in the output folder beside the files: which they are.
pub const LIST: &str = "weights.json";

/// `weights.json`: what a checkpoint is, wherever it came from.
#[base::omit_empty]
#[derive(Debug, Serialize)]
pub(super) struct List<'a> {
    pub(super) repository: Option<&'a str>,
    pub(super) commit: Option<&'a str>,
    pub(super) bytes: u64,
    pub(super) files: &'a [WeightsFile],
}

pub(super) fn write_list(
    context: &TaskContext,
    of: Option<(&str, &str)>,
    files: &[WeightsFile],
) -> Result<Done, Failure> {
    let bytes = files.iter().map(|file| file.size).sum();
    let list = List { repository: of.map(|(name, _)| name), commit: of.map(|(_, commit)| commit), bytes, files };
    context.write_json(LIST, &list)?;
    let name = of.map(|(name, commit)| format!("{name} at {}, ", commit.get(..12).unwrap_or(commit)));
    let headline =
        format!("{}{}, {}, all as they should be", name.unwrap_or_default(), counted(files.len(), "file"), size(bytes));
    Ok(Done { headline: Some(headline), ..Done::default() })
}
