//! Where to set a value that an expression computes: the vars that it is made from.

use super::expression_paths::{ExpressionPath, PathStep, paths_in_expression, paths_in_text};
use super::yaml_node::Node;

/// The places that a path into an expression could mean, as they are written on the command line; none where that is not
/// known. `blocked` is the expression, somewhere on the path.
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
        let own = paths_in_expression(value).iter().map(|path| in_vars(root, path)).find(|found| !found.is_empty());
        return own.unwrap_or_default().iter().map(|place| suffixed(place, &rest[1..])).collect();
    }
    // Of maps that are put over each other the last one counts.
    let named = |path: &&ExpressionPath| path.last() == Some(&PathStep::Key(name.clone()));
    let paths = paths_in_text(text);
    let last = paths.iter().rev().filter(named).map(|path| in_vars(root, path)).find(|found| !found.is_empty());
    last.unwrap_or_default().iter().map(|place| suffixed(place, rest)).collect()
}

/// How many steps of a path lead to a value that is no map.
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
    let mut found = vec![(String::new(), Some(&vars.node))];
    for (index, step) in path.iter().enumerate() {
        let mut next = Vec::new();
        for (place, node) in found {
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
        found = next;
    }
    found.into_iter().map(|(place, _)| place).collect()
}

fn suffixed(place: &str, rest: &[String]) -> String {
    std::iter::once(place).chain(rest.iter().map(String::as_str)).collect::<Vec<_>>().join(".")
}
