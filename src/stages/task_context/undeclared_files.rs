//! Files of the project that a command names and its stage does not declare.
//!
//! A change to such a file would not be seen, and the stage would wrongly count as done. Relative names do not reach
//! the project, because a stage runs in its own empty folder; this looks for the other way, paths written out. It reads
//! the command's text, so what a script opens by itself stays unseen.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base::units::plain_path;

/// Paths below `project` (but not below `state`) that the text names, that exist, and that no input covers; sorted.
pub fn undeclared(
    text: &str,
    out: &Path,
    project: &Path,
    state: &Path,
    inputs: &BTreeMap<String, Vec<PathBuf>>,
) -> Vec<PathBuf> {
    let Some(root) = project.to_str() else { return Vec::new() };
    if !text.contains("../") && !text.contains(root) {
        return Vec::new();
    }
    let ends = |c: char| c.is_whitespace() || "'\"`;|&<>()=,{}".contains(c);
    let mut paths: Vec<PathBuf> = text
        .split(ends)
        .filter(|word| word.starts_with(root) || word.contains("../"))
        .map(|word| plain_path(&out.join(word)))
        .filter(|path| path.starts_with(project) && path != project && !path.starts_with(state))
        .filter(|path| !inputs.values().flatten().any(|input| path.starts_with(input)))
        .filter(|path| path.is_file())
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_exists_in_the_project_and_is_no_input_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path();
        let state = project.join(".regatta");
        let out = state.join("out/x-0");
        std::fs::create_dir_all(&out).unwrap();
        for name in ["a.txt", "b.txt"] {
            std::fs::write(project.join(name), "x").unwrap();
        }
        let inputs = BTreeMap::from([("b".to_owned(), vec![project.join("b.txt")])]);
        let here = project.display();
        let text = format!("cat '{here}/a.txt' {here}/b.txt {here}/gone.txt <../../../a.txt >{}/own", out.display());
        assert_eq!(undeclared(&text, &out, project, &state, &inputs), [project.join("a.txt")]);
        assert!(undeclared("cat a.txt ../x", &out, project, &state, &inputs).is_empty());
    }
}
