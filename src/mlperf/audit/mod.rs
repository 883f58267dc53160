//! The audit tests of the rules: LoadGen's settings in them, and whether the results pass.

mod verify;

#[cfg(test)]
mod tests;

pub(super) use verify::NOT_JUDGED;
pub use verify::{AuditVerification, Test06Answers, Test07Score, VerifyError, test06_answers, verify};
