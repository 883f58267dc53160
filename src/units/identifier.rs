//! Names as programming languages and shells have them.

/// Letters, digits and `_`, not beginning with a digit.
pub fn is_identifier(name: &str) -> bool {
    name.bytes().next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
