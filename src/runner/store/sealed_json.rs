//! Files of one sealed line of JSON, each a fact that a later run relies on: one that was cut off or altered is an error, also where it
//! is JSON still, with another number in it.

use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::durable::{PathError, WithPath as _, replace};
use super::journal::{seal, unseal};
use base::files::{is_absence, read_bytes};

/// The file that [`read_sealed_json`] reads.
pub(super) fn sealed_json(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, PathError> {
    seal(value).map_err(io::Error::other).at("write", path)
}

pub(super) fn replace_sealed_json(path: &Path, value: &impl Serialize) -> Result<(), PathError> {
    replace(path, &sealed_json(path, value)?)
}

/// `None` where there is no file.
///
/// # Errors
/// It is there and cannot be read, or it is not as it was written.
pub(super) fn read_sealed_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, PathError> {
    let bytes = match read_bytes(path) {
        Ok(bytes) => bytes,
        Err(error) if is_absence(&error) => return Ok(None),
        Err(error) => return Err(error).at("read", path),
    };
    let altered = || io::Error::new(io::ErrorKind::InvalidData, "it was cut off or altered");
    let json = bytes.strip_suffix(b"\n").and_then(unseal).ok_or_else(altered).at("read", path)?;
    serde_json::from_slice(json).map(Some).at("read", path)
}
