//! One measurement: the servers probed, its telemetry and server metrics, and what its result means for the task.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::spawn_blocking;

use super::identity;
use super::spec::instead_of_proxy;
use super::telemetry::Observers;
use crate::serve::ready::{self, HealthProbe, SilenceLimits};
use crate::task_context::TaskContext;
use base::event::{Done, Failure, FailureKind, LiveMeasurement, Verdict};
use base::units::{grouped, three_digits};
use exec::process::{BusyProcess, ProcessorTimes};
use harness::preflight::PreflightResult;
use harness::{
    BenchProgress, BenchSpec, HarnessError, Measured, RunResult, SentHeaders, Workload, failure_cure,
    is_of_busy_machine,
};
use plan::manifest::model::{self, Bench, RepeatRole, WhenBusy};

/// What a result means for its task. One of several runs counts with any verdict, unless its server is gone.
pub fn task_outcome(bench: &Bench, result: &RunResult) -> Result<Done, Failure> {
    let reasons: Vec<String> = result.reasons().iter().map(harness::Reason::line).collect();
    let (headline, below) = (result.headline(), headline_details(result, &result.workload()));
    let is_part = bench.turn == Some(RepeatRole::Run) && result.server_lost().is_none();
    if result.verdict().is_valid() || is_part || is_only_noticed(bench, result.verdict(), result.reasons()) {
        return Ok(Done { headline: Some(headline), below, warnings: reasons, ..Done::default() });
    }
    let (kind, cause) = (FailureKind::Invalid(result.verdict()), reasons.first().cloned());
    Err(Failure { below, cause, tail: reasons, ..Failure::new(kind, headline) })
}

/// Whether a measurement that a busy machine spoiled only causes a notice instead of failing its stage.
pub fn is_only_noticed(bench: &Bench, verdict: Verdict, reasons: &[harness::Reason]) -> bool {
    bench.when_busy == WhenBusy::Notice && is_of_busy_machine(verdict, reasons)
}

/// What is below a headline: the server and its load, what was measured, the command that measures it again, and what
/// each host did.
pub fn headline_details(result: &RunResult, workload: &Workload) -> Vec<(String, String)> {
    let workload = [("workload".to_owned(), workload.to_string())];
    let measured = result.identity.as_ref().map(|identity| ("measured".to_owned(), identity.short_line()));
    let manifest = result.identity.as_ref().and_then(|identity| identity.manifest.as_ref());
    let again = manifest.and_then(|manifest| Some(("run again".to_owned(), manifest.command.clone()?)));
    let sustained = "`regatta what-if` computes what the simulated servers sustain";
    let smoke = result.is_smoke().then(|| ("smoke".to_owned(), sustained.to_owned()));
    workload.into_iter().chain(measured).chain(smoke).chain(again).chain(result.hosts_in_short()).collect()
}

/// Where one measurement is among those of its task.
#[derive(Clone, Copy, Default)]
pub struct MeasurementPlace<'a> {
    /// What progress calls it; empty where it is the only one.
    pub name: &'a str,
    /// How long those that follow it take, about.
    pub later: Option<Duration>,
}

/// One measurement, with its progress reported under its name. `preflight`: what a trial before it found.
pub async fn measure(
    context: &TaskContext,
    spec: &BenchSpec,
    watched: model::Telemetry,
    MeasurementPlace { name, later }: MeasurementPlace<'_>,
    preflight: Option<PreflightResult>,
) -> Result<Measured, Failure> {
    let stop = context.lease.stop.child();
    let processor_times = spawn_blocking(ProcessorTimes::now).await.ok();
    let before = identity::of_servers(spec).await;
    let observers = Observers::start(context, spec, before, watched).await?;
    // Since when answers are measured, and how many there are.
    let far: Mutex<Option<(Instant, u64, u64)>> = Mutex::new(None);
    let answered = Arc::new(AtomicU64::new(0));
    let live = Mutex::new(LiveNumbers::new(spec.stop.time(), observers.gpus_of_servers()));
    let mut measuring = Box::pin(harness::measure(spec, &stop, |progress| {
        let mut far = far.lock();
        let since = far.map_or_else(Instant::now, |(since, ..)| since);
        *far = Some((since, progress.so_far.ended, progress.scheduled));
        drop(far);
        answered.store(progress.so_far.ended + progress.so_far.tokens, Ordering::Relaxed);
        let measured = live.lock().take(Instant::now(), &progress);
        let text = live_line(&measured, progress.scheduled, later);
        let text = if name.is_empty() { text } else { format!("{name}: {text}") };
        context.lease.report_measuring(text, measured.ended, Some(progress.scheduled), Some(measured));
    }));
    let mut lost = None;
    // Every wait of a request ends with a stop, so that it needs no limit of its own.
    let measured = tokio::select! {
        measured = &mut measuring => measured,
        silent = wait_for_unresponsive_server(spec, &answered) => {
            lost = Some(format!("{silent}; {}", when(&far)));
            stop.request();
            measuring.await
        }
        () = context.lease.stop.requested() => {
            lost = context.lease.stop.reason().map(|why| format!("{why}; {}", when(&far)));
            measuring.await
        }
    };
    // The measurement may have seen the stop request before this task did.
    let lost = lost.or_else(|| context.lease.stop.reason().map(|why| format!("{why}; {}", when(&far))));
    let mut measured = match (measured, &lost) {
        (Err(HarnessError::Stopped), Some(why)) => return Err(Failure::service(why.clone())),
        (measured, _) => measured.map_err(|error| failure(&error))?,
    };
    observers.finish(&mut measured, lost).await;
    if let Some(preflight) = preflight {
        measured.preflight(preflight);
    }
    let measured = measured.judge();
    if is_of_busy_machine(measured.result.verdict(), measured.result.reasons())
        && let Some(busiest) = processor_times.and_then(|times| times.busiest())
    {
        context.lease.notice(busy_notice(&busiest));
    }
    Ok(measured)
}

/// What disturbed a measurement, and what to do.
fn busy_notice(BusyProcess { pid, program, cores }: &BusyProcess) -> String {
    format!(
        "this machine was busy: `{program}` (process {pid}) used {cores:.1} cores meanwhile; end it or wait for it, \
         and measure again (`regatta run` with `--force`)"
    )
}

/// The servers are probed beside the requests; `answered` grows with what has come of them. Over HTTP there are no
/// probes: a silent server ends at `stall_timeout`.
pub async fn wait_for_unresponsive_server(spec: &BenchSpec, answered: &Arc<AtomicU64>) -> ready::UnresponsiveServer {
    // Without a value for a header nothing is measured.
    match (&spec.protocol, SentHeaders::of_run(spec)) {
        (harness::Transport::Kserve, Ok(sent)) => {
            let question = HealthProbe::Kserve(vec![spec.model.clone()], sent.map());
            let limits = SilenceLimits::USUAL.later(AFTER_ITS_STAGE);
            ready::any_silent(spec.endpoints.clone(), question, limits, Arc::clone(answered)).await
        }
        _ => std::future::pending().await,
    }
}

/// A server that its own stage watches is reported by that stage first, because its report is more precise.
const AFTER_ITS_STAGE: Duration = Duration::from_secs(2);

/// Where in the run we are now.
pub(super) fn when(far: &Mutex<Option<(Instant, u64, u64)>>) -> String {
    match *far.lock() {
        Some((since, ended, scheduled)) => format!(
            "noticed {:.1} s after the first request, when {ended} of {scheduled} had ended",
            since.elapsed().as_secs_f64()
        ),
        None => "before the first request".to_owned(),
    }
}

pub fn failure(error: &HarnessError) -> Failure {
    let kind = match error {
        HarnessError::Spec(_)
        | HarnessError::OtherModel { .. }
        | HarnessError::Data { .. }
        | HarnessError::DataEnd { .. }
        | HarnessError::Access { .. }
        | HarnessError::Model { .. }
        | HarnessError::Request { .. } => FailureKind::Refused,
        HarnessError::Connect { .. } | HarnessError::Warmup { .. } => FailureKind::Service,
        HarnessError::Stopped => FailureKind::Interrupted,
        HarnessError::Worker { .. } | HarnessError::System { .. } | HarnessError::Format { .. } => FailureKind::System,
    };
    let hint = match error {
        HarnessError::Connect { endpoint, .. } => {
            let proxy = instead_of_proxy(endpoint.rsplit_once(':').map_or(endpoint.as_str(), |(host, _)| host));
            let address = "check the address, and that the server runs; `ready_timeout: 10m` waits for one that is \
                           still loading";
            // Some errors have a cure of their own.
            let has_cure = |text: &String| ["write http", "certificate"].iter().any(|cure| text.contains(cure));
            proxy.or_else(|| Some(error.to_string()).filter(|text| !has_cure(text)).map(|_| address.to_owned()))
        }
        HarnessError::Warmup { why, .. } => failure_cure(why),
        _ => None,
    };
    Failure { hint, ..Failure::new(kind, error.to_string()) }
}

// What a benchmark shows of itself while it measures.

/// The time over which tokens per second are counted.
const WINDOW: Duration = Duration::from_secs(5);

/// Follows the progress of one measurement.
#[derive(Debug, Default)]
struct LiveNumbers {
    /// When this many tokens had arrived, over the last [`WINDOW`].
    arrived: VecDeque<(Instant, u64)>,
    /// When this many requests had ended, over the last [`WINDOW`].
    ended: VecDeque<(Instant, u64)>,
    /// When the first request was sent, about.
    begun: Option<Instant>,
    /// The schedule lasts at least this long.
    duration: Option<Duration>,
    gpus: Option<u32>,
}

impl LiveNumbers {
    pub fn new(duration: Option<Duration>, gpus: Option<u32>) -> Self {
        Self { duration, gpus, ..Self::default() }
    }

    pub fn take(&mut self, now: Instant, progress: &BenchProgress) -> LiveMeasurement {
        let so_far = progress.so_far;
        let tokens_per_s = rate(&mut self.arrived, now, so_far.tokens);
        let requests_per_s = rate(&mut self.ended, now, so_far.ended);
        if so_far.issued > 0 {
            self.begun.get_or_insert(now);
        }
        let remaining_s = self.remaining(now, progress, requests_per_s);
        // It exists from the second token of an answer on.
        let tpot_ms = so_far.tpot_ms.filter(|ms| *ms > 0.0);
        LiveMeasurement { tokens_per_s, tpot_ms, gpus: self.gpus, remaining_s, ..so_far }
    }

    /// What is left of the schedule's time, or of its requests at the pace of the last seconds, whichever is longer.
    /// With no pace yet it is not known.
    fn remaining(&self, now: Instant, progress: &BenchProgress, requests_per_s: f64) -> Option<f64> {
        let elapsed = now.duration_since(self.begun?);
        let of_time = self.duration.map(|duration| duration.saturating_sub(elapsed).as_secs_f64());
        // Users that send for a time have as many requests as were sent: no number to count down to before that time is
        // over.
        let is_over = of_time.is_none_or(|time| time <= 0.0);
        let has_count = progress.scheduled > progress.so_far.issued || is_over;
        let left = progress.scheduled.saturating_sub(progress.so_far.ended) as f64;
        let of_requests = (has_count && requests_per_s > 0.0).then(|| left / requests_per_s);
        match (of_time, of_requests) {
            (Some(time), Some(requests)) => Some(time.max(requests)),
            (time, requests) => time.or(requests),
        }
    }
}

/// Per second over the last [`WINDOW`].
fn rate(seen: &mut VecDeque<(Instant, u64)>, now: Instant, count: u64) -> f64 {
    seen.push_back((now, count));
    while seen.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= WINDOW) {
        seen.pop_front();
    }
    seen.front().map_or(0.0, |(at, before)| {
        let seconds = now.duration_since(*at).as_secs_f64();
        if seconds > 0.0 { count.saturating_sub(*before) as f64 / seconds } else { 0.0 }
    })
}

/// One line, with what matters most first, for a terminal of 80 columns: `6/30 answered, ~8 s left, 1,204 tok/s, mean
/// TTFT 47 ms, TPOT 9.40 ms, 24 in flight`. `scheduled`: how many requests there are to answer. `later`: how long the
/// points of a sweep take that follow this one.
fn live_line(live: &LiveMeasurement, scheduled: u64, later: Option<Duration>) -> String {
    let mut parts = vec![format!("{}/{scheduled} answered", live.ended)];
    if live.failed > 0 {
        parts.push(format!("{} failed", live.failed));
    }
    let in_all = if later.is_some() { " in all" } else { "" };
    let later = later.unwrap_or_default().as_secs_f64();
    parts.extend(live.remaining_s.map(|seconds| format!("~{} left{in_all}", time_left(seconds + later))));
    if live.issued > 0 {
        let each = live.tokens_per_s_per_gpu().filter(|_| live.gpus != Some(1));
        let each = each.map_or_else(String::new, |each| format!(" ({} per GPU)", grouped(each, 0)));
        parts.push(format!("{} tok/s{each}", grouped(live.tokens_per_s, 0)));
    }
    let means = [("TTFT", live.ttft_ms), ("TPOT", live.tpot_ms)];
    let means: Vec<String> =
        means.iter().filter_map(|(name, mean)| Some(format!("{name} {} ms", three_digits((*mean)?)))).collect();
    if !means.is_empty() {
        parts.push(format!("mean {}", means.join(", ")));
    }
    if live.issued > 0 {
        parts.push(format!("{} in flight", live.in_flight()));
    }
    parts.join(", ")
}

/// Whole seconds, from ten minutes on whole minutes: it is an estimate.
fn time_left(seconds: f64) -> String {
    match seconds.ceil() as u64 {
        seconds if seconds < 60 => format!("{seconds} s"),
        seconds if seconds < 600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod live_numbers_tests {
    use super::*;

    #[test]
    fn tokens_per_second_are_those_of_the_last_seconds() {
        let (mut numbers, begin) = (LiveNumbers::default(), Instant::now());
        let at = |seconds: u64, tokens: u64| {
            let so_far = LiveMeasurement { tokens, issued: 9, ended: 2, ..LiveMeasurement::default() };
            (begin + Duration::from_secs(seconds), BenchProgress { scheduled: 0, so_far })
        };
        let mut rate =
            |(now, progress): (Instant, BenchProgress)| numbers.take(now, &progress).tokens_per_s.round() as u64;
        assert_eq!(rate(at(0, 0)), 0);
        assert_eq!(rate(at(2, 200)), 100);
        assert_eq!(rate(at(5, 500)), 100);
        // The first five seconds no longer count.
        assert_eq!(rate(at(10, 2_000)), 300);
    }

    #[test]
    fn the_time_left_is_that_of_the_schedule_or_of_its_requests() {
        let begin = Instant::now();
        let at = |numbers: &mut LiveNumbers, seconds: u64, scheduled: u64, issued: u64, ended: u64| {
            let so_far = LiveMeasurement { issued, ended, ..LiveMeasurement::default() };
            let progress = BenchProgress { scheduled, so_far };
            numbers.take(begin + Duration::from_secs(seconds), &progress).remaining_s.map(f64::round)
        };
        // A number of requests, at the pace of the last five seconds.
        let mut counted = LiveNumbers::default();
        assert_eq!(at(&mut counted, 0, 100, 8, 0), None, "no pace yet");
        assert_eq!(at(&mut counted, 2, 100, 18, 10), Some(18.0));
        assert_eq!(at(&mut counted, 7, 100, 68, 60), Some(4.0));
        // Users that send for 30 s.
        let mut timed = LiveNumbers::new(Some(Duration::from_secs(30)), None);
        assert_eq!(at(&mut timed, 0, 8, 8, 0), Some(30.0));
        assert_eq!(at(&mut timed, 12, 88, 88, 80), Some(18.0));
        // The time is over, and 24 answers are not.
        assert_eq!(at(&mut timed, 31, 208, 208, 184), Some(4.0));
        // A rate for 30 s on a server that is behind: 300 requests, of which it has answered 50 in 10 s.
        let mut behind = LiveNumbers::new(Some(Duration::from_secs(30)), None);
        at(&mut behind, 0, 300, 1, 0);
        at(&mut behind, 5, 300, 50, 25);
        assert_eq!(at(&mut behind, 10, 300, 100, 50), Some(50.0));
    }

    #[test]
    fn one_line_has_what_is_known() {
        let none = LiveMeasurement::default();
        assert_eq!(live_line(&none, 30, None), "0/30 answered");
        let some = LiveMeasurement {
            issued: 30,
            ended: 6,
            failed: 1,
            tokens: 9_000,
            tokens_per_s: 1_204.4,
            ttft_ms: Some(147.2),
            tpot_ms: Some(9.41),
            gpus: Some(4),
            remaining_s: Some(63.2),
        };
        assert_eq!(
            live_line(&some, 30, None),
            "6/30 answered, 1 failed, ~1 min 04 s left, 1,204 tok/s (301 per GPU), mean TTFT 147 ms, TPOT 9.41 ms, \
             24 in flight"
        );
        let later = Some(Duration::from_mins(2));
        assert!(live_line(&some, 30, later).contains(", ~3 min 04 s left in all, "));
        let mut numbers = LiveNumbers::default();
        let so_far = LiveMeasurement { tpot_ms: Some(0.0), issued: 1, ..LiveMeasurement::default() };
        let before_a_second_token = BenchProgress { scheduled: 30, so_far };
        assert_eq!(numbers.take(Instant::now(), &before_a_second_token).tpot_ms, None);
        assert_eq!(time_left(3_000.1), "51 min");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_busy_machine_is_only_noticed_where_when_busy_says_so() {
        let text = include_str!("../../../tests/golden/results/benchmark/result.json");
        let result = |verdict: &str, check: &str| -> RunResult {
            let mut result: Value = serde_json::from_str(text).unwrap();
            result["verdict"] = verdict.into();
            result["reasons"] = json!([{"check": check, "severity": verdict, "text": "as it was"}]);
            serde_json::from_value(result).unwrap()
        };
        let bench = |more: &str| -> Bench {
            let text =
                format!("{{\"target\": \"a:1\", \"scenario\": \"offline\", \"stop\": {{\"requests\": 9}}{more}}}");
            serde_json::from_str(&text).unwrap()
        };
        let notice = bench(", \"when_busy\": \"notice\"");
        let busy = result("invalid_client", "lag");
        let done = task_outcome(&notice, &busy).unwrap();
        assert_eq!(done.warnings, ["lag: as it was"]);
        assert!(done.headline.is_some_and(|line| line.contains("INVALID(client)")));
        assert!(task_outcome(&bench(""), &busy).is_err());
        // Neither another fault of the client nor one of the server is a busy machine.
        assert!(task_outcome(&notice, &result("invalid_client", "self_check")).is_err());
        assert!(task_outcome(&notice, &result("invalid_server", "failures")).is_err());
        let run = bench(", \"turn\": \"run\"");
        assert!(task_outcome(&run, &busy).is_ok());
        assert!(task_outcome(&run, &result("invalid_server", "server")).is_err());
    }
}
