//! Panics of libraries that read what comes from elsewhere: each is an error of what was read, and no fault of this
//! program.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

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
