//! The checks of a submission, each with its name in reports.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use walkdir::{DirEntry, WalkDir};

use super::tree::{DIVISIONS, ResultEntry};
use crate::SubmissionLayout;
use base::files::is_absence;
use rules::MlperfScenario;
use rules::log::Detail;

/// How grave a finding is; they are counted and printed in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum FindingGrade {
    /// A number that does not agree with its witness, or a log that was changed, or is of another run.
    FraudLike,
    /// It contradicts the rules, or two of its own statements contradict each other.
    #[default]
    Contradiction,
    /// Files, names and descriptions: no result changes by it.
    Style,
}

/// What to do about a log that is not as LoadGen wrote it.
pub(super) const REPACK: &str = "pack the logs of the run again, as LoadGen wrote them";
pub(super) const REPACK_POWER: &str = "pack the output of the power measurement again";

/// Findings as rows of a table: weight and check, place, what is wrong if anything is, the rule, and what to do.
macro_rules! findings {
    ($to:expr; $($weight:expr, $check:ident, $at:expr, $finding:expr, $rule:expr, $fix:expr;)*) => {
        $(if let Some(finding) = $finding {
            $to.add($weight, SubmissionCheck::$check, $at, finding, $rule, $fix);
        })*
    };
}
pub(super) use findings;

/// Adds one finding, in the columns of that table.
macro_rules! finding {
    ($to:expr; $weight:expr, $check:ident, $at:expr, $finding:expr, $rule:expr, $fix:expr) => {
        $to.add($weight, SubmissionCheck::$check, $at, $finding, $rule, $fix)
    };
}
pub(super) use FindingWeight::{Refused, Review};
pub(super) use finding;

/// Makes the checks of their table.
macro_rules! submission_checks {
    ($($check:ident $name:literal $grade:ident $($part:ident)?,)*) => {
        /// What a finding is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[derive(strum::Display, strum::EnumString, strum::IntoStaticStr)]
        pub enum SubmissionCheck {
            $(#[serde(rename = $name)] #[strum(serialize = $name)] $check,)*
        }

        impl SubmissionCheck {
            /// How grave its findings are.
            pub const fn grade(self) -> FindingGrade {
                match self {
                    $(Self::$check => FindingGrade::$grade,)*
                }
            }

            /// The last column of its row.
            const fn part(self) -> &'static str {
                match self {
                    $(Self::$check => concat!($(stringify!($part))?),)*
                }
            }
        }
    };
}

// Each check with its name in reports, its grade, and whether it finds what makes a rehearsal one (short runs, few
// samples, synthetic data), or that a part is not there.
submission_checks! {
    Accuracy "accuracy" Contradiction Rehearsed,
    AccuracySamples "accuracy samples" Contradiction Rehearsed,
    AlteredLoadGen "altered LoadGen" FraudLike,
    AuditConfig "audit.config" Style,
    AuditLog "audit log" FraudLike,
    AuditSettings "audit settings" Contradiction,
    Benchmark "benchmark" Contradiction,
    Calibration "calibration" Style Missing,
    ChangedFile "changed file" FraudLike,
    Clock "clock" FraudLike,
    Counts "counts" FraudLike,
    Division "division" Contradiction,
    Documentation "documentation" Style,
    DuplicateKey "duplicate key" Contradiction,
    Duration "duration" Contradiction Rehearsed,
    Empty "empty" Style,
    EmptyFile "empty file" Style,
    EmptyFolder "empty folder" Style,
    EqualIssue "equal issue" Contradiction Rehearsed,
    ExtraTest "extra test" Style,
    FileName "file name" Style,
    FileSize "file size" Style,
    Hash "hash" FraudLike,
    Latency "latency" Contradiction Rehearsed,
    LatencyLimits "latency limits" Contradiction,
    Layout "layout" Style,
    Lengths "lengths" FraudLike Rehearsed,
    Link "link" Style,
    LoadGenErrors "LoadGen errors" Contradiction,
    LoadGenFiles "LoadGen files" FraudLike,
    LoadGenVersion "LoadGen version" Contradiction,
    LoadGenWarnings "LoadGen warnings" Style,
    Lock "lock" Contradiction,
    LogsDisagree "logs disagree" FraudLike,
    Measurements "measurements" Style,
    MissingFile "missing file" Style,
    MissingScenario "missing scenario" Contradiction Missing,
    MissingScore "missing score" Contradiction Missing,
    MissingTest "missing test" Contradiction Missing,
    NotTruncated "not truncated" Style,
    NotValid "not valid" Contradiction Rehearsed,
    OfflineSamples "Offline samples" Contradiction Rehearsed,
    Plausibility "plausibility" FraudLike,
    Power "power" Contradiction,
    Rehearsal "rehearsal" FraudLike Rehearsed,
    RepeatedAnswers "repeated answers" FraudLike,
    Retraining "retraining" Contradiction,
    ReusedLog "reused log" FraudLike,
    SampleIndex "sample index" FraudLike,
    SampleCount "sample count" Contradiction Rehearsed,
    Scenario "scenario" Contradiction,
    Seeds "seeds" Contradiction,
    Simulated "simulated" FraudLike Rehearsed,
    Source "source" Style,
    StrayFile "stray file" Style,
    SyntheticData "synthetic data" FraudLike Rehearsed,
    SystemFields "system fields" Style,
    SystemName "system name" Style,
    TestFailed "test failed" Contradiction,
    TestMode "test mode" Contradiction,
    TestNotJudged "test not judged" Contradiction Rehearsed,
    TokenLatencies "token latencies" Contradiction,
    TornLog "torn log" FraudLike,
    TwoSystems "two systems" Contradiction,
    Unreadable "unreadable witness" Contradiction,
    UnreadableFile "unreadable file" Contradiction,
    UnreadableJSON "unreadable JSON" Contradiction,
    UnreadableLog "unreadable log" Contradiction,
    UserConf "user.conf" Contradiction,
    Verdict "verdict" FraudLike,
    WeightTypes "weight types" Contradiction,
    Witness "witness" FraudLike,
    WrongRun "wrong run" Contradiction,
}

impl SubmissionCheck {
    /// Whether it finds what makes a rehearsal one: short runs, few samples, synthetic data.
    pub fn is_of_a_rehearsal(self) -> bool {
        self.part() == "Rehearsed"
    }

    /// Whether it finds that a part is not there. A rehearsal may leave it out; the submission would be refused without
    /// it, too.
    pub fn is_of_a_missing_part(self) -> bool {
        self.part() == "Missing"
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
                finding!(to; Review, FileName, path, format!("its name differs from {other} in case only"),
                    "on some systems one overwrites the other", "rename one of them");
            }
            kind(to, &item, layout);
        }
    }
}

fn name(to: &mut SubmissionFindings, path: &Path, name: &str, layout: SubmissionLayout) {
    let is_usual = name.chars().all(|c| c.is_ascii_alphanumeric() || "._-+,@=()".contains(c));
    let is_refused = name.contains(' ') || name.starts_with('.') || name == "__pycache__";
    findings! { to;
        FindingWeight::of_older_checker(layout), FileName, path,
            is_refused.then(|| match name {
                "__pycache__" => "it is a cache of Python's".to_owned(),
                _ => format!("its name begins with a dot or has a space in it: {name:?}"),
            }),
            "the official checker refuses such names until v5.1", "rename it: letters, digits, . _ -";
        Review, FileName, path,
            (!is_refused && !is_usual)
                .then(|| format!("its name has characters that not every file system and script takes: {name:?}")),
            "submissions are cloned and read on many systems", "rename it: letters, digits, . _ -";
    }
}

/// Links, large files, files of an audit, empty folders.
fn kind(to: &mut SubmissionFindings, item: &DirEntry, layout: SubmissionLayout) {
    let (path, kind, older) = (item.path(), item.file_type(), FindingWeight::of_older_checker(layout));
    let is_empty = kind.is_dir() && std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    let size = item.metadata().map_or(0, |meta| meta.len());
    let of_a_run = |part| ["performance", "accuracy"].iter().any(|name| part == std::ffi::OsStr::new(name));
    let is_of_an_audit = kind.is_file() && item.file_name() == "audit.config" && path.iter().any(of_a_run);
    findings! { to;
        Review, Link, path, (kind.is_symlink() && path.exists()).then_some("it is a link"),
            "links do not survive packing", "put the file there";
        older, Link, path, (kind.is_symlink() && !path.exists()).then_some("it is a link to nothing"),
            "links do not survive packing", "put the file there";
        older, EmptyFolder, path, is_empty.then_some("it is empty"),
            "git keeps no empty folders; the official checker refuses them until v5.1", "remove it";
        Refused, FileSize, path,
            (kind.is_file() && size > LARGEST)
                .then(|| format!("it has {size} bytes, at most {LARGEST} (50 MiB) are taken")),
            "the repository of results refuses larger files", "leave it out; truncate logs";
        older, AuditConfig, path, is_of_an_audit.then_some("an audit.config is beside a result's logs"),
            "LoadGen takes an audit.config in its working folder: the run may have been one of an audit",
            "remove it, and check whether the run was one of an audit";
    }
}

// Latencies of Server and Interactive.

/// The official checker of v6.0 knows no limits of gpt-oss-120b, which matters in Open only: Closed keeps the rules.
pub(super) fn weight(entry: &ResultEntry) -> FindingWeight {
    let is_known = (entry.round.name.as_str(), entry.official) != ("v6.0", "gpt-oss-120b");
    if entry.is_closed() || is_known { FindingWeight::Refused } else { FindingWeight::Review }
}

/// The 99th percentiles of the time to the first token and between tokens.
pub(super) fn latency(to: &mut SubmissionFindings, at: &Path, detail: &Detail, entry: &ResultEntry) {
    let (benchmark, scenario) = (entry.table, entry.scenario_of_run(detail));
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
        finding!(to; weight, Latency, at,
            format!(
                "p99 {name} (LoadGen's, from issue) is {}, the limit is {limit_ms} ms",
                measured_ms.map_or("not logged".to_owned(), |ms| format!("{ms:.1} ms"))
            ),
            format!("{} of {} keeps the limit", scenario.title(), benchmark.loadgen_model),
            "lower target_qps and run again");
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
    /// The weight of what the official checkers refused until v5.1 and have not checked since v6.0.
    pub(super) const fn of_older_checker(layout: SubmissionLayout) -> Self {
        if matches!(layout, SubmissionLayout::Split) { Self::Refused } else { Self::Review }
    }

    /// The weight of what the official checkers have refused since v6.0 and accepted until v5.1.
    pub(super) const fn of_newer_checker(layout: SubmissionLayout) -> Self {
        if matches!(layout, SubmissionLayout::Single) { Self::Refused } else { Self::Review }
    }
}

/// One thing that is wrong with a submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmissionFinding {
    pub weight: FindingWeight,
    #[serde(default)]
    pub grade: FindingGrade,
    pub check: SubmissionCheck,
    /// The file or folder, below the submission.
    pub place: String,
    pub what: String,
    /// The rule.
    pub why: String,
    /// What to do.
    pub fix: String,
}

/// A file or folder as a finding names it.
pub(super) fn place_below(root: &Path, path: &Path) -> String {
    let place = path.strip_prefix(root).unwrap_or(path).display().to_string();
    if place.is_empty() { ".".to_owned() } else { place }
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

    /// A file that is missing, or that cannot be read.
    pub(super) fn refuse_unread(&mut self, place: &Path, error: &io::Error, why: &str, fix: &str) {
        if is_absence(error) {
            finding!(self; Refused, MissingFile, place, "it is missing", why, fix);
        } else {
            finding!(self; Refused, UnreadableFile, place, format!("it cannot be read: {error}"), why, fix);
        }
    }

    /// Adds a finding.
    pub(super) fn add(
        &mut self,
        weight: FindingWeight,
        check: SubmissionCheck,
        place: &Path,
        what: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let place = place_below(self.root, place);
        let (what, why, fix) = (what.into(), why.into(), fix.into());
        self.all.push(SubmissionFinding { weight, grade: check.grade(), check, place, what, why, fix });
    }
}
