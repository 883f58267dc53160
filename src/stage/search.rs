//! `bench.search:` — the highest rate at which all limits hold. Every probe is a whole measurement, kept in
//! `probes/<n>-<rate>`; one that was finished is not measured again when the search was cut off.

pub mod loadgen;
mod phases;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::bench::{below, failure, measure};
use super::errand::Errand;
use crate::event::{Done, Failure, FailureKind, Verdict};
use crate::harness::{self, Bounds, Found, Probe, RunResult, Scenario, Spec, Step};
use crate::manifest::model::Telemetry;

/// `search.json`
#[derive(Serialize)]
struct Told<'a> {
    bounds: Bounds,
    ttft_p99_limit_ms: Option<f64>,
    tpot_p99_limit_ms: Option<f64>,
    /// In the order in which they were made.
    probes: &'a [Tried],
    /// Requests per second.
    found: Found,
}

/// One probe as it is told.
#[derive(Serialize)]
struct Tried {
    #[serde(flatten)]
    probe: Probe,
    verdict: Verdict,
    ttft_p99_ms: Option<f64>,
    tpot_p99_ms: Option<f64>,
    output_tokens_per_s: Option<f64>,
    /// Why it missed.
    why: Option<String>,
    folder: PathBuf,
}

pub async fn perform(errand: &Errand, spec: Spec, bounds: Bounds, watched: Telemetry) -> Result<Done, Failure> {
    if let Some(wrong) = bounds.wrong() {
        return Err(Failure::new(FailureKind::Refused, format!("`bench.search`: {wrong}")));
    }
    errand.lease.notice(foretold(&spec, &bounds));
    let mut tried: Vec<Tried> = Vec::new();
    let found = loop {
        let history: Vec<Probe> = tried.iter().map(|tried| tried.probe).collect();
        match bounds.next(&history) {
            Step::Try(rate) => tried.push(Box::pin(attempt(errand, &spec, rate, &history, watched)).await?),
            Step::Found(found) => break found,
            Step::NotEvenLow => {
                let why = tried.last().and_then(|last| last.why.clone()).unwrap_or_default();
                let what = format!("the limits are missed even at {} req/s", bounds.low);
                let failure = Failure::new(FailureKind::Invalid(Verdict::InvalidLoad), what).cause(why);
                return Err(failure.hint("begin lower (`search.low`), or allow more (`limits`)"));
            }
        }
    };
    let told = Told {
        bounds,
        ttft_p99_limit_ms: spec.limits.ttft_p99.map(|limit| limit.as_secs_f64() * 1e3),
        tpot_p99_limit_ms: spec.limits.tpot_p99.map(|limit| limit.as_secs_f64() * 1e3),
        probes: &tried,
        found,
    };
    let write = |path: PathBuf, bytes: Vec<u8>| {
        let error =
            |error| Failure::new(FailureKind::System, format!("`{}` cannot be written: {error}", path.display()));
        fs::write(&path, bytes).map_err(error)
    };
    write(errand.lease.out.join("search.json"), serde_json::to_vec_pretty(&told).unwrap_or_default())?;
    // The result of this stage is the last measurement at the rate that was found.
    if let Some(best) = tried.iter().rev().find(|tried| tried.probe.rate.total_cmp(&found.at_least).is_eq()) {
        for name in ["result.json", "requests.jsonl", "plan.jsonl", "server-metrics.jsonl", "gpu.jsonl"] {
            if let Ok(bytes) = fs::read(errand.lease.out.join(&best.folder).join(name)) {
                write(errand.lease.out.join(name), bytes)?;
            }
        }
    }
    Ok(with_identity(&errand.lease.out, headline(&found, &spec, tried.len())))
}

/// A search's headline with what its last measurement in `out` was of, and `SIMULATED` before it.
fn with_identity(out: &Path, headline: String) -> Done {
    let result = harness::read_result(&out.join("result.json")).ok();
    let is_simulated = result.as_ref().is_some_and(RunResult::is_simulated);
    let headline = if is_simulated { format!("SIMULATED  {headline}") } else { headline };
    Done { headline: Some(headline), below: result.as_ref().map(below).unwrap_or_default(), ..Done::default() }
}

/// What it will cost, before it costs it.
fn foretold(spec: &Spec, bounds: &Bounds) -> String {
    let probes = bounds.probes();
    let arrivals = |rate: f64| {
        let by_number = spec.stop.requests.map_or(0.0, |requests| requests as f64 / rate);
        by_number.max(spec.stop.duration.map_or(0.0, |time| time.as_secs_f64()))
    };
    // Doubling begins at the lowest rate; where requests are counted, slow probes take longest.
    let (quick, slow) = (arrivals(bounds.high), arrivals(bounds.low));
    let shown = |seconds: f64| format!("{:?}", Duration::from_secs(seconds.ceil() as u64));
    format!(
        "searching from {} to {} req/s to {} %: at most {probes} probes if none contradicts another, {} to {} of arrivals each; all of them take at most {}",
        bounds.low,
        bounds.high,
        bounds.precision * 100.0,
        shown(quick),
        shown(slow),
        shown(slow * f64::from(probes)),
    )
}

/// Measures at one rate, or reads what an earlier try of this stage measured there.
async fn attempt(
    errand: &Errand,
    spec: &Spec,
    rate: f64,
    history: &[Probe],
    watched: Telemetry,
) -> Result<Tried, Failure> {
    let times = history.iter().filter(|probe| probe.rate.total_cmp(&rate).is_eq()).count() as u64;
    // A confirmation is worth something only with other arrivals.
    let spec =
        Spec { scenario: Scenario::Server { rate: rate.into() }, seed: spec.seed.wrapping_add(times), ..spec.clone() };
    let folder = PathBuf::from(format!("probes/{:02}-{rate}", history.len() + 1));
    let path = errand.lease.out.join(&folder);
    let result = if let Some(result) = before(&path, &spec) {
        result
    } else {
        let measured =
            Box::pin(measure(errand, &spec, watched, &format!("probe {} at {rate} req/s", history.len() + 1))).await?;
        if errand.lease.stop.is_asked() && errand.lease.stop.why().is_none() {
            return Err(Failure::new(FailureKind::Interrupted, "stopped in the middle of a probe"));
        }
        if let Some(lost) = measured.result.reasons.first().filter(|reason| reason.check == "server") {
            // No lower rate would meet the limits without a server.
            let what = format!("at {rate} req/s the server was lost");
            let kind = FailureKind::Invalid(measured.result.verdict);
            return Err(Failure::new(kind, what).cause(lost.text.clone()));
        }
        keep(&path, &measured)?;
        measured.result
    };
    let first = result.reasons.first().map(|reason| format!("{}: {}", reason.check, reason.text));
    if result.verdict == Verdict::InvalidClient {
        let what = format!("at {rate} req/s it is the client that is measured, not the server");
        let failure = Failure::new(FailureKind::Invalid(result.verdict), what).cause(first.unwrap_or_default());
        return Err(failure.hint("give the client more cores or connections, or search below this rate"));
    }
    let met = result.verdict.is_valid();
    Ok(Tried {
        probe: Probe { rate, met },
        verdict: result.verdict,
        ttft_p99_ms: result.latency.ttft.p99,
        tpot_p99_ms: result.latency.tpot.p99,
        output_tokens_per_s: result.rates.output_tokens,
        why: first.filter(|_| !met),
        folder,
    })
}

/// A finished probe of the same schedule; the servers may have other ports now. `result.json` is written last, so one that
/// can be read is whole, and so is what stands beside it. One that measured its own client says nothing about the server, and
/// is measured again.
pub(super) fn before(path: &Path, spec: &Spec) -> Option<RunResult> {
    let result = harness::read_result(&path.join("result.json")).ok()?;
    let planned = harness::plan(spec).ok()?;
    let same = result.schedule_digest == planned.digest.to_string() && result.asked.scenario == spec.scenario;
    (same && result.verdict != Verdict::InvalidClient).then_some(result)
}

pub(super) fn keep(path: &Path, measured: &harness::Measured) -> Result<(), Failure> {
    fs::create_dir_all(path)
        .map_err(|error| Failure::new(FailureKind::System, format!("`{}` cannot be made: {error}", path.display())))?;
    harness::write(path, measured).map_err(|error| failure(&error))
}

fn headline(found: &Found, spec: &Spec, probes: usize) -> String {
    let upper = found.below.map_or_else(|| " or more".to_owned(), |below| format!("–{below}"));
    let limits: Vec<String> = [("TTFT", spec.limits.ttft_p99), ("TPOT", spec.limits.tpot_p99)]
        .into_iter()
        .filter_map(|(name, limit)| Some(format!("{name} p99 ≤ {:?}", limit?)))
        .collect();
    format!("{}{upper} req/s at {}  ({probes} probes)", found.at_least, limits.join(", "))
}
