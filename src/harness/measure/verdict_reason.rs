//! Reasons for a verdict other than VALID. `verdict` decides which apply.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::verdict_check::VerdictCheck;
use base::event::Verdict;

/// One reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// Which check: `failures`, `lag`, `rate`, `limits`, …
    #[schemars(with = "String")]
    pub check: VerdictCheck,
    pub severity: ReasonSeverity,
    pub text: String,
}

impl Reason {
    /// `check: text`, as it stands below a verdict.
    pub fn line(&self) -> String {
        format!("{}: {}", self.check, self.text)
    }

    /// Fewer users were at work, or fewer requests sent, than the measurement is called after.
    pub fn is_load_not_reached(&self) -> bool {
        self.severity == ReasonSeverity::InvalidLoad
            && matches!(self.check, VerdictCheck::Concurrency | VerdictCheck::Rate)
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
pub(crate) struct VerdictReasons(Vec<Reason>);

impl VerdictReasons {
    pub fn add(&mut self, check: VerdictCheck, severity: ReasonSeverity, text: String) {
        self.0.push(Reason { check, severity, text });
    }

    /// Worst first; of equally bad ones the first found.
    pub fn into_reasons(mut self) -> Vec<Reason> {
        self.0.sort_by_key(|reason| reason.severity);
        self.0
    }

    /// The verdict of the worst finding.
    pub fn verdict(&self) -> Verdict {
        match self.0.iter().map(|reason| reason.severity).min() {
            None => Verdict::Valid,
            Some(ReasonSeverity::Warning) => Verdict::ValidWithWarnings,
            Some(ReasonSeverity::InvalidLoad) => Verdict::InvalidLoad,
            Some(ReasonSeverity::InvalidClient) => Verdict::InvalidClient,
            Some(ReasonSeverity::InvalidServer) => Verdict::InvalidServer,
        }
    }
}

impl Extend<Reason> for VerdictReasons {
    fn extend<Reasons: IntoIterator<Item = Reason>>(&mut self, reasons: Reasons) {
        self.0.extend(reasons);
    }
}

impl FromIterator<Reason> for VerdictReasons {
    fn from_iter<Reasons: IntoIterator<Item = Reason>>(reasons: Reasons) -> Self {
        Self(reasons.into_iter().collect())
    }
}
