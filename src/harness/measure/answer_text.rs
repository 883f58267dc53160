//! The text of one answer, kept until the run is over where only a tokenizer can count its tokens.

use serde_json::Value;

/// The text of one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::harness) struct AnswerText {
    /// One for each choice.
    pub texts: Vec<String>,
    /// The text of the first chunk that had any.
    pub first: String,
}

impl AnswerText {
    /// Adds the text of a chunk.
    pub fn push(&mut self, choice: usize, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.first.is_empty() {
            text.clone_into(&mut self.first);
        }
        if self.texts.len() <= choice {
            self.texts.resize(choice + 1, String::new());
        }
        self.texts[choice].push_str(text);
    }

    /// Put together from the events of an answer over HTTP: everything that was generated, reasoning included. Tool calls
    /// are no text.
    pub fn of_events(events: &[Vec<u8>]) -> Self {
        let mut answer_text = Self::default();
        for event in events.iter().filter_map(|event| serde_json::from_slice::<Value>(event).ok()) {
            answer_text.push(0, event["text_output"].as_str().unwrap_or_default());
            for (place, choice) in event["choices"].as_array().into_iter().flatten().enumerate() {
                let at = choice["index"].as_u64().map_or(place, |index| index as usize).min(MOST_CHOICES);
                answer_text.push(at, choice["text"].as_str().unwrap_or_default());
                for message in [&choice["delta"], &choice["message"]] {
                    // One of the two names, or both with the same text.
                    let reasoning = ["reasoning_content", "reasoning"].iter().find_map(|key| message[*key].as_str());
                    answer_text.push(at, reasoning.unwrap_or_default());
                    answer_text.push(at, message["content"].as_str().unwrap_or_default());
                    answer_text.push(at, message["refusal"].as_str().unwrap_or_default());
                }
            }
        }
        answer_text
    }
}

/// The requests never lead to a choice with an index beyond this.
const MOST_CHOICES: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_was_generated_is_part_of_the_text() {
        let events: Vec<Vec<u8>> = [
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"reasoning_content":"Let me"}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"content":"No"}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":" see"},"finish_reason":"stop"}]}"#,
            r#"{"choices":[],"usage":{"completion_tokens":9}}"#,
            "no json",
        ]
        .map(|event| event.as_bytes().to_vec())
        .to_vec();
        let answer_text = AnswerText::of_events(&events);
        assert_eq!(answer_text.texts, ["Let me see", "No"]);
        assert_eq!(answer_text.first, "Let me");
        let triton =
            AnswerText::of_events(&[br#"{"text_output":"a b"}"#.to_vec(), br#"{"text_output":" c"}"#.to_vec()]);
        assert_eq!((triton.texts, triton.first.as_str()), (vec!["a b c".to_owned()], "a b"));
    }
}
