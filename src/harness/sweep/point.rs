//! One point of a sweep: the numbers of its result that curves and tables show; and the Pareto front of all points,
//! what one user sees against what the servers do.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sweep::plan::{PointRole, SweepLevel};
use crate::{AcrossRuns, ConfidenceInterval, Metric, Reason, ReasonSeverity, RunResult, VerdictCheck};
use base::event::Verdict;

/// One measurement of a sweep. `folder` has its whole result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepPoint {
    pub level: SweepLevel,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<PointRole>,
    /// Null where another tool measured, whose numbers are not judged.
    pub verdict: Option<Verdict>,
    /// Why the verdict is not VALID, worst first.
    #[serde(default)]
    pub reasons: Vec<Reason>,
    /// Of its result, below the folder of `sweep.json`.
    #[serde(default)]
    pub folder: PathBuf,
    /// Of the first run.
    #[serde(default)]
    pub seed: u64,
    /// Start of set-up of the first run, RFC 3339, UTC.
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
    pub offered_per_s: Option<f64>,
    /// Successful requests per second of the window; at a rate while requests arrived, without the drain after that.
    pub requests_per_s: Option<f64>,
    /// Output tokens of successful requests, likewise.
    pub output_tokens_per_s: Option<f64>,
    /// What one user sees while an answer streams: 1,000 / TPOT p50.
    pub tokens_per_s_per_user: Option<f64>,
    /// `output_tokens_per_s` over the GPUs of the servers.
    pub tokens_per_s_per_gpu: Option<f64>,
    /// Requests per second of the window that met their whole SLO; null without one.
    pub goodput_per_s: Option<f64>,
    /// Their share of the scheduled requests.
    pub attainment: Option<f64>,
    /// What TTFT and E2E are counted from, as its result names it; empty where another tool or an earlier version
    /// measured.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub zero_point: String,
    /// Who counted the output tokens, as its result names it; empty where another tool or an earlier version measured.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub token_source: String,
    #[serde(default)]
    pub ttft: LatencySummary,
    #[serde(default)]
    pub tpot: LatencySummary,
    #[serde(default)]
    pub e2e: LatencySummary,
    /// Whether no other valid point has both more tokens per second for a user and more for the server.
    #[serde(default)]
    pub on_front: bool,
    /// How many runs it is of. Of several, counts (`scheduled`, `ok`, `failed`, `n`) are their sums, each other number
    /// is their mean, and intervals are over the runs.
    #[serde(default = "one_run")]
    pub runs: u64,
    /// Every number of each run, where there are several; by metric and statistic: `ttft_p99`, `output_tokens`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub over_runs: BTreeMap<String, AcrossRuns>,
}

const fn one_run() -> u64 {
    1
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

/// A number with its 95 % interval: over the runs of the point, or of one run from its requests, where they are enough.
#[base::omit_empty]
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredNumber {
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

impl LatencySummary {
    pub fn from_metric(metric: &Metric) -> Self {
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
    /// Without any number, and not judged.
    pub fn empty(level: SweepLevel, role: Option<PointRole>) -> Self {
        Self { level, role, runs: 1, ..Self::default() }
    }

    /// `folder` is where the result is, below that of the sweep.
    pub fn from_result(level: SweepLevel, role: Option<PointRole>, folder: PathBuf, result: &RunResult) -> Self {
        let (latency, rates, goodput) = (&result.latency, &result.rates, result.goodput.as_ref());
        let once = Self {
            verdict: Some(result.verdict()),
            reasons: result.reasons().to_vec(),
            folder,
            seed: result.requested.seed,
            started: result.started.clone(),
            scheduled: result.counts.scheduled,
            ok: result.counts.ok,
            failed: result.counts.failed,
            window_s: rates.window_s,
            offered_per_s: rates.offered.filter(|_| result.requested.scenario.is_open_loop()),
            requests_per_s: rates.requests_while_arriving.or(rates.requests_full),
            output_tokens_per_s: rates.output_tokens_while_arriving.or(rates.output_tokens),
            tokens_per_s_per_user: latency.tpot.p50.filter(|tpot| *tpot > 0.0).map(|tpot| 1e3 / tpot),
            goodput_per_s: while_arriving(
                goodput.and_then(|goodput| goodput.requests),
                rates.requests_while_arriving,
                rates.requests_full,
            ),
            attainment: goodput.and_then(|goodput| goodput.attainment),
            zero_point: latency.ttft.zero_point.clone(),
            token_source: result.tokens.source.clone(),
            ttft: LatencySummary::from_metric(&latency.ttft),
            tpot: LatencySummary::from_metric(&latency.tpot),
            e2e: LatencySummary::from_metric(&latency.e2e),
            ..Self::empty(level, role)
        };
        match &result.repeats {
            Some(repeats) => once.with_runs(repeats.runs.len() as u64, repeats.over_runs.clone()),
            None => once,
        }
    }

    /// With the means of several runs in place of the numbers of one, and the sums of their counts. A number that not
    /// every run has is left out; a count and a length of time that `over_runs` does not have stay as they are.
    #[must_use]
    pub fn with_runs(mut self, runs: u64, over_runs: BTreeMap<String, AcrossRuns>) -> Self {
        let mean = |name: &str| over_runs.get(name).map(|over| over.mean);
        let sum = |name: &str| over_runs.get(name).map(AcrossRuns::sum);
        let number = |name: String| {
            let over = over_runs.get(&name)?;
            Some(MeasuredNumber { value: over.mean, low: Some(over.low), high: Some(over.high) })
        };
        for (name, latency) in [("ttft", &mut self.ttft), ("tpot", &mut self.tpot), ("e2e", &mut self.e2e)] {
            *latency = LatencySummary {
                n: sum(&format!("{name}_n")).unwrap_or(latency.n),
                mean: number(format!("{name}_mean")),
                p50: number(format!("{name}_p50")),
                p90: number(format!("{name}_p90")),
                p99: number(format!("{name}_p99")),
            };
        }
        for (name, count) in [
            ("requests_scheduled", &mut self.scheduled),
            ("requests_ok", &mut self.ok),
            ("requests_failed", &mut self.failed),
        ] {
            *count = sum(name).unwrap_or(*count);
        }
        self.window_s = mean("window").unwrap_or(self.window_s);
        // A closed loop offers no rate, also where arrivals have one.
        self.offered_per_s = self.offered_per_s.map(|of_run| mean("offered").unwrap_or(of_run));
        self.attainment = mean("attainment");
        self.requests_per_s = mean("requests_while_arriving").or_else(|| mean("requests_full"));
        self.output_tokens_per_s = mean("output_tokens_while_arriving").or_else(|| mean("output_tokens"));
        self.goodput_per_s = while_arriving(mean("goodput"), mean("requests_while_arriving"), mean("requests_full"));
        self.tokens_per_s_per_user = mean("tpot_p50").filter(|tpot| *tpot > 0.0).map(|tpot| 1e3 / tpot);
        (self.runs, self.over_runs) = (runs, over_runs);
        self
    }

    /// The 95 % interval over runs of a number that has none of its own: `output_tokens`, `requests_full`.
    pub fn interval_over_runs(&self, name: &str) -> Option<(f64, f64)> {
        let without_drain = match name {
            "requests_full" => "requests_while_arriving",
            "output_tokens" => "output_tokens_while_arriving",
            name => name,
        };
        self.over_runs.get(without_drain).or_else(|| self.over_runs.get(name)).map(|over| (over.low, over.high))
    }

    /// The abscissa of its load: the rate that it is called after, else what was answered.
    pub const fn load(&self) -> Option<f64> {
        match self.level {
            SweepLevel::Rate(rate) => Some(rate),
            _ => self.requests_per_s,
        }
    }

    /// Whether its numbers may be named as what the server does: valid, or of a tool that does not judge.
    pub fn is_accepted(&self) -> bool {
        self.verdict.is_none_or(Verdict::is_valid)
    }

    /// Why it was not seen that the server keeps up, if it was not: its latencies may be those of the length of the
    /// run.
    pub fn overload(&self) -> Option<&Reason> {
        self.reasons.iter().find(|reason| matches!(reason.check, VerdictCheck::Overload | VerdictCheck::Filling))
    }

    /// `VALID`, `VALID WITH WARNINGS, filling`; of another tool's run `not judged, 150 of 200 answered`.
    pub fn verdict_line(&self) -> String {
        let filling = self.overload().filter(|reason| reason.severity == ReasonSeverity::Warning);
        let remark = match (filling, self.verdict) {
            (Some(reason), _) => format!(", {}", reason.check),
            (None, None) if self.ok < self.scheduled => format!(", {} of {} answered", self.ok, self.scheduled),
            _ => String::new(),
        };
        format!("{}{remark}", self.verdict_text())
    }

    /// `VALID`, `not judged`.
    pub const fn verdict_text(&self) -> &'static str {
        match self.verdict {
            Some(verdict) => verdict.as_str(),
            None => "not judged",
        }
    }

    /// Whether its numbers are of the server under this load, above its limit or not.
    pub fn is_usable(&self) -> bool {
        !self.verdict.is_some_and(Verdict::is_faulty)
    }
}

/// Without the drain, in the proportion of all answers: no more good ones per second than there are answers.
fn while_arriving(full: Option<f64>, requests_while_arriving: Option<f64>, requests_full: Option<f64>) -> Option<f64> {
    let ratio = requests_while_arriving.zip(requests_full.filter(|rate| *rate > 0.0));
    Some(full? * ratio.map_or(1.0, |(arriving, full)| arriving / full))
}

/// Marks the accepted points that no other accepted point beats in both numbers. Points that are not valid are on no
/// front, nor are overloaded ones: time per token leaves the wait in the queue out, so that they look like a bargain.
pub(super) fn mark_front(points: &mut [SweepPoint]) {
    let pair = |point: &SweepPoint| {
        let is_accepted = point.is_accepted() && point.overload().is_none();
        Some((point.tokens_per_s_per_user?, point.output_tokens_per_s?)).filter(|_| is_accepted)
    };
    let pairs: Vec<Option<(f64, f64)>> = points.iter().map(pair).collect();
    for (point, own) in points.iter_mut().zip(&pairs) {
        point.on_front = own.is_some_and(|(user, server)| {
            let beats =
                |other: &(f64, f64)| other.0 >= user && other.1 >= server && (other.0 > user || other.1 > server);
            !pairs.iter().flatten().any(beats)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Goodput, result_of_repeats};

    #[test]
    fn a_point_of_several_runs_has_their_means_and_the_sums_of_their_counts() {
        let text = include_str!("../../../tests/golden/results/benchmark/result.json");
        let run: RunResult = serde_json::from_str(text).unwrap();
        let runs = [(24, 0, 10.0, 1.0), (22, 2, 12.0, 0.5), (20, 4, 14.0, 0.0)].map(|(ok, failed, window_s, share)| {
            let mut run = run.clone();
            (run.counts.scheduled, run.counts.ok, run.counts.failed, run.latency.ttft.n) = (24, ok, failed, ok);
            (run.rates.window_s, run.rates.offered) = (window_s, Some(window_s / 2.0));
            run.goodput = Some(Goodput { attainment: Some(share), requests: Some(share * 8.0), ..Goodput::default() });
            run
        });
        let point_of =
            |result: &RunResult| SweepPoint::from_result(SweepLevel::Rate(5.0), None, PathBuf::new(), result);
        let point = point_of(&result_of_repeats(&runs).unwrap());
        assert_eq!((point.runs, point.scheduled, point.ok, point.failed, point.ttft.n), (3, 72, 66, 6, 66));
        assert_eq!((point.window_s, point.offered_per_s), (12.0, Some(6.0)));
        assert_eq!((point.attainment, point.goodput_per_s), (Some(0.5), Some(4.0)));
        let mut drained = runs[1].clone();
        (drained.rates.requests_while_arriving, drained.rates.requests_full) = (Some(8.0), Some(10.0));
        let point = point_of(&drained);
        assert_eq!((point.requests_per_s, point.goodput_per_s), (Some(8.0), Some(3.2)), "4 in 10, as of 8");
        let alone = point_of(&runs[1]);
        assert_eq!((alone.runs, alone.ok, alone.failed, alone.attainment), (1, 22, 2, Some(0.5)));
    }
}

#[cfg(test)]
mod front_tests {
    use super::*;
    use crate::sweep::plan::SweepLevel;
    use crate::{Reason, ReasonSeverity, VerdictCheck};
    use base::event::Verdict;

    #[test]
    fn the_front_has_what_nothing_valid_beats() {
        let point = |verdict, user, server| SweepPoint {
            verdict: Some(verdict),
            tokens_per_s_per_user: Some(user),
            output_tokens_per_s: Some(server),
            ..SweepPoint::empty(SweepLevel::Users(1), None)
        };
        let mut points = vec![
            point(Verdict::Valid, 100.0, 100.0),
            point(Verdict::ValidWithWarnings, 80.0, 300.0),
            // Beaten in both.
            point(Verdict::Valid, 79.0, 290.0),
            // Better than all, and no measurement.
            point(Verdict::InvalidClient, 200.0, 900.0),
            point(Verdict::Overloaded, 200.0, 900.0),
            // Valid with the warning that the server had not filled.
            point(Verdict::ValidWithWarnings, 79.0, 600.0),
        ];
        let (check, severity) = (VerdictCheck::Filling, ReasonSeverity::Warning);
        points[5].reasons = vec![Reason { check, severity, text: String::new() }];
        mark_front(&mut points);
        let on_front: Vec<bool> = points.iter().map(|point| point.on_front).collect();
        assert_eq!(on_front, [true, true, false, false, false, false]);
    }
}
