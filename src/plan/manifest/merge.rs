//! Deep merge of two manifests: maps merge, everything else is replaced; the later one wins.

use super::yaml_node::{Node, NodeValue};

/// A whole manifest on top of another. A section of `over` with nothing behind its key (`stages:`) leaves the one below as it is.
pub fn merge_documents(base: Node, mut over: Node) -> Node {
    if let (NodeValue::Map(below), NodeValue::Map(sections)) = (&base.tree, &mut over.tree) {
        let is_section =
            |name: &String| below.get(name).is_some_and(|entry| matches!(entry.node.tree, NodeValue::Map(_)));
        sections.retain(|name, entry| entry.node.tree != NodeValue::Null || !is_section(name));
    }
    merge(base, over)
}

/// `over` on top of `base`. Keys keep the order in which they first came.
pub fn merge(base: Node, over: Node) -> Node {
    match (base.tree, over.tree) {
        (NodeValue::Map(mut base), NodeValue::Map(over_map)) => {
            for (name, entry) in over_map {
                match base.get_mut(&name) {
                    Some(slot) => {
                        let below = std::mem::replace(&mut slot.node, Node::new(entry.key.clone(), NodeValue::Null));
                        slot.node = merge(below, entry.node);
                        slot.key = entry.key;
                    }
                    None => {
                        base.insert(name, entry);
                    }
                }
            }
            Node::new(over.span, NodeValue::Map(base))
        }
        (_, tree) => Node::new(over.span, tree),
    }
}
