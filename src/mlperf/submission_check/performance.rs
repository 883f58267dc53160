//! A performance run: valid by LoadGen's own result, long enough, and with the limits of its folder.

use std::path::Path;

use super::checks::{FindingWeight, SubmissionCheck, SubmissionFindings};
use super::tree::ResultEntry;
use super::{JudgedRun, checks, loadgen};
use base::files::read_text;
use rules::log::{DETAIL_FILE, Detail, SUMMARY_FILE};
use rules::{Benchmark, MlperfScenario, Round};

const SHORTEST_MS: f64 = 600_000.0;
/// The language model that is measured in SingleStream.
const ON_THE_EDGE: &str = "llama3.1-8b-edge";

pub(super) fn check(
    to: &mut SubmissionFindings,
    entry: &ResultEntry,
    round: &Round,
    benchmark: &Benchmark,
    scenario: MlperfScenario,
) -> Option<Detail> {
    let folder = entry.performance();
    let detail = loadgen::read(to, &folder, round, loadgen::RunKind::Performance)?;
    loadgen::scenario(to, &folder, &detail, entry, scenario);
    let scenario = entry.scenario_of_run(&detail, scenario);
    let at = folder.join(DETAIL_FILE);
    valid(to, &folder, &detail);
    duration(to, &at, &detail, scenario);
    samples(to, &at, &detail, benchmark, scenario, entry);
    dataset(to, &at, &detail, benchmark, entry);
    equal_issue(to, &at, &detail, entry);
    switches(to, &at, &detail);
    place(to, &at, &detail, entry);
    checks::check_limits(to, &at, &detail, entry, benchmark, scenario);
    Some(detail)
}

/// The official checker looks at `result_validity` and continues whatever its value.
fn valid(to: &mut SubmissionFindings, folder: &Path, detail: &Detail) {
    let at = folder.join(DETAIL_FILE);
    let text = detail.text("result_validity").unwrap_or("nothing");
    if text != "VALID" {
        let unmet = [
            ("result_perf_constraints_met", "the performance constraints"),
            ("result_min_duration_met", "the minimum duration"),
            ("result_min_queries_met", "the minimum of queries"),
            ("early_stopping_met", "early stopping"),
        ];
        let unmet: Vec<&str> =
            unmet.iter().filter(|(key, _)| detail.flag(key) == Some(false)).map(|(_, name)| *name).collect();
        let unmet = if unmet.is_empty() { String::new() } else { format!("; not met: {}", unmet.join(", ")) };
        let finding = format!("LoadGen reports {text} for this run{unmet}");
        to.refuse(SubmissionCheck::NotValid, &at, finding)
            .rule("only a run that LoadGen reports as VALID is a result; the official checker does not check this")
            .fix("lower target_qps or lengthen the run as the summary recommends, and run again");
    }
    let summary = read_text(folder.join(SUMMARY_FILE)).unwrap_or_default();
    let stated = summary.lines().find_map(|line| line.strip_prefix("Result is : ")).map(str::trim);
    match stated {
        Some(stated) if stated != text => {
            let finding = format!("it has {stated}, the detail log has {text}");
            to.refuse(SubmissionCheck::LogsDisagree, &folder.join(SUMMARY_FILE), finding)
                .rule("both are of one run")
                .fix("pack both of the same run");
        }
        None if folder.join(SUMMARY_FILE).is_file() => {
            let finding = "it has no line `Result is :`";
            to.refuse(SubmissionCheck::TornLog, &folder.join(SUMMARY_FILE), finding)
                .rule("the run was broken off")
                .fix("run the test again");
        }
        _ => {}
    }
}

fn duration(to: &mut SubmissionFindings, at: &Path, detail: &Detail, scenario: MlperfScenario) {
    let requested = detail.number("effective_min_duration_ms");
    if requested.is_none_or(|requested| requested < SHORTEST_MS) {
        let finding = format!(
            "min_duration was {} ms, the rules want {SHORTEST_MS} ms",
            requested.map_or("no".to_owned(), |ms| ms.to_string())
        );
        to.refuse(SubmissionCheck::Duration, at, finding)
            .rule("every test of a language model lasts at least 600 s")
            .fix("take `min_duration` out of user.conf (and `rehearse` out of the manifest); run again");
    }
    if let Some(most) = detail.number("effective_max_duration_ms").filter(|most| *most > 0.0 && *most < SHORTEST_MS) {
        let finding = format!("max_duration was {most} ms: LoadGen stops before the rules allow it");
        to.refuse(SubmissionCheck::Duration, at, finding)
            .rule("every test lasts at least 600 s")
            .fix("take `max_duration` out of user.conf; run again");
    }
    // Of Offline the duration is what the samples took; of the others LoadGen schedules it.
    let lasted = match scenario {
        MlperfScenario::Offline => detail
            // Equal issue rounds the one query up to a multiple of the data set.
            .number("generated_samples_per_query")
            .or_else(|| detail.number("effective_samples_per_query"))
            .zip(detail.number("result_samples_per_second"))
            .map(|(samples, rate)| samples / rate * 1e3),
        _ => detail.number("generated_query_duration").map(|ns| ns / 1e6),
    };
    if let Some(lasted) = lasted.filter(|lasted| *lasted < SHORTEST_MS) {
        let finding = format!("by its own numbers it lasted {:.0} s", lasted / 1e3);
        to.refuse(SubmissionCheck::Duration, at, finding)
            .rule("every test of a language model lasts at least 600 s")
            .fix("raise target_qps to what the system does, so that there are enough samples; run again");
    }
}

fn samples(
    to: &mut SubmissionFindings,
    at: &Path,
    detail: &Detail,
    benchmark: &Benchmark,
    scenario: MlperfScenario,
    entry: &ResultEntry,
) {
    let mut less = |check: SubmissionCheck, key: &str, least: u64, rule: &str| match detail.count(key) {
        Some(found) if found >= least => {}
        found => {
            let logged = found.map_or("not logged".to_owned(), |found| found.to_string());
            let finding = format!("{key} is {logged}, the benchmark has {least}");
            to.refuse(check, at, finding).rule(rule).fix("run with the benchmark's whole data set");
        }
    };
    let whole = "the sample library holds the whole data set, so that no cache can hold all requested samples";
    less(SubmissionCheck::SampleCount, "effective_performance_sample_count", benchmark.performance_samples, whole);
    if scenario == MlperfScenario::Offline && entry.is_closed() {
        let rule = "Offline asks for every sample at least once";
        less(SubmissionCheck::OfflineSamples, "effective_samples_per_query", benchmark.offline_min_samples, rule);
    }
}

/// The data set as the run's sample library counted it. In Open it may be another. The official checker takes a larger
/// one; in published results of Closed it is always the benchmark's.
fn dataset(to: &mut SubmissionFindings, at: &Path, detail: &Detail, benchmark: &Benchmark, entry: &ResultEntry) {
    let reported_samples = detail.count("qsl_reported_total_count");
    let is_less = reported_samples.is_none_or(|samples| samples < benchmark.dataset_samples);
    if is_less || (reported_samples != Some(benchmark.dataset_samples) && entry.is_closed()) {
        let reported = reported_samples.map_or("not logged".to_owned(), |samples| samples.to_string());
        let finding =
            format!("qsl_reported_total_count is {reported}, the benchmark has {}", benchmark.dataset_samples);
        let (why, fix) = if is_less {
            ("a result is measured on the whole data set", "run with the benchmark's whole data set")
        } else {
            ("a result is measured on the benchmark's data set", "look whether the log is of another benchmark")
        };
        let weight = if is_less && entry.is_closed() { FindingWeight::Refused } else { FindingWeight::Review };
        to.find(weight, SubmissionCheck::SampleCount, at, finding).rule(why).fix(fix);
    }
}

/// Since v6.0 the official checker does not ask for it, and a published result is without.
fn equal_issue(to: &mut SubmissionFindings, at: &Path, detail: &Detail, entry: &ResultEntry) {
    if entry.is_closed() && detail.flag("effective_sample_concatenate_permutation") != Some(true) {
        let finding = "equal issue (sample_concatenate_permutation) was off";
        to.find(FindingWeight::of_older_checker(entry.layout), SubmissionCheck::EqualIssue, at, finding)
            .rule("in performance runs of language models each sample is issued equally often")
            .fix("take it out of user.conf; audit tests turn it off themselves, results may not");
    }
}

/// LoadGen runs on the host in Closed, on another machine in Network, and the name of the system under test shows
/// which. In Open the description of the system decides.
fn place(to: &mut SubmissionFindings, at: &Path, detail: &Detail, entry: &ResultEntry) {
    let name = detail.text("sut_name").unwrap_or_default();
    let division = entry.submitter.division.as_str();
    let is_open_network = division == "open" && entry.traits.is_network;
    let (is, must) = (name.contains("Network SUT"), division == "network" || is_open_network);
    if is != must && (division != "open" || must) {
        let open_network = if is_open_network { ", and `is_network` of the system is true" } else { "" };
        let finding = format!("the system under test is called {name:?} in the division {division}{open_network}");
        // What a system is called in Closed is not looked at.
        let weight = if must { FindingWeight::Refused } else { FindingWeight::Review };
        to.find(weight, SubmissionCheck::Division, at, finding)
            .rule("`Network SUT` is in its name exactly when LoadGen is on another machine")
            .fix("pack it for the other division, or run it on the host");
    }
}

/// Settings that are for debugging or for audits, and never for a result.
fn switches(to: &mut SubmissionFindings, at: &Path, detail: &Detail) {
    for key in ["performance_issue_unique", "performance_issue_same"] {
        if detail.flag(&format!("effective_{key}")) == Some(true) {
            to.refuse(SubmissionCheck::AuditSettings, at, format!("{key} was on"))
                .rule("it makes LoadGen ask other samples than the rules say")
                .fix("run again without audit.config");
        }
    }
    for key in ["accuracy_log_probability", "accuracy_log_sampling_target"] {
        if detail.number(&format!("effective_{key}")).is_some_and(|value| value > 0.0) {
            let finding = format!("{key} was on: this is a run of an audit test");
            to.refuse(SubmissionCheck::AuditSettings, at, finding)
                .rule("LoadGen took an audit.config; its log is not a result")
                .fix("remove audit.config from where the run starts, and run again");
        }
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
