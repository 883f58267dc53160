//! The project's folder in what a task does. A key does not have it: it differs from machine to machine. What it leads
//! to is an input of a typed action; of a `shell` stage only what its `inputs:` name.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::store::{ListedFolder, PathError, leads_out};
use base::files::SYSTEM_FOLDERS;
use base::units::{plain_path, replace_folder};

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

// Links in an output that lead outside it, to something that the task's key does not cover.

/// One text about all of them. `known`: paths that the task's key covers, and outputs; evaluated only if a link
/// leads outside.
pub(super) fn outside_links_notice(
    listed: &ListedFolder,
    known: impl FnOnce() -> Vec<PathBuf>,
) -> Result<Option<String>, PathError> {
    let links = listed.links()?;
    let by_path = links.iter().map(|(path, target)| (path.as_path(), target.as_path())).collect();
    let mut outside = links.iter().filter(|(path, target)| leads_out(path, target, &by_path)).peekable();
    if outside.peek().is_none() {
        return Ok(None);
    }
    let system = SYSTEM_FOLDERS.iter().chain(&["/dev"]).map(PathBuf::from);
    let keyed_paths: HashSet<PathBuf> = known()
        .into_iter()
        .chain([listed.folder().to_owned()])
        .chain(system)
        .flat_map(|path| [fs::canonicalize(&path).ok(), Some(path)])
        .flatten()
        .collect();
    let is_known = |place: &Path| place.ancestors().any(|above| keyed_paths.contains(above));
    let mut unknown = outside.filter(|(path, target)| {
        let path = listed.folder().join(path);
        // What a link in an earlier output leads to was named when that was made.
        let target = plain_path(&path.parent().unwrap_or(&path).join(target));
        !is_known(&target) && !fs::canonicalize(&path).is_ok_and(|end| is_known(&end))
    });
    let Some((path, target)) = unknown.next() else { return Ok(None) };
    let others = match unknown.count() {
        0 => String::new(),
        1 => " (and 1 more such link)".to_owned(),
        n => format!(" (and {n} more such links)"),
    };
    Ok(Some(format!(
        "{} is a link out of its output, to {}{others}: what is there is not part of the output, and a change of it \
         goes unnoticed; copy \
         it, or declare it under `inputs:`",
        path.display(),
        target.display()
    )))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::store::list_folder;
    use super::*;

    #[test]
    fn an_action_is_the_same_in_each_project() {
        let shown = |project: &str| {
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
        assert_eq!(shown("/home/me/project"), without("/home/me/project"));
        assert_eq!(shown("/srv"), without("/srv"));
        assert_eq!(action_without_project(r#"{"shell":"ls /opt/srv"}"#, "/srv"), None);
    }

    #[test]
    fn a_link_to_what_no_key_has_is_named_with_its_target() {
        let place = tempfile::tempdir().unwrap();
        let (out, set, input) = (place.path().join("out"), place.path().join("set"), place.path().join("input"));
        for folder in [&out.join("a"), &set, &input] {
            fs::create_dir_all(folder).unwrap();
        }
        let text = || outside_links_notice(&list_folder(&out).unwrap(), || vec![input.clone()]).unwrap();
        symlink("a", out.join("inside")).unwrap();
        symlink(out.join("a"), out.join("inside-as-well")).unwrap();
        symlink(input.join("x"), out.join("declared")).unwrap();
        symlink("../input", out.join("declared-from-here")).unwrap();
        symlink("/usr/bin/python3", out.join("python")).unwrap();
        assert_eq!(text(), None);
        symlink(&set, out.join("data")).unwrap();
        let notice_text = text().unwrap();
        assert!(
            notice_text.starts_with(&format!("data is a link out of its output, to {}: what", set.display())),
            "{notice_text}"
        );
        symlink("../set", out.join("relative")).unwrap();
        symlink(place.path().join("gone"), out.join("leads-nowhere")).unwrap();
        symlink(input.join("../set"), out.join("by-the-input")).unwrap();
        assert!(text().unwrap().contains("(and 3 more such links)"));
    }
}
