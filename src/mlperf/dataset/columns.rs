//! Which columns of a published data set hold what. The first name that exists counts.
//!
//! Read in the reference implementations at mlcommons/inference b66003e1: `language/<model>/dataset.py` and the scorers.

use crate::accuracy::ScoringMethod;

/// Names of columns, best first.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    pub tokens: &'static [&'static str],
    pub reference: &'static [&'static str],
    pub task: &'static [&'static str],
    pub id: &'static [&'static str],
}

/// One of a row's four values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnRole {
    Tokens,
    Reference,
    Task,
    Id,
}

impl Columns {
    pub const fn of(recipe: ScoringMethod) -> Self {
        const TOKENS: &[&str] = &["tok_input", "input_tokens", "input_ids"];
        const ID: &[&str] = &["id"];
        let (reference, task): (&[&str], &[&str]) = match recipe {
            ScoringMethod::OpenOrca | ScoringMethod::CnnDailyMail => (&["output", "reference"], &[]),
            ScoringMethod::Mixed => (&["gt_output", "reference"], &["dataset", "task"]),
            ScoringMethod::LongContext => (&["gt_output", "reference"], &["metric", "task"]),
            ScoringMethod::DeepSeek => (&["gt_output", "ground_truth", "reference"], &["dataset", "metric", "task"]),
            ScoringMethod::GptOss => (&["ground_truth", "reference"], &["dataset", "task"]),
        };
        Self { tokens: TOKENS, reference, task, id: ID }
    }

    /// What a column holds, and how good its name is: less is better.
    pub fn slot(&self, name: &str) -> Option<(ColumnRole, usize)> {
        let all = [
            (ColumnRole::Tokens, self.tokens),
            (ColumnRole::Reference, self.reference),
            (ColumnRole::Task, self.task),
            (ColumnRole::Id, self.id),
        ];
        all.into_iter().find_map(|(slot, names)| Some((slot, names.iter().position(|known| *known == name)?)))
    }

    /// All names, for messages and for the conversion command.
    pub fn texts(&self) -> Vec<&'static str> {
        [self.reference, self.task, self.id].concat()
    }
}
