//! An error in no file: what is wrong, and what to try.

use std::error::Error;
use std::fmt::{self, Display, Formatter};

/// What is wrong, as a lower-case fragment, and hints: what to try. Its text is the one place in which hints of such
/// errors are laid out: each on a line of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorText {
    pub message: String,
    pub hints: Vec<String>,
}

impl ErrorText {
    pub fn new(message: impl Display) -> Self {
        Self { message: message.to_string(), hints: Vec::new() }
    }

    /// An empty text means no hint: some errors have a hint only in certain cases.
    #[must_use]
    pub fn hint(mut self, hint: impl Display) -> Self {
        self.hints.extend(Some(hint.to_string()).filter(|hint| !hint.is_empty()));
        self
    }

    #[must_use]
    pub fn maybe_hint(self, hint: Option<impl Display>) -> Self {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }
}

impl Display for ErrorText {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hints.iter().try_for_each(|hint| {
            writeln!(f)?;
            write!(f, "  hint: {hint}")
        })
    }
}

impl std::error::Error for ErrorText {}

impl From<ErrorText> for String {
    fn from(error: ErrorText) -> Self {
        error.to_string()
    }
}

// An error with its causes on one line.

/// `transport error: connection refused`: the error, then its causes, without those whose text is there already.
pub fn error_chain(error: &dyn Error) -> String {
    with_causes(error.to_string(), error)
}

/// As [`error_chain`], with another text for the error itself. Where that is empty, the first cause begins the line.
pub fn with_causes(mut text: String, error: &dyn Error) -> String {
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if text.is_empty() {
            text = more;
        } else if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    text
}

/// A feature of `Cargo.toml` that this program was built without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this program was built without `{0}`; build it with `--features {0}`")]
pub struct FeatureLeftOut(pub &'static str);

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn hints_have_lines_of_their_own() {
        let error = ErrorText::new("the shared store has an empty name");
        assert_eq!(error.to_string(), "the shared store has an empty name");
        let hinted = error.hint("write a path").hint("").maybe_hint(None::<&str>).maybe_hint(Some("or a URL"));
        let lines = ["the shared store has an empty name", "  hint: write a path", "  hint: or a URL"];
        assert_eq!(String::from(hinted), lines.join("\n"));
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Outer {
        text: &'static str,
        source: io::Error,
    }

    #[test]
    fn each_cause_stands_once() {
        let outer = |text| Outer { text, source: io::Error::other("refused") };
        assert_eq!(error_chain(&outer("transport error")), "transport error: refused");
        assert_eq!(error_chain(&outer("connection refused")), "connection refused");
        assert_eq!(with_causes(String::new(), &outer("with an address")), "refused");
    }
}
