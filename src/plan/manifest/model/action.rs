//! The settings of `shell`, `git` and `template`.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A command.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ShellScript {
    /// A text for `/bin/sh -c`, strict unless the stage sets `strict: false`.
    Text(String),
    /// The program and its arguments, no shell in between.
    Words(Vec<String>),
}

impl ShellScript {
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.trim().is_empty(),
            Self::Words(words) => words.first().is_none_or(String::is_empty),
        }
    }
}

/// A clone at a revision.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Git {
    /// Where to clone from: a URL or a path.
    pub url: String,
    /// A commit, tag or branch.
    pub rev: String,
    /// Clone submodules, too.
    #[serde(default)]
    pub submodules: bool,
    /// Fetch LFS files; true needs `git lfs`. [default: true where `git lfs` is there]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lfs: Option<bool>,
    /// Commits to apply on top, in order. No git identity is needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cherry_picks: Vec<CherryPick>,
}

/// A commit to apply, from the same repository or another.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum CherryPick {
    /// A commit of the same repository.
    Commit(String),
    /// A commit that must be fetched from elsewhere.
    From { url: String, commit: String },
}

/// A folder of minijinja templates (`*.j2` are rendered, the suffix dropped; other files are copied).
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// The folder, relative to the current folder. Its files are inputs.
    pub from: String,
    /// The names that the templates may use.
    #[serde(default)]
    pub with: IndexMap<String, serde_json::Value>,
}
