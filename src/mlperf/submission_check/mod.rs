//! The submission check: what is wrong, where, why, and what to do.
//!
//! It gives two verdicts. *Refused*: MLCommons would not accept it. That has parity with the official checker of the
//! round, which `tests/bench/published` compares on published results, and is stricter only where no published result
//! is concerned: a run that LoadGen called INVALID, LoadGen's errors, logs that contradict one another. *Review*:
//! MLCommons accepts it, and a reviewer may object. Each finding also has a grade ([`FindingGrade`]), since one
//! changed number matters more than ten names.
//!
//! It reads any submission folder, also from other tools. Of Regatta's own packages it knows more, from `regatta.lock`.

mod accuracy;
mod audit;
mod checks;
mod consistency;
mod loadgen;
mod performance;
mod power;
mod settings;
mod system;
mod tree;
mod witness;

use std::io::{BufReader, Read as _};
use std::path::Path;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::layout::{NOT_SUPPORTED, endpoints_result, is_endpoints_result};
use super::loadgen::is_simulated;
use super::{PackageProvenance, SubmissionLayout, TestRecord};
use crate::layout::scenario_titled;
use base::files::open_regular;
use base::spec::TestMode;
pub use checks::{FindingGrade, FindingWeight, SubmissionCheck, SubmissionFinding};
use checks::{Refused, SubmissionFindings, finding, place_below};
use consistency::PackedLogs;
pub(crate) use power::describes_power;
pub use power::{MeasuredPower, POWER_PATHS};
use rules::log::{DETAIL_FILE, Detail};
use rules::{MlperfScenario, Round};
use tree::{BenchmarkFolder, ResultEntry, SystemTraits};
pub(super) use tree::{DIVISIONS, files, folders};
pub use witness::Witnesses;

/// What the checker of v4.1 did not refuse: results that MLCommons published for it lack these.
const NOT_IN_V4_1: [SubmissionCheck; 3] =
    [SubmissionCheck::EqualIssue, SubmissionCheck::SystemName, SubmissionCheck::Calibration];

/// What the submission check saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubmissionReport {
    pub round: String,
    pub results: Vec<ExaminedResult>,
    /// Benchmarks of the round that are not judged here: no language models.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_examined: Vec<UnexaminedBenchmark>,
    /// Those that are refused first, then by grade, in the order of places.
    pub findings: Vec<SubmissionFinding>,
}

/// The folder of a benchmark, or of a result, that the submission check does not know the rules of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnexaminedBenchmark {
    /// The folder, below the submission.
    pub place: String,
    pub why: String,
}

impl UnexaminedBenchmark {
    fn of_endpoints(root: &Path, folder: &Path) -> Self {
        Self { place: place_below(root, folder), why: NOT_SUPPORTED.to_owned() }
    }

    /// Whether it holds results of MLPerf Endpoints.
    pub fn is_of_endpoints(&self) -> bool {
        self.why == NOT_SUPPORTED
    }
}

/// One result of a submission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExaminedResult {
    pub division: String,
    pub submitter: String,
    pub system: String,
    pub benchmark: String,
    pub scenario: String,
    #[serde(flatten)]
    pub judged: JudgedRun,
    /// Metric → value, as `accuracy.txt` has them.
    pub accuracy: IndexMap<String, f64>,
    /// Of the numbers in the logs of its performance run.
    #[serde(default)]
    pub witnesses: Witnesses,
    /// Of a result with power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<MeasuredPower>,
}

/// LoadGen's outcome of a performance run, and what Regatta knows of it. Latencies are LoadGen's, from issue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JudgedRun {
    pub value: Option<f64>,
    pub unit: String,
    /// `VALID`, `INVALID`.
    pub validity: Option<String>,
    pub errors: u64,
    pub ttft_p99_ms: Option<f64>,
    pub tpot_p99_ms: Option<f64>,
    /// Its server was Regatta's simulator.
    #[serde(default)]
    pub simulated: bool,
    /// Its durations were shortened, or its package is a rehearsal.
    #[serde(default)]
    pub rehearsal: bool,
    /// An Offline result of a run in SingleStream.
    #[serde(default)]
    pub inferred: bool,
}

impl ExaminedResult {
    /// Whether a finding is of this result's files.
    pub fn has(&self, finding: &SubmissionFinding) -> bool {
        let Self { division, submitter, system, benchmark, scenario, .. } = self;
        let is_below = finding.place.starts_with(&format!("{division}/{submitter}/"));
        is_below && finding.place.contains(&format!("/{system}/{benchmark}/{scenario}"))
    }
}

impl SubmissionReport {
    pub fn refusal_count(&self) -> usize {
        self.with_weight(FindingWeight::Refused).count()
    }

    /// What is of one submitter. None: all of it.
    pub fn of_submitter(mut self, submitter: Option<&str>) -> Self {
        let Some(name) = submitter else { return self };
        let is_of = |place: &str| place.split('/').nth(1) == Some(name);
        self.results.retain(|result| result.submitter == name);
        self.not_examined.retain(|folder| is_of(&folder.place));
        self.findings.retain(|finding| is_of(&finding.place));
        self
    }

    /// Whether there are results of other benchmarks only: nothing that could be right or wrong here.
    pub fn has_nothing_to_check(&self) -> bool {
        self.results.is_empty() && self.not_examined.iter().any(|folder| !folder.is_of_endpoints())
    }

    /// Findings of one weight, in the order of places.
    pub fn with_weight(&self, weight: FindingWeight) -> impl Iterator<Item = &SubmissionFinding> {
        self.findings.iter().filter(move |finding| finding.weight == weight)
    }
}

/// The outcome of a run of a benchmark (empty: an unknown one) from the logs in a folder. None: it holds no detail log
/// of a performance run.
pub fn run_value(folder: &Path, benchmark: &str, scenario: MlperfScenario) -> Option<JudgedRun> {
    let detail = Detail::read_folder(folder).ok()?;
    let rehearsal = TestRecord::in_folder(folder).ok().flatten().is_some_and(|test| test.rehearsal);
    Some(JudgedRun { simulated: is_simulated(folder), rehearsal, ..performance::value(&detail, benchmark, scenario) })
}

/// The round of a submission: that of most of its logs.
pub fn round_of(root: &Path) -> Option<Round> {
    rounds_of(root).into_iter().next().map(|(round, _)| round)
}

/// The bytes of a detail log within which its seeds are.
const SEEDS_WITHIN: u64 = 1 << 17;

/// The rounds of a submission, each with how many of its logs have the round's seeds, the one of most logs first. By
/// its lock alone where it has one.
pub fn rounds_of(root: &Path) -> Vec<(Round, usize)> {
    let submitters = tree::submitters(root);
    let locked = submitters
        .iter()
        .find_map(|submitter| Round::named(&PackageProvenance::all(&submitter.folder).ok()?.first()?.round));
    if let Some(round) = locked {
        return vec![(round, 0)];
    }
    let logs = walkdir::WalkDir::new(root).into_iter().flatten().filter(|item| item.file_name() == DETAIL_FILE);
    let mut counts: IndexMap<&str, usize> = IndexMap::new();
    for log in logs {
        let head = open_regular(log.path()).map(|(file, _)| BufReader::new(file.take(SEEDS_WITHIN)));
        let round = head.ok().and_then(|head| loadgen::other_round(&Detail::read(head).ok()?));
        if let Some(round) = round {
            *counts.entry(round).or_default() += 1;
        }
    }
    counts.sort_by(|one, count, other, more| more.cmp(count).then(one.cmp(other)));
    counts.into_iter().filter_map(|(name, count)| Some((Round::named(name)?, count))).collect()
}

/// Everything that is wrong with the submission in `root`, the folder above `closed/` and `open/`.
pub fn examine(root: &Path, round: &Round) -> SubmissionReport {
    let mut to = SubmissionFindings::new(root);
    let mut results = Vec::new();
    let mut not_examined = Vec::new();
    let mut logs = PackedLogs::default();
    let layout = SubmissionLayout::for_round(&round.name);
    let submitters = tree::submitters(root);
    tree::root(&mut to, root, layout);
    checks::check_names(&mut to, root, layout);
    for submitter in &submitters {
        tree::no_results(&mut to, submitter, layout);
    }
    for submitter in submitters.iter().filter(|submitter| !submitter.systems.is_empty()) {
        // First of all, whether it is a rehearsal.
        let locks = audit::read(&mut to, submitter, round);
        tree::submitter(&mut to, submitter, round);
        let traits = system::check(&mut to, submitter, round);
        let unknown = SystemTraits::default();
        for (system, found) in submitter.benchmarks() {
            let lock = locks.iter().find(|lock| lock.system == system.name);
            let (official, benchmark) = match tree::folder(&mut to, submitter, round, found) {
                BenchmarkFolder::Known(official, benchmark) => (official, benchmark),
                BenchmarkFolder::LeftOut(rule) => {
                    let place = place_below(root, &found.folder);
                    not_examined.push(UnexaminedBenchmark { place, why: rule.to_owned() });
                    continue;
                }
                BenchmarkFolder::Unknown => continue,
            };
            tree::check(&mut to, submitter, found, benchmark);
            let mut entries = Vec::new();
            for name in &found.scenarios {
                let Some(scenario) = scenario_titled(name) else { continue };
                let folder = found.folder.join(name);
                if is_endpoints_result(&folder) {
                    not_examined.push(UnexaminedBenchmark::of_endpoints(root, &folder));
                    continue;
                }
                let entry = ResultEntry {
                    submitter,
                    system: &system.name,
                    traits: traits.get(&system.name).unwrap_or(&unknown),
                    benchmark: &found.name,
                    official,
                    table: benchmark,
                    scenario: name,
                    titled: scenario,
                    round,
                    layout,
                };
                let examined = result(&mut to, &entry, lock);
                logs.add(&entry, &examined.judged, lock.is_some());
                results.push(examined);
                entries.push(entry);
            }
            settings::one_model(&mut to, &entries);
        }
    }
    logs.check(&mut to, root);
    if results.is_empty() {
        if not_examined.is_empty() {
            not_examined.extend(endpoints_result(root).map(|folder| UnexaminedBenchmark::of_endpoints(root, &folder)));
        }
        if not_examined.iter().any(|folder| !folder.is_of_endpoints()) {
            return SubmissionReport { round: round.name.clone(), results, not_examined, findings: Vec::new() };
        }
        finding!(to; Refused, Empty, root, "it contains no result to check",
        "a submission has closed/ or open/, then <submitter>/results/<system>/<benchmark>/<scenario>/",
        match tree::above_division(root) {
            Some(above) => format!("check {}, which holds the divisions", above.display()),
            None => "name the folder that holds closed/ or open/".to_owned(),
        });
    }
    let mut findings = to.all;
    if round.name == "v4.1" {
        let is_of_later = |finding: &&mut SubmissionFinding| {
            NOT_IN_V4_1.contains(&finding.check)
                || (finding.check == SubmissionCheck::Scenario && finding.place.contains("/accuracy/"))
        };
        findings.iter_mut().filter(is_of_later).for_each(|finding| finding.weight = FindingWeight::Review);
    }
    findings.sort_by_key(|finding| (finding.weight, finding.grade));
    SubmissionReport { round: round.name.clone(), results, not_examined, findings }
}

/// One result, all of it.
fn result(to: &mut SubmissionFindings, entry: &ResultEntry, lock: Option<&PackageProvenance>) -> ExaminedResult {
    let performance = performance::check(to, entry);
    let locked = |mode| lock?.run(entry.benchmark, entry.titled, mode);
    let accuracy = accuracy::check(to, entry, locked(TestMode::Accuracy));
    let mut witnesses = Witnesses::default();
    if let Some(performance) = &performance {
        witnesses = witness::check(to, &entry.performance(), performance, entry.is_closed());
        if let Some(accurate) = &accuracy.detail {
            accuracy::same_system(to, &entry.accuracy().join(DETAIL_FILE), performance, accurate);
        }
        if entry.is_closed() {
            consistency::check(to, entry, performance, &accuracy.metrics);
        }
    }
    let logged = performance.as_ref().map(|detail| performance::value(detail, entry.official, entry.titled));
    let run = locked(TestMode::Performance);
    let judged = JudgedRun {
        simulated: run.is_some_and(|run| run.simulated),
        rehearsal: lock.is_some_and(|lock| lock.rehearsal)
            || run.and_then(|run| run.test.as_ref()).is_some_and(|test| test.rehearsal),
        ..logged.unwrap_or_default()
    };
    let power = power::check(to, entry, performance.as_ref(), judged.value);
    audit::check(to, entry, performance.as_ref());
    settings::check(to, entry, [performance.as_ref(), accuracy.detail.as_ref()]);
    tree::run_files(to, entry);
    if let Some(lock) = lock {
        audit::check_package_lock(to, entry, lock);
    }
    ExaminedResult {
        division: entry.submitter.division.clone(),
        submitter: entry.submitter.name.clone(),
        system: entry.system.to_owned(),
        benchmark: entry.benchmark.to_owned(),
        scenario: entry.scenario.to_owned(),
        judged,
        accuracy: accuracy.metrics,
        witnesses,
        power,
    }
}
