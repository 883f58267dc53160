//! The loaded manifest: what `plan` expands, `regatta show` prints and `regatta list` lists.
//!
//! Values from outside a manifest.
//!
//! Where a value of a manifest came from.
//!
//! What of a manifest with errors cannot be used, so that an expression that uses it is not one more error.
//!
//! Keys in the file of a catalog, the system for example, that nothing in the manifest reads: typing errors, as a rule.
//!
//! A var is free in its form, so no schema knows them; the expressions of the manifest do.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;

use super::error_origin::ErrorOrigins;
use super::expression_source::{ExpressionPath, PathStep, paths_in_node};
use super::library::ManifestLibrary;
use super::param::ResolvedParam;
use super::read::{Map, Node, NodeValue};
use super::{load, read};
use base::diag::{Diagnostic, Diagnostics, ErrorText, SourceText, Span, nearest};
use base::files::{Digest, text_of};
use base::units::unquoted;

/// A manifest: parameters chosen, vars computed, stages still with expressions. Without errors in its structure, except
/// in its faulty parts.
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
    pub(crate) origins: ErrorOrigins,
    pub(super) sources: Vec<(String, Digest)>,
    pub(super) env: BTreeMap<String, Option<String>>,
}

/// One leaf for `regatta show`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ShownValue {
    /// `stages.build.shell`
    pub path: String,
    pub value: String,
    /// `manifests/x.yaml:12`, `command line`, `environment SCENARIOS`, `default, manifests/x.yaml:3`.
    #[serde(rename = "from")]
    pub origin: String,
}

impl Manifest {
    /// Every value, with where it came from. Params and vars are shown as they were computed, stages as written.
    pub fn values(&self) -> Vec<ShownValue> {
        let mut list = Vec::new();
        let mut add = |path: String, value: String, origin: String| list.push(ShownValue { path, value, origin });
        for (name, chosen) in &self.params {
            add(format!("params.{name}"), unquoted(&chosen.value), chosen.origin.to_string());
        }
        for (name, node) in &self.vars {
            leaves(node, &format!("vars.{name}"), &mut add);
        }
        for (name, entry) in &self.stages {
            leaves(&entry.node, &format!("stages.{name}"), &mut add);
        }
        list
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
            let text =
                file.read().and_then(|read| text_of(read.bytes).map_err(|_| ErrorText::new("it is not UTF-8 text")));
            let (about, broken) = match text {
                Err(error) => (None, Some(error.to_string())),
                Ok(text) => {
                    match read::read(&SourceText::new(&file.rel, text)) {
                        Err(found) => (None, first(&found)),
                        Ok(node) => {
                            let about = node.get("about").and_then(|entry| entry.node.text()).map(str::to_owned);
                            // Without what the user must give, a good manifest may lack a parameter: that is not
                            // broken.
                            let broken = load(library, &name, &GivenValues::default())
                                .err()
                                .filter(|found| found.missing_parameters().is_none());
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

/// What the user gave from outside: `key=value` in order (the last one wins; a key with dots is a place, see
/// `overrides`) and the environment.
#[derive(Clone, Debug, Default)]
pub struct GivenValues {
    pub params: Vec<(String, String)>,
    pub env: BTreeMap<String, String>,
}

/// Where a value came from.
#[derive(Clone, Debug)]
pub enum ValueOrigin {
    CommandLine,
    Environment(String),
    Default(Span),
    File(Span),
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => f.write_str("command line"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Default(span) => write!(f, "default, {span}"),
            Self::File(span) => span.fmt(f),
        }
    }
}

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

/// Reports every key below `vars` of a catalog's file that none of these paths leads to: those in the expressions of
/// the merged manifest.
pub fn check_catalog_keys(catalog: &Node, paths: &[ExpressionPath], found: &mut Diagnostics) {
    let Some(vars) = catalog.get("vars").and_then(|entry| entry.node.map()) else { return };
    check(vars, &mut Vec::new(), &paths.iter().collect::<Vec<_>>(), found);
}

/// `paths` are those that lead into this map.
fn check(map: &Map, place: &mut Vec<String>, paths: &[&ExpressionPath], found: &mut Diagnostics) {
    let depth = place.len();
    for (name, entry) in map {
        let through: Vec<&ExpressionPath> =
            paths.iter().filter(|path| path.get(depth).is_some_and(|step| step.matches(name))).copied().collect();
        if through.is_empty() {
            let names = paths.iter().filter_map(|path| match path.get(depth) {
                Some(PathStep::Key(key)) => Some(key.as_str()),
                _ => None,
            });
            let mut names: Vec<&str> = names.filter(|key| depth > 0 || !map.contains_key(*key)).collect();
            names.sort_unstable();
            names.dedup();
            let whole = [&["vars".to_owned()], place.as_slice()].concat().join(".");
            let unknown = Diagnostic::error(format!("unknown key `{name}` in `{whole}`"));
            // Not all that there are: among them are the words and the loop variables of templates.
            let hint = nearest(name, names.iter().copied()).map(|name| format!("did you mean `{name}`?"));
            found.push(unknown.at(entry.key.clone(), "nothing in the manifest reads it").maybe_hint(hint));
            continue;
        }
        // The whole of it is used, as flags are.
        if through.iter().any(|path| path.len() == depth + 1) {
            continue;
        }
        if let NodeValue::Map(inner) = &entry.node.tree {
            place.push(name.clone());
            check(inner, place, &through, found);
            place.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;
    use crate::manifest::expression_source::paths_in_node;
    use base::diag::SourceText;
    use pretty_assertions::assert_eq;

    const MANIFEST: &str = "vars: { all: '{{ dict(gpu, gpus=gpus) }}', flags: {} }\nstages:\n  one: { engine: { \
        flags: '{{ dict(flags, \
        **tuning[scenario].build_flags) }}', size: '{{ tuning[scenario].gpu_batch_size }}' } }\n";

    fn messages(system: &str) -> Vec<String> {
        let parse = |name: &str, text: &str| read::read(&SourceText::new(name, text)).unwrap();
        let mut faults = Diagnostics::new();
        let mut paths = Vec::new();
        paths_in_node(&parse("m.yaml", MANIFEST), &mut paths);
        check_catalog_keys(&parse("system.yaml", system), &paths, &mut faults);
        let line = |one: Diagnostic| format!("{} | {}", one.message, one.hints.join(" "));
        faults.into_list().into_iter().map(line).collect()
    }

    #[test]
    fn a_key_that_nothing_reads_has_the_nearest_that_is_read() {
        assert!(
            messages(
                "vars: { gpus: 8, gpu: { any: 1 }, tuning: { server: { gpu_batch_size: 1, build_flags: { any: 1 } } } }"
            )
            .is_empty()
        );
        assert_eq!(messages("vars: { surplus: 8 }"), ["unknown key `surplus` in `vars` | "]);
        assert_eq!(
            messages("vars: { gpuss: 8, tuning: { server: { gpu_batchsize: 1 } } }"),
            [
                "unknown key `gpuss` in `vars` | did you mean `gpus`?",
                "unknown key `gpu_batchsize` in `vars.tuning.server` | did you mean `gpu_batch_size`?",
            ]
        );
    }
}
