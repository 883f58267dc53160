//! The token ids of an answer, for a driver that needs the ids themselves and not their number.

use serde::Deserialize;

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
    #[serde(default)]
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
