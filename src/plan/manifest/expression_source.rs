//! Where to set a value that an expression computes: the vars that it is made from.
//!
//! Which values an expression looks at, read from its text: `tuning[scenario].build_flags` is `tuning`, any key,
//! `build_flags`.
//!
//! Unlike the names that the template engine reports, a key that is computed does not end the path.
//!
//! Where the code of a text with expressions is: between `{{` and `}}`, and between `{%` and `%}`, outside of
//! comments and raw text.
//!
//! Hints for texts that are not expressions: operators of other languages, and braces of other programs.
//!
//! How the value of an expression is written into a text. Shells, YAML, JSON and Triton's configurations have
//! `true` and `false`, so a switch is written so, and not as minijinja does (`True`).

use std::borrow::Cow;

use minijinja::value::ValueKind;
use minijinja::{Error, Output, State, Value, escape_formatter};

use super::read::{Node, NodeValue, is_template};

/// The places that a path into an expression could mean, as they are written on the command line; none where that is
/// not known. `blocked` is the expression, somewhere on the path.
///
/// `engine.build_flags.max_num_tokens` into `{{ dict(a, **tuning[scenario].build_flags) }}` is
/// `tuning.offline.build_flags.max_num_tokens` and the same of each other scenario.
pub fn places(root: &Node, path: &[String], blocked: &Node) -> Vec<String> {
    let Some(text) = blocked.text() else { return Vec::new() };
    let depth = depth(root, path);
    let (Some(name), rest) = (path.get(depth.saturating_sub(1)), path.get(depth..).unwrap_or_default()) else {
        return Vec::new();
    };
    // `'target_qps': rates[scenario]` and `max_batch_size=tuning[scenario].gpu_batch_size` set one key of it.
    if let Some(value) = rest.first().and_then(|key| value_of_key(text, key)) {
        let var_places =
            paths_in_expression(value).iter().map(|path| in_vars(root, path)).find(|found| !found.is_empty());
        return var_places.unwrap_or_default().iter().map(|place| suffixed(place, &rest[1..])).collect();
    }
    // Of maps that are put over each other the last one counts.
    let named = |path: &&ExpressionPath| path.last() == Some(&PathStep::Key(name.clone()));
    let paths = paths_in_text(text);
    let last = paths.iter().rev().filter(named).map(|path| in_vars(root, path)).find(|found| !found.is_empty());
    last.unwrap_or_default().iter().map(|place| suffixed(place, rest)).collect()
}

/// How many steps of a path lead to a value that is not a map.
fn depth(root: &Node, path: &[String]) -> usize {
    let mut here = root;
    for (index, step) in path.iter().enumerate() {
        match here.get(step) {
            Some(entry) if here.map().is_some() => here = &entry.node,
            _ => return index,
        }
    }
    path.len()
}

/// The text of a key's value in a map or a call: up to the comma, or the bracket that closes it.
fn value_of_key<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let from = [format!("'{key}':"), format!("\"{key}\":"), format!(", {key}="), format!("({key}=")]
        .iter()
        .find_map(|written| text.find(written.as_str()).map(|at| at + written.len()))?;
    let rest = &text[from..];
    let mut open = 0_usize;
    for (at, c) in rest.char_indices() {
        match c {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' | ',' if open == 0 => return Some(&rest[..at]),
            ')' | ']' | '}' => open -= 1,
            _ => {}
        }
    }
    Some(rest)
}

/// The vars that a path is; with a computed key one for each that the map has. None where it begins with no var.
fn in_vars(root: &Node, path: &ExpressionPath) -> Vec<String> {
    let Some(vars) = root.get("vars") else { return Vec::new() };
    let mut matches = vec![(String::new(), Some(&vars.node))];
    for (index, step) in path.iter().enumerate() {
        let mut next = Vec::new();
        for (place, node) in matches {
            let dot = if index == 0 { "" } else { "." };
            let map = node.and_then(Node::map);
            match step {
                PathStep::Key(key) => {
                    let entry = map.and_then(|map| map.get(key));
                    if index == 0 && entry.is_none() {
                        return Vec::new();
                    }
                    next.push((format!("{place}{dot}{key}"), entry.map(|entry| &entry.node)));
                }
                PathStep::Any => {
                    let keys = map.into_iter().flatten();
                    // What it is looked into are maps.
                    let is_last = index + 1 == path.len();
                    let maps = keys.filter(|(_, entry)| is_last || entry.node.map().is_some());
                    next.extend(maps.map(|(key, entry)| (format!("{place}{dot}{key}"), Some(&entry.node))));
                }
            }
        }
        matches = next;
    }
    matches.into_iter().map(|(place, _)| place).collect()
}

fn suffixed(place: &str, rest: &[String]) -> String {
    std::iter::once(place).chain(rest.iter().map(String::as_str)).collect::<Vec<_>>().join(".")
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStep {
    Key(String),
    /// In brackets, computed.
    Any,
}

/// From a name on: `tuning[scenario].build_flags`.
pub type ExpressionPath = Vec<PathStep>;

impl PathStep {
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Key(key) => key == name,
            Self::Any => true,
        }
    }
}

/// The paths in all expressions of a node.
pub fn paths_in_node(node: &Node, paths: &mut Vec<ExpressionPath>) {
    match &node.tree {
        NodeValue::Text(text) if is_template(text) => paths.extend(paths_in_text(text)),
        NodeValue::List(items) => items.iter().for_each(|item| paths_in_node(item, paths)),
        NodeValue::Map(map) => map.values().for_each(|entry| paths_in_node(&entry.node, paths)),
        _ => {}
    }
}

/// The paths in a text with expressions, in the order in which they are written.
pub fn paths_in_text(text: &str) -> Vec<ExpressionPath> {
    code_blocks(text).flat_map(|block| paths_in_expression(block.code)).collect()
}

/// The paths in what stands between the braces.
pub fn paths_in_expression(text: &str) -> Vec<ExpressionPath> {
    let mut reader = PathReader { text, at: 0 };
    let mut paths = Vec::new();
    while let Some(next) = reader.peek() {
        if next == '\'' || next == '"' {
            reader.skip_string();
        } else if is_name_start(next) {
            reader.path(&mut paths);
        } else if next == '.' || next.is_ascii_digit() {
            // An attribute of a value that has no name, or a number.
            reader.skip();
            reader.name();
        } else {
            reader.skip();
        }
    }
    paths
}

struct PathReader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> PathReader<'a> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn skip(&mut self) {
        self.at += self.peek().map_or(0, char::len_utf8);
    }

    fn skip_string(&mut self) {
        self.at = end_of_string(self.text.as_bytes(), self.at);
        self.skip();
    }

    fn name(&mut self) -> &'a str {
        let from = self.at;
        while self.peek().is_some_and(|c| is_name_start(c) || c.is_ascii_digit()) {
            self.skip();
        }
        &self.text[from..self.at]
    }

    /// A name with what follows it. What is in brackets may hold paths of its own.
    fn path(&mut self, paths: &mut Vec<ExpressionPath>) {
        let mut path = vec![PathStep::Key(self.name().to_owned())];
        let mut inner = Vec::new();
        loop {
            let rest = &self.text[self.at..];
            if rest.strip_prefix('.').is_some_and(|rest| rest.starts_with(is_name_start)) {
                self.skip();
                path.push(PathStep::Key(self.name().to_owned()));
            } else if rest.starts_with('[') {
                let end = closing(rest);
                let inside = rest[1..end].trim();
                let quoted = inside.strip_prefix(['\'', '"']).and_then(|rest| rest.strip_suffix(['\'', '"']));
                match quoted.filter(|name| !name.contains(['\'', '"', '\\'])) {
                    Some(name) => path.push(PathStep::Key(name.to_owned())),
                    None => path.push(PathStep::Any),
                }
                inner.extend(paths_in_expression(inside));
                self.at = (self.at + end + 1).min(self.text.len());
            } else {
                break;
            }
        }
        paths.push(path);
        paths.extend(inner);
    }
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// The place of the bracket that closes the first one; the end where none does.
fn closing(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\'' | b'"' => at = end_of_string(bytes, at),
            b'[' => depth += 1,
            b']' if depth == 1 => return at,
            b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// One piece of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeBlock<'a> {
    /// Where it begins, in bytes.
    pub at: usize,
    /// What is between the brackets.
    pub code: &'a str,
}

impl<'a> CodeBlock<'a> {
    /// Without the marks that remove white space, as in `{%- raw -%}`.
    pub fn statement(&self) -> &'a str {
        self.code.trim_start_matches(['-', '+']).trim_start().trim_end_matches(['-', '+']).trim_end()
    }
}

/// The code of a text, in the order in which it is written. Where an end is not certain, it is the later one.
pub fn code_blocks(text: &str) -> CodeBlocks<'_> {
    CodeBlocks { text, at: 0 }
}

pub struct CodeBlocks<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Iterator for CodeBlocks<'a> {
    type Item = CodeBlock<'a>;

    fn next(&mut self) -> Option<CodeBlock<'a>> {
        let bytes = self.text.as_bytes();
        loop {
            let begin = self.at + self.text.get(self.at..)?.find('{')? + 1;
            self.at = begin;
            match bytes.get(begin) {
                Some(b'#') => self.at = after(self.text, begin + 1, "#}"),
                Some(kind @ (b'{' | b'%')) => {
                    let end = end_of_code(bytes, begin + 1, if *kind == b'{' { b'}' } else { b'%' });
                    let block = CodeBlock { at: begin, code: self.text.get(begin + 1..end).unwrap_or_default() };
                    let is_raw = *kind == b'%' && block.statement() == "raw";
                    self.at = if is_raw { after(self.text, end, "endraw") } else { end };
                    return Some(block);
                }
                _ => {}
            }
        }
    }
}

/// The place after the next `end`, or the end of the text.
fn after(text: &str, from: usize, end: &str) -> usize {
    text.get(from..).and_then(|rest| rest.find(end)).map_or(text.len(), |at| from + at + end.len())
}

/// Where the code that begins at `from` ends: strings are skipped, and a `}}` may close two brackets within the code.
fn end_of_code(bytes: &[u8], from: usize, closing: u8) -> usize {
    let mut open = 0_usize;
    let mut at = from;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\'' | b'"' => at = end_of_string(bytes, at),
            byte if open == 0 && *byte == closing && bytes.get(at + 1) == Some(&b'}') => return at,
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// The quote that closes the one at `from`, or the end of the text.
pub fn end_of_string(bytes: &[u8], from: usize) -> usize {
    let quote = bytes.get(from);
    let mut at = from + 1;
    while let Some(inner) = bytes.get(at).filter(|inner| Some(*inner) != quote) {
        at += if *inner == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len())
}

/// Operators that people know from elsewhere, and what stands for them here.
const OPERATORS: [(&str, &str); 7] = [
    ("?", "a choice is written {{ a if condition else b }}"),
    ("&&", "both is written {{ a and b }}"),
    ("||", "alternatives are written {{ a or b }}"),
    ("===", "equality is written {{ a == b }}"),
    ("!==", "a difference is written {{ a != b }}"),
    ("!", "a negation is written {{ not a }}"),
    ("$", "write a name in an expression as it is: {{ name }}"),
];

/// A hint for the parser's `message` about the byte `at` of a text.
pub fn hint(message: &str, text: &str, at: usize) -> Option<String> {
    // `{{.Names}}` of Docker, `${#list}` of a shell.
    if message.contains("`.`") || message.contains("comment") {
        return Some("put braces of the text itself between {% raw %} and {% endraw %}".to_owned());
    }
    let is_here = |operator: &&(&str, &str)| {
        // The parser may have taken the first characters of one.
        (0..operator.0.len()).any(|taken| {
            let begin = at.checked_sub(taken).and_then(|begin| text.get(begin..));
            begin.is_some_and(|rest| rest.starts_with(operator.0))
        })
    };
    // `!=` is an operator here, too.
    let is_unequal = text.get(at..).is_some_and(|rest| rest.starts_with("!="));
    let operator = OPERATORS.iter().find(is_here).filter(|(operator, _)| *operator != "!" || !is_unequal);
    operator.map(|(_, hint)| (*hint).to_owned())
}

/// The formatter of an environment.
///
/// # Errors
/// The output cannot be written, or has no form for the value.
pub fn write_value(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match switch_text(value) {
        Some(text) => Ok(out.write_str(text)?),
        None => escape_formatter(out, state, value),
    }
}

/// The text of a value of a `foreach`.
pub fn value_text(value: &Value) -> Cow<'static, str> {
    switch_text(value).map_or_else(|| value.to_string().into(), Cow::Borrowed)
}

fn switch_text(value: &Value) -> Option<&'static str> {
    (value.kind() == ValueKind::Bool).then(|| if value.is_true() { "true" } else { "false" })
}

#[cfg(test)]
mod expression_paths_tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn shown(text: &str) -> Vec<String> {
        let step = |step: &PathStep| match step {
            PathStep::Key(key) => key.clone(),
            PathStep::Any => "*".to_owned(),
        };
        paths_in_text(text).iter().map(|path| path.iter().map(step).collect::<Vec<_>>().join(".")).collect()
    }

    #[test]
    fn a_computed_key_does_not_end_a_path() {
        assert_eq!(shown("{{ tuning[scenario].build_flags }}"), ["tuning.*.build_flags", "scenario"]);
        assert_eq!(shown("{{ dict(a, **b['x'].y, z=c[1]) }}"), ["dict", "a", "b.x.y", "z", "c.*"]);
        assert_eq!(shown("x {{ 'a.b' ~ c }} y {% if d.e %}"), ["c", "if", "d.e"]);
        assert_eq!(shown("{{ (t[n] | default(t.other)).z }}"), ["t.*", "n", "default", "t.other"]);
        assert_eq!(shown("{{ a[b[c]].d ~ 1.5 }}"), ["a.*.d", "b.*", "c"]);
        assert_eq!(shown(r"{{ 'it\'s }}' ~ a['x]'].b }} {{ c }}"), ["a.x].b", "c"]);
        assert_eq!(shown("{# {{ a }} #}{% raw %}{{ b }}{% endraw %}{{ c }}"), ["raw", "c"]);
        assert_eq!(shown("no expression, {\"a\": b}"), [""; 0]);
    }

    #[test]
    fn a_text_that_is_cut_anywhere_is_read() {
        let text = "{{ tuning[scenario]['é'].build_flags ~ 'x' }} {% set a = b[0] %}";
        for (at, _) in text.char_indices() {
            let _ = paths_in_text(&text[..at]);
            let _ = paths_in_expression(&text[..at]);
        }
    }
}

#[cfg(test)]
mod expression_code_tests {
    use super::*;

    #[test]
    fn code_is_found_between_its_brackets() {
        let codes = |text: &'static str| code_blocks(text).map(|block| block.statement()).collect::<Vec<_>>();
        assert_eq!(codes("a {{ b }} {%- c -%} { d } {{ {'e': {'f': 1}} }}"), ["b", "c", "{'e': {'f': 1}}"]);
        assert_eq!(codes(r"{{ '}}' ~ a }}{{ 'it\'s }}' ~ b }}"), ["'}}' ~ a", r"'it\'s }}' ~ b"]);
        assert_eq!(codes("{# {{ a }} #}{{ b }}{% raw %}{{ 'c }}{% endraw %}{{ d }}"), ["b", "raw", "d"]);
        assert_eq!(codes("{{ a"), ["a"]);
    }
}

#[cfg(test)]
mod expression_syntax_tests {
    use std::sync::Arc;

    use crate::manifest::read::read;
    use crate::manifest::{Expressions, Scope};
    use base::diag::SourceText;

    #[test]
    fn operators_of_other_languages_have_a_hint() {
        let cases = [
            ("a ? 1 : 2", Some("a choice is written {{ a if condition else b }}")),
            ("a && b", Some("both is written {{ a and b }}")),
            ("a || b", Some("alternatives are written {{ a or b }}")),
            ("a === b", Some("equality is written {{ a == b }}")),
            ("a !== b", Some("a difference is written {{ a != b }}")),
            ("!a", Some("a negation is written {{ not a }}")),
            ("$a", Some("write a name in an expression as it is: {{ name }}")),
            (".Names", Some("put braces of the text itself between {% raw %} and {% endraw %}")),
            ("a +", None),
            ("a != ", None),
        ];
        for (code, hint) in cases {
            let source = SourceText::new("x", format!("\"{{{{ {code} }}}}\""));
            let node = read(&source).unwrap();
            let scope = Scope { globals: Arc::default(), local: Vec::new() };
            let faults = Expressions::new().text(node.text().unwrap(), &Arc::new(scope), &node.span).unwrap_err();
            let hints: Vec<&str> = faults[0].hints.iter().map(String::as_str).collect();
            assert_eq!(hints, Vec::from_iter(hint), "{code}: {}", faults[0].message);
        }
    }
}
