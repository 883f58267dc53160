//! Names as programming languages and shells have them.

/// Letters, digits and `_`, not beginning with a digit.
pub fn is_identifier(name: &str) -> bool {
    name.bytes().next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether expressions of a manifest use this name themselves, so that nothing else may have it.
pub fn is_reserved_name(name: &str) -> bool {
    let words = ["stages", "inputs", "true", "false", "none", "not", "and", "or", "if", "else", "in", "is", "loop"];
    words.contains(&name)
}
