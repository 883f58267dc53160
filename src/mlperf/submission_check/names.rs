//! Names, sizes and strays: what has no place in a submission.

use std::collections::BTreeMap;
use std::path::Path;

use walkdir::WalkDir;

use super::finding::GateFindings;
use super::tree::DIVISIONS;

const LARGEST: u64 = 50 * 1024 * 1024;

pub(super) fn check(to: &mut GateFindings, root: &Path) {
    let mut folded: BTreeMap<String, String> = BTreeMap::new();
    for division in DIVISIONS.iter().map(|name| root.join(name)) {
        for item in WalkDir::new(division).sort_by_file_name().into_iter().flatten() {
            let path = item.path();
            let name = item.file_name().to_string_lossy().into_owned();
            if !name.chars().all(|c| c.is_ascii_alphanumeric() || "._-+,@=()".contains(c)) {
                let what = format!("its name has characters that not every file system and script takes: {name:?}");
                to.refuse(
                    "file name",
                    path,
                    what,
                    "submissions are cloned and read on many systems",
                    "rename it: letters, digits, . _ -",
                );
            }
            let below = path.strip_prefix(root).unwrap_or(path).display().to_string();
            if let Some(other) = folded.insert(below.to_lowercase(), below.clone()) {
                let what = format!("its name differs from {other} in case only");
                to.refuse("file name", path, what, "on some systems one overwrites the other", "rename one of them");
            }
            let kind = item.file_type();
            if kind.is_symlink() {
                to.refuse("link", path, "it is a link", "links do not survive packing", "put the file there");
            }
            if kind.is_file() {
                let size = item.metadata().map_or(0, |meta| meta.len());
                if size > LARGEST {
                    let what = format!("it has {size} bytes, at most {LARGEST} (50 MiB) are taken");
                    to.refuse(
                        "file size",
                        path,
                        what,
                        "the repository of results refuses larger files",
                        "leave it out; truncate logs",
                    );
                }
                if name == "audit.config" {
                    let why = "LoadGen takes an audit.config in its working folder; one in a package makes every repetition an audit";
                    to.refuse(
                        "audit.config",
                        path,
                        "an audit.config is in the package",
                        why,
                        "take it out, and look whether the run was one of an audit",
                    );
                }
            }
        }
    }
}
