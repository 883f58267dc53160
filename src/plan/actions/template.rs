//! `template:` — a folder of templates, rendered into files.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ActionFacts, BY_THIS_PROGRAM, Check, StageChecker};
use crate::manifest::model::Stage;

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

impl Check for Template {
    const FACTS: ActionFacts = ActionFacts {
        is_determined_by_key: true,
        needs_memory: false,
        container_obstacle: BY_THIS_PROGRAM,
        ..ActionFacts::STEP
    };

    fn reads(&self) -> Vec<(&'static str, &str)> {
        vec![("template.from", self.from.as_str())]
    }

    fn check(&self, _: &Stage, _: &mut StageChecker<'_>) {}
}
