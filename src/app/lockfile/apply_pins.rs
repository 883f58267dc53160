//! A branch, a tag of an image, a revision of weights mean something else tomorrow: a locked run uses what they meant.

use serde_json::Value;

use super::LockedTask;
use plan::{ActionError, ActionKind, Task};

/// Writes into a task's action what its name meant when it was locked. Returns a description; `None`: nothing to do, because it
/// names one thing permanently already, or the lock does not have it.
///
/// # Errors
/// The task's action cannot be read.
pub fn pin(task: &mut Task, entry: &LockedTask) -> Result<Option<String>, ActionError> {
    let action = task.action_json()?;
    Ok(pin_in(action, task, entry))
}

fn pin_in(mut action: Value, task: &mut Task, entry: &LockedTask) -> Option<String> {
    let (field, word) = match task.kind {
        ActionKind::Git => ("/git/rev", "rev"),
        ActionKind::Weights => ("/weights/revision", "revision"),
        ActionKind::Image => ("/image/pull", "pull"),
        _ => return None,
    };
    let requested = action.pointer_mut(field)?;
    let name = requested.as_str()?.to_owned();
    let meant = match task.kind {
        ActionKind::Image => digest_of(&name, entry)?,
        _ => entry.resolved.get("commit")?.as_str()?.to_owned(),
    };
    if meant == name || name.contains("@sha256:") {
        return None;
    }
    *requested = Value::from(meant.as_str());
    task.action = action.to_string();
    Some(format!(
        "`{word}: {name}` was {meant} when it was locked; the locked value is used, even if the name now means another"
    ))
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

    fn pinned(kind: ActionKind, action: &Value, resolved: &Value) -> (Option<String>, Value) {
        let mut task = plan::Task {
            action: action.to_string(),
            ..plan::Task::minimal(base::event::TaskId::new("t"), "t".to_owned(), kind)
        };
        let resolved =
            resolved.as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let entry = LockedTask { kind, requested: BTreeMap::new(), resolved };
        let text = pin(&mut task, &entry).unwrap();
        (text, serde_json::from_str(&task.action).unwrap())
    }

    #[test]
    fn a_branch_is_what_it_was() {
        let action = |rev: &str| json!({"git": {"rev": rev, "url": "u"}});
        let (warning, now) = pinned(ActionKind::Git, &action("main"), &json!({"commit": "abc"}));
        assert_eq!(now, action("abc"));
        assert_eq!(
            warning.as_deref(),
            Some(
                "`rev: main` was abc when it was locked; the locked value is used, even if the name now means another"
            )
        );
        assert_eq!(pinned(ActionKind::Git, &action("abc"), &json!({"commit": "abc"})).0, None);
        assert_eq!(pinned(ActionKind::Git, &action("main"), &json!({})).0, None);
        let weights = json!({"weights": {"hf": "a/b", "revision": "main"}});
        assert_eq!(
            pinned(ActionKind::Weights, &weights, &json!({"commit": "c"})).1.pointer("/weights/revision"),
            Some(&json!("c"))
        );
        assert_eq!(pinned(ActionKind::Shell, &json!({"shell": "x"}), &json!({"commit": "c"})).0, None);
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
            assert_eq!(pinned(ActionKind::Image, &action(name), &resolved).1, action(meant));
        }
        assert_eq!(pinned(ActionKind::Image, &action("z:1"), &resolved).0, None);
        assert_eq!(pinned(ActionKind::Image, &action("y@sha256:9"), &resolved).0, None);
    }
}
