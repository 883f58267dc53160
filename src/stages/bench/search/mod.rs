//! `bench.search:` — the highest rate at which all limits hold, estimated from all probes. Every probe is a whole measurement
//! with arrivals of its own, kept in `probes/<n>-<rate>` with its margin; one that was finished is not measured again when the
//! search was cut off. The last probe is at the lower end of the interval, and its files are the result of the stage.

pub mod loadgen;
mod output;
mod phases;
mod start_point;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use self::start_point::{SearchGoal, StartPoint};
use super::finished_run::{before, keep};
use super::measurement::measure;
use super::unfinished::{Servers, start_anew};
use crate::event::{Done, Failure, FailureKind, Verdict};
use crate::harness::{BenchSpec, FoundRate, RateBounds, RateProbe, Reason, ReasonSeverity, RunResult, Scenario};
use crate::manifest::model::{self, Telemetry};
use crate::stages::task_context::TaskContext;
use crate::stats::{Margin, RateEstimate, RateSearcher, RateStep};
use output::{FILE, PROBES, with_identity};

/// Probes that estimate the rate. One more is made at the lower end of the interval.
const ESTIMATING: usize = 11;

/// Beside the result of a probe.
const MARGIN: &str = "margin.json";

/// `search.json`
#[derive(Serialize)]
struct SearchReport<'a> {
    #[serde(flatten)]
    goal: SearchGoal,
    bounds: RateBounds,
    /// The earlier search that set the first rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    started_from: Option<StartPoint>,
    ttft_p99_limit_ms: Option<f64>,
    tpot_p99_limit_ms: Option<f64>,
    /// In the order in which they were made.
    probes: &'a [ProbeReport],
    /// Requests per second: the 95 % interval of the highest rate at which all limits hold, within the rates that may be tried.
    found: FoundRate,
    /// Null where the limits held at the highest rate.
    estimate: Option<RateEstimate>,
}

/// One probe as it is shown.
#[derive(Serialize)]
struct ProbeReport {
    #[serde(flatten)]
    probe: RateProbe,
    margin: Margin,
    verdict: Verdict,
    ttft_p99_ms: Option<f64>,
    tpot_p99_ms: Option<f64>,
    output_tokens_per_s: Option<f64>,
    /// Why it missed.
    why: Option<String>,
    /// What qualifies its figures.
    warnings: Vec<Reason>,
    folder: PathBuf,
}

pub async fn perform(
    context: &TaskContext,
    spec: BenchSpec,
    asked: &model::RateSearch,
    watched: Telemetry,
) -> Result<Done, Failure> {
    let &model::RateSearch { low, high, start, precision, .. } = asked;
    let bounds = RateBounds { low, high, precision };
    if let Some(wrong) = bounds.wrong() {
        return Err(Failure::new(FailureKind::Refused, format!("`bench.search`: {wrong}")));
    }
    let goal = SearchGoal::of(&spec);
    let earlier = asked.start_from.as_deref().map(|path| StartPoint::read(path, &context.lease.project, &goal));
    let started_from = earlier.transpose()?;
    context.lease.notice(foretold(&spec, &bounds));
    if let Some(earlier) = &started_from {
        context.lease.notice(earlier.notice());
    }
    start_anew(&context.lease.out, &context.lease.out.join(FILE), PROBES)?;
    let servers = Servers::now(context, &spec).await;
    let search = RateSearcher { low, high, start: start.unwrap_or(low), second: None, precision, most: ESTIMATING };
    let search = started_from.as_ref().map_or(search, |earlier| earlier.begin(search));
    let mut tried: Vec<ProbeReport> = Vec::new();
    let estimate = loop {
        let margins: Vec<Margin> = tried.iter().map(|tried| tried.margin).collect();
        match search.next(&margins) {
            RateStep::Probe(rate) => {
                tried.push(Box::pin(attempt(context, &spec, rate, tried.len(), watched, &servers)).await?);
            }
            RateStep::Estimated(estimate) => break Some(estimate),
            RateStep::HeldAtHighest => break None,
            RateStep::MissedAtLowest => {
                let why = tried.last().and_then(|last| last.why.clone()).unwrap_or_default();
                let what = format!("the limits are missed even at {low} req/s");
                let failure = Failure::new(FailureKind::Invalid(Verdict::InvalidLoad), what).cause(why);
                return Err(failure.hint("begin lower (`search.low`), or allow more (`limits`)"));
            }
        }
    };
    let found = found(estimate.as_ref(), &bounds);
    let mut warnings = Vec::new();
    if estimate.is_some() {
        let last = Box::pin(attempt(context, &spec, found.at_least, tried.len(), watched, &servers)).await?;
        if !last.probe.met {
            let why = last.why.as_deref().unwrap_or("a limit was missed");
            warnings.push(format!(
                "search: at {} req/s, the lower end of the interval, the last probe missed: {why}",
                found.at_least
            ));
        }
        tried.push(last);
    }
    let told = SearchReport {
        goal,
        bounds,
        started_from,
        ttft_p99_limit_ms: spec.limits.ttft_p99.map(|limit| limit.as_secs_f64() * 1e3),
        tpot_p99_limit_ms: spec.limits.tpot_p99.map(|limit| limit.as_secs_f64() * 1e3),
        probes: &tried,
        found,
        estimate,
    };
    let write = |path: PathBuf, bytes: Vec<u8>| {
        let error =
            |error| Failure::new(FailureKind::System, format!("`{}` cannot be written: {error}", path.display()));
        fs::write(&path, bytes).map_err(error)
    };
    write(context.lease.out.join(FILE), serde_json::to_vec_pretty(&told).unwrap_or_default())?;
    // The result of this stage is the last measurement at the rate that was found.
    if let Some(best) = tried.iter().rev().find(|tried| tried.probe.rate.total_cmp(&found.at_least).is_eq()) {
        for name in ["result.json", "requests.jsonl", "plan.jsonl", "server-metrics.jsonl", "gpu.jsonl"] {
            if let Ok(bytes) = fs::read(context.lease.out.join(&best.folder).join(name)) {
                write(context.lease.out.join(name), bytes)?;
            }
        }
    }
    warnings.extend(warnings_of(&tried, found.at_least));
    let done = with_identity(&context.lease.out, headline(&found, &spec, tried.len()));
    Ok(Done { warnings, ..done })
}

/// The warnings: of the probe that provides the result, each in full; of the others, how many probes have which.
fn warnings_of(tried: &[ProbeReport], rate: f64) -> Vec<String> {
    let chosen = tried.iter().rposition(|tried| tried.probe.rate.total_cmp(&rate).is_eq());
    let mut of_others: BTreeMap<&str, usize> = BTreeMap::new();
    let mut qualified = 0;
    for (_, tried) in tried.iter().enumerate().filter(|(at, _)| Some(*at) != chosen) {
        let checks: BTreeSet<&str> = tried.warnings.iter().map(|reason| reason.check.as_str()).collect();
        qualified += usize::from(!checks.is_empty());
        for check in checks {
            *of_others.entry(check).or_default() += 1;
        }
    }
    let of_chosen = chosen.map(|at| tried[at].warnings.as_slice()).unwrap_or_default();
    let mut told: Vec<String> = of_chosen.iter().map(Reason::line).collect();
    if qualified > 0 {
        let checks: Vec<String> = of_others.iter().map(|(check, probes)| format!("{check} ({probes})")).collect();
        told.push(format!(
            "search: {qualified} of {} probes have warnings of their own, in `search.json`: {}",
            tried.len(),
            checks.join(", ")
        ));
    }
    told
}

/// Rates that can be read and typed again, within those that may be tried.
fn found(estimate: Option<&RateEstimate>, bounds: &RateBounds) -> FoundRate {
    let Some(estimate) = estimate else { return FoundRate { at_least: bounds.high, below: None } };
    let scale = 10f64.powi(3 - estimate.rate.abs().log10().floor() as i32);
    let at_least = ((estimate.low * scale).floor() / scale).clamp(bounds.low, bounds.high);
    let below = (estimate.high * scale).ceil() / scale;
    FoundRate { at_least, below: (below < bounds.high).then_some(below.max(at_least)) }
}

/// What it will cost, before it costs it.
fn foretold(spec: &BenchSpec, bounds: &RateBounds) -> String {
    let probes = ESTIMATING + 1;
    let arrivals = |rate: f64| {
        let by_number = spec.stop.requests.map_or(0.0, |requests| requests as f64 / rate);
        by_number.max(spec.stop.duration.map_or(0.0, |time| time.as_secs_f64()))
    };
    // Where requests are counted, slow probes take longest.
    let (quick, slow) = (arrivals(bounds.high), arrivals(bounds.low));
    let shown = |seconds: f64| format!("{:?}", Duration::from_secs(seconds.ceil() as u64));
    format!(
        "searching from {} to {} req/s to {} %: at most {probes} probes, {} to {} of arrivals each; all of them take at most {}",
        bounds.low,
        bounds.high,
        bounds.precision * 100.0,
        shown(quick),
        shown(slow),
        shown(slow * probes as f64),
    )
}

/// Measures at one rate, or reads what an earlier try of this stage measured there.
async fn attempt(
    context: &TaskContext,
    spec: &BenchSpec,
    rate: f64,
    number: usize,
    watched: Telemetry,
    servers: &Servers,
) -> Result<ProbeReport, Failure> {
    // The same arrivals, only faster, would have the same luck in every probe.
    let seed = spec.seed.wrapping_add(number as u64);
    let spec = BenchSpec { scenario: Scenario::Server { rate: rate.into() }, seed, ..spec.clone() };
    let folder = Path::new(PROBES).join(format!("{:02}-{rate}", number + 1));
    let path = context.lease.out.join(&folder);
    let (result, margin) = if let Some(earlier) = probe_before(&path, &spec, servers) {
        earlier
    } else {
        let measured =
            Box::pin(measure(context, &spec, watched, &format!("probe {} at {rate} req/s", number + 1), None)).await?;
        if context.lease.stop.is_asked() && context.lease.stop.why().is_none() {
            return Err(Failure::new(FailureKind::Interrupted, "stopped in the middle of a probe"));
        }
        if let Some(lost) = measured.result.server_lost() {
            // No lower rate would meet the limits without a server.
            let what = format!("at {rate} req/s the server failed");
            let kind = FailureKind::Invalid(measured.result.verdict());
            return Err(Failure::new(kind, what).cause(lost.text.clone()));
        }
        let margin = measured.margin(&spec, rate);
        keep_margin(&path, &margin)?;
        keep(&path, &measured)?;
        (measured.result, margin)
    };
    let first = result.reasons().first().map(Reason::line);
    if result.verdict() == Verdict::InvalidClient {
        let what = format!("at {rate} req/s it is the client that is measured, not the server");
        let failure = Failure::new(FailureKind::Invalid(result.verdict()), what).cause(first.unwrap_or_default());
        return Err(failure.hint("give the client more cores or connections, or search below this rate"));
    }
    let met = margin.whole < 0.0;
    // Why a probe missed is no warning; all other messages of one that held are.
    let warnings = result.reasons().iter().filter(|reason| met || reason.severity == ReasonSeverity::Warning);
    Ok(ProbeReport {
        warnings: warnings.cloned().collect(),
        probe: RateProbe { rate, met },
        margin,
        verdict: result.verdict(),
        ttft_p99_ms: result.latency.ttft.p99,
        tpot_p99_ms: result.latency.tpot.p99,
        output_tokens_per_s: result.rates.output_tokens,
        why: first.filter(|_| !met),
        folder,
    })
}

/// What `before` finds, with its margin.
fn probe_before(path: &Path, spec: &BenchSpec, servers: &Servers) -> Option<(RunResult, Margin)> {
    let margin = serde_json::from_slice(&fs::read(path.join(MARGIN)).ok()?).ok()?;
    Some((before(path, spec, servers)?, margin))
}

fn keep_margin(path: &Path, margin: &Margin) -> Result<(), Failure> {
    let bytes = serde_json::to_vec_pretty(margin).unwrap_or_default();
    let written = fs::create_dir_all(path).and_then(|()| fs::write(path.join(MARGIN), bytes));
    written
        .map_err(|error| Failure::new(FailureKind::System, format!("`{}` cannot be written: {error}", path.display())))
}

fn headline(found: &FoundRate, spec: &BenchSpec, probes: usize) -> String {
    let upper = found.below.map_or_else(|| " or more".to_owned(), |below| format!("–{below}"));
    let limits = start_point::limits(spec);
    format!("{}{upper} req/s at {}  (95 % interval, {probes} probes)", found.at_least, limits.join(", "))
}
