//! `weights:`: one source, and globs that can be read.

use globset::Glob;

use crate::actions::{ActionFacts, BY_THIS_PROGRAM, Check};
use crate::manifest::model::{Fetcher, Stage, Weights};

use super::StageChecker;

impl Check for Weights {
    const FACTS: ActionFacts =
        ActionFacts { names_project: true, container_obstacle: BY_THIS_PROGRAM, ..ActionFacts::STEP };

    fn reads(&self) -> Vec<(&'static str, &str)> {
        self.path.iter().map(|path| ("weights.path", path.as_str())).collect()
    }

    fn check(&self, _: &Stage, checker: &mut StageChecker<'_>) {
        checker.weights(self);
    }
}

impl StageChecker<'_> {
    pub(super) fn weights(&mut self, weights: &Weights) {
        match (&weights.hf, &weights.path) {
            (None, None) => {
                let hint = Some("`hf: owner/name`, or `path: FOLDER`".to_owned());
                self.push_error(&["weights"], "needs `hf` or `path`", "no source", hint);
            }
            (Some(_), Some(_)) => {
                self.push_error(
                    &["weights", "path"],
                    "cannot be combined with `hf`",
                    "two sources",
                    Some("keep one".to_owned()),
                );
            }
            (None, Some(_)) => {
                let is_set = weights.revision != "main" || weights.with != Fetcher::Auto;
                if is_set {
                    let hint = Some("`revision` and `with` are for `hf`".to_owned());
                    self.push_error(
                        &["weights", "path"],
                        "is fetched from nowhere",
                        "so they would have no effect",
                        hint,
                    );
                }
            }
            (Some(hf), None) => self.repository(hf),
        }
        for (key, globs) in [("include", &weights.include), ("exclude", &weights.exclude)] {
            for (index, glob) in globs.iter().enumerate() {
                if let Err(why) = Glob::new(glob) {
                    let index = index.to_string();
                    self.push_error(&["weights", key, &index], "is no glob", &why.to_string(), None);
                }
            }
        }
        self.variable(&["weights", "token_env"], &weights.token_env);
    }

    fn repository(&mut self, name: &str) {
        let part = |part: &str| {
            !part.is_empty()
                && !part.starts_with('.')
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        let parts: Vec<&str> = name.split('/').collect();
        if parts.len() > 2 || !parts.iter().all(|one| part(one)) {
            let hint = Some("for example `nvidia/Llama-3.3-70B-Instruct-FP4`; a folder is `path:`".to_owned());
            self.push_error(&["weights", "hf"], "must be the name of a repository", "owner/name", hint);
        }
    }
}
