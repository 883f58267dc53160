//! The audit tests of the rules: what LoadGen is told in them, and whether what came out holds.

mod config;
mod lengths;
mod outputs;
mod verify;

#[cfg(test)]
mod tests;

pub use config::{Config, config};
pub use verify::{Verified, VerifyError, verify};
