//! LoadGen's settings: user.conf from a manifest's words, checked before LoadGen, which ignores what it does not know.

mod check;
mod keys;
mod read;
mod settings;
mod text;

#[cfg(test)]
mod tests;

pub use check::check;
pub use read::{ConfLine, read, review};
pub use settings::{MIN_DURATION_MS, REHEARSAL_DURATION_MS, TestSettings};
pub use text::{Conf, conf};
