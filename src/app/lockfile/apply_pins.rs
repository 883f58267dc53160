//! A branch, a tag of an image, a revision of weights mean something else tomorrow: a locked run uses what they meant.

use serde_json::Value;

use super::LockedTask;
use plan::manifest::model::Action;
use plan::{Task, TaskPart, UnwritableAction};

/// Writes into a task's action what its name meant when it was locked. Returns a description; `None`: nothing to do, because it
/// names one thing permanently already, or the lock does not have it.
///
/// # Errors
/// The task's action cannot be written.
pub fn pin(task: &mut Task, entry: &LockedTask) -> Result<Option<String>, UnwritableAction> {
    let Some((action, text)) = task.action().and_then(|action| pinned(action.clone(), entry)) else { return Ok(None) };
    task.action = Some(TaskPart::new(action)?);
    Ok(Some(text))
}

fn pinned(mut action: Action, entry: &LockedTask) -> Option<(Action, String)> {
    let commit = entry.resolved.get("commit").and_then(Value::as_str).map(str::to_owned);
    let (key, requested, meant) = match &mut action {
        Action::Git(git) => ("rev", &mut git.rev, commit?),
        Action::Weights(weights) => ("revision", &mut weights.revision, commit?),
        Action::Image(image) => {
            let name = image.pull.as_mut()?;
            let digest = digest_of(name, entry)?;
            ("pull", name, digest)
        }
        _ => return None,
    };
    if meant == *requested || requested.contains("@sha256:") {
        return None;
    }
    let name = std::mem::replace(requested, meant.clone());
    let text = format!(
        "`{key}: {name}` was {meant} when it was locked; the locked value is used, even if the name now means another"
    );
    Some((action, text))
}

/// `registry/name@sha256:…` of the same registry and name.
fn digest_of(name: &str, entry: &LockedTask) -> Option<String> {
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let repository = name[last..].split_once(':').map_or(name, |(before, _)| &name[..last + before.len()]);
    let digests = entry.resolved.get("digests")?.as_array()?;
    let known = digests.iter().filter_map(Value::as_str);
    known
        .filter(|digest| {
            let of = digest.split_once('@').map_or(*digest, |(of, _)| of);
            of == repository || of.ends_with(&format!("/{repository}"))
        })
        .map(str::to_owned)
        .next()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use serde_json::json;

    fn pinned(action: &Value, resolved: &Value) -> (Option<String>, Value) {
        let action = TaskPart::from_json(&action.to_string()).unwrap();
        let mut task = Task::new(base::event::TaskId::new("t"), "t".to_owned(), action);
        let resolved =
            resolved.as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let entry = LockedTask { kind: task.kind, requested: BTreeMap::new(), resolved };
        let text = pin(&mut task, &entry).unwrap();
        (text, serde_json::from_str(task.action_text()).unwrap())
    }

    #[test]
    fn a_branch_is_what_it_was() {
        let action = |rev: &str| json!({"git": {"rev": rev, "url": "u"}});
        let (warning, now) = pinned(&action("main"), &json!({"commit": "abc"}));
        assert_eq!((&now["git"]["rev"], &now["git"]["url"]), (&json!("abc"), &json!("u")));
        assert_eq!(
            warning.as_deref(),
            Some(
                "`rev: main` was abc when it was locked; the locked value is used, even if the name now means another"
            )
        );
        assert_eq!(pinned(&action("abc"), &json!({"commit": "abc"})).0, None);
        assert_eq!(pinned(&action("main"), &json!({})).0, None);
        let weights = json!({"weights": {"hf": "a/b", "revision": "main"}});
        assert_eq!(pinned(&weights, &json!({"commit": "c"})).1.pointer("/weights/revision"), Some(&json!("c")));
        assert_eq!(pinned(&json!({"shell": "x"}), &json!({"commit": "c"})).0, None);
    }

    #[test]
    fn an_image_is_fetched_by_the_digest_of_its_own_registry() {
        let action = |name: &str| json!({"image": {"pull": name}});
        let resolved = json!({"digests": ["other/x@sha256:1", "r.io:5000/nvidia/x@sha256:2", "docker.example/library/y@sha256:3"]});
        for (name, meant) in [
            ("r.io:5000/nvidia/x:24.12", "r.io:5000/nvidia/x@sha256:2"),
            ("r.io:5000/nvidia/x", "r.io:5000/nvidia/x@sha256:2"),
            ("y:1", "docker.example/library/y@sha256:3"),
        ] {
            assert_eq!(pinned(&action(name), &resolved).1["image"]["pull"], meant);
        }
        assert_eq!(pinned(&action("z:1"), &resolved).0, None);
        assert_eq!(pinned(&action("y@sha256:9"), &resolved).0, None);
    }
}
