//! The text of a client's error, safe to show.

use base::diag::error_chain;

/// An error with all its causes, on one line, without what stands behind a `?` in an address: signatures and tokens do.
pub(super) fn error_chain_text(error: &dyn std::error::Error) -> String {
    let text = plain(&error_chain(error));
    // The text before it is the request, with an address that is of no use to the user.
    let cause = text.rsplit_once(" - ").map_or(text.as_str(), |(_, cause)| cause);
    cause.trim_end_matches(':').to_owned()
}

fn plain(text: &str) -> String {
    const LONGEST: usize = 400;
    let mut out = String::new();
    for word in text.split_whitespace() {
        let word = match word.split_once('?') {
            Some((place, _)) if place.contains("://") => format!("{place}?…"),
            _ => word.to_owned(),
        };
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&word);
    }
    if out.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|at| out.is_char_boundary(*at)).unwrap_or(0);
        out.truncate(end);
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_and_holds_no_signature() {
        let text = plain("error sending\nrequest for url (https://a.example/c/x?sv=1&sig=SECRET)  [500]");
        assert_eq!(text, "error sending request for url (https://a.example/c/x?… [500]");
        assert!(plain(&"x".repeat(9999)).len() < 500);
    }
}
