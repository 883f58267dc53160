//! `weights.json`: what a checkpoint is, wherever it came from.

use base::units::{counted, size};
use std::fs;
use std::path::Path;

use serde::Serialize;

use super::failures::{refused, system};
use super::hub_digest::HubDigest;
use base::event::{Done, Failure};

/// What is in the output folder beside the files: which they are.
pub const LIST: &str = "weights.json";

/// One file that was checked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Checked {
    pub(super) path: String,
    pub(super) size: u64,
    #[serde(flatten)]
    pub(super) sum: HubDigest,
}

/// `weights.json`: what a checkpoint is, wherever it came from.
#[derive(Debug, Serialize)]
pub(super) struct List<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) repository: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) commit: Option<&'a str>,
    pub(super) bytes: u64,
    pub(super) files: &'a [Checked],
}

pub(super) fn write_list(out: &Path, of: Option<(&str, &str)>, files: &[Checked]) -> Result<Done, Failure> {
    let bytes = files.iter().map(|file| file.size).sum();
    let list = List { repository: of.map(|(name, _)| name), commit: of.map(|(_, commit)| commit), bytes, files };
    let text = serde_json::to_string_pretty(&list).map_err(|error| refused(error.to_string()))?;
    let path = out.join(LIST);
    fs::write(&path, format!("{text}\n")).map_err(|error| system(&path, &error))?;
    let name = of.map(|(name, commit)| format!("{name} at {}, ", commit.get(..12).unwrap_or(commit)));
    let headline =
        format!("{}{}, {}, all as they should be", name.unwrap_or_default(), counted(files.len(), "file"), size(bytes));
    Ok(Done { headline: Some(headline), ..Done::default() })
}
