//! An error with its causes on one line.

use std::error::Error;

/// `transport error: connection refused`: the error, then its causes, without those whose text is there already.
pub fn error_chain(error: &dyn Error) -> String {
    with_causes(error.to_string(), error)
}

/// As [`error_chain`], with another text for the error itself. Where that is empty, the first cause begins the line.
pub fn with_causes(mut text: String, error: &dyn Error) -> String {
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if text.is_empty() {
            text = more;
        } else if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Outer {
        text: &'static str,
        source: io::Error,
    }

    #[test]
    fn each_cause_stands_once() {
        let outer = |text| Outer { text, source: io::Error::other("refused") };
        assert_eq!(error_chain(&outer("transport error")), "transport error: refused");
        assert_eq!(error_chain(&outer("connection refused")), "connection refused");
        assert_eq!(with_causes(String::new(), &outer("with an address")), "refused");
    }
}
