//! Names, sizes and strays: what has no place in a submission.

use std::collections::BTreeMap;
use std::path::Path;

use walkdir::{DirEntry, WalkDir};

use super::checks::SubmissionCheck;
use super::finding::{FindingWeight, SubmissionFindings};
use super::tree::DIVISIONS;
use crate::SubmissionLayout;

const LARGEST: u64 = 50 * 1024 * 1024;

pub(super) fn check(to: &mut SubmissionFindings, root: &Path, layout: SubmissionLayout) {
    let mut folded: BTreeMap<String, String> = BTreeMap::new();
    for division in DIVISIONS.iter().map(|name| root.join(name)) {
        for item in WalkDir::new(division).sort_by_file_name().into_iter().flatten() {
            let path = item.path();
            name(to, path, &item.file_name().to_string_lossy(), layout);
            let below = path.strip_prefix(root).unwrap_or(path).display().to_string();
            if let Some(other) = folded.insert(below.to_lowercase(), below.clone()) {
                let what = format!("its name differs from {other} in case only");
                to.review(
                    SubmissionCheck::FileName,
                    path,
                    what,
                    "on some systems one overwrites the other",
                    "rename one of them",
                );
            }
            kind(to, &item, layout);
        }
    }
}

fn name(to: &mut SubmissionFindings, path: &Path, name: &str, layout: SubmissionLayout) {
    let fix = "rename it: letters, digits, . _ -";
    if name.contains(' ') || name.starts_with('.') || name == "__pycache__" {
        let what = match name {
            "__pycache__" => "it is a cache of Python's".to_owned(),
            _ => format!("its name begins with a dot or has a space in it: {name:?}"),
        };
        let why = "the official checker refuses such names until v5.1";
        to.find(FindingWeight::of_older_checker(layout), SubmissionCheck::FileName, path, what, why, fix);
    } else if !name.chars().all(|c| c.is_ascii_alphanumeric() || "._-+,@=()".contains(c)) {
        let what = format!("its name has characters that not every file system and script takes: {name:?}");
        to.review(SubmissionCheck::FileName, path, what, "submissions are cloned and read on many systems", fix);
    }
}

/// Links, large files, files of an audit, empty folders.
fn kind(to: &mut SubmissionFindings, item: &DirEntry, layout: SubmissionLayout) {
    let path = item.path();
    let kind = item.file_type();
    if kind.is_symlink() {
        let why = "links do not survive packing";
        if path.exists() {
            to.review(SubmissionCheck::Link, path, "it is a link", why, "put the file there");
        } else {
            let weight = FindingWeight::of_older_checker(layout);
            to.find(weight, SubmissionCheck::Link, path, "it is a link to nothing", why, "put the file there");
        }
    }
    if kind.is_dir() && std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()) {
        let why = "git keeps no empty folders; the official checker refuses them until v5.1";
        to.find(
            FindingWeight::of_older_checker(layout),
            SubmissionCheck::EmptyFolder,
            path,
            "it is empty",
            why,
            "take it out",
        );
    }
    if kind.is_file() {
        let size = item.metadata().map_or(0, |meta| meta.len());
        if size > LARGEST {
            let what = format!("it has {size} bytes, at most {LARGEST} (50 MiB) are taken");
            let why = "the repository of results refuses larger files";
            to.refuse(SubmissionCheck::FileSize, path, what, why, "leave it out; truncate logs");
        }
        let of_a_run = |part| ["performance", "accuracy"].iter().any(|name| part == std::ffi::OsStr::new(name));
        if item.file_name() == "audit.config" && path.iter().any(of_a_run) {
            let why = "LoadGen takes an audit.config in its working folder: the run may have been one of an audit";
            let fix = "take it out, and look whether the run was one of an audit";
            to.find(
                FindingWeight::of_older_checker(layout),
                SubmissionCheck::AuditConfig,
                path,
                "an audit.config is beside a result's logs",
                why,
                fix,
            );
        }
    }
}
