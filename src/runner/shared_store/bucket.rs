//! One store, whatever it is made of: named objects that are put whole, read in parts, created once.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::address::StoreAddress;
use super::error::SharedStoreError;
use super::folder::{self, Folder};
#[cfg(feature = "buckets")]
use super::objects::{self, Objects};
use super::record::VERSION;
use base::files::Digest;

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
