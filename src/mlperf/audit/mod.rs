//! The audit tests of the rules: LoadGen's settings in them, and whether the results pass.

mod config;
mod lengths;
mod outputs;
mod verify;

#[cfg(test)]
mod tests;

pub use config::{Config, config};
pub use outputs::{Test06Answers, test06_answers};
pub use verify::{AuditVerification, VerifyError, verify};
