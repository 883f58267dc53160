//! The checks of a submission, each with its name in reports.

use serde::{Deserialize, Serialize};

/// What a finding is about.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
    strum::IntoStaticStr,
)]
#[serde(into = "&'static str", try_from = "String")]
pub enum SubmissionCheck {
    #[strum(serialize = "accuracy")]
    Accuracy,
    #[strum(serialize = "accuracy samples")]
    AccuracySamples,
    #[strum(serialize = "altered LoadGen")]
    AlteredLoadGen,
    #[strum(serialize = "audit log")]
    AuditLog,
    #[strum(serialize = "audit settings")]
    AuditSettings,
    #[strum(serialize = "audit.config")]
    AuditConfig,
    #[strum(serialize = "benchmark")]
    Benchmark,
    #[strum(serialize = "calibration")]
    Calibration,
    #[strum(serialize = "changed file")]
    ChangedFile,
    #[strum(serialize = "counts")]
    Counts,
    #[strum(serialize = "division")]
    Division,
    #[strum(serialize = "documentation")]
    Documentation,
    #[strum(serialize = "duration")]
    Duration,
    #[strum(serialize = "empty")]
    Empty,
    #[strum(serialize = "empty file")]
    EmptyFile,
    #[strum(serialize = "empty folder")]
    EmptyFolder,
    #[strum(serialize = "equal issue")]
    EqualIssue,
    #[strum(serialize = "extra test")]
    ExtraTest,
    #[strum(serialize = "file name")]
    FileName,
    #[strum(serialize = "file size")]
    FileSize,
    #[strum(serialize = "hash")]
    Hash,
    #[strum(serialize = "latency")]
    Latency,
    #[strum(serialize = "latency limits")]
    LatencyLimits,
    #[strum(serialize = "layout")]
    Layout,
    #[strum(serialize = "lengths")]
    Lengths,
    #[strum(serialize = "link")]
    Link,
    #[strum(serialize = "LoadGen errors")]
    LoadGenErrors,
    #[strum(serialize = "LoadGen version")]
    LoadGenVersion,
    #[strum(serialize = "LoadGen warnings")]
    LoadGenWarnings,
    #[strum(serialize = "lock")]
    Lock,
    #[strum(serialize = "logs disagree")]
    LogsDisagree,
    #[strum(serialize = "measurements")]
    Measurements,
    #[strum(serialize = "missing file")]
    MissingFile,
    #[strum(serialize = "missing scenario")]
    MissingScenario,
    #[strum(serialize = "missing score")]
    MissingScore,
    #[strum(serialize = "missing test")]
    MissingTest,
    #[strum(serialize = "not truncated")]
    NotTruncated,
    #[strum(serialize = "not valid")]
    NotValid,
    #[strum(serialize = "Offline samples")]
    OfflineSamples,
    #[strum(serialize = "power")]
    Power,
    #[strum(serialize = "rehearsal")]
    Rehearsal,
    #[strum(serialize = "reused log")]
    ReusedLog,
    #[strum(serialize = "sample count")]
    SampleCount,
    #[strum(serialize = "scenario")]
    Scenario,
    #[strum(serialize = "seeds")]
    Seeds,
    #[strum(serialize = "source")]
    Source,
    #[strum(serialize = "stray file")]
    StrayFile,
    #[strum(serialize = "synthetic data")]
    SyntheticData,
    #[strum(serialize = "system fields")]
    SystemFields,
    #[strum(serialize = "system name")]
    SystemName,
    #[strum(serialize = "test failed")]
    TestFailed,
    #[strum(serialize = "test not judged")]
    TestNotJudged,
    #[strum(serialize = "test mode")]
    TestMode,
    #[strum(serialize = "token latencies")]
    TokenLatencies,
    #[strum(serialize = "torn log")]
    TornLog,
    #[strum(serialize = "two systems")]
    TwoSystems,
    #[strum(serialize = "unreadable file")]
    UnreadableFile,
    #[strum(serialize = "unreadable JSON")]
    UnreadableJSON,
    #[strum(serialize = "unreadable log")]
    UnreadableLog,
    #[strum(serialize = "user.conf")]
    UserConf,
    #[strum(serialize = "verdict")]
    Verdict,
    #[strum(serialize = "wrong run")]
    WrongRun,
}

impl SubmissionCheck {
    /// Whether it finds what makes a rehearsal one: short runs, few samples, made-up data.
    pub const fn is_of_a_rehearsal(self) -> bool {
        matches!(
            self,
            Self::Rehearsal
                | Self::SyntheticData
                | Self::Duration
                | Self::SampleCount
                | Self::OfflineSamples
                | Self::AccuracySamples
                | Self::Accuracy
                | Self::NotValid
                | Self::Latency
                | Self::TestNotJudged
                | Self::EqualIssue
                | Self::Lengths
        )
    }

    /// Whether it finds that a part is not there. A rehearsal may leave it out; the submission would be refused without it, too.
    pub const fn is_of_a_missing_part(self) -> bool {
        matches!(self, Self::MissingScenario | Self::MissingTest | Self::MissingScore | Self::Calibration)
    }
}

impl TryFrom<String> for SubmissionCheck {
    type Error = strum::ParseError;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        name.parse()
    }
}
