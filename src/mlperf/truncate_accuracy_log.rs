//! Accuracy logs as a submission has them: their ends only, with the hash of the whole.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::Path;

use base::files::{open_regular, sha256_of_file};

/// The official checker treats a log of more bytes as not truncated.
pub const LONGEST: u64 = 10 * 1024;
/// This many bytes stay at either end.
const VIEWABLE: u64 = 4096;
/// Stands where the middle was.
const CUT: &[u8] = b"\n\n...\n\n";
/// The same in a log whose line ends Windows rewrote, as in some published results.
const CUT_ON_WINDOWS: &[u8] = b"\r\n\r\n...\r\n\r\n";

/// Where the middle of a log was taken out.
pub fn cut(log: &[u8]) -> Option<Range<usize>> {
    [CUT, CUT_ON_WINDOWS].into_iter().find_map(|cut| {
        let start = log.windows(cut.len()).position(|part| part == cut)?;
        Some(start..start + cut.len())
    })
}

/// Copies a log, without its middle if it is long; gives the SHA-256 of the whole.
pub fn truncated(from: &Path, to: &Path) -> io::Result<String> {
    let hash = sha256_of_file(from)?;
    let (mut source, metadata) = open_regular(from)?;
    let size = metadata.len();
    let mut target = File::create(to)?;
    if size < VIEWABLE {
        io::copy(&mut source, &mut target)?;
        return Ok(hash);
    }
    io::copy(&mut (&mut source).take(VIEWABLE), &mut target)?;
    target.write_all(CUT)?;
    source.seek(SeekFrom::Start(size - VIEWABLE))?;
    io::copy(&mut source, &mut target)?;
    Ok(hash)
}

/// Whether a log is without its middle. One that is longer than such logs are is a whole one, and is not read further.
pub fn is_truncated(log: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    open_regular(log)?.0.take(LONGEST + 1).read_to_end(&mut start)?;
    Ok(start.len() as u64 <= LONGEST && cut(&start).is_some())
}

/// All hashes that an `accuracy.txt` names: lines of `hash=` and letters or digits, as the official checker reads them.
/// A line with a trailing space does not count.
pub fn hashes(text: &str) -> Vec<&str> {
    text.split(['\n', '\r'])
        .filter_map(|line| line.strip_prefix("hash="))
        .filter(|hash| !hash.is_empty() && hash.chars().all(|c| c.is_alphanumeric() || c == '_'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_long_log_stay_and_its_hash_is_of_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("b"));
        let whole = "a line\n".repeat(5000);
        std::fs::write(&from, &whole).unwrap();
        let hash = truncated(&from, &to).unwrap();
        let cut = std::fs::read_to_string(&to).unwrap();
        assert_eq!(cut, format!("{}\n\n...\n\n{}", &whole[..4096], &whole[whole.len() - 4096..]));
        assert_eq!(hash, sha256_of_file(&from).unwrap());
        assert!(is_truncated(&to).unwrap() && !is_truncated(&from).unwrap());
        std::fs::write(&from, [cut.as_bytes(), &[b' '; LONGEST as usize]].concat()).unwrap();
        assert!(!is_truncated(&from).unwrap(), "longer than a truncated one");

        std::fs::write(&from, "[]\n").unwrap();
        assert_eq!(truncated(&from, &to).unwrap(), sha256_of_file(&to).unwrap());
        assert_eq!(std::fs::read_to_string(&to).unwrap(), "[]\n");
    }

    #[test]
    fn a_hash_is_a_line_of_its_own() {
        assert_eq!(hashes("Results\n\n{'rouge1': 44.4}\n\nhash=8f6a\n"), ["8f6a"]);
        assert_eq!(hashes("{'rouge1': 44.4}\r\nhash=8f6a\r\n"), ["8f6a"]);
        assert!(hashes("the hash=8f6a\nhash=\n hash=1\nhash=8f6a \n").is_empty());
    }
}
