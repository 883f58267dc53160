//! What is in an output, as another machine can make use of it: no times, no inodes, no place.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::durable::{PathError, WithPath as _};
use super::file_stamp::EntryKind;
use super::folder_digest::any_bytes;
use super::{OutputCache, TaskRecord};
use base::files::{Digest, Hasher};
use base::units::{MOST_FILES_BYTES, first_beyond_limit};

/// One thing in an output folder. The folder itself is the first one, with an empty path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortableItem {
    /// Relative to the output folder.
    #[serde(with = "any_bytes")]
    pub path: PathBuf,
    pub kind: EntryKind,
    /// Bytes of a file, 0 for the rest.
    #[serde(default)]
    pub size: u64,
    /// Of a file's bytes or a link's target; absent for folders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Where a link leads; empty for the rest.
    #[serde(default, with = "any_bytes", skip_serializing_if = "is_empty")]
    pub target: PathBuf,
}

fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

impl PortableItem {
    pub fn is_file(&self) -> bool {
        matches!(self.kind, EntryKind::File | EntryKind::Program)
    }
}

impl OutputCache {
    /// What is in a record's folder, according to the record.
    pub fn items(&self, record: &TaskRecord) -> Result<Vec<PortableItem>, PathError> {
        let folder = self.folder(record);
        let item = |entry: &super::folder_digest::OutputEntry| {
            let target = match entry.stamp.kind {
                EntryKind::Link => {
                    let path = folder.join(&entry.path);
                    fs::read_link(&path).at("read", &path)?
                }
                _ => PathBuf::new(),
            };
            let size = if entry.stamp.is_file() { entry.stamp.size } else { 0 };
            Ok(PortableItem { path: entry.path.clone(), kind: entry.stamp.kind, size, digest: entry.digest, target })
        };
        record.entries(self.home())?.iter().map(item).collect()
    }
}

/// The digest that a folder with these things has: the same as [`super::HashedFolder`]'s.
pub fn digest_of(items: &[PortableItem]) -> Digest {
    let mut h = Hasher::new();
    for item in items {
        h.field(item.path.as_os_str().as_bytes()).field(&[item.kind as u8]);
        h.field(item.digest.as_ref().map_or(&[][..], |d| d.bytes()));
    }
    h.finish()
}

/// Why a list from elsewhere must not be laid out here: a path that leads out of the folder, a file below a link, and the like.
pub fn unfit(items: &[PortableItem]) -> Option<String> {
    let mut folders: HashSet<&Path> = HashSet::new();
    let mut seen: HashSet<&Path> = HashSet::new();
    for (at, item) in items.iter().enumerate() {
        let path = item.path.as_path();
        let name = path.display();
        if !seen.insert(path) {
            return Some(format!("{name} is there twice"));
        }
        let is_root = is_empty(path);
        if is_root != (at == 0) || !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Some(format!("`{name}` is no path in an output"));
        }
        if !is_root && !path.parent().is_some_and(|above| folders.contains(above)) {
            return Some(format!("{name} is in no folder of the output"));
        }
        let digest_is_right = match item.kind {
            EntryKind::Folder => {
                folders.insert(path);
                item.digest.is_none()
            }
            EntryKind::File | EntryKind::Program => item.digest.is_some(),
            EntryKind::Link => item.digest == Some(Digest::of(item.target.as_os_str().as_bytes())),
            EntryKind::Other => false,
        };
        if !digest_is_right || is_root && item.kind != EntryKind::Folder {
            return Some(format!("the entries of `{name}` contradict each other"));
        }
    }
    if let Some(PortableItem { path, size, .. }) = first_beyond_limit(items, |item| item.size) {
        return Some(format!(
            "with {} ({size} bytes) it has more than {MOST_FILES_BYTES} bytes, the limit",
            path.display()
        ));
    }
    if items.is_empty() { Some("it is empty".to_owned()) } else { link_escape(items) }
}

/// As text, the first link that leads out of the output that it is in: on another machine it would lead elsewhere, or nowhere.
pub fn link_escape(items: &[PortableItem]) -> Option<String> {
    let links = || items.iter().filter(|item| item.kind == EntryKind::Link);
    let by_path = links().map(|item| (item.path.as_path(), item.target.as_path())).collect();
    let item = links().find(|item| leads_out(&item.path, &item.target, &by_path))?;
    Some(format!("{} is a link out of it, to {}", item.path.display(), item.target.display()))
}

/// Parts that one target is followed through, those of links in it included. Real ones have some dozens; links may lead to each other
/// for ever.
const MOST_PARTS: usize = 1000;

/// Whether a link leads out of the folder that it is in. `links`: all of the folder's, by path; a part of a target may be one itself, and
/// `..` behind it is above where it leads. One that cannot be followed to its end leads out.
pub fn leads_out(path: &Path, target: &Path, links: &BTreeMap<&Path, &Path>) -> bool {
    let mut at = path.parent().unwrap_or(path).to_owned();
    // Parts that are still to go, the next one last.
    let mut left: Vec<Component<'_>> = target.components().rev().collect();
    let mut parts = 0;
    while let Some(part) = left.pop() {
        parts += 1;
        match part {
            _ if parts > MOST_PARTS => return true,
            Component::RootDir | Component::Prefix(_) => return true,
            Component::CurDir => {}
            Component::ParentDir => {
                if !at.pop() {
                    return true;
                }
            }
            Component::Normal(name) => {
                at.push(name);
                // Where the last part leads is its own affair: it is in the list, too.
                if !left.is_empty()
                    && let Some(target) = links.get(at.as_path())
                {
                    at.pop();
                    left.extend(target.components().rev());
                }
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(path: &str, kind: EntryKind) -> PortableItem {
        let digest = matches!(kind, EntryKind::File | EntryKind::Program).then(|| Digest::of(path.as_bytes()));
        PortableItem { path: path.into(), kind, size: 0, digest, target: PathBuf::new() }
    }

    fn link(path: &str, target: &str) -> PortableItem {
        let digest = Some(Digest::of(target.as_bytes()));
        PortableItem { target: target.into(), digest, ..item(path, EntryKind::Link) }
    }

    #[test]
    fn nothing_is_laid_out_that_leads_out_of_the_folder() {
        let with = |more: &[PortableItem]| {
            let mut items =
                vec![item("", EntryKind::Folder), item("a", EntryKind::Folder), item("a/b", EntryKind::File)];
            items.extend(more.iter().cloned());
            unfit(&items)
        };
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[link("a/up", "../a/b"), link("here", "a")]), None);
        let assert_refused = |more: &[PortableItem], text: &str| {
            let why = with(more).unwrap_or_default();
            assert!(why.contains(text), "{more:?}: {why:?}");
        };
        assert_refused(&[item("../x", EntryKind::File)], "no path in an output");
        assert_refused(&[item("/etc/passwd", EntryKind::File)], "no path in an output");
        assert_refused(&[item("a", EntryKind::Folder)], "twice");
        assert_refused(&[item("c/d", EntryKind::File)], "in no folder");
        assert_refused(&[link("l", "a"), item("l/x", EntryKind::File)], "in no folder");
        assert_refused(&[link("l", "/etc")], "link out of it");
        assert_refused(&[link("a/l", "../../x")], "link out of it");
        assert_refused(&[link("l", "a/../../x")], "link out of it");
        // A part of a target may be a link itself: `..` behind it is above where it leads.
        let deep = [item("a/c", EntryKind::Folder), item("a/c/d", EntryKind::Folder), link("a/c/d/up", "../../..")];
        let and = |last: PortableItem| deep.iter().cloned().chain([last]).collect::<Vec<_>>();
        assert_eq!(with(&and(link("q", "a/c/d/up/a/b"))), None);
        assert_refused(&and(link("q", "a/c/d/up/..")), "q is a link out of it, to a/c/d/up/..");
        assert_refused(&and(link("a/q", "./c/d/up/a/../../x")), "link out of it");
        assert_refused(&[link("one", "a/../two/x"), link("two", "one/x")], "link out of it");
        assert_eq!(with(&[link("self", "self")]), None, "it leads nowhere");
        assert_refused(&[PortableItem { digest: None, ..item("x", EntryKind::File) }], "contradict");
        let large = |path: &str| PortableItem { size: MOST_FILES_BYTES, ..item(path, EntryKind::File) };
        assert_eq!(with(&[large("x")]), None);
        assert_refused(&[large("x"), large("y")], "with y (1152921504606846976 bytes) it has more than");
        assert_refused(&[PortableItem { digest: Some(Digest::of(b"other")), ..link("l", "a") }], "contradict");
        assert!(unfit(&[]).is_some());
        assert!(unfit(&[item("", EntryKind::File)]).is_some());
    }
}
