//! Where the cause of an error is: in a file of the project, when what that file sets, or does not set, makes an
//! expression of a shipped file fail.

use std::collections::{BTreeSet, HashSet};

use indexmap::IndexMap;

use super::expression_source::{ExpressionPath, PathStep, paths_in_text};
use super::library::FileId;
use super::load::merged;
use super::read::{Map, Node, NodeValue, is_template};
use base::diag::{Diagnostic, Diagnostics, MissingValue, SourceText, Span, list_of};
use base::files::text_of;

/// What is kept of a merged manifest to explain its errors.
#[derive(Clone, Debug, Default)]
pub struct ErrorOrigins {
    /// As they are written.
    pub vars: Map,
    /// The catalog that was chosen from last, the chosen file, and the beginning of that file.
    pub system: Option<(FileId, FileId, Span)>,
}

impl ErrorOrigins {
    /// The errors, each cause once and at the line of the project that it is in. Names that the system lacks are one
    /// error for each file that another system includes for them; any other unknown name is one error.
    pub fn explain(&self, found: Diagnostics) -> Diagnostics {
        let (unknown, mut others): (Vec<_>, Vec<_>) =
            found.unique().into_list().into_iter().partition(|error| unknown_name(error).is_some());
        // A value that several stages read is wrong in the first of them.
        let mut seen = HashSet::new();
        others.retain(|error| {
            let place = error.primary.as_ref().map(|label| (label.span.to_string(), label.span.range()));
            place.is_none_or(|place| seen.insert((below_stage(&error.message).to_owned(), place)))
        });
        let mut missing: BTreeSet<String> = unknown.iter().filter_map(unknown_name).map(str::to_owned).collect();
        // A name that the system misspells is not missed, too.
        let misspells = |error: &Diagnostic, name: &str| {
            error.message.ends_with("in `vars`") && error.hints.contains(&format!("did you mean `{name}`?"))
        };
        missing.retain(|name| !others.iter().any(|error| misspells(error, name)));
        let mut explained = Diagnostics::new();
        explained.extend(self.lacking(&mut missing));
        // What is left of `missing` is reported where it is read first.
        explained
            .extend(unknown.into_iter().filter(|error| unknown_name(error).is_some_and(|name| missing.remove(name))));
        explained.extend(others.into_iter().map(|error| self.at_cause(error)));
        explained
    }

    /// What other systems have and this one lacks. Takes those names out of `missing`.
    fn lacking(&self, missing: &mut BTreeSet<String>) -> Vec<Diagnostic> {
        let Some((catalog, chosen, place)) = self.system.as_ref().filter(|_| !missing.is_empty()) else {
            return Vec::new();
        };
        let others = catalog.catalog(chosen).into_iter().map(|name| (catalog.item(&name), name));
        let givers = others.filter_map(|(file, name)| Some((givers(&file, missing)?, name)));
        // Of those that give equally many names the first.
        let count = |(groups, _): &(Vec<NameGiver>, String)| groups.iter().map(|(_, names)| names.len()).sum::<usize>();
        let Some((groups, system)) = givers.collect::<Vec<_>>().into_iter().rev().max_by_key(count) else {
            return Vec::new();
        };
        let lacking = groups.into_iter().filter(|(_, names)| !names.is_empty()).map(|(include, names)| {
            missing.retain(|name| !names.contains(name));
            let names = list_of(names.iter().map(String::as_str));
            let hint = match include {
                Some(path) => format!("include a file for that, as `{system}` does: `include: [{path}]`"),
                None => format!("set it under `vars`, as `{system}` does"),
            };
            Diagnostic::error(format!("the file of the system does not set {names}"))
                .at(place.clone(), "nor what it includes")
                .hint(hint)
        });
        lacking.collect()
    }

    /// Moves an error in a shipped file to the key of the project that it depends on, if there is one.
    fn at_cause(&self, mut error: Diagnostic) -> Diagnostic {
        if let Some(label) = error.primary.as_mut().filter(|label| is_shipped(&label.span))
            && let Some(key) = self.project_key(&label.span)
        {
            let read = std::mem::replace(&mut label.span, key);
            let text = std::mem::replace(&mut label.text, "because of this value".to_owned());
            error.further.insert(0, base::diag::Label { span: read, text });
        }
        error
    }

    /// The innermost key of the first path in this line that leads to something that the project sets.
    fn project_key(&self, place: &Span) -> Option<Span> {
        let (source, line) = (place.source(), place.line());
        let line = source.span(source.line_start(line)..source.line_start(line + 1));
        paths_in_text(line.text()).iter().find_map(|path| {
            let mut map = Some(&self.vars);
            let mut innermost = None;
            for step in path {
                let PathStep::Key(name) = step else { break };
                let Some(entry) = map.and_then(|map| map.get(name)) else { break };
                innermost = Some(&entry.key).filter(|key| !is_shipped(key)).or(innermost);
                map = entry.node.map();
            }
            innermost.cloned()
        })
    }
}

/// A message without the name of the stage that it begins with.
fn below_stage(message: &str) -> &str {
    message.strip_prefix("`stages.").and_then(|rest| rest.split_once('.')).map_or(message, |(_, below)| below)
}

fn unknown_name(error: &Diagnostic) -> Option<&str> {
    match &error.missing {
        Some(MissingValue::Name(name)) => Some(name),
        _ => None,
    }
}

fn is_shipped(place: &Span) -> bool {
    place.source().name().starts_with("shipped:")
}

/// Names that a system has from one of the files that it includes, with the path of that, or that it sets itself.
type NameGiver = (Option<String>, BTreeSet<String>);

/// Where a system has these names from; none where its file cannot be read.
fn givers(file: &FileId, names: &BTreeSet<String>) -> Option<Vec<NameGiver>> {
    let read = file.read().ok()?;
    let node = super::read::read(&SourceText::new(&read.name, text_of(read.bytes).ok()?)).ok()?;
    let mut rest = names.clone();
    let mut given_by = |node: &Node, include: Option<&str>| {
        let sections = ["vars", "params"].into_iter().filter_map(|section| node.get(section)?.node.map());
        let names: BTreeSet<String> = sections.flat_map(Map::keys).filter_map(|name| rest.take(name)).collect();
        (include.map(str::to_owned), names)
    };
    let mut givers = vec![given_by(&node, None)];
    if let Some(NodeValue::List(includes)) = node.get("include").map(|entry| &entry.node.tree) {
        for path in includes.iter().filter_map(Node::text) {
            givers.extend(file.sibling(path).and_then(|file| merged(&file)).map(|node| given_by(&node, Some(path))));
        }
    }
    Some(givers)
}

/// A computed value with the places where its parts are written, so that an error in it points there and not at the
/// expression. A part that could have come from several places keeps that of the expression.
pub fn traced(node: Node, vars: &IndexMap<String, Node>) -> Node {
    if !is_template(node.span.text()) || node.tree == NodeValue::Null {
        return node;
    }
    let paths = paths_in_text(node.span.text());
    let read: Vec<&Node> = paths.iter().flat_map(|path| nodes_at(vars, path)).collect();
    with_places(node, &read, vars)
}

fn with_places(node: Node, read: &[&Node], vars: &IndexMap<String, Node>) -> Node {
    let mut same = read.iter().filter(|other| ***other == node && !other.span.is_within(&node.span));
    if let Some(first) = same.next()
        && same.all(|other| std::ptr::eq(*other, *first))
    {
        return traced((*first).clone(), vars);
    }
    let NodeValue::Map(mut map) = node.tree else { return node };
    for (name, entry) in &mut map {
        let inside: Vec<&Node> = read.iter().filter_map(|node| Some(&node.get(name)?.node)).collect();
        let read = if inside.is_empty() { read } else { &inside };
        let part = std::mem::replace(&mut entry.node, Node::new(entry.key.clone(), NodeValue::Null));
        entry.node = with_places(part, read, vars);
    }
    Node::new(node.span, NodeValue::Map(map))
}

/// The computed values that a path leads to: of a computed key all of the map.
fn nodes_at<'a>(vars: &'a IndexMap<String, Node>, path: &ExpressionPath) -> Vec<&'a Node> {
    let Some((PathStep::Key(first), rest)) = path.split_first() else { return Vec::new() };
    let mut nodes: Vec<&Node> = vars.get(first).into_iter().collect();
    for step in rest {
        let entries = nodes.into_iter().filter_map(Node::map).flatten();
        nodes = entries.filter(|(name, _)| step.matches(name)).map(|(_, entry)| &entry.node).collect();
    }
    nodes
}

#[cfg(test)]
mod tests {
    use crate::manifest::{GivenValues, ManifestLibrary};
    use crate::{expand, load};

    /// The errors of a workload on a system of the project, each as its message, place and hints.
    fn errors(workload: &str, system: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let catalog = folder.path().join("manifests").join(workload);
        std::fs::create_dir_all(&catalog).unwrap();
        std::fs::write(catalog.join("mine.yaml"), format!("regatta: 1\n{system}")).unwrap();
        let params = vec![("system".to_owned(), "mine".to_owned())];
        let given = GivenValues { params, ..GivenValues::default() };
        let planned = load(&ManifestLibrary::new(folder.path()), workload, &given).and_then(|found| expand(&found));
        let Err(errors) = planned else { return Vec::new() };
        let place = |error: &base::diag::Diagnostic| error.primary.as_ref().map(|label| label.span.to_string());
        let line = |error: &base::diag::Diagnostic| {
            format!("{} | {} | {}", error.message, place(error).unwrap_or_default(), error.hints.join(" "))
        };
        errors.sorted().into_iter().map(line).collect()
    }

    #[test]
    fn a_machine_over_an_include_leaves_the_shipped_files_alone() {
        assert_eq!(
            errors("llama2-70b", "include: [sim-h200-x8.yaml]\nvars:\n  machine: { name: mine, gpus: 8 }\n"),
            ["`stages.generate_engines.engine.system` needs `memory_gb`, `bandwidth_gbs`, `tflops_16bit` | \
              manifests/llama2-70b/mine.yaml:4 | "]
        );
        assert_eq!(errors("llama2-70b", "include: [h200-x8.yaml]\nvars: { machine: { gpus: 8 } }\n").len(), 1);
        let whole = "{ name: mine, gpus: 8, memory_gb: 141, bandwidth_gbs: 4800, tflops_16bit: 989 }";
        let system = format!("include: [sim-h200-x8.yaml]\nvars: {{ machine: {whole} }}\n");
        assert_eq!(errors("llama2-70b", &system), Vec::<String>::new());
    }

    #[test]
    fn a_system_without_an_include_lacks_what_each_include_gives() {
        let tuning = "{ offline: { gpu_batch_size: 2048, target_qps: 60, triton_num_servers: 1 } }";
        let lacks = "the file of the system does not set";
        assert_eq!(
            errors("llama2-70b", &format!("vars:\n  gpus: 4\n  precision: fp8\n  tuning: {tuning}\n")),
            [
                &*format!(
                    "{lacks} `build_flags`, `image`, `runtime_flags`, `software_round`, `versions` | \
                     manifests/llama2-70b/mine.yaml:1 | include a file for that, as `b200-x1` does: \
                     `include: [../mlperf-flow/v6.0.yaml]`"
                ),
                &*format!(
                    "{lacks} `gpu` | manifests/llama2-70b/mine.yaml:1 | include a file for that, as `b200-x1` does: \
                     `include: [../gpus/b200-sxm-180gb.yaml]`"
                ),
                "the file of the system has no tuning for the scenario server | manifests/llama2-70b/mine.yaml:5 | \
                 write vars.tuning.server into it, or leave the scenario out: scenarios=…",
            ]
        );
        assert_eq!(
            errors("gpt2", "vars:\n  gpus: 4\n"),
            [
                &*format!(
                    "{lacks} `machine`, `simulated`, `vllm_image` | manifests/gpt2/mine.yaml:1 | set it under \
                     `vars`, as `gpu` does"
                ),
                "unknown key `gpus` in `vars` | manifests/gpt2/mine.yaml:3 | ",
            ]
        );
        assert_eq!(
            errors("vllm", "vars:\n  gpus: 4\n"),
            [
                format!("{lacks} `simulated` | manifests/vllm/mine.yaml:1 | set it under `vars`, as `b200-x1` does"),
                format!(
                    "{lacks} `gpu` | manifests/vllm/mine.yaml:1 | include a file for that, as `b200-x1` does: \
                     `include: [../gpus/b200-sxm-180gb.yaml]`"
                ),
            ]
        );
    }

    #[test]
    fn a_rate_that_is_a_text_is_found_in_each_scenario_at_its_line() {
        for scenario in ["offline", "server", "interactive"] {
            let system = format!("include: [h200-x8.yaml]\nvars:\n  tuning:\n    {scenario}: {{ target_qps: abc }}\n");
            let message = format!("tuning.{scenario}.target_qps must be a number, this is `abc`");
            assert_eq!(errors("llama2-70b", &system), [format!("{message} | manifests/llama2-70b/mine.yaml:5 | ")]);
        }
    }

    #[test]
    fn a_value_of_the_wrong_type_is_reported_where_it_is_written() {
        let system =
            "include: [sim-h200-x8.yaml]\nvars:\n  tuning:\n    server: { triton_num_clients_per_frontend: many }\n";
        let message = "`stages.run_harness.bench.triton_num_clients_per_frontend` must be a whole number";
        assert_eq!(errors("llama2-70b", system), [format!("{message} | manifests/llama2-70b/mine.yaml:5 | ")]);
    }

    #[test]
    fn an_unknown_name_is_one_error_however_often_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let text =
            "regatta: 1\nstages:\n  a: { shell: 'echo {{ size }}' }\n  b: { shell: 'echo {{ size }} {{ size }}' }\n";
        std::fs::write(folder.path().join("m.yaml"), text).unwrap();
        let library = ManifestLibrary::new(folder.path());
        let planned = load(&library, "m.yaml", &GivenValues::default()).and_then(|manifest| expand(&manifest));
        assert_eq!(planned.unwrap_err().errors(), 1);
    }
}
