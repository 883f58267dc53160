//! The audit tests of the rules: LoadGen's settings in them, and whether the results pass.

mod lengths;
mod outputs;
mod verify;

#[cfg(test)]
mod tests;

pub use outputs::{Test06Answers, test06_answers};
pub(super) use verify::NOT_JUDGED;
pub use verify::{AuditVerification, Test07Score, VerifyError, verify};
