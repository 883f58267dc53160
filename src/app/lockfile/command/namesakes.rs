//! Manifests of the project with the same `name:`: they share an entry of the lock file.

use crate::project::Project;
use base::files::text_of;
use plan::Plan;

/// The files of the others, relative to the project.
pub(super) fn namesakes(project: &Project, plan: &Plan) -> Vec<String> {
    let own = project.manifests.find(&plan.manifest);
    let all = project.manifests.names().unwrap_or_default().into_iter();
    let others = all.filter(|(_, file, is_shipped)| !is_shipped && Some(file) != own.as_ref());
    others
        .filter(|(file_name, file, _)| {
            let text = file.read().ok().and_then(|read| text_of(read.bytes).ok()).unwrap_or_default();
            let fallback = file_name.rsplit('/').next().unwrap_or(file_name);
            name_in(&text).unwrap_or(fallback) == plan.name
        })
        .map(|(_, file, _)| file.rel)
        .collect()
}

/// A name has letters, digits, `-`, `_` and `.` only. Reading the whole manifest would take long.
fn name_in(text: &str) -> Option<&str> {
    let value = text.lines().find_map(|line| line.strip_prefix("name:"))?;
    let value = value.split('#').next().unwrap_or(value);
    Some(value.trim().trim_matches(['\'', '"']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_without_reading_the_manifest() {
        assert_eq!(name_in("regatta: 1\nname: 'a-b'  # c\nstages: {}\n"), Some("a-b"));
        assert_eq!(name_in("regatta: 1\nstages:\n  name: { shell: x }\n"), None);
    }
}
