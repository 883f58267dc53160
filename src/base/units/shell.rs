//! Arguments as a shell reads them, identifiers, and JSON values as a user types them.

use serde_json::Value;

/// One argument for `sh`: quoted only where it must be. In single quotes whatever it contains, which is easier to read
/// than the mixture of quotes that `shlex` chooses.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The line of `regatta run` that makes a run again: its manifest's name or path, and `KEY=VALUE` arguments.
pub fn run_command<'a>(arguments: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = ["regatta", "run"].into_iter().chain(arguments).map(shell_word).collect();
    words.join(" ")
}

// Names as programming languages and shells have them.

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

// JSON values as a user types them.

/// A text without its quotes; everything else as JSON.
pub fn unquoted(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_what_a_shell_would_change_is_quoted() {
        assert_eq!(shell_word("--rate=20"), "--rate=20");
        assert_eq!(shell_word("two words"), "'two words'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("$HOME"), "'$HOME'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }

    proptest! {
        #[test]
        fn a_shell_reads_back_what_was_quoted(words in prop::collection::vec("[^\\x00]{0,12}", 1..5)) {
            let line = words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(shlex::split(&line), Some(words));
        }
    }
}
