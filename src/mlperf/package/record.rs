//! What a result was made from: the lock's stages, and what was under test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::ProvenanceStage;

/// A finished task with the folder of its output.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedTask {
    pub stage: ProvenanceStage,
    /// None of a service.
    pub folder: Option<PathBuf>,
}

/// The kinds of stages that make up a system under test.
const SYSTEM: [&str; 3] = ["engine", "repository", "serve"];

/// The task that has this folder as its output, and what it measured.
pub(super) fn of(made: &[FinishedTask], folder: &Path) -> (Option<String>, BTreeMap<String, BTreeSet<String>>) {
    let mut under_test: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let Some(first) = made.iter().find(|made| made.folder.as_deref() == Some(folder)) else {
        return (None, under_test);
    };
    let mut open = vec![&first.stage];
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    while let Some(stage) = open.pop() {
        if !seen.insert(&stage.task) {
            continue;
        }
        if SYSTEM.contains(&stage.kind.as_str()) {
            under_test.entry(stage.kind.clone()).or_default().insert(identity(stage));
        }
        open.extend(
            stage
                .upstream
                .keys()
                .filter_map(|task| made.iter().find(|made| made.stage.task == *task))
                .map(|made| &made.stage),
        );
    }
    (Some(first.stage.task.clone()), under_test)
}

/// The digest of the output. A service has none: then what it was started with, its upstream tasks by their digests, so that
/// two stages with other names and the same content are the same.
fn identity(stage: &ProvenanceStage) -> String {
    if let Some(digest) = &stage.digest {
        return digest.clone();
    }
    let mut action = stage.action.to_string();
    for (task, digest) in &stage.upstream {
        action = action
            .replace(&format!(":{task}⟧"), &format!(":{digest}⟧"))
            .replace(&format!(":{task}:"), &format!(":{digest}:"));
    }
    format!("{:x}", Sha256::digest(action.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(task: &str, kind: &str, digest: Option<&str>, action: &str, upstream: &[(&str, &str)]) -> FinishedTask {
        FinishedTask {
            folder: digest.map(|_| PathBuf::from(format!("/out/{task}"))),
            stage: ProvenanceStage {
                task: task.to_owned(),
                kind: kind.to_owned(),
                key: None,
                digest: digest.map(str::to_owned),
                commit: None,
                action: action.into(),
                facts: BTreeMap::new(),
                inputs: BTreeMap::new(),
                upstream: upstream.iter().map(|(task, digest)| ((*task).to_owned(), (*digest).to_owned())).collect(),
            },
        }
    }

    #[test]
    fn two_servers_of_one_engine_are_one_system_and_of_two_engines_are_not() {
        let all = [
            made("engine/a", "engine", Some("e1"), "", &[]),
            made("engine/b", "engine", Some("e1"), "", &[]),
            made("engine/c", "engine", Some("e2"), "", &[]),
            made("server/a", "serve", None, "start ⟦out:engine/a⟧", &[("engine/a", "e1")]),
            made("server/b", "serve", None, "start ⟦out:engine/b⟧", &[("engine/b", "e1")]),
            made("server/c", "serve", None, "start ⟦out:engine/c⟧", &[("engine/c", "e2")]),
            made("bench/a", "bench", Some("1"), "", &[("server/a", "k")]),
            made("bench/b", "bench", Some("2"), "", &[("server/b", "k")]),
            made("bench/c", "bench", Some("3"), "", &[("server/c", "k")]),
        ];
        let under = |task: &str| of(&all, Path::new(&format!("/out/{task}"))).1;
        assert_eq!(under("bench/a"), under("bench/b"));
        assert_ne!(under("bench/a"), under("bench/c"));
        assert_eq!(under("bench/c")["engine"], BTreeSet::from(["e2".to_owned()]));
        assert_eq!(of(&all, Path::new("/elsewhere")), (None, BTreeMap::new()));
    }
}
