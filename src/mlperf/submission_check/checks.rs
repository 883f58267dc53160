//! The checks of a submission, each with its name in reports.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use walkdir::{DirEntry, WalkDir};

use super::tree::{DIVISIONS, ResultEntry};
use crate::SubmissionLayout;
use base::files::is_absence;
use rules::log::Detail;
use rules::{Benchmark, MlperfScenario};

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

    /// Whether it finds that a part is not there. A rehearsal may leave it out; the submission would be refused without
    /// it, too.
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

// Names, sizes and strays: what has no place in a submission.

const LARGEST: u64 = 50 * 1024 * 1024;

pub(super) fn check_names(to: &mut SubmissionFindings, root: &Path, layout: SubmissionLayout) {
    let mut folded: BTreeMap<String, String> = BTreeMap::new();
    for division in DIVISIONS.iter().map(|name| root.join(name)) {
        for item in WalkDir::new(division).sort_by_file_name().into_iter().flatten() {
            let path = item.path();
            name(to, path, &item.file_name().to_string_lossy(), layout);
            let below = path.strip_prefix(root).unwrap_or(path).display().to_string();
            if let Some(other) = folded.insert(below.to_lowercase(), below.clone()) {
                let finding = format!("its name differs from {other} in case only");
                to.review(SubmissionCheck::FileName, path, finding)
                    .rule("on some systems one overwrites the other")
                    .fix("rename one of them");
            }
            kind(to, &item, layout);
        }
    }
}

fn name(to: &mut SubmissionFindings, path: &Path, name: &str, layout: SubmissionLayout) {
    let fix = "rename it: letters, digits, . _ -";
    if name.contains(' ') || name.starts_with('.') || name == "__pycache__" {
        let finding = match name {
            "__pycache__" => "it is a cache of Python's".to_owned(),
            _ => format!("its name begins with a dot or has a space in it: {name:?}"),
        };
        to.find(FindingWeight::of_older_checker(layout), SubmissionCheck::FileName, path, finding)
            .rule("the official checker refuses such names until v5.1")
            .fix(fix);
    } else if !name.chars().all(|c| c.is_ascii_alphanumeric() || "._-+,@=()".contains(c)) {
        let finding = format!("its name has characters that not every file system and script takes: {name:?}");
        to.review(SubmissionCheck::FileName, path, finding)
            .rule("submissions are cloned and read on many systems")
            .fix(fix);
    }
}

/// Links, large files, files of an audit, empty folders.
fn kind(to: &mut SubmissionFindings, item: &DirEntry, layout: SubmissionLayout) {
    let path = item.path();
    let kind = item.file_type();
    if kind.is_symlink() {
        let rule = "links do not survive packing";
        if path.exists() {
            to.review(SubmissionCheck::Link, path, "it is a link").rule(rule).fix("put the file there");
        } else {
            let weight = FindingWeight::of_older_checker(layout);
            to.find(weight, SubmissionCheck::Link, path, "it is a link to nothing")
                .rule(rule)
                .fix("put the file there");
        }
    }
    if kind.is_dir() && std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()) {
        to.find(FindingWeight::of_older_checker(layout), SubmissionCheck::EmptyFolder, path, "it is empty")
            .rule("git keeps no empty folders; the official checker refuses them until v5.1")
            .fix("take it out");
    }
    if kind.is_file() {
        let size = item.metadata().map_or(0, |meta| meta.len());
        if size > LARGEST {
            let finding = format!("it has {size} bytes, at most {LARGEST} (50 MiB) are taken");
            to.refuse(SubmissionCheck::FileSize, path, finding)
                .rule("the repository of results refuses larger files")
                .fix("leave it out; truncate logs");
        }
        let of_a_run = |part| ["performance", "accuracy"].iter().any(|name| part == std::ffi::OsStr::new(name));
        if item.file_name() == "audit.config" && path.iter().any(of_a_run) {
            to.find(
                FindingWeight::of_older_checker(layout),
                SubmissionCheck::AuditConfig,
                path,
                "an audit.config is beside a result's logs",
            )
            .rule("LoadGen takes an audit.config in its working folder: the run may have been one of an audit")
            .fix("take it out, and look whether the run was one of an audit");
        }
    }
}

// Latency limits of Server and Interactive: those that were in force, and what came out.

/// Time to the first token and between tokens: what came out, and in Closed what was in force.
pub(super) fn check_limits(
    to: &mut SubmissionFindings,
    at: &Path,
    detail: &Detail,
    entry: &ResultEntry,
    benchmark: &Benchmark,
    scenario: MlperfScenario,
) {
    if detail.flag("requested_use_token_latencies") != Some(true) {
        let finding = "use_token_latencies was off";
        to.find(weight(entry), SubmissionCheck::TokenLatencies, at, finding)
            .rule("language models are judged by tokens; LoadGen drops the rule for a model name that it does not know")
            .fix(format!("LoadGen's name of the model is `{}`", benchmark.loadgen_model));
    }
    if entry.is_closed() {
        in_force(to, at, detail, benchmark, scenario);
    }
    target_latency(to, at, detail, benchmark, scenario);
    outcome(to, at, detail, entry, benchmark, scenario);
}

/// The official checker of v6.0 knows no limits of gpt-oss-120b, which matters in Open only: Closed keeps the rules.
fn weight(entry: &ResultEntry) -> FindingWeight {
    let is_known = (entry.round, entry.official) != ("v6.0", "gpt-oss-120b");
    if entry.is_closed() || is_known { FindingWeight::Refused } else { FindingWeight::Review }
}

/// What LoadGen judged the run by. In Open it may be anything.
fn in_force(to: &mut SubmissionFindings, at: &Path, detail: &Detail, benchmark: &Benchmark, scenario: MlperfScenario) {
    let Some(limit) = benchmark.latency.get(&scenario) else { return };
    if detail.number("effective_target_latency_percentile").is_some_and(|percentile| percentile < 0.99) {
        to.refuse(SubmissionCheck::LatencyLimits, at, "the percentile in force is below 99")
            .rule("limits are for the 99th percentile")
            .fix("take it out of user.conf; run again");
    }
    for (name, key, limit_ms) in [("TTFT", "ttft", limit.ttft_ms), ("TPOT", "tpot", limit.tpot_ms)] {
        let in_force = detail.number(&format!("requested_server_{key}_latency")).map(|ns| ns / 1e6);
        if in_force.is_none_or(|ms| ms > limit_ms) {
            let finding = format!(
                "the {name} limit in force was {} ms, {} has {limit_ms} ms",
                in_force.map_or("no".to_owned(), |ms| ms.to_string()),
                scenario.title()
            );
            to.refuse(SubmissionCheck::LatencyLimits, at, finding)
                .rule("LoadGen judged this run by looser limits than its folder's; the official checker takes it")
                .fix(format!("run it as model `{}`", benchmark.loadgen_model(scenario)));
        }
    }
}

/// The latency of a whole query that early stopping went by, in every division; 0 where LoadGen judges tokens.
fn target_latency(
    to: &mut SubmissionFindings,
    at: &Path,
    detail: &Detail,
    benchmark: &Benchmark,
    scenario: MlperfScenario,
) {
    let Some(most) = benchmark.target_latency_ms.filter(|_| scenario.loadgen() == "Server") else { return };
    let in_force = detail.number("effective_target_latency_ns").map(|ns| ns / 1e6);
    if let Some(ms) = in_force.filter(|ms| *ms > most) {
        let finding = format!("target_latency was {ms} ms, {} has {most} ms", scenario.title());
        to.refuse(SubmissionCheck::LatencyLimits, at, finding)
            .rule("early stopping goes by the round's latency of a query, or a shorter one")
            .fix("take `target_latency` out of user.conf; run again");
    }
}

/// The 99th percentiles.
fn outcome(
    to: &mut SubmissionFindings,
    at: &Path,
    detail: &Detail,
    entry: &ResultEntry,
    benchmark: &Benchmark,
    scenario: MlperfScenario,
) {
    let Some(limit) = benchmark.latency.get(&scenario) else { return };
    // Since v6.0 the official checker goes by the scenario in the log, which is Server for Interactive, too. In Open
    // that decides.
    let in_log = Some(MlperfScenario::Server).filter(|_| entry.layout == SubmissionLayout::Single);
    let accepted = in_log.and_then(|scenario| benchmark.latency.get(&scenario)).unwrap_or(limit);
    let kinds = [
        ("TTFT", limit.ttft_ms, accepted.ttft_ms, "result_first_token_99.00_percentile_latency_ns"),
        ("TPOT", limit.tpot_ms, accepted.tpot_ms, "result_time_per_output_token_99.00_percentile_ns"),
    ];
    for (name, limit_ms, accepted_ms, measured) in kinds {
        let measured_ms = detail.number(measured).map(|ns| ns / 1e6);
        if measured_ms.is_some_and(|ms| ms > 0.0 && ms < limit_ms) {
            continue;
        }
        let is_accepted = !entry.is_closed() && measured_ms.is_some_and(|ms| ms < accepted_ms);
        let weight = if is_accepted { FindingWeight::Review } else { weight(entry) };
        let finding = format!(
            "p99 {name} (LoadGen's, from issue) is {}, the limit is {limit_ms} ms",
            measured_ms.map_or("not logged".to_owned(), |ms| format!("{ms:.1} ms"))
        );
        to.find(weight, SubmissionCheck::Latency, at, finding)
            .rule(format!("{} of {} keeps the limit", scenario.title(), benchmark.loadgen_model))
            .fix("lower target_qps and run again");
    }
}

// The findings of the submission check: what, where, why, and what to do.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingWeight {
    /// MLCommons would not accept it: the round's own checker refuses it, or the rules do and no published result has
    /// it.
    Refused,
    /// MLCommons would accept it; a reviewer may object.
    Review,
}

impl FindingWeight {
    /// Of what the official checkers until v5.1 refuse, and those since v6.0 no longer look at.
    pub(super) const fn of_older_checker(layout: SubmissionLayout) -> Self {
        match layout {
            SubmissionLayout::Split => Self::Refused,
            SubmissionLayout::Single => Self::Review,
        }
    }

    /// Of what the official checkers refuse since v6.0, and those until v5.1 let pass.
    pub(super) const fn of_newer_checker(layout: SubmissionLayout) -> Self {
        match layout {
            SubmissionLayout::Split => Self::Review,
            SubmissionLayout::Single => Self::Refused,
        }
    }
}

/// One thing that is wrong with a submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmissionFinding {
    pub weight: FindingWeight,
    pub check: SubmissionCheck,
    /// The file or folder, below the submission.
    pub place: String,
    pub what: String,
    /// The rule.
    pub why: String,
    /// What to do.
    pub fix: String,
}

/// Collects findings about places below one folder.
#[derive(Debug)]
pub(super) struct SubmissionFindings<'a> {
    root: &'a Path,
    pub all: Vec<SubmissionFinding>,
}

impl<'a> SubmissionFindings<'a> {
    pub(super) const fn new(root: &'a Path) -> Self {
        Self { root, all: Vec::new() }
    }

    pub(super) fn refuse(&mut self, check: SubmissionCheck, place: &Path, what: impl Into<String>) -> FindingDraft<'_> {
        self.find(FindingWeight::Refused, check, place, what)
    }

    pub(super) fn review(&mut self, check: SubmissionCheck, place: &Path, what: impl Into<String>) -> FindingDraft<'_> {
        self.find(FindingWeight::Review, check, place, what)
    }

    /// A file that is missing, or that cannot be read.
    pub(super) fn refuse_unread(&mut self, place: &Path, error: &io::Error, why: &str, fix: &str) {
        if is_absence(error) {
            self.refuse(SubmissionCheck::MissingFile, place, "it is missing").rule(why).fix(fix);
        } else {
            self.refuse(SubmissionCheck::UnreadableFile, place, format!("it cannot be read: {error}"))
                .rule(why)
                .fix(fix);
        }
    }

    /// One or the other, where the weight depends on the round or on the place.
    pub(super) fn find(
        &mut self,
        weight: FindingWeight,
        check: SubmissionCheck,
        place: &Path,
        what: impl Into<String>,
    ) -> FindingDraft<'_> {
        let place = place.strip_prefix(self.root).unwrap_or(place).display().to_string();
        let place = if place.is_empty() { ".".to_owned() } else { place };
        let (why, fix) = (String::new(), String::new());
        FindingDraft {
            all: &mut self.all,
            finding: SubmissionFinding { weight, check, place, what: what.into(), why, fix },
        }
    }
}

/// A finding without its rule and its fix; the fix completes it.
#[must_use]
pub(super) struct FindingDraft<'a> {
    all: &'a mut Vec<SubmissionFinding>,
    finding: SubmissionFinding,
}

impl FindingDraft<'_> {
    pub(super) fn rule(mut self, rule: impl Into<String>) -> Self {
        self.finding.why = rule.into();
        self
    }

    /// Adds the finding, with what to do, to those of the submission.
    pub(super) fn fix(mut self, fix: impl Into<String>) {
        self.finding.fix = fix.into();
        self.all.push(self.finding);
    }
}
