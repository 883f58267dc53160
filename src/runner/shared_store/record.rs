//! The record of one output in a store.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::signature_policy::RECORD_TYPE;
use super::signed_json;
use crate::signing::{SignatureError, SigningKey, TrustedKeys};
use crate::store::{PortableItem, TaskKey, digest_of, unfit};
use base::event::{Done, TaskId};
use base::files::Digest;

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
    #[error(transparent)]
    Signature(SignatureError),
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
    pub items: Vec<PortableItem>,
}

/// The field of records of every version.
#[derive(Deserialize)]
struct RecordVersion {
    version: u32,
}

impl SharedOutput {
    pub(super) fn bytes(&self) -> u64 {
        self.items.iter().map(|item| item.size).sum()
    }

    /// JSON on one line, signed if there is a key, and the digest of that line below it.
    pub(super) fn seal(&self, signer: Option<&SigningKey>) -> Result<Bytes, serde_json::Error> {
        let json = signed_json::sign(serde_json::to_string(self)?, RECORD_TYPE, signer)?;
        Ok(format!("{json}\n{}\n", Digest::of(json.as_bytes())).into())
    }

    /// Reads it back; `Err`: why it must not be used.
    /// `trusted`: one of these keys must have signed it.
    pub(super) fn open(bytes: &[u8], trusted: Option<&TrustedKeys>) -> Result<Self, RecordError> {
        let text = std::str::from_utf8(bytes).map_err(|_| RecordError::NotText)?;
        let (json, seal) = text.trim_end().rsplit_once('\n').ok_or(RecordError::NoSeal)?;
        if seal.parse().ok() != Some(Digest::of(json.as_bytes())) {
            return Err(RecordError::Seal);
        }
        let json = signed_json::check(json, RECORD_TYPE, trusted).map_err(RecordError::Signature)?;
        // A newer one may have other fields, too.
        let RecordVersion { version } = serde_json::from_str(&json).map_err(RecordError::Json)?;
        if version > VERSION {
            return Err(RecordError::Newer);
        }
        let shared_output: Self = serde_json::from_str(&json).map_err(RecordError::Json)?;
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
        record: &crate::store::TaskRecord,
        fields: TaskKey,
        machine: BTreeMap<String, String>,
        items: Vec<PortableItem>,
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
    use super::super::signed_json::SIGNATURE;
    use super::*;
    use crate::signing::example_key;
    use crate::store::EntryKind;

    fn shared() -> SharedOutput {
        let fields = TaskKey::of_action(r#"{"shell":"x\ny"}"#);
        let item = |path: &str, kind, digest| PortableItem {
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
        for sealed in [shared().seal(None).unwrap(), shared().seal(Some(&example_key())).unwrap()] {
            assert_eq!(SharedOutput::open(&sealed, None).unwrap().items, shared().items);
            for at in 0..sealed.len() - 1 {
                let mut bytes = sealed.to_vec();
                bytes[at] ^= 4;
                assert!(SharedOutput::open(&bytes, None).is_err(), "byte {at}");
                assert!(SharedOutput::open(&sealed[..at], None).is_err(), "cut at {at}");
            }
        }
    }

    /// Anyone can seal; only the holder of a key can sign.
    fn resealed(json: &str) -> String {
        format!("{json}\n{}\n", Digest::of(json.as_bytes()))
    }

    #[test]
    fn only_a_record_that_a_trusted_key_signed_passes_where_one_is_asked_for() {
        let key = example_key();
        let trusted = TrustedKeys::only(key.public().clone());
        let open = |bytes: &[u8]| SharedOutput::open(bytes, Some(&trusted));
        let signed = shared().seal(Some(&key)).unwrap();
        assert_eq!(open(&signed).unwrap().items, shared().items);
        let why = |bytes: &[u8]| open(bytes).unwrap_err().to_string();
        assert_eq!(why(&shared().seal(None).unwrap()), "is not signed");
        let json = std::str::from_utf8(&signed).unwrap().lines().next().unwrap();
        // Each byte of what is signed, with a seal that is right.
        let (payload, _) = json.split_once(SIGNATURE).unwrap();
        for at in 1..payload.len() {
            let mut changed = json.as_bytes().to_vec();
            changed[at] ^= 1;
            let Ok(changed) = std::str::from_utf8(&changed) else { continue };
            assert!(open(resealed(changed).as_bytes()).is_err(), "byte {at}");
        }
        // The signature of one record on another; members after it; a second one; a signature that is cut off.
        let (_, signature) = json.split_once(SIGNATURE).unwrap();
        let other = payload.replace("\"seconds\":1.0", "\"seconds\":2.0");
        assert_ne!(other, payload);
        assert_eq!(why(resealed(&format!("{other}{SIGNATURE}{signature}")).as_bytes()), "does not match its signature");
        let after = json.replace("}}", "},\"seconds\":2.0}");
        assert_eq!(why(resealed(&after).as_bytes()), "is not signed");
        let twice = format!("{}{SIGNATURE}{signature}", &json[..json.len() - 1]);
        assert_eq!(why(resealed(&twice).as_bytes()), "does not match its signature");
        assert_eq!(why(resealed(&format!("{payload}}}")).as_bytes()), "is not signed");
        assert!(SharedOutput::open(&signed, None).is_ok(), "readers without keys read it, too");
    }

    #[test]
    fn a_record_that_was_sealed_wrong_is_refused() {
        let why = |change: fn(&mut SharedOutput)| {
            let mut shared = shared();
            change(&mut shared);
            SharedOutput::open(&shared.seal(None).unwrap(), None).unwrap_err().to_string()
        };
        assert!(why(|s| s.version = VERSION + 1).contains("newer"));
        let newer = resealed(&format!("{{\"version\":{}}}", VERSION + 1));
        assert!(matches!(SharedOutput::open(newer.as_bytes(), None), Err(RecordError::Newer)));
        assert!(why(|s| s.items[1].path = "../a".into()).contains("no path in an output"));
        assert!(why(|s| s.items[1].digest = Some(Digest::of(b"x"))).contains("does not agree"));
        assert!(why(|s| s.key = Digest::of(b"x")).contains("does not agree"));
    }
}
