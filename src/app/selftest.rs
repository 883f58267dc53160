//! Tests the load generator against servers with known timing: how wrong its timestamps are on this machine, how late
//! it is, and how much it can do. The output lists what it could not measure, for example for lack of a core.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::cli::{CliExit, Global, OutputVerbosity, SelftestRequest};
use crate::console::{print_as, print_error};
use crate::error::CommandError;
use base::event::{Endpoint, Stop, Verdict};
use base::files::{cores, read_text};
use base::spec::{Arrivals, Length, Limits, StopAfter};
use base::units::counted;
use harness::{BenchSpec, LoadPattern, Measured, ReasonSeverity, RequestEnd, Slo, VerdictCheck};
use report::{Block, Cell, Document, Section, Table};
use sim::{GroundTruth, GroundTruthServer, ResponsePattern, ResponseScript};

/// Tokens of an answer that follows the script.
const TOKENS: u32 = 16;
/// Requests in flight against a server that answers at once: enough to keep it busy.
const USERS: f64 = 64.0;
const SCRIPT: ResponseScript = ResponseScript { seed: 2026, first_ms: (20.0, 60.0), gap_ms: (2.0, 8.0) };

/// Durations and rates.
#[derive(Clone, Debug)]
struct SelftestPlan {
    /// Requests per second against the script.
    rates: Vec<f64>,
    /// Of arrivals at each rate.
    duration: Duration,
    /// Of the users of a server that answers at once.
    flood: Duration,
    /// A measurement may take this many times its planned duration, and half a minute.
    patience: u32,
}

impl SelftestPlan {
    fn limit(&self, duration: Duration) -> Duration {
        duration * self.patience + Duration::from_secs(30)
    }
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
struct SelftestReport {
    cores: u64,
    /// Processes that ran or were ready to run, mean of the minute before: this machine's other work.
    load_average: Option<f64>,
    /// Built without optimization.
    is_debug: bool,
    verdict: Verdict,
    /// Reasons against it, worst first.
    reasons: Vec<Reason>,
    scripted: Vec<Scripted>,
    ceilings: Vec<MaxRateResult>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Reason {
    severity: ReasonSeverity,
    /// What was measured.
    of: String,
    text: String,
}

/// Against the script, at one rate.
#[derive(Clone, Debug, Serialize)]
struct Scripted {
    rate: f64,
    requests: u64,
    /// (first token − issue) as measured, less (first token written − request read) as the server did it, µs.
    ttft_error_us: Spread,
    /// Gap as measured, less the gap between the server's writes, either sign, µs.
    gap_error_us: Spread,
    /// Issue behind schedule, µs.
    lag_us: Spread,
    /// Arrival at the server against the schedule, beyond that of the request that came best, µs.
    lateness_at_server_us: Spread,
    /// Kolmogorov's distance of the real gaps between issues from the exponential law, and what a Poisson process stays
    /// below.
    ks_distance: Option<f64>,
    ks_critical: Option<f64>,
}

/// Absolute values.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Spread {
    n: u64,
    p50: f64,
    p99: f64,
    max: f64,
}

/// Against a server that answers at once.
#[derive(Clone, Debug, Serialize)]
struct MaxRateResult {
    tokens_per_answer: u32,
    requests_per_s: f64,
    tokens_per_s: f64,
    /// CPU of the load workers per 1,000 responses, ms.
    cpu_ms_per_1000: f64,
}

pub(super) fn selftest(global: &Global, request: &SelftestRequest) -> Result<CliExit, CommandError> {
    let effort = SelftestPlan {
        rates: request.rates.clone(),
        duration: Duration::from_secs(request.seconds),
        flood: Duration::from_secs(2),
        patience: 4,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let is_quiet = global.loudness == OutputVerbosity::Quiet;
    let report = runtime.block_on(measure(&effort, |what| {
        if !is_quiet {
            print_error(&format!("measuring: {what}\n"));
        }
    }))?;
    print_as(global.styler(), request.json, || &report, |styler| report.document().terminal(styler));
    Ok(if report.verdict.is_valid() { CliExit::Done } else { CliExit::InvalidClient })
}

async fn measure(effort: &SelftestPlan, print_progress: impl Fn(&str)) -> Result<SelftestReport, CommandError> {
    let load_average = load_average();
    let server = GroundTruthServer::start(ResponsePattern::Scripted(SCRIPT))?;
    let (mut scripted, mut ceilings, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
    for rate in &effort.rates {
        server.clear();
        let name = format!("{rate} req/s");
        print_progress(&format!("{name} against a server with known write times, {:?}", effort.duration));
        let measurement =
            SelftestMeasurement { scenario: LoadPattern::Server { rate: (*rate).into() }, tokens: TOKENS, clients: 4 };
        let run = measurement.run(&server, &name, effort.duration, effort.limit(effort.duration), &mut reasons);
        if let Some(measured) = Box::pin(run).await {
            scripted.push(compare(*rate, &measured, &server.ground_truths()));
        }
    }
    for tokens in [128, 1] {
        let server = GroundTruthServer::start(ResponsePattern::AtOnce { tokens })?;
        let name = format!("answers of {} at once", counted(tokens, "token"));
        print_progress(&format!("{name}, {:?}", effort.flood));
        let measurement =
            SelftestMeasurement { scenario: LoadPattern::Concurrency { users: USERS.into() }, tokens, clients: 2 };
        let run = measurement.run(&server, &name, effort.flood, effort.limit(effort.flood), &mut reasons);
        if let Some(measured) = Box::pin(run).await {
            let result = measured.result;
            ceilings.push(MaxRateResult {
                tokens_per_answer: tokens,
                requests_per_s: result.rates.requests_full.unwrap_or_default(),
                tokens_per_s: result.rates.output_tokens.unwrap_or_default(),
                cpu_ms_per_1000: result.client.cpu_ms_per_1000_chunks.unwrap_or_default(),
            });
        }
    }
    reasons.sort_by_key(|reason| reason.severity);
    let verdict = reasons.first().map_or(Verdict::Valid, |reason| reason.severity.verdict());
    let cores = cores() as u64;
    let is_debug = cfg!(debug_assertions);
    Ok(SelftestReport { cores, load_average, is_debug, verdict, reasons, scripted, ceilings })
}

/// Where the kernel reports it.
fn load_average() -> Option<f64> {
    read_text("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// One measurement of a server of Regatta's own.
struct SelftestMeasurement {
    scenario: LoadPattern,
    tokens: u32,
    clients: u32,
}

/// These are about a server or the number of requests, which the selftest itself sets.
const NOT_APPLICABLE: [VerdictCheck; 2] = [VerdictCheck::Samples, VerdictCheck::Drift];

impl SelftestMeasurement {
    /// None where nothing could be measured. The cause, and other reasons against it, go to `reasons`.
    async fn run(
        self,
        server: &GroundTruthServer,
        what: &str,
        duration: Duration,
        limit: Duration,
        reasons: &mut Vec<Reason>,
    ) -> Option<Measured> {
        let mut add_reason = |severity: ReasonSeverity, text: String| {
            // The server is Regatta's own and in this process: an error is not the server's.
            let severity = if severity == ReasonSeverity::Warning { severity } else { ReasonSeverity::InvalidClient };
            reasons.push(Reason { severity, of: what.to_owned(), text });
        };
        let is_open_loop = self.scenario.is_open_loop();
        let spec = self.spec(server, duration);
        let stop = Stop::new();
        let mut running = Box::pin(harness::run(&spec, &stop, |_| {}));
        let ended = tokio::select! {
            ended = &mut running => ended,
            () = tokio::time::sleep(limit) => {
                add_reason(ReasonSeverity::InvalidClient, format!("did not finish within {limit:?}, and was stopped"));
                stop.now();
                running.await
            }
        };
        let measured = match ended {
            Ok(measured) => measured,
            Err(error) => {
                add_reason(ReasonSeverity::InvalidClient, format!("not measured: {error}"));
                return None;
            }
        };
        for reason in measured.result.reasons() {
            // With as many users as one can serve a core is busy, which is the goal.
            let is_meant = !is_open_loop
                && matches!(reason.check, VerdictCheck::Cpu | VerdictCheck::CoreWait | VerdictCheck::Backlog);
            if !is_meant && !NOT_APPLICABLE.contains(&reason.check) {
                add_reason(reason.severity, reason.line());
            }
        }
        (measured.result.counts.ok > 0).then_some(measured)
    }

    fn spec(self, server: &GroundTruthServer, duration: Duration) -> BenchSpec {
        let Self { scenario, tokens, clients } = self;
        BenchSpec {
            endpoints: vec![Endpoint::new("127.0.0.1", server.address.port())],
            protocol: harness::Transport::Kserve,
            model: "tensorrt_llm".to_owned(),
            timelines: scenario.is_open_loop(),
            scenario,
            arrivals: Arrivals::Poisson,
            stop: StopAfter { requests: None, duration: Some(duration.into()) },
            input_len: Length::Fixed(32),
            output_len: Length::Fixed(tokens),
            seed: 1,
            warmup: 0,
            pace: harness::SendingSpec::default(),
            content: harness::PromptSource::default(),
            frontends: 1,
            clients,
            stall_timeout: Duration::from_mins(1),
            limits: Limits::default(),
            slo: Slo::default(),
            vocab_size: 32_000,
            end_id: 2,
            request: base::spec::Request::default(),
        }
    }
}

fn compare(rate: f64, measured: &Measured, truths: &[GroundTruth]) -> Scripted {
    let mut errors = (Vec::new(), Vec::new());
    let mut arrivals = Vec::new();
    let by_id: BTreeMap<u64, &GroundTruth> = truths.iter().map(|truth| (truth.id, truth)).collect();
    for record in measured.requests.iter().filter(|record| record.ended == RequestEnd::Ok) {
        let Some(truth) = by_id.get(&record.index) else { continue };
        let (Some(first), Some(wrote)) = (record.t_first, truth.wrote.first()) else { continue };
        let theirs = wrote.duration_since(truth.came).as_nanos() as f64;
        errors.0.push(first.saturating_sub(record.t_issue) as f64 - theirs);
        for (ours, theirs) in record.timeline.windows(2).zip(truth.wrote.windows(2)) {
            let theirs = theirs[1].duration_since(theirs[0]).as_nanos() as f64;
            errors.1.push(ours[1].0.saturating_sub(ours[0].0) as f64 - theirs);
        }
        arrivals.push((record.t_sched as f64, truth.came));
    }
    let zero = truths.first().map(|truth| truth.came);
    let offsets: Vec<f64> =
        arrivals.iter().filter_map(|(sched, came)| Some(nanos_between(zero?, *came) - sched)).collect();
    let best = offsets.iter().copied().fold(f64::INFINITY, f64::min);
    let result = &measured.result;
    Scripted {
        rate,
        requests: measured.requests.len() as u64,
        ttft_error_us: Spread::of(errors.0),
        gap_error_us: Spread::of(errors.1),
        lag_us: Spread::of(measured.requests.iter().map(|r| r.t_issue.saturating_sub(r.t_sched) as f64).collect()),
        lateness_at_server_us: Spread::of(offsets.into_iter().map(|offset| offset - best).collect()),
        ks_distance: result.client.ks_distance,
        ks_critical: result.client.ks_critical,
    }
}

/// Negative when `later` is the earlier one.
fn nanos_between(earlier: std::time::Instant, later: std::time::Instant) -> f64 {
    match later.checked_duration_since(earlier) {
        Some(time) => time.as_nanos() as f64,
        None => -(earlier.duration_since(later).as_nanos() as f64),
    }
}

impl Spread {
    /// From ns to µs.
    fn of(values: Vec<f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().map(f64::abs).collect();
        values.sort_by(f64::total_cmp);
        let Some(last) = values.last() else { return Self::default() };
        let at = |p: f64| values[((values.len() as f64 * p) as usize).min(values.len() - 1)] / 1e3;
        Self { n: values.len() as u64, p50: at(0.5), p99: at(0.99), max: last / 1e3 }
    }
}

impl SelftestReport {
    /// As it is shown.
    pub fn document(&self) -> Document {
        let about = format!(
            "The load generator on this machine ({} cores), against a server in the same process with known write \
             times. Errors are measured minus actual times: p50 / p99 / max, in µs.",
            self.cores
        );
        let heads = [
            "req/s",
            "requests",
            "TTFT from issue",
            "gap between tokens",
            "issue behind schedule",
            "late at the server",
            "Poisson",
        ];
        let scripted = match self.scripted.as_slice() {
            [] => Block::plain("none"),
            rows => Block::table(Table::list(heads, rows.iter().map(scripted_row))),
        };
        let ceilings = match self.ceilings.as_slice() {
            [] => Block::plain("not measured"),
            rows => Block::list(rows.iter().map(ceiling_row)),
        };
        let flood = "Against a server that answers at once and shares these cores, 64 requests in flight";
        let sections = [Section::new(about).with([scripted]), Section::new(flood).with([ceilings]), self.verdict()];
        Document::of_sections(sections)
    }

    fn verdict(&self) -> Section {
        let meaning = match self.verdict {
            Verdict::Valid => "this machine can generate these loads, and the numbers above are its error bounds",
            Verdict::ValidWithWarnings => "this machine can generate these loads, with the warnings below",
            _ => "this machine could not generate these loads now; a benchmark at them would measure the client",
        };
        let mut lines = Vec::new();
        for reason in &self.reasons {
            let mark = if reason.severity == ReasonSeverity::Warning { '!' } else { '✗' };
            lines.push(format!("{mark} {}: {}", reason.of, reason.text));
        }
        if let Some(load) = self.load_average.filter(|load| *load > 0.5 && !self.reasons.is_empty()) {
            let cores = self.cores;
            lines.push(format!(
                "in the minute before, other processes needed {load:.1} of {cores} cores: repeat it when the machine \
                 is idle"
            ));
        }
        if self.is_debug && !self.reasons.is_empty() {
            lines.push("this is a debug build: one with `--release` needs a fraction of the CPU".to_owned());
        }
        let section = Section::new(format!("{}: {meaning}", self.verdict.as_str()));
        section.with(lines.into_iter().map(Block::plain))
    }
}

fn scripted_row(row: &Scripted) -> Vec<Cell> {
    let spread = |spread: &Spread| format!("{:.0} / {:.0} / {:.0}", spread.p50, spread.p99, spread.max);
    let poisson = match (row.ks_distance, row.ks_critical) {
        (Some(distance), Some(critical)) if distance <= critical => format!("yes, {distance:.3} ≤ {critical:.3}"),
        (Some(distance), Some(critical)) => format!("NO, {distance:.3} > {critical:.3}"),
        _ => "too few".to_owned(),
    };
    let errors = [&row.ttft_error_us, &row.gap_error_us, &row.lag_us, &row.lateness_at_server_us].map(spread);
    let load = [row.rate.to_string(), row.requests.to_string()];
    load.into_iter().chain(errors).chain([poisson]).map(Cell::from).collect()
}

fn ceiling_row(row: &MaxRateResult) -> [Cell; 4] {
    [
        Cell::name(format!("{} tokens an answer", row.tokens_per_answer)),
        format!("{:.0} tokens/s", row.tokens_per_s).into(),
        format!("{:.0} requests/s", row.requests_per_s).into(),
        format!("{:.2} ms of CPU for 1,000 responses", row.cpu_ms_per_1000).into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::Styler;

    #[test]
    fn measurements_are_compared_with_ground_truth() {
        let effort = SelftestPlan {
            rates: vec![50.0],
            duration: Duration::from_secs(1),
            flood: Duration::from_millis(300),
            patience: 20,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let Ok(report) = runtime.block_on(measure(&effort, |_| {})) else { panic!("it could not be proven") };
        let row = &report.scripted[0];
        assert!(report.verdict.is_valid() || report.document().terminal(Styler::OFF).contains(&report.reasons[0].text));
        assert!(row.requests > 20);
        assert_eq!(row.ttft_error_us.n, row.requests);
        assert_eq!(row.gap_error_us.n, row.requests * u64::from(TOKENS - 1));
        assert!(report.ceilings.iter().all(|row| row.requests_per_s > 0.0 && row.cpu_ms_per_1000 > 0.0));
        assert!(report.document().terminal(Styler::OFF).contains("Errors are measured minus actual times"));
    }

    #[test]
    fn a_machine_without_cores_to_spare_is_named_as_the_reason() {
        let reason = |severity, text: &str| Reason { severity, of: "1000 req/s".to_owned(), text: text.to_owned() };
        let reasons = vec![
            reason(ReasonSeverity::InvalidClient, "lag: 9 of 90 requests were sent more than 5.00 ms late"),
            reason(ReasonSeverity::Warning, "core_wait: a load worker waited 31.0 % of the time for a core"),
        ];
        let report = SelftestReport {
            cores: 2,
            load_average: Some(9.5),
            is_debug: true,
            verdict: Verdict::InvalidClient,
            reasons,
            scripted: Vec::new(),
            ceilings: Vec::new(),
        };
        let text = report.document().terminal(Styler::OFF);
        for wanted in [
            "INVALID(client)",
            "✗ 1000 req/s: lag: 9 of 90 requests were sent more than 5.00 ms late",
            "! 1000 req/s: core_wait: ",
            "other processes needed 9.5 of 2 cores",
            "a debug build",
        ] {
            assert!(text.contains(wanted), "no {wanted} in {text}");
        }
    }

    #[test]
    fn a_timeout_is_reported() {
        // Answers take longer than the time limit.
        let slow = ResponseScript { seed: 1, first_ms: (600_000.0, 600_001.0), gap_ms: (1.0, 2.0) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let Ok(server) = GroundTruthServer::start(ResponsePattern::Scripted(slow)) else { panic!("no server") };
            let measurement =
                SelftestMeasurement { scenario: LoadPattern::Server { rate: 50.0.into() }, tokens: TOKENS, clients: 1 };
            let mut reasons = Vec::new();
            let measured =
                measurement.run(&server, "slow", Duration::from_millis(200), Duration::from_secs(1), &mut reasons);
            assert!(Box::pin(measured).await.is_none(), "nothing was answered");
            assert!(
                reasons.iter().any(|reason| reason.text.contains("did not finish within 1s, and was stopped")),
                "{reasons:?}"
            );
        });
    }
}
