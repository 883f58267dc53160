//! Files and folders of this machine that arguments and model configurations name: a container must have them, at their own
//! paths.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Folders that every image has of its own: mounting the machine's over them would break the programs inside.
const OF_THE_IMAGE: [&str; 14] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt/nvidia",
    "/opt/tritonserver",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
];

/// The absolute paths that exist here among these arguments: whole ones, and the parts of `name=value`, `a,b` and scripts.
pub fn in_arguments<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for word in words {
        if push_if_there(word, &mut found) {
            continue;
        }
        for piece in word.split(|c: char| c.is_whitespace() || matches!(c, '=' | ',' | '"' | '\'' | ';')) {
            push_if_there(piece, &mut found);
        }
    }
    found
}

/// Those among the texts of a JSON value, at any depth.
pub fn in_json(value: &Value) -> Vec<PathBuf> {
    match value {
        Value::String(text) => in_arguments([text.as_str()]),
        Value::Array(values) => values.iter().flat_map(in_json).collect(),
        Value::Object(values) => values.values().flat_map(in_json).collect(),
        _ => Vec::new(),
    }
}

fn push_if_there(text: &str, found: &mut Vec<PathBuf>) -> bool {
    let is_there = text.starts_with('/') && Path::new(text).exists();
    if is_there {
        found.push(PathBuf::from(text));
    }
    is_there
}

/// What to mount so that these can be read, where `covered` is mounted already. A link leads to its target, and so do the links
/// in a folder: a checkpoint in the cache of Hugging Face is a folder of links to its files.
pub fn mount_points(named: &[PathBuf], covered: &[&Path]) -> Vec<PathBuf> {
    let mut points: Vec<PathBuf> = Vec::new();
    for path in named {
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        let targets = links(&real).filter_map(|target| Some(target.parent()?.to_owned()));
        let mut wanted = vec![path.clone()];
        if covered.iter().any(|known| path.starts_with(known)) {
            // What is mounted holds the link, and not what it leads to.
            wanted.push(real.clone());
        }
        wanted.extend(targets);
        for one in wanted {
            let is_known = |known: &Path| one.starts_with(known);
            let is_covered = covered.iter().any(|known| is_known(known)) || points.iter().any(|known| is_known(known));
            if !is_covered && !is_of_the_image(&one) {
                points.push(one);
            }
        }
    }
    points
}

/// Where the mounts of a container are inside: `/to` of `/from:/to:ro`.
pub fn mount_targets(mounts: &[String]) -> Vec<&Path> {
    mounts.iter().filter_map(|mount| mount.split(':').nth(1)).map(Path::new).collect()
}

/// Where the links of a folder lead.
fn links(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    links.filter_map(|entry| entry.path().canonicalize().ok())
}

fn is_of_the_image(path: &Path) -> bool {
    path.parent().is_none() || OF_THE_IMAGE.iter().any(|folder| path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn paths_are_found_where_they_exist_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model");
        fs::create_dir(&model).unwrap();
        let text = model.display().to_string();
        let words = [format!("--model={text}"), "/no/such/path".to_owned(), format!("exec serve '{text}' --x 1")];
        assert_eq!(in_arguments(words.iter().map(String::as_str)), [model.clone(), model.clone()]);
        let json = serde_json::json!({"model": text, "n": [1, {"deep": format!("a,{text}")}]});
        assert_eq!(in_json(&json), [model.clone(), model]);
    }

    #[test]
    fn a_folder_of_links_brings_what_they_lead_to() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (snapshot, blobs) = (root.join("snapshots/1"), root.join("blobs"));
        fs::create_dir_all(&snapshot).unwrap();
        fs::create_dir_all(&blobs).unwrap();
        fs::write(blobs.join("a"), "").unwrap();
        symlink("../../blobs/a", snapshot.join("config.json")).unwrap();
        assert_eq!(mount_points(std::slice::from_ref(&snapshot), &[]), [snapshot.clone(), blobs.clone()]);
        assert_eq!(mount_points(std::slice::from_ref(&snapshot), &[&root]), Vec::<PathBuf>::new());
        // A link in what is mounted, to a place that is not.
        let project = root.join("project");
        fs::create_dir(&project).unwrap();
        symlink(&blobs, project.join("model")).unwrap();
        assert_eq!(mount_points(&[project.join("model")], &[&project]), [blobs]);
    }

    #[test]
    fn what_the_image_has_is_left_to_it() {
        assert_eq!(mount_points(&in_arguments(["/usr/bin", "/", "--x=/etc,/dev/null"]), &[]), Vec::<PathBuf>::new());
        assert_eq!(mount_targets(&["/a:/b:ro".to_owned()]), [Path::new("/b")]);
    }
}
