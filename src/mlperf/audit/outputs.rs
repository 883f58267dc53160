//! TEST06: answers are consistent with what the system reported while it made them.

use std::path::Path;

use rules::MlperfScenario;
use rules::log::{AnswerLog, LogError, LoggedAnswer};

/// How many offending samples are named.
const NAMED: usize = 5;

/// The three things that TEST06 looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AuditOutputs {
    pub answers: u64,
    /// None: Offline reports no first token.
    pub first_token: Option<bool>,
    pub end: bool,
    pub length: bool,
    /// The first samples that offend.
    pub first_offences: Vec<String>,
    offences: u64,
}

impl AuditOutputs {
    /// Looks at every answer. `end_ids` are the tokens that end one.
    pub(super) fn of(
        answers: impl Iterator<Item = Result<LoggedAnswer, LogError>>,
        scenario: MlperfScenario,
        end_ids: &[i32],
    ) -> Result<Self, LogError> {
        let needs_first = scenario != MlperfScenario::Offline;
        let mut outputs = Self { first_token: needs_first.then_some(true), end: true, length: true, ..Self::default() };
        for answer in answers {
            let answer = answer?;
            outputs.answers += 1;
            let tokens = answer.tokens()?;
            let first = answer.first_tokens()?;
            if needs_first && let Some(what) = first_differs(&tokens, first.as_deref()) {
                outputs.first_token = Some(false);
                outputs.add_offence(&answer, &what);
            }
            let ends = tokens
                .iter()
                .rev()
                .take_while(|token| end_ids.iter().any(|end| i64::from(*end) == i64::from(**token)))
                .count();
            if ends > 1 {
                outputs.end = false;
                outputs
                    .add_offence(&answer, &format!("ends with {ends} end-of-sequence tokens; one at most is allowed"));
            }
            if answer.token_count != Some(tokens.len() as i64) {
                outputs.length = false;
                let text = answer
                    .token_count
                    .map_or_else(|| "no number of tokens".to_owned(), |count| format!("{count} tokens"));
                outputs.add_offence(&answer, &format!("{text} were reported, and the answer has {}", tokens.len()));
            }
        }
        Ok(outputs)
    }

    fn add_offence(&mut self, answer: &LoggedAnswer, what: &str) {
        self.offences += 1;
        if self.first_offences.len() < NAMED {
            self.first_offences.push(format!("sample {} (query {}): {what}", answer.qsl_idx, answer.seq_id));
        } else if self.first_offences.len() == NAMED {
            self.first_offences.push(String::new());
        }
        if self.offences > NAMED as u64
            && let Some(last) = self.first_offences.last_mut()
        {
            *last = format!("and {} more", self.offences - NAMED as u64);
        }
    }

    pub(super) fn holds(&self) -> bool {
        self.first_token != Some(false) && self.end && self.length
    }

    /// `verify_accuracy.txt`, in the format that the official checker looks for.
    pub(super) fn text(&self, passes: bool) -> String {
        let flag = |fine: bool| if fine { "True" } else { "False" };
        format!(
            "First token check pass: {}\nEOS check pass: {}\nSample length check pass: {}\nTEST06 verification {}\n",
            self.first_token.map_or("Skipped", flag),
            flag(self.end),
            flag(self.length),
            if passes { "complete" } else { "failed" },
        )
    }
}

/// What the log of a TEST06 run shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test06Answers {
    pub answers: u64,
    /// The first answers that fail the test, each with what is wrong.
    pub offences: Vec<String>,
}

/// Looks at every answer in a log. None: it is not there, or not whole.
pub fn test06_answers(log: &Path, scenario: MlperfScenario, end_ids: &[i32]) -> Option<Test06Answers> {
    let outputs = AuditOutputs::of(AnswerLog::open(log).ok()?, scenario, end_ids).ok()?;
    Some(Test06Answers { answers: outputs.answers, offences: outputs.first_offences })
}

/// Compares the reported first token with the beginning of the answer.
fn first_differs(tokens: &[u32], first: Option<&[u32]>) -> Option<String> {
    match first {
        None | Some([]) => Some("no first token was reported".to_owned()),
        Some(first) if tokens.starts_with(first) => None,
        Some(first) => {
            let begins = &tokens[..tokens.len().min(first.len())];
            Some(format!("{first:?} was reported first, and the answer begins with {begins:?}"))
        }
    }
}
