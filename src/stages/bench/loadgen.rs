//! `bench:` with `loadgen:` — one LoadGen test in a child process of this program.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::measurement::{task_outcome, wait_for_unresponsive_server};
use super::telemetry::Observers;
use super::{identity, search};
use crate::mlperf::{LIBRARY, MeteredTest, read_dataset_record, run_loadgen};
use crate::task_context::TaskContext;
use base::event::{Done, Failure, Verdict};
use base::spec::TestMode;
use harness::{BenchSpec, RunResult, ServerIdentity, Slo, UnjudgedRun, is_of_busy_machine};
use mlperf::loadgen::{ChildMessage, ChildOrders, LoadgenTest, MonotonicTime};
use mlperf::{DatasetRecord, SIMULATED_SUT, explain};
use plan::loadgen::test_request;
use plan::manifest::model::{self, Bench, Loadgen};
use rules::conf::conf;
use rules::log::Detail;
use rules::{Benchmark, Estimate, MlperfScenario, RuleError, TestRequest};

/// A stage that LoadGen measures.
#[derive(Clone, Copy)]
pub struct LoadgenStage<'a> {
    pub context: &'a TaskContext,
    pub bench: &'a Bench,
    pub loadgen: &'a Loadgen,
}

impl LoadgenStage<'_> {
    /// One test, or a search for the highest rate by many.
    pub async fn perform(&self, spec: BenchSpec) -> Result<Done, Failure> {
        if let Some(&model::RateSearch { low, high, precision, .. }) = self.bench.search.as_ref() {
            let bounds = harness::RateBounds { low, high, precision };
            return Box::pin(search::loadgen::perform(self, bounds, &spec)).await;
        }
        let out = &self.context.lease.out;
        let result = Box::pin(self.run_test(spec, out)).await?;
        task_outcome(self.bench, &result).map_err(|failure| match hint(&result, out) {
            Some(hint) => failure.hint(hint),
            None => failure,
        })
    }

    /// One LoadGen test, its files in `out`. A server that is lost under it is a result, too: INVALID(server).
    pub async fn run_test(&self, spec: BenchSpec, out: &Path) -> Result<RunResult, Failure> {
        let Self { context, bench, .. } = *self;
        let (mut test, expected) = self.test(spec, out)?;
        let spec = test.spec.clone();
        let before = identity::of_servers(&spec).await;
        if before.iter().any(ServerIdentity::is_simulated) {
            test.sut_name = format!("{SIMULATED_SUT} {}", test.sut_name);
        }
        let orders = ChildOrders::Test(Box::new(test));
        let meter = self.loadgen.power.as_ref();
        let metered = meter.map(|meter| MeteredTest::new(context, meter, out)).transpose()?;
        let observers = Observers::start(context, &spec, before, bench.telemetry).await?;
        let ChildRunOutcome { ran, server_failure: lost, zero } =
            Box::pin(self.run_child(&orders, metered.as_ref(), &spec, expected)).await;
        let ran = ran.and_then(|()| metered.as_ref().map_or(Ok(()), MeteredTest::collect));
        let path = out.join(harness::RESULT);
        let system = |error: harness::HarnessError| Failure::system(error.to_string());
        let result = match (ran, &lost) {
            (Ok(()), _) => harness::read_result(&path).map_err(system)?,
            // It had to be stopped; what it saw until then it may have written.
            (Err(_), Some(why)) => harness::read_result(&path).map_err(|_| Failure::service(why.clone()))?,
            (Err(failure), None) => return Err(failure),
        };
        let zero = zero.and_then(MonotonicTime::instant).unwrap_or_else(Instant::now);
        let mut measured = UnjudgedRun::elsewhere(spec.clone(), result, zero);
        observers.finish(&mut measured, lost).await;
        let measured = measured.judge();
        harness::amend(out, &measured).map_err(system)?;
        Ok(measured.result)
    }

    /// Runs the test, of about this many queries.
    async fn run_child(
        &self,
        orders: &ChildOrders,
        metered: Option<&MeteredTest<'_>>,
        spec: &BenchSpec,
        expected: u64,
    ) -> ChildRunOutcome {
        let context = self.context;
        let stop = context.lease.stop.child();
        let (mut far, mut zero, mut lost) = (None, None, None);
        let answered = Arc::new(AtomicU64::new(0));
        let ran = {
            let mut running = std::pin::pin!(run_loadgen(context, orders, metered, &stop, |line| match line {
                ChildMessage::Phase(phase) => {
                    let runs = ["ranging: ", "testing: "];
                    let run = metered.map_or("", |_| runs[usize::from(zero.is_some())]);
                    context.lease.report_progress(format!("{run}{phase}"), 0, None);
                }
                ChildMessage::Progress { issued, ended, failed } => {
                    far = Some((ended, issued));
                    answered.store(ended, Ordering::Relaxed);
                    let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
                    let sent = if issued < expected { format!(", {issued} sent") } else { String::new() };
                    context.lease.report_progress(format!("answered{sent}{failed}"), ended, Some(expected.max(issued)));
                }
                ChildMessage::Zero(at) => zero = Some(at),
                ChildMessage::Probed(_) | ChildMessage::Done | ChildMessage::Failed { .. } => {}
            }));
            tokio::select! {
                ran = &mut running => ran,
                // A server of ours that is lost stops this task by itself; of others we see it here.
                silent = wait_for_unresponsive_server(spec, &answered) => {
                    lost = Some(silent.to_string());
                    stop.request();
                    running.await
                }
            }
        };
        let when = far.map_or_else(String::new, |(ended, issued)| format!("; {ended} of {issued} had ended"));
        let lost = lost.or_else(|| context.lease.stop.reason().map(str::to_owned)).map(|why| format!("{why}{when}"));
        ChildRunOutcome { ran, server_failure: lost, zero }
    }

    /// What the child is to do, and about how many queries that will be. Writes user.conf, and audit.config for an
    /// audit test.
    fn test(&self, mut spec: BenchSpec, out: &Path) -> Result<(LoadgenTest, u64), Failure> {
        let Self { context, bench, loadgen, .. } = *self;
        let folder = context.path(&loadgen.dataset);
        let dataset = dataset(&folder, &loadgen.benchmark)?;
        let bench = Bench { loadgen: Some(Box::new(loadgen.clone())), search: None, ..bench.clone() };
        let request = test_request(&bench).ok_or_else(|| Failure::refused("LoadGen has no such scenario"))?;
        let request = TestRequest { dataset_samples: Some(dataset.samples), ..request };
        let conf = conf(&request).map_err(|wrong| rule_failure(&wrong))?;
        let rules = request.find().map_err(|wrong| rule_failure(&wrong))?;
        if request.rehearsal {
            let samples = conf.settings.performance_samples;
            let seconds = conf.settings.min_duration_ms as f64 / 1e3;
            let is_timed = request.mode == TestMode::Performance;
            let least = if is_timed { format!(" for at least {seconds} s") } else { String::new() };
            context.lease.notice(format!("a rehearsal, which cannot be submitted: {samples} samples{least}"));
        }
        let estimate = Estimate::new(&conf.settings, rules.round.loadgen.seeds.schedule);
        let twice = if loadgen.power.is_some() { ", run twice for the power meter: ranging, then testing" } else { "" };
        context.lease.notice(format!("{estimate}{twice}"));
        apply_rules(&mut spec, &bench, &rules.benchmark, request.scenario);
        let user_conf = context.write(out.join("user.conf"), &conf.text)?;
        let audit = conf.audit.as_deref().map(|text| context.write(out.join("audit.config"), text)).transpose()?;
        let test = LoadgenTest {
            library: context.path(&loadgen.library).join(LIBRARY),
            samples: folder.join("dataset.jsonl"),
            dataset,
            out: out.to_owned(),
            sut_name: format!("Triton {} ({} endpoints)", spec.model, spec.endpoints.len()),
            spec,
            round: rules.round.name,
            benchmark: loadgen.benchmark.clone(),
            scenario: request.scenario,
            mode: request.mode,
            division: request.division,
            rehearsal: request.rehearsal.then_some(conf.settings.performance_samples),
            target_qps: request.target_qps,
            user_keys: conf.keys,
            user_conf,
            audit,
        };
        Ok((test, estimate.queries))
    }
}

/// How the child's run went.
struct ChildRunOutcome {
    ran: Result<(), Failure>,
    /// Why the servers answer no more.
    server_failure: Option<String>,
    zero: Option<MonotonicTime>,
}

/// What to do about an INVALID run. Where the client was late, a lower rate would be the client's, and not the
/// system's.
fn hint(result: &RunResult, out: &Path) -> Option<String> {
    const MORE_CORES: &str =
        "the client's own delay is in these latencies: give it more cores or connections before you lower `target_qps`";
    match result.verdict() {
        Verdict::Overloaded | Verdict::LimitMissed => next_rate(out),
        verdict => is_of_busy_machine(verdict, result.reasons()).then(|| MORE_CORES.to_owned()),
    }
}

/// What LoadGen's log advises, with a rate to try next.
fn next_rate(out: &Path) -> Option<String> {
    let explanation = explain(&Detail::read_folder(out).ok()?);
    let advice = explanation.reasons.first().map(|reason| reason.advice.clone())?;
    Some(
        explanation
            .next_qps
            .map_or_else(|| advice.clone(), |qps| format!("{advice}: `target_qps: {qps}` is a first guess")),
    )
}

/// What the rules forbid, all of it.
fn rule_failure(wrong: &[RuleError]) -> Failure {
    let lines: Vec<String> =
        wrong.iter().map(|one| format!("`{}` {}: {}", one.at.join("."), one.what, one.rule)).collect();
    Failure { hint: wrong.iter().find_map(|error| error.hint.clone()), ..Failure::refused(lines.join("; ")) }
}

/// What the rules require of requests.
fn apply_rules(spec: &mut BenchSpec, bench: &Bench, benchmark: &Benchmark, scenario: MlperfScenario) {
    if let Some(min) = benchmark.min_output_tokens.filter(|_| spec.request.min_length.is_none()) {
        spec.request.min_length = Some(min as i32);
    }
    if let Some(latency) = benchmark.latency.get(&scenario).filter(|_| bench.slo.is_none()) {
        spec.slo = Slo { ttft_ms: Some(latency.ttft_ms), tpot_ms: Some(latency.tpot_ms), e2e_ms: None };
    }
}

fn dataset(folder: &Path, benchmark: &str) -> Result<DatasetRecord, Failure> {
    let dataset_record = read_dataset_record(folder)?;
    let of_data = &dataset_record.benchmark;
    if of_data != benchmark {
        let owner = format!("{}: the data set belongs to {of_data}", folder.display());
        return Err(Failure::refused(format!("{owner}, but the benchmark is {benchmark}")));
    }
    Ok(dataset_record)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn result(verdict: &str, check: &str) -> RunResult {
        let text = include_str!("../../../tests/golden/results/benchmark/result.json");
        let mut result: Value = serde_json::from_str(text).unwrap();
        result["verdict"] = verdict.into();
        result["reasons"] = json!([{"check": check, "severity": verdict, "text": "as it was"}]);
        serde_json::from_value(result).unwrap()
    }

    #[test]
    fn a_lower_rate_is_advised_where_the_system_was_slow_and_not_where_the_client_was() {
        let slow = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/mlperf/logs/server-slow");
        let advice = hint(&result("limit_missed", "loadgen"), &slow).unwrap();
        assert!(advice.starts_with("the system cannot serve this rate in time: lower `target_qps`"), "{advice}");
        for check in ["lag", "cpu", "rate"] {
            let advice = hint(&result("invalid_client", check), &slow).unwrap();
            assert!(advice.contains("give it more cores") && !advice.contains("first guess"), "{advice}");
        }
        assert_eq!(hint(&result("invalid_client", "self_check"), &slow), None);
    }
}
