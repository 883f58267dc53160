//! What an output records about itself: which commit, which image, which weights, which program made it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};

use super::{git, image, mlperf, weights};
use crate::git_command::query_repository;
use base::files::{read_bytes, read_text};
use plan::Task;
use plan::manifest::model::{Action, Git, Mlperf};

/// How long git may take to print a commit.
const LIMIT: Duration = Duration::from_secs(20);

/// Read from the files that each kind of stage leaves; what cannot be read is left out. Blocks: with cherry-picks, git
/// is run.
///
/// - git: `commit`, what `rev` meant; with cherry-picks also `head`, that with them
/// - image: `id`, `digests` (one for each registry)
/// - weights: `repository`, `commit`, `bytes`, `files` (name → digest)
/// - engine: `tensorrt_llm`, the version that built it
/// - LoadGen: `version`, `revision`, `sdist_sha256`, `compiler`
pub fn resolved(task: &Task, folder: &Path) -> BTreeMap<String, Value> {
    match task.action() {
        Some(Action::Git(clone)) => revision(clone, folder),
        Some(Action::Image(_)) => fields(&folder.join(image::RECORD_FILE), &["id", "digests"]),
        Some(Action::Weights(_)) => checkpoint(folder),
        Some(Action::Engine(_)) => {
            let version = json(&folder.join("config.json")).and_then(|config| config.get("version").cloned());
            version.into_iter().map(|version| ("tensorrt_llm".to_owned(), version)).collect()
        }
        Some(Action::Mlperf(Mlperf::Loadgen(_))) => {
            fields(&folder.join(mlperf::LOADGEN_RECORD_FILE), &["version", "revision", "sdist_sha256", "compiler"])
        }
        _ => BTreeMap::new(),
    }
}

fn revision(clone: &Git, folder: &Path) -> BTreeMap<String, Value> {
    let Ok(head) = read_text(folder.join(git::REVISION)) else { return BTreeMap::new() };
    let head = head.trim().to_owned();
    let picks = clone.cherry_picks.len();
    if picks == 0 {
        return BTreeMap::from([("commit".to_owned(), head.into())]);
    }
    // Each pick is one commit on top, also when it changes nothing.
    let base = format!("HEAD~{picks}^{{commit}}");
    let text = query_repository(folder, &["rev-parse", "--verify", "--quiet", &base], LIMIT);
    let commit = text.map(|out| ("commit".to_owned(), Value::from(out.trim())));
    std::iter::once(("head".to_owned(), Value::from(head))).chain(commit).collect()
}

fn checkpoint(folder: &Path) -> BTreeMap<String, Value> {
    let list = folder.join(weights::LIST);
    let mut identity = fields(&list, &["repository", "commit", "bytes"]);
    let files = json(&list).and_then(|list| list.get("files")?.as_array().cloned()).unwrap_or_default();
    let sum = |file: &Value| {
        let kind = ["sha256", "git_blob"].into_iter().find_map(|kind| Some((kind, file.get(kind)?.as_str()?)));
        let (kind, hex) = kind?;
        Some((file.get("path")?.as_str()?.to_owned(), Value::from(format!("{kind}:{hex}"))))
    };
    let files: Map<String, Value> = files.iter().filter_map(sum).collect();
    identity.insert("files".to_owned(), Value::Object(files));
    identity
}

fn json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&read_bytes(path).ok()?).ok()
}

fn fields(path: &Path, names: &[&str]) -> BTreeMap<String, Value> {
    let Some(all) = json(path) else { return BTreeMap::new() };
    let field =
        |name: &&str| all.get(*name).filter(|value| !value.is_null()).map(|value| ((*name).to_owned(), value.clone()));
    names.iter().filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use base::event::TaskId;
    use plan::TaskPart;
    use serde_json::json;

    fn identity_of(action: &Value, files: &[(&str, &str)]) -> Value {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let action = TaskPart::from_json(&action.to_string()).unwrap();
        let task = Task::new(TaskId::new("t"), "t".to_owned(), action);
        json!(resolved(&task, folder.path()))
    }

    #[test]
    fn outputs_say_what_they_are() {
        let git = json!({"git": {"url": "u", "rev": "main"}});
        assert_eq!(identity_of(&git, &[(git::REVISION, "abc\n")]), json!({"commit": "abc"}));
        let image = json!({"image": {"pull": "x:1"}});
        let text = r#"{"name": "x:1", "id": "sha256:1", "digests": ["x@sha256:2"]}"#;
        let expected = json!({"id": "sha256:1", "digests": ["x@sha256:2"]});
        assert_eq!(identity_of(&image, &[("image.json", text)]), expected);
        let weights = json!({"weights": {"hf": "a/b"}});
        let list = r#"{"repository": "a/b", "commit": "c", "bytes": 3, "files": [
            {"path": "m", "size": 2, "sha256": "5"}, {"path": "n", "size": 1, "git_blob": "6"}]}"#;
        assert_eq!(
            identity_of(&weights, &[("weights.json", list)]),
            json!({"repository": "a/b", "commit": "c", "bytes": 3, "files": {"m": "sha256:5", "n": "git_blob:6"}})
        );
        assert_eq!(identity_of(&git, &[]), json!({}));
        assert_eq!(identity_of(&json!({"shell": "x"}), &[]), json!({}));
    }
}
