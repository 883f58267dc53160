//! One store, whatever it is made of: named objects that are put whole, read in parts, created once.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::address::StoreAddress;
use super::error::SharedStoreError;
use super::folder::Folder;
use super::objects::Objects;
use super::{folder, objects};
use base::files::Digest;

/// The layout, with its version: another version has a root of its own.
const ROOT: &str = "regatta-1";

/// Larger files travel in parts of this size; as many are in memory as there are lanes.
pub(super) const PART: u64 = 16 << 20;

#[derive(Clone, Debug)]
pub(super) enum Bucket {
    Folder(Arc<Folder>),
    Objects(Arc<Objects>),
}

/// The object of a file's bytes.
pub(super) fn blob(digest: &Digest) -> String {
    let hex = digest.to_string();
    format!("{ROOT}/blobs/{}/{hex}", &hex[..2])
}

/// The object of an output's record.
pub(super) fn record(name: &Digest) -> String {
    let hex = name.to_string();
    format!("{ROOT}/records/{}/{hex}", &hex[..2])
}

pub(super) const BLOBS: &str = "regatta-1/blobs";

pub(super) const RECORDS: &str = "regatta-1/records";

pub(super) const SUMMARIES: &str = "regatta-1/summaries";

/// The object of a summary.
pub(super) fn summary(text: &Digest) -> String {
    format!("{SUMMARIES}/{text}")
}

impl Bucket {
    pub(super) fn open(address: &StoreAddress) -> Result<Self, SharedStoreError> {
        Ok(match address {
            StoreAddress::Folder(path) => Self::Folder(Arc::new(Folder::new(path))),
            StoreAddress::Bucket { kind, name, prefix } => Self::Objects(Arc::new(Objects::open(*kind, name, prefix)?)),
        })
    }

    /// Its size; `None`: it is not there.
    pub(super) async fn size(&self, name: &str) -> Result<Option<u64>, SharedStoreError> {
        match self {
            Self::Folder(folder) => folder.size(name).await,
            Self::Objects(objects) => objects.size(name).await,
        }
    }

    /// All of it.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Bytes>, SharedStoreError> {
        match self {
            Self::Folder(folder) => folder.get(name, None).await,
            Self::Objects(objects) => objects.get(name).await,
        }
    }

    /// A part of it. A record has shown that it is there.
    pub(super) async fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, SharedStoreError> {
        let gone = || SharedStoreError::gone(name);
        match self {
            Self::Folder(folder) => folder.get(name, Some(range)).await?.ok_or_else(gone),
            Self::Objects(objects) => objects.get_range(name, range).await?.ok_or_else(gone),
        }
    }

    /// Puts it, whatever was there.
    pub(super) async fn put(&self, name: &str, bytes: Bytes) -> Result<(), SharedStoreError> {
        match self {
            Self::Folder(folder) => folder.put(name, bytes).await,
            Self::Objects(objects) => objects.put(name, bytes).await,
        }
    }

    /// Puts it if it is not there; `false`: it is there already.
    pub(super) async fn create(&self, name: &str, bytes: Bytes) -> Result<bool, SharedStoreError> {
        match self {
            Self::Folder(folder) => folder.create(name, bytes).await,
            Self::Objects(objects) => objects.create(name, bytes).await,
        }
    }

    /// Begins to put something large.
    pub(super) async fn upload(&self, name: &str) -> Result<BucketUpload, SharedStoreError> {
        Ok(match self {
            Self::Folder(folder) => BucketUpload::Folder(folder.upload(name).await?),
            Self::Objects(objects) => BucketUpload::Objects(objects.upload(name).await?),
        })
    }

    /// Everything below.
    pub(super) async fn list(&self, below: &str) -> Result<Vec<ListedObject>, SharedStoreError> {
        match self {
            Self::Folder(folder) => folder.list(below).await,
            Self::Objects(objects) => objects.list(below).await,
        }
    }

    /// It may be gone already.
    pub(super) async fn delete(&self, name: &str) -> Result<(), SharedStoreError> {
        match self {
            Self::Folder(folder) => folder.delete(name).await,
            Self::Objects(objects) => objects.delete(name).await,
        }
    }
}

/// A large upload in progress; it is invisible before it is finished.
#[derive(Debug)]
pub(super) enum BucketUpload {
    Folder(folder::FolderUpload),
    Objects(objects::ObjectUpload),
}

impl BucketUpload {
    /// The next part: [`PART`] bytes, the last one fewer.
    pub(super) async fn part(&mut self, bytes: Bytes) -> Result<(), SharedStoreError> {
        match self {
            Self::Folder(upload) => upload.part(bytes).await,
            Self::Objects(upload) => upload.part(bytes).await,
        }
    }

    pub(super) async fn finish(self) -> Result<(), SharedStoreError> {
        match self {
            Self::Folder(upload) => upload.finish().await,
            Self::Objects(upload) => upload.finish().await,
        }
    }

    /// Takes it back, as well as that goes.
    pub(super) async fn abort(self) {
        match self {
            Self::Folder(upload) => upload.abort(),
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
