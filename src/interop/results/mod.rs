//! What result files of several tools have in common: numbers and requests that were read, a file to write, what was measured on.

pub(super) mod exported;
pub(super) mod identity;
pub(super) mod import_identity;
pub(super) mod imported;

pub use exported::{ExportFile, Exported};
pub use import_identity::ImportIdentity;
