//! Which stages read what was given on the command line. What no stage reads changes nothing, and is an error.
//!
//! What to write in place of keys and values that users bring from other tools, or guess.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;

use super::GivenValues;
use super::expression::Expressions;
use super::model::PARAM_KINDS;
use super::overrides::{Override, is_place};
use super::param::ResolvedParam;
use super::read::{Node, NodeValue};
use super::schema::ValueShape;
use base::diag::{Diagnostic, Diagnostics, nearest};

/// What was found out.
#[derive(Default)]
pub struct OverrideUsage {
    /// `requests=64` → its stages.
    pub readers: BTreeMap<String, BTreeSet<String>>,
    /// The same for the stages whose `foreach` or `when` reads it: there it decides what is skipped.
    pub deciding: BTreeMap<String, BTreeSet<String>>,
    /// Arguments that add a key to a var whose keys are looked up by computed names: `tuning.kvfraction=0.8` beside
    /// `tuning[scenario]`. The diagnostic is reported only if the plan is the same without the argument.
    pub new_var_arguments: Vec<(String, Diagnostic)>,
}

/// What reads each argument of the command line. Arguments that nothing reads are reported.
pub fn readers(
    given: &GivenValues,
    overrides: &[Override],
    root: &Node,
    params: &IndexMap<String, ResolvedParam>,
    expressions: &Expressions,
    found: &mut Diagnostics,
) -> OverrideUsage {
    let section = |name: &str| root.get(name).and_then(|entry| entry.node.map());
    let mentions = |name: &str| -> Vec<(String, Vec<String>)> {
        let entries = section(name).into_iter().flatten();
        entries.map(|(name, entry)| (name.clone(), expressions.paths_in_node(&entry.node))).collect()
    };
    let (vars, stages) = (mentions("vars"), mentions("stages"));
    let conditions = section("stages").into_iter().flatten().map(|(name, entry)| {
        let conditions = ["foreach", "when"].into_iter().filter_map(|key| entry.node.get(key));
        (name.clone(), conditions.flat_map(|condition| expressions.paths_in_node(&condition.node)).collect())
    });
    let conditions: Vec<(String, Vec<String>)> = conditions.collect();
    let every: BTreeSet<String> = stages.iter().map(|(name, _)| name.clone()).collect();
    let (mut all, mut deciding, mut new_var_arguments) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for (name, value) in given.params.iter().filter(|(name, _)| !is_place(name)) {
        let Some(chosen) = params.get(name) else { continue };
        // A catalog parameter selects a file that may change any stage, so every stage counts as its reader.
        let is_catalog =
            section("params").and_then(|params| params.get(name)).is_some_and(|one| one.node.get("catalog").is_some());
        let users = if is_catalog { every.clone() } else { reading(name, &vars, &stages) };
        if users.is_empty() && !every.is_empty() {
            let wrong = Diagnostic::error(format!("{name}={value} changes nothing: no stage uses `{name}`"));
            found.push(wrong.related(chosen.declared.clone(), "declared here").hint("remove it"));
        }
        deciding.insert(format!("{name}={value}"), reading(name, &vars, &conditions));
        all.insert(format!("{name}={value}"), users);
    }
    for one in overrides {
        let path: Vec<&str> = one.path.iter().map(String::as_str).collect();
        let users = match path.as_slice() {
            ["stages", stage, ..] => BTreeSet::from([(*stage).to_owned()]),
            ["vars", rest @ ..] => reading(&rest.join("."), &vars, &stages),
            _ => BTreeSet::new(),
        };
        let decides = match path.as_slice() {
            ["stages", _, "foreach" | "when", ..] => users.clone(),
            ["vars", rest @ ..] => reading(&rest.join("."), &vars, &conditions),
            _ => BTreeSet::new(),
        };
        deciding.insert(one.argument.text().to_owned(), decides);
        let is_unread = users.is_empty() && !every.is_empty();
        let is_new_var_argument = !one.is_known && path.first() == Some(&"vars");
        if is_unread || is_new_var_argument {
            let leaf = path.last().copied().unwrap_or_default();
            let message = format!("{} changes nothing: no stage uses `{}`", one.argument.text(), path[1..].join("."));
            let near = nearest(leaf, one.siblings.iter().map(String::as_str).filter(|name| *name != leaf));
            let hint = match near.filter(|_| !one.is_known) {
                Some(name) => {
                    let mut steps = path[1..].to_vec();
                    steps.splice(steps.len().saturating_sub(1).., [name]);
                    format!("did you mean `{}`?", steps.join("."))
                }
                None => "remove it".to_owned(),
            };
            let wrong = Diagnostic::error(message).at(one.argument.span(0..one.argument.text().len()), "").hint(hint);
            if is_unread {
                found.push(wrong);
            } else {
                new_var_arguments.push((one.argument.text().to_owned(), wrong));
            }
        }
        all.insert(one.argument.text().to_owned(), users);
    }
    OverrideUsage { readers: all, deciding, new_var_arguments }
}

/// The stages that look at a path, themselves or through vars.
fn reading(path: &str, vars: &[(String, Vec<String>)], stages: &[(String, Vec<String>)]) -> BTreeSet<String> {
    let mut changed = vec![path.to_owned()];
    loop {
        let looks = |paths: &[String]| paths.iter().any(|one| changed.iter().any(|other| touch(one, other)));
        let next = vars.iter().find(|(name, paths)| !changed.contains(name) && looks(paths));
        let Some((name, _)) = next else {
            return stages.iter().filter(|(_, paths)| looks(paths)).map(|(name, _)| name.clone()).collect();
        };
        changed.push(name.clone());
    }
}

/// Whether one path is the other or leads into it.
fn touch(one: &str, other: &str) -> bool {
    let into =
        |long: &str, short: &str| long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    into(one, other) || into(other, one)
}

/// For a key that does not exist in an object of this name (`bench`, `manifest`): the line to write in its place.
pub fn for_key(object: &str, key: &str, value: &Node) -> Option<String> {
    let value = value.span.first_line();
    let value = value.text();
    match (object, key) {
        ("bench", "duration" | "time" | "measurement_interval") => {
            Some(format!("write `stop: {{ duration: {value} }}`"))
        }
        ("bench", "requests" | "request_count" | "num_requests" | "num_prompts" | "count") => {
            Some(format!("write `stop: {{ requests: {value} }}`"))
        }
        ("bench", "max_tokens" | "output_len" | "osl") => Some(format!("write `output_tokens: {{ fixed: {value} }}`")),
        ("bench", "prompt_tokens" | "input_len" | "isl") => Some(format!("write `input_tokens: {{ fixed: {value} }}`")),
        ("manifest", "from" | "extends" | "base" | "inherits") => Some(format!("write `include: [{value}]`")),
        ("stage", "depends_on" | "dependencies" | "after") => Some(format!("write `needs: {value}`")),
        ("stage", "run" | "script" | "command" | "cmd") => Some(format!("write `shell: {value}`")),
        _ => None,
    }
}

/// For a value of the wrong type at a path: the line to write in its place.
pub fn for_value(path: &str, node: &Node, shape: &ValueShape) -> Option<String> {
    let key = path.rsplit('.').next().unwrap_or(path);
    let first = node.span.first_line();
    let text = first.text();
    if let NodeValue::Number(number) = &node.tree
        && let Some(field) = ["fixed", "requests"].into_iter().find(|field| has_field(shape, field))
    {
        return Some(format!("write `{key}: {{ {field}: {number} }}`"));
    }
    match (path.split('.').collect::<Vec<_>>().as_slice(), &node.tree) {
        (["stages", _, "inputs"], NodeValue::List(items)) => named(items),
        (["stages", _, "inputs"], NodeValue::Text(path)) => {
            let name = name_of(path);
            Some(format!("give it a name: `inputs: {{ {name}: {path} }}`; the stage reads `{{{{ inputs.{name} }}}}`"))
        }
        (["stages", _, "outputs"], NodeValue::Map(map)) => {
            let paths: Option<Vec<&str>> = map.values().map(|entry| entry.node.text()).collect();
            Some(format!("write a list of files: `outputs: [{}]`", paths?.join(", ")))
        }
        (["stages", _, "serve", "attach"], NodeValue::Text(address)) => Some(match address.split_once("://") {
            Some(("http" | "https" | "openai", _)) => format!(
                "`attach` is for servers with gRPC; of one over HTTP no stage is needed: write `target: {text}` in \
                 the `bench` stage"
            ),
            _ => format!("write `attach: {{ endpoints: {text} }}`"),
        }),
        (["params", _, kind], NodeValue::Text(_) | NodeValue::Number(_) | NodeValue::Bool(_))
            if PARAM_KINDS.contains(kind) && has_field(shape, "min") =>
        {
            let default = if matches!(node.tree, NodeValue::Bool(_)) { "…" } else { text };
            Some(format!("`{kind}` takes bounds, or none: write `{kind}: {{}}`, and the value as `default: {default}`"))
        }
        (["params", _, "switch"], NodeValue::Bool(_)) => {
            Some(format!("write `switch: {{}}`, and the value as `default: {text}`"))
        }
        (["params", name], NodeValue::Text(kind)) if PARAM_KINDS.contains(&&**kind) => {
            Some(format!("write `{name}: {{ {kind}: {{}} }}`, with `default:` if it has one"))
        }
        (["params", name], NodeValue::Text(_)) => Some(format!("write `{name}: {{ text: {{}}, default: {text} }}`")),
        (["params", name], NodeValue::Bool(_)) => Some(format!("write `{name}: {{ switch: {{}}, default: {text} }}`")),
        (["params", name], NodeValue::Number(_)) => {
            Some(format!("write `{name}: {{ number: {{}}, default: {text} }}`"))
        }
        _ => None,
    }
}

/// A command in one text, where a list of its arguments belongs: that list. None where a shell would read it otherwise.
pub fn command_words(path: &str, text: &str) -> Option<String> {
    let is_command = matches!(path.rsplit('.').next(), Some("words" | "args" | "program"));
    if !is_command || text.split_whitespace().count() < 2 || text.contains(['\'', '"', '\\', '$']) {
        return None;
    }
    let quoted = |word: &str| {
        let is_plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./=+".contains(&byte));
        let is_text = word.parse::<f64>().is_err();
        if is_plain && is_text { word.to_owned() } else { format!("\"{word}\"") }
    };
    let words: Vec<String> = text.split_whitespace().map(quoted).collect();
    Some(format!("[{}]", words.join(", ")))
}

fn has_field(shape: &ValueShape, name: &str) -> bool {
    match shape {
        ValueShape::Object(object) => object.fields.contains_key(name),
        ValueShape::Either(shapes) => shapes.iter().any(|shape| has_field(shape, name)),
        _ => false,
    }
}

/// A list of paths as a map: each file's name without its suffix names it.
fn named(items: &[Node]) -> Option<String> {
    let paths: Vec<&str> = items.iter().filter_map(Node::text).collect();
    let first = name_of(paths.first()?);
    let pairs: Vec<String> = paths.iter().map(|path| format!("{}: {path}", name_of(path))).collect();
    Some(format!("give each a name: `inputs: {{ {} }}`; the stage reads `{{{{ inputs.{first} }}}}`", pairs.join(", ")))
}

fn name_of(path: &str) -> String {
    let file = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path);
    let stem = file.split('.').find(|part| !part.is_empty()).unwrap_or(file);
    let name: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() { format!("file_{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage_table(all: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
        all.iter()
            .map(|(name, paths)| ((*name).to_owned(), paths.iter().map(|one| (*one).to_owned()).collect()))
            .collect()
    }

    #[test]
    fn stages_that_use_a_value_through_vars_are_found() {
        let vars = usage_table(&[("flags", &["tuning.build"]), ("tuning", &["seed"]), ("more", &["flags.x"])]);
        let stages = usage_table(&[("engine", &["flags"]), ("config", &["tuning.kv"]), ("bench", &["more", "rate"])]);
        let readers_of = |path: &str| reading(path, &vars, &stages).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(readers_of("tuning.build.max"), "bench engine");
        assert_eq!(readers_of("tuning.kv"), "config");
        assert_eq!(readers_of("tuning.kvx"), "");
        assert_eq!(readers_of("tuning"), "bench config engine");
        assert_eq!(readers_of("seed"), "bench config engine");
        assert_eq!(readers_of("rate"), "bench");
    }
}
