//! What a repository of a hub holds at one commit: names, sizes, digests. Pure.

use std::path::{Component, Path};

use serde_json::Value;

use super::failures::refused;
use super::hub_digest::HubDigest;
use super::list::LIST;
use crate::event::{Failure, FailureKind};

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

impl HubIndex {
    /// Reads the answer of `GET /api/models/NAME/revision/REV?blobs=true`.
    pub(super) fn read(answer: &Value) -> Result<Self, HubAnswerError> {
        let commit = answer.get("sha").and_then(Value::as_str).ok_or(HubAnswerError::NoCommit)?;
        let siblings = answer.get("siblings").and_then(Value::as_array).ok_or(HubAnswerError::NoFiles)?;
        let mut files = siblings.iter().map(ExpectedFile::read).collect::<Result<Vec<_>, _>>()?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { commit: commit.to_owned(), files })
    }
}

impl ExpectedFile {
    fn read(sibling: &Value) -> Result<Self, HubAnswerError> {
        let path = sibling.get("rfilename").and_then(Value::as_str).ok_or(HubAnswerError::NoName)?;
        let lacks = |what| HubAnswerError::Lacks { path: path.to_owned(), what };
        let large = sibling.get("lfs").filter(|lfs| lfs.is_object());
        let size = large.and_then(|lfs| lfs.get("size")).or_else(|| sibling.get("size")).and_then(Value::as_u64);
        let sum = if let Some(lfs) = large {
            let hex = lfs.get("sha256").or_else(|| lfs.get("oid")).and_then(Value::as_str);
            HubDigest::Sha256(hex.ok_or_else(|| lacks("SHA-256"))?.trim_start_matches("sha256:").to_owned())
        } else {
            let hex = sibling.get("blobId").and_then(Value::as_str);
            HubDigest::GitBlob(hex.ok_or_else(|| lacks("git digest (`blobId`)"))?.to_owned())
        };
        Ok(Self { path: path.to_owned(), size: size.ok_or_else(|| lacks("size"))?, sum })
    }
}

/// A name that a hub gives must not lead out of the output folder, and not into what is ours there.
pub(super) fn stays_inside(path: &str) -> Result<(), Failure> {
    let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    if plain && !path.is_empty() && path != LIST && !path.starts_with(super::checked_files::FILE) {
        return Ok(());
    }
    Err(refused(format!("the hub names a file `{path}`, which cannot be in the output folder")))
}

/// A file with other bytes than the index lists. It has been removed, so that the next try fetches it.
pub(super) fn differs(one: &ExpectedFile, found: &HubDigest) -> Failure {
    let what = format!("{} does not match what the hub reports: {found}, expected {}", one.path, one.sum);
    Failure::new(FailureKind::Files, what)
        .cause("it was damaged on the way, or on the disk")
        .hint("the file was taken away; run it again, and only this file is fetched")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_files_have_their_sha256_and_small_ones_gits_digest() {
        let answer = serde_json::json!({"sha": "c0ffee", "siblings": [
            {"rfilename": "model.safetensors", "size": 134, "blobId": "b1", "lfs": {"sha256": "ab", "size": 9000, "pointerSize": 134}},
            {"rfilename": "config.json", "size": 940, "blobId": "b2"},
        ]});
        let index = HubIndex::read(&answer).unwrap();
        let lines: Vec<String> =
            index.files.iter().map(|file| format!("{} {} {}", file.path, file.size, file.sum)).collect();
        assert_eq!(lines, ["config.json 940 git blob b2", "model.safetensors 9000 sha256 ab"]);
    }

    #[test]
    fn what_could_not_be_checked_is_refused() {
        let of =
            |file: Value| HubIndex::read(&serde_json::json!({"sha": "c", "siblings": [file]})).unwrap_err().to_string();
        assert_eq!(
            of(serde_json::json!({"rfilename": "a", "size": 1})),
            "a has no git digest (`blobId`), so it could not be checked"
        );
        assert_eq!(
            of(serde_json::json!({"rfilename": "a", "blobId": "x"})),
            "a has no size, so it could not be checked"
        );
        assert_eq!(
            of(serde_json::json!({"rfilename": "a", "lfs": {"size": 1}})),
            "a has no SHA-256, so it could not be checked"
        );
        assert!(HubIndex::read(&serde_json::json!({})).is_err());
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
