//! A performance run: valid by LoadGen's own result, long enough, and with the limits of its folder.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::checks::{FindingWeight, REPACK, Refused, Review, SubmissionCheck, SubmissionFindings, finding, findings};
use super::tree::ResultEntry;
use super::{JudgedRun, checks, loadgen};
use base::files::read_text;
use base::spec::MIN_DURATION_MS;
use rules::log::{ACCURACY_FILE, DETAIL_FILE, Detail, SUMMARY_FILE};
use rules::{LatencyLimits, MlperfScenario};

const SHORTEST_MS: f64 = MIN_DURATION_MS as f64;
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
    let has_errors = summary.contains("ERRORS encountered") || summary.contains("ERROR encountered");
    let answers = folder.join(ACCURACY_FILE);
    findings! { to;
        // Those of published results are empty lists, or not there.
        Review, AuditLog, &answers,
            std::fs::metadata(&answers).is_ok_and(|meta| meta.len() > 16).then_some("it has answers"),
            "LoadGen logs no answers in a performance run, unless an audit.config tells it to", NO_AUDIT;
        Review, LogsDisagree, &at,
            (has_errors && detail.all_errors() == 0).then_some("it reports errors, but the detail log has none"),
            "LoadGen counts the errors of its detail log there", REPACK;
        Refused, TornLog, &at, (at.is_file() && !has_result).then_some("it has no line `Result is :`"),
            "the run was interrupted", "run the test again";
        Review, TornLog, &at, (has_result && !has_end).then_some("it has no line `No errors encountered during test.`"),
            "the run was interrupted, or the file is truncated", "run the test again";
    }
}

/// A performance run, and the result that it is packed as.
struct Run<'a> {
    detail: &'a Detail,
    entry: &'a ResultEntry<'a>,
    /// The scenario that its log is judged in.
    scenario: MlperfScenario,
}

impl Run<'_> {
    /// A finding where a key is below a number, or not logged.
    fn least(&self, key: &str, least: f64) -> Option<String> {
        let is_less = self.detail.number(key).is_none_or(|number| number < least);
        is_less.then(|| format!("`{key}` is {}, and must be at least {least}", self.logged(key)))
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

    /// A finding where other samples were loaded than those of the library.
    fn loaded(&self) -> Option<String> {
        let loaded = self.detail.get("loaded_qsl_set")?.as_array()?;
        let different = loaded.iter().filter_map(Value::as_u64).collect::<BTreeSet<_>>().len() as u64;
        let count = self.detail.count("effective_performance_sample_count").filter(|count| *count != different)?;
        Some(format!("`loaded_qsl_set` has {different} samples, `effective_performance_sample_count` is {count}"))
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

/// What the rules require of the keys in a performance run's log.
fn key_rules(to: &mut SubmissionFindings, at: &Path, run: &Run) {
    let (table, is_closed) = (run.entry.table, run.entry.is_closed());
    // Most builds of LoadGen 4 do not log equal issue.
    let is_older = run.detail.is_of_version_4();
    let is_unlogged = is_older && run.detail.get("effective_sample_concatenate_permutation").is_none();
    let is_server = run.scenario.loadgen() == "Server";
    let is_stopped =
        |logged: String| logged.contains("unsuccessful") || is_server && !is_older && logged == "not logged";
    findings! { to;
        Refused, Duration, at, run.least("effective_min_duration_ms", SHORTEST_MS),
            "every test of a language model lasts at least 600 s",
            "take `min_duration` out of user.conf (and `rehearse` out of the manifest); run again";
        // 0: without end, as in all published results.
        if run.least("effective_max_duration_ms", SHORTEST_MS).is_some() { Refused } else { Review }, Duration, at,
            run.most("effective_max_duration_ms", 0.0),
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
            "a result is measured on the benchmark's data set", "check whether the log belongs to another benchmark";
        // Since v6.0 the official checker does not ask for it, and a published result is without.
        FindingWeight::of_older_checker(run.entry.layout), EqualIssue, at,
            run.switch("effective_sample_concatenate_permutation", true).filter(|_| is_closed && !is_unlogged),
            "equal issue: in performance runs of language models each sample is issued equally often",
            "remove it from user.conf; audit tests turn it off themselves, results may not";
        Review, Counts, at, run.loaded().filter(|_| is_closed), "LoadGen loads each sample of the library once", REPACK;
        // For debugging or for audits, and never for a result.
        Refused, AuditSettings, at,
            run.switch("effective_performance_issue_unique", false)
                .or_else(|| run.switch("effective_performance_issue_same", false)),
            "it makes LoadGen ask other samples than the rules say", NO_AUDIT;
        Refused, AuditSettings, at,
            run.most("effective_accuracy_log_probability", 0.0)
                .or_else(|| run.most("effective_accuracy_log_sampling_target", 0.0)),
            "LoadGen took an audit.config; the log of an audit test is not a result", NO_AUDIT;
        Refused, Verdict, at, run.unmet("early_stopping_met", true), CONDITIONS, REPACK;
        Refused, Verdict, at, run.unmet("result_min_duration_met", true), CONDITIONS, REPACK;
        Refused, Verdict, at, run.unmet("result_min_queries_met", true), CONDITIONS, REPACK;
        Refused, Verdict, at, run.unmet("result_perf_constraints_met", is_server), CONDITIONS, REPACK;
        Review, Verdict, at,
            ["early_stopping_ttft_result", "early_stopping_tpot_result"].into_iter()
                .find(|key| is_stopped(run.logged(key)) && run.detail.result() == Some("VALID"))
                .map(|key| format!("`{key}` is {}, and the result VALID", run.logged(key))), CONDITIONS, REPACK;
        Review, TokenLatencies, at, run.switch("requested_infer_token_latencies", false).filter(|_| is_closed),
            "TTFT and TPOT are measured of each answer", "remove it, and run again";
        checks::weight(run.entry), TokenLatencies, at, run.switch("requested_use_token_latencies", true),
            "language models are judged by tokens; LoadGen drops the rule for a model name that it does not know",
            format!("LoadGen's name of the model is `{}`", table.loadgen_model);
        Refused, LatencyLimits, at,
            run.most("effective_target_latency_percentile", 0.0)
                .and(run.least("effective_target_latency_percentile", 0.99))
                .filter(|_| is_closed && table.latency.contains_key(&run.scenario)),
            "limits are for the 99th percentile", "remove it from user.conf; run again";
        Refused, LatencyLimits, at,
            run.looser("ttft", |limits| limits.ttft_ms).or_else(|| run.looser("tpot", |limits| limits.tpot_ms)),
            "LoadGen judged this run by looser limits than its folder's; the official checker accepts it",
            format!("run it as model `{}`", table.loadgen_model(run.scenario));
        // Of a whole query; 0 where LoadGen judges tokens. In every division.
        Refused, LatencyLimits, at,
            table.target_latency_ms.filter(|_| is_server)
                .and_then(|most| run.most("effective_target_latency_ns", most * 1e6)),
            "early stopping uses the round's latency of a query, or a shorter one",
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

/// The result of the run, from the keys that the official checker reads. `benchmark` is its name in the round.
pub(super) fn value(detail: &Detail, benchmark: &str, scenario: MlperfScenario) -> JudgedRun {
    let ms = |key: &str| detail.number(key).map(|ns| ns / 1e6);
    let inferred = scenario == MlperfScenario::Offline
        && detail.text("effective_scenario") == Some(MlperfScenario::SingleStream.loadgen());
    let (value, unit) = match scenario.rates() {
        Some(_) if inferred => (detail.number("result_qps_without_loadgen_overhead"), "samples/s"),
        Some([tokens, _]) => (detail.number(tokens), "tok/s"),
        // Its latency is LoadGen's 90th percentile. That of others is what early stopping estimates.
        None if benchmark == ON_THE_EDGE => (ms("result_90.00_percentile_latency_ns"), "ms"),
        None => (ms("early_stopping_latency_ss"), "ms"),
    };
    JudgedRun {
        value,
        unit: unit.to_owned(),
        validity: detail.text("result_validity").map(str::to_owned),
        errors: detail.all_errors(),
        ttft_p99_ms: ms("result_first_token_99.00_percentile_latency_ns"),
        tpot_p99_ms: ms("result_time_per_output_token_99.00_percentile_ns"),
        inferred,
        ..JudgedRun::default()
    }
}
