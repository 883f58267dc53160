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

// "Did you mean": the known name nearest to one that is not known.

thread_local! {
    /// Names that this thread may still compare: a file with thousands of unknown names, each among thousands of known
    /// ones, takes no minutes.
    static COMPARISONS: Cell<usize> = const { Cell::new(200_000) };
}

/// Whether this thread may still suggest names. To be asked before thousands of names are collected for a suggestion.
pub fn may_suggest() -> bool {
    COMPARISONS.get() > 0
}

/// The nearest known name, if one is near enough to be a typing error. Never the word itself.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    let length = word.chars().count();
    let allowed = (length / 3).max(1);
    let mut best: Option<((usize, usize), &str)> = None;
    for name in known.into_iter().filter(|name| *name != word) {
        let remaining = COMPARISONS.get().checked_sub(1)?;
        COMPARISONS.set(remaining);
        // A long name cut short ("tensor_parallel") is as good as one letter missed, but worse than a real typing
        // error.
        let short = length >= 3 && (name.starts_with(&*lower) || lower.starts_with(name) && name.len() >= 3);
        let missing = name.chars().count().abs_diff(length);
        if missing > allowed && !short {
            // At least this many edits: a long text is not compared letter by letter with each name.
            continue;
        }
        let edits = if short { missing } else { strsim::damerau_levenshtein(&lower, &name.to_lowercase()) };
        let distance = if short { edits.min(allowed) } else { edits };
        if distance <= allowed && distance < length && best.is_none_or(|(least, _)| (distance, edits) < least) {
            best = Some(((distance, edits), name));
        }
    }
    best.map(|(_, name)| name)
}

/// `did you mean `x`?`, or a list of all names, or nothing where the list is empty or no comparison is left. A letter
/// of another alphabet is named, because it can look the same.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str, IntoIter: Clone>) -> Option<String> {
    if !may_suggest() {
        return None;
    }
    let candidates = known.into_iter();
    if let Some(name) = nearest(word, candidates.clone()) {
        let foreign = word.chars().find(|letter| !letter.is_ascii() && !name.contains(*letter));
        let letter = foreign.map(|letter| format!(" The `{letter}` is U+{:04X}", u32::from(letter)));
        return Some(format!("did you mean `{name}`?{}", letter.unwrap_or_default()));
    }
    let names = list_of(candidates);
    (!names.is_empty()).then(|| format!("there is: {names}"))
}

/// `` `a`, `b`, `c` ``, shortened when there are very many.
pub fn list_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const MOST: usize = 24;
    let mut names = names.into_iter();
    let mut shown: Vec<String> = names.by_ref().take(MOST).map(|name| format!("`{name}`")).collect();
    let more = names.count();
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    shown.join(", ")
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

    #[test]
    fn the_nearest_wins_and_the_far_is_silent() {
        let names = ["max_batch_size", "max_num_tokens", "when"];
        assert_eq!(nearest("max_bach_size", names), Some("max_batch_size"));
        assert_eq!(nearest("wehn", names), Some("when"));
        assert_eq!(nearest("color", names), None);
        assert_eq!(nearest("when", names), None);
        // The first letter is Cyrillic.
        assert_eq!(did_you_mean("аll", ["all"]), Some("did you mean `all`? The `а` is U+0430".to_owned()));
        assert_eq!(did_you_mean("when", ["when"]), Some("there is: `when`".to_owned()));
    }

    #[test]
    fn a_very_long_text_is_near_to_nothing_and_not_compared() {
        let long = "ab_".repeat(1 << 20);
        assert_eq!(nearest(&long, ["ab_c", "max_batch_size"]), None);
        assert_eq!(nearest("max_batch_size_", ["max_batch_size"]), Some("max_batch_size"));
    }

    #[test]
    fn thousands_of_unknown_names_take_no_minutes() {
        let names: Vec<String> = (0..10_000).map(|n| format!("stage_number_{n}")).collect();
        assert!(nearest("stage_numbr_1", names.iter().map(String::as_str)).is_some());
        let begun = std::time::Instant::now();
        for n in 0..10_000 {
            let _ = nearest(&format!("stage_numbr_{n}"), names.iter().map(String::as_str));
        }
        assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
        assert_eq!(nearest("wehn", ["when"]), None, "no comparison is left");
        assert!(!may_suggest());
        assert_eq!(did_you_mean("wehn", ["when"]), None, "a list of all names for each takes as long");
    }

    #[test]
    fn many_names_are_cut() {
        let names: Vec<String> = (0..30).map(|n| n.to_string()).collect();
        assert!(list_of(names.iter().map(String::as_str)).ends_with("`23`, and 6 more"));
    }
}
