//! A YAML value in which every scalar, list and map has the place it was written at.
//!
//! Merging, checking and rendering work on nodes, so provenance is never looked up: it is carried along.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Number, Value};

use base::diag::Span;

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

    pub const fn map(&self) -> Option<&Map> {
        if let NodeValue::Map(map) = &self.tree { Some(map) } else { None }
    }

    pub fn text(&self) -> Option<&str> {
        if let NodeValue::Text(text) = &self.tree { Some(text) } else { None }
    }

    pub fn get(&self, key: &str) -> Option<&MapEntry> {
        self.map()?.get(key)
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
    memchr_brace(text) && (text.contains("{{") || text.contains("{%"))
}

fn memchr_brace(text: &str) -> bool {
    text.as_bytes().contains(&b'{')
}
