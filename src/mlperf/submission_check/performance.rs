//! A performance run: valid by LoadGen's own result, long enough, and with the limits of its folder.
//!
//! What several logs of a submission say together: the lengths of answers in a performance run and in the accuracy run,
//! and that one run is the run of one result.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;

use super::checks::{FindingWeight, REPACK, Refused, Review, SubmissionCheck, SubmissionFindings, finding, findings};
use super::tree::ResultEntry;
use super::{JudgedRun, checks, loadgen};
use base::files::{read_text, sha256_of_file};
use base::spec::TestMode;
use rules::log::{ACCURACY_FILE, DETAIL_FILE, Detail, SUMMARY_FILE};
use rules::{LatencyLimits, MlperfScenario};

const SHORTEST_MS: f64 = 600_000.0;
/// The language model that is measured in SingleStream.
const ON_THE_EDGE: &str = "llama3.1-8b-edge";

pub(super) fn check(to: &mut SubmissionFindings, entry: &ResultEntry) -> Option<Detail> {
    let folder = entry.performance();
    let detail = loadgen::read(to, &folder, entry.round, &loadgen::PERFORMANCE)?;
    loadgen::scenario(to, &folder, &detail, entry);
    let at = folder.join(DETAIL_FILE);
    valid(to, &folder, &detail);
    key_rules(to, &at, &Run { detail: &detail, entry, scenario: entry.scenario_of_run(&detail) });
    place(to, &at, &detail, entry);
    checks::latency(to, &at, &detail, entry);
    Some(detail)
}

/// The official checker looks at `result_validity` and continues whatever its value.
fn valid(to: &mut SubmissionFindings, folder: &Path, detail: &Detail) {
    let at = folder.join(DETAIL_FILE);
    let text = detail.result().unwrap_or("nothing");
    if text != "VALID" {
        let keys =
            ["result_perf_constraints_met", "result_min_duration_met", "result_min_queries_met", "early_stopping_met"];
        let unmet: Vec<&str> = keys.into_iter().filter(|key| detail.flag(key) == Some(false)).collect();
        let unmet = if unmet.is_empty() { String::new() } else { format!("; false are {}", unmet.join(", ")) };
        finding!(to; Refused, NotValid, &at, format!("LoadGen reports {text} for this run{unmet}"),
            "only a run that LoadGen reports as VALID is a result; the official checker does not check this",
            "lower target_qps or lengthen the run as the summary recommends, and run again");
    }
    let at = folder.join(SUMMARY_FILE);
    let summary = read_text(&at).unwrap_or_default();
    let has_result = summary.lines().any(|line| line.starts_with("Result is : "));
    // LoadGen's last lines are those about warnings and errors.
    let has_end = ["encountered during test", "encountered. See detailed log"].iter().any(|end| summary.contains(end));
    findings! { to;
        Refused, TornLog, &at, (at.is_file() && !has_result).then_some("it has no line `Result is :`"),
            "the run was broken off", "run the test again";
        Review, TornLog, &at, (has_result && !has_end).then_some("it has no line `No errors encountered during test.`"),
            "the run was broken off, or the file is cut off", "run the test again";
    }
}

/// A performance run, and what it was to be.
struct Run<'a> {
    detail: &'a Detail,
    entry: &'a ResultEntry<'a>,
    /// Of its log.
    scenario: MlperfScenario,
}

impl Run<'_> {
    /// A finding where a key is below a number, or not logged.
    fn least(&self, key: &str, least: f64) -> Option<String> {
        let is_less = self.detail.number(key).is_none_or(|number| number < least);
        is_less.then(|| format!("`{key}` is {}, and has to be at least {least}", self.logged(key)))
    }

    /// A finding where a key is above a number.
    fn most(&self, key: &str, most: f64) -> Option<String> {
        let is_more = self.detail.number(key).is_some_and(|number| number > most);
        is_more.then(|| format!("`{key}` is {}, and has to be at most {most}", self.logged(key)))
    }

    /// A finding where a switch is not as it has to be.
    fn switch(&self, key: &str, expected: bool) -> Option<String> {
        let is_other = (self.detail.flag(key) == Some(true)) != expected;
        is_other.then(|| format!("`{key}` is {}", self.logged(key)))
    }

    /// A finding where LoadGen judged the run by another limit than the folder's, or by none.
    fn looser(&self, name: &str, limit: fn(&LatencyLimits) -> f64) -> Option<String> {
        let limit_ms = limit(self.entry.table.latency.get(&self.scenario).filter(|_| self.entry.is_closed())?);
        let key = format!("requested_server_{name}_latency");
        let is_looser = self.detail.number(&key).is_none_or(|ns| ns > limit_ms * 1e6);
        is_looser.then(|| format!("`{key}` is {}, {} has {limit_ms} ms", self.logged(&key), self.scenario.title()))
    }

    /// A finding where LoadGen called a run VALID that did not meet one of its conditions, in every division.
    fn unmet(&self, key: &str, is_always_there: bool) -> Option<String> {
        let is_unmet = self.detail.flag(key).map_or(is_always_there, |is_met| !is_met);
        let is_unmet = is_unmet && self.detail.result() == Some("VALID");
        is_unmet.then(|| format!("`{key}` is {}, and the result VALID", self.logged(key)))
    }

    fn logged(&self, key: &str) -> String {
        self.detail.get(key).map_or_else(|| "not logged".to_owned(), ToString::to_string)
    }

    /// How long the run lasted, milliseconds: in Offline what its samples took; else LoadGen schedules it.
    fn lasted(&self) -> Option<f64> {
        let number = |key: &str| self.detail.number(key);
        if self.scenario != MlperfScenario::Offline {
            return number("generated_query_duration").map(|ns| ns / 1e6);
        }
        // Equal issue rounds the one query up to a multiple of the data set.
        let samples = number("generated_samples_per_query").or_else(|| number("effective_samples_per_query"));
        samples.zip(number("result_samples_per_second")).map(|(samples, rate)| samples / rate * 1e3)
    }
}

const WHOLE: &str = "run with the benchmark's whole data set";
const CONDITIONS: &str = "LoadGen calls a run VALID when all of its conditions are met";
const NO_AUDIT: &str = "remove audit.config from where the run starts, and run again";

/// What the keys of a performance run's log have to be.
fn key_rules(to: &mut SubmissionFindings, at: &Path, run: &Run) {
    let (table, is_closed) = (run.entry.table, run.entry.is_closed());
    findings! { to;
        Refused, Duration, at, run.least("effective_min_duration_ms", SHORTEST_MS),
            "every test of a language model lasts at least 600 s",
            "take `min_duration` out of user.conf (and `rehearse` out of the manifest); run again";
        // 0: without end.
        Refused, Duration, at,
            run.most("effective_max_duration_ms", 0.0).and(run.least("effective_max_duration_ms", SHORTEST_MS)),
            "LoadGen stops then, and every test lasts at least 600 s",
            "take `max_duration` out of user.conf; run again";
        Refused, Duration, at,
            run.lasted().filter(|ms| *ms < SHORTEST_MS)
                .map(|ms| format!("by its own numbers it lasted {:.0} s", ms / 1e3)),
            "every test of a language model lasts at least 600 s",
            "raise target_qps to what the system does, so that there are enough samples; run again";
        Refused, SampleCount, at, run.least("effective_performance_sample_count", table.performance_samples as f64),
            "the sample library holds the whole data set, so that no cache can hold all requested samples", WHOLE;
        Refused, OfflineSamples, at,
            run.least("effective_samples_per_query", table.offline_min_samples as f64)
                .filter(|_| run.scenario == MlperfScenario::Offline && is_closed),
            "Offline asks for every sample at least once", WHOLE;
        // In Open it may be another data set.
        if is_closed { Refused } else { Review }, SampleCount, at,
            run.least("qsl_reported_total_count", table.dataset_samples as f64),
            "a result is measured on the whole data set", WHOLE;
        // The official checker takes a larger one; in published results of Closed it is always the benchmark's.
        Review, SampleCount, at,
            run.most("qsl_reported_total_count", table.dataset_samples as f64).filter(|_| is_closed),
            "a result is measured on the benchmark's data set", "look whether the log is of another benchmark";
        // Since v6.0 the official checker does not ask for it, and a published result is without.
        FindingWeight::of_older_checker(run.entry.layout), EqualIssue, at,
            run.switch("effective_sample_concatenate_permutation", true).filter(|_| is_closed),
            "equal issue: in performance runs of language models each sample is issued equally often",
            "take it out of user.conf; audit tests turn it off themselves, results may not";
        // For debugging or for audits, and never for a result.
        Refused, AuditSettings, at, run.switch("effective_performance_issue_unique", false),
            "it makes LoadGen ask other samples than the rules say", NO_AUDIT;
        Refused, AuditSettings, at, run.switch("effective_performance_issue_same", false),
            "it makes LoadGen ask other samples than the rules say", NO_AUDIT;
        Refused, AuditSettings, at, run.most("effective_accuracy_log_probability", 0.0),
            "LoadGen took an audit.config; the log of an audit test is not a result", NO_AUDIT;
        Refused, AuditSettings, at, run.most("effective_accuracy_log_sampling_target", 0.0),
            "LoadGen took an audit.config; the log of an audit test is not a result", NO_AUDIT;
        Refused, Verdict, at, run.unmet("early_stopping_met", true), CONDITIONS, REPACK;
        Refused, Verdict, at, run.unmet("result_min_duration_met", true), CONDITIONS, REPACK;
        Refused, Verdict, at, run.unmet("result_min_queries_met", true), CONDITIONS, REPACK;
        Refused, Verdict, at, run.unmet("result_perf_constraints_met", run.scenario.loadgen() == "Server"),
            CONDITIONS, REPACK;
        checks::weight(run.entry), TokenLatencies, at, run.switch("requested_use_token_latencies", true),
            "language models are judged by tokens; LoadGen drops the rule for a model name that it does not know",
            format!("LoadGen's name of the model is `{}`", table.loadgen_model);
        Refused, LatencyLimits, at,
            run.most("effective_target_latency_percentile", 0.0)
                .and(run.least("effective_target_latency_percentile", 0.99))
                .filter(|_| is_closed && table.latency.contains_key(&run.scenario)),
            "limits are for the 99th percentile", "take it out of user.conf; run again";
        Refused, LatencyLimits, at, run.looser("ttft", |limits| limits.ttft_ms),
            "LoadGen judged this run by looser limits than its folder's; the official checker takes it",
            format!("run it as model `{}`", table.loadgen_model(run.scenario));
        Refused, LatencyLimits, at, run.looser("tpot", |limits| limits.tpot_ms),
            "LoadGen judged this run by looser limits than its folder's; the official checker takes it",
            format!("run it as model `{}`", table.loadgen_model(run.scenario));
        // Of a whole query; 0 where LoadGen judges tokens. In every division.
        Refused, LatencyLimits, at,
            table.target_latency_ms.filter(|_| run.scenario.loadgen() == "Server")
                .and_then(|most| run.most("effective_target_latency_ns", most * 1e6)),
            "early stopping goes by the round's latency of a query, or a shorter one",
            "take `target_latency` out of user.conf; run again";
    }
}

/// LoadGen runs on the host in Closed, on another machine in Network, and the name of the system under test shows
/// which. In Open the description of the system decides.
fn place(to: &mut SubmissionFindings, at: &Path, detail: &Detail, entry: &ResultEntry) {
    let (name, division) = (detail.text("sut_name").unwrap_or_default(), entry.submitter.division.as_str());
    let is_open_network = division == "open" && entry.traits.is_network;
    let (is, must) = (name.contains("Network SUT"), division == "network" || is_open_network);
    let open_network = if is_open_network { ", and `is_network` of the system is true" } else { "" };
    findings! { to;
        // What a system is called in Closed is not looked at.
        if must { Refused } else { Review }, Division, at,
            (is != must && (division != "open" || must)).then(|| {
                format!("the system under test is called {name:?} in the division {division}{open_network}")
            }),
            "`Network SUT` is in its name exactly when LoadGen is on another machine",
            "pack it for the other division, or run it on the host";
    }
}

/// What the run is worth, by the numbers that the official checker takes. `benchmark` is the round's name of it.
pub(super) fn value(detail: &Detail, benchmark: &str, scenario: MlperfScenario) -> JudgedRun {
    let ms = |key: &str| detail.number(key).map(|ns| ns / 1e6);
    let inferred = scenario == MlperfScenario::Offline
        && detail.text("effective_scenario") == Some(MlperfScenario::SingleStream.loadgen());
    let (value, unit) = match scenario {
        MlperfScenario::Offline if inferred => (detail.number("result_qps_without_loadgen_overhead"), "samples/s"),
        MlperfScenario::Offline => (detail.number("result_tokens_per_second"), "tok/s"),
        MlperfScenario::Server | MlperfScenario::Interactive => {
            (detail.number("result_completed_tokens_per_second"), "tok/s")
        }
        // Its latency is LoadGen's 90th percentile. That of others is what early stopping estimates.
        MlperfScenario::SingleStream if benchmark == ON_THE_EDGE => (ms("result_90.00_percentile_latency_ns"), "ms"),
        MlperfScenario::SingleStream => (ms("early_stopping_latency_ss"), "ms"),
    };
    JudgedRun {
        value,
        unit: unit.to_owned(),
        validity: detail.text("result_validity").map(str::to_owned),
        errors: detail.all_errors(),
        ttft_p99_ms: ms("result_first_token_99.00_percentile_latency_ns"),
        tpot_p99_ms: ms("result_time_per_output_token_99.00_percentile_ns"),
        simulated: false,
        rehearsal: false,
        inferred,
    }
}

const WHY: &str = "both are of one run; a log is submitted as LoadGen wrote it";
/// Answers of a performance run and of the accuracy run, in tokens; published results differ by 2.3 % at most. A larger
/// difference is for review, and one of more than 10 % is refused.
const LENGTH_TOLERANCES: [(f64, FindingWeight); 2] = [(0.1, Refused), (0.024, Review)];

/// The lengths of answers: those of the accuracy run, and no more tokens than the benchmark allows.
pub(super) fn check_consistency(
    to: &mut SubmissionFindings,
    entry: &ResultEntry,
    detail: &Detail,
    scores: &IndexMap<String, f64>,
) {
    let benchmark = entry.table;
    let keys = match entry.scenario_of_run(detail) {
        MlperfScenario::Offline => ["result_tokens_per_second", "result_samples_per_second"],
        MlperfScenario::Server | MlperfScenario::Interactive => {
            ["result_completed_tokens_per_second", "result_completed_samples_per_sec"]
        }
        MlperfScenario::SingleStream => return,
    };
    let at = entry.performance().join(DETAIL_FILE);
    let [tokens, samples] = keys.map(|key| detail.number(key).filter(|rate| *rate > 0.0));
    let mean = tokens.zip(samples).map(|(tokens, samples)| tokens / samples);
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
    pub(super) fn add(&mut self, entry: &ResultEntry, inferred: bool) {
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
    finding!(to; Review, ReusedLog, log, format!("it is, byte for byte, {}", first.display()),
        if name == DETAIL_FILE {
            "a run is that of one system, scenario and test; its log has its process and its times, which no other run \
             has"
        } else {
            "runs of another benchmark, scenario or test give other answers, or in another order"
        },
        "one of the two is of the other's run: put its own there");
}
