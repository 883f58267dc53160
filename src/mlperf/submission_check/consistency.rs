//! Checks across logs: answers are as long in the performance run as in the accuracy run, and no run is packed as two
//! results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;

use super::checks::{FindingWeight, REPACK, Refused, Review, SubmissionCheck, SubmissionFindings, finding, findings};
use super::tree::ResultEntry;
use crate::layout::verdict_file;
use crate::{JudgedRun, truncate_accuracy_log};
use base::files::{read_text, sha256_of_file};
use base::spec::TestMode;
use rules::MlperfScenario;
use rules::log::{ACCURACY_FILE, DETAIL_FILE, Detail};

const WHY: &str = "both must come from one run; submit logs as LoadGen wrote them";
/// Answers of a performance run and of the accuracy run, in tokens; published results differ by 2.3 % at most. A larger
/// difference is for review, and one of more than 10 % is refused.
const LENGTH_TOLERANCES: [(f64, FindingWeight); 2] = [(0.1, Refused), (0.024, Review)];

/// Tokens of an answer in a performance run, by its rates.
pub(super) fn mean_tokens(detail: &Detail, scenario: MlperfScenario) -> Option<f64> {
    let [tokens, samples] = scenario.rates()?.map(|key| detail.number(key).filter(|rate| *rate > 0.0));
    Some(tokens? / samples?)
}

/// Checks the lengths of answers: those of the accuracy run, and no more tokens than the benchmark allows.
pub(super) fn check(to: &mut SubmissionFindings, entry: &ResultEntry, detail: &Detail, scores: &IndexMap<String, f64>) {
    let benchmark = entry.table;
    let scenario = entry.scenario_of_run(detail);
    let Some(keys) = scenario.rates() else { return };
    let at = entry.performance().join(DETAIL_FILE);
    let mean = mean_tokens(detail, scenario);
    // Some servers count the end of an answer, too.
    let most = f64::from(benchmark.max_output_tokens) * 1.02;
    // A benchmark whose accuracy run has another data set has other lengths there.
    let scored = scores.get("TOKENS_PER_SAMPLE").filter(|_| benchmark.accuracy_samples.is_none());
    let apart = mean.zip(scored.copied()).map(|(mean, scored)| (mean, scored, (mean / scored - 1.0).abs()));
    let weight = apart.and_then(|(.., share)| LENGTH_TOLERANCES.iter().find(|(most, _)| share > *most));
    findings! { to;
        Refused, Counts, &at,
            (mean.is_none() && detail.result() == Some("VALID"))
                .then(|| format!("{} or {} is not logged, or 0, and the result VALID", keys[0], keys[1])), WHY, REPACK;
        Refused, Lengths, &at,
            mean.filter(|mean| *mean > most).map(|mean| {
                let most = benchmark.max_output_tokens;
                format!("tokens/s by samples/s are {mean:.1} tokens an answer, at most {most} are requested")
            }), WHY, REPACK;
        weight.map_or(Review, |(_, weight)| *weight), Lengths, &at,
            apart.filter(|_| weight.is_some()).map(|(mean, scored, _)| {
                format!("tokens/s by samples/s are {mean:.1} tokens an answer, accuracy.txt has {scored}")
            }),
            "performance and accuracy are measured with the same answers", REPACK;
    }
}

// Logs that are, byte for byte, in two places: one run must not be packed as two results.
//
// A detail log has the process and the time of each event, so no two runs have the same. An accuracy log has neither:
// with the same engine, two systems may give the same answers in the same order, as in results that MLCommons
// published. Runs of another scenario, benchmark or test do not.

/// A shorter accuracy log has no answer in it.
const SHORTEST_ANSWERS: u64 = 16;
const SCORES: &str = "accuracy.txt";
/// What an evaluator or the script of a test wrote, without the hash of the answers.
const EVALUATION: &str = "evaluation";
/// Rate and latencies of a performance run.
const RESULT: &str = "result";

/// What a log was packed as.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PackedRun {
    /// Division, submitter and system.
    system: [String; 3],
    /// The benchmark's name in the round.
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

    /// Whether one run may be both: a result for 99 % and for 99.9 %, or one in SingleStream and the Offline inferred
    /// from it.
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
    /// None: that of the file.
    digest: Option<String>,
}

/// The logs of a submission, in the order in which its results were examined.
#[derive(Debug, Default)]
pub(super) struct PackedLogs {
    /// By name and size: only logs of the same size are compared.
    by_size: BTreeMap<(&'static str, u64), Vec<PackedLog>>,
}

impl PackedLogs {
    /// Takes in the logs of a result.
    pub(super) fn add(&mut self, entry: &ResultEntry, judged: &JudgedRun, is_locked: bool) {
        let inferred = judged.inferred;
        let audits = entry.table.tests.iter().map(|test| {
            let folder = entry.audit(*test);
            (*test, folder.join("performance/run_1"), folder.join("accuracy"))
        });
        let result_runs = [
            (TestMode::Performance, entry.performance(), entry.performance()),
            (TestMode::Accuracy, entry.accuracy(), entry.accuracy()),
        ];
        for (mode, detail, answers) in result_runs.into_iter().chain(audits) {
            let run = PackedRun {
                system: [&entry.submitter.division, &entry.submitter.name, entry.system].map(str::to_owned),
                benchmark: entry.official.to_owned(),
                scenario: entry.titled,
                mode,
                inferred,
            };
            let figures = [judged.value, judged.ttft_p99_ms, judged.tpot_p99_ms];
            if !is_locked && mode == TestMode::Performance && figures.iter().all(Option::is_some) {
                self.put(RESULT, 0, &detail.join(DETAIL_FILE), &run, Some(format!("{figures:?}")));
            }
            let scores = answers.join(SCORES);
            let text = read_text(&scores).unwrap_or_default();
            let size =
                |path: &Path| std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|meta| meta.len());
            for (name, shortest, path) in [
                (DETAIL_FILE, 1, detail.join(DETAIL_FILE)),
                (ACCURACY_FILE, SHORTEST_ANSWERS, answers.join(ACCURACY_FILE)),
            ] {
                let Some(size) = size(&path).filter(|size| *size >= shortest) else { continue };
                self.put(name, size, &path, &run, None);
                // A truncated log is known by the hash of the whole.
                if let Some(hash) = truncate_accuracy_log::hashes(&text).last().filter(|_| name == ACCURACY_FILE) {
                    self.put(SCORES, 0, &scores, &run, Some((*hash).to_owned()));
                }
            }
            let evaluation = match mode {
                TestMode::Accuracy => scores,
                TestMode::Test09 => entry.audit(mode).join(verdict_file(mode)),
                // That of TEST06 has no number, that of TEST07 one that may be equal by chance.
                TestMode::Performance | TestMode::Test06 | TestMode::Test07 => PathBuf::new(),
            };
            // A lock knows what each file was made from.
            if let Some(text) = read_text(&evaluation).ok().filter(|_| !is_locked) {
                let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("hash=")).collect();
                self.put(EVALUATION, 0, &evaluation, &run, Some([run.workload(), &lines.concat()].concat()));
            }
        }
    }

    fn put(&mut self, name: &'static str, size: u64, path: &Path, run: &PackedRun, digest: Option<String>) {
        let log = PackedLog { path: path.to_owned(), run: run.clone(), digest };
        self.by_size.entry((name, size)).or_default().push(log);
    }

    /// Compares them. Each log is named once, with the first that it is a copy of.
    pub(super) fn check(&self, to: &mut SubmissionFindings, root: &Path) {
        for ((name, _), logs) in self.by_size.iter().filter(|(_, logs)| logs.len() > 1) {
            let mut by_digest: BTreeMap<String, Vec<&PackedLog>> = BTreeMap::new();
            for log in logs {
                let named = log.digest.clone();
                let Ok(digest) = named.map_or_else(|| sha256_of_file(&log.path), Ok) else { continue };
                let before = by_digest.entry(digest).or_default();
                // The copy was already reported for the other result of the same run.
                let is_found = before.iter().any(|first| log.run.may_be_run_of(&first.run));
                let is_allowed = |first: &PackedLog| match *name {
                    DETAIL_FILE => false,
                    // Another system may give the same answers in Offline, which have the same scores. In Server and
                    // Interactive no two published systems do, nor in TEST09.
                    EVALUATION if log.run.system != first.run.system => {
                        log.run.may_answer_like(&first.run)
                            && (log.run.scenario, log.run.mode) == (MlperfScenario::Offline, TestMode::Accuracy)
                    }
                    EVALUATION => log.run.scenario == first.run.scenario,
                    // If the whole log is a copy, that is reported for the log.
                    RESULT => sha256_of_file(&first.path).ok() == sha256_of_file(&log.path).ok(),
                    _ => log.run.may_answer_like(&first.run),
                };
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
    let same = match name {
        SCORES => "its hash is that of",
        RESULT => "its rate and latencies are, to the last digit, those of",
        EVALUATION => "but for a hash, it is the text of",
        _ => "it is, byte for byte,",
    };
    finding!(to; Review, ReusedLog, log, format!("{same} {}", first.display()),
        if [DETAIL_FILE, RESULT].contains(&name) {
            "a run is that of one system, scenario and test; its log has its process and its times, which no other run \
             has"
        } else {
            "runs of another benchmark, scenario or test give other answers, or in another order"
        },
        "one of the two is a copy: replace it with the log of its own run");
}
