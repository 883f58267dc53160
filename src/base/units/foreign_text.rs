//! Text from elsewhere that does more than to be read: in a terminal or a browser, and in a spreadsheet.

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
    use super::*;

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
