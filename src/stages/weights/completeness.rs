//! Whether a checkpoint is whole: every shard that its index names is there, no safetensors file is cut off, and each
//! file has the digest by which the hub knows it: SHA-256 for large-file storage, git's own for the rest. Which files
//! of an unfinished download have been checked is kept, so that the next attempt does not read them again.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use sha1::{Digest as _, Sha1};

use super::WeightsFile;
use base::diag::ErrorText;
use base::files::{Sha256Of, metadata_if_there, open_regular, read_text};

/// The index of a checkpoint in several files.
const SHARDS: &str = "model.safetensors.index.json";

/// Holds the shards against the index, where both are there. A choice of files without any weights is whole.
pub(super) fn check(folder: &Path, files: &[WeightsFile]) -> Result<(), ErrorText> {
    let there: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    if !there.contains(SHARDS) {
        return Ok(());
    }
    let named = shards(&folder.join(SHARDS)).map_err(unreadable_index)?;
    let missing: Vec<String> = named.iter().filter(|name| !there.contains(name.as_str())).cloned().collect();
    if missing.len() == named.len() { Ok(()) } else { none_missing(&missing) }
}

/// Like `check`, for a folder that was filled elsewhere: here all of them must be there.
pub(super) fn check_strictly(folder: &Path) -> Result<(), ErrorText> {
    let is_there = |path: &Path| metadata_if_there(path).map(|found| found.is_some_and(|found| found.is_file()));
    let index = folder.join(SHARDS);
    if !is_there(&index).map_err(unreadable_index)? {
        return Ok(());
    }
    let named = shards(&index).map_err(unreadable_index)?;
    let mut missing = Vec::new();
    for name in named {
        match is_there(&folder.join(&name)) {
            Ok(true) => {}
            Ok(false) => missing.push(name),
            Err(error) => return Err(not_safetensors(&name, error)),
        }
    }
    none_missing(&missing)
}

fn none_missing(missing: &[String]) -> Result<(), ErrorText> {
    if missing.is_empty() {
        return Ok(());
    }
    let (names, verb) = (missing.join(", "), if missing.len() == 1 { "is" } else { "are" });
    Err(ErrorText::new(format_args!("{SHARDS} names {names}, which {verb} not there")))
}

fn unreadable_index(error: impl fmt::Display) -> ErrorText {
    ErrorText::new(format_args!("{SHARDS} cannot be read: {error}"))
}

fn not_safetensors(name: &str, problem: impl fmt::Display) -> ErrorText {
    ErrorText::new(format_args!("{name} is not a safetensors file: {problem}"))
}

fn shards(index: &Path) -> io::Result<BTreeSet<String>> {
    let value: Value = serde_json::from_str(&read_text(index)?)?;
    let map = value.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| io::Error::other("no `weight_map`"))?;
    Ok(map.values().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// Whether a safetensors file has as many bytes as its header states. It reads the header only.
pub(super) fn is_cut_off(path: &Path) -> Result<(), ErrorText> {
    /// A header is some KB for each thousand tensors.
    const LARGEST: u64 = 256 << 20;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let unreadable = |error: io::Error| not_safetensors(&name, error);
    let (mut file, metadata) = open_regular(path).map_err(unreadable)?;
    let size = metadata.len();
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(|_| not_safetensors(&name, format_args!("it has {size} bytes")))?;
    let length = u64::from_le_bytes(length);
    if length > LARGEST || 8 + length > size {
        let problem = format!("its header claims {length} bytes, but the file has {size}");
        return Err(not_safetensors(&name, problem));
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header).map_err(unreadable)?;
    let header: Value =
        serde_json::from_slice(&header).map_err(|error| not_safetensors(&name, format_args!("its header: {error}")))?;
    let ends =
        header.as_object().into_iter().flatten().filter_map(|(_, tensor)| tensor.pointer("/data_offsets/1")?.as_u64());
    let expected = (8 + length).saturating_add(ends.max().unwrap_or(0));
    if expected == size {
        return Ok(());
    }
    let reason = "it is truncated, or data was appended";
    Err(ErrorText::new(format_args!("{name} has {size} bytes, and {expected} by its header: {reason}")))
}

/// In the output folder, until all is done.
pub(super) const FILE: &str = ".regatta-weights";

/// A file's size, time of change in ns, and inode.
type Stamp = (u64, i64, u64);

/// Name → what it was when it was checked.
#[derive(Debug)]
pub(super) struct CheckedFiles {
    place: PathBuf,
    known: HashMap<String, Stamp>,
    file: File,
}

impl CheckedFiles {
    pub(super) fn open(out: &Path) -> io::Result<Self> {
        let place = out.join(FILE);
        let text = read_text(&place).unwrap_or_default();
        // A line that was cut off is skipped.
        let stamps = text.lines().filter_map(|line| serde_json::from_str::<(String, Stamp)>(line).ok()).collect();
        let file = OpenOptions::new().create(true).append(true).open(&place)?;
        Ok(Self { place, known: stamps, file })
    }

    /// Whether this file has been checked, and is what it was.
    pub(super) fn is_unchanged(&self, name: &str, path: &Path) -> bool {
        self.known.get(name).is_some_and(|known| stamp(path).is_some_and(|now| now == *known))
    }

    pub(super) fn add(&mut self, name: &str, path: &Path) {
        if let Some(stamp) = stamp(path)
            && let Ok(line) = serde_json::to_string(&(name, stamp))
        {
            // Forgetting costs one more reading, nothing else.
            let _ = writeln!(self.file, "{line}");
            self.known.insert(name.to_owned(), stamp);
        }
    }

    /// All is done.
    pub(super) fn remove_record(self) {
        let _ = fs::remove_file(self.place);
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let now = fs::symlink_metadata(path).ok()?;
    Some((now.size(), now.mtime() * 1_000_000_000 + now.mtime_nsec(), now.ino()))
}

/// A file's digest, 64 or 40 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HubDigest {
    Sha256(String),
    /// SHA-1 of `blob <size>\0` and the bytes.
    GitBlob(String),
}

impl fmt::Display for HubDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sha256(hex) => write!(f, "sha256 {hex}"),
            Self::GitBlob(hex) => write!(f, "git blob {hex}"),
        }
    }
}

impl HubDigest {
    /// A digest of this kind in the making, for a file of this many bytes.
    pub(super) fn begin(&self, size: u64) -> FileHasher {
        match self {
            Self::Sha256(_) => FileHasher::Sha256(Sha256Of::default()),
            Self::GitBlob(_) => {
                let mut sum = Sha1::new();
                sum.update(format!("blob {size}\0").as_bytes());
                FileHasher::GitBlob(sum)
            }
        }
    }

    /// The digest of this kind of a file's bytes.
    pub(super) fn of_file(&self, path: &Path) -> io::Result<Self> {
        let mut sum = self.begin(path.metadata()?.len());
        sum.read(path, u64::MAX)?;
        Ok(sum.finish())
    }
}

pub(super) enum FileHasher {
    Sha256(Sha256Of),
    GitBlob(Sha1),
}

impl FileHasher {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(sum) => sum.update(bytes),
            Self::GitBlob(sum) => sum.update(bytes),
        }
    }

    /// Takes in a file's bytes up to a length.
    pub(super) fn read(&mut self, path: &Path, up_to: u64) -> io::Result<()> {
        let mut file = open_regular(path)?.0.take(up_to);
        let mut piece = vec![0; 1 << 20];
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(()),
                length => self.update(&piece[..length]),
            }
        }
    }

    pub(super) fn finish(self) -> HubDigest {
        match self {
            Self::Sha256(sum) => HubDigest::Sha256(sum.finish()),
            Self::GitBlob(sum) => HubDigest::GitBlob(format!("{:x}", sum.finalize())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn file(path: &str) -> WeightsFile {
        WeightsFile { path: path.to_owned(), size: 0, sum: HubDigest::GitBlob(String::new()) }
    }

    #[test]
    fn every_shard_of_the_index_must_be_there_once_one_is() {
        let folder = tempfile::tempdir().unwrap();
        let index = r#"{"weight_map": {"a": "1.safetensors", "b": "2.safetensors", "c": "1.safetensors"}}"#;
        fs::write(folder.path().join(SHARDS), index).unwrap();
        let check = |names: &[&str]| check(folder.path(), &names.iter().map(|name| file(name)).collect::<Vec<_>>());
        assert!(check(&[SHARDS, "1.safetensors", "2.safetensors"]).is_ok());
        // Only the tokenizer was wanted.
        assert!(check(&[SHARDS, "tokenizer.json"]).is_ok());
        let missing = format!("{SHARDS} names 2.safetensors, which is not there");
        assert_eq!(check(&[SHARDS, "1.safetensors"]).unwrap_err().to_string(), missing);
        assert!(check_strictly(folder.path()).is_err());
    }

    #[test]
    fn a_safetensors_file_says_how_long_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.safetensors");
        let header = br#"{"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#;
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header);
        bytes.extend([0; 4]);
        fs::write(&path, &bytes).unwrap();
        assert!(is_cut_off(&path).is_ok());
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(
            is_cut_off(&path).unwrap_err().to_string(),
            "m.safetensors has 64 bytes, and 65 by its header: it is truncated, or data was appended"
        );
        fs::write(&path, "x").unwrap();
        assert!(is_cut_off(&path).is_err());
        let header = br#"{"t":{"data_offsets":[0,18446744073709551615]}}"#;
        fs::write(&path, [&(header.len() as u64).to_le_bytes(), &header[..]].concat()).unwrap();
        let error = is_cut_off(&path).unwrap_err().to_string();
        assert!(error.contains(", and 18446744073709551615 by its header"), "{error}");
    }

    #[test]
    fn what_was_checked_is_known_until_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "one").unwrap();
        let mut memory = CheckedFiles::open(folder.path()).unwrap();
        assert!(!memory.is_unchanged("a", &path));
        memory.add("a", &path);
        drop(memory);
        let memory = CheckedFiles::open(folder.path()).unwrap();
        assert!(memory.is_unchanged("a", &path));
        fs::write(&path, "longer").unwrap();
        assert!(!memory.is_unchanged("a", &path));
        memory.remove_record();
        assert!(!folder.path().join(FILE).exists());
    }

    #[test]
    fn digests_are_those_of_sha256sum_and_of_git() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, "hello\n").unwrap();
        let digest = |kind: HubDigest| kind.of_file(&path).unwrap().to_string();
        assert_eq!(
            digest(HubDigest::Sha256(String::new())),
            "sha256 5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
        );
        // `git hash-object x`
        assert_eq!(digest(HubDigest::GitBlob(String::new())), "git blob ce013625030ba8dba906f756967f9e9ca394464a");
    }
}
