//! What a program lacks that was built without one of Cargo's features.

/// A feature of `Cargo.toml` that this program was built without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this program was built without `{0}`; build it with `--features {0}`")]
pub struct FeatureLeftOut(pub &'static str);
