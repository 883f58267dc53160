//! What of a manifest with errors cannot be used, so that an expression that uses it is not one more error.

use std::collections::BTreeSet;

use super::expression_paths::{PathStep, paths_in_node};
use super::yaml_node::Node;

/// Parts whose errors are reported.
#[derive(Clone, Debug, Default)]
pub struct FaultyParts {
    /// Params and vars without a value.
    pub names: BTreeSet<String>,
    /// Stages that other stages may refer to, but that cannot be read as a whole.
    pub stages: BTreeSet<String>,
    /// Stages of which it is not known which tasks they are, or of which kind.
    pub unknown_stages: BTreeSet<String>,
}

impl FaultyParts {
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.stages.is_empty() && self.unknown_stages.is_empty()
    }

    /// Whether an expression in a node uses one of them.
    pub fn affect(&self, node: &Node) -> bool {
        if self.names.is_empty() && self.unknown_stages.is_empty() {
            return false;
        }
        let mut paths = Vec::new();
        paths_in_node(node, &mut paths);
        paths.iter().any(|path| match path.as_slice() {
            [PathStep::Key(first), PathStep::Key(stage), ..] if first == "stages" => {
                self.unknown_stages.contains(stage)
            }
            [PathStep::Key(first), ..] if first == "stages" => !self.unknown_stages.is_empty(),
            [PathStep::Key(first), ..] => self.names.contains(first),
            _ => false,
        })
    }
}
