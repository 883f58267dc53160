//! LoadGen's settings: user.conf from a manifest's values, checked before LoadGen runs, because it ignores unknown
//! keys.

mod check;
mod settings;

#[cfg(test)]
mod tests;

pub use check::check;
pub use settings::is_open_only;
pub use settings::{Conf, conf};
pub use settings::{ConfLine, read, review};
pub use settings::{MIN_DURATION_MS, REHEARSAL_DURATION_MS, TestSettings};
