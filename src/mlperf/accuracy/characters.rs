//! Which characters end a sentence, stand outside words, or are spaces, as Python and NLTK decide it.

/// A text without the spaces at its ends, as Python takes them off.
pub fn stripped(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Python's `str.isspace`.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

pub(super) fn is_end(c: char) -> bool {
    matches!(c, '.' | '?' | '!')
}

pub(super) fn is_outside_words(c: char) -> bool {
    matches!(c, ')' | '"' | ';' | '}' | ']' | '*' | ':' | '@' | '\'' | '(' | '{' | '[' | '?' | '!')
}
