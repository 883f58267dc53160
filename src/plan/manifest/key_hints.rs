//! What to write in place of keys and values that users bring from other tools, or guess.

use super::model::PARAM_KINDS;
use super::value_shape::ValueShape;
use super::yaml_node::{Node, NodeValue};

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
        && has_field(shape, "fixed")
    {
        return Some(format!("write `{key}: {{ fixed: {number} }}`"));
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
                "`attach` is for servers with gRPC; of one over HTTP no stage is needed: write `target: {text}` in the `bench` stage"
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
