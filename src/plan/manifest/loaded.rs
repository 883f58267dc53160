//! The loaded manifest: what `plan` expands, `regatta show` prints and `regatta list` lists.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use indexmap::IndexMap;

use super::faulty_parts::FaultyParts;
use super::given_values::GivenValues;
use super::library::{ManifestFileError, ManifestLibrary};
use super::param::ResolvedParam;
use super::yaml_node::{Map, Node, NodeValue};
use super::{load, read};
use base::diag::{Diagnostic, Diagnostics, SourceText};
use base::files::{Digest, text_of};
use base::units::unquoted;

/// A manifest: parameters chosen, vars computed, stages still with expressions. Without errors in its structure, except in its
/// faulty parts.
#[derive(Clone, Debug)]
pub struct Manifest {
    pub name: String,
    pub about: Option<String>,
    /// The stages as merged, each value with its place.
    pub stages: Map,
    pub params: IndexMap<String, ResolvedParam>,
    /// Computed.
    pub vars: IndexMap<String, Node>,
    /// Params and vars, as expressions see them.
    pub globals: Arc<IndexMap<String, minijinja::Value>>,
    /// Each argument of the command line, and the stages that read what it sets.
    pub given: BTreeMap<String, BTreeSet<String>>,
    /// The same for the stages whose `foreach` or `when` reads it.
    pub deciding: BTreeMap<String, BTreeSet<String>>,
    /// Arguments of the command line that may change nothing, and the diagnostic if the plan is the same without them.
    pub new_var_arguments: Vec<(String, Diagnostic)>,
    /// Empty, unless it was loaded with its errors.
    pub faulty: FaultyParts,
    pub(super) sources: Vec<(String, Digest)>,
    pub(super) env: BTreeMap<String, Option<String>>,
}

/// One leaf for `regatta show`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownValue {
    /// `stages.build.shell`
    pub path: String,
    pub value: String,
    /// `manifests/x.yaml:12`, `command line`, `environment SCENARIOS`, `default, manifests/x.yaml:3`.
    pub origin: String,
}

impl Manifest {
    /// Every value, with where it came from. Params and vars are shown as they were computed, stages as written.
    pub fn values(&self) -> Vec<ShownValue> {
        let mut all = Vec::new();
        let mut add = |path: String, value: String, origin: String| all.push(ShownValue { path, value, origin });
        for (name, chosen) in &self.params {
            add(format!("params.{name}"), unquoted(&chosen.value), chosen.origin.to_string());
        }
        for (name, node) in &self.vars {
            leaves(node, &format!("vars.{name}"), &mut add);
        }
        for (name, entry) in &self.stages {
            leaves(&entry.node, &format!("stages.{name}"), &mut add);
        }
        all
    }

    /// Every file it was made of (path, or `shipped:path`) with its digest, in the order of reading.
    pub fn sources(&self) -> &[(String, Digest)] {
        &self.sources
    }

    /// Every environment variable that could have changed it, with its value.
    pub const fn environment(&self) -> &BTreeMap<String, Option<String>> {
        &self.env
    }
}

fn leaves(node: &Node, path: &str, add: &mut impl FnMut(String, String, String)) {
    match &node.tree {
        NodeValue::Map(map) if !map.is_empty() => {
            for (name, entry) in map {
                leaves(&entry.node, &format!("{path}.{name}"), add);
            }
        }
        NodeValue::List(items)
            if items.iter().any(|item| matches!(item.tree, NodeValue::Map(_) | NodeValue::List(_))) =>
        {
            for (index, item) in items.iter().enumerate() {
                leaves(item, &format!("{path}[{index}]"), add);
            }
        }
        _ => add(path.to_owned(), unquoted(&node.json()), node.span.to_string()),
    }
}

/// One line of `regatta list`.
#[derive(Clone, Debug)]
pub struct ListedManifest {
    pub name: String,
    pub about: Option<String>,
    /// `manifests/x.yaml`, or `shipped`.
    pub location: String,
    /// Set when it cannot be read: its first error.
    pub broken: Option<String>,
}

/// All manifests that can be run by name: the project's first, then the shipped ones that they do not hide.
///
/// # Errors
/// The project's cannot be listed.
pub fn list_manifests(library: &ManifestLibrary) -> std::io::Result<Vec<ListedManifest>> {
    let names = library.names()?.into_iter();
    let listed = names
        .map(|(name, file, shipped)| {
            let location = if shipped { "shipped".to_owned() } else { file.rel.clone() };
            let text = file.read().and_then(|read| text_of(read.bytes).map_err(|_| ManifestFileError::NotText));
            let (about, broken) = match text {
                Err(error) => (None, Some(error.to_string())),
                Ok(text) => {
                    match read::read(&SourceText::new(&file.rel, text)) {
                        Err(found) => (None, first(&found)),
                        Ok(node) => {
                            let about = node.get("about").and_then(|entry| entry.node.text()).map(str::to_owned);
                            // Without what the user must give, a good manifest may lack a parameter: that is not broken.
                            let broken = load(library, &name, &GivenValues::default())
                                .err()
                                .filter(|found| !found.only_misses_parameters());
                            (about, broken.as_ref().and_then(first))
                        }
                    }
                }
            };
            ListedManifest { name, about, location, broken }
        })
        .collect();
    Ok(listed)
}

fn first(found: &Diagnostics) -> Option<String> {
    found.sorted().first().map(|one| match &one.primary {
        Some(label) => format!("{} ({})", one.message, label.span),
        None => one.message.clone(),
    })
}
