//! What all values of one manifest may take together: each expression has its limits, and there may be thousands of them.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::yaml_node::{Node, NodeValue};
use base::units::size;

/// Bytes. A plan of 100,000 stages, the largest that there may be, has some 40 MB of text; this is 5 kB for each of its stages,
/// as a text is counted when it is computed and again when it is that of a task.
const MOST_MEMORY: usize = 1 << 30;
/// Bytes that a value has beside its text.
const VALUE: usize = 64;

/// There is no room for more.
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
mod tests {
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
