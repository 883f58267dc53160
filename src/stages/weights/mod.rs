//! `weights:` — a checkpoint in the output folder, every file checked against its size and digest.
//!
//! ```text
//!  hf:    index of the repository ─→ fetch (hf, or we) ─→ hold each file against it ─→ weights.json
//!  path:  read the folder         ─→ whole?            ─→ links                     ─→ weights.json
//! ```
//!
//! A download that was cut off goes on with the bytes that are there; what has been checked is not read again.

mod checked_files;
mod completeness;
mod fetch;
mod file_digest;
mod hub;
mod index;
mod local;
mod size;
mod token;

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use serde::Serialize;

use self::checked_files::CheckedFiles;
use self::hub::Hub;
use self::index::{ExpectedFile, HubIndex};
pub use self::size::weights_size;
use super::task_context::TaskContext;
use crate::event::{Done, Failure, FailureKind};
use crate::manifest::model::{Fetcher, Weights};

/// What is in the output folder beside the files: which they are.
pub const LIST: &str = "weights.json";

/// One file that was checked.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Checked {
    path: String,
    size: u64,
    #[serde(flatten)]
    sum: file_digest::FileDigest,
}

/// `weights.json`: what a checkpoint is, wherever it came from.
#[derive(Debug, Serialize)]
struct List<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    repository: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<&'a str>,
    bytes: u64,
    files: &'a [Checked],
}

pub async fn perform(context: TaskContext, weights: &Weights) -> Result<Done, Failure> {
    match (&weights.hf, &weights.path) {
        (Some(name), _) => from_hub(context, weights, name).await,
        (None, Some(path)) => local::perform(&context, weights, path).await,
        (None, None) => Err(refused("it names neither `hf` nor `path`")),
    }
}

async fn from_hub(mut context: TaskContext, weights: &Weights, name: &str) -> Result<Done, Failure> {
    let token = token::find(&weights.token_env);
    context.hide(token.clone());
    let hub = Hub::new(name, token)?;
    context.lease.say(format!("asking for {name}"), 0, None);
    let index = tokio::select! {
        index = hub.index(&weights.revision) => index?,
        () = context.lease.stop.asked() => return Err(stopped()),
    };
    if weights.revision != index.commit {
        context.lease.notice(format!(
            "`revision: {}` is {} now; what it means can change, and finished weights are not fetched again because of that",
            weights.revision, index.commit
        ));
    }
    let wanted = chosen(&index, weights)?;
    let out = context.lease.out.clone();
    for one in &wanted {
        index::stays_inside(&one.path)?;
    }
    let mut memory = CheckedFiles::open(&out).map_err(|error| system(&out, &error))?;
    let files = if by_command(&context, weights.with)? {
        with_hf(&context, weights, &index, name, hub.token()).await?;
        check_all(&context, &wanted, &mut memory).await?
    } else {
        fetch::all(&context, &hub, &index, &wanted, &mut memory).await?
    };
    completeness::check(&out, &files)
        .map_err(|what| refused(what).hint("was it left out by `include` or `exclude`?"))?;
    memory.forget();
    // What the hf command keeps for itself.
    let _ = fs::remove_dir_all(out.join(".cache"));
    write_list(&out, Some((name, &index.commit)), &files)
}

/// The files of a repository that are wanted; never none.
fn chosen(index: &HubIndex, weights: &Weights) -> Result<Vec<ExpectedFile>, Failure> {
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
    Ok(wanted)
}

fn globs(patterns: &[String]) -> Result<globset::GlobSet, Failure> {
    let mut set = globset::GlobSetBuilder::new();
    for pattern in patterns {
        set.add(globset::Glob::new(pattern).map_err(|error| refused(error.to_string()))?);
    }
    set.build().map_err(|error| refused(error.to_string()))
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
    context.lease.say("hf download", 0, None);
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
        context.lease.say("bytes checked", done, Some(total));
        let path = context.lease.out.join(&one.path);
        if !memory.knows(&one.path, &path) {
            let (kind, asked) = (one.sum.clone(), path.clone());
            let reading = tokio::task::spawn_blocking(move || kind.of_file(&asked));
            let found = tokio::select! {
                found = reading => found.map_err(|error| refused(error.to_string()))?,
                () = context.lease.stop.asked() => return Err(stopped()),
            };
            let found = found
                .map_err(|error| refused(format!("the hf command left no {} that can be read: {error}", one.path)))?;
            if found != one.sum {
                let _ = fs::remove_file(&path);
                return Err(differs(one, &found));
            }
            memory.learn(&one.path, &path);
        }
        done += one.size;
        files.push(Checked { path: one.path.clone(), size: one.size, sum: one.sum.clone() });
    }
    Ok(files)
}

/// A file with other bytes than the index lists. It has been removed, so that the next try fetches it.
fn differs(one: &ExpectedFile, found: &file_digest::FileDigest) -> Failure {
    let what = format!("{} does not match what the hub reports: {found}, expected {}", one.path, one.sum);
    Failure::new(FailureKind::Files, what)
        .cause("it was damaged on the way, or on the disk")
        .hint("the file was taken away; run it again, and only this file is fetched")
}

fn write_list(out: &Path, of: Option<(&str, &str)>, files: &[Checked]) -> Result<Done, Failure> {
    let bytes = files.iter().map(|file| file.size).sum();
    let list = List { repository: of.map(|(name, _)| name), commit: of.map(|(_, commit)| commit), bytes, files };
    let text = serde_json::to_string_pretty(&list).map_err(|error| refused(error.to_string()))?;
    let path = out.join(LIST);
    fs::write(&path, format!("{text}\n")).map_err(|error| system(&path, &error))?;
    let count = files.len();
    let name = of.map(|(name, commit)| format!("{name} at {}, ", commit.get(..12).unwrap_or(commit)));
    let headline = format!(
        "{}{count} file{}, {}, all as they should be",
        name.unwrap_or_default(),
        if count == 1 { "" } else { "s" },
        size(bytes)
    );
    Ok(Done { headline: Some(headline), ..Done::default() })
}

/// `39.8 GB`
fn size(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes >= 1e9 => format!("{:.1} GB", bytes / 1e9),
        bytes if bytes >= 1e6 => format!("{:.1} MB", bytes / 1e6),
        bytes => format!("{bytes} bytes"),
    }
}

fn refused(what: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Refused, what)
}

fn stopped() -> Failure {
    Failure::new(FailureKind::Interrupted, "stopped; downloaded parts are kept, and the next run continues from there")
}

fn system(path: &Path, error: &std::io::Error) -> Failure {
    let failure = Failure::new(FailureKind::System, format!("{}: {error}", path.display()));
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => failure.cause("the disk is full"),
        _ => failure,
    }
}
