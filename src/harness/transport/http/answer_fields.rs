//! The fields of one answer or of one event of it, found without building it in memory.

use super::json::{Json, NotJson};
use crate::spec::response_bounds::shortened;
use crate::tokens::{ChunkTokens, FinishReason, Usage};
use base::spec::UnmeasuredProtocol;

/// One event, or one whole answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ScannedEvent<'a> {
    /// The server's error message, as written in JSON.
    pub error: Option<&'a [u8]>,
    /// A message without output. It may be about progress, or why the answer breaks off.
    pub notice: Option<&'a [u8]>,
    /// Output of the choices, counted.
    pub chunks: ScannedChunks,
    /// A choice has a `role` field. It may have output, too.
    pub has_role: bool,
    /// Beside a role stands something under a name that is not known: output, or more about the message.
    pub has_other: bool,
    /// Why a choice has ended.
    pub finish: Option<FinishReason>,
    /// A reason that is not known, as written in JSON.
    pub other_finish: Option<&'a [u8]>,
    pub usage: Option<Usage>,
    /// The first field of `usage` that has no count, and what it has, as written in JSON.
    pub malformed_usage: Option<(&'static str, &'a [u8])>,
    /// A `sequence_length` beyond the elements of its row.
    pub not_a_length: Option<i64>,
    /// How many choices the event has. 0: it carries only usage.
    pub choices: u32,
    /// A choice has reasoning and no other output.
    pub has_reasoning: bool,
    /// The protocol of an answer that does not follow the expected one.
    pub unmeasured: Option<&'static UnmeasuredProtocol>,
    /// `id` and `model` as written in JSON.
    pub id: Option<&'a [u8]>,
    pub model: Option<&'a [u8]>,
}

/// Most events have one choice, and choices of one event came at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ScannedChunks {
    pub texts: u32,
    /// Tokens of the choices that list them.
    pub exact: Option<u32>,
    pub has_empty: bool,
    pub is_closing: bool,
}

impl ScannedChunks {
    /// One for each chunk that counts.
    pub fn each(&self) -> impl Iterator<Item = ChunkTokens> + use<> {
        let rest = match self {
            Self { texts: 1.., .. } => None,
            Self { exact: Some(0) | None, has_empty: true, .. } => Some(ChunkTokens::Empty),
            Self { exact: Some(0) | None, is_closing: true, .. } => Some(ChunkTokens::Closing),
            _ => None,
        };
        let exact = self.exact.filter(|tokens| *tokens > 0).map(ChunkTokens::Exact);
        std::iter::repeat_n(ChunkTokens::Text, self.texts as usize).chain(exact).chain(rest)
    }
}

/// `chat.completion`, `chat.completion.chunk`, `text_completion`.
pub(super) fn openai(text: &[u8]) -> Result<ScannedEvent<'_>, NotJson> {
    let mut seen = ScannedEvent::default();
    let (mut is_error, mut notice) = (false, None);
    let mut json = Json::new(text);
    json.object(|key, it| match key {
        b"choices" if it.peek() == Some(b'[') => it.array(|it| {
            seen.choices += 1;
            choice(it, &mut seen)
        }),
        b"usage" => usage(it, &mut seen),
        b"error" => error(it, &mut seen),
        b"id" => it.text().map(|id| seen.id = id),
        b"model" => it.text().map(|model| seen.model = model),
        // Errors that have no key of their own: of FastChat, and, by their `object`, of vLLM before 0.10.
        b"error_code" => it.number().map(|code| is_error |= code.is_some_and(|code| code > 0)),
        b"message" | b"detail" | b"error_msg" | b"text" => {
            let words = if it.peek() == Some(b'"') { it.string()? } else { it.raw()? };
            notice = notice.or(Some(words).filter(|words| !matches!(*words, b"" | b"null")));
            Ok(())
        }
        _ => it.raw().map(|value| {
            is_error |= key == b"object" && value == b"\"error\"";
            seen.unmeasured = seen.unmeasured.or_else(|| UnmeasuredProtocol::find_by_field(key, value));
        }),
    })?;
    json.end()?;
    seen.unmeasured = seen.unmeasured.filter(|_| seen.choices == 0 && seen.error.is_none());
    if is_error && seen.choices == 0 {
        seen.error = seen.error.or(notice).or_else(|| Some(text.trim_ascii()));
    } else if seen.choices == 0 && seen.usage.is_none() {
        // With a `usage`, the text is a remark on an answer that did arrive.
        seen.notice = notice;
    }
    Ok(seen)
}

fn usage<'a>(it: &mut Json<'a>, seen: &mut ScannedEvent<'a>) -> Result<(), NotJson> {
    let malformed = &mut seen.malformed_usage;
    if it.peek() != Some(b'{') {
        return counts("usage", it, malformed).map(drop);
    }
    let mut usage = Usage::default();
    it.object(|key, it| {
        match key {
            b"prompt_tokens" => usage.prompt = counts("usage.prompt_tokens", it, malformed)?,
            b"completion_tokens" => usage.completion = counts("usage.completion_tokens", it, malformed)?,
            b"prompt_tokens_details" | b"completion_tokens_details" if it.peek() == Some(b'{') => {
                it.object(|key, it| {
                    match key {
                        b"cached_tokens" => usage.cached = counts("cached_tokens of usage", it, malformed)?,
                        b"reasoning_tokens" => usage.reasoning = counts("reasoning_tokens of usage", it, malformed)?,
                        _ => it.skip()?,
                    }
                    Ok(())
                })?;
            }
            _ => it.skip()?,
        }
        Ok(())
    })?;
    seen.usage = Some(usage);
    Ok(())
}

/// A count of this name. `malformed`: the first value of that name that is not a count.
fn counts<'a>(
    name: &'static str,
    it: &mut Json<'a>,
    malformed: &mut Option<(&'static str, &'a [u8])>,
) -> Result<Option<u64>, NotJson> {
    it.peek();
    let mut value = it.clone();
    let count = it.number()?;
    if count.is_none() {
        let value = value.raw()?;
        if value != b"null" {
            malformed.get_or_insert((name, value));
        }
    }
    Ok(count)
}

fn choice<'a>(it: &mut Json<'a>, seen: &mut ScannedEvent<'a>) -> Result<(), NotJson> {
    let (mut has_text, mut has_empty, mut has_role, mut finish) = (false, false, false, None);
    let (mut ids, mut log_probs, mut has_reasoning) = (None, None, false);
    it.object(|key, it| {
        match key {
            b"text" => output(it, &mut has_text, &mut has_empty)?,
            b"delta" | b"message" if it.peek() == Some(b'{') => {
                let mut has_other = false;
                it.object(|key, it| {
                    match key {
                        b"role" => has_role = it.text()?.is_some(),
                        b"content" | b"refusal" => output(it, &mut has_text, &mut has_empty)?,
                        // Reasoning is generated like everything else; servers disagree on its name.
                        b"reasoning_content" | b"reasoning" => output(it, &mut has_reasoning, &mut has_empty)?,
                        b"tool_calls" | b"function_call" => output(it, &mut has_text, &mut false)?,
                        _ => output(it, &mut has_other, &mut false)?,
                    }
                    Ok(())
                })?;
                // Output under a name that is not known here; beside a role, what is known of the message.
                has_text |= has_other && !has_role;
                seen.has_other |= has_other;
            }
            b"token_ids" if it.peek() == Some(b'[') => ids = Some(elements(it)?),
            b"logprobs" if it.peek() == Some(b'{') => it.object(|key, it| {
                match key {
                    b"content" | b"tokens" if it.peek() == Some(b'[') => log_probs = Some(elements(it)?),
                    _ => it.skip()?,
                }
                Ok(())
            })?,
            // Some servers have an empty one beside every chunk, in place of null.
            b"finish_reason" => {
                let reason = it.text()?.filter(|reason| !reason.is_empty());
                finish = reason.map(FinishReason::from_wire);
                seen.other_finish = reason.filter(|_| finish == Some(FinishReason::Other)).or(seen.other_finish);
            }
            _ => it.skip()?,
        }
        Ok(())
    })?;
    seen.finish = finish.or(seen.finish);
    seen.has_role |= has_role;
    seen.has_reasoning |= has_reasoning && !has_text;
    has_text |= has_reasoning;
    if let Some(exact) = ids.or(log_probs).filter(|tokens| *tokens > 0) {
        seen.chunks.exact = Some(seen.chunks.exact.unwrap_or(0) + exact);
    } else if has_text {
        seen.chunks.texts += 1;
    } else if has_empty && !has_role && finish.is_none() {
        // Neither the begin nor the end of a message: a token without text of its own.
        seen.chunks.has_empty = true;
    } else if finish.is_some() {
        seen.chunks.is_closing = true;
    }
    Ok(())
}

fn elements(it: &mut Json<'_>) -> Result<u32, NotJson> {
    let mut count = 0u32;
    it.array(|it| {
        count = count.saturating_add(1);
        it.skip()
    })?;
    Ok(count)
}

/// A text, or a list or an object in place of one.
fn output(it: &mut Json<'_>, has_text: &mut bool, has_empty: &mut bool) -> Result<(), NotJson> {
    match it.peek() {
        Some(b'"') => {
            let is_empty = it.string()?.is_empty();
            *has_empty |= is_empty;
            *has_text |= !is_empty;
        }
        Some(b'[' | b'{') => {
            let within = it.raw()?;
            *has_text |= within[1..within.len() - 1].iter().any(|byte| !byte.is_ascii_whitespace());
        }
        _ => it.skip()?,
    }
    Ok(())
}

/// An answer of Triton's generate extension.
pub(super) fn generate(text: &[u8]) -> Result<ScannedEvent<'_>, NotJson> {
    let mut seen = ScannedEvent::default();
    let (mut has_ids, mut ids) = (false, 0);
    // How many rows have a length, the least and the greatest one.
    let (mut rows, mut least, mut most) = (0, i64::MAX, i64::MIN);
    let mut json = Json::new(text);
    json.object(|key, it| match key {
        b"output_ids" => {
            has_ids = true;
            leaves(it, &mut |it| {
                ids += 1;
                it.skip()
            })
        }
        b"sequence_length" => leaves(it, &mut |it| {
            // Anything but a number counts as longer than every row.
            let length = std::str::from_utf8(it.raw()?).ok().and_then(|text| text.parse().ok()).unwrap_or(i64::MAX);
            (rows, least, most) = (rows + 1, least.min(length), most.max(length));
            Ok(())
        }),
        b"text_output" => {
            seen.choices = 1;
            if matches!(it.raw()?, b"\"\"" | b"[]" | b"[\"\"]") {
                seen.chunks.has_empty = true;
            } else {
                seen.chunks.texts = 1;
            }
            Ok(())
        }
        b"error" => error(it, &mut seen),
        b"id" => it.text().map(|id| seen.id = id),
        b"model_name" => it.text().map(|model| seen.model = model),
        _ => it.skip(),
    })?;
    json.end()?;
    if has_ids {
        seen.choices = 1;
        if rows > 0 {
            let is_within = |length: i64| u32::try_from(length).is_ok_and(|length| length <= ids / rows);
            if is_within(least) && is_within(most) {
                ids = most as u32 * rows;
            } else {
                seen.not_a_length = Some(if is_within(least) { most } else { least });
            }
        }
        seen.chunks = ScannedChunks { exact: Some(ids), ..ScannedChunks::default() };
    }
    Ok(seen)
}

/// Values in lists of lists.
fn leaves<'a>(it: &mut Json<'a>, visit: &mut impl FnMut(&mut Json<'a>) -> Result<(), NotJson>) -> Result<(), NotJson> {
    if it.peek() == Some(b'[') { it.array(|it| leaves(it, visit)) } else { visit(it) }
}

/// `"error": "text"` or `"error": {"message": "text", …}`. Gateways write an empty one beside output: that is success.
fn error<'a>(it: &mut Json<'a>, seen: &mut ScannedEvent<'a>) -> Result<(), NotJson> {
    it.peek();
    let mut inner = it.clone();
    let whole = it.raw()?;
    let mut text = whole.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(whole);
    if whole.starts_with(b"{") {
        inner.object(|key, it| match key {
            b"message" => it.text().map(|message| text = message.filter(|text| !text.is_empty()).unwrap_or(whole)),
            _ => it.skip(),
        })?;
    }
    seen.error = Some(text).filter(|text| !matches!(*text, b"" | b"null" | b"false" | b"0" | b"{}" | b"[]"));
    Ok(())
}

/// The beginning of a text as written in JSON, in readable form.
pub(super) fn decode_json_string(raw: &[u8]) -> String {
    shortened(&unescaped(raw).unwrap_or_else(|| String::from_utf8_lossy(raw).into_owned()))
}

/// A text as written in JSON, without its escapes.
pub(super) fn unescaped(raw: &[u8]) -> Option<String> {
    serde_json::from_slice(&[b"\"", raw, b"\""].concat()).ok()
}

#[cfg(test)]
mod tests;
