//! What one answer or one event of it says, found without building it in memory.

use serde::{Deserialize, Serialize};

use super::json::{Json, NotJson};

/// Tokens as the server counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub prompt: Option<u64>,
    pub completion: Option<u64>,
}

/// One event, or one whole answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen<'a> {
    /// The server's own words, as written in JSON.
    pub error: Option<&'a [u8]>,
    /// Texts with something in them, one for each choice; or token ids.
    pub tokens: u32,
    /// The tokens are ids, so there are exactly so many.
    pub are_ids: bool,
    /// A text without anything in it: a token whose text is held back, or the end.
    pub has_empty: bool,
    /// A choice has ended.
    pub is_finished: bool,
    pub usage: Option<Usage>,
    /// There are choices, or outputs: more than an account of usage.
    pub has_choices: bool,
}

/// `chat.completion`, `chat.completion.chunk`, `text_completion`.
pub(super) fn openai(text: &[u8]) -> Result<Seen<'_>, NotJson> {
    let mut seen = Seen::default();
    let mut json = Json::new(text);
    json.object(|key, it| match key {
        b"choices" if it.peek() == Some(b'[') => it.array(|it| {
            seen.has_choices = true;
            choice(it, &mut seen)
        }),
        b"usage" if it.peek() == Some(b'{') => {
            let mut usage = Usage::default();
            it.object(|key, it| {
                match key {
                    b"prompt_tokens" => usage.prompt = it.number()?,
                    b"completion_tokens" => usage.completion = it.number()?,
                    _ => it.skip()?,
                }
                Ok(())
            })?;
            seen.usage = Some(usage);
            Ok(())
        }
        b"error" => error(it, &mut seen),
        _ => it.skip(),
    })?;
    json.end()?;
    Ok(seen)
}

fn choice<'a>(it: &mut Json<'a>, seen: &mut Seen<'a>) -> Result<(), NotJson> {
    let (mut has_text, mut has_empty, mut has_role, mut is_finished) = (false, false, false, false);
    it.object(|key, it| {
        match key {
            b"text" => note(it.text()?, &mut has_text, &mut has_empty),
            b"delta" | b"message" if it.peek() == Some(b'{') => it.object(|key, it| {
                match key {
                    b"role" => has_role = it.text()?.is_some(),
                    // Reasoning is generated like everything else; servers disagree on its name.
                    b"content" | b"reasoning_content" | b"reasoning" | b"refusal" => {
                        note(it.text()?, &mut has_text, &mut has_empty);
                    }
                    b"tool_calls" if it.peek() == Some(b'[') => {
                        it.array(|it| {
                            has_text = true;
                            it.skip()
                        })?;
                    }
                    _ => it.skip()?,
                }
                Ok(())
            })?,
            b"finish_reason" => is_finished = it.text()?.is_some(),
            _ => it.skip()?,
        }
        Ok(())
    })?;
    seen.is_finished |= is_finished;
    if has_text {
        seen.tokens += 1;
    } else if has_empty && !has_role && !is_finished {
        // Neither the greeting nor the farewell: a token without text of its own.
        seen.has_empty = true;
        seen.tokens += 1;
    }
    Ok(())
}

fn note(text: Option<&[u8]>, has_text: &mut bool, has_empty: &mut bool) {
    match text {
        Some(b"") => *has_empty = true,
        Some(_) => *has_text = true,
        None => {}
    }
}

/// An answer of Triton's generate extension.
pub(super) fn generate(text: &[u8]) -> Result<Seen<'_>, NotJson> {
    let mut seen = Seen::default();
    let mut json = Json::new(text);
    json.object(|key, it| match key {
        b"output_ids" => {
            seen.has_choices = true;
            seen.are_ids = true;
            let mut count = 0;
            leaves(it, &mut count)?;
            seen.tokens = count;
            Ok(())
        }
        b"text_output" => {
            seen.has_choices = true;
            if seen.are_ids {
                return it.skip();
            }
            let is_empty = matches!(it.raw()?, b"\"\"" | b"[]" | b"[\"\"]");
            seen.has_empty = is_empty;
            seen.tokens = 1;
            Ok(())
        }
        b"error" => error(it, &mut seen),
        _ => it.skip(),
    })?;
    json.end()?;
    Ok(seen)
}

/// Numbers in lists of lists.
fn leaves(it: &mut Json<'_>, count: &mut u32) -> Result<(), NotJson> {
    if it.peek() == Some(b'[') {
        return it.array(|it| leaves(it, count));
    }
    *count += 1;
    it.skip()
}

/// `"error": "text"` or `"error": {"message": "text", …}`; null is none.
fn error<'a>(it: &mut Json<'a>, seen: &mut Seen<'a>) -> Result<(), NotJson> {
    match it.peek() {
        Some(b'{') => {
            let whole = it.clone().raw()?;
            seen.error = Some(whole);
            it.object(|key, it| match key {
                b"message" => {
                    if let Some(text) = it.text()? {
                        seen.error = Some(text);
                    }
                    Ok(())
                }
                _ => it.skip(),
            })
        }
        Some(b'"') => {
            seen.error = Some(it.string()?);
            Ok(())
        }
        _ => {
            let word = it.raw()?;
            if word != b"null" {
                seen.error = Some(word);
            }
            Ok(())
        }
    }
}

/// A text as written in JSON, for people.
pub(super) fn plain(raw: &[u8]) -> String {
    const LONGEST: usize = 400;
    let quoted = [b"\"", raw, b"\""].concat();
    let text = serde_json::from_slice(&quoted).unwrap_or_else(|_| String::from_utf8_lossy(raw).into_owned());
    let text = text.trim();
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(delta: &str, finish: &str) -> String {
        format!(
            r#"{{"id":"x","object":"chat.completion.chunk","choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}],"usage":null}}"#
        )
    }

    /// Tokens, whether one of them has no text, whether it is finished.
    fn heard(text: &str) -> (u32, bool, bool) {
        let seen = openai(text.as_bytes()).unwrap();
        (seen.tokens, seen.has_empty, seen.is_finished)
    }

    #[test]
    fn a_role_is_no_token_and_a_token_without_text_is_one() {
        assert_eq!(heard(&chunk(r#"{"role":"assistant","content":""}"#, "null")), (0, false, false));
        assert_eq!(heard(&chunk(r#"{"content":"a"}"#, "null")), (1, false, false));
        assert_eq!(heard(&chunk(r#"{"role":"assistant","content":"a"}"#, "null")), (1, false, false));
        assert_eq!(heard(&chunk(r#"{"content":""}"#, "null")), (1, true, false));
        assert_eq!(heard(&chunk(r#"{"reasoning_content":"hm"}"#, "null")), (1, false, false));
        assert_eq!(heard(&chunk(r#"{"tool_calls":[{"index":0}]}"#, "null")), (1, false, false));
        assert_eq!(heard(&chunk("{}", r#""length""#)), (0, false, true));
        assert_eq!(heard(&chunk(r#"{"content":""}"#, r#""stop""#)), (0, false, true));
        assert_eq!(heard(&chunk(r#"{"content":"z"}"#, r#""length""#)), (1, false, true));
        assert_eq!(heard(r#"{"choices":[{"text":" b","finish_reason":null}]}"#), (1, false, false));
        assert_eq!(heard(r#"{"choices":[{"text":"a"},{"text":"b"}]}"#), (2, false, false));
    }

    #[test]
    fn usage_and_errors_are_found() {
        let seen = openai(br#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5,"x":{}}}"#).unwrap();
        assert_eq!(seen.usage, Some(Usage { prompt: Some(7), completion: Some(5) }));
        assert!(!seen.has_choices);
        let error = |text: &str| openai(text.as_bytes()).unwrap().error.map(plain);
        assert_eq!(error(r#"{"error":{"message":"no \"room\"","code":429}}"#).unwrap(), r#"no "room""#);
        assert_eq!(error(r#"{"error":"busy"}"#).unwrap(), "busy");
        assert_eq!(error(r#"{"error":null}"#), None);
        assert!(openai(b"{\"choices\":[").is_err() && openai(b"no").is_err() && openai(b"{} {}").is_err());
    }

    #[test]
    fn tritons_answers_have_texts_or_ids() {
        let of = |text: &str| {
            let seen = generate(text.as_bytes()).unwrap();
            (seen.tokens, seen.are_ids, seen.has_empty)
        };
        assert_eq!(of(r#"{"model_name":"ensemble","text_output":" a"}"#), (1, false, false));
        assert_eq!(of(r#"{"text_output":""}"#), (1, false, true));
        assert_eq!(of(r#"{"output_ids":[[5,6]],"sequence_length":2}"#), (2, true, false));
        assert_eq!(of(r#"{"output_ids":5,"text_output":"x"}"#), (1, true, false));
        assert_eq!(generate(br#"{"error":"no"}"#).unwrap().error, Some(&b"no"[..]));
    }
}
