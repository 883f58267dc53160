//! Texts for other programs and from them: arguments of a shell, identifiers, JSON values, cells of CSV files.

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

// Text from elsewhere that does more than to be read: in a terminal or a browser, and in a spreadsheet.

/// Whether a character is not shown as itself: control characters, and those that hide text or turn it around.
pub fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A field of `/etc/os-release`, empty where it has none: os-release(5).
pub fn os_release_field<'t>(text: &'t str, name: &str) -> &'t str {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    line.unwrap_or_default().trim_matches(['"', '\''])
}

/// A cell of a CSV file, quoted where it must be. A text that a spreadsheet would take for a formula begins with `'`.
pub fn csv_cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    let shown = text.chars().map(|c| if is_invisible(c) && !"\t\r\n".contains(c) { '·' } else { c });
    let text: String = is_formula.then_some('\'').into_iter().chain(shown).collect();
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
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

    #[test]
    fn a_cell_is_no_formula() {
        let cells = ["=1+1", "+a", "-2.5", "-a", "@SUM(A1)", "a,b", "say \"x\"", "=a,b", "plain"].map(csv_cell);
        let expected =
            ["'=1+1", "'+a", "-2.5", "'-a", "'@SUM(A1)", "\"a,b\"", "\"say \"\"x\"\"\"", "\"'=a,b\"", "plain"];
        assert_eq!(cells, expected);
    }

    #[test]
    fn marks_that_turn_or_hide_text_are_invisible_and_letters_are_not() {
        assert!("\u{202e}\u{2066}\u{200b}\u{feff}\u{ad}\u{e0041}\u{7}".chars().all(is_invisible));
        assert!(!"aäשا漢 ·→✓".chars().any(is_invisible));
    }
}
