//! What a manifest can be given, without giving it: its parameters with their possible values, and its stages. For what offers
//! names while a command is typed, so it is read as far as it can be read.

use super::model::{ListRule, PARAM_KINDS, Param, PathNeed};
use super::yaml_node::{MapEntry, Node};
use base::units::unquoted;

/// The names of a manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestOutline {
    pub parameters: Vec<DeclaredParam>,
    pub stages: Vec<String>,
}

/// A parameter as it is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredParam {
    pub name: String,
    pub about: Option<String>,
    /// Those that it may have, where they can be listed.
    pub values: Vec<String>,
    /// It takes several of them, with commas between.
    pub is_list: bool,
    /// It is a file or a folder.
    pub is_path: bool,
}

impl ManifestOutline {
    /// `catalog` has the names in the folder of a catalog.
    pub(super) fn of(root: &Node, catalog: impl Fn(&MapEntry) -> Vec<String>) -> Self {
        let section = |name: &str| root.get(name).and_then(|entry| entry.node.map()).into_iter().flatten();
        let declared = |(name, entry): (&String, &MapEntry)| {
            let rule: Param = serde_json::from_value(entry.node.json()).ok()?;
            let kind = PARAM_KINDS.into_iter().find(|kind| entry.node.get(kind).is_some())?;
            let values = match (kind, &rule.list) {
                ("choice", _) => rule.choice.iter().flatten().map(unquoted).collect(),
                ("list", Some(ListRule::Of(values))) => values.iter().map(unquoted).collect(),
                ("catalog", _) => catalog(entry),
                ("switch", _) => ["true", "false"].map(str::to_owned).to_vec(),
                _ => Vec::new(),
            };
            let is_path = matches!(rule.path, Some(PathNeed::Required | PathNeed::Optional));
            Some(DeclaredParam { name: name.clone(), about: rule.about, values, is_list: kind == "list", is_path })
        };
        Self {
            parameters: section("params").filter_map(declared).collect(),
            stages: section("stages").map(|(name, _)| name.clone()).collect(),
        }
    }
}
