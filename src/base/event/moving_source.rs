//! A name that an output was made from and that can mean something else later: a branch, a tag, a revision of weights.

use serde::{Deserialize, Serialize};

/// The name, and what it meant then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovingSource {
    /// For users: "branch `main`".
    pub name: String,
    /// For users: `commit 0c8e1f2a9b3d`.
    pub version: String,
    /// Of a clone: whether it moved can be queried.
    pub remote: Option<RemoteRef>,
}

/// A reference in a remote of git.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteRef {
    pub url: String,
    /// In full: `refs/heads/main`.
    pub name: String,
    /// What it led to, in full.
    pub commit: String,
}

impl RemoteRef {
    pub fn is_tag(&self) -> bool {
        self.name.starts_with("refs/tags/")
    }
}
