//! An error in no file: what is wrong, and what to try.

use std::fmt::{self, Display, Formatter};

/// What is wrong, as a lower-case fragment, and hints: what to try. Its text is the one place in which hints of such errors are
/// laid out: each on a line of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorText {
    pub message: String,
    pub hints: Vec<String>,
}

impl ErrorText {
    pub fn new(message: impl Display) -> Self {
        Self { message: message.to_string(), hints: Vec::new() }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Display) -> Self {
        self.hints.push(hint.to_string());
        self
    }

    #[must_use]
    pub fn maybe_hint(mut self, hint: Option<impl Display>) -> Self {
        self.hints.extend(hint.map(|hint| hint.to_string()));
        self
    }
}

impl Display for ErrorText {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hints.iter().try_for_each(|hint| write!(f, "\n  hint: {hint}"))
    }
}

impl std::error::Error for ErrorText {}

impl From<ErrorText> for String {
    fn from(error: ErrorText) -> Self {
        error.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_have_lines_of_their_own() {
        let error = ErrorText::new("the shared store has an empty name");
        assert_eq!(error.to_string(), "the shared store has an empty name");
        let hinted = error.hint("write a path").maybe_hint(None::<&str>).maybe_hint(Some("or a URL"));
        assert_eq!(String::from(hinted), "the shared store has an empty name\n  hint: write a path\n  hint: or a URL");
    }
}
