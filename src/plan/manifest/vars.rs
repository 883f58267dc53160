//! `vars:` — free values that may use params and each other; computed in the order they need each other.

use std::sync::Arc;

use indexmap::IndexMap;
use minijinja::Value;

use super::expression::{Expressions, Scope};
use super::faulty_parts::FaultyParts;
use super::value::value_of;
use super::yaml_node::{Map, Node, NodeValue, is_template};
use base::diag::{Diagnostic, Diagnostics};

/// Computes every var and adds it to `globals`. Cycles and errors are reported; a var that has one, or that uses what is faulty, is
/// faulty.
pub fn resolve(
    vars: &Map,
    expressions: &Expressions,
    mut globals: IndexMap<String, Value>,
    faulty: &mut FaultyParts,
    found: &mut Diagnostics,
) -> (IndexMap<String, Value>, IndexMap<String, Node>) {
    let needs: Vec<Vec<usize>> = vars
        .values()
        .map(|entry| {
            let mut names = Vec::new();
            names_in(&entry.node, expressions, &mut names);
            names.iter().filter_map(|name| vars.get_index_of(name.as_str())).collect()
        })
        .collect();
    let mut resolved: IndexMap<String, Node> = IndexMap::new();
    for group in super::topological_order::topological_order(&needs) {
        match group {
            Ok(index) => {
                let Some((name, entry)) = vars.get_index(index) else { continue };
                // What depends on an error is not another error.
                if faulty.affect(&entry.node) {
                    faulty.names.insert(name.clone());
                    continue;
                }
                let before = found.len();
                let node = if entry.node.has_template() {
                    let scope = Arc::new(Scope { globals: Arc::new(globals), local: Vec::new() });
                    let node = expressions.render(&entry.node, &scope, found);
                    globals = match Arc::try_unwrap(scope).map(|scope| scope.globals) {
                        Ok(shared) => Arc::try_unwrap(shared).unwrap_or_else(|shared| (*shared).clone()),
                        Err(scope) => (*scope.globals).clone(),
                    };
                    node
                } else {
                    entry.node.clone()
                };
                if found.len() > before {
                    faulty.names.insert(name.clone());
                    continue;
                }
                globals.insert(name.clone(), value_of(&node));
                resolved.insert(name.clone(), node);
            }
            Err(circle) => {
                faulty
                    .names
                    .extend(circle.iter().filter_map(|index| vars.get_index(*index)).map(|(name, _)| name.clone()));
                found.push(explain(vars, &circle));
            }
        }
    }
    resolved.sort_by_cached_key(|name, _| vars.get_index_of(name));
    (globals, resolved)
}

fn explain(vars: &Map, circle: &[usize]) -> Diagnostic {
    let names: Vec<&str> = circle.iter().filter_map(|i| vars.get_index(*i)).map(|(name, _)| name.as_str()).collect();
    let first = names.first().copied().unwrap_or_default();
    let path = format!("{} → {first}", names.join(" → "));
    let mut diagnostic = Diagnostic::error(format!("vars need each other in a circle: {path}"));
    for (at, index) in circle.iter().enumerate() {
        let Some((_, entry)) = vars.get_index(*index) else { continue };
        let next = names.get(at + 1).copied().unwrap_or(first);
        let label = format!("needs `{next}`");
        diagnostic = if at == 0 {
            diagnostic.at(entry.key.clone(), label)
        } else {
            diagnostic.related(entry.key.clone(), label)
        };
    }
    diagnostic.hint("give one of them a value of its own")
}

fn names_in(node: &Node, expressions: &Expressions, names: &mut Vec<String>) {
    match &node.tree {
        NodeValue::Text(text) if is_template(text) => names.extend(expressions.names_in(text)),
        NodeValue::List(items) => items.iter().for_each(|item| names_in(item, expressions, names)),
        NodeValue::Map(map) => map.values().for_each(|entry| names_in(&entry.node, expressions, names)),
        _ => {}
    }
}
