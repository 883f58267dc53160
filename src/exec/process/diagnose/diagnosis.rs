//! What a diagnosis gives the user: a likely cause and a hint.

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
