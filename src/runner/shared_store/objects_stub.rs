//! A program without the feature `buckets` reaches no bucket of S3, Google or Azure; a shared folder needs none.

#![expect(clippy::unused_async, reason = "callers await what the real one does")]

use std::ops::Range;

use bytes::Bytes;

use super::address::BucketKind;
use super::bucket::ListedObject;
use super::error::SharedStoreError;
use base::diag::FeatureLeftOut;

/// There is none.
#[derive(Debug)]
pub(super) enum Objects {}

impl Objects {
    pub(super) const fn open(_: BucketKind, _: &str, _: &str) -> Result<Self, SharedStoreError> {
        Err(SharedStoreError::LeftOut(FeatureLeftOut("buckets")))
    }

    pub(super) async fn size(&self, _: &str) -> Result<Option<u64>, SharedStoreError> {
        match *self {}
    }

    pub(super) async fn get(&self, _: &str) -> Result<Option<Bytes>, SharedStoreError> {
        match *self {}
    }

    pub(super) async fn get_range(&self, _: &str, _: Range<u64>) -> Result<Option<Bytes>, SharedStoreError> {
        match *self {}
    }

    pub(super) async fn put(&self, _: &str, _: Bytes) -> Result<(), SharedStoreError> {
        match *self {}
    }

    pub(super) async fn create(&self, _: &str, _: Bytes) -> Result<bool, SharedStoreError> {
        match *self {}
    }

    pub(super) async fn upload(&self, _: &str) -> Result<ObjectUpload, SharedStoreError> {
        match *self {}
    }

    pub(super) async fn list(&self, _: &str) -> Result<Vec<ListedObject>, SharedStoreError> {
        match *self {}
    }

    pub(super) async fn delete(&self, _: &str) -> Result<(), SharedStoreError> {
        match *self {}
    }
}

/// There is none.
#[derive(Debug)]
pub(super) enum ObjectUpload {}

impl ObjectUpload {
    pub(super) async fn part(&mut self, _: Bytes) -> Result<(), SharedStoreError> {
        match *self {}
    }

    pub(super) async fn finish(self) -> Result<(), SharedStoreError> {
        match self {}
    }

    pub(super) async fn abort(self) {
        match self {}
    }
}
