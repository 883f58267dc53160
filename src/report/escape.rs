//! Text from outside in HTML, SVG and XML.

/// Safe inside an element and inside a quoted attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Not allowed in a document at all, escaped or not.
            c if c.is_control() && c != '\n' => out.push('·'),
            c => out.push(c),
        }
    }
    out
}
