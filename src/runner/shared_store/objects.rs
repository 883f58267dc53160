//! A store in a bucket: S3, Google's, Azure's, and services with a compatible API.
//!
//! Each request is short: a part of a file at the most. It is repeated a few times by `object_store`; a store that does
//! not answer in that time is away.

use std::env;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientConfigKey, Error, GetOptions, MultipartUpload, ObjectStore, ObjectStoreExt as _, PutMode,
    PutOptions, RetryConfig,
};
use tokio::task::JoinSet;
use tokio_stream::StreamExt as _;

use super::bucket::{BucketKind, LARGEST_OBJECT, ListedObject, SharedStoreError};
use base::diag::error_chain;

/// A connection that is not there by then will not come.
const CONNECT: &str = "5 seconds";
/// After this time without data the connection is dead.
const SILENCE_S: u64 = 20;
/// For one part of 16 MiB, all tries together: below 150 kB/s engines cannot be transferred.
const REQUEST_S: u64 = 120;
const TRIES: usize = 3;
/// Parts of one file that are under way at once.
const LANES: usize = 4;

#[derive(Debug)]
pub(super) struct Objects {
    pub store: Arc<dyn ObjectStore>,
    pub prefix: String,
}

impl Objects {
    /// Sends no request yet. Credentials come from the environment, its files or the machine's role.
    pub(super) fn open(kind: BucketKind, name: &str, prefix: &str) -> Result<Self, SharedStoreError> {
        // Another part of the program may have set it before; there is only one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store = match kind {
            BucketKind::S3 => amazon(name).map(|store| Arc::new(store) as Arc<dyn ObjectStore>),
            BucketKind::Google => google(name).map(|store| Arc::new(store) as _),
            BucketKind::Azure => azure(name).map(|store| Arc::new(store) as _),
        };
        let store = store.map_err(|error| SharedStoreError::Denied(error_chain_text(&error)))?;
        Ok(Self { store, prefix: prefix.to_owned() })
    }

    fn path(&self, name: &str) -> Path {
        Path::from(format!("{}/{name}", self.prefix))
    }

    pub(super) async fn size(&self, name: &str) -> Result<Option<u64>, SharedStoreError> {
        none_if_not_found(limited(self.store.head(&self.path(name))).await?.map(|meta| meta.size))
    }

    pub(super) async fn get(&self, name: &str) -> Result<Option<Bytes>, SharedStoreError> {
        let answer = limited(self.store.get_opts(&self.path(name), GetOptions::default())).await?;
        let Some(found) = none_if_not_found(answer)? else { return Ok(None) };
        if found.meta.size > LARGEST_OBJECT {
            let reason = format!("has {} bytes, too many to be read at once", found.meta.size);
            return Err(SharedStoreError::damaged(name, reason));
        }
        none_if_not_found(limited(found.bytes()).await?)
    }

    pub(super) async fn get_range(&self, name: &str, range: Range<u64>) -> Result<Option<Bytes>, SharedStoreError> {
        none_if_not_found(limited(self.store.get_range(&self.path(name), range)).await?)
    }

    pub(super) async fn put(&self, name: &str, bytes: Bytes) -> Result<(), SharedStoreError> {
        let sent = limited(self.store.put(&self.path(name), bytes.into())).await?;
        sent.map(drop).map_err(|error| object_store_error(&error))
    }

    pub(super) async fn create(&self, name: &str, bytes: Bytes) -> Result<bool, SharedStoreError> {
        let options = PutOptions::from(PutMode::Create);
        match limited(self.store.put_opts(&self.path(name), bytes.into(), options)).await? {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            Err(error) => Err(object_store_error(&error)),
        }
    }

    pub(super) async fn upload(&self, name: &str) -> Result<ObjectUpload, SharedStoreError> {
        let upload = limited(self.store.put_multipart(&self.path(name))).await?;
        let upload = upload.map_err(|error| object_store_error(&error))?;
        Ok(ObjectUpload { upload, parts: JoinSet::new() })
    }

    pub(super) async fn list(&self, below: &str) -> Result<Vec<ListedObject>, SharedStoreError> {
        let path = self.path(below);
        let mut listing = self.store.list(Some(&path));
        let now = jiff::Timestamp::now().as_second();
        let mut seen = Vec::new();
        let start = self.path("").to_string();
        while let Some(meta) =
            limited(async { listing.next().await.transpose() }).await?.map_err(|e| object_store_error(&e))?
        {
            let name = meta.location.as_ref().strip_prefix(&start).unwrap_or(meta.location.as_ref());
            let age = Duration::from_secs((now - meta.last_modified.timestamp()).max(0) as u64);
            seen.push(ListedObject { name: name.trim_start_matches('/').to_owned(), size: meta.size, age });
        }
        Ok(seen)
    }

    pub(super) async fn delete(&self, name: &str) -> Result<(), SharedStoreError> {
        none_if_not_found(limited(self.store.delete(&self.path(name))).await?).map(drop)
    }
}

/// A large object under way, its parts beside each other.
#[derive(Debug)]
pub(super) struct ObjectUpload {
    upload: Box<dyn MultipartUpload>,
    parts: JoinSet<Result<(), SharedStoreError>>,
}

impl ObjectUpload {
    pub(super) async fn part(&mut self, bytes: Bytes) -> Result<(), SharedStoreError> {
        while self.parts.len() >= LANES {
            self.one_arrives().await?;
        }
        let sending = self.upload.put_part(bytes.into());
        self.parts.spawn(async move { limited(sending).await?.map_err(|error| object_store_error(&error)) });
        Ok(())
    }

    async fn one_arrives(&mut self) -> Result<(), SharedStoreError> {
        match self.parts.join_next().await {
            None => Ok(()),
            Some(sent) => sent.map_err(|error| SharedStoreError::Local(error.to_string()))?,
        }
    }

    pub(super) async fn finish(mut self) -> Result<(), SharedStoreError> {
        while !self.parts.is_empty() {
            self.one_arrives().await?;
        }
        limited(self.upload.complete()).await?.map(drop).map_err(|error| object_store_error(&error))
    }

    pub(super) async fn abort(mut self) {
        self.parts.shutdown().await;
        let _ = limited(self.upload.abort()).await;
    }
}

/// Whatever a store or the network does, an answer comes.
async fn limited<T>(request: impl Future<Output = T>) -> Result<T, SharedStoreError> {
    tokio::time::timeout(Duration::from_secs(REQUEST_S), request)
        .await
        .map_err(|_| SharedStoreError::Unreachable(format!("no answer within {REQUEST_S} s")))
}

fn none_if_not_found<T>(answer: Result<T, Error>) -> Result<Option<T>, SharedStoreError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(object_store_error(&error)),
    }
}

fn object_store_error(error: &Error) -> SharedStoreError {
    let text = error_chain_text(error);
    let is_refused = ["401 Unauthorized", "403 Forbidden"].iter().any(|status| text.contains(status));
    match error {
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => SharedStoreError::Denied(text),
        _ if is_refused => SharedStoreError::Denied(text),
        // A missing bucket, or missing credentials: no other request would fare better.
        _ => SharedStoreError::Unreachable(text),
    }
}

fn retry() -> RetryConfig {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_secs(2),
        ..BackoffConfig::default()
    };
    RetryConfig { backoff, max_retries: TRIES, retry_timeout: Duration::from_secs(30) }
}

/// A limit on silence, not on the length of a request.
fn limits() -> [(ClientConfigKey, String); 3] {
    [
        (ClientConfigKey::ConnectTimeout, CONNECT.to_owned()),
        (ClientConfigKey::ReadTimeout, format!("{SILENCE_S} seconds")),
        (ClientConfigKey::Timeout, format!("{REQUEST_S} seconds")),
    ]
}

fn amazon(bucket: &str) -> Result<impl ObjectStore, Error> {
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry());
    // An explicit http:// is intended. Keys are not sent, only signatures.
    let endpoint =
        ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"].iter().find_map(|name| env::var(name).ok());
    if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
        builder = builder.with_allow_http(true);
    }
    limits().into_iter().fold(builder, |to, (key, value)| to.with_config(AmazonS3ConfigKey::Client(key), value)).build()
}

fn google(bucket: &str) -> Result<impl ObjectStore, Error> {
    let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket).with_retry(retry());
    limits().into_iter().fold(builder, |to, (key, value)| to.with_config(GoogleConfigKey::Client(key), value)).build()
}

fn azure(container: &str) -> Result<impl ObjectStore, Error> {
    let builder = MicrosoftAzureBuilder::from_env().with_container_name(container).with_retry(retry());
    limits().into_iter().fold(builder, |to, (key, value)| to.with_config(AzureConfigKey::Client(key), value)).build()
}

/// An error with all its causes, on one line, without what stands behind a `?` in an address: signatures and tokens do.
fn error_chain_text(error: &dyn std::error::Error) -> String {
    let text = plain(&error_chain(error));
    // The text before it is the request, with an address that is of no use to the user.
    let cause = text.rsplit_once(" - ").map_or(text.as_str(), |(_, cause)| cause);
    cause.trim_end_matches(':').to_owned()
}

fn plain(text: &str) -> String {
    const LONGEST: usize = 400;
    let mut out = String::new();
    for word in text.split_whitespace() {
        let word = match word.split_once('?') {
            Some((place, _)) if place.contains("://") => format!("{place}?…"),
            _ => word.to_owned(),
        };
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&word);
    }
    if out.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|at| out.is_char_boundary(*at)).unwrap_or(0);
        out.truncate(end);
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_and_holds_no_signature() {
        let text = plain("error sending\nrequest for url (https://a.example/c/x?sv=1&sig=SECRET)  [500]");
        assert_eq!(text, "error sending request for url (https://a.example/c/x?… [500]");
        assert!(plain(&"x".repeat(9999)).len() < 500);
    }
}
