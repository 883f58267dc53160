//! What a server says of an error, as it goes into the record of a request.

/// Characters that are kept: records are many, and a server may send as much as a message holds.
const LONGEST: usize = 400;

/// The beginning of a server's text.
pub(crate) fn shortened(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(shortened(" no room \n"), "no room");
        assert_eq!(shortened(&"ü".repeat(LONGEST)), "ü".repeat(LONGEST));
        assert_eq!(shortened(&"ü".repeat(1 << 20)), "ü".repeat(LONGEST) + "…");
    }
}
