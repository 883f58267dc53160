//! The branch or tag that a clone was made of: what a later run or plan reports of a clone that it takes from the cache.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::command::list_remote;
use crate::files::read_text_up_to;

/// In `.git`, which is no part of the output's digest.
pub(super) const FILE: &str = "regatta-ref.json";
/// How long a remote may take to answer; a run without a network goes on after that.
const LIMIT: Duration = Duration::from_secs(3);
/// Bytes of [`FILE`]: names and URLs are shorter.
const LARGEST: u64 = 64 * 1024;

#[derive(Serialize, Deserialize)]
pub(super) struct ClonedRef {
    pub url: String,
    /// As the manifest has it.
    pub rev: String,
    /// In full: `refs/heads/main`.
    pub name: String,
    /// What it was when it was cloned, without cherry-picks.
    pub commit: String,
}

impl ClonedRef {
    /// `None` of a clone of a commit, which cannot move, and of one that an earlier version made.
    pub fn read(folder: &Path) -> Option<Self> {
        serde_json::from_str(&read_text_up_to(folder.join(".git").join(FILE), LARGEST).ok()?).ok()
    }

    /// What a user should know of it. Of a tag only that it moved, because tags are not expected to.
    pub fn notice(&self, stage: &str, may_ask: bool) -> Option<String> {
        let is_tag = self.name.starts_with("refs/tags/");
        let kind = if is_tag {
            "tag "
        } else if self.name.starts_with("refs/heads/") {
            "branch "
        } else {
            ""
        };
        let remote = may_ask.then(|| self.remote_commit());
        let rest = match remote {
            Some(Some(Some(commit))) if commit == self.commit => {
                (!is_tag).then(|| ", as it is in the remote".to_owned())
            }
            Some(Some(Some(commit))) => {
                Some(format!(", and has moved to {} in the remote; `--force {stage}` fetches it", short(&commit)))
            }
            Some(Some(None)) => Some(", and the remote no longer has it".to_owned()),
            Some(None) => (!is_tag).then(|| format!("; the remote did not answer; `--force {stage}` fetches it again")),
            None => (!is_tag).then(|| format!("; `--force {stage}` fetches it again")),
        }?;
        Some(format!("{kind}`{}` is taken from the cache at commit {}{rest}", self.rev, short(&self.commit)))
    }

    /// The commit that it is now: `None` without an answer, `Some(None)` where the remote has it no more.
    fn remote_commit(&self) -> Option<Option<String>> {
        // What an annotated tag leads to has a line of its own.
        let peeled = format!("{}^{{}}", self.name);
        let listed = list_remote(&self.url, &[&self.name, &peeled], LIMIT)?;
        let commit = |name: &str| listed.lines().find_map(|line| line.strip_suffix(name)?.strip_suffix('\t'));
        Some(commit(&peeled).or_else(|| commit(&self.name)).map(str::to_owned))
    }
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}
