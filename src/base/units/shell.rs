//! Arguments as a shell reads them.

/// One argument for `sh`: quoted only where it must be. In single quotes whatever it contains, which is easier to read than
/// the mixture of quotes that `shlex` chooses.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
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
