//! Values between the two worlds: minijinja's on one side, nodes with places on the other.
//!
//! What all values of one manifest may take together: each expression has its limits, and there may be thousands of
//! them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::Value;
use minijinja::value::{Enumerator, Object, ValueKind};
use serde_json::Number;

use super::read::{MAX_DEPTH, Map, MapEntry, Node, NodeValue};
use base::diag::{Diagnostic, Span};
use base::units::size;

/// The most bytes that one rendered text may have: what grows beyond that feeds on itself.
pub const MAX_TEXT: usize = 1 << 20;
/// The most values that one rendered expression may have.
const MAX_VALUES: usize = 50_000;
/// The most bytes that all of its texts may have together: one long text may be in a list many times.
const MAX_TEXTS: usize = 16 << 20;

/// Looks an attribute up by its name.
pub type Attribute = Box<dyn Fn(&str) -> Option<Value> + Send + Sync>;

/// Something that has attributes but cannot be used as a value itself: a stage without `.out`.
pub struct NoValue {
    /// Why it cannot stand alone, and what to write instead.
    pub why: String,
    pub hint: String,
    pub names: &'static [&'static str],
    pub attribute: Attribute,
}

impl fmt::Debug for NoValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl Object for NoValue {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        (self.attribute)(key.as_str()?)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Str(self.names)
    }
}

/// A minijinja value as a node at this place. Fails if it is undefined, a function or a bare stage.
pub fn node_of(value: &Value, span: &Span) -> Result<Node, Vec<Diagnostic>> {
    let tree = tree_of(value, span, 0, &mut MadeSoFar::default());
    tree.map(|tree| Node::new(span.clone(), tree)).map_err(|wrong| vec![wrong])
}

/// Whether a value is nested deeper than any of a manifest may be. Of very many values in it, only the first are looked
/// at.
pub fn is_too_deep(value: &Value) -> bool {
    fn looks_deep(value: &Value, depth: usize, left: &mut usize) -> bool {
        if !matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::Iterable) || *left == 0 {
            return false;
        }
        if depth > MAX_DEPTH {
            return true;
        }
        // The keys of a map are looked at as values, too: they may be lists.
        let Ok(mut items) = value.try_iter() else { return false };
        let is_map = value.kind() == ValueKind::Map;
        items.any(|item| {
            *left = left.saturating_sub(1);
            let inside = if is_map { value.get_item(&item).unwrap_or_default() } else { Value::UNDEFINED };
            *left > 0 && (looks_deep(&item, depth + 1, left) || looks_deep(&inside, depth + 1, left))
        })
    }
    let mut left = MAX_VALUES;
    looks_deep(value, 0, &mut left)
}

/// Of one expression.
#[derive(Default)]
struct MadeSoFar {
    values: usize,
    /// Bytes of all texts.
    text: usize,
}

fn tree_of(value: &Value, span: &Span, depth: usize, made: &mut MadeSoFar) -> Result<NodeValue, Diagnostic> {
    let wrong = |message: &str| Diagnostic::error(message).at(span.first_line(), "");
    let invalid = |error: minijinja::Error| wrong(&error.to_string());
    if depth > MAX_DEPTH {
        return Err(wrong("this value is nested too deeply"));
    }
    made.values += 1;
    let text = value.as_str().map_or(0, str::len);
    if text > MAX_TEXT {
        return Err(wrong("this text becomes too long"));
    }
    made.text += text;
    if made.values > MAX_VALUES {
        return Err(wrong(&format!("this expression produces more than {MAX_VALUES} values")));
    }
    if made.text > MAX_TEXTS {
        return Err(wrong(&format!("this expression produces more than {} of text", size(MAX_TEXTS as u64))));
    }
    match value.kind() {
        ValueKind::Undefined => Err(wrong("this expression has no value")),
        ValueKind::None => Ok(NodeValue::Null),
        ValueKind::Bool => Ok(NodeValue::Bool(value.is_true())),
        ValueKind::Number => {
            let number = match (value.as_i64(), u64::try_from(value.clone()), f64::try_from(value.clone())) {
                (Some(number), _, _) if value.is_integer() => Some(Number::from(number)),
                (_, Ok(number), _) if value.is_integer() => Some(Number::from(number)),
                (_, _, Ok(number)) => Number::from_f64(number),
                _ => None,
            };
            number.map(NodeValue::Number).ok_or_else(|| wrong("this number is not finite, or out of range"))
        }
        ValueKind::String => Ok(NodeValue::Text(value.as_str().unwrap_or_default().into())),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter().map_err(invalid)?;
            let nodes = items.map(|item| Ok(Node::new(span.clone(), tree_of(&item, span, depth + 1, made)?)));
            nodes.collect::<Result<_, _>>().map(NodeValue::List)
        }
        ValueKind::Map => {
            if let Some(bare) = value.downcast_object_ref::<NoValue>() {
                let hint = Some(bare.hint.clone()).filter(|hint| !hint.is_empty());
                return Err(wrong(&bare.why).maybe_hint(hint));
            }
            let mut map = Map::new();
            for key in value.try_iter().map_err(invalid)? {
                let item = value.get_item(&key).map_err(invalid)?;
                let node = Node::new(span.clone(), tree_of(&item, span, depth + 1, made)?);
                map.insert(key.to_string(), MapEntry { key: span.clone(), node });
            }
            Ok(NodeValue::Map(map))
        }
        // An error that minijinja handed on as a value.
        ValueKind::Invalid => Err(wrong(&value.to_string())),
        _ => Err(wrong("this expression is not a value")),
    }
}

/// A node as a value for expressions.
pub fn value_of(node: &Node) -> Value {
    match &node.tree {
        NodeValue::Null => Value::from(()),
        NodeValue::Bool(value) => Value::from(*value),
        NodeValue::Number(number) => number_value(number),
        NodeValue::Text(text) => Value::from(Arc::clone(text)),
        NodeValue::List(items) => Value::from(items.iter().map(value_of).collect::<Vec<_>>()),
        NodeValue::Map(map) => Value::from_pairs(map.iter().map(|(name, entry)| (name.clone(), value_of(&entry.node)))),
    }
}

fn number_value(number: &Number) -> Value {
    if let Some(number) = number.as_i64() {
        Value::from(number)
    } else if let Some(number) = number.as_u64() {
        Value::from(number)
    } else {
        Value::from(number.as_f64().unwrap_or(f64::NAN))
    }
}

/// Bytes. A plan of 100,000 stages, the largest that there may be, has some 40 MB of text; this is 5 kB for each of its
/// stages, as a text is counted when it is computed and again when it is that of a task.
const MOST_MEMORY: usize = 1 << 30;
/// Bytes that a value has beside its text.
const VALUE: usize = 64;

/// The limit of memory for values is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the values of this manifest take more than {}", size(MOST_MEMORY as u64))]
pub struct BudgetExceeded;

/// Counts what is made while a manifest is loaded, or its plan made; threads share it.
#[derive(Debug, Default)]
pub struct ValueBudget(AtomicUsize);

impl ValueBudget {
    /// Takes room for this many bytes.
    ///
    /// # Errors
    /// There is not that much left.
    pub fn take(&self, bytes: usize) -> Result<(), BudgetExceeded> {
        let before = self.0.fetch_add(bytes.min(MOST_MEMORY + 1), Ordering::Relaxed);
        if before.saturating_add(bytes) > MOST_MEMORY { Err(BudgetExceeded) } else { Ok(()) }
    }

    /// Whether something had no room.
    pub fn is_exceeded(&self) -> bool {
        self.0.load(Ordering::Relaxed) > MOST_MEMORY
    }

    pub(super) fn take_node(&self, node: &Node) -> Result<(), BudgetExceeded> {
        self.take(bytes_of(node))
    }
}

/// About as many bytes as it occupies. A rendered value is at most as deep as a manifest.
fn bytes_of(node: &Node) -> usize {
    let inside = match &node.tree {
        NodeValue::Text(text) => text.len(),
        NodeValue::List(items) => items.iter().map(bytes_of).sum(),
        NodeValue::Map(map) => map.iter().map(|(name, entry)| name.len() + bytes_of(&entry.node)).sum(),
        NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) => 0,
    };
    VALUE + inside
}

#[cfg(test)]
mod value_tests {
    use super::*;
    use base::diag::{Diagnostics, SourceText};

    #[test]
    fn the_depth_of_lists_and_maps_is_found_and_does_not_take_long() {
        let list = |depth: usize| (0..depth).fold(Value::from(1), |inner, _| Value::from(vec![inner]));
        assert!(!is_too_deep(&list(MAX_DEPTH + 1)));
        assert!(is_too_deep(&list(MAX_DEPTH + 2)));
        let map = |depth: usize| (0..depth).fold(Value::from(1), |inner, _| Value::from_pairs([("a", inner)]));
        assert!(is_too_deep(&map(MAX_DEPTH + 2)));
        // 2^60 values, of which each is the same.
        let twice = (0..60).fold(Value::from(1), |inner, _| Value::from(vec![inner.clone(), inner]));
        assert!(!is_too_deep(&twice));
    }

    #[test]
    fn a_long_text_is_not_multiplied_by_a_list() {
        let span = SourceText::new("m.yaml", "x").span(0..1);
        let list = |times: usize| Value::from(vec![Value::from("x".repeat(MAX_TEXT)); times]);
        assert!(node_of(&list(16), &span).is_ok());
        let faults = Diagnostics::from(node_of(&list(17), &span).unwrap_err().remove(0)).render(false);
        assert!(faults.contains("this expression produces more than 16.8 MB of text"), "{faults}");
    }
}

#[cfg(test)]
mod value_budget_tests {
    use super::*;

    #[test]
    fn what_exceeds_it_stays_an_error() {
        let budget = ValueBudget::default();
        assert_eq!(budget.take(MOST_MEMORY), Ok(()));
        assert!(!budget.is_exceeded());
        assert_eq!(budget.take(1), Err(BudgetExceeded));
        assert_eq!(budget.take(usize::MAX), Err(BudgetExceeded));
        assert!(budget.is_exceeded());
    }
}
