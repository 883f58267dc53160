//! Whether a JSON file was written to its end.

use std::path::Path;

use serde::de::IgnoredAny;

use super::read_bytes;

/// Whether it is there and holds JSON. One that was being written when its process was killed does not.
pub fn is_whole_json(path: &Path) -> bool {
    read_bytes(path).is_ok_and(|text| serde_json::from_slice::<IgnoredAny>(&text).is_ok())
}
