//! Walks a node against a [`ValueShape`] and reports every error, each once, at its place.

use super::override_usage;
use super::overrides::COMMAND_LINE;
use super::read::{Map, MapEntry, Node, NodeValue, is_template};
use super::schema::{Object, Range, ValueShape};
use base::diag::{Diagnostic, Diagnostics, Span, did_you_mean, list_of, nearest};
use base::spec::UnmeasuredProtocol;

/// Whether a text with `{{ }}` may stand for any type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TemplatePolicy {
    /// Before rendering: yes, for the values inside a stage. Not for `stages`, a stage or its `foreach` as a whole:
    /// which tasks there are must be written.
    InStages,
    /// Yes, here and below.
    Here,
    /// After rendering: it is a text like any other.
    Done,
}

/// Checks a value and everything in it. `path` is its name in messages, `key` is the position of its key.
pub fn check(
    node: &Node,
    shape: &ValueShape,
    path: &str,
    key: &Span,
    templates: TemplatePolicy,
    found: &mut Diagnostics,
) {
    SchemaWalker { templates, found }.value(node, shape, path, key);
}

struct SchemaWalker<'a> {
    templates: TemplatePolicy,
    found: &'a mut Diagnostics,
}

impl SchemaWalker<'_> {
    fn value(&mut self, node: &Node, shape: &ValueShape, path: &str, key: &Span) {
        if self.templates == TemplatePolicy::Here && node.text().is_some_and(is_template) {
            return;
        }
        match (shape, &node.tree) {
            (ValueShape::Any, _)
            | (ValueShape::Null, NodeValue::Null)
            | (ValueShape::Text | ValueShape::Formatted(_), NodeValue::Text(_))
            | (ValueShape::Bool, NodeValue::Bool(_)) => {}
            (ValueShape::Int(range), NodeValue::Number(number)) if number.is_i64() || number.is_u64() => {
                self.range(number.as_f64(), *range, node, path);
            }
            (ValueShape::Number(range), NodeValue::Number(number)) => self.range(number.as_f64(), *range, node, path),
            (ValueShape::Words(words), NodeValue::Text(text)) => {
                if !words.iter().any(|word| **word == **text) {
                    let unmeasured = UnmeasuredProtocol::find(text).filter(|_| path.ends_with(".protocol"));
                    let message = match unmeasured {
                        Some(protocol) => format!("`{path}: {text}`: {protocol}"),
                        None => format!("`{path}` must be {}, not `{text}`", shape.describe()),
                    };
                    let near = nearest(text, words.iter().map(String::as_str)).filter(|_| unmeasured.is_none());
                    let hint = near.map(|word| format!("did you mean `{word}`?"));
                    self.found.push(Diagnostic::error(message).at(node.span.first_line(), "").maybe_hint(hint));
                }
            }
            (ValueShape::List(item), NodeValue::List(items)) => {
                for (index, node) in items.iter().enumerate() {
                    self.value(node, item, &format!("{path}[{index}]"), &node.span);
                }
            }
            (ValueShape::Map(item), NodeValue::Map(map)) => {
                for (name, entry) in map {
                    self.value(&entry.node, item, &format!("{path}.{name}"), &entry.key);
                }
            }
            (ValueShape::Object(object), NodeValue::Map(map)) => self.object(map, object, path, key),
            // `stages:` with nothing behind it is an empty map.
            (ValueShape::Map(_), NodeValue::Null) if !path.contains('.') => {}
            (ValueShape::Either(shapes), _) => match shapes.iter().find(|shape| same_kind(shape, &node.tree)) {
                Some(shape) => self.value(node, shape, path, key),
                None => self.push_type_error(node, shape, path, key),
            },
            _ => self.push_type_error(node, shape, path, key),
        }
    }

    fn object(&mut self, map: &Map, object: &Object, path: &str, key: &Span) {
        // A required key that is only misspelled is one error, not two.
        let mut meant = Vec::new();
        for (name, entry) in map {
            let Some(shape) = object.fields.get(name) else {
                meant.extend(nearest(name, object.fields.keys().map(String::as_str)));
                self.unknown(name, entry, object, path);
                continue;
            };
            let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let before = self.templates;
            if object.name == "stage" && name != "foreach" && before == TemplatePolicy::InStages {
                self.templates = TemplatePolicy::Here;
            }
            if entry.node.tree == NodeValue::Null && object.name == "stage" && object.one_of.contains(name) {
                self.push_type_error(&entry.node, shape, &below, &entry.key);
            } else {
                self.value(&entry.node, shape, &below, &entry.key);
            }
            self.templates = before;
        }
        let label = if path.is_empty() { "the manifest".to_owned() } else { format!("`{path}`") };
        self.required(map, object, &meant, &label, key);
        self.one_of(map, object, &label, key);
    }

    fn required(&mut self, map: &Map, object: &Object, meant: &[&str], label: &str, key: &Span) {
        let missing: Vec<&str> = object
            .required
            .iter()
            .map(String::as_str)
            .filter(|name| !map.contains_key(*name) && !meant.contains(name))
            .collect();
        let (Some(first), names) = (missing.first(), list_of(missing.iter().copied())) else { return };
        let verb = if missing.len() == 1 { "is" } else { "are" };
        let fault = Diagnostic::error(format!("{label} needs {names}"));
        let fault = fault.at(key.first_line(), format!("{names} {verb} missing"));
        let hint = match (object.fields.get(*first), missing.len()) {
            _ if *first == "regatta" => Some("begin the file with `regatta: 1`".to_owned()),
            (Some(shape), 1) => Some(format!("add `{first}: …`, {}", shape.describe())),
            _ => None,
        };
        self.found.push(fault.maybe_hint(hint));
    }

    fn one_of(&mut self, map: &Map, object: &Object, label: &str, key: &Span) {
        if object.one_of.is_empty() {
            return;
        }
        let keys = || list_of(object.one_of.iter().map(String::as_str));
        let given: Vec<_> = map.iter().filter(|(name, _)| object.one_of.iter().any(|one| one == *name)).collect();
        match given.as_slice() {
            [_] => {}
            // A misspelled key was reported already and is most likely the one that is missing.
            [] if map.keys().any(|name| !object.fields.contains_key(name)) => {}
            [] => {
                let message = match object.name.as_str() {
                    "stage" => "has no action",
                    "param" => "has no type",
                    _ => "is empty",
                };
                let fault = Diagnostic::error(format!("{label} {message}")).at(key.first_line(), "in here");
                self.found.push(fault.hint(format!("give exactly one of {}", keys())));
            }
            [first, second, rest @ ..] => {
                let names = list_of(given.iter().map(|(name, _)| name.as_str()));
                let mut fault = Diagnostic::error(format!("{label} has more than one of the keys {names}"))
                    .at(second.1.key.clone(), "and this")
                    .related(first.1.key.clone(), "this");
                for (_, entry) in rest {
                    fault = fault.related(entry.key.clone(), "and this");
                }
                self.found.push(fault.hint(format!("keep one of {names}")));
            }
        }
    }

    fn unknown(&mut self, name: &str, entry: &MapEntry, object: &Object, path: &str) {
        let parent = if path.is_empty() { "a manifest".to_owned() } else { format!("`{path}`") };
        let hint = match name {
            "<<" => Some("YAML merge keys are not supported; use `include` or `vars`".to_owned()),
            _ => override_usage::for_key(&object.name, name, &entry.node)
                .or_else(|| did_you_mean(name, object.fields.keys().map(String::as_str))),
        };
        let message = format!("unknown key `{name}`");
        self.found
            .push(Diagnostic::error(message).at(entry.key.clone(), format!("not a key of {parent}")).maybe_hint(hint));
    }

    fn push_type_error(&mut self, node: &Node, shape: &ValueShape, path: &str, key: &Span) {
        let written = override_usage::for_value(path, node, shape);
        let named = if path.is_empty() { "the manifest".to_owned() } else { format!("`{path}`") };
        let place = if node.span.text().trim().is_empty() { key.first_line() } else { node.span.first_line() };
        let mut hint = None;
        let wants = |wanted: fn(&ValueShape) -> bool| match shape {
            ValueShape::Either(shapes) => shapes.iter().any(|shape| wanted(shape)),
            other => wanted(other),
        };
        let numeric = |shape: &ValueShape| matches!(shape, ValueShape::Int(_) | ValueShape::Number(_));
        match &node.tree {
            NodeValue::Number(_) | NodeValue::Bool(_) if wants(ValueShape::is_text) => {
                let number = node.span.text();
                hint = Some(match shape.format() {
                    Some(format) => format!("add a unit: `{}`", format.with_unit(number, path)),
                    None if node.span.source().name() == COMMAND_LINE => {
                        let (argument, range) = (node.span.source().text(), node.span.range());
                        let (before, after) = (&argument[..range.start], &argument[range.end..]);
                        format!("quote it so that the shell keeps the quotes: '{before}\"{number}\"{after}'")
                    }
                    None => format!("put it into quotes: \"{number}\""),
                });
            }
            NodeValue::Text(text)
                if wants(numeric) && text.parse::<f64>().is_ok_and(f64::is_finite) && is_template(node.span.text()) =>
            {
                hint = Some(
                    "with `{% … %}`, or text beside it, it is a text; one expression alone keeps its number: \
                     `{{ A if CONDITION else B }}`"
                        .to_owned(),
                );
            }
            NodeValue::Text(text) if wants(numeric) && text.parse::<f64>().is_ok_and(f64::is_finite) => {
                hint = Some(format!("remove the quotes: {text}"));
            }
            NodeValue::Text(text) if text.starts_with("inf") && path.rsplit('.').next() == Some("rate") => {
                hint = Some("`scenario: offline` sends all requests at once".to_owned());
            }
            NodeValue::Text(text) if wants(|shape| matches!(shape, ValueShape::Bool)) => {
                if matches!(&*text.to_lowercase(), "yes" | "no" | "on" | "off") {
                    hint = Some("YAML 1.2 has only `true` and `false`".to_owned());
                }
            }
            NodeValue::Map(_) if wants(ValueShape::is_text) && node.span.text().starts_with('{') => {
                hint = Some(format!("YAML reads a map; put the text into quotes: \"{}\"", node.span.text().trim()));
            }
            NodeValue::Text(text) if wants(|shape| matches!(shape, ValueShape::List(_))) => {
                let words = override_usage::command_words(path, text);
                let words = words.map(|words| format!("a program and its arguments are a list: {words}"));
                let is_short = text.len() < 40;
                hint = words.or_else(|| is_short.then(|| format!("a list of one: [{}]", node.span.text().trim())));
            }
            _ => {}
        }
        if let (ValueShape::Object(object), NodeValue::Text(_) | NodeValue::Null) = (shape, &node.tree) {
            hint = missing_space(node, object)
                .or_else(|| Some(format!("its keys are {}", list_of(object.fields.keys().map(String::as_str)))));
        }
        if path.ends_with(".foreach") {
            hint = Some(match &node.tree {
                NodeValue::Null => "name the variable and its values: `foreach: { x: [1, 2] }`".to_owned(),
                _ => format!("name the variable: `foreach: {{ x: {} }}`", node.span.first_line().text()),
            });
        }
        let hint = written.or(hint);
        let message = format!("{named} must be {}", shape.describe());
        self.found
            .push(Diagnostic::error(message).at(place, format!("this is {}", kind_of(&node.tree))).maybe_hint(hint));
    }

    fn range(&mut self, number: Option<f64>, range: Range, node: &Node, path: &str) {
        let Some(number) = number else { return };
        let message = match (range.min, range.max) {
            (Some(min), Some(max)) if min >= max && !(min..=max).contains(&number) => format!("`{path}` must be {min}"),
            (Some(min), _) if number < min => format!("`{path}` must be at least {min}"),
            (_, Some(max)) if number > max => format!("`{path}` must be at most {max}"),
            _ => return,
        };
        self.found.push(Diagnostic::error(message).at(node.span.first_line(), format!("this is {number}")));
    }
}

/// `shell:"x"` is one text to YAML: a key needs a space, or the end of its line, after the colon.
fn missing_space(node: &Node, object: &Object) -> Option<String> {
    let (key, value) = node.span.text().lines().find_map(|line| line.trim().split_once(':'))?;
    let is_key = object.fields.contains_key(key) && !value.starts_with([' ', '\t']) && !value.is_empty();
    is_key.then(|| format!("put a space after the colon: `{key}: {value}`"))
}

fn same_kind(shape: &ValueShape, tree: &NodeValue) -> bool {
    match (shape, tree) {
        (ValueShape::Any, _)
        | (ValueShape::Null, NodeValue::Null)
        | (ValueShape::Text | ValueShape::Formatted(_) | ValueShape::Words(_), NodeValue::Text(_))
        | (ValueShape::Bool, NodeValue::Bool(_))
        | (ValueShape::Number(_), NodeValue::Number(_))
        | (ValueShape::List(_), NodeValue::List(_))
        | (ValueShape::Map(_) | ValueShape::Object(_), NodeValue::Map(_)) => true,
        (ValueShape::Int(_), NodeValue::Number(number)) => number.is_i64() || number.is_u64(),
        (ValueShape::Either(shapes), tree) => shapes.iter().any(|shape| same_kind(shape, tree)),
        _ => false,
    }
}

/// What a value is, for "this is …".
pub fn kind_of(tree: &NodeValue) -> String {
    match tree {
        NodeValue::Null => "nothing".to_owned(),
        NodeValue::Bool(value) => format!("the switch {value}"),
        NodeValue::Number(number) => format!("the number {number}"),
        NodeValue::Text(_) => "a text".to_owned(),
        NodeValue::List(_) => "a list".to_owned(),
        NodeValue::Map(_) => "a map".to_owned(),
    }
}

/// After rendering: a number or switch where a text belongs becomes a text, `4.0` where a whole number belongs `4`.
pub fn coerce(node: &mut Node, shape: &ValueShape) {
    match (shape, &mut node.tree) {
        (ValueShape::Either(shapes), tree) => {
            if let Some(shape) = shapes.iter().find(|shape| same_kind(shape, tree)) {
                coerce(node, shape);
            } else if shapes.iter().any(|shape| shape.is_text()) {
                coerce(node, &ValueShape::Text);
            } else if let Some(shape) = shapes.iter().find(|shape| matches!(***shape, ValueShape::Int(_))) {
                coerce(node, shape);
            }
        }
        (ValueShape::Text | ValueShape::Formatted(_), tree) => {
            let text = match tree {
                NodeValue::Number(number) => number.to_string(),
                NodeValue::Bool(value) => value.to_string(),
                _ => return,
            };
            *tree = NodeValue::Text(text.into());
        }
        (ValueShape::Int(_), tree) => {
            if let NodeValue::Number(number) = tree
                && let Some(float) = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 9e15)
                && number.is_f64()
            {
                *tree = NodeValue::Number((float as i64).into());
            }
        }
        (ValueShape::List(item), NodeValue::List(items)) => items.iter_mut().for_each(|node| coerce(node, item)),
        (ValueShape::Map(item), NodeValue::Map(map)) => {
            map.values_mut().for_each(|entry| coerce(&mut entry.node, item));
        }
        (ValueShape::Object(object), NodeValue::Map(map)) => {
            for (name, entry) in map {
                if let Some(shape) = object.fields.get(name) {
                    coerce(&mut entry.node, shape);
                }
            }
        }
        _ => {}
    }
}

/// Of a rendered value: reports every text without the form that its place needs, and replaces it by one that has it,
/// so that the value can be read and what else is wrong with it is reported, too.
pub fn check_texts(
    node: &mut Node,
    shape: &ValueShape,
    path: &str,
    templates: TemplatePolicy,
    found: &mut Diagnostics,
) {
    match (shape, &mut node.tree) {
        (ValueShape::Either(shapes), tree) => {
            if let Some(shape) = shapes.iter().find(|shape| same_kind(shape, tree)) {
                check_texts(node, shape, path, templates, found);
            }
        }
        (ValueShape::Formatted(format), NodeValue::Text(text)) => {
            if templates == TemplatePolicy::Here && is_template(text) {
                return;
            }
            if !(format.is_valid)(text) {
                let cure = text.parse::<f64>().is_ok().then(|| format!("write `{}`", format.with_unit(text, path)));
                let message = format!("`{path}` must be {}, not `{text}`", format.what);
                *text = format.sample.into();
                let hint = cure.unwrap_or_else(|| format.examples.to_owned());
                found.push(Diagnostic::error(message).at(node.span.first_line(), "").hint(hint));
            }
        }
        (ValueShape::List(item), NodeValue::List(items)) => {
            for (index, node) in items.iter_mut().enumerate() {
                check_texts(node, item, &format!("{path}[{index}]"), templates, found);
            }
        }
        (ValueShape::Map(item), NodeValue::Map(map)) => {
            for (name, entry) in map {
                check_texts(&mut entry.node, item, &format!("{path}.{name}"), templates, found);
            }
        }
        (ValueShape::Object(object), NodeValue::Map(map)) => {
            for (name, entry) in map {
                if let Some(shape) = object.fields.get(name) {
                    check_texts(&mut entry.node, shape, &format!("{path}.{name}"), templates, found);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::read::read;
    use super::super::schema::stage;
    use super::*;
    use base::diag::SourceText;

    fn faults(protocol: &str) -> Vec<(String, Vec<String>)> {
        let text = format!("bench: {{ target: 'a:1', scenario: offline, stop: 1s, protocol: {protocol} }}");
        let node = read(&SourceText::new("m.yaml", text)).unwrap();
        let mut found = Diagnostics::new();
        check(&node, stage(), "stages.load", &node.span, TemplatePolicy::Done, &mut found);
        let of_protocol = |fault: &Diagnostic| fault.message.contains("protocol");
        found.into_list().into_iter().filter(of_protocol).map(|fault| (fault.message, fault.hints)).collect()
    }

    #[test]
    fn a_protocol_that_is_not_measured_is_named_with_what_to_measure_in_place_of_it() {
        for name in ["anthropic", "messages", "responses", "ollama", "grpc-openai", "h2c"] {
            let protocol = UnmeasuredProtocol::find(name).unwrap();
            let message = format!("`stages.load.bench.protocol: {name}`: {protocol}");
            assert_eq!(faults(name), [(message, vec![])], "{name}");
        }
        assert_eq!(faults("openai-chat"), []);
        let misspelled = faults("openai-chatt");
        assert_eq!(misspelled[0].1, ["did you mean `openai-chat`?"], "{misspelled:?}");
    }
}
