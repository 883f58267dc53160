//! `tuning.kv_fraction=0.8`: one value of the merged manifest, replaced from the command line.
//!
//! A key with dots names a place: from the top (`vars.tuning.kv_fraction`,
//! `stages.engine.engine.build_flags.max_num_tokens`); by the name of a var; by the name of a stage, with or without
//! its action (`engine.build_flags.max_num_tokens`); or by what only one stage has (`build_flags.max_num_tokens`). The
//! value is YAML, maps merge, `null` removes a flag. Where it came from stays with it: `regatta show` prints
//! `command line`, and an error in it points at the argument that was typed.

use super::library::merge;
use super::model::Action;
use super::read::{Map, MapEntry, Node, NodeValue};
use super::schema::ValueShape;
use super::{expression_source, read, schema};
use base::diag::{Diagnostic, Diagnostics, SourceText, Span, did_you_mean};
use base::units::unquoted;

/// What the places of such values are called.
pub const COMMAND_LINE: &str = "command line";

/// One value that was replaced.
pub struct Override {
    /// As it was typed.
    pub argument: SourceText,
    /// From the top: `vars`, `tuning`, `kv_fraction`.
    pub path: Vec<String>,
    /// The names in the same map, for suggestions after a typing error.
    pub siblings: Vec<String>,
    /// Whether there was a value before.
    pub is_known: bool,
    /// Arguments before it that set the same value by the same or another name.
    pub replaced: Vec<SourceText>,
}

/// Whether a key of the command line is a place and not the name of a parameter.
pub fn is_place(key: &str) -> bool {
    key.contains('.')
}

/// Replaces every value that was given by its place.
pub fn place_overrides(root: &mut Node, given: &[(String, String)], found: &mut Diagnostics) -> Vec<Override> {
    let mut done = Vec::new();
    for (key, text) in given.iter().filter(|(key, _)| is_place(key)) {
        let word = SourceText::from_argument(COMMAND_LINE, format!("{key}={text}"));
        match apply_override(root, key, &word) {
            Ok(mut change) => {
                // Maps merge.
                if child_names(root, &change.path).is_empty() {
                    let same = done.iter().filter(|before: &&Override| before.path == change.path);
                    change.replaced = same.map(|before| before.argument.clone()).collect();
                }
                done.push(change);
            }
            Err(wrong) => found.push(wrong),
        }
    }
    done
}

/// Reports values that are given twice: which one is meant?
pub fn reject_replaced(overrides: &[Override], found: &mut Diagnostics) {
    let whole = |word: &SourceText| word.span(0..word.text().len());
    for change in overrides {
        let Some(first) = change.replaced.first() else { continue };
        let twice = Diagnostic::error(format!("`{}` is given twice", change.path.join(".")));
        let twice = twice.at(whole(&change.argument), "").related(whole(first), "the first");
        found.push(twice.hint("remove one of them"));
    }
}

fn apply_override(root: &mut Node, key: &str, word: &SourceText) -> Result<Override, Diagnostic> {
    let place = word.span(0..key.len());
    let value = value(word, key.len() + 1)?;
    let path = find(root, key, &place)?;
    let siblings = child_names(root, &path[..path.len() - 1]);
    let is_known = siblings.iter().any(|name| Some(name) == path.last());
    set(root, &path, &place, value).map_err(|before| {
        let text = unquoted(&before.json());
        let places = expression_source::places(root, &path, &before);
        let fault = Diagnostic::error(format!("`{key}` leads into something that is not a map"));
        let fault =
            fault.at(place.clone(), "given here").related(before.span.first_line(), format!("this is `{text}`"));
        if places.is_empty() {
            return fault.hint("replace it entirely, or the values that it is computed from");
        }
        let value = word.text().get(key.len()..).unwrap_or_default();
        let places: Vec<String> = places.into_iter().map(|place| format!("{place}{value}")).collect();
        fault.hint(format!("it is computed from other values; set {}", places.join(" or ")))
    })?;
    Ok(Override { argument: word.clone(), path, siblings, is_known, replaced: Vec::new() })
}

/// The value after the `=`, with its places in the argument.
fn value(word: &SourceText, from: usize) -> Result<Node, Diagnostic> {
    let whole = word.span(from..word.text().len());
    let text = whole.text();
    if text.contains(read::RESERVED) {
        return Err(Diagnostic::error("the brackets ⟦ and ⟧ are reserved").at(whole, "here"));
    }
    // As long as the argument itself, so that places in the one are places in the other.
    let padded = SourceText::from_argument(COMMAND_LINE, format!("{}{text}", " ".repeat(from)));
    Ok(match read::read(&padded) {
        Ok(node) => moved(node, word),
        // A value that is not YAML is a text.
        Err(_) => Node::new(whole.clone(), NodeValue::Text(text.into())),
    })
}

fn moved(node: Node, word: &SourceText) -> Node {
    let there = |span: &Span| word.span(span.range());
    let tree = match node.tree {
        NodeValue::List(items) => NodeValue::List(items.into_iter().map(|item| moved(item, word)).collect()),
        NodeValue::Map(map) => NodeValue::Map(
            map.into_iter()
                .map(|(name, entry)| (name, MapEntry { key: there(&entry.key), node: moved(entry.node, word) }))
                .collect(),
        ),
        other => other,
    };
    Node::new(there(&node.span), tree)
}

/// The way from the top of the manifest to the value that a key means.
fn find(root: &Node, key: &str, place: &Span) -> Result<Vec<String>, Diagnostic> {
    let ambiguous = |longer: &[String]| {
        let fault = Diagnostic::error(format!("`{key}` could be in several places"));
        fault.at(place.clone(), "which one?").hint(format!("write {}", longer.join(" or ")))
    };
    let nowhere = |label: String, name: &str, names: Vec<&String>| {
        let fault = Diagnostic::error(format!("`{key}` leads nowhere")).at(place.clone(), label);
        fault.maybe_hint(did_you_mean(name, names.iter().map(|name| name.as_str())))
    };
    let steps: &[&str] = &key.split('.').collect::<Vec<_>>();
    let owned = |steps: &[&str]| steps.iter().map(|step| (*step).to_owned()).collect::<Vec<_>>();
    let section = |name: &str| root.get(name).and_then(|entry| entry.node.map());
    let first = steps.first().copied().unwrap_or_default();
    let (vars, stages) = (section("vars"), section("stages"));
    if section("params").is_some_and(|params| params.contains_key(first)) {
        let fault = Diagnostic::error(format!("`{first}` is a parameter, it has no parts"));
        return Err(fault.at(place.clone(), "").hint(format!("give it whole: {first}=…")));
    }
    let below = steps.get(1).copied().unwrap_or_default();
    if steps.len() > 2 && first == "stages" {
        // A stage is declared in a manifest, so a new name is a misspelt one.
        return match stages.filter(|stages| !stages.contains_key(below)) {
            Some(stages) => Err(nowhere(format!("there is no stage `{below}`"), below, stages.keys().collect())),
            None => Ok(owned(steps)),
        };
    }
    if steps.len() > 1 && first == "vars" {
        return Ok(owned(steps));
    }
    let is_key = matches!(schema::stage(), ValueShape::Object(keys) if keys.fields.contains_key(below));
    if let Some(var) = vars.and_then(|vars| vars.get(first)) {
        let is_in_var = var.node.get(below).is_some();
        match stages.and_then(|stages| stages.get(first)) {
            // A var and a stage of one name: the one that has such a part, or could have it.
            Some(_) if is_key && is_in_var => {
                return Err(ambiguous(&[format!("`vars.{key}=…`"), format!("`stages.{key}=…`")]));
            }
            Some(_) if is_key || var.node.map().is_none() => {}
            _ => return Ok([owned(&["vars"]), owned(steps)].concat()),
        }
    }
    if let Some(stage) = stages.and_then(|stages| stages.get(first)) {
        // A command has no keys, so what follows is meant to be one of the stage.
        let through = action(&stage.node).filter(|action| !is_key && *action != "shell");
        let mut through: Vec<String> = through.into_iter().map(str::to_owned).collect();
        // `serve: { triton: … }`: the server is known, so the key need not repeat it.
        let body = through.first().and_then(|action| stage.node.get(action)).and_then(|body| body.node.map());
        if let Some((only, _)) = body.and_then(|body| body.first()).filter(|(name, entry)| {
            matches!(through[0].as_str(), "serve" | "mlperf") && *name != below && entry.node.map().is_some()
        }) {
            through.push(only.clone());
        }
        return Ok([owned(&["stages", first]), through, owned(&steps[1..])].concat());
    }
    let parent = &steps[..steps.len() - 1];
    let mut list = Vec::new();
    for (stage, entry) in stages.into_iter().flatten() {
        let Some(action) = action(&entry.node) else { continue };
        let Some(body) = entry.node.get(action) else { continue };
        let mut way = vec![stage.clone(), action.to_owned()];
        maps(&body.node, &mut way, &mut |way| {
            if way.len() > parent.len() && way[way.len() - parent.len()..].iter().zip(parent).all(|(a, b)| a == b) {
                list.push(way.to_vec());
            }
        });
    }
    match list.as_slice() {
        [way] => Ok([owned(&["stages"]), way.clone(), owned(&steps[steps.len() - 1..])].concat()),
        [] => {
            let mut candidates: Vec<&String> = [vars, stages].into_iter().flatten().flat_map(Map::keys).collect();
            for (_, entry) in stages.into_iter().flatten() {
                let body = action(&entry.node).and_then(|action| entry.node.get(action));
                let inner = body.and_then(|body| body.node.map()).into_iter().flatten();
                candidates.extend(inner.filter(|(_, entry)| entry.node.map().is_some()).map(|(name, _)| name));
            }
            candidates.sort();
            candidates.dedup();
            Err(nowhere(format!("no var, stage or map of flags is called `{first}`"), first, candidates))
        }
        _ => {
            let leaf = steps.last().copied().unwrap_or_default();
            let longer = |way: &Vec<String>| format!("`{}.{}.{leaf}=…`", way[0], way[2..].join("."));
            Err(ambiguous(&list.iter().map(longer).collect::<Vec<_>>()))
        }
    }
}

/// The key of a stage's action.
fn action(stage: &Node) -> Option<&'static str> {
    Action::KEYS.into_iter().find(|key| stage.get(key).is_some())
}

/// Every map in a value, with the way to it.
fn maps(node: &Node, way: &mut Vec<String>, visit: &mut impl FnMut(&[String])) {
    let NodeValue::Map(map) = &node.tree else { return };
    visit(way);
    for (name, entry) in map {
        way.push(name.clone());
        maps(&entry.node, way, visit);
        way.pop();
    }
}

/// The names in the map at the end of a way.
fn child_names(root: &Node, way: &[String]) -> Vec<String> {
    let mut here = root;
    for step in way {
        let Some(entry) = here.get(step) else { return Vec::new() };
        here = &entry.node;
    }
    here.map().into_iter().flat_map(Map::keys).cloned().collect()
}

/// Puts a value at the end of a path; creates missing maps. On error: what blocks the path.
fn set(node: &mut Node, way: &[String], key: &Span, value: Node) -> Result<(), Node> {
    let Some((step, rest)) = way.split_first() else {
        let before = std::mem::replace(node, Node::new(key.clone(), NodeValue::Null));
        *node = merge(before, value);
        return Ok(());
    };
    if node.tree == NodeValue::Null {
        *node = Node::new(key.clone(), NodeValue::Map(Map::new()));
    }
    let NodeValue::Map(map) = &mut node.tree else { return Err(node.clone()) };
    let empty = || MapEntry { key: key.clone(), node: Node::new(key.clone(), NodeValue::Null) };
    let entry = map.entry(step.clone()).or_insert_with(empty);
    if rest.is_empty() {
        entry.key = key.clone();
    }
    set(&mut entry.node, rest, key, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    const TEXT: &str = "params: { system: { text: {} } }\n\
        vars: { tuning: { kv: 0.9, deep: { x: 1 } }, machine: '{{ x }}', three: '{{ x }}', four: { gpus: 1 } }\n\
        stages:\n\
        \x20 build: { engine: { build_flags: { max_num_tokens: 1536 } } }\n\
        \x20 one: { gpus: 1, repository: { runtime_flags: { kv: 0.9 }, parameters: {} } }\n\
        \x20 two: { repository: { runtime_flags: { kv: 0.9 } } }\n\
        \x20 triton: { serve: { triton: { options: {} } } }\n\
        \x20 three: { shell: a }\n\
        \x20 four: { shell: a }\n\
        \x20 five: { engine: { build_flags: '{{ dict(tuning[s].build_flags, size=tuning[s].kv) }}' } }\n";

    fn given(words: &[&str]) -> (Node, Vec<Override>, Vec<Diagnostic>) {
        let mut root = read::read(&SourceText::new("m.yaml", TEXT)).unwrap();
        let given: Vec<(String, String)> =
            words.iter().filter_map(|word| word.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        let mut faults = Diagnostics::new();
        let done = place_overrides(&mut root, &given, &mut faults);
        (root, done, faults.into_list())
    }

    fn at<'a>(root: &'a Node, path: &str) -> &'a Node {
        path.split('.').fold(root, |node, step| &node.get(step).expect(step).node)
    }

    #[test]
    fn a_key_is_found_by_every_name_that_a_person_would_write() {
        let words = [
            "tuning.kv=0.8",
            "vars.tuning.deep.x=2",
            "vars.precision=fp8",
            "build_flags.max_num_tokens=4096",
            "build.build_flags.reduce_fusion=enable",
            "one.runtime_flags.kv=0.7",
            "two.repository.runtime_flags.kv=null",
            "parameters.max_queue_size=[1, {a: b}]",
            "one.gpus=2",
            "one.timeout=2h",
            "stages.two.cache=false",
            "triton.options.log-info=true",
            "triton.triton.mode=plain",
        ];
        let (root, done, found) = given(&words);
        assert!(found.is_empty(), "{found:?}");
        let value = |path: &str| at(&root, path).json().to_string();
        assert_eq!(value("vars.tuning"), r#"{"kv":0.8,"deep":{"x":2}}"#);
        assert_eq!(value("vars.precision"), "\"fp8\"");
        assert_eq!(value("stages.build.engine.build_flags"), r#"{"max_num_tokens":4096,"reduce_fusion":"enable"}"#);
        assert_eq!(value("stages.one.repository.runtime_flags.kv"), "0.7");
        assert_eq!(value("stages.two.repository.runtime_flags.kv"), "null");
        assert_eq!(value("stages.one.repository.parameters.max_queue_size"), r#"[1,{"a":"b"}]"#);
        assert_eq!((value("stages.one.gpus"), value("stages.two.cache")), ("2".to_owned(), "false".to_owned()));
        assert_eq!(value("stages.triton.serve.triton"), r#"{"options":{"log-info":true},"mode":"plain"}"#);
        assert_eq!(value("stages.one.timeout"), "\"2h\"");
        assert_eq!(done.len(), words.len());
        assert_eq!(done[4].path.join("."), "stages.build.engine.build_flags.reduce_fusion");
        assert!(done[0].is_known && !done[4].is_known);
    }

    #[test]
    fn a_value_knows_the_word_that_it_came_from() {
        let (root, ..) = given(&["tuning.kv=0.8", "tuning.deep={ x: [1, 22] }"]);
        let kv = &at(&root, "vars.tuning.kv").span;
        assert_eq!((kv.to_string().as_str(), kv.text()), ("command line", "0.8"));
        let NodeValue::List(items) = &at(&root, "vars.tuning.deep.x").tree else { panic!() };
        assert_eq!((items[1].span.text(), items[1].span.range()), ("22", 21..23));
    }

    #[test]
    fn what_is_no_yaml_is_a_text() {
        let (root, ..) = given(&["tuning.kv=*x: [", "tuning.new=a=b"]);
        assert_eq!(at(&root, "vars.tuning.kv").json(), "*x: [");
        assert_eq!(at(&root, "vars.tuning.new").json(), "a=b");
    }

    #[test]
    fn a_place_inside_an_expression_is_where_its_values_are_set() {
        let (_, done, found) = given(&["five.build_flags.max_num_tokens=4", "five.build_flags.size=2"]);
        assert!(done.is_empty());
        let hints: Vec<String> = found.iter().map(|one| one.hints.join(" ")).collect();
        assert_eq!(
            hints,
            [
                "it is computed from other values; set tuning.deep.build_flags.max_num_tokens=4",
                "it is computed from other values; set tuning.deep.kv=2",
            ]
        );
    }

    #[test]
    fn a_var_and_a_stage_of_one_name_are_distinguished_by_their_parts() {
        let (root, _, found) = given(&["three.timeout=1h", "four.limit=2", "four.timeout=3h"]);
        assert!(found.is_empty(), "{found:?}");
        assert_eq!(at(&root, "stages.three.timeout").json(), "1h");
        assert_eq!(at(&root, "vars.four.limit").json(), 2);
        assert_eq!(at(&root, "stages.four.timeout").json(), "3h");
        let (.., found) = given(&["four.gpus=2"]);
        assert_eq!(found[0].hints.join(" "), "write `vars.four.gpus=…` or `stages.four.gpus=…`");
    }

    #[test]
    fn a_stage_that_is_not_in_the_manifest_is_no_place() {
        let (_, done, found) = given(&["stages.bild.engine.build_flags.kv=1"]);
        assert!(done.is_empty());
        let text = Diagnostics::from(found.into_iter().next().unwrap()).render(false);
        assert!(text.contains("there is no stage `bild`") && text.contains("did you mean `build`?"), "{text}");
    }

    #[test]
    fn a_value_that_is_given_by_two_names_is_given_twice() {
        let (_, done, found) = given(&["one.timeout=1s", "stages.one.timeout=2s"]);
        assert!(found.is_empty(), "{found:?}");
        let mut faults = Diagnostics::new();
        reject_replaced(&done, &mut faults);
        assert_eq!(faults.into_list()[0].message, "`stages.one.timeout` is given twice");
    }

    #[test]
    fn a_key_of_a_shell_stage_is_one_of_the_stage() {
        let (root, done, found) = given(&["three.timout=5s"]);
        assert!(found.is_empty() && done.len() == 1, "{found:?}");
        assert_eq!(at(&root, "stages.three.timout").json(), "5s");
    }

    #[test]
    fn an_unknown_key_lists_the_known_ones() {
        let (_, done, found) =
            given(&["runtime_flags.kv=1", "tunning.kv=1", "system.x=1", "machine.gpus=1", "tuning.kv=⟦out:x⟧"]);
        assert!(done.is_empty());
        let lines: Vec<String> = found.iter().map(|one| format!("{} | {}", one.message, one.hints.join(" "))).collect();
        assert_eq!(
            lines,
            [
                "`runtime_flags.kv` could be in several places | write `one.runtime_flags.kv=…` or \
                 `two.runtime_flags.kv=…`",
                "`tunning.kv` leads nowhere | did you mean `tuning`?",
                "`system` is a parameter, it has no parts | give it whole: system=…",
                "`machine.gpus` leads into something that is not a map | replace it entirely, or the values \
                 that it is computed from",
                "the brackets ⟦ and ⟧ are reserved | ",
            ]
        );
    }
}
