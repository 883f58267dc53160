//! Files that are only caches: a BLAKE3 digest, then postcard. One that was cut off or altered is as good as absent.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::durable::{PathError, replace_cache};
use crate::event::Digest;

pub(super) fn write(path: &Path, value: &impl Serialize) -> Result<(), PathError> {
    let body = postcard::to_stdvec(value).unwrap_or_default();
    let mut bytes = Digest::of(&body).bytes().to_vec();
    bytes.extend(body);
    replace_cache(path, &bytes)
}

/// `None` for what is not there, and for anything odd about it.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let bytes = fs::read(path).ok()?;
    let (seal, body) = bytes.split_at_checked(32)?;
    if Digest::of(body).bytes() != seal {
        return None;
    }
    postcard::from_bytes(body).ok()
}

/// The digest that the file begins with, unchecked.
pub(super) fn digest(path: &Path) -> Option<Digest> {
    let mut seal = [0; 32];
    File::open(path).ok()?.read_exact(&mut seal).ok()?;
    Some(Digest::from_bytes(seal))
}
