//! The gate before a submission: stricter than the official checker, and reports what, where, why and what to do.
//!
//! It reads any submission folder, also from other tools. Of Regatta's own packages it knows more, from `regatta.lock`.
//! Three things that the official checker accepts are refused here: a run that LoadGen called INVALID, LoadGen's errors,
//! and an Interactive folder with a run under Server's limits.

mod accuracy;
mod audit;
mod finding;
mod limits;
mod loadgen;
mod names;
mod performance;
mod record;
mod scenarios;
mod settings;
mod system;
mod tree;

use std::path::Path;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use finding::GateFindings;
pub use finding::{FindingWeight, GateFinding};
pub use settings::MEASUREMENT_FIELDS;
use tree::{ResultEntry, Submitter};

use super::log::{DETAIL_FILE, Detail};
use super::{LOCK_FILE, MlperfScenario, PackageProvenance, Round, SubmissionLayout};
use crate::mlperf::layout::scenario_titled;
use crate::spec::TestMode;

/// What the gate saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubmissionReport {
    pub round: String,
    pub results: Vec<ExaminedResult>,
    /// The worst first, in the order of places.
    pub findings: Vec<GateFinding>,
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
}

/// LoadGen's outcome of a performance run. Latencies are LoadGen's, from issue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JudgedRun {
    pub value: Option<f64>,
    pub unit: String,
    /// `VALID`, `INVALID`.
    pub validity: Option<String>,
    pub errors: u64,
    pub ttft_p99_ms: Option<f64>,
    pub tpot_p99_ms: Option<f64>,
}

impl SubmissionReport {
    pub fn refusal_count(&self) -> usize {
        self.findings.iter().filter(|finding| finding.weight == FindingWeight::Refused).count()
    }
}

/// The outcome of a run from the logs in a folder. None: it holds no detail log of a performance run.
pub fn run_value(folder: &Path, scenario: MlperfScenario) -> Option<JudgedRun> {
    let detail = Detail::of(folder).ok()?;
    Some(performance::value(&detail, scenario))
}

/// The round of a submission: by its lock, else by the seeds in its logs.
pub fn round_of(root: &Path) -> Option<Round> {
    let submitters = tree::submitters(root);
    let locked =
        submitters.iter().find_map(|submitter| Round::named(&PackageProvenance::of(&submitter.folder)?.ok()?.round));
    locked.or_else(|| {
        let logs = walkdir::WalkDir::new(root).sort_by_file_name().into_iter().flatten();
        let mut logs = logs.filter(|item| item.file_name() == DETAIL_FILE);
        logs.find_map(|log| Round::named(loadgen::other_round(&Detail::of(log.path().parent()?).ok()?)?))
    })
}

/// Everything that is wrong with the submission in `root`, the folder above `closed/` and `open/`.
pub fn examine(root: &Path, round: &Round) -> SubmissionReport {
    let mut to = GateFindings::new(root);
    let mut results = Vec::new();
    let submitters = tree::submitters(root);
    if submitters.iter().all(|submitter| submitter.systems.is_empty()) {
        let what = "there is no result in it";
        let why = "a submission has closed/ or open/, then <submitter>/results/<system>/<benchmark>/<scenario>/";
        to.refuse("empty", root, what, why, "name the folder that holds closed/ or open/");
    }
    names::check(&mut to, root);
    for submitter in &submitters {
        folders(&mut to, submitter, round);
        system::check(&mut to, submitter);
        let lock = record::read(&mut to, submitter, round);
        for system in &submitter.systems {
            for found in &system.benchmarks {
                let Some(benchmark) = scenarios::known(&mut to, round, found) else { continue };
                scenarios::check(&mut to, submitter, found, benchmark);
                for name in &found.scenarios {
                    let Some(scenario) = scenario_titled(name) else { continue };
                    let entry = ResultEntry {
                        submitter,
                        system: &system.name,
                        benchmark: &found.name,
                        scenario: name,
                        layout: SubmissionLayout::of(&round.name),
                    };
                    results.push(result(&mut to, &entry, round, benchmark, scenario, lock.as_ref()));
                }
            }
        }
    }
    let mut findings = to.all;
    findings.sort_by_key(|finding| finding.weight);
    SubmissionReport { round: round.name.clone(), results, findings }
}

/// One result, all of it.
fn result(
    to: &mut GateFindings,
    entry: &ResultEntry,
    round: &Round,
    benchmark: &super::Benchmark,
    scenario: MlperfScenario,
    lock: Option<&PackageProvenance>,
) -> ExaminedResult {
    let performance = performance::check(to, entry, round, benchmark, scenario);
    let locked = lock.and_then(|lock| lock.run(entry.benchmark, scenario, TestMode::Accuracy));
    let accuracy = accuracy::check(to, entry, round, benchmark, scenario, locked);
    if let (Some(performance), Some(accurate)) = (&performance, &accuracy.detail) {
        accuracy::same_system(to, entry, performance, accurate);
    }
    audit::check(to, entry, benchmark, scenario);
    settings::check(to, entry, round, scenario, performance.as_ref());
    if let Some(lock) = lock {
        record::check(to, entry, scenario, round, lock);
    }
    ExaminedResult {
        division: entry.submitter.division.clone(),
        submitter: entry.submitter.name.clone(),
        system: entry.system.to_owned(),
        benchmark: entry.benchmark.to_owned(),
        scenario: entry.scenario.to_owned(),
        judged: performance.map(|detail| performance::value(&detail, scenario)).unwrap_or_default(),
        accuracy: accuracy.metrics,
    }
}

/// The folders beside the results.
fn folders(to: &mut GateFindings, submitter: &Submitter, round: &Round) {
    let layout = SubmissionLayout::of(&round.name);
    let source = submitter.folder.join(layout.source());
    if files_of(&source).next().is_none() {
        let what = if source.is_dir() { "it is empty" } else { "it is missing" };
        let why = "the code that made the results goes with them";
        to.refuse("source", &source, what, why, "`mlperf.package.source: FOLDER`");
    }
    let documentation = submitter.folder.join("documentation");
    // What packing puts there explains nothing.
    let own = [LOCK_FILE, "REHEARSAL.md"];
    if !files_of(&documentation).any(|name| !own.contains(&name.as_str())) {
        let why = "calibration and bandwidth are explained there";
        to.warn("documentation", &documentation, "there is none", why, "`mlperf.package.documentation: FOLDER`");
    }
    let (other, name) = match layout {
        SubmissionLayout::Single => (SubmissionLayout::Split, "v5.1"),
        SubmissionLayout::Split => (SubmissionLayout::Single, "v6.0"),
    };
    let strays: &[&str] =
        if layout == SubmissionLayout::Single { &["measurements", "compliance", "code"] } else { &["src"] };
    for stray in strays.iter().map(|name| submitter.folder.join(name)).filter(|path| path.is_dir()) {
        let what = format!("this folder belongs to the layout of {name}");
        let why = format!(
            "{} has its own layout; the official checker does not look here ({} is the source there)",
            round.name,
            other.source()
        );
        to.refuse("layout", &stray, what, why, "pack again for this round");
    }
}

/// Names of all files below a folder.
fn files_of(folder: &Path) -> impl Iterator<Item = String> {
    let walk = walkdir::WalkDir::new(folder).into_iter().flatten().filter(|item| item.file_type().is_file());
    walk.map(|item| item.file_name().to_string_lossy().into_owned())
}
