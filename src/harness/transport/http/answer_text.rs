//! The whole answer, put together from its events: where it becomes part of a later prompt, and where its tokens are
//! counted after the run.
//!
//! No tree of an event is built: of a list of small values it would take ten times the event's own size, and no budget
//! counts it.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer_fields::unescaped;
use super::json::{Json, NotJson};
use crate::schedule::data::Prompt;
use crate::tokens::AnswerText;

/// The requests never lead to a choice with an index beyond this.
const MOST_CHOICES: usize = 255;

/// Ids where a server sends ids, else text. Events that are not understood are skipped.
pub(crate) fn prompt_from_events(events: &[Vec<u8>]) -> Prompt {
    let (mut text, mut ids) = (String::new(), Vec::new());
    for event in events {
        let mut output_ids = Vec::new();
        let walked = walk(event, &mut output_ids, |part| {
            // Of several answers the first one continues a conversation, without the reasoning.
            if let (0, TextKind::Output) = (part.place, part.kind) {
                text.push_str(&unescaped(part.raw).unwrap_or_default());
            }
        });
        if walked.is_ok() {
            ids.append(&mut output_ids);
        }
    }
    if ids.is_empty() { Prompt::Text(text) } else { Prompt::Ids(ids) }
}

/// Everything that was generated, reasoning included. Tool calls are no text.
pub(crate) fn answer_text_from_events(events: &[Vec<u8>]) -> AnswerText {
    let mut answer_text = AnswerText::default();
    for event in events {
        // An event that is not understood has been reported by the reader of the answer.
        let _ = walk(event, &mut Vec::new(), |part| {
            answer_text.push(part.index, &unescaped(part.raw).unwrap_or_default());
        });
    }
    answer_text
}

#[derive(Clone, Copy)]
enum TextKind {
    Output,
    Reasoning,
    Refusal,
}

/// A text of an event.
struct TextPart<'t> {
    /// Of its choice, as the event lists them.
    place: usize,
    /// Of its choice, as the server numbers them.
    index: usize,
    kind: TextKind,
    /// As written in JSON.
    raw: &'t [u8],
}

/// The texts of one choice.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 't"))]
struct ChoiceTexts<'t> {
    index: Option<u64>,
    text: Option<&'t RawValue>,
    delta: Option<MessageTexts<'t>>,
    message: Option<MessageTexts<'t>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 't"))]
struct MessageTexts<'t> {
    reasoning_content: Option<&'t RawValue>,
    reasoning: Option<&'t RawValue>,
    content: Option<&'t RawValue>,
    refusal: Option<&'t RawValue>,
}

impl<'t> ChoiceTexts<'t> {
    fn parts(&self) -> impl Iterator<Item = (TextKind, &'t [u8])> {
        let of_message = |message: &MessageTexts<'t>| {
            // One of the two names, or both with the same text.
            let reasoning = message.reasoning_content.or(message.reasoning);
            [
                (TextKind::Reasoning, reasoning),
                (TextKind::Output, message.content),
                (TextKind::Refusal, message.refusal),
            ]
        };
        let messages = [&self.delta, &self.message].into_iter().flatten().flat_map(of_message);
        let texts = std::iter::once((TextKind::Output, self.text)).chain(messages);
        texts.filter_map(|(kind, raw)| Some((kind, raw?.get().strip_prefix('"')?.strip_suffix('"')?.as_bytes())))
    }
}

/// Visits the texts of an event of any interface, and adds its token ids.
fn walk<'t>(event: &'t [u8], ids: &mut Vec<i32>, mut visit: impl FnMut(TextPart<'t>)) -> Result<(), NotJson> {
    let mut json = Json::new(event);
    json.object(|key, it| match key {
        b"text_output" => {
            if let Some(raw) = it.text()? {
                visit(TextPart { place: 0, index: 0, kind: TextKind::Output, raw });
            }
            Ok(())
        }
        b"output_ids" => {
            let mut id = |it: &mut Json<'t>| {
                ids.extend(it.number()?.map(|id| id as i32));
                Ok(())
            };
            if it.peek() == Some(b'[') { it.array(id) } else { id(it) }
        }
        b"choices" if it.peek() == Some(b'[') => {
            let mut place = 0;
            it.array(|it| {
                let choice: ChoiceTexts<'_> = serde_json::from_slice(it.raw()?).unwrap_or_default();
                let index = choice.index.map_or(place, |index| index as usize).min(MOST_CHOICES);
                choice.parts().for_each(|(kind, raw)| visit(TextPart { place, index, kind, raw }));
                place += 1;
                Ok(())
            })
        }
        _ => it.skip(),
    })?;
    json.end()
}

// The token ids of an answer, for a driver that needs the ids themselves and not their number.

/// Collects the ids of one answer.
pub(crate) struct AnswerIds {
    pub ids: Vec<i32>,
    /// Receives the first id and the time of its read.
    first: Option<Box<dyn FnOnce(i32, u64)>>,
}

/// An event of OpenAI's completions, or a whole answer.
#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    token_ids: Option<Vec<i32>>,
}

impl AnswerIds {
    pub fn new(first: impl FnOnce(i32, u64) + 'static) -> Self {
        Self { ids: Vec::new(), first: Some(Box::new(first)) }
    }

    /// Adds the ids of an event. False: it has none.
    pub(super) fn take(&mut self, event: &[u8], t_read: u64) -> bool {
        let Ok(event) = serde_json::from_slice::<Event>(event) else { return false };
        let before = self.ids.len();
        self.ids.extend(event.choices.into_iter().filter_map(|choice| choice.token_ids).flatten());
        if let Some(id) = self.ids.first().copied()
            && let Some(first) = self.first.take()
        {
            first(id, t_read);
        }
        self.ids.len() > before
    }
}

impl std::fmt::Debug for AnswerIds {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("AnswerIds").field("ids", &self.ids).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(all: &[&str]) -> Vec<Vec<u8>> {
        all.iter().map(|event| event.as_bytes().to_vec()).collect()
    }

    #[test]
    fn pieces_of_every_interface_make_one_answer() {
        let chat = events(&[
            r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"choices":[{"delta":{"content":"Hel","reasoning":"no part of it"}}]}"#,
            r#"{"choices":[{"delta":{"content":"lo \u00fc"},"finish_reason":"stop"}]}"#,
            r#"{"choices":[],"usage":{"completion_tokens":2}}"#,
        ]);
        assert_eq!(prompt_from_events(&chat), Prompt::Text("Hello ü".to_owned()));
        assert_eq!(prompt_from_events(&events(&[r#"{"choices":[{"text":"a b"}]}"#])), Prompt::Text("a b".to_owned()));
        assert_eq!(prompt_from_events(&events(&[r#"{"text_output":"x"}"#, "not json"])), Prompt::Text("x".to_owned()));
        assert_eq!(
            prompt_from_events(&events(&[r#"{"output_ids":[5,6]}"#, r#"{"output_ids":7}"#])),
            Prompt::Ids(vec![5, 6, 7])
        );
    }

    #[test]
    fn everything_that_was_generated_is_part_of_the_text() {
        let answer_text = answer_text_from_events(&events(&[
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"e","reasoning_content":"Let m"}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"content":"No"}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":" see"},"finish_reason":"stop"}]}"#,
            r#"{"choices":[null,{"text":7}],"usage":{"completion_tokens":9}}"#,
            "no json",
        ]));
        assert_eq!(answer_text.texts, ["Let me see", "No"]);
        assert_eq!(answer_text.first, "Let m");
        let triton = answer_text_from_events(&events(&[r#"{"text_output":"a b"}"#, r#"{"text_output":" c"}"#]));
        assert_eq!((triton.texts, triton.first.as_str()), (vec!["a b c".to_owned()], "a b"));
    }
}
