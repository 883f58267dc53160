//! Links in an output that lead to what is no part of it, and of nothing else that the task's key has.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::store::{ListedFolder, PathError, leads_out};
use base::files::SYSTEM_FOLDERS;
use base::units::plain_path;

/// One text about all of them. `known`: paths whose content is in the task's key, or that are outputs; only looked at where a link leads
/// out.
pub(super) fn notice(listed: &ListedFolder, known: impl FnOnce() -> Vec<PathBuf>) -> Result<Option<String>, PathError> {
    let links = listed.links()?;
    let by_path = links.iter().map(|(path, target)| (path.as_path(), target.as_path())).collect();
    let mut outside = links.iter().filter(|(path, target)| leads_out(path, target, &by_path)).peekable();
    if outside.peek().is_none() {
        return Ok(None);
    }
    let system = SYSTEM_FOLDERS.iter().chain(&["/dev"]).map(PathBuf::from);
    let known: HashSet<PathBuf> = known()
        .into_iter()
        .chain([listed.folder().to_owned()])
        .chain(system)
        .flat_map(|path| [fs::canonicalize(&path).ok(), Some(path)])
        .flatten()
        .collect();
    let is_known = |place: &Path| place.ancestors().any(|above| known.contains(above));
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
        "{} is a link out of its output, to {}{others}: what is there is no part of the output, and a change of it goes unnoticed; copy \
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
    fn a_link_to_what_no_key_has_is_named_with_its_target() {
        let place = tempfile::tempdir().unwrap();
        let (out, set, input) = (place.path().join("out"), place.path().join("set"), place.path().join("input"));
        for folder in [&out.join("a"), &set, &input] {
            fs::create_dir_all(folder).unwrap();
        }
        let text = || notice(&list_folder(&out).unwrap(), || vec![input.clone()]).unwrap();
        symlink("a", out.join("inside")).unwrap();
        symlink(out.join("a"), out.join("inside-as-well")).unwrap();
        symlink(input.join("x"), out.join("declared")).unwrap();
        symlink("../input", out.join("declared-from-here")).unwrap();
        symlink("/usr/bin/python3", out.join("python")).unwrap();
        assert_eq!(text(), None);
        symlink(&set, out.join("data")).unwrap();
        let one = text().unwrap();
        assert!(one.starts_with(&format!("data is a link out of its output, to {}: what", set.display())), "{one}");
        symlink("../set", out.join("relative")).unwrap();
        symlink(place.path().join("gone"), out.join("leads-nowhere")).unwrap();
        symlink(input.join("../set"), out.join("by-the-input")).unwrap();
        assert!(text().unwrap().contains("(and 3 more such links)"));
    }
}
