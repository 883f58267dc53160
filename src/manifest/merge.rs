//! Deep merge of two manifests: maps merge, everything else is replaced; the later one wins.

use super::node::{Node, Tree};

/// `over` on top of `base`. Keys keep the order in which they first came.
pub fn merge(base: Node, over: Node) -> Node {
    match (base.tree, over.tree) {
        (Tree::Map(mut base), Tree::Map(over_map)) => {
            for (name, entry) in over_map {
                match base.get_mut(&name) {
                    Some(slot) => {
                        let below = std::mem::replace(&mut slot.node, Node::new(entry.key.clone(), Tree::Null));
                        slot.node = merge(below, entry.node);
                        slot.key = entry.key;
                    }
                    None => {
                        base.insert(name, entry);
                    }
                }
            }
            Node::new(over.span, Tree::Map(base))
        }
        (_, tree) => Node::new(over.span, tree),
    }
}
