//! `bench.search` with `loadgen` — the highest `target_qps` at which LoadGen's own rules hold. Every probe is a LoadGen
//! test in `probes/<n>-<rate>`; one that was finished is not run again when the search was cut off.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::probe::{client_end, client_fault, require_server, second_folder};
use super::{FILE, PROBES, SearchStep, SearchTest, next, with_identity};
use crate::bench::loadgen::LoadgenStage;
use crate::bench::resume::{self, Servers, ended_without_result};
use base::event::{Done, Failure, FailureKind, Verdict};
use harness::{
    BenchSpec, LoadgenJudgement, RateBounds, RateProbe, Reason, ReasonSeverity, RunResult, SearchJudge, SearchProbe,
    SearchReport, SearchRules, VerdictCheck,
};
use mlperf::{TEST_FILE, explain};
use plan::loadgen::{Cost, full_test, short, test_request};
use plan::manifest::model::Bench;
use rules::LatencyLimits;
use rules::log::{DETAIL_FILE, Detail};
use runner::store::WithPath as _;

/// A probe that was judged by LoadGen.
type LoadgenProbe = SearchProbe<LoadgenJudgement>;

/// Searches.
pub async fn perform(stage: &LoadgenStage<'_>, bounds: RateBounds, spec: &BenchSpec) -> Result<Done, Failure> {
    let LoadgenStage { context, bench, loadgen, .. } = *stage;
    if let Some(wrong) = bounds.problem() {
        return Err(Failure::refused(format!("`bench.search`: {wrong}")));
    }
    let cost =
        Cost::estimate(bench).ok_or_else(|| Failure::refused("the rules do not allow the tests of this search"))?;
    context.lease.notice(cost.to_string());
    let servers = resume::begin(context, spec, &context.lease.out.join(FILE), PROBES).await?;
    let mut probes: Vec<LoadgenProbe> = Vec::new();
    let interval = loop {
        let history: Vec<SearchTest> = probes
            .iter()
            .map(|one| SearchTest { rate: one.probe.rate, is_whole: one.judgement.is_whole, met: one.probe.met })
            .collect();
        let (rate, is_whole) = match next(&bounds, &history) {
            SearchStep::ShortTest(rate) => (rate, false),
            SearchStep::FullTest(rate) => (rate, true),
            SearchStep::Found(found) => break found,
            SearchStep::NotEvenLow => {
                let reason = probes.iter().rev().find_map(|one| one.why.clone()).unwrap_or_default();
                let message = format!("LoadGen's rules do not hold even at {} qps", bounds.low);
                let failure = Failure::new(FailureKind::Invalid(Verdict::LimitMissed), message).cause(reason);
                let failure = failure.hint("begin lower: `search.low`");
                return Err(ended_without_result(&context.lease.out, PROBES, failure));
            }
        };
        let step = (probes.len() + 1, rate, is_whole);
        let probe = match Box::pin(attempt(stage, (spec, &servers), step)).await? {
            ControlFlow::Continue(probe) => probe,
            ControlFlow::Break(done) => return Ok(done),
        };
        context.lease.notice(probe_line(&probe));
        probes.push(probe);
    };
    let limits = limits(bench);
    let search_report = SearchReport {
        rules: SearchRules::Loadgen { judge: SearchJudge::Loadgen, rehearsal: loadgen.rehearse },
        bounds,
        ttft_p99_limit_ms: limits.map(|limits| limits.ttft_ms),
        tpot_p99_limit_ms: limits.map(|limits| limits.tpot_ms),
        probes,
        found: interval,
    };
    let probes = &search_report.probes;
    // The output of this stage is that of the whole test at the rate that was found.
    let best = probes
        .iter()
        .rev()
        .find(|one| one.judgement.is_whole && one.probe.met && one.probe.rate.total_cmp(&interval.at_least).is_eq());
    if let Some(best) = best {
        copy(&context.lease.out.join(&best.folder), &context.lease.out)?;
    }
    context.write_json(FILE, &search_report)?;
    let upper = interval.below.map_or_else(|| " or more".to_owned(), |below| format!("–{below}"));
    let whole = probes.iter().filter(|one| one.judgement.is_whole).count();
    let headline = format!(
        "target_qps {}{upper} by LoadGen's rules ({} short tests, {whole} whole)",
        interval.at_least,
        probes.len() - whole
    );
    let result = harness::read_result(&context.lease.out.join(harness::RESULT));
    let warnings = result.map(|result| result.reasons().iter().map(Reason::line).collect()).unwrap_or_default();
    Ok(Done { warnings, ..with_identity(&context.lease.out, &headline) })
}

/// Runs one test, or reads what an earlier attempt of this stage found.
async fn attempt(
    stage: &LoadgenStage<'_>,
    (spec, servers): (&BenchSpec, &Servers),
    (number, rate, is_whole): (usize, f64, bool),
) -> Result<ControlFlow<Done, LoadgenProbe>, Failure> {
    let LoadgenStage { context, bench, loadgen, .. } = *stage;
    let kind = if is_whole { "-whole" } else { "" };
    let mut folder = Path::new(PROBES).join(format!("{number:02}-{rate}{kind}"));
    let test = if is_whole { full_test(loadgen, rate) } else { short(loadgen, rate) };
    // As in a search by the limits of the stage: a stall of a moment does not end it, a client that is too slow does.
    let mut is_second = false;
    loop {
        let path = context.lease.out.join(&folder);
        if let Some((result, detail)) = before(&path, rate, servers) {
            return Ok(ControlFlow::Continue(probe_of(rate, is_whole, folder, &result, &detail)));
        }
        empty(&path)?;
        let result = Box::pin(LoadgenStage { loadgen: &test, ..*stage }.run_test(spec.clone(), &path)).await?;
        require_server(&result, &format!("{rate} qps"))?;
        if let Some(fault) = server_fault(&result) {
            let summary = format!("at {rate} qps the server is at fault, and a lower rate would not change that");
            return Err(Failure::new(FailureKind::Invalid(result.verdict()), summary).cause(fault.line()));
        }
        match client_fault(&result) {
            None => return Ok(ControlFlow::Continue(probe_of(rate, is_whole, folder, &result, &read(&path)?))),
            Some(_) if is_second => {
                return client_end(context, bench, (&format!("{rate} qps"), &folder), &result).await;
            }
            Some(why) => {
                let label = format!("at {rate} qps the client was disturbed; measuring again");
                context.lease.notice(format!("{label}: {why}"));
                is_second = true;
                folder = second_folder(&folder);
            }
        }
    }
}

/// Those of the round.
fn limits(bench: &Bench) -> Option<LatencyLimits> {
    let request = test_request(bench)?;
    request.find().ok()?.benchmark.latency.get(&request.scenario).copied()
}

/// What makes a test INVALID(server) at any rate. Failed requests do not: they also occur where a rate is too high.
fn server_fault(result: &RunResult) -> Option<&Reason> {
    let is_fault =
        |reason: &&Reason| reason.severity == ReasonSeverity::InvalidServer && reason.check != VerdictCheck::Failures;
    result.reasons().iter().find(is_fault)
}

/// One test as it is shown; the figures are LoadGen's. A rate holds where the benchmark could be run at it: a run that
/// LoadGen reports as VALID may be INVALID all the same, as one whose requests were issued at another rate than
/// scheduled.
fn probe_of(rate: f64, is_whole: bool, folder: PathBuf, result: &RunResult, detail: &Detail) -> LoadgenProbe {
    let explanation = explain(detail);
    let ms = |key: &str| detail.number(key).map(|ns| ns / 1e6);
    let is_valid = explanation.result.as_deref() == Some("VALID") && explanation.reasons.is_empty();
    let met = is_valid && result.verdict().is_valid();
    let first_reason = || result.reasons().first().map(Reason::line).filter(|_| !met);
    SearchProbe {
        probe: RateProbe { rate, met },
        judgement: LoadgenJudgement { is_whole },
        ttft_p99_ms: ms("result_first_token_99.00_percentile_latency_ns"),
        tpot_p99_ms: ms("result_time_per_output_token_99.00_percentile_ns"),
        output_tokens_per_s: detail.number("result_completed_tokens_per_second"),
        why: explanation.reasons.first().map(|reason| reason.what.clone()).or_else(first_reason),
        folder,
    }
}

/// `short test at 20 qps: held` and why not.
fn probe_line(probe: &LoadgenProbe) -> String {
    let kind = if probe.judgement.is_whole { "whole" } else { "short" };
    let came = if probe.probe.met { "held" } else { "missed" };
    let reason = probe.why.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
    format!("{kind} test at {} qps {came}{reason}", probe.probe.rate)
}

/// A test of this rate that was finished: its last file is there, and its result is whole.
fn before(path: &Path, rate: f64, servers: &Servers) -> Option<(RunResult, Detail)> {
    let result = harness::read_result(&path.join(harness::RESULT)).ok()?;
    let is_fault = client_fault(&result).is_some() || server_fault(&result).is_some();
    if !path.join(TEST_FILE).is_file() || !servers.are_those_of(&result) || is_fault {
        return None;
    }
    let detail = read(path).ok()?;
    let same = detail.number("effective_target_qps").is_some_and(|target| (target - rate).abs() <= rate * 1e-5);
    (same && detail.result().is_some()).then_some((result, detail))
}

fn read(path: &Path) -> Result<Detail, Failure> {
    Detail::read_folder(path)
        .map_err(|error| Failure::refused(format!("`{}` {error}", path.join(DETAIL_FILE).display())))
}

/// Removes what an unfinished test left: another test must not continue from it.
fn empty(path: &Path) -> Result<(), Failure> {
    if path.exists() {
        fs::remove_dir_all(path).at("remove", path)?;
    }
    Ok(fs::create_dir_all(path).at("create", path)?)
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let entries = fs::read_dir(from).at("list", from)?;
    for entry in entries {
        let entry = entry.at("list", from)?;
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            fs::copy(entry.path(), to.join(entry.file_name())).at("copy", &entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A result with this verdict and one reason for it.
    fn result(verdict: &str, check: &str, severity: &str) -> RunResult {
        let text = include_str!("../../../../tests/golden/results/benchmark/result.json");
        let mut result: Value = serde_json::from_str(text).unwrap();
        result["verdict"] = verdict.into();
        result["reasons"] = json!([{"check": check, "severity": severity, "text": "as it was"}]);
        serde_json::from_value(result).unwrap()
    }

    fn probe(log: &str, result: &RunResult) -> LoadgenProbe {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/mlperf/logs").join(log);
        probe_of(100.0, true, PathBuf::from("probes/01-100"), result, &Detail::read_folder(&folder).unwrap())
    }

    #[test]
    fn a_rate_holds_where_the_run_is_valid_by_loadgen_and_by_its_verdict() {
        let late = result("valid_with_warnings", "lag", "warning");
        let held = probe("server-valid", &late);
        assert!(held.probe.met && held.why.is_none(), "{:?}", held.why);
        let other_rate = probe("server-valid", &result("limit_missed", "rate", "limit_missed"));
        assert!(!other_rate.probe.met);
        assert_eq!(other_rate.why.as_deref(), Some("rate: as it was"));
        let slow = probe("server-slow", &late);
        assert!(!slow.probe.met && slow.why.is_some_and(|why| why.starts_with("p99 TTFT of 640 queries")));
    }

    #[test]
    fn a_late_client_is_no_evidence_about_the_system() {
        assert_eq!(client_fault(&result("invalid_client", "lag", "invalid_client")).as_deref(), Some("lag: as it was"));
        assert_eq!(client_fault(&result("limit_missed", "loadgen", "limit_missed")), None);
    }

    #[test]
    fn no_lower_rate_is_tried_where_the_server_breaks_the_protocol() {
        let broken = result("invalid_server", "protocol", "invalid_server");
        assert_eq!(server_fault(&broken).map(Reason::line).as_deref(), Some("protocol: as it was"));
        assert_eq!(server_fault(&result("invalid_server", "failures", "invalid_server")), None);
        assert_eq!(server_fault(&result("valid_with_warnings", "protocol", "warning")), None);
    }
}
