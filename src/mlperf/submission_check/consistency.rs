//! What a performance run's logs say twice: the verdict and its parts, rates and counts, the summary and the detail
//! log, the lengths of answers and those of the accuracy run. In published results all of it agrees within two percent
//! or better.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;

use super::checks::{SubmissionCheck, SubmissionFindings};
use super::tree::ResultEntry;
use base::files::{read_text, sha256_of_file};
use base::spec::TestMode;
use rules::log::{ACCURACY_FILE, DETAIL_FILE, Detail, SUMMARY_FILE};
use rules::{Benchmark, MlperfScenario};

const WHY: &str = "both are of one run; a log is submitted as LoadGen wrote it";
const FIX: &str = "pack the logs of the run again, as LoadGen wrote them";
/// Of a rate that is computed from counts and durations.
const RATE_TOLERANCE: f64 = 0.02;
/// Poisson arrivals: the rate of n of them has a relative deviation of 1/√n, and lies within this many of these.
const RATE_DEVIATIONS: f64 = 4.0;
/// Answers of a performance run and of the accuracy run, in tokens; published results differ by 2.3 % at most.
const LENGTH_TOLERANCE: f64 = 0.1;

/// A detail log against itself, its summary and the scores of the accuracy run.
pub(super) fn check(
    to: &mut SubmissionFindings,
    folder: &Path,
    detail: &Detail,
    benchmark: &Benchmark,
    scenario: MlperfScenario,
    scores: &IndexMap<String, f64>,
) {
    let at = folder.join(DETAIL_FILE);
    let Some(rates) = Rates::new(detail, scenario) else { return };
    if rates.samples <= 0.0 || rates.tokens <= 0.0 {
        let finding = format!("{} samples/s and {} tokens/s, and the result VALID", rates.samples, rates.tokens);
        return to.refuse(SubmissionCheck::Counts, &at, finding).rule(WHY).fix(FIX);
    }
    counts(to, &at, detail, &rates, scenario);
    lengths(to, &at, &rates, benchmark, scores);
    summary(to, folder, &rates);
    percentiles(to, &at, detail);
}

/// Samples and tokens per second, by the numbers that results are ranked by.
struct Rates {
    samples: f64,
    tokens: f64,
}

impl Rates {
    /// None: of SingleStream, or the log has none.
    fn new(detail: &Detail, scenario: MlperfScenario) -> Option<Self> {
        let (samples, tokens) = match scenario {
            MlperfScenario::Offline => ("result_samples_per_second", "result_tokens_per_second"),
            MlperfScenario::Server | MlperfScenario::Interactive => {
                ("result_completed_samples_per_sec", "result_completed_tokens_per_second")
            }
            MlperfScenario::SingleStream => return None,
        };
        Some(Self { samples: detail.number(samples)?, tokens: detail.number(tokens)? })
    }
}

/// LoadGen's verdict is VALID where each of its conditions is met, in every division.
pub(super) fn parts_of_verdict(to: &mut SubmissionFindings, folder: &Path, detail: &Detail, scenario: MlperfScenario) {
    let at = folder.join(DETAIL_FILE);
    if detail.text("result_validity") != Some("VALID") {
        return;
    }
    let is_server = matches!(scenario, MlperfScenario::Server | MlperfScenario::Interactive);
    let conditions = [
        ("early_stopping_met", true),
        ("result_min_duration_met", true),
        ("result_min_queries_met", true),
        ("result_perf_constraints_met", is_server),
    ];
    for (key, is_always_there) in conditions {
        let logged = match detail.flag(key) {
            Some(false) => "false",
            None if is_always_there => "not logged",
            _ => continue,
        };
        let finding = format!("{key} is {logged}, and the result VALID");
        to.refuse(SubmissionCheck::Verdict, &at, finding)
            .rule("LoadGen calls a run VALID when all of its conditions are met")
            .fix(FIX);
    }
}

/// Whether LoadGen's count of samples is the one before padding.
fn is_unpadded(detail: &Detail) -> bool {
    detail.loadgen_version().is_some_and(|version| version.starts_with("4."))
}

/// How many queries there were, how long they took, and the rates that follow.
fn counts(to: &mut SubmissionFindings, at: &Path, detail: &Detail, rates: &Rates, scenario: MlperfScenario) {
    let seconds = |key: &str| detail.number(key).map(|ns| ns / 1e9);
    let is_near = |a: f64, b: f64| (a - b).abs() <= RATE_TOLERANCE * b.abs();
    let longest = seconds("result_max_latency_ns");
    let mut disagree = |what: String| to.refuse(SubmissionCheck::Counts, at, what).rule(WHY).fix(FIX);
    if scenario == MlperfScenario::Offline {
        // One query: it takes as long as its last sample.
        let samples = detail.number("generated_samples_per_query");
        // LoadGen of v4.1 counts them before it pads them to whole data sets.
        let set = detail.number("qsl_reported_performance_count").filter(|set| *set > 0.0 && is_unpadded(detail));
        let agrees = |samples: f64, longest: f64| is_near(samples / rates.samples, longest);
        if let (Some(samples), Some(longest)) = (samples, longest)
            && !agrees(samples, longest)
            && !set.is_some_and(|set| agrees((samples / set).ceil() * set, longest))
        {
            disagree(format!(
                "{samples} samples in {longest:.0} s are {:.3} samples/s, it has {:.3}",
                samples / longest,
                rates.samples
            ));
        }
        return;
    }
    let (Some(issued), Some(lasted)) = (detail.number("generated_query_count"), seconds("generated_query_duration"))
    else {
        return;
    };
    if let Some(counted) = detail.number("result_query_count").filter(|counted| (counted - issued).abs() >= 1.0) {
        disagree(format!("result_query_count is {counted}, generated_query_count {issued}"));
    }
    let is_drawn =
        |target: &f64| (issued / lasted / target - 1.0).abs() <= RATE_TOLERANCE.max(RATE_DEVIATIONS / issued.sqrt());
    if let Some(target) = detail.number("effective_target_qps").filter(|target| !is_drawn(target)) {
        disagree(format!(
            "{issued} queries in {lasted:.0} s are {:.3} a second, target_qps is {target}",
            issued / lasted
        ));
    }
    // The last answers come after the last query, by the longest latency at most.
    let took = issued / rates.samples;
    let latest = lasted + longest.unwrap_or(f64::INFINITY);
    if took < lasted * (1.0 - RATE_TOLERANCE) || took > latest * (1.0 + RATE_TOLERANCE) {
        disagree(format!(
            "at {:.3} samples/s {issued} queries take {took:.0} s; they were issued for {lasted:.0} s, and all \
             answered after {latest:.0} s",
            rates.samples
        ));
    }
}

/// Tokens of an answer: those of the accuracy run, and no more than the benchmark allows.
fn lengths(
    to: &mut SubmissionFindings,
    at: &Path,
    rates: &Rates,
    benchmark: &Benchmark,
    scores: &IndexMap<String, f64>,
) {
    let mean = rates.tokens / rates.samples;
    // Some servers count the end of an answer, too.
    let most = f64::from(benchmark.max_output_tokens) * 1.02;
    if mean > most {
        let finding = format!(
            "tokens/s by samples/s are {mean:.1} tokens an answer, at most {} are requested",
            benchmark.max_output_tokens
        );
        to.refuse(SubmissionCheck::Lengths, at, finding).rule(WHY).fix(FIX);
    }
    // A benchmark whose accuracy run has another data set has other lengths there.
    let scored = scores.get("TOKENS_PER_SAMPLE").filter(|_| benchmark.accuracy_samples.is_none());
    if let Some(scored) = scored.filter(|scored| (mean - **scored).abs() > LENGTH_TOLERANCE * **scored) {
        let finding = format!("tokens/s by samples/s are {mean:.1} tokens an answer, accuracy.txt has {scored}");
        to.refuse(SubmissionCheck::Lengths, at, finding)
            .rule("performance and accuracy are measured with the same answers")
            .fix(FIX);
    }
}

/// The rates that the summary prints.
fn summary(to: &mut SubmissionFindings, folder: &Path, rates: &Rates) {
    let at = folder.join(SUMMARY_FILE);
    let text = read_text(&at).unwrap_or_default();
    let printed = |names: [&str; 2]| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            names.contains(&name.trim()).then(|| value.trim().parse::<f64>().ok())?
        })
    };
    let compared_rates = [
        ("samples/s", printed(["Samples per second", "Completed samples per second"]), rates.samples),
        ("tokens/s", printed(["Tokens per second", "Completed tokens per second"]), rates.tokens),
    ];
    for (unit, printed, logged) in compared_rates {
        // It prints two decimals of small numbers.
        if let Some(printed) = printed.filter(|printed| (printed - logged).abs() > 0.01 * logged + 0.01) {
            let finding = format!("it has {printed} {unit}, the detail log {logged}");
            to.refuse(SubmissionCheck::LogsDisagree, &at, finding).rule(WHY).fix(FIX);
        }
    }
}

/// Percentiles grow.
fn percentiles(to: &mut SubmissionFindings, at: &Path, detail: &Detail) {
    let kinds = [
        ("latency", "result_", "_percentile_latency_ns"),
        ("TTFT", "result_first_token_", "_percentile_latency_ns"),
        ("TPOT", "result_time_per_output_token_", "_percentile_ns"),
    ];
    for (name, before, after) in kinds {
        let values: Vec<(&str, f64)> = ["50.00", "90.00", "95.00", "97.00", "99.00", "99.90"]
            .into_iter()
            .filter_map(|percent| Some((percent, detail.number(&format!("{before}{percent}{after}"))?)))
            .collect();
        if let Some(pair) = values.windows(2).find(|pair| pair[0].1 > pair[1].1) {
            let [(low, a), (high, b)] = [pair[0], pair[1]];
            let finding = format!("{name}: the {low}th percentile is {a} ns, the {high}th {b} ns");
            to.refuse(SubmissionCheck::Counts, at, finding).rule("a higher percentile is not smaller").fix(FIX);
        }
    }
}

// One run is the run of one result: LoadGen's logs that are, byte for byte, in two places.
//
// A detail log has the process and the time of each event, so no two runs have the same. An accuracy log has neither:
// with the same engine, two systems may give the same answers in the same order, as in results that MLCommons
// published. Runs of another scenario, benchmark or test do not.

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
        let result_runs = [
            (TestMode::Performance, entry.performance(), entry.performance()),
            (TestMode::Accuracy, entry.accuracy(), entry.accuracy()),
        ];
        for (mode, detail, answers) in result_runs.into_iter().chain(audits) {
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
            let mut by_digest: BTreeMap<String, Vec<&PackedLog>> = BTreeMap::new();
            for log in logs {
                let Ok(digest) = sha256_of_file(&log.path) else { continue };
                let before = by_digest.entry(digest).or_default();
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
    let finding = format!("it is, byte for byte, {}", first.display());
    to.review(SubmissionCheck::ReusedLog, log, finding).rule(if name == DETAIL_FILE {
        "a run is that of one system, scenario and test; its log has its process and its times, which no other run has"
    } else {
        "runs of another benchmark, scenario or test give other answers, or in another order"
    }).fix("one of the two is of the other's run: put its own there");
}
