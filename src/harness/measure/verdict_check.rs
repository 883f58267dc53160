//! The checks of the verdict, each with its name in `result.json`.

use std::fmt;

use serde::{Deserialize, Serialize};

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
