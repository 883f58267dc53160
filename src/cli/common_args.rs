//! Arguments that several commands have.

use clap::{Args, ValueHint};

use super::key_value_arg::KeyValueArg;

/// The heading of options that choose stages.
pub(super) const CHOICE: &str = "Stage selection";
/// The heading of options that say how a command works.
pub(super) const HOW: &str = "Settings";

#[derive(Debug, Args)]
pub(super) struct Subject {
    /// A manifest's name (`regatta list`) or a path to its file.
    #[arg(value_name = "MANIFEST", value_hint = ValueHint::FilePath)]
    pub manifest: String,
    /// Parameters of the manifest.
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<KeyValueArg>,
}
