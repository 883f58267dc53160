//! Looks into bytes on their way out for what must not leave, or would be of no use elsewhere.

use std::path::Path;

use memchr::memmem::Finder;

/// Shorter ones would be found by chance.
const LEAST: usize = 6;

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

impl ScanPatterns {
    /// `places`: folders with a path that ties a file to this machine.
    pub(super) fn new(places: &[&Path], secrets: &[String]) -> Self {
        use std::os::unix::ffi::OsStrExt as _;
        let places = places.iter().map(|path| (path.as_os_str().as_bytes().to_vec(), ScanResult::Place));
        let secrets = secrets.iter().map(|secret| (secret.as_bytes().to_vec(), ScanResult::Secret));
        Self { list: places.chain(secrets).filter(|(needle, _)| needle.len() >= LEAST).collect() }
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
        let found = find(bytes).or_else(|| find(&self.tail));
        if bytes.len() >= self.overlap {
            self.tail.clear();
            self.tail.extend_from_slice(&bytes[bytes.len() - self.overlap..]);
        } else {
            let surplus = self.tail.len().saturating_sub(self.overlap);
            self.tail.drain(..surplus);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_needle_is_found_wherever_a_piece_ends() {
        let needles = ScanPatterns::new(&[Path::new("/srv/project")], &["s3cr3t-token".to_owned(), "ab".to_owned()]);
        let text = b"prefix /srv/projec /srv/project/out ab";
        for size in 1..text.len() {
            let mut scanner = needles.scanner();
            let found: Vec<ScanResult> = text.chunks(size).filter_map(|piece| scanner.feed(piece)).collect();
            assert_eq!(found.first(), Some(&ScanResult::Place), "pieces of {size}");
        }
        let mut scanner = needles.scanner();
        assert_eq!(scanner.feed(b"token=s3cr3t-"), None);
        assert_eq!(scanner.feed(b"token\n"), Some(ScanResult::Secret));
        assert_eq!(needles.scanner().feed(b"ab /srv/projec"), None);
    }
}
