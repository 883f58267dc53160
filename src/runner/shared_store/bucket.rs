//! One store, whatever it is made of: named objects that are put whole, read in parts, created once; its address, and
//! what can be wrong with it.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::folder::{self, Folder};
#[cfg(feature = "buckets")]
use super::objects::{self, Objects};
use super::record::VERSION;
use crate::signing::SignatureError;
use crate::store::PathError;
use base::diag::{ErrorText, FeatureLeftOut};
use base::files::Digest;

// What can be wrong with a store, by what it means for a run.

/// Why something could not be done.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SharedStoreError {
    /// The store does not answer, or not in time.
    #[error("{0}")]
    Unreachable(String),
    /// It is a folder that is not there.
    #[error("there is no folder {0}")]
    NoFolder(String),
    /// It answers, and does not let us.
    #[error("{0}")]
    Denied(String),
    /// It is a folder in which this user may not do that.
    #[error("{0}")]
    NoAccess(String),
    /// One object is not what it must be, or is gone.
    #[error("{object} {why}")]
    Damaged { object: String, why: String },
    /// A record written during garbage collection could not be read: the record or the response is damaged.
    #[error("{object} was written during garbage collection and cannot be read; no file was removed")]
    Unread { object: String },
    /// A record that this program cannot read, and must not replace.
    #[error("{object} was written by a newer Regatta")]
    Newer { object: String },
    /// A record that no trusted key has signed.
    #[error("{object} {why}")]
    Untrusted { object: String, why: SignatureError },
    /// Its kind cannot be reached by this program.
    #[error(transparent)]
    LeftOut(#[from] FeatureLeftOut),
    /// Something on this machine.
    #[error("{0}")]
    Local(String),
}

impl SharedStoreError {
    /// Whether another request, for something else, would fail the same way.
    pub const fn is_of_the_store(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_) | Self::NoFolder(_) | Self::Denied(_) | Self::NoAccess(_) | Self::LeftOut(_)
        )
    }

    /// What the user can do.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => {
                "is the store's machine up, the network there, the address right? (AWS_ENDPOINT_URL names an endpoint \
                    that is not Amazon's)"
            }
            Self::NoFolder(_) => "create it, or mount the filesystem that it is on",
            Self::NoAccess(_) => {
                "all users of the store need to read and write in it: `chmod -R g+rwX` by those whose files are \
                    there, and `chmod g+rws` for the folder itself"
            }
            Self::Denied(_) => {
                "credentials are taken from the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
                    GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME and …_KEY) or the machine's own role; \
                    they need to read, write and list"
            }
            Self::Unread { .. } => "run `regatta store gc` again: it removes the record if it is damaged",
            Self::Damaged { .. } => {
                "it is rebuilt here and stored again; `regatta store push MANIFEST --verify` checks and repairs \
                    the rest"
            }
            Self::Untrusted { .. } => {
                "it is rebuilt here; if it is correct, `regatta store push MANIFEST --sign-key FILE` signs it, or add \
                its key to the file of --trusted-keys"
            }
            Self::Newer { .. } => "it is left unchanged; a Regatta of the same or a newer version can read it",
            Self::Local(_) | Self::LeftOut(_) => "",
        }
    }
}

impl SharedStoreError {
    pub(super) fn damaged(object: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Damaged { object: object.into(), why: why.into() }
    }

    /// Of an object that a record names.
    pub(super) fn gone(object: &str) -> Self {
        Self::damaged(object, "is missing, although a record names it")
    }
}

impl From<tokio::sync::AcquireError> for SharedStoreError {
    fn from(error: tokio::sync::AcquireError) -> Self {
        Self::Local(error.to_string())
    }
}

impl From<tokio::task::JoinError> for SharedStoreError {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Local(format!("a transfer did not complete: {error}"))
    }
}

impl From<PathError> for SharedStoreError {
    fn from(error: PathError) -> Self {
        Self::Local(error.to_string())
    }
}

// Where a store is, as the user writes it.

/// `file:///mnt/share`, a path, `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`. Never with
/// credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAddress {
    Folder(PathBuf),
    Bucket {
        kind: BucketKind,
        /// Bucket or container.
        name: String,
        /// Without slashes at its ends; may be empty.
        prefix: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketKind {
    S3,
    Google,
    Azure,
}

impl BucketKind {
    const fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Google => "gs",
            Self::Azure => "az",
        }
    }
}

const FORMS: &str = "write a path, file:///mnt/share, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix";

impl StoreAddress {
    /// Reads what was typed; the text is not repeated in a message where it may hold a secret.
    pub fn parse(text: &str) -> Result<Self, ErrorText> {
        let text = text.trim();
        if text.is_empty() {
            return Err(ErrorText::new("the shared store has an empty name").hint(FORMS));
        }
        let Some((scheme, rest)) = text.split_once("://") else { return Ok(Self::Folder(text.into())) };
        if rest.split('/').next().is_some_and(|host| host.contains('@')) || rest.contains(['?', '#']) {
            let error = ErrorText::new("the address of the shared store has more than a location").hint(
                "credentials belong in the environment (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, \
                 AZURE_STORAGE_ACCOUNT_KEY, …)",
            );
            return Err(error.hint(FORMS));
        }
        let kind = match scheme {
            "file" => {
                return match rest.strip_prefix("localhost").unwrap_or(rest) {
                    path if path.starts_with('/') => Ok(Self::Folder(path.into())),
                    _ => Err(ErrorText::new(format_args!("`{text}` names a host"))
                        .hint("a file address has three slashes: file:///mnt/share")),
                };
            }
            "s3" | "s3a" => BucketKind::S3,
            "gs" => BucketKind::Google,
            "az" | "azure" => BucketKind::Azure,
            other => return Err(ErrorText::new(format_args!("`{other}://` is not a supported store")).hint(FORMS)),
        };
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if name.is_empty() {
            return Err(ErrorText::new(format_args!("`{text}` names no bucket")).hint(FORMS));
        }
        Ok(Self::Bucket { kind, name: name.to_owned(), prefix: prefix.trim_matches('/').to_owned() })
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::Bucket { kind, name, prefix } if prefix.is_empty() => write!(f, "{}://{name}", kind.scheme()),
            Self::Bucket { kind, name, prefix } => write!(f, "{}://{name}/{prefix}", kind.scheme()),
        }
    }
}

/// The layout, with its version: another version has a root of its own.
const ROOT: &str = "regatta-1";

/// Larger files travel in parts of this size; as many are in memory as there are lanes.
pub(super) const PART: u64 = if cfg!(test) { 1 << 10 } else { 16 << 20 };

#[derive(Clone, Debug)]
pub(super) enum Bucket {
    Folder(Arc<Folder>),
    #[cfg(feature = "buckets")]
    Objects(Arc<Objects>),
}

/// The object of a file's bytes.
pub(super) fn blob(digest: &Digest) -> String {
    let hex = digest.to_string();
    format!("{ROOT}/blobs/{}/{hex}", &hex[..2])
}

/// The object of an output's record, as this program writes it.
pub(super) fn record(name: &Digest) -> String {
    record_of_version(name, VERSION)
}

/// Each version of records after the first has names of its own. Not every store can read and replace an object
/// atomically, so an older program must share no name with a newer one.
pub(super) fn record_of_version(name: &Digest, version: u32) -> String {
    let hex = name.to_string();
    let suffix = if version > 1 { format!(".v{version}") } else { String::new() };
    format!("{RECORDS}/{}/{hex}{suffix}", &hex[..2])
}

/// Whether a record's object has a name of a newer program.
pub(super) fn is_of_newer_program(object: &str) -> bool {
    let version = object.rsplit_once(".v").and_then(|(_, version)| version.parse::<u32>().ok());
    version.is_some_and(|version| version > VERSION)
}

pub(super) const BLOBS: &str = "regatta-1/blobs";

pub(super) const RECORDS: &str = "regatta-1/records";

/// Each kind of store has the same methods, under the same names.
macro_rules! each_kind {
    ($value:expr, $kinds:ident, $store:ident => $call:expr) => {
        match $value {
            $kinds::Folder($store) => $call,
            #[cfg(feature = "buckets")]
            $kinds::Objects($store) => $call,
        }
    };
}

impl Bucket {
    pub(super) fn open(address: &StoreAddress) -> Result<Self, SharedStoreError> {
        match address {
            StoreAddress::Folder(path) => Ok(Self::Folder(Arc::new(Folder::new(path)))),
            #[cfg(feature = "buckets")]
            StoreAddress::Bucket { kind, name, prefix } => {
                Ok(Self::Objects(Arc::new(Objects::open(*kind, name, prefix)?)))
            }
            #[cfg(not(feature = "buckets"))]
            StoreAddress::Bucket { .. } => Err(SharedStoreError::LeftOut(base::diag::FeatureLeftOut("buckets"))),
        }
    }

    /// Its size; `None`: it is not there.
    pub(super) async fn size(&self, name: &str) -> Result<Option<u64>, SharedStoreError> {
        each_kind!(self, Self, store => store.size(name).await)
    }

    /// All of it.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Bytes>, SharedStoreError> {
        each_kind!(self, Self, store => store.get(name).await)
    }

    /// A part of it. A record has shown that it is there.
    pub(super) async fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, SharedStoreError> {
        let part = each_kind!(self, Self, store => store.get_range(name, range).await?);
        part.ok_or_else(|| SharedStoreError::gone(name))
    }

    /// Puts it, whatever was there.
    pub(super) async fn put(&self, name: &str, bytes: Bytes) -> Result<(), SharedStoreError> {
        each_kind!(self, Self, store => store.put(name, bytes).await)
    }

    /// Puts it if it is not there; `false`: it is there already.
    pub(super) async fn create(&self, name: &str, bytes: Bytes) -> Result<bool, SharedStoreError> {
        each_kind!(self, Self, store => store.create(name, bytes).await)
    }

    /// Begins to put something large.
    pub(super) async fn upload(&self, name: &str) -> Result<BucketUpload, SharedStoreError> {
        Ok(match self {
            Self::Folder(folder) => BucketUpload::Folder(folder.upload(name).await?),
            #[cfg(feature = "buckets")]
            Self::Objects(objects) => BucketUpload::Objects(objects.upload(name).await?),
        })
    }

    /// Everything below.
    pub(super) async fn list(&self, below: &str) -> Result<Vec<ListedObject>, SharedStoreError> {
        each_kind!(self, Self, store => store.list(below).await)
    }

    /// It may be gone already.
    pub(super) async fn delete(&self, name: &str) -> Result<(), SharedStoreError> {
        each_kind!(self, Self, store => store.delete(name).await)
    }
}

/// A large upload in progress; it is invisible before it is finished.
#[derive(Debug)]
pub(super) enum BucketUpload {
    Folder(folder::FolderUpload),
    #[cfg(feature = "buckets")]
    Objects(objects::ObjectUpload),
}

impl BucketUpload {
    /// The next part: [`PART`] bytes, the last one fewer.
    pub(super) async fn part(&mut self, bytes: Bytes) -> Result<(), SharedStoreError> {
        each_kind!(self, Self, upload => upload.part(bytes).await)
    }

    pub(super) async fn finish(self) -> Result<(), SharedStoreError> {
        each_kind!(self, Self, upload => upload.finish().await)
    }

    /// Takes it back, as well as that goes.
    #[cfg_attr(not(feature = "buckets"), expect(clippy::unused_async, reason = "a bucket is told over the network"))]
    pub(super) async fn abort(self) {
        match self {
            Self::Folder(upload) => upload.abort(),
            #[cfg(feature = "buckets")]
            Self::Objects(upload) => upload.abort().await,
        }
    }
}

// What a listing of a store has of each object.

/// What is read at once, as a whole, is smaller than this: a store is untrusted.
pub(super) const LARGEST_OBJECT: u64 = 256 << 20;

/// One object, as a listing has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedObject {
    pub name: String,
    pub size: u64,
    /// Since it was written.
    pub age: Duration,
}

/// A store may state any sizes.
pub(super) fn bytes_of(objects: &[ListedObject]) -> u64 {
    objects.iter().map(|object| object.size).fold(0, u64::saturating_add)
}

/// In a folder only: what is being written.
pub(super) const TEMPORARY: &str = "regatta-1/tmp";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        let shown = |text: &str| StoreAddress::parse(text).unwrap().to_string();
        assert_eq!(shown("/mnt/share"), "/mnt/share");
        assert_eq!(shown("file:///mnt/share"), "/mnt/share");
        assert_eq!(shown("file://localhost/mnt/share"), "/mnt/share");
        assert_eq!(shown("../share"), "../share");
        assert_eq!(shown("s3://bucket"), "s3://bucket");
        assert_eq!(shown("s3://bucket/a/b/"), "s3://bucket/a/b");
        assert_eq!(shown("gs://b/p"), "gs://b/p");
        assert_eq!(shown("azure://c/p"), "az://c/p");
    }

    #[test]
    fn an_invalid_address_is_reported_without_its_secret() {
        for (text, why) in [
            ("", "empty name"),
            ("http://host/x", "`http://` is not a supported store"),
            ("file://host/x", "names a host"),
            ("s3:///x", "names no bucket"),
            ("s3://KEY:SECRET@bucket/x", "credentials belong in the environment"),
            ("az://c/x?sig=SECRET", "credentials belong in the environment"),
        ] {
            let error = StoreAddress::parse(text).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("SECRET"), "{text}: {error}");
        }
    }
}
