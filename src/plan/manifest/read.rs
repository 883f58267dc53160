//! One YAML file → a [`Node`], in one pass over saphyr-parser's events.
//!
//! Everything that YAML allows and a manifest must not contain is found here: duplicate keys, several documents,
//! tags, keys that are no text, alias bombs, absurd nesting, control characters. It reads no file.
//!
//! A YAML value in which every scalar, list and map has the place it was written at.
//!
//! Merging, checking and rendering work on nodes, so provenance is never looked up: it is carried along.
//!
//! What a template writes, up to a limit.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use indexmap::IndexMap;
use indexmap::map::Entry as Slot;
use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Number, Value};

use super::schema;
use super::syntax_fault::{SyntaxFault, explain};
use base::diag::{Diagnostic, Diagnostics, SourceText, Span};

/// Deeper nesting than this is an error or an attack.
pub const MAX_DEPTH: usize = 64;
/// What plans use to mark references; no manifest may hold them.
pub const RESERVED: [char; 2] = ['⟦', '⟧'];
/// How many nodes all aliases of a file may stand for.
const ALIAS_BUDGET: usize = 10_000;

/// Reads one document. The diagnostics hold everything wrong with it up to the first syntax error.
pub fn read(source: &SourceText) -> Result<Node, Diagnostics> {
    let (node, found) = read_with_errors(source)?;
    found.or(node)
}

/// The same document with everything wrong in it where it can be read to its end: another value stands at the place of
/// each error.
pub fn read_with_errors(source: &SourceText) -> Result<(Node, Diagnostics), Diagnostics> {
    let text = source.text();
    if let Some((at, bad)) = text.char_indices().find(|(_, c)| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
        let message = format!("the control character U+{:04X} is not allowed in YAML", u32::from(bad));
        let fault = Diagnostic::error(message).at(source.span(at..at + bad.len_utf8()), "here");
        return Err(fault.hint("is this really a text file?").into());
    }
    let mut reader = Reader {
        source,
        bytes: CharToByte::new(text),
        stack: Vec::new(),
        anchors: HashMap::new(),
        alias_nodes: 0,
        root: None,
        found: Diagnostics::new(),
    };
    let mut parser = Parser::new_from_str(text);
    let mut documents = 0;
    while let Some(event) = parser.next_event() {
        match event {
            Err(error) => {
                reader.syntax(error.info(), error.marker().index());
                return Err(reader.found);
            }
            Ok((Event::DocumentStart(_), at)) => {
                documents += 1;
                if documents > 1 {
                    let at = reader.span(at.start.index(), at.end.index());
                    reader.found.push(
                        Diagnostic::error("a manifest is one YAML document")
                            .at(at, "a second one begins here")
                            .hint("put it into a file of its own"),
                    );
                    return Err(reader.found);
                }
            }
            Ok((event, at)) => {
                let span = reader.span(at.start.index(), at.end.index());
                if reader.event(event, span).is_break() {
                    return Err(reader.found);
                }
            }
        }
    }
    let root = reader.root.unwrap_or_else(|| Node::new(source.start(), NodeValue::Null));
    Ok((root, reader.found))
}

struct Reader<'a> {
    source: &'a SourceText,
    bytes: CharToByte,
    stack: Vec<Frame>,
    anchors: HashMap<usize, (Node, usize)>,
    alias_nodes: usize,
    root: Option<Node>,
    found: Diagnostics,
}

/// A list or a map that is not finished.
struct Frame {
    begin: Span,
    anchor: usize,
    /// Nodes in it so far, aliases expanded.
    size: usize,
    tree: NodeValue,
    /// The key of the value that comes next.
    key: Option<(String, Span)>,
}

type Flow = std::ops::ControlFlow<()>;

impl Reader<'_> {
    fn span(&self, start: usize, end: usize) -> Span {
        self.source.span(self.bytes.range(start..end))
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Flow {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                if tag.is_some() {
                    self.tag(&span);
                }
                if !text.is_ascii() && text.contains(RESERVED) {
                    let fault = Diagnostic::error("the brackets ⟦ and ⟧ are reserved").at(span.first_line(), "in here");
                    self.found.push(fault.hint("name a stage or an input instead: {{ stages.x.out }}"));
                }
                if self.wants_key() {
                    self.key(text.into_owned(), span);
                    return Flow::Continue(());
                }
                let tree = if style == ScalarStyle::Plain {
                    schema::parse_plain_scalar(&text).unwrap_or_else(|error| {
                        self.found
                            .push(Diagnostic::error(error.to_string()).at(span.clone(), "not finite, or out of range"));
                        NodeValue::Null
                    })
                } else {
                    NodeValue::Text(Arc::from(&*text))
                };
                self.finish(Node::new(span, tree), anchor, 1);
                Flow::Continue(())
            }
            Event::SequenceStart(anchor, tag) => self.open(NodeValue::List(Vec::new()), anchor, tag.is_some(), span),
            Event::MappingStart(anchor, tag) => self.open(NodeValue::Map(Map::new()), anchor, tag.is_some(), span),
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(mut frame) = self.stack.pop() {
                    // A map begins with room for four pairs, and most have fewer: in large manifests this is a tenth of
                    // the memory.
                    match &mut frame.tree {
                        NodeValue::List(items) => items.shrink_to_fit(),
                        NodeValue::Map(map) => map.shrink_to_fit(),
                        _ => {}
                    }
                    let start = frame.begin.range().start;
                    let span = self.source.span(start..span.range().end.max(start));
                    self.finish(Node::new(span, frame.tree), frame.anchor, frame.size);
                }
                Flow::Continue(())
            }
            Event::Alias(anchor) => self.alias(anchor, &span),
            _ => Flow::Continue(()),
        }
    }

    fn wants_key(&self) -> bool {
        self.stack.last().is_some_and(|frame| matches!(frame.tree, NodeValue::Map(_)) && frame.key.is_none())
    }

    fn open(&mut self, tree: NodeValue, anchor: usize, tagged: bool, span: Span) -> Flow {
        if tagged {
            self.tag(&span);
        }
        if self.wants_key() {
            let fault = Diagnostic::error("a key must be a text").at(span.first_line(), "this is a list or a map");
            let hint =
                span.text().starts_with('{').then(|| "a value that begins with `{{` needs quotes: \"{{ … }}\"".into());
            self.found.push(fault.maybe_hint(hint));
            return Flow::Break(());
        }
        if self.stack.len() >= MAX_DEPTH {
            let message = format!("nested more than {MAX_DEPTH} levels deep");
            self.found.push(Diagnostic::error(message).at(span.first_line(), "too deep here"));
            return Flow::Break(());
        }
        self.stack.push(Frame { begin: span, anchor, size: 1, tree, key: None });
        Flow::Continue(())
    }

    fn key(&mut self, name: String, span: Span) {
        if let Some(Frame { tree: NodeValue::Map(map), key, .. }) = self.stack.last_mut() {
            if let Some(first) = map.get(&name) {
                let fault = Diagnostic::error(format!("the key `{name}` is given twice"))
                    .at(span.clone(), "again here")
                    .related(first.key.clone(), "first here");
                self.found.push(fault.hint("keep one of them"));
            }
            *key = Some((name, span));
        }
    }

    /// Puts a finished node where it belongs.
    fn finish(&mut self, node: Node, anchor: usize, size: usize) {
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), size));
        }
        let Some(frame) = self.stack.last_mut() else {
            self.root = Some(node);
            return;
        };
        frame.size = frame.size.saturating_add(size);
        match &mut frame.tree {
            NodeValue::List(items) => items.push(node),
            NodeValue::Map(map) => {
                if let Some((name, key)) = frame.key.take()
                    && let Slot::Vacant(slot) = map.entry(name)
                {
                    slot.insert(MapEntry { key, node });
                }
            }
            _ => {}
        }
    }

    fn alias(&mut self, anchor: usize, span: &Span) -> Flow {
        if self.wants_key() {
            self.found.push(Diagnostic::error("a key must be a text").at(span.clone(), "this is an alias"));
            return Flow::Break(());
        }
        let Some((node, size)) = self.anchors.get(&anchor) else {
            self.found.push(Diagnostic::error("an alias is inside the value it names").at(span.clone(), "here"));
            return Flow::Break(());
        };
        self.alias_nodes = self.alias_nodes.saturating_add(*size);
        if self.alias_nodes > ALIAS_BUDGET {
            let message = format!("the aliases of this file stand for more than {ALIAS_BUDGET} values");
            self.found.push(Diagnostic::error(message).at(span.clone(), "one too many").hint("use `vars` instead"));
            return Flow::Break(());
        }
        let (node, size) = (node.clone(), *size);
        self.finish(node, 0, size);
        Flow::Continue(())
    }

    fn tag(&mut self, span: &Span) {
        let fault = Diagnostic::error("tags are not part of the manifest language").at(span.first_line(), "tagged");
        self.found.push(fault.hint("remove the `!…`"));
    }

    fn syntax(&mut self, info: &str, at: usize) {
        let byte = self.bytes.range(at..at).start;
        let text = self.source.text();
        // At the end of the text point at its last visible character, not at an empty line after it.
        let byte = if byte >= text.len() { text.trim_end().len().saturating_sub(1) } else { byte };
        let span = self.source.span(byte..byte + 1);
        let SyntaxFault { label, hint } = explain(info, text, byte);
        self.found.push(Diagnostic::error("this is not valid YAML").at(span, label).maybe_hint(hint));
    }
}

/// saphyr-parser counts characters, sources count bytes. Empty for ASCII, where both are the same.
struct CharToByte(Vec<u32>, usize);

impl CharToByte {
    fn new(text: &str) -> Self {
        if text.is_ascii() {
            return Self(Vec::new(), text.len());
        }
        Self(text.char_indices().map(|(byte, _)| byte as u32).collect(), text.len())
    }

    fn range(&self, chars: Range<usize>) -> Range<usize> {
        let byte = |at: usize| {
            if self.0.is_empty() { at.min(self.1) } else { self.0.get(at).map_or(self.1, |byte| *byte as usize) }
        };
        byte(chars.start)..byte(chars.end)
    }
}

#[derive(Clone, Debug)]
pub struct Node {
    /// Where its value stands.
    pub span: Span,
    pub tree: NodeValue,
}

#[derive(Clone, Debug, PartialEq)]
pub enum NodeValue {
    Null,
    Bool(bool),
    Number(Number),
    Text(Arc<str>),
    List(Vec<Node>),
    Map(Map),
}

pub type Map = IndexMap<String, MapEntry>;

/// One pair of a map.
#[derive(Clone, Debug)]
pub struct MapEntry {
    /// Where the key stands.
    pub key: Span,
    pub node: Node,
}

impl PartialEq for Node {
    /// Places do not count.
    fn eq(&self, other: &Self) -> bool {
        self.tree == other.tree
    }
}

impl PartialEq for MapEntry {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node
    }
}

impl Node {
    pub const fn new(span: Span, tree: NodeValue) -> Self {
        Self { span, tree }
    }

    /// A node for a value that was computed: everything in it stands at `span`.
    pub fn of_json(span: &Span, value: &Value) -> Self {
        let tree = match value {
            Value::Null => NodeValue::Null,
            Value::Bool(value) => NodeValue::Bool(*value),
            Value::Number(number) => NodeValue::Number(number.clone()),
            Value::String(text) => NodeValue::Text(text.as_str().into()),
            Value::Array(items) => NodeValue::List(items.iter().map(|item| Self::of_json(span, item)).collect()),
            Value::Object(pairs) => NodeValue::Map(
                pairs
                    .iter()
                    .map(|(key, value)| (key.clone(), MapEntry { key: span.clone(), node: Self::of_json(span, value) }))
                    .collect(),
            ),
        };
        Self::new(span.clone(), tree)
    }

    /// Of a number with zeros at its end, as versions have them: that they are lost, and what to write.
    pub fn lost_zeros(&self) -> Option<(String, String)> {
        let NodeValue::Number(number) = &self.tree else { return None };
        let written = self.span.text();
        let (_, decimals) = written.split_once('.')?;
        let is_lost = decimals.len() > 1 && decimals.ends_with('0') && decimals.bytes().all(|c| c.is_ascii_digit());
        let hint = format!("put a version into quotes, \"{written}\"; write the number as {number}");
        is_lost.then(|| (format!("`{written}` is the number {number}"), hint))
    }

    pub const fn map(&self) -> Option<&Map> {
        if let NodeValue::Map(map) = &self.tree { Some(map) } else { None }
    }

    pub fn text(&self) -> Option<&str> {
        if let NodeValue::Text(text) = &self.tree { Some(text) } else { None }
    }

    pub fn get(&self, key: &str) -> Option<&MapEntry> {
        self.map()?.get(key)
    }

    /// The entry at the end of a path through maps.
    pub fn entry(&self, path: &[&str]) -> Option<&MapEntry> {
        let (last, above) = path.split_last()?;
        above.iter().try_fold(self, |node, step| Some(&node.get(step)?.node))?.get(last)
    }

    /// The key at the end of `path`; without one, as `place`.
    pub fn key_place(&self, path: &[&str]) -> Span {
        self.entry(path).map_or_else(|| self.place(path), |entry| entry.key.clone())
    }

    /// The nearest thing that exists on the way along `path`: its key where it has one, otherwise its value.
    pub fn place(&self, path: &[&str]) -> Span {
        let mut here = self;
        let mut span = self.span.clone();
        for step in path {
            match &here.tree {
                NodeValue::Map(map) => {
                    let Some(entry) = map.get(*step) else { break };
                    here = &entry.node;
                    span = if matches!(here.tree, NodeValue::Map(_) | NodeValue::List(_)) {
                        entry.key.clone()
                    } else {
                        here.span.clone()
                    };
                }
                NodeValue::List(items) => {
                    let Some(item) = step.parse().ok().and_then(|index: usize| items.get(index)) else { break };
                    here = item;
                    span = item.span.clone();
                }
                _ => break,
            }
        }
        span.first_line()
    }

    pub fn json(&self) -> Value {
        match &self.tree {
            NodeValue::Null => Value::Null,
            NodeValue::Bool(value) => Value::Bool(*value),
            NodeValue::Number(number) => Value::Number(number.clone()),
            NodeValue::Text(text) => Value::String(text.to_string()),
            NodeValue::List(items) => Value::Array(items.iter().map(Self::json).collect()),
            NodeValue::Map(map) => {
                Value::Object(map.iter().map(|(key, entry)| (key.clone(), entry.node.json())).collect())
            }
        }
    }

    /// Whether any text in it has to be rendered.
    pub fn has_template(&self) -> bool {
        match &self.tree {
            NodeValue::Text(text) => is_template(text),
            NodeValue::List(items) => items.iter().any(Self::has_template),
            NodeValue::Map(map) => map.values().any(|entry| entry.node.has_template()),
            _ => false,
        }
    }
}

/// Whether a text holds an expression or a statement.
pub fn is_template(text: &str) -> bool {
    // One byte search first: most texts have no brace at all.
    text.as_bytes().contains(&b'{') && (text.contains("{{") || text.contains("{%"))
}

/// Refuses what would make it longer than its limit.
#[derive(Debug)]
pub struct LimitedText {
    bytes: Vec<u8>,
    limit: usize,
}

impl LimitedText {
    /// `limit` in bytes.
    pub const fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit }
    }

    /// The text; what is not UTF-8 is replaced.
    pub fn into_text(self) -> String {
        String::from_utf8(self.bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

impl io::Write for LimitedText {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if piece.len() > self.limit - self.bytes.len() {
            return Err(io::Error::other(format!("it becomes longer than {} bytes", self.limit)));
        }
        self.bytes.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod read_tests {
    use super::*;

    fn json(text: &str) -> serde_json::Value {
        read(&SourceText::new("x", text)).unwrap_or_else(|found| panic!("{found}")).json()
    }

    #[test]
    fn scalars_mean_what_serde_yaml_says() {
        let text = "a: 1
b: 1.10
c: \"1\"
d: yes
e: true
f: ~
g:
h: 0x1F
i: 0o17
j: 1e3
k: -5
l: +7
m: 12:30:45
n: 2026-11-20
o: 'it''s'
p: .5
q: 1_000
s: null
t: Null
u: |
  two
  lines
v: >-
  folded
  text
w: [a, {b: c}, []]
x: 18446744073709551615
y: {a: , b: }
z: -.5e-3
0: number
true: switch
";
        let theirs: serde_json::Value = serde_yaml::from_str(text).expect("YAML");
        pretty_assertions::assert_eq!(json(text), theirs);
    }

    #[test]
    fn whole_files_mean_what_serde_yaml_says() {
        let text = include_str!("../../../tests/golden/good/whole.yaml");
        let theirs: serde_json::Value = serde_yaml::from_str(text).expect("YAML");
        pretty_assertions::assert_eq!(json(text), theirs);
    }

    #[test]
    fn places_are_bytes_also_behind_umlauts() {
        let source = SourceText::new("x", "ä: ö\nstages: {ü: 日本}\n");
        let root = read(&source).expect("YAML");
        let stages = root.get("stages").expect("there");
        let entry = stages.node.get("ü").expect("there");
        assert_eq!((entry.key.text(), entry.node.span.text(), entry.key.line()), ("ü", "日本", 2));
    }

    #[test]
    fn aliases_stand_for_what_they_name() {
        assert_eq!(json("a: &x {k: 1}\nb: *x\n"), serde_json::json!({"a": {"k": 1}, "b": {"k": 1}}));
    }
}

#[cfg(test)]
mod limited_text_tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_piece_that_would_be_too_much_is_refused() {
        let mut text = LimitedText::new(5);
        text.write_all(b"abc").unwrap();
        assert_eq!(text.write_all(b"def").unwrap_err().to_string(), "it becomes longer than 5 bytes");
        text.write_all(b"de").unwrap();
        assert_eq!(text.into_text(), "abcde");
    }
}
