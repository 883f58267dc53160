//! Findings against a run, and the verdict that follows from them. Which findings there are is decided in `verdict`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::Verdict;

/// One finding of the verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// Which check: `failures`, `lag`, `rate`, `limits`, …
    pub check: String,
    pub severity: ReasonSeverity,
    pub text: String,
}

impl Reason {
    /// `check: text`, as it stands below a verdict.
    pub fn line(&self) -> String {
        format!("{}: {}", self.check, self.text)
    }
}

/// What a finding makes of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReasonSeverity {
    InvalidServer,
    InvalidClient,
    InvalidLoad,
    Warning,
}

/// The findings so far.
#[derive(Default)]
pub(in crate::harness) struct VerdictFindings(Vec<Reason>);

impl VerdictFindings {
    pub fn add(&mut self, check: &str, severity: ReasonSeverity, text: String) {
        self.0.push(Reason { check: check.to_owned(), severity, text });
    }

    /// Worst first.
    pub fn into_reasons(mut self) -> Vec<Reason> {
        self.0.sort_by_key(|reason| reason.severity);
        self.0
    }
}

/// The verdict of the worst finding.
pub(in crate::harness) fn verdict_of(reasons: &[Reason]) -> Verdict {
    match reasons.iter().map(|reason| reason.severity).min() {
        None => Verdict::Valid,
        Some(ReasonSeverity::Warning) => Verdict::ValidWithWarnings,
        Some(ReasonSeverity::InvalidLoad) => Verdict::InvalidLoad,
        Some(ReasonSeverity::InvalidClient) => Verdict::InvalidClient,
        Some(ReasonSeverity::InvalidServer) => Verdict::InvalidServer,
    }
}
