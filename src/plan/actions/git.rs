//! `git:` — a clone at a revision.
//!
//! `git:` — addresses that would be kept with a secret in them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ActionFacts, Check, StageChecker};
use crate::manifest::model::Stage;
use base::diag::Diagnostic;
use base::units::{credentials, has_secret_parameter};

/// A clone at a revision.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Git {
    /// Where to clone from: a URL or a path.
    pub url: String,
    /// A commit, tag or branch.
    pub rev: String,
    /// Also clone submodules.
    #[serde(default)]
    pub submodules: bool,
    /// Fetch LFS files. [default: true where `git lfs` is installed]
    pub lfs: Option<bool>,
    /// Commits to apply on top, in order. No git identity is needed.
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

impl Check for Git {
    const FACTS: ActionFacts = ActionFacts {
        is_determined_by_key: true,
        needs_memory: false,
        container_obstacle: Some("a clone is made with this machine's git and its credentials"),
        sharing_obstacle: Some("a clone's history is not part of its digest; its remote shares it"),
        ..ActionFacts::STEP
    };

    /// Plans, records and reports hold a stage's settings, and every user of the machine sees the arguments of `git`.
    fn check(&self, _: &Stage, checker: &mut StageChecker<'_>) {
        let picks = self.cherry_picks.iter().filter_map(|pick| match pick {
            CherryPick::From { url, .. } => Some(url),
            CherryPick::Commit(_) => None,
        });
        let urls = std::iter::once(&self.url).chain(picks);
        if self.rev.is_empty() {
            checker.fault(&["git", "rev"], "is empty", "no revision").hint("a branch, a tag or a commit");
        }
        if urls.filter(|url| credentials(url).is_some() || has_secret_parameter(url)).count() > 0 {
            // Without the line of the manifest, which has the secret in it.
            checker.found.push(
                Diagnostic::error(format!("`stages.{}.git`: a URL holds a password or a token", checker.name)).hint(
                    "it would be kept with the results; use an ssh URL, or git's own store: `git config \
                     --global credential.helper store`",
                ),
            );
        }
    }
}
