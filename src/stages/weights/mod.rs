//! `weights:` — a checkpoint in the output folder, every file checked against its size and digest.
//!
//! ```text
//!  hf:    index of the repository ─→ fetch (hf, or Regatta) ─→ check each file ─→ weights.json
//!  path:  read the folder         ─→ whole?                 ─→ links           ─→ weights.json
//! ```
//!
//! A download that was cut off goes on with the bytes that are there; what has been checked is not read again.

mod checked_files;
mod completeness;
mod failures;
mod fetch;
mod hub;
mod hub_digest;
mod index;
mod list;
mod local;
mod selection;
mod size;
mod token;

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use self::checked_files::CheckedFiles;
use self::hub::Hub;
use self::index::{ExpectedFile, HubIndex, differs};
pub use self::size::{listed_size, weights_size};
use super::task_context::TaskContext;
use crate::Run;
use base::event::{Done, Failure, MovingSource};
use failures::{refused, stopped, system};
pub use list::LIST;
use list::{Checked, write_list};
pub use local::portable_links;
use plan::manifest::model::{Fetcher, Weights};
use selection::chosen;

impl Run for Weights {
    const FORMAT: Option<u32> = Some(1);

    // 2, of weights that are on this machine already: their digest is without paths of the machine.
    fn format(&self) -> Option<u32> {
        if self.path.is_some() { Some(2) } else { Self::FORMAT }
    }

    async fn run(&self, context: TaskContext, _: Option<&Path>) -> Result<Done, Failure> {
        match (&self.hf, &self.path) {
            (Some(name), _) => from_hub(context, self, name).await,
            (None, Some(path)) => local::perform(&context, self, path).await,
            (None, None) => Err(refused("it names neither `hf` nor `path`")),
        }
    }
}

async fn from_hub(mut context: TaskContext, weights: &Weights, name: &str) -> Result<Done, Failure> {
    let token = token::find(&weights.token_env);
    let hub = Hub::new(name, token)?;
    context.hide(hub.secrets());
    context.lease.report_progress(format!("asking for {name}"), 0, None);
    let index = tokio::select! {
        index = hub.index(&weights.revision) => index?,
        () = context.lease.stop.requested() => return Err(stopped()),
    };
    let source = (weights.revision != index.commit).then(|| {
        let version = format!("commit {}", index.commit.get(..12).unwrap_or(&index.commit));
        Box::new(MovingSource { name: format!("`revision: {}`", weights.revision), version, remote: None })
    });
    let wanted = chosen(&index, weights)?;
    let out = context.lease.out.clone();
    let mut memory = CheckedFiles::open(&out).map_err(|error| system(&out, &error))?;
    let files = if by_command(&context, weights.with)? {
        with_hf(&context, weights, &index, name, hub.token()).await?;
        check_all(&context, &wanted, &mut memory).await?
    } else {
        fetch::all(&context, &hub, &index, &wanted, &mut memory).await?
    };
    completeness::check(&out, &files)
        .map_err(|error| refused(error.to_string()).hint("was it left out by `include` or `exclude`?"))?;
    memory.remove_record();
    // What the hf command keeps for itself.
    let _ = fs::remove_dir_all(out.join(".cache"));
    Ok(Done { source, ..write_list(&out, Some((name, &index.commit)), &files)? })
}

/// Whether the hf command is to fetch.
fn by_command(context: &TaskContext, with: Fetcher) -> Result<bool, Failure> {
    let is_there = context.command(vec!["hf".into()]).is_found();
    match with {
        Fetcher::Https => Ok(false),
        Fetcher::Auto => Ok(is_there),
        Fetcher::Hf if is_there => Ok(true),
        Fetcher::Hf => Err(refused("the command `hf` is not in PATH")
            .hint("`pip install -U huggingface_hub`, or `with: https`, which needs no command")),
    }
}

/// `hf download` into the output folder. It goes on where it was cut off by itself.
async fn with_hf(
    context: &TaskContext,
    weights: &Weights,
    index: &HubIndex,
    name: &str,
    token: Option<&str>,
) -> Result<(), Failure> {
    let mut argv: Vec<OsString> = ["hf", "download", name, "--revision", &index.commit].map(OsString::from).to_vec();
    argv.extend(["--local-dir".into(), context.lease.out.clone().into_os_string()]);
    for (option, patterns) in [("--include", &weights.include), ("--exclude", &weights.exclude)] {
        for pattern in patterns {
            argv.extend([option.into(), pattern.into()]);
        }
    }
    let mut command = context.command(argv).set("HF_HUB_DISABLE_PROGRESS_BARS", "1");
    if let Some(token) = token {
        command = command.set("HF_TOKEN", token);
    }
    context.lease.report_progress("hf download", 0, None);
    context.run(command).await.map(drop)
}

/// Checks files that were fetched elsewhere against the index.
async fn check_all(
    context: &TaskContext,
    wanted: &[ExpectedFile],
    memory: &mut CheckedFiles,
) -> Result<Vec<Checked>, Failure> {
    let total = wanted.iter().map(|file| file.size).sum();
    let mut done = 0;
    let mut files = Vec::new();
    for one in wanted {
        context.lease.report_progress("bytes checked", done, Some(total));
        let path = context.lease.out.join(&one.path);
        if !memory.is_unchanged(&one.path, &path) {
            let (kind, file) = (one.sum.clone(), path.clone());
            let reading = tokio::task::spawn_blocking(move || kind.of_file(&file));
            let found = tokio::select! {
                found = reading => found.map_err(|error| refused(error.to_string()))?,
                () = context.lease.stop.requested() => return Err(stopped()),
            };
            let found = found
                .map_err(|error| refused(format!("the hf command left no {} that can be read: {error}", one.path)))?;
            if found != one.sum {
                let _ = fs::remove_file(&path);
                return Err(differs(one, &found));
            }
            memory.add(&one.path, &path);
        }
        done += one.size;
        files.push(Checked { path: one.path.clone(), size: one.size, sum: one.sum.clone() });
    }
    Ok(files)
}
