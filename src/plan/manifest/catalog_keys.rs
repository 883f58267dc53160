//! Keys in the file of a catalog, the system for example, that nothing in the manifest reads: typing errors, as a rule.
//!
//! A var is free in its form, so no schema knows them; the expressions of the manifest do.

use super::expression_paths::{ExpressionPath, PathStep};
use super::yaml_node::{Map, Node, NodeValue};
use base::diag::{Diagnostic, Diagnostics, nearest};

/// Reports every key below `vars` of a catalog's file that none of these paths leads to: those in the expressions of the
/// merged manifest.
pub fn check_catalog_keys(catalog: &Node, paths: &[ExpressionPath], found: &mut Diagnostics) {
    let Some(vars) = catalog.get("vars").and_then(|entry| entry.node.map()) else { return };
    check(vars, &mut Vec::new(), &paths.iter().collect::<Vec<_>>(), found);
}

/// `paths` are those that lead into this map.
fn check(map: &Map, place: &mut Vec<String>, paths: &[&ExpressionPath], found: &mut Diagnostics) {
    let depth = place.len();
    for (name, entry) in map {
        let through: Vec<&ExpressionPath> =
            paths.iter().filter(|path| path.get(depth).is_some_and(|step| step.matches(name))).copied().collect();
        if through.is_empty() {
            let known = paths.iter().filter_map(|path| match path.get(depth) {
                Some(PathStep::Key(key)) => Some(key.as_str()),
                _ => None,
            });
            let mut known: Vec<&str> = known.filter(|key| depth > 0 || !map.contains_key(*key)).collect();
            known.sort_unstable();
            known.dedup();
            let whole = [&["vars".to_owned()], place.as_slice()].concat().join(".");
            let unknown = Diagnostic::error(format!("unknown key `{name}` in `{whole}`"));
            // Not all that there are: among them are the words and the loop variables of templates.
            let hint = nearest(name, known.iter().copied()).map(|known| format!("did you mean `{known}`?"));
            found.push(unknown.at(entry.key.clone(), "nothing in the manifest reads it").maybe_hint(hint));
            continue;
        }
        // The whole of it is used, as flags are.
        if through.iter().any(|path| path.len() == depth + 1) {
            continue;
        }
        if let NodeValue::Map(inner) = &entry.node.tree {
            place.push(name.clone());
            check(inner, place, &through, found);
            place.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::expression_paths::paths_in_node;
    use super::super::read;
    use super::*;
    use base::diag::SourceText;
    use pretty_assertions::assert_eq;

    const MANIFEST: &str = "vars: { all: '{{ dict(gpu, gpus=gpus) }}', flags: {} }\nstages:\n  one: { engine: { flags: '{{ dict(flags, \
        **tuning[scenario].build_flags) }}', size: '{{ tuning[scenario].gpu_batch_size }}' } }\n";

    fn messages(system: &str) -> Vec<String> {
        let of = |name: &str, text: &str| read::read(&SourceText::new(name, text)).unwrap();
        let mut found = Diagnostics::new();
        let mut paths = Vec::new();
        paths_in_node(&of("m.yaml", MANIFEST), &mut paths);
        check_catalog_keys(&of("system.yaml", system), &paths, &mut found);
        let line = |one: Diagnostic| format!("{} | {}", one.message, one.hints.join(" "));
        found.into_list().into_iter().map(line).collect()
    }

    #[test]
    fn a_key_that_nothing_reads_has_the_nearest_that_is_read() {
        assert!(
            messages(
                "vars: { gpus: 8, gpu: { any: 1 }, tuning: { server: { gpu_batch_size: 1, build_flags: { any: 1 } } } }"
            )
            .is_empty()
        );
        assert_eq!(messages("vars: { surplus: 8 }"), ["unknown key `surplus` in `vars` | "]);
        assert_eq!(
            messages("vars: { gpuss: 8, tuning: { server: { gpu_batchsize: 1 } } }"),
            [
                "unknown key `gpuss` in `vars` | did you mean `gpus`?",
                "unknown key `gpu_batchsize` in `vars.tuning.server` | did you mean `gpu_batch_size`?",
            ]
        );
    }
}
