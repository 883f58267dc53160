//! What a repository of a hub holds at one commit: names, sizes, digests. Pure.
//!
//! Which files of an unfinished download have been checked, so that the next attempt does not read them again.
//!
//! Whether a checkpoint is whole: every shard that its index names is there, and no safetensors file is cut off.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::Value;

use super::hub::HubDigest;
use super::{Checked, LIST};
use base::event::Failure;
use base::files::{metadata_if_there, read_text};
use base::units::{MOST_FILES_BYTES, first_beyond_limit};

/// Files of one repository. The public hub recommends fewer than this many; those of models have some hundred.
const MOST_FILES: usize = 100_000;

/// What is missing from the hub's answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HubAnswerError {
    #[error("it names no commit (`sha`)")]
    NoCommit,
    #[error("it lists no files (`siblings`)")]
    NoFiles,
    #[error("a file has no name (`rfilename`)")]
    NoName,
    #[error("{path} has no {what}, so it could not be checked")]
    Lacks { path: String, what: &'static str },
    #[error("with {path} ({size} bytes) its files have more than {MOST_FILES_BYTES} bytes, the limit")]
    TooLarge { path: String, size: u64 },
}

/// A repository at a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HubIndex {
    /// 40 hexadecimal digits.
    pub commit: String,
    /// By name.
    pub files: Vec<ExpectedFile>,
}

/// One file as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExpectedFile {
    pub path: String,
    pub size: u64,
    pub sum: HubDigest,
}

/// The answer of `GET /api/models/NAME/revision/REV?blobs=true`, as far as it is read: what else it holds takes no
/// memory.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct HubAnswer {
    sha: Option<String>,
    #[serde(deserialize_with = "siblings")]
    siblings: Option<Vec<Sibling>>,
}

/// A file in it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Sibling {
    rfilename: Option<String>,
    size: Option<u64>,
    blob_id: Option<String>,
    lfs: Option<LargeFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LargeFile {
    size: Option<u64>,
    sha256: Option<String>,
    oid: Option<String>,
}

/// Not more than a repository has: an empty one of three bytes would take a hundred.
fn siblings<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Sibling>>, D::Error> {
    struct Files;
    impl<'de> Visitor<'de> for Files {
        type Value = Option<Vec<Sibling>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of files")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            let mut files = Vec::new();
            while let Some(file) = items.next_element()? {
                files.push(file);
                if files.len() > MOST_FILES {
                    return Err(A::Error::custom(format_args!("it lists more than {MOST_FILES} files")));
                }
            }
            Ok(Some(files))
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
    }
    from.deserialize_any(Files)
}

impl HubIndex {
    /// What the answer lists.
    pub(super) fn read(answer: HubAnswer) -> Result<Self, HubAnswerError> {
        let commit = answer.sha.ok_or(HubAnswerError::NoCommit)?;
        let siblings = answer.siblings.ok_or(HubAnswerError::NoFiles)?;
        let mut files = siblings.into_iter().map(ExpectedFile::read).collect::<Result<Vec<_>, _>>()?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        if let Some(ExpectedFile { path, size, .. }) = first_beyond_limit(&files, |file| file.size) {
            return Err(HubAnswerError::TooLarge { path: path.clone(), size: *size });
        }
        Ok(Self { commit, files })
    }
}

impl ExpectedFile {
    fn read(sibling: Sibling) -> Result<Self, HubAnswerError> {
        let Sibling { rfilename, size, blob_id, lfs } = sibling;
        let path = rfilename.ok_or(HubAnswerError::NoName)?;
        let lacks = |what| HubAnswerError::Lacks { path: path.clone(), what };
        let size = lfs.as_ref().and_then(|lfs| lfs.size).or(size).ok_or_else(|| lacks("size"));
        let sum = match lfs {
            Some(LargeFile { sha256, oid, .. }) => {
                let hex = sha256.or(oid).ok_or_else(|| lacks("SHA-256"))?;
                HubDigest::Sha256(hex.trim_start_matches("sha256:").to_owned())
            }
            None => HubDigest::GitBlob(blob_id.ok_or_else(|| lacks("git digest (`blobId`)"))?),
        };
        let size = size?;
        Ok(Self { path, size, sum })
    }
}

/// A name that a hub gives must not lead out of the output folder, and not into what is ours there.
pub(super) fn stays_inside(path: &str) -> Result<(), Failure> {
    let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    if plain && !path.is_empty() && path != LIST && !path.starts_with(FILE) {
        return Ok(());
    }
    Err(Failure::refused(format!("the hub names a file `{path}`, which cannot be in the output folder")))
}

/// A file with other bytes than the index lists. It has been removed, so that the next attempt fetches it.
pub(super) fn differs(one: &ExpectedFile, found: &HubDigest) -> Failure {
    let message = format!("{} does not match what the hub reports: {found}, expected {}", one.path, one.sum);
    Failure::files(message)
        .cause("it was damaged on the way, or on the disk")
        .hint("the file was taken away; run it again, and only this file is fetched")
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

/// The index of a checkpoint in several files.
const SHARDS: &str = "model.safetensors.index.json";

/// Why a checkpoint is not whole, or not known to be.
#[derive(Debug, thiserror::Error)]
pub(super) enum IncompleteCheckpoint {
    #[error("{SHARDS} cannot be read: {0}")]
    ReadIndex(#[source] io::Error),
    #[error("{SHARDS} cannot be read: {0}")]
    Index(#[source] serde_json::Error),
    #[error("{SHARDS} cannot be read: no `weight_map`")]
    NoWeightMap,
    #[error("{SHARDS} names {}, which {} not there", .0.join(", "), if .0.len() == 1 { "is" } else { "are" })]
    NoShards(Vec<String>),
    #[error("{name} is no safetensors file: {source}")]
    Read { name: String, source: io::Error },
    #[error("{name} is no safetensors file: it has {size} bytes")]
    NoHeader { name: String, size: u64 },
    #[error("{name} is no safetensors file: its header would have {length} bytes, and it has {size}")]
    LongHeader { name: String, length: u64, size: u64 },
    #[error("{name} is no safetensors file: its header: {source}")]
    Header { name: String, source: serde_json::Error },
    #[error("{name} has {size} bytes, and {expected} by its header: it is truncated, or data was appended")]
    Size { name: String, size: u64, expected: u64 },
}

/// Holds the shards against the index, where both are there. A choice of files without any weights is whole.
pub(super) fn check(folder: &Path, files: &[Checked]) -> Result<(), IncompleteCheckpoint> {
    let there: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    if !there.contains(SHARDS) {
        return Ok(());
    }
    let named = shards(&folder.join(SHARDS))?;
    let missing: Vec<&str> = named.iter().map(String::as_str).filter(|name| !there.contains(name)).collect();
    if missing.is_empty() || missing.len() == named.len() {
        return Ok(());
    }
    Err(lacking(&missing))
}

/// Like `check`, for a folder that was filled elsewhere: here all of them must be there.
pub(super) fn check_strictly(folder: &Path) -> Result<(), IncompleteCheckpoint> {
    let is_there = |path: &Path| metadata_if_there(path).map(|found| found.is_some_and(|found| found.is_file()));
    let index = folder.join(SHARDS);
    if !is_there(&index).map_err(IncompleteCheckpoint::ReadIndex)? {
        return Ok(());
    }
    let named = shards(&index)?;
    let mut missing: Vec<&str> = Vec::new();
    for name in &named {
        if !is_there(&folder.join(name)).map_err(|source| IncompleteCheckpoint::Read { name: name.clone(), source })? {
            missing.push(name);
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(lacking(&missing)) }
}

fn lacking(missing: &[&str]) -> IncompleteCheckpoint {
    IncompleteCheckpoint::NoShards(missing.iter().map(|name| (*name).to_owned()).collect())
}

fn shards(index: &Path) -> Result<BTreeSet<String>, IncompleteCheckpoint> {
    let text = read_text(index).map_err(IncompleteCheckpoint::ReadIndex)?;
    let value: Value = serde_json::from_str(&text).map_err(IncompleteCheckpoint::Index)?;
    let map = value.get("weight_map").and_then(Value::as_object).ok_or(IncompleteCheckpoint::NoWeightMap)?;
    Ok(map.values().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// Whether a safetensors file has as many bytes as its header states. It reads the header only.
pub(super) fn is_cut_off(path: &Path) -> Result<(), IncompleteCheckpoint> {
    /// A header is some KB for each thousand tensors.
    const LARGEST: u64 = 256 << 20;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let unreadable = |source| IncompleteCheckpoint::Read { name: name.clone(), source };
    let mut file = File::open(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(|_| IncompleteCheckpoint::NoHeader { name: name.clone(), size })?;
    let length = u64::from_le_bytes(length);
    if length > LARGEST || 8 + length > size {
        return Err(IncompleteCheckpoint::LongHeader { name, length, size });
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header).map_err(unreadable)?;
    let header: Value = serde_json::from_slice(&header)
        .map_err(|source| IncompleteCheckpoint::Header { name: name.clone(), source })?;
    let ends =
        header.as_object().into_iter().flatten().filter_map(|(_, tensor)| tensor.pointer("/data_offsets/1")?.as_u64());
    let expected = (8 + length).saturating_add(ends.max().unwrap_or(0));
    if expected == size {
        return Ok(());
    }
    Err(IncompleteCheckpoint::Size { name, size, expected })
}

#[cfg(test)]
mod index_tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn large_files_have_their_sha256_and_small_ones_gits_digest() {
        let answer = serde_json::json!({"sha": "c0ffee", "siblings": [
            {
                "rfilename": "model.safetensors", "size": 134, "blobId": "b1",
                "lfs": {"sha256": "ab", "size": 9000, "pointerSize": 134},
            },
            {"rfilename": "config.json", "size": 940, "blobId": "b2"},
        ]});
        let index = HubIndex::read(serde_json::from_value(answer).unwrap()).unwrap();
        let lines: Vec<String> =
            index.files.iter().map(|file| format!("{} {} {}", file.path, file.size, file.sum)).collect();
        assert_eq!(lines, ["config.json 940 git blob b2", "model.safetensors 9000 sha256 ab"]);
    }

    #[test]
    fn what_could_not_be_checked_is_refused() {
        let read = |answer: Value| HubIndex::read(serde_json::from_value(answer).unwrap());
        let error = |file: Value| read(serde_json::json!({"sha": "c", "siblings": [file]})).unwrap_err().to_string();
        assert_eq!(
            error(serde_json::json!({"rfilename": "a", "size": 1})),
            "a has no git digest (`blobId`), so it could not be checked"
        );
        assert_eq!(
            error(serde_json::json!({"rfilename": "a", "blobId": "x"})),
            "a has no size, so it could not be checked"
        );
        assert_eq!(
            error(serde_json::json!({"rfilename": "a", "lfs": {"size": 1}})),
            "a has no SHA-256, so it could not be checked"
        );
        assert_eq!(
            error(serde_json::json!({"rfilename": "a", "size": u64::MAX, "blobId": "x"})),
            "with a (18446744073709551615 bytes) its files have more than 1152921504606846976 bytes, the limit"
        );
        assert_eq!(read(serde_json::json!({"sha": null})).unwrap_err(), HubAnswerError::NoCommit);
        assert_eq!(read(serde_json::json!({"sha": "c", "siblings": null})).unwrap_err(), HubAnswerError::NoFiles);
    }

    #[test]
    fn an_answer_takes_no_more_memory_than_its_files() {
        let many = "{},".repeat(MOST_FILES);
        let refused = serde_json::from_str::<HubAnswer>(&format!("{{\"siblings\": [{many}{{}}]}}")).unwrap_err();
        assert!(refused.to_string().starts_with("it lists more than 100000 files"), "{refused}");
        let zeros = "0,".repeat(MOST_FILES);
        let answer = format!("{{\"sha\": \"c\", \"other\": [{zeros}0], \"siblings\": []}}");
        let index = HubIndex::read(serde_json::from_str(&answer).unwrap()).unwrap();
        assert_eq!(index, HubIndex { commit: "c".to_owned(), files: Vec::new() });
        // A list in place of the object is whatever is in it.
        assert!(serde_json::from_str::<HubAnswer>(&format!("[{zeros}0]")).is_err());
    }

    #[test]
    fn a_hub_cannot_write_elsewhere() {
        for bad in ["../x", "/etc/passwd", "a/../../x", "", "weights.json", ".regatta-weights.jsonl"] {
            assert!(stays_inside(bad).is_err(), "{bad}");
        }
        for good in ["config.json", "original/params.json", ".gitattributes"] {
            assert!(stays_inside(good).is_ok(), "{good}");
        }
    }
}

#[cfg(test)]
mod checked_files_tests {
    use super::*;

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
}

#[cfg(test)]
mod completeness_tests {
    use std::fs;

    use super::*;
    use crate::weights::hub::HubDigest;

    fn file(path: &str) -> Checked {
        Checked { path: path.to_owned(), size: 0, sum: HubDigest::GitBlob(String::new()) }
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
}
