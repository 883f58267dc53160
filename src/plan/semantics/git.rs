//! `git:` — addresses that would be kept with a secret in them.

use super::StageChecker;
use crate::actions::{ActionFacts, Check};
use crate::manifest::model::{CherryPick, Git, Stage};
use base::diag::Diagnostic;
use base::units::{credentials, has_secret_parameter};

impl Check for Git {
    const FACTS: ActionFacts = ActionFacts {
        is_determined_by_key: true,
        needs_memory: false,
        container_obstacle: Some("a clone is made with this machine's git and its credentials"),
        sharing_obstacle: Some("a clone's history is no part of its digest; its remote shares it"),
        ..ActionFacts::STEP
    };

    fn check(&self, _: &Stage, checker: &mut StageChecker<'_>) {
        checker.git(self);
    }
}

impl StageChecker<'_> {
    /// Plans, records and reports hold a stage's settings, and every user of the machine sees the arguments of `git`.
    pub(super) fn git(&mut self, git: &Git) {
        let picks = git.cherry_picks.iter().filter_map(|pick| match pick {
            CherryPick::From { url, .. } => Some(url),
            CherryPick::Commit(_) => None,
        });
        let urls = std::iter::once(&git.url).chain(picks);
        if git.rev.is_empty() {
            self.push_error(&["git", "rev"], "is empty", "no revision", Some("a branch, a tag or a commit".to_owned()));
        }
        if urls.filter(|url| credentials(url).is_some() || has_secret_parameter(url)).count() > 0 {
            // Without the line of the manifest, which has the secret in it.
            self.found.push(
                Diagnostic::error(format!("`stages.{}.git`: a URL holds a password or a token", self.name))
                    .hint("it would be kept with the results; use an ssh URL, or git's own store: `git config --global credential.helper store`"),
            );
        }
    }
}
