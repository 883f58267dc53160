//! Reasons for a verdict other than VALID. `verdict` decides which apply.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// What a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum VerdictCheck {
    /// A server was lost during the measurement.
    Server,
    Failures,
    Retries,
    Conservation,
    InFlight,
    SelfCheck,
    Protocol,
    Stopped,
    HeldBack,
    Rate,
    /// The law of the arrivals, by Kolmogorov and Smirnov's distance.
    Ks,
    Lag,
    Cpu,
    CoreWait,
    Backlog,
    Streams,
    Reconnects,
    Limits,
    Samples,
    Overload,
    ColdStart,
    Freeze,
    Concurrency,
    Ramp,
    Drift,
    Lengths,
    Unary,
    Tokens,
    Coalesced,
    Outputs,
    RepeatedPrompts,
    CutPrompts,
    Loadgen,
    OtherLoad,
    Lowered,
    Identity,
    /// Of the simulator.
    Speed,
    Preflight,
    /// Of another version of this program.
    Other(String),
}

impl VerdictCheck {
    const ALL: [Self; 38] = [
        Self::Server,
        Self::Failures,
        Self::Retries,
        Self::Conservation,
        Self::InFlight,
        Self::SelfCheck,
        Self::Protocol,
        Self::Stopped,
        Self::HeldBack,
        Self::Rate,
        Self::Ks,
        Self::Lag,
        Self::Cpu,
        Self::CoreWait,
        Self::Backlog,
        Self::Streams,
        Self::Reconnects,
        Self::Limits,
        Self::Samples,
        Self::Overload,
        Self::ColdStart,
        Self::Freeze,
        Self::Concurrency,
        Self::Ramp,
        Self::Drift,
        Self::Lengths,
        Self::Unary,
        Self::Tokens,
        Self::Coalesced,
        Self::Outputs,
        Self::RepeatedPrompts,
        Self::CutPrompts,
        Self::Loadgen,
        Self::OtherLoad,
        Self::Lowered,
        Self::Identity,
        Self::Speed,
        Self::Preflight,
    ];

    /// Its name in `result.json` and below a verdict.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Server => "server",
            Self::Failures => "failures",
            Self::Retries => "retries",
            Self::Conservation => "conservation",
            Self::InFlight => "in_flight",
            Self::SelfCheck => "self_check",
            Self::Protocol => "protocol",
            Self::Stopped => "stopped",
            Self::HeldBack => "held_back",
            Self::Rate => "rate",
            Self::Ks => "ks",
            Self::Lag => "lag",
            Self::Cpu => "cpu",
            Self::CoreWait => "core_wait",
            Self::Backlog => "backlog",
            Self::Streams => "streams",
            Self::Reconnects => "reconnects",
            Self::Limits => "limits",
            Self::Samples => "samples",
            Self::Overload => "overload",
            Self::ColdStart => "cold_start",
            Self::Freeze => "freeze",
            Self::Concurrency => "concurrency",
            Self::Ramp => "ramp",
            Self::Drift => "drift",
            Self::Lengths => "lengths",
            Self::Unary => "unary",
            Self::Tokens => "tokens",
            Self::Coalesced => "coalesced",
            Self::Outputs => "outputs",
            Self::RepeatedPrompts => "repeated_prompts",
            Self::CutPrompts => "cut_prompts",
            Self::Loadgen => "loadgen",
            Self::OtherLoad => "other_load",
            Self::Lowered => "lowered",
            Self::Identity => "identity",
            Self::Speed => "speed",
            Self::Preflight => "preflight",
            Self::Other(name) => name,
        }
    }
}

impl fmt::Display for VerdictCheck {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl From<String> for VerdictCheck {
    fn from(name: String) -> Self {
        Self::ALL.into_iter().find(|check| check.as_str() == name).unwrap_or(Self::Other(name))
    }
}

impl From<VerdictCheck> for String {
    fn from(check: VerdictCheck) -> Self {
        check.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_also_those_of_other_versions() {
        for check in VerdictCheck::ALL {
            assert_eq!(VerdictCheck::from(String::from(check.clone())), check);
        }
        let other: VerdictCheck = serde_json::from_str("\"moon\"").unwrap();
        assert_eq!(other, VerdictCheck::Other("moon".to_owned()));
        assert_eq!(serde_json::to_string(&other).unwrap(), "\"moon\"");
    }
}
