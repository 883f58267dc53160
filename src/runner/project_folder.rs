//! The project's folder in what a task does. A key does not have it: it differs from machine to machine. What it leads to is an input of a
//! typed action; of a `shell` stage only what its `inputs:` name.

use serde_json::Value;

use base::units::replace_folder;

/// What stands for it in a key.
pub(super) const PROJECT: &str = "⟦project⟧";

/// A text of a key without the folder; `None`: it does not name it.
pub(super) fn without_project(text: &str, project: &str) -> Option<String> {
    replace_folder(text, project, PROJECT)
}

/// The same of an action. Only one with the folder in it is parsed.
pub(super) fn action_without_project(action: &str, project: &str) -> Option<String> {
    if !action.contains(project) {
        return None;
    }
    let mut action = serde_json::from_str(action).ok()?;
    remove_project(&mut action, project).then(|| action.to_string())
}

fn remove_project(value: &mut Value, project: &str) -> bool {
    let remove = |any, value: &mut Value| remove_project(value, project) || any;
    match value {
        Value::String(text) => without_project(text, project).map(|without| *text = without).is_some(),
        Value::Array(items) => items.iter_mut().fold(false, remove),
        Value::Object(fields) => fields.values_mut().fold(false, remove),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_the_same_in_each_project() {
        let of = |project: &str| {
            let action = serde_json::json!({
                "shell": format!("cd '{project}/data'\n{project}/bin/x /opt{project}"),
                "container": {"volumes": [format!("{project}:/work"), 1]},
            });
            action_without_project(&action.to_string(), project)
        };
        let without = |above: &str| {
            let shell = format!(r#""shell":"cd '⟦project⟧/data'\n⟦project⟧/bin/x /opt{above}""#);
            Some(format!("{{{shell},\"container\":{{\"volumes\":[\"⟦project⟧:/work\",1]}}}}"))
        };
        assert_eq!(of("/home/me/project"), without("/home/me/project"));
        assert_eq!(of("/srv"), without("/srv"));
        assert_eq!(action_without_project(r#"{"shell":"ls /opt/srv"}"#, "/srv"), None);
    }
}
