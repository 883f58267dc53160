//! The whole answer, put together from its events: only where it becomes part of a later prompt.

use serde_json::Value;

use crate::harness::schedule::data::Prompt;

/// Ids where a server sends ids, else text. Events that are not understood are skipped.
pub(in crate::harness) fn prompt_from_events(events: &[Vec<u8>]) -> Prompt {
    let (mut text, mut ids) = (String::new(), Vec::new());
    for event in events.iter().filter_map(|event| serde_json::from_slice::<Value>(event).ok()) {
        let choice = &event["choices"][0];
        let pieces =
            [&event["text_output"], &choice["text"], &choice["delta"]["content"], &choice["message"]["content"]];
        text.extend(pieces.into_iter().filter_map(Value::as_str));
        let tokens = match &event["output_ids"] {
            Value::Array(tokens) => tokens.iter().filter_map(Value::as_i64).collect(),
            token => token.as_i64().into_iter().collect::<Vec<i64>>(),
        };
        ids.extend(tokens.into_iter().map(|id| id as i32));
    }
    if ids.is_empty() { Prompt::Text(text) } else { Prompt::Ids(ids) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_every_interface_make_one_answer() {
        let events = |all: &[&str]| all.iter().map(|event| event.as_bytes().to_vec()).collect::<Vec<_>>();
        let chat = events(&[
            r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"choices":[{"delta":{"content":"Hel"}}]}"#,
            r#"{"choices":[{"delta":{"content":"lo"},"finish_reason":"stop"}]}"#,
            r#"{"choices":[],"usage":{"completion_tokens":2}}"#,
        ]);
        assert_eq!(prompt_from_events(&chat), Prompt::Text("Hello".to_owned()));
        assert_eq!(prompt_from_events(&events(&[r#"{"choices":[{"text":"a b"}]}"#])), Prompt::Text("a b".to_owned()));
        assert_eq!(prompt_from_events(&events(&[r#"{"text_output":"x"}"#, "not json"])), Prompt::Text("x".to_owned()));
        assert_eq!(
            prompt_from_events(&events(&[r#"{"output_ids":[5,6]}"#, r#"{"output_ids":7}"#])),
            Prompt::Ids(vec![5, 6, 7])
        );
    }
}
