//! The record of one output in a store.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::signing::{Signature, SignatureError, SigningKey, TrustedKeys};
use crate::store::{PortableItem, TaskKey, digest_of, unfit};
use base::event::{Done, TaskId};
use base::files::{Digest, Hasher, read_text};
use base::units::os_release_field;
use plan::Task;

/// Goes up when a reader of the version before would misunderstand it. Part of a record's name.
pub(super) const VERSION: u32 = 1;

/// Why a record must not be used. Reads after its name.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordError {
    #[error("is not text")]
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
    #[error("lists an impossible output: {0}")]
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
    /// The store that the sender had it from; `None`: the sender made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
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
        let json = sign_json(serde_json::to_string(self)?, signer)?;
        Ok(format!("{json}\n{}\n", Digest::hash(json.as_bytes())).into())
    }

    /// Reads it back; `Err`: why it must not be used.
    /// `trusted`: one of these keys must have signed it.
    pub(super) fn open(bytes: &[u8], trusted: Option<&TrustedKeys>) -> Result<Self, RecordError> {
        let text = std::str::from_utf8(bytes).map_err(|_| RecordError::NotText)?;
        let (json, seal) = text.trim_end().rsplit_once('\n').ok_or(RecordError::NoSeal)?;
        if seal.parse().ok() != Some(Digest::hash(json.as_bytes())) {
            return Err(RecordError::Seal);
        }
        let json = check_json(json, trusted).map_err(RecordError::Signature)?;
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
            from: record.from.clone(),
            items,
        }
    }
}

// A JSON object whose last member is a signature over the object without it: readers that ask for none, and older
// programs, read the rest.

/// What is before the signature.
pub(super) const SIGNATURE: &str = ",\"signature\":";

/// The object with a signature, if there is a key.
fn sign_json(mut json: String, signer: Option<&SigningKey>) -> Result<String, serde_json::Error> {
    if let Some(signer) = signer {
        let signature = serde_json::to_string(&signer.sign(RECORD_TYPE, json.as_bytes()))?;
        json.truncate(json.len() - 1);
        json = format!("{json}{SIGNATURE}{signature}}}");
    }
    Ok(json)
}

/// The object without its signature: what is read is what was signed, byte for byte. `trusted`: one of these keys must
/// have signed it.
fn check_json<'a>(json: &'a str, trusted: Option<&TrustedKeys>) -> Result<Cow<'a, str>, SignatureError> {
    let (json, signature) = split_signature(json);
    if let Some(trusted) = trusted {
        trusted.check(RECORD_TYPE, json.as_bytes(), signature.as_ref())?;
    }
    Ok(json)
}

/// The object without its last member, if that is a signature. In a text such quotes would be escaped, so they begin a
/// member.
fn split_signature(json: &str) -> (Cow<'_, str>, Option<Signature>) {
    let Some((signed, rest)) = json.rsplit_once(SIGNATURE) else { return (json.into(), None) };
    match rest.strip_suffix('}').and_then(|text| serde_json::from_str(text).ok()) {
        Some(signature) => (format!("{signed}}}").into(), Some(signature)),
        None => (json.into(), None),
    }
}

// Whether records of a store are signed, and whose signatures count.

/// What a signature of a record says that it is over.
pub(super) const RECORD_TYPE: &str = "application/vnd.regatta.shared-record+json";

/// Where a key signs, its own signatures count, too.
#[derive(Clone, Debug, Default)]
pub struct SignaturePolicy {
    signer: Option<Arc<SigningKey>>,
    /// `None`: a record needs no signature.
    trusted: Option<TrustedKeys>,
}

impl SignaturePolicy {
    /// With neither key nothing is signed and nothing is asked for.
    pub fn new(signer: Option<SigningKey>, trusted: Option<TrustedKeys>) -> Self {
        let trusted = match (&signer, trusted) {
            (Some(signer), Some(trusted)) => Some(trusted.and(signer.public.clone())),
            (Some(signer), None) => Some(TrustedKeys::only(signer.public.clone())),
            (None, trusted) => trusted,
        };
        Self { signer: signer.map(Arc::new), trusted }
    }

    pub fn signer(&self) -> Option<&SigningKey> {
        self.signer.as_deref()
    }

    pub const fn trusted(&self) -> Option<&TrustedKeys> {
        self.trusted.as_ref()
    }

    /// Signatures are asked for, and none can be made: what is sent would be refused by those that ask for them, too.
    pub const fn is_read_only(&self) -> bool {
        self.trusted.is_some() && self.signer.is_none()
    }
}

// What ties an output to a kind of machine, beside its key.

/// The GPUs of a machine, as far as they decide what an engine is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineGpus {
    /// Names with compute capabilities, each once; empty where the machine has no GPU.
    Known(BTreeSet<String>),
    /// There is a driver, and the query failed: the error message.
    Unknown(String),
}

/// Why it is not known what machine an output is for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it depends on the GPUs of this machine, and they are not known: {why}")]
pub struct UnknownGpus {
    /// Of the query.
    pub why: String,
}

/// This machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// `x86_64`, `aarch64`.
    pub arch: String,
    /// Distribution and its version: what a program that was compiled here runs on.
    pub system: String,
    pub gpus: MachineGpus,
}

impl Machine {
    pub fn new(gpus: MachineGpus) -> Self {
        let text = read_text("/etc/os-release").unwrap_or_default();
        Self { arch: std::env::consts::ARCH.to_owned(), system: system(&text), gpus }
    }

    /// The machine properties that a task's output depends on, as names and values; `Err`: why they are unknown.
    pub fn facts_for(&self, task: &Task) -> Result<BTreeMap<String, String>, UnknownGpus> {
        let mut facts = BTreeMap::new();
        let runs_programs = task.kind.facts().runs_programs || task.is_loadgen_library();
        if runs_programs {
            facts.insert("arch".to_owned(), self.arch.clone());
            // A container contains its own system, and its image is part of the key.
            if task.container.is_none() {
                facts.insert("system".to_owned(), self.system.clone());
            }
        }
        if task.gpus > 0 {
            match &self.gpus {
                MachineGpus::Known(gpus) => {
                    let list = gpus.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                    facts.insert("gpu".to_owned(), if list.is_empty() { "none".to_owned() } else { list });
                }
                MachineGpus::Unknown(why) => {
                    return Err(UnknownGpus { why: why.clone() });
                }
            }
        }
        Ok(facts)
    }
}

/// What the record of an output is called in a store.
pub(super) fn name(key: &Digest, facts: &BTreeMap<String, String>) -> Digest {
    let mut h = Hasher::new();
    h.field(b"regatta shared output 1").field(key.bytes());
    for (name, value) in facts {
        h.field(name.as_bytes()).field(value.as_bytes());
    }
    h.finish()
}

fn system(os_release: &str) -> String {
    format!("{} {}", os_release_field(os_release, "ID"), os_release_field(os_release, "VERSION_ID")).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signing::tests::example_key;
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
        let items = vec![item("", EntryKind::Folder, None), item("a", EntryKind::File, Some(Digest::hash(b"abc")))];
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
            from: None,
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
        format!("{json}\n{}\n", Digest::hash(json.as_bytes()))
    }

    #[test]
    fn only_a_record_that_a_trusted_key_signed_passes_where_one_is_asked_for() {
        let key = example_key();
        let trusted = TrustedKeys::only(key.public.clone());
        let open = |bytes: &[u8]| SharedOutput::open(bytes, Some(&trusted));
        let signed = shared().seal(Some(&key)).unwrap();
        assert_eq!(open(&signed).unwrap().items, shared().items);
        let error_text = |bytes: &[u8]| open(bytes).unwrap_err().to_string();
        assert_eq!(error_text(&shared().seal(None).unwrap()), "is not signed");
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
        assert_eq!(
            error_text(resealed(&format!("{other}{SIGNATURE}{signature}")).as_bytes()),
            "does not match its signature"
        );
        let after = json.replace("}}", "},\"seconds\":2.0}");
        assert_eq!(error_text(resealed(&after).as_bytes()), "is not signed");
        let twice = format!("{}{SIGNATURE}{signature}", &json[..json.len() - 1]);
        assert_eq!(error_text(resealed(&twice).as_bytes()), "does not match its signature");
        assert_eq!(error_text(resealed(&format!("{payload}}}")).as_bytes()), "is not signed");
        assert!(SharedOutput::open(&signed, None).is_ok(), "readers without keys read it, too");
    }

    #[test]
    fn a_record_that_was_sealed_wrong_is_refused() {
        let error_after = |change: fn(&mut SharedOutput)| {
            let mut shared = shared();
            change(&mut shared);
            SharedOutput::open(&shared.seal(None).unwrap(), None).unwrap_err().to_string()
        };
        assert!(error_after(|s| s.version = VERSION + 1).contains("newer"));
        let newer = resealed(&format!("{{\"version\":{}}}", VERSION + 1));
        assert!(matches!(SharedOutput::open(newer.as_bytes(), None), Err(RecordError::Newer)));
        assert!(error_after(|s| s.items[1].path = "../a".into()).contains("not a path in an output"));
        assert!(error_after(|s| s.items[1].digest = Some(Digest::hash(b"x"))).contains("does not agree"));
        assert!(error_after(|s| s.key = Digest::hash(b"x")).contains("does not agree"));
    }

    #[test]
    fn a_system_is_its_distribution_and_version() {
        assert_eq!(system("NAME=\"Ubuntu\"\nVERSION_ID=\"24.04\"\nID=ubuntu\nID_LIKE=debian\n"), "ubuntu 24.04");
        assert_eq!(system("ID=arch\n"), "arch");
    }

    #[test]
    fn names_differ_when_any_fact_does() {
        let key = Digest::hash(b"key");
        let facts = |pairs: &[(&str, &str)]| {
            name(&key, &pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
        };
        let machines = [
            facts(&[]),
            facts(&[("arch", "x86_64")]),
            facts(&[("arch", "aarch64")]),
            facts(&[("arch", "x86_64"), ("gpu", "none")]),
            facts(&[("arch", "x86_64"), ("gpu", "NVIDIA H200 9.0")]),
        ];
        assert_eq!(machines.iter().collect::<BTreeSet<_>>().len(), machines.len());
    }
}
