//! Tests of `answer_fields`.
use super::*;

fn chunk(delta: &str, finish: &str) -> String {
    format!(
        concat!(
            r#"{{"id":"x","object":"chat.completion.chunk","choices":[{{"index":0,"delta":{delta},"#,
            r#""finish_reason":{finish}}}],"usage":null}}"#
        ),
        delta = delta,
        finish = finish
    )
}

/// What counts, and whether the choice has ended.
fn scan(text: &str) -> (Vec<ChunkTokens>, bool) {
    let seen = openai(text.as_bytes()).unwrap();
    (seen.chunks.each().collect(), seen.finish.is_some())
}

#[test]
fn a_role_is_no_token_and_a_token_without_text_is_one() {
    use ChunkTokens::{Closing, Empty, Text};
    assert_eq!(scan(&chunk(r#"{"role":"assistant","content":""}"#, "null")), (vec![], false));
    assert_eq!(scan(&chunk(r#"{"content":"a"}"#, "null")), (vec![Text], false));
    assert_eq!(scan(&chunk(r#"{"role":"assistant","content":"a"}"#, "null")), (vec![Text], false));
    assert_eq!(scan(&chunk(r#"{"content":""}"#, "null")), (vec![Empty], false));
    assert_eq!(scan(&chunk(r#"{"reasoning_content":"hm"}"#, "null")), (vec![Text], false));
    assert_eq!(scan(&chunk(r#"{"tool_calls":[{"index":0}]}"#, "null")), (vec![Text], false));
    assert_eq!(scan(&chunk("{}", r#""length""#)), (vec![Closing], true));
    assert_eq!(scan(&chunk(r#"{"content":""}"#, r#""stop""#)), (vec![Closing], true));
    assert_eq!(scan(&chunk(r#"{"content":"z"}"#, r#""length""#)), (vec![Text], true));
    assert_eq!(scan(&chunk(r#"{"content":"a"}"#, "\"\"")), (vec![Text], false));
    assert_eq!(scan(&chunk(r#"{"content":""}"#, "\"\"")), (vec![Empty], false));
    assert_eq!(scan(r#"{"choices":[{"text":" b","finish_reason":null}]}"#), (vec![Text], false));
    assert_eq!(scan(r#"{"choices":[{"text":"a"},{"text":"b"}]}"#), (vec![Text, Text], false));
}

/// Servers have other words for the usual reasons; a word of their own may say that the answer was cut.
#[test]
fn a_reason_that_is_not_known_is_kept_as_it_is_written() {
    let finish = |reason: &str| {
        let text = chunk(r#"{"content":"a"}"#, reason);
        let seen = openai(text.as_bytes()).unwrap();
        (seen.finish, seen.other_finish.map(|reason| String::from_utf8(reason.to_vec()).unwrap()))
    };
    let reason = "repetition_truncation";
    assert_eq!(finish(&format!("\"{reason}\"")), (Some(FinishReason::Other), Some(reason.to_owned())));
    for (reason, known) in [("model_length", FinishReason::Length), ("COMPLETE", FinishReason::Stop)] {
        assert_eq!(finish(&format!("\"{reason}\"")), (Some(known), None));
    }
    assert_eq!((finish("\"abort\""), finish("null")), ((Some(FinishReason::Abort), None), (None, None)));
}

#[test]
fn output_under_any_name_counts_and_what_is_said_beside_a_role_does_not() {
    use ChunkTokens::{Closing, Empty, Text};
    let chunks = |delta: &str| scan(&chunk(delta, "null")).0;
    assert_eq!(chunks(r#"{"function_call":{"name":"f","arguments":""}}"#), [Text]);
    assert_eq!(chunks(r#"{"role":"assistant","content":null,"function_call":{"name":"f","arguments":""}}"#), [Text]);
    assert_eq!(chunks(r#"{"content":[{"type":"text","text":"ab"}]}"#), [Text]);
    assert_eq!(chunks(r#"{"thinking":"ab"}"#), [Text]);
    assert_eq!(chunks(r#"{"content":"","thinking":{"text":"ab"}}"#), [Text]);
    assert!(chunks(r#"{"role":"assistant","content":"","name":"an assistant"}"#).is_empty());
    let nothing =
        r#"{"content":"","tool_calls":[ ],"function_call":null,"thinking":"","audio":{},"index":1,"x":false}"#;
    assert_eq!(chunks(nothing), [Empty]);
    assert_eq!(scan(&chunk(r#"{"tool_calls":[],"annotations":[]}"#, r#""stop""#)).0, [Closing]);
}

#[test]
fn ids_and_log_probabilities_say_how_many_tokens_a_chunk_has() {
    use ChunkTokens::{Closing, Exact};
    assert_eq!(scan(r#"{"choices":[{"text":"ab","token_ids":[1,2,3]}]}"#).0, [Exact(3)]);
    assert_eq!(scan(r#"{"choices":[{"text":"ab","logprobs":{"tokens":["a","b"]}}]}"#).0, [Exact(2)]);
    let chat = r#"{"choices":[{"delta":{"content":"ab"},"logprobs":{"content":[{"token":"a"},{"token":"b"}]}}]}"#;
    assert_eq!(scan(chat).0, [Exact(2)]);
    assert_eq!(scan(r#"{"choices":[{"text":"","token_ids":[],"finish_reason":"stop"}]}"#).0, [Closing]);
}

#[test]
fn usage_and_errors_are_found() {
    let seen = openai(
        br#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5,"x":{},"prompt_tokens_details":null}}"#,
    )
    .unwrap();
    assert_eq!(seen.usage, Some(Usage { prompt: Some(7), completion: Some(5), ..Usage::default() }));
    let cached =
        openai(br#"{"choices":[],"usage":{"prompt_tokens":7,"prompt_tokens_details":{"audio":0,"cached_tokens":6}}}"#);
    assert_eq!(cached.unwrap().usage.unwrap().cached, Some(6));
    let reasoning = openai(br#"{"usage":{"completion_tokens":8,"completion_tokens_details":{"reasoning_tokens":4}}}"#);
    assert_eq!(reasoning.unwrap().usage.unwrap().reasoning, Some(4));
    assert_eq!(seen.choices, 0);
    for (value, shown) in [("-1", "-1"), ("1.5", "1.5"), ("\"many\"", "\"many\""), ("1e30", "1e30"), ("[3]", "[3]")] {
        let text = format!(r#"{{"choices":[],"usage":{{"prompt_tokens":7,"completion_tokens":{value}}}}}"#);
        let seen = openai(text.as_bytes()).unwrap();
        assert_eq!(seen.malformed_usage, Some(("usage.completion_tokens", shown.as_bytes())), "{text}");
        assert_eq!(seen.usage, Some(Usage { prompt: Some(7), ..Usage::default() }), "{text}");
    }
    let text = |usage: &str| openai(format!(r#"{{"usage":{usage}}}"#).as_bytes()).unwrap().malformed_usage.is_some();
    assert!(text("\"many\"") && text("-1") && text("[]") && text(r#"{"prompt_tokens":-8}"#));
    assert!(
        !text("null") && !text("{}") && !text(r#"{"completion_tokens":null}"#) && !text(r#"{"prompt_tokens":"8"}"#)
    );
    let huge = openai(br#"{"choices":[],"usage":{"completion_tokens":99999999999999999999999}}"#).unwrap();
    assert_eq!(huge.usage.unwrap().completion, Some(u64::MAX));
    let error = |text: &str| openai(text.as_bytes()).unwrap().error.map(decode_json_string);
    assert_eq!(error(r#"{"error":{"message":"no \"room\"","code":429}}"#).unwrap(), r#"no "room""#);
    assert_eq!(error(r#"{"error":"busy"}"#).unwrap(), "busy");
    assert_eq!(error(r#"{"error":null}"#), None);
    let flat = r#"{"object":"error","message":"no \"room\"","type":"BadRequestError","code":400}"#;
    assert_eq!(error(flat).unwrap(), r#"no "room""#);
    assert_eq!(error(r#"{"text":"too much traffic","error_code":50002}"#).unwrap(), "too much traffic");
    assert_eq!(error(r#"{"object":"error"}"#).unwrap(), r#"{"object":"error"}"#);
    assert_eq!(error(r#"{"choices":[{"text":"a"}],"object":"text_completion","error_code":0}"#), None);
    let notice = |text: &str| openai(text.as_bytes()).unwrap().notice.map(decode_json_string);
    assert_eq!(notice(r#"{"detail":"Internal Server Error"}"#).unwrap(), "Internal Server Error");
    assert_eq!(notice(r#"{"detail":[{"msg":"no"}]}"#).unwrap(), r#"[{"msg":"no"}]"#);
    assert_eq!(notice(r#"{"message":null,"detail":"","choices":[]}"#), None);
    assert_eq!(notice(r#"{"choices":[{"text":"a"}],"message":"m"}"#), None);
    assert_eq!(notice(r#"{"message":"ok","usage":{"completion_tokens":40}}"#), None);
    assert!(openai(b"{\"choices\":[").is_err() && openai(b"no").is_err() && openai(b"{} {}").is_err());
}

#[test]
fn tritons_answers_have_texts_or_ids() {
    use ChunkTokens::{Empty, Exact, Text};
    let tokens = |text: &str| generate(text.as_bytes()).unwrap().chunks.each().collect::<Vec<_>>();
    assert_eq!(tokens(r#"{"model_name":"ensemble","text_output":" a"}"#), [Text]);
    assert_eq!(tokens(r#"{"text_output":""}"#), [Empty]);
    assert_eq!(tokens(r#"{"output_ids":[[5,6]],"sequence_length":2}"#), [Exact(2)]);
    assert_eq!(tokens(r#"{"output_ids":[5,6,2,2],"sequence_length":[2]}"#), [Exact(2)]);
    assert_eq!(tokens(r#"{"sequence_length":[[1,2]],"output_ids":[[5,2,2],[6,7,2]]}"#), [Exact(4)]);
    for (text, length) in [("-5", -5), ("2147483647", 2_147_483_647), ("1.5", i64::MAX), ("\"a\"", i64::MAX)] {
        let text = format!(r#"{{"output_ids":[5,6],"sequence_length":{text}}}"#);
        let seen = generate(text.as_bytes()).unwrap();
        assert_eq!((seen.chunks.exact, seen.not_a_length), (Some(2), Some(length)), "{text}");
    }
    assert_eq!(tokens(r#"{"output_ids":5,"text_output":"x"}"#), [Exact(1)]);
    assert_eq!(generate(br#"{"error":"no"}"#).unwrap().error, Some(&b"no"[..]));
}

#[test]
fn an_empty_error_beside_output_is_success() {
    for empty in ["null", "\"\"", "false", "0", "{}", "[]"] {
        let event = format!("{{\"choices\":[{{\"delta\":{{\"content\":\"a\"}}}}],\"error\":{empty}}}");
        let seen = openai(event.as_bytes()).unwrap();
        assert_eq!((seen.error, seen.chunks.texts), (None, 1), "{empty}");
    }
    for (error, text) in [
        ("\"busy\"", "busy"),
        ("{\"message\":\"busy\"}", "busy"),
        ("{\"message\":\"\",\"code\":5}", "{\"message\":\"\",\"code\":5}"),
        ("500", "500"),
        ("true", "true"),
    ] {
        let event = format!("{{\"error\":{error}}}");
        assert_eq!(openai(event.as_bytes()).unwrap().error, Some(text.as_bytes()), "{error}");
    }
}
