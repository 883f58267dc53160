//! Reads and edits config.pbtxt: protobuf's text format of [`ModelConfig`].
//!
//! Covers the syntax and the schema only. What a value means to a server or to a backend is checked elsewhere.

mod document;
mod lex;
mod schema;
mod tree;
mod write;

use std::ops::Range;

use super::proto::inference::ModelConfig;
pub use document::{PbtxtDocument, PbtxtStep};
pub use lex::{PbtxtError, quoted};
pub use write::{json, message_json, write};

/// A `${name}` that was not replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfilledPlaceholder {
    pub name: String,
    pub bytes: Range<usize>,
}

/// Reads a config.pbtxt; an unfilled `${…}` is an error at every position.
pub fn read(text: &str) -> Result<ModelConfig, PbtxtError> {
    if let Some(unfilled) = unfilled(text).into_iter().next() {
        return Err(PbtxtError::new(
            text,
            unfilled.bytes,
            format!("the placeholder `{}` was never filled", unfilled.name),
            format!("give `{}` a value, or remove the line", unfilled.name),
        ));
    }
    read_as_server(text)
}

/// Reads a config.pbtxt as a server does: a `${…}` inside quotes is a legal text, outside it stops the parser.
pub fn read_as_server(text: &str) -> Result<ModelConfig, PbtxtError> {
    let (config, wrong) = PbtxtDocument::parse(text)?.config();
    wrong.into_iter().next().map_or(Ok(config), Err)
}

/// The part of a text that a byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PbtxtPlace {
    Unquoted,
    Quoted,
    Comment,
}

/// The place of a byte. Behind an error in the text everything counts as bare.
pub fn place_in(text: &str, byte: usize) -> PbtxtPlace {
    let mut lexer = lex::Lexer::new(text);
    loop {
        match lexer.next() {
            Ok((lex::PbtxtToken::Text(_), at)) if at.contains(&byte) => return PbtxtPlace::Quoted,
            Ok((lex::PbtxtToken::End, _)) => return PbtxtPlace::Comment,
            Ok((_, at)) if at.start > byte => return PbtxtPlace::Comment,
            Ok((_, at)) if at.contains(&byte) => return PbtxtPlace::Unquoted,
            Ok(_) => {}
            Err(_) => return PbtxtPlace::Unquoted,
        }
    }
}

/// Every `${name}` in the text, in order.
pub fn unfilled(text: &str) -> Vec<UnfilledPlaceholder> {
    let mut placeholders = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find("${").map(|at| from + at) {
        let name: String = text[start + 2..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let end = start + 2 + name.len();
        if !name.is_empty() && text[end..].starts_with('}') {
            placeholders.push(UnfilledPlaceholder { name, bytes: start..end + 1 });
        }
        from = end;
    }
    placeholders
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;
    use crate::proto::inference::{DataType, ModelParameter, ModelTransactionPolicy};

    #[test]
    fn a_config_is_read_with_its_types() {
        let config = read(
            r#"name: "m" backend: 'tensorrtllm' max_batch_size: 8
               model_transaction_policy { decoupled: true } # comment
               input [ { name: "x" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "y" data_type: TYPE_STRING dims: 1 } ]
               parameters: { key: "a" value: { string_value: "1" } }"#,
        )
        .unwrap();
        assert_eq!(config.max_batch_size, 8);
        assert_eq!(config.model_transaction_policy, Some(ModelTransactionPolicy { decoupled: true }));
        assert_eq!(config.input[0].data_type(), DataType::TypeInt32);
        assert_eq!(config.parameters["a"], ModelParameter { string_value: "1".to_owned() });
    }

    #[test]
    fn a_mistake_is_pointed_at() {
        let text = "name: \"m\"\nmax_batch_sise: 8\n";
        let error = read(text).unwrap_err();
        assert_eq!((error.line, error.column), (2, 1));
        assert_eq!(error.excerpt(text), "max_batch_sise: 8\n^^^^^^^^^^^^^^");
        assert!(error.message.contains("max_batch_sise"), "{error}");
    }

    #[test]
    fn an_unfilled_placeholder_is_an_error_with_its_place() {
        let text = "name: \"m\"\nmax_batch_size: ${triton_max_batch_size}\n";
        let error = read(text).unwrap_err();
        assert_eq!((error.line, error.column), (2, 17));
        assert!(error.message.contains("`triton_max_batch_size`"));
        let error = read_as_server(text).unwrap_err();
        assert_eq!((error.line, error.column), (2, 17));
    }

    #[test]
    fn a_server_takes_a_placeholder_inside_quotes() {
        let text = r#"parameters { key: "k" value: { string_value: "${guided_decoding_backend}" } }"#;
        assert!(read(text).is_err());
        assert_eq!(read_as_server(text).unwrap().parameters["k"].string_value, "${guided_decoding_backend}");
    }

    #[test]
    fn an_end_too_early_is_pointed_at_what_was_left_open() {
        let text = "input [ { name: \"x\"";
        assert_eq!(&text[read(text).unwrap_err().bytes], "{");
        let text = "name:";
        assert_eq!(read(text).unwrap_err().bytes, text.len()..text.len());
    }

    proptest! {
        #[test]
        fn any_text_survives_quoting(value in "\\PC*|[\\x00-\\x7f]*") {
            let text = format!("name: {}", quoted(&value));
            prop_assert_eq!(read_as_server(&text).unwrap().name, value);
        }

        #[test]
        fn no_text_makes_the_reader_crash(text in "[a-z_\\[\\]{}:,\"'#$0-9\\n -]{0,80}") {
            if let Err(error) = read(&text) {
                let _ = error.excerpt(&text);
            }
        }
    }
}
