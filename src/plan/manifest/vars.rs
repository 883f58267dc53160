//! `vars:` — free values that may use params and each other; computed in the order they need each other.
//!
//! Puts things that need each other in order, stable, without recursion; finds the circles.

use std::sync::Arc;

use indexmap::IndexMap;
use minijinja::Value;

use super::expression::{Expressions, Scope};
use super::loaded::FaultyParts;
use super::read::{Map, Node};
use super::value::value_of;
use base::diag::{Diagnostic, Diagnostics};

/// Computes every var and adds it to `globals`. Cycles and errors are reported; a var that has one, or that uses what
/// is faulty, is faulty.
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
            let paths = expressions.paths_in_node(&entry.node);
            paths.iter().filter_map(|path| vars.get_index_of(path.split('.').next()?)).collect()
        })
        .collect();
    let mut resolved: IndexMap<String, Node> = IndexMap::new();
    for group in topological_order(&needs) {
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
    let mut diagnostic = Diagnostic::error(format!("vars depend on each other in a cycle: {path}"));
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

/// Each item once, after everything it needs (first come, first served), or a circle of items in the order in which
/// one needs the next. Items that only stand behind a circle are left out: their error is reported with it.
pub fn topological_order(needs: &[Vec<usize>]) -> Vec<Result<usize, Vec<usize>>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
        Stuck,
    }
    let mut marks = vec![Mark::New; needs.len()];
    let mut out = Vec::with_capacity(needs.len());
    let mut stack: Vec<(usize, usize)> = Vec::new();
    let mark = |marks: &[Mark], at: usize| marks.get(at).copied().unwrap_or(Mark::Done);
    for start in 0..needs.len() {
        if mark(&marks, start) != Mark::New {
            continue;
        }
        stack.push((start, 0));
        while let Some((item, next)) = stack.last_mut() {
            let (item, at) = (*item, *next);
            *next += 1;
            if at == 0 {
                marks[item] = Mark::Open;
            }
            let Some(need) = needs.get(item).and_then(|needs| needs.get(at)).copied() else {
                if marks[item] == Mark::Open {
                    marks[item] = Mark::Done;
                    out.push(Ok(item));
                }
                stack.pop();
                continue;
            };
            match mark(&marks, need) {
                Mark::New => stack.push((need, 0)),
                Mark::Open => {
                    let begin = stack.iter().position(|(open, _)| *open == need).unwrap_or(0);
                    out.push(Err(stack.iter().skip(begin).map(|(open, _)| *open).collect()));
                    for (open, _) in &stack {
                        marks[*open] = Mark::Stuck;
                    }
                }
                Mark::Stuck => {
                    for (open, _) in &stack {
                        marks[*open] = Mark::Stuck;
                    }
                }
                Mark::Done => {}
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_come_first_and_the_rest_keeps_its_order() {
        let got: Vec<_> = topological_order(&[vec![2], vec![], vec![]]).into_iter().flatten().collect();
        assert_eq!(got, [2, 0, 1]);
    }

    #[test]
    fn circles_are_found_once() {
        assert_eq!(topological_order(&[vec![1], vec![2], vec![0], vec![0]]), [Err(vec![0, 1, 2])]);
        assert_eq!(topological_order(&[vec![0], vec![]]), [Err(vec![0]), Ok(1)]);
    }

    #[test]
    fn a_chain_of_a_hundred_thousand_does_not_overflow() {
        let needs: Vec<Vec<usize>> = (0..100_000).map(|n| if n == 99_999 { vec![] } else { vec![n + 1] }).collect();
        assert_eq!(topological_order(&needs).len(), 100_000);
    }
}
