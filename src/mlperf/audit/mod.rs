//! The audit tests of the rules: what LoadGen is told in them, and whether what came out holds.

mod config;

pub use config::{Config, config};
