//! LoadGen's settings: user.conf from a manifest's values, checked before LoadGen runs, because it ignores unknown
//! keys.

mod check;
mod settings;

#[cfg(test)]
mod tests;

pub use check::check;
pub use settings::{
    Conf, ConfLine, MIN_DURATION_MS, REHEARSAL_DURATION_MS, TestSettings, conf, is_open_only, read, review,
};
