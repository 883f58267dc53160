//! The text of one answer, kept until the run is over where only a tokenizer can count its tokens.

/// The text of one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerText {
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
}
