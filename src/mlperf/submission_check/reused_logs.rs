//! One run is the run of one result: LoadGen's logs that are, byte for byte, in two places.
//!
//! A detail log has the process and the time of each event, so no two runs have the same. An accuracy log has neither: with the
//! same engine, two systems may give the same answers in the same order, as in results that MLCommons published. Runs of another
//! scenario, benchmark or test do not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::checks::SubmissionCheck;
use super::finding::SubmissionFindings;
use super::tree::ResultEntry;
use base::files::sha256_of_file;
use base::spec::TestMode;
use rules::log::{ACCURACY_FILE, DETAIL_FILE};
use rules::{Benchmark, MlperfScenario};

/// A shorter accuracy log has no answer in it.
const SHORTEST_ANSWERS: u64 = 16;

/// What a log was packed as.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PackedRun {
    /// Division, submitter and system.
    system: [String; 3],
    /// The round's name of it.
    benchmark: String,
    scenario: MlperfScenario,
    mode: TestMode,
    /// An Offline result of a run in SingleStream.
    inferred: bool,
}

impl PackedRun {
    /// The benchmark without its accuracy target.
    fn workload(&self) -> &str {
        let name = self.benchmark.as_str();
        name.strip_suffix("-99.9").or_else(|| name.strip_suffix("-99")).unwrap_or(name)
    }

    /// Whether one run may be both: a result for 99 % and for 99.9 %, or one in SingleStream and the Offline inferred from it.
    fn may_be_run_of(&self, other: &Self) -> bool {
        let is_both_targets = self.benchmark != other.benchmark && self.scenario == other.scenario;
        let is_inferred = self.benchmark == other.benchmark && self.inferred != other.inferred;
        self.system == other.system
            && self.mode == other.mode
            && self.workload() == other.workload()
            && (is_both_targets || is_inferred)
    }

    /// Whether two runs may give the same answers in the same order.
    fn may_answer_like(&self, other: &Self) -> bool {
        (self.workload(), self.scenario, self.mode) == (other.workload(), other.scenario, other.mode)
    }
}

#[derive(Debug)]
struct PackedLog {
    path: PathBuf,
    run: PackedRun,
}

/// The logs of a submission, in the order in which its results were examined.
#[derive(Debug, Default)]
pub(super) struct PackedLogs {
    /// By name and size: only logs of the same size are compared.
    by_size: BTreeMap<(&'static str, u64), Vec<PackedLog>>,
}

impl PackedLogs {
    /// Takes in the logs of a result.
    pub(super) fn add(&mut self, entry: &ResultEntry, benchmark: &Benchmark, scenario: MlperfScenario, inferred: bool) {
        let audits = benchmark.tests.iter().map(|test| {
            let folder = entry.audit(*test);
            (*test, folder.join("performance/run_1"), folder.join("accuracy"))
        });
        let own = [
            (TestMode::Performance, entry.performance(), entry.performance()),
            (TestMode::Accuracy, entry.accuracy(), entry.accuracy()),
        ];
        for (mode, detail, answers) in own.into_iter().chain(audits) {
            let run = PackedRun {
                system: [&entry.submitter.division, &entry.submitter.name, entry.system].map(str::to_owned),
                benchmark: entry.official.to_owned(),
                scenario,
                mode,
                inferred,
            };
            self.put(DETAIL_FILE, 1, &detail, &run);
            self.put(ACCURACY_FILE, SHORTEST_ANSWERS, &answers, &run);
        }
    }

    fn put(&mut self, name: &'static str, shortest: u64, folder: &Path, run: &PackedRun) {
        let path = folder.join(name);
        let size = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file).map(|meta| meta.len());
        if let Some(size) = size.filter(|size| *size >= shortest) {
            self.by_size.entry((name, size)).or_default().push(PackedLog { path, run: run.clone() });
        }
    }

    /// Compares them. Each log is named once, with the first that it is a copy of.
    pub(super) fn check(&self, to: &mut SubmissionFindings, root: &Path) {
        for ((name, _), logs) in self.by_size.iter().filter(|(_, logs)| logs.len() > 1) {
            let mut known: BTreeMap<String, Vec<&PackedLog>> = BTreeMap::new();
            for log in logs {
                let Ok(digest) = sha256_of_file(&log.path) else { continue };
                let before = known.entry(digest).or_default();
                // What it is a copy of was found with the other result of its run.
                let is_found = before.iter().any(|first| log.run.may_be_run_of(&first.run));
                let is_allowed = |first: &PackedLog| *name == ACCURACY_FILE && log.run.may_answer_like(&first.run);
                if let Some(first) = before.iter().find(|first| !is_found && !is_allowed(first)) {
                    reused(to, root, name, &first.path, &log.path);
                }
                before.push(log);
            }
        }
    }
}

fn reused(to: &mut SubmissionFindings, root: &Path, name: &str, first: &Path, log: &Path) {
    let first = first.strip_prefix(root).unwrap_or(first);
    let what = format!("it is, byte for byte, {}", first.display());
    let why = if name == DETAIL_FILE {
        "a run is that of one system, scenario and test; its log has its process and its times, which no other run has"
    } else {
        "runs of another benchmark, scenario or test give other answers, or in another order"
    };
    let fix = "one of the two is of the other's run: put its own there";
    to.review(SubmissionCheck::ReusedLog, log, what, why, fix);
}
