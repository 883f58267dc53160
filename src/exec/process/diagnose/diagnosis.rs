//! What a diagnosis gives the user: a likely cause and a hint.

use super::log::Log;

/// Signs, lower case, and what to make of the line that contains one.
pub type Row = (&'static [&'static str], fn(&Log<'_>, &str) -> Diagnosis);

/// What a message in a log usually means, and what to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    pub cause: String,
    pub hint: String,
}

impl Diagnosis {
    pub(super) fn new(cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { cause: cause.into(), hint: hint.into() }
    }
}
