//! Links in an output that lead to what is no part of it, and of nothing else that the task's key has.

use std::path::{Path, PathBuf};

use super::store::{ListedFolder, PathError, leads_out};

/// Belongs to the machine, like the programs that a stage runs; links of virtual environments and toolchains lead there.
const SYSTEM: [&str; 9] = ["/bin", "/dev", "/lib", "/lib64", "/nix", "/proc", "/sbin", "/sys", "/usr"];

/// One text about all of them. `known`: paths whose content is in the task's key, or that are outputs.
pub(super) fn notice(listed: &ListedFolder, known: &[PathBuf]) -> Result<Option<String>, PathError> {
    let links = listed.links()?;
    let by_path = links.iter().map(|(path, target)| (path.as_path(), target.as_path())).collect();
    let known: Vec<PathBuf> =
        known.iter().flat_map(|path| [Some(path.clone()), path.canonicalize().ok()]).flatten().collect();
    let is_known = |target: &Path| {
        let system = SYSTEM.iter().map(Path::new);
        known.iter().map(PathBuf::as_path).chain([listed.folder()]).chain(system).any(|path| target.starts_with(path))
    };
    let mut outside = links.iter().filter(|(path, target)| {
        let is_plain = !target.components().any(|part| part == std::path::Component::ParentDir);
        leads_out(path, target, &by_path) && !(is_plain && is_known(target))
    });
    let Some((path, target)) = outside.next() else { return Ok(None) };
    let others = match outside.count() {
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
        let text = || notice(&list_folder(&out).unwrap(), std::slice::from_ref(&input)).unwrap();
        symlink("a", out.join("inside")).unwrap();
        symlink(out.join("a"), out.join("inside-as-well")).unwrap();
        symlink(input.join("x"), out.join("declared")).unwrap();
        symlink("/usr/bin/python3", out.join("python")).unwrap();
        assert_eq!(text(), None);
        symlink(&set, out.join("data")).unwrap();
        let one = text().unwrap();
        assert!(one.starts_with(&format!("data is a link out of its output, to {}: what", set.display())), "{one}");
        symlink("../set", out.join("relative")).unwrap();
        symlink(input.join("../set"), out.join("by-the-input")).unwrap();
        assert!(text().unwrap().contains("(and 2 more such links)"));
    }
}
