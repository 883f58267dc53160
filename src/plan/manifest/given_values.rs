//! Values from outside a manifest.

use std::collections::BTreeMap;

/// What the user gave from outside: `key=value` in order (the last one wins; a key with dots is a place, see `overrides`)
/// and the environment.
#[derive(Clone, Debug, Default)]
pub struct GivenValues {
    pub params: Vec<(String, String)>,
    pub env: BTreeMap<String, String>,
}
