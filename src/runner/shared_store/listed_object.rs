//! What a listing of a store has of each object.

use std::time::Duration;

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
