//! Which values an expression looks at, read from its text: `tuning[scenario].build_flags` is `tuning`, any key, `build_flags`.
//!
//! Unlike the names that the template engine reports, a key that is computed does not end the path.

use super::expression_code::{code_blocks, end_of_string};
use super::yaml_node::{Node, NodeValue, is_template};

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

#[cfg(test)]
mod tests {
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
