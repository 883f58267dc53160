//! `weights:` — a model's checkpoint, from a hub or from a folder, checked against its expected files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A model's checkpoint: exactly one of `hf, path`. Every file is checked against its size and digest; `weights.json` in the
/// output folder lists them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// A repository of the Hugging Face hub, `nvidia/Llama-3.3-70B-Instruct-FP4`. `HF_ENDPOINT` names another hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hf: Option<String>,
    /// A commit, tag or branch of it. Only a commit is immutable.
    #[serde(default = "main_branch")]
    pub revision: String,
    /// Globs of the files to take. [default: all]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Globs of files to leave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// A folder that is there already; the output folder has links to its files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The downloader. The files are checked in the same way.
    #[serde(default)]
    pub with: Fetcher,
    /// The environment variable with the hub's token; where it is not set, the file that `hf auth login` writes. It is never
    /// shown, logged or hashed.
    #[serde(default = "hf_token")]
    pub token_env: String,
}

/// The downloader of files from a hub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fetcher {
    /// The `hf` command where it is in PATH, else Regatta.
    #[default]
    Auto,
    /// The `hf` command.
    Hf,
    /// Regatta, over HTTPS.
    Https,
}

fn main_branch() -> String {
    "main".to_owned()
}
fn hf_token() -> String {
    "HF_TOKEN".to_owned()
}
