//! Errors in a log; only the first ones are reported.

use super::score::ScoreError;

/// How many errors are reported one by one.
const MOST: usize = 8;

/// What is wrong with answers, by place.
#[derive(Default)]
pub(super) struct AnswerErrors {
    count: u64,
    told: Vec<(u64, String)>,
}

impl AnswerErrors {
    pub fn say(&mut self, offset: u64, why: &str) {
        self.count += 1;
        self.told.push((offset, format!("byte {offset}: {why}")));
        self.told.sort_unstable();
        self.told.truncate(MOST);
    }

    pub fn end(self) -> Result<(), ScoreError> {
        if self.count == 0 {
            return Ok(());
        }
        let mut told: Vec<String> = self.told.into_iter().map(|(_, told)| told).collect();
        let more = self.count - told.len() as u64;
        if more > 0 {
            told.push(format!("… and {more} more"));
        }
        Err(ScoreError::Answers { count: self.count, told })
    }
}
