//! The load generator held against servers whose truth is known: how wrong its stamps are on this machine, how late it
//! is, and how much it can do.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::{Trouble, say};
use crate::cli::{Exit, Selftest};
use crate::event::{Endpoint, Stop};
use crate::harness::{self, Arrivals, Ended, Length, Limits, Measured, Scenario, Slo, Spec, Until};
use crate::sim::{Manner, Proof, Script, Truth};

/// Tokens of an answer that follows the script.
const TOKENS: u32 = 16;
/// Requests under way against a server that answers at once: enough to keep it busy.
const USERS: f64 = 64.0;
const SCRIPT: Script = Script { seed: 2026, first_ms: (20.0, 60.0), gap_ms: (2.0, 8.0) };

/// How long and how much.
#[derive(Clone, Debug)]
struct Effort {
    /// Requests per second against the script.
    rates: Vec<f64>,
    /// Of arrivals at each rate.
    duration: Duration,
    /// Requests of 128 tokens, and of one token, that are answered at once.
    flood: (u64, u64),
}

impl Default for Effort {
    fn default() -> Self {
        Self { rates: vec![10.0, 100.0, 1000.0], duration: Duration::from_secs(5), flood: (5_000, 20_000) }
    }
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
struct Proven {
    cores: u64,
    scripted: Vec<Scripted>,
    ceilings: Vec<Ceiling>,
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
    /// Kolmogorov's distance of the real gaps between issues from the exponential law, and what a Poisson process stays below.
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
struct Ceiling {
    tokens_per_answer: u32,
    requests_per_s: f64,
    tokens_per_s: f64,
    /// CPU of the load workers per 1,000 responses, ms.
    cpu_ms_per_1000: f64,
}

pub(super) fn selftest(request: &Selftest) -> Result<Exit, Trouble> {
    let effort =
        Effort { rates: request.rates.clone(), duration: Duration::from_secs(request.seconds), ..Effort::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let proven = runtime.block_on(prove(&effort))?;
    say(&if request.json { format!("{:#}\n", serde_json::json!(proven)) } else { proven.told() });
    Ok(Exit::Done)
}

async fn prove(effort: &Effort) -> Result<Proven, Trouble> {
    let server = Proof::start(Manner::Scripted(SCRIPT))?;
    let mut scripted = Vec::new();
    for rate in &effort.rates {
        server.forget();
        let until = Until { requests: None, duration: Some(effort.duration) };
        let measured = race(&server, Scenario::Server { rate: (*rate).into() }, until, TOKENS, 4).await?;
        scripted.push(compare(*rate, &measured, &server.truths()));
    }
    let mut ceilings = Vec::new();
    for (tokens, requests) in [(128, effort.flood.0), (1, effort.flood.1)] {
        let server = Proof::start(Manner::AtOnce { tokens })?;
        let until = Until { requests: Some(requests), duration: None };
        let result = race(&server, Scenario::Concurrency { users: USERS.into() }, until, tokens, 2).await?.result;
        ceilings.push(Ceiling {
            tokens_per_answer: tokens,
            requests_per_s: result.rates.requests_full.unwrap_or_default(),
            tokens_per_s: result.rates.output_tokens.unwrap_or_default(),
            cpu_ms_per_1000: result.client.cpu_ms_per_1000_chunks.unwrap_or_default(),
        });
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    Ok(Proven { cores, scripted, ceilings })
}

async fn race(server: &Proof, scenario: Scenario, stop: Until, tokens: u32, clients: u32) -> Result<Measured, Trouble> {
    let endpoint = Endpoint { host: "127.0.0.1".to_owned(), grpc: server.address.port(), http: None, metrics: None };
    let spec = Spec {
        endpoints: vec![endpoint],
        protocol: harness::Protocol::Kserve,
        model: "tensorrt_llm".to_owned(),
        timelines: scenario.is_open_loop(),
        scenario,
        arrivals: Arrivals::Poisson,
        stop,
        input_len: Length::Fixed(32),
        output_len: Length::Fixed(tokens),
        seed: 1,
        warmup: 0,
        pace: harness::Pace::default(),
        content: harness::Content::default(),
        frontends: 1,
        clients,
        stall_timeout: Duration::from_mins(1),
        limits: Limits::default(),
        slo: Slo::default(),
        vocab_size: 32_000,
        end_id: 2,
        request: harness::Request::default(),
    };
    let measured = harness::run(&spec, &Stop::new(), |_| {}).await.map_err(anyhow::Error::from)?;
    let failed = measured.requests.iter().find_map(|record| match &record.ended {
        Ended::Failed { why, .. } => Some(why.clone()),
        _ => None,
    });
    match failed {
        Some(why) => Err(anyhow::anyhow!("the server of the self-test failed a request: {why}").into()),
        None => Ok(measured),
    }
}

fn compare(rate: f64, measured: &Measured, truths: &[Truth]) -> Scripted {
    let mut errors = (Vec::new(), Vec::new());
    let mut arrivals = Vec::new();
    for (record, truth) in measured.requests.iter().zip(truths) {
        debug_assert_eq!(record.index, truth.id);
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

impl Proven {
    /// For a person.
    fn told(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "The load generator on this machine ({} cores), against a server in the same process whose every write is known.\n\
             Errors are what was measured less what the server did: p50 / p99 / max, in µs.\n",
            self.cores
        );
        let _ = writeln!(
            out,
            "{:>8}  {:>8}  {:>24}  {:>24}  {:>24}  {:>24}  Poisson",
            "req/s", "requests", "TTFT from issue", "gap between tokens", "issue behind schedule", "late at the server"
        );
        for row in &self.scripted {
            let spread = |s: &Spread| format!("{:.0} / {:.0} / {:.0}", s.p50, s.p99, s.max);
            let poisson = match (row.ks_distance, row.ks_critical) {
                (Some(distance), Some(critical)) if distance <= critical => {
                    format!("yes, {distance:.3} ≤ {critical:.3}")
                }
                (Some(distance), Some(critical)) => format!("NO, {distance:.3} > {critical:.3}"),
                _ => "too few".to_owned(),
            };
            let _ = writeln!(
                out,
                "{:>8}  {:>8}  {:>24}  {:>24}  {:>24}  {:>24}  {poisson}",
                row.rate,
                row.requests,
                spread(&row.ttft_error_us),
                spread(&row.gap_error_us),
                spread(&row.lag_us),
                spread(&row.lateness_at_server_us),
            );
        }
        let _ =
            writeln!(out, "\nAgainst a server that answers at once and shares these cores, 64 requests under way:\n");
        for row in &self.ceilings {
            let _ = writeln!(
                out,
                "{:>5} tokens an answer: {:>9.0} tokens/s  {:>7.0} requests/s  {:>6.2} ms of CPU for 1,000 responses",
                row.tokens_per_answer, row.tokens_per_s, row.requests_per_s, row.cpu_ms_per_1000
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_held_against_what_the_server_did() {
        let effort = Effort { rates: vec![50.0], duration: Duration::from_secs(1), flood: (50, 200) };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let Ok(proven) = runtime.block_on(prove(&effort)) else { panic!("it could not be proven") };
        let row = &proven.scripted[0];
        assert!(row.requests > 20);
        assert_eq!(row.ttft_error_us.n, row.requests);
        assert_eq!(row.gap_error_us.n, row.requests * u64::from(TOKENS - 1));
        assert!(proven.ceilings.iter().all(|row| row.requests_per_s > 0.0 && row.cpu_ms_per_1000 > 0.0));
        assert!(proven.told().contains("Errors are what was measured less what the server did"));
    }
}
