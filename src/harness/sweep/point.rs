//! One point of a sweep: the numbers of its result that curves and tables show.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::level::{PointRole, SweepLevel};
use crate::event::Verdict;
use crate::harness::{ConfidenceInterval, Metric, Reason, RunResult};

/// One measurement of a sweep. `folder` has its whole result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepPoint {
    pub level: SweepLevel,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<PointRole>,
    pub verdict: Verdict,
    /// Why the verdict is not VALID, worst first.
    #[serde(default)]
    pub reasons: Vec<Reason>,
    /// Of its result, below the folder of `sweep.json`.
    #[serde(default)]
    pub folder: PathBuf,
    #[serde(default)]
    pub seed: u64,
    /// Start of set-up, RFC 3339, UTC.
    #[serde(default)]
    pub started: String,
    #[serde(default)]
    pub scheduled: u64,
    #[serde(default)]
    pub ok: u64,
    #[serde(default)]
    pub failed: u64,
    /// From the schedule's start to the end of the last successful request.
    #[serde(default)]
    pub window_s: f64,
    /// Intended arrivals per second; null in a closed loop.
    #[serde(default)]
    pub offered_per_s: Option<f64>,
    /// Successful requests per second of the window.
    #[serde(default)]
    pub requests_per_s: Option<f64>,
    /// Output tokens of successful requests per second of the window.
    #[serde(default)]
    pub output_tokens_per_s: Option<f64>,
    /// What one user sees while an answer streams: 1,000 / TPOT p50.
    #[serde(default)]
    pub tokens_per_s_per_user: Option<f64>,
    /// Output tokens per second of the window, over the GPUs of the servers.
    #[serde(default)]
    pub tokens_per_s_per_gpu: Option<f64>,
    /// Requests per second of the window that met their whole SLO; null without one.
    #[serde(default)]
    pub goodput_per_s: Option<f64>,
    /// Their share of the scheduled requests.
    #[serde(default)]
    pub attainment: Option<f64>,
    /// From the intended arrival.
    #[serde(default)]
    pub ttft: LatencySummary,
    #[serde(default)]
    pub tpot: LatencySummary,
    /// From the intended arrival.
    #[serde(default)]
    pub e2e: LatencySummary,
    /// Whether no other valid point has both more tokens per second for a user and more for the server.
    #[serde(default)]
    pub on_front: bool,
}

/// A latency of one point, ms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LatencySummary {
    pub n: u64,
    pub mean: Option<MeasuredNumber>,
    pub p50: Option<MeasuredNumber>,
    pub p90: Option<MeasuredNumber>,
    pub p99: Option<MeasuredNumber>,
}

/// A number with its 95 % interval from this point's requests, where they are enough for one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredNumber {
    pub value: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

impl LatencySummary {
    fn of(metric: &Metric) -> Self {
        let number = |value: Option<f64>, interval: Option<ConfidenceInterval>| {
            Some(MeasuredNumber {
                value: value?,
                low: interval.and_then(|interval| interval.low),
                high: interval.and_then(|interval| interval.high),
            })
        };
        Self {
            n: metric.n,
            mean: number(metric.mean, metric.mean_interval),
            p50: number(metric.p50, metric.p50_interval),
            p90: number(metric.p90, metric.p90_interval),
            p99: number(metric.p99, metric.p99_interval),
        }
    }
}

impl SweepPoint {
    /// Without any number.
    pub(super) fn empty(level: SweepLevel, role: Option<PointRole>) -> Self {
        Self {
            level,
            role,
            verdict: Verdict::Valid,
            reasons: Vec::new(),
            folder: PathBuf::new(),
            seed: 0,
            started: String::new(),
            scheduled: 0,
            ok: 0,
            failed: 0,
            window_s: 0.0,
            offered_per_s: None,
            requests_per_s: None,
            output_tokens_per_s: None,
            tokens_per_s_per_user: None,
            tokens_per_s_per_gpu: None,
            goodput_per_s: None,
            attainment: None,
            ttft: LatencySummary::default(),
            tpot: LatencySummary::default(),
            e2e: LatencySummary::default(),
            on_front: false,
        }
    }

    /// `folder` is where the result is, below that of the sweep.
    pub fn of(level: SweepLevel, role: Option<PointRole>, folder: PathBuf, result: &RunResult) -> Self {
        let (latency, rates, goodput) = (&result.latency, &result.rates, result.goodput.as_ref());
        Self {
            verdict: result.verdict(),
            reasons: result.reasons().to_vec(),
            folder,
            seed: result.requested.seed,
            started: result.started.clone(),
            scheduled: result.counts.scheduled,
            ok: result.counts.ok,
            failed: result.counts.failed,
            window_s: rates.window_s,
            offered_per_s: rates.offered.filter(|_| result.requested.scenario.is_open_loop()),
            requests_per_s: rates.requests_full,
            output_tokens_per_s: rates.output_tokens,
            tokens_per_s_per_user: latency.tpot.p50.filter(|tpot| *tpot > 0.0).map(|tpot| 1e3 / tpot),
            goodput_per_s: goodput.and_then(|goodput| goodput.requests),
            attainment: goodput.and_then(|goodput| goodput.attainment),
            ttft: LatencySummary::of(&latency.ttft),
            tpot: LatencySummary::of(&latency.tpot),
            e2e: LatencySummary::of(&latency.e2e),
            ..Self::empty(level, role)
        }
    }

    /// Whether its numbers are of the server under this load: not of the client, nor of a server that failed. Above a limit they
    /// are all the same.
    pub const fn is_usable(&self) -> bool {
        matches!(self.verdict, Verdict::Valid | Verdict::ValidWithWarnings | Verdict::InvalidLoad)
    }
}
