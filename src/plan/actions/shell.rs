//! `shell:` — a command.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ActionFacts, Check, StageChecker};
use crate::manifest::model::Stage;

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

impl Check for ShellScript {
    const FACTS: ActionFacts = ActionFacts {
        is_repeatable: true,
        is_command: true,
        runs_programs: true,
        names_project: true,
        ..ActionFacts::STEP
    };

    fn check(&self, _: &Stage, checker: &mut StageChecker<'_>) {
        if self.is_empty() {
            checker.fault(&["shell"], "needs a command", "it is empty");
        }
    }
}
