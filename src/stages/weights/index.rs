//! What a repository of a hub holds at one commit: names, sizes, digests. Pure.

use std::fmt;

use std::path::{Component, Path};

use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::LIST;
use super::completeness::{FILE, HubDigest};
use base::diag::ErrorText;
use base::event::Failure;
use base::units::{MOST_FILES_BYTES, first_beyond_limit};

/// Files of one repository. The public hub recommends fewer than this many; those of models have some hundred.
const MOST_FILES: usize = 100_000;

/// A repository at a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HubIndex {
    /// 40 hexadecimal digits.
    pub commit: String,
    /// By name.
    pub files: Vec<WeightsFile>,
}

/// One file of a checkpoint: as it should be, or as it was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WeightsFile {
    pub path: String,
    pub size: u64,
    #[serde(flatten)]
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
    pub(super) fn read(answer: HubAnswer) -> Result<Self, ErrorText> {
        let commit = answer.sha.ok_or_else(|| ErrorText::new("it names no commit (`sha`)"))?;
        let siblings = answer.siblings.ok_or_else(|| ErrorText::new("it lists no files (`siblings`)"))?;
        let mut files = siblings.into_iter().map(WeightsFile::read).collect::<Result<Vec<_>, _>>()?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        if let Some(WeightsFile { path, size, .. }) = first_beyond_limit(&files, |file| file.size) {
            return Err(ErrorText::new(format_args!(
                "with {path} ({size} bytes) its files exceed the limit of {MOST_FILES_BYTES} bytes"
            )));
        }
        Ok(Self { commit, files })
    }
}

impl WeightsFile {
    fn read(sibling: Sibling) -> Result<Self, ErrorText> {
        let Sibling { rfilename, size, blob_id, lfs } = sibling;
        let path = rfilename.ok_or_else(|| ErrorText::new("a file has no name (`rfilename`)"))?;
        let lacks = |what: &str| ErrorText::new(format_args!("{path} has no {what}, so it could not be checked"));
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
pub(super) fn differs(one: &WeightsFile, found: &HubDigest) -> Failure {
    let message = format!("{} does not match what the hub reports: {found}, expected {}", one.path, one.sum);
    Failure::files(message)
        .cause("it was damaged on the way, or on the disk")
        .hint("the damaged file was removed; run again to fetch only this file")
}

#[cfg(test)]
mod tests {
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
            "with a (18446744073709551615 bytes) its files exceed the limit of 1152921504606846976 bytes"
        );
        assert_eq!(read(serde_json::json!({"sha": null})).unwrap_err().message, "it names no commit (`sha`)");
        let no_files = read(serde_json::json!({"sha": "c", "siblings": null})).unwrap_err();
        assert_eq!(no_files.message, "it lists no files (`siblings`)");
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
