//! LoadGen's settings: user.conf from a manifest's values, checked before LoadGen runs, because it ignores unknown keys.

mod check;
mod keys;
mod read;
mod settings;
mod text;

#[cfg(test)]
mod tests;

pub use check::check;
pub use keys::is_open_only;
pub use read::{ConfLine, read, review};
pub use settings::{MIN_DURATION_MS, REHEARSAL_DURATION_MS, TestSettings};
pub use text::{Conf, conf};
