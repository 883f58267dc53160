//! Files that are only caches: a BLAKE3 digest, then postcard. One that was cut off or altered is as good as absent.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::durable::{PathError, replace_cache};
use crate::event::Digest;

/// Bytes of the digest.
const SEAL: usize = 32;

pub(super) fn write(path: &Path, value: &impl Serialize) -> Result<(), PathError> {
    // The seal's place, then the body: a large one is not copied.
    let mut bytes = postcard::to_extend(value, vec![0; SEAL]).unwrap_or_else(|_| vec![0; SEAL]);
    let seal = Digest::of(&bytes[SEAL..]);
    bytes[..SEAL].copy_from_slice(seal.bytes());
    replace_cache(path, &bytes)
}

/// `None` for what is not there, and for anything odd about it.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let bytes = fs::read(path).ok()?;
    let (seal, body) = bytes.split_at_checked(SEAL)?;
    if Digest::of(body).bytes() != seal {
        return None;
    }
    postcard::from_bytes(body).ok()
}

/// The digest that the file begins with, unchecked.
pub(super) fn digest(path: &Path) -> Option<Digest> {
    let mut seal = [0; SEAL];
    File::open(path).ok()?.read_exact(&mut seal).ok()?;
    Some(Digest::from_bytes(seal))
}
