//! Looks into bytes on their way out for what must not leave, or would be of no use elsewhere.

use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use memchr::memmem::Finder;

/// Shorter ones would be found by chance.
const LEAST: usize = 6;
/// Of a folder: any file has texts like `/` and `/a/`.
const SHORTEST_PLACE: usize = 3;
/// Elsewhere `/src/` is a part of another path.
const BEFORE_A_PATH: &[u8] = b"\"'=:,( \t\n\0";

/// What is looked for.
#[derive(Clone, Debug, Default)]
pub(super) struct ScanPatterns {
    list: Vec<(Vec<u8>, ScanResult)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanResult {
    /// The path of this project: on another machine it leads nowhere.
    Place,
    Secret,
}

impl ScanResult {
    pub(super) const fn why(self) -> &'static str {
        match self {
            Self::Place => "holds the path of this project's folder, which leads nowhere on another machine",
            Self::Secret => "holds the value of one of the stage's secrets",
        }
    }
}

/// What names folders with a path that ties a file to this machine. Programs may write a path without the links in it,
/// as `pwd -P` does. A short one is found by chance, too, unless it begins there and a slash follows.
pub(super) fn place_patterns(folders: &[&Path]) -> Vec<Vec<u8>> {
    let spellings = folders.iter().flat_map(|path| [Some(path.to_path_buf()), fs::canonicalize(path).ok()]).flatten();
    let mut patterns: Vec<Vec<u8>> = Vec::new();
    for place in spellings.map(|path| path.into_os_string().into_vec()) {
        if place.len() >= LEAST {
            patterns.push(place);
        } else if place.len() >= SHORTEST_PLACE {
            patterns.extend(BEFORE_A_PATH.iter().map(|before| [&[*before], &place[..], b"/"].concat()));
        }
    }
    patterns.sort_unstable();
    patterns.dedup();
    patterns
}

impl ScanPatterns {
    /// `places`: of [`place_patterns`].
    pub(super) fn new(places: &[Vec<u8>], secrets: &[String]) -> Self {
        let places = places.iter().map(|place| (place.clone(), ScanResult::Place));
        let secrets = secrets.iter().map(|secret| (secret.as_bytes().to_vec(), ScanResult::Secret));
        Self { list: places.chain(secrets.filter(|(secret, _)| secret.len() >= LEAST)).collect() }
    }

    pub(super) fn scanner(&self) -> Scanner<'_> {
        let finders = self.list.iter().map(|(needle, found)| (Finder::new(needle), *found)).collect();
        let overlap = self.list.iter().map(|(needle, _)| needle.len() - 1).max().unwrap_or(0);
        Scanner { finders, overlap, tail: Vec::new() }
    }
}

/// One file, piece by piece.
pub(super) struct Scanner<'n> {
    finders: Vec<(Finder<'n>, ScanResult)>,
    overlap: usize,
    tail: Vec<u8>,
}

impl Scanner<'_> {
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Option<ScanResult> {
        let find = |text: &[u8]| self.finders.iter().find(|(finder, _)| finder.find(text).is_some()).map(|(_, f)| *f);
        let start = &bytes[..bytes.len().min(self.overlap)];
        self.tail.extend_from_slice(start);
        let position = find(bytes).or_else(|| find(&self.tail));
        if bytes.len() >= self.overlap {
            self.tail.clear();
            self.tail.extend_from_slice(&bytes[bytes.len() - self.overlap..]);
        } else {
            let surplus = self.tail.len().saturating_sub(self.overlap);
            self.tail.drain(..surplus);
        }
        position
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_found_where_it_has_a_short_path_or_was_named_by_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let needles = ScanPatterns::new(&place_patterns(&[&link, Path::new("/srv"), Path::new("/")]), &[]);
        for text in [format!("{}/x", real.display()), format!("{}/x", link.display()), "model=/srv/data.bin".to_owned()]
        {
            assert_eq!(needles.scanner().feed(text.as_bytes()), Some(ScanResult::Place), "{text}");
        }
        assert_eq!(needles.scanner().feed(b"/ /srv2 a/b opt/srv/x https://host/srv/"), None);
    }

    #[test]
    fn a_needle_is_found_wherever_a_piece_ends() {
        let needles = ScanPatterns::new(
            &place_patterns(&[Path::new("/srv/project")]),
            &["s3cr3t-token".to_owned(), "ab".to_owned()],
        );
        let text = b"prefix /srv/projec /srv/project/out ab";
        for size in 1..text.len() {
            let mut scanner = needles.scanner();
            let results: Vec<ScanResult> = text.chunks(size).filter_map(|piece| scanner.feed(piece)).collect();
            assert_eq!(results.first(), Some(&ScanResult::Place), "pieces of {size}");
        }
        let mut scanner = needles.scanner();
        assert_eq!(scanner.feed(b"token=s3cr3t-"), None);
        assert_eq!(scanner.feed(b"token\n"), Some(ScanResult::Secret));
        assert_eq!(needles.scanner().feed(b"ab /srv/projec"), None);
    }
}
