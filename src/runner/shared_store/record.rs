//! The record of one output in a store.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::event::{Digest, Done, TaskId};
use crate::runner::store::{ParcelItem, TaskKey, digest_of, unfit};

/// Goes up when a reader of the version before would misunderstand it.
const VERSION: u32 = 1;

/// Why a record must not be used. Reads after its name.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordError {
    #[error("is no text")]
    NotText,
    #[error("has no seal")]
    NoSeal,
    #[error("does not match its seal")]
    Seal,
    #[error("cannot be read: {0}")]
    Json(#[source] serde_json::Error),
    #[error("was written by a newer Regatta")]
    Newer,
    /// Its digests are not those of what it lists.
    #[error("does not agree with itself")]
    Contradiction,
    #[error("lists an output that cannot be: {0}")]
    Unfit(String),
}

/// An output: what it was made from, what is in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SharedOutput {
    pub version: u32,
    /// What it was called where it was made. Not what it is found by.
    pub task: TaskId,
    pub key: Digest,
    pub fields: TaskKey,
    /// What kind of machine it is good for.
    pub machine: BTreeMap<String, String>,
    /// Of the whole output.
    pub digest: Digest,
    pub done: Done,
    /// How long making it took, s.
    pub seconds: f64,
    /// RFC 3339, UTC.
    pub at: String,
    pub program: String,
    pub items: Vec<ParcelItem>,
}

impl SharedOutput {
    pub(super) fn bytes(&self) -> u64 {
        self.items.iter().map(|item| item.size).sum()
    }

    /// JSON on one line, and the digest of that line below it.
    pub(super) fn seal(&self) -> Result<Bytes, serde_json::Error> {
        let json = serde_json::to_string(self)?;
        Ok(format!("{json}\n{}\n", Digest::of(json.as_bytes())).into())
    }

    /// Reads it back; `Err`: why it must not be used.
    pub(super) fn open(bytes: &[u8]) -> Result<Self, RecordError> {
        let text = std::str::from_utf8(bytes).map_err(|_| RecordError::NotText)?;
        let (json, seal) = text.trim_end().rsplit_once('\n').ok_or(RecordError::NoSeal)?;
        if seal.parse().ok() != Some(Digest::of(json.as_bytes())) {
            return Err(RecordError::Seal);
        }
        let shared_output: Self = serde_json::from_str(json).map_err(RecordError::Json)?;
        if shared_output.version > VERSION {
            return Err(RecordError::Newer);
        }
        if let Some(why) = unfit(&shared_output.items) {
            return Err(RecordError::Unfit(why));
        }
        if digest_of(&shared_output.items) != shared_output.digest || shared_output.fields.digest() != shared_output.key
        {
            return Err(RecordError::Contradiction);
        }
        Ok(shared_output)
    }

    pub(super) fn new(
        record: &crate::runner::store::TaskRecord,
        fields: TaskKey,
        machine: BTreeMap<String, String>,
        items: Vec<ParcelItem>,
    ) -> Self {
        Self {
            version: VERSION,
            task: record.task.clone(),
            key: record.key,
            fields,
            machine,
            digest: record.digest,
            done: record.done.clone(),
            seconds: record.seconds,
            at: jiff::Timestamp::now().to_string(),
            program: concat!("regatta ", env!("CARGO_PKG_VERSION")).to_owned(),
            items,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::store::{EntryKind, KEY_VERSION};

    fn shared() -> SharedOutput {
        let fields = TaskKey {
            version: KEY_VERSION,
            action: r#"{"shell":"x\ny"}"#.to_owned(),
            env: BTreeMap::new(),
            secrets: Vec::new(),
            outputs: Vec::new(),
            facts: BTreeMap::new(),
            inputs: BTreeMap::new(),
            upstream: BTreeMap::new(),
        };
        let item = |path: &str, kind, digest| ParcelItem {
            path: path.into(),
            kind,
            size: 3,
            digest,
            target: std::path::PathBuf::default(),
        };
        let items = vec![item("", EntryKind::Folder, None), item("a", EntryKind::File, Some(Digest::of(b"abc")))];
        SharedOutput {
            version: VERSION,
            task: TaskId::new("t"),
            key: fields.digest(),
            fields,
            machine: BTreeMap::new(),
            digest: digest_of(&items),
            done: Done::default(),
            seconds: 1.0,
            at: String::new(),
            program: String::new(),
            items,
        }
    }

    #[test]
    fn a_record_is_read_back_and_no_changed_byte_goes_unseen() {
        let sealed = shared().seal().unwrap();
        assert_eq!(SharedOutput::open(&sealed).unwrap().items, shared().items);
        for at in 0..sealed.len() - 1 {
            let mut bytes = sealed.to_vec();
            bytes[at] ^= 4;
            assert!(SharedOutput::open(&bytes).is_err(), "byte {at}");
            assert!(SharedOutput::open(&sealed[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_record_that_was_sealed_wrong_is_refused() {
        let why = |change: fn(&mut SharedOutput)| {
            let mut shared = shared();
            change(&mut shared);
            SharedOutput::open(&shared.seal().unwrap()).unwrap_err().to_string()
        };
        assert!(why(|s| s.version = VERSION + 1).contains("newer"));
        assert!(why(|s| s.items[1].path = "../a".into()).contains("no path in an output"));
        assert!(why(|s| s.items[1].digest = Some(Digest::of(b"x"))).contains("does not agree"));
        assert!(why(|s| s.key = Digest::of(b"x")).contains("does not agree"));
    }
}
