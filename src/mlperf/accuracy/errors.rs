//! Errors in a log; only the first ones are reported.

use super::score::ScoreError;
use super::scoring_method::UnknownTask;
use rules::log::TokenBytesError;
use tokenizer::TokenizerError;

/// How many errors are reported one by one.
const MOST: usize = 8;

/// Why one answer is not scored.
#[derive(Debug, thiserror::Error)]
pub(super) enum AnswerError {
    #[error("the data set has no sample {sample}; it has {samples}")]
    NoSample { sample: usize, samples: usize },
    #[error("its token ids are of another width than those before")]
    OtherWidth,
    #[error("sample {sample} has no reference in the data set: it came in a form without")]
    NoReference { sample: u64 },
    #[error("the answer to sample {sample}: {error}")]
    Tokens { sample: u64, error: TokenBytesError },
    #[error("{0}")]
    Spell(#[source] TokenizerError),
    #[error(transparent)]
    Task(#[from] UnknownTask),
}

/// What is wrong with answers, by place.
#[derive(Default)]
pub(super) struct AnswerErrors {
    count: u64,
    first_errors: Vec<(u64, String)>,
}

impl AnswerErrors {
    pub fn push_error(&mut self, offset: u64, why: &AnswerError) {
        self.count += 1;
        self.first_errors.push((offset, format!("byte {offset}: {why}")));
        self.first_errors.sort_unstable();
        self.first_errors.truncate(MOST);
    }

    pub fn end(self) -> Result<(), ScoreError> {
        if self.count == 0 {
            return Ok(());
        }
        let mut lines: Vec<String> = self.first_errors.into_iter().map(|(_, message)| message).collect();
        let more = self.count - lines.len() as u64;
        if more > 0 {
            lines.push(format!("… and {more} more"));
        }
        Err(ScoreError::Answers { count: self.count, messages: lines })
    }
}
