//! An error in no file: what is wrong, and what to try. Panics of libraries that read what comes from elsewhere are
//! errors, too: of what was read, and no fault of this program.

use std::any::Any;
use std::cell::Cell;
use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

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

/// An error at a file or folder: `PATH: error`.
pub fn in_file<E: Display>(path: &Path) -> impl Fn(E) -> ErrorText + Copy {
    move |error| ErrorText::new(format_args!("{}: {error}", path.display()))
}

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

thread_local! {
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// A library panicked at its input.
#[derive(Debug, thiserror::Error)]
#[error("the library that reads it failed: {0}")]
pub struct LibraryPanic(String);

/// The work of a library, on this thread.
///
/// # Errors
/// It panicked. Everything that it may have left half changed is to be dropped.
pub fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, LibraryPanic> {
    let outer = IS_CAUGHT.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(outer);
    done.map_err(|panic| LibraryPanic(panic_text(&*panic).to_owned()))
}

/// Whether a panic on this thread would be caught, and become an error: nothing else needs to report it.
pub fn is_panic_caught() -> bool {
    IS_CAUGHT.get()
}

/// Its text, from what it carries.
pub fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a text")
}

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

#[cfg(test)]
mod caught_panic_tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_and_only_within_the_work_it_is_caught() {
        assert_eq!(catch_panic(|| 3).unwrap(), 3);
        let error = catch_panic(|| {
            assert!(is_panic_caught());
            let inner = catch_panic(|| panic!("inner")).unwrap_err();
            assert!(is_panic_caught());
            panic!("after {inner}")
        });
        let text = error.map(|never: ()| never).unwrap_err().to_string();
        assert_eq!(text, "the library that reads it failed: after the library that reads it failed: inner");
        assert!(!is_panic_caught());
    }

    #[test]
    fn its_text_is_that_of_the_panic() {
        assert_eq!(panic_text(&"a"), "a");
        assert_eq!(panic_text(&"b".to_owned()), "b");
        assert_eq!(panic_text(&3_u8), "a panic without a text");
    }
}
