//! A lock file as YAML: the same content is always the same bytes.

use std::collections::BTreeMap;

use super::LockFile;

/// The version that is written, and the newest that is understood.
const VERSION: u32 = 1;

const HEAD: &str = "\
# What the last successful runs requested, and what it resolved to. `regatta run` writes this file, `regatta run … --locked`
# enforces it, `regatta lock diff` compares it. Commit this file; changes by hand are overwritten.
";

/// Why a text is no lock file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockFileError {
    #[error("it is of version {0}, and this program knows up to {VERSION}")]
    Newer(u32),
    #[error("it has marks of a merge that was not finished (`<<<<<<<`)")]
    Merge,
    #[error("{0}")]
    Text(String),
}

impl Default for LockFile {
    fn default() -> Self {
        Self { lock: VERSION, runs: BTreeMap::new() }
    }
}

/// The bytes of a lock file.
///
/// # Errors
/// It holds a value that YAML cannot express. No run writes one.
pub fn write(file: &LockFile) -> Result<String, LockFileError> {
    let mut file = file.clone();
    let stages = file.runs.values_mut().flat_map(|section| section.stages.values_mut());
    stages
        .flat_map(|stage| stage.requested.values_mut().chain(stage.resolved.values_mut()))
        .for_each(serde_json::Value::sort_all_objects);
    let text = serde_yaml::to_string(&file).map_err(|error| LockFileError::Text(error.to_string()))?;
    Ok(format!("{HEAD}{text}"))
}

/// Reads a lock file.
///
/// # Errors
/// The text has a newer version, unresolved merge marks, or is no lock file.
pub fn read(text: &str) -> Result<LockFile, LockFileError> {
    #[derive(serde::Deserialize)]
    struct Version {
        lock: u32,
    }
    if text.lines().any(|line| line.starts_with("<<<<<<< ")) {
        return Err(LockFileError::Merge);
    }
    let read = serde_yaml::from_str::<LockFile>(text);
    // One of a newer version may have another form.
    let version = match &read {
        Ok(file) => Some(file.lock),
        Err(_) => serde_yaml::from_str::<Version>(text).ok().map(|version| version.lock),
    };
    match (version, read) {
        (Some(version), _) if version > VERSION => Err(LockFileError::Newer(version)),
        (_, read) => read.map_err(|error| LockFileError::Text(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::{LockSection, LockedTask};
    use super::*;
    use plan::ActionKind;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e12..1e12_f64).prop_map(Value::from),
            ".{0,24}".prop_map(Value::from),
            "[ -~\n\t]{0,60}".prop_map(Value::from),
            prop_oneof!["true", "null", "~", "1e3", "0x1F", "no", "- a", "#", "a: b", "<<", " x", "x ", "\n", "'", "|"]
                .prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ -~]{0,12}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn files() -> impl Strategy<Value = LockFile> {
        let words = || prop::collection::btree_map("[a-zA-Z_. -]{1,12}", ".{0,20}", 0..3);
        let fields = || prop::collection::btree_map("[a-z ]{1,10}", values(), 0..4);
        let kind = prop_oneof![Just(ActionKind::Git), Just(ActionKind::TrtllmBench), Just(ActionKind::Engine)];
        let entry =
            (kind, fields(), fields()).prop_map(|(kind, requested, resolved)| LockedTask { kind, requested, resolved });
        let stages = prop::collection::btree_map("[a-z_/0-9.]{1,16}", entry, 0..4);
        let section =
            ("[0-9.]{1,8}", words(), words(), words(), stages).prop_map(|(regatta, params, machine, tools, stages)| {
                LockSection { regatta, params, machine, tools, stages }
            });
        prop::collection::btree_map("[a-z0-9]{1,9}( [a-z]{1,6}=[!-~]{0,9}){0,2}", section, 0..3)
            .prop_map(|runs| LockFile { runs, ..LockFile::default() })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_written_again_in_the_same_bytes(file in files()) {
            let text = write(&file).unwrap();
            let read = read(&text).unwrap();
            prop_assert_eq!(&read, &file);
            prop_assert_eq!(write(&read).unwrap(), text);
        }
    }

    #[test]
    fn a_person_can_read_it() {
        let entry = LockedTask {
            kind: ActionKind::Git,
            requested: BTreeMap::from([("action".to_owned(), json!({"git": {"url": "https://h/x", "rev": "main"}}))]),
            resolved: BTreeMap::from([("commit".to_owned(), json!("0123"))]),
        };
        let section = LockSection {
            regatta: "0.1.0".to_owned(),
            params: BTreeMap::from([("system".to_owned(), "sim-h200-x1".to_owned())]),
            tools: BTreeMap::from([("git".to_owned(), "git version 2.39.5".to_owned())]),
            stages: BTreeMap::from([("clone".to_owned(), entry)]),
            ..LockSection::default()
        };
        let runs = BTreeMap::from([("m system=sim-h200-x1".to_owned(), section)]);
        let text = write(&LockFile { runs, ..LockFile::default() }).unwrap();
        insta::assert_snapshot!(text.strip_prefix(HEAD).unwrap(), @r"
        lock: 1
        runs:
          m system=sim-h200-x1:
            regatta: 0.1.0
            params:
              system: sim-h200-x1
            tools:
              git: git version 2.39.5
            stages:
              clone:
                kind: git
                requested:
                  action:
                    git:
                      rev: main
                      url: https://h/x
                resolved:
                  commit: '0123'
        ");
    }

    #[test]
    fn what_is_no_lock_file_is_distinguished_from_what_is_newer() {
        assert_eq!(read("lock: 2\nnew: 1\n"), Err(LockFileError::Newer(2)));
        assert_eq!(read("lock: 1\n<<<<<<< HEAD\n"), Err(LockFileError::Merge));
        assert!(matches!(read("regatta: 1\nstages: {}\n"), Err(LockFileError::Text(_))));
        assert!(matches!(read("lock: 1\nrunz: {}\n"), Err(LockFileError::Text(_))));
        assert_eq!(read("lock: 1\n"), Ok(LockFile::default()));
    }

    #[test]
    fn the_keys_of_an_earlier_version_are_read() {
        let text = "lock: 1\nruns:\n  m:\n    manifest: m.yaml\n    stages:\n      s:\n        kind: shell\n        requested:\n          needs: [a]\n        resolved:\n          key: k\n";
        let (now, before) = (read(text), read(&text.replace("requested:", "asked:").replace("resolved:", "became:")));
        assert_eq!(now, before);
    }
}
