//! What a listing of a store has of each object.

use std::time::Duration;

/// One object, as a listing has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedObject {
    pub name: String,
    pub size: u64,
    /// Since it was written.
    pub age: Duration,
}

/// In a folder only: what is being written.
pub(super) const TEMPORARY: &str = "regatta-1/tmp";
