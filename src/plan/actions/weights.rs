//! `weights:` — a model's checkpoint, from a hub or from a folder, checked against its expected files.
//!
//! `weights:`: one source, and globs that can be read.

use globset::Glob;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ActionFacts, BY_THIS_PROGRAM, Check, StageChecker, faults};
use crate::manifest::model::Stage;

/// A model's checkpoint: exactly one of `hf, path`. Every file is checked against its size and digest; `weights.json`
/// in the output folder lists them.
#[base::omit_empty]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// A repository of the Hugging Face hub, `nvidia/Llama-3.3-70B-Instruct-FP4`. `HF_ENDPOINT` names another hub.
    pub hf: Option<String>,
    /// A commit, tag or branch of it. Only a commit is immutable.
    #[serde(default = "super::main_branch")]
    pub revision: String,
    /// Globs of the files to take. [default: all]
    pub include: Vec<String>,
    /// Globs of files to skip.
    pub exclude: Vec<String>,
    /// A folder that exists already; the output folder links to its files.
    pub path: Option<String>,
    /// The variable with the hub's token; if unset, the file of `hf auth login`. Never shown, logged or hashed.
    #[serde(default = "super::hf_token")]
    pub token_env: String,
}

impl Check for Weights {
    const FACTS: ActionFacts =
        ActionFacts { names_project: true, container_obstacle: BY_THIS_PROGRAM, ..ActionFacts::STEP };

    fn reads(&self) -> Vec<(&'static str, &str)> {
        self.path.iter().map(|path| ("weights.path", path.as_str())).collect()
    }

    fn check(&self, _: &Stage, checker: &mut StageChecker<'_>) {
        let (is_fetched, is_local) = (self.hf.is_some(), self.path.is_some());
        faults! { checker;
            ["weights"], !is_fetched && !is_local, "needs `hf` or `path`", "no source",
                "`hf: owner/name`, or `path: FOLDER`";
            ["weights", "path"], is_fetched && is_local, "cannot be combined with `hf`", "two sources", "keep one";
            ["weights", "revision"], !is_fetched && is_local && self.revision != "main", "has no effect",
                "a local folder has no revision", "remove it, or use `hf` in place of `path`";
        }
        if let Some(name) = self.hf.as_ref().filter(|_| !is_local) {
            checker.repository(name);
        }
        for (key, globs) in [("include", &self.include), ("exclude", &self.exclude)] {
            for (index, glob) in globs.iter().enumerate() {
                if let Err(why) = Glob::new(glob) {
                    let index = index.to_string();
                    checker.fault(&["weights", key, &index], "is not a glob", &why.to_string());
                }
            }
        }
        checker.variable(&["weights", "token_env"], &self.token_env);
    }
}

impl StageChecker<'_> {
    fn repository(&mut self, name: &str) {
        let part = |part: &str| {
            !part.is_empty()
                && !part.starts_with('.')
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        let parts: Vec<&str> = name.split('/').collect();
        if parts.len() > 2 || !parts.iter().all(|one| part(one)) {
            self.fault(&["weights", "hf"], "must be the name of a repository", "owner/name")
                .hint("for example `nvidia/Llama-3.3-70B-Instruct-FP4`; a folder is `path:`");
        }
    }
}
