//! Texts as literals of the format.

/// A text as a literal of the format, quotes included.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Octal is the format's only escape of a fixed length.
            c if c.is_control() && c.is_ascii() => out.extend(octal(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// `\ooo` of an ASCII character.
pub(super) fn octal(c: char) -> [char; 4] {
    let digit = |shift: u32| char::from(b'0' + ((c as u32 >> shift) & 7) as u8);
    ['\\', digit(6), digit(3), digit(0)]
}
