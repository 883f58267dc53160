//! What a panic says.

use std::any::Any;

/// Its message, if it has one.
pub fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("it panicked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_text_is_that_of_the_panic() {
        assert_eq!(panic_text(&"a"), "a");
        assert_eq!(panic_text(&"b".to_owned()), "b");
        assert_eq!(panic_text(&3_u8), "it panicked");
    }
}
