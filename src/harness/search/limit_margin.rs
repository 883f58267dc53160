//! How near a measurement is to its limits, as one number that a search can fit a line to.

use crate::measure::metric::percentile;
use crate::measure::request_times::{e2e, max_stall, tpot, ttft};
use crate::{BenchSpec, Measured, Reason, ReasonSeverity, RequestRecord, VerdictCheck};
use base::spec::{GoodputLimit, LatencyLimit, LimitedMetric};
use base::stats::ProbeOutcome;

/// Far beyond any limit, either way.
const LARGEST_MARGIN: f64 = 3.0;
/// The queue grew all the time: the limit was missed clearly, since it held only because the probe was short.
const OVERLOADED: f64 = 1.5;
/// Barely held, or barely missed.
const NEAR: f64 = 0.01;

impl Measured {
    /// The margin of the limit that is nearest to being missed, or missed most, at this rate. Below 0: all held. A latency counts
    /// without the quickest value of its metric, which no lower rate takes away.
    pub fn margin(&self, spec: &BenchSpec, rate: f64) -> ProbeOutcome {
        let requests = self.requests.sorted_by_key(|record| record.t_sched);
        let first_half = requests.ok().count() / 2;
        let (mut whole, mut half) = (-LARGEST_MARGIN, -LARGEST_MARGIN);
        for limit in spec.limits.latencies() {
            let metric = self.result.latency.of(limit.metric);
            let quickest = metric.min.unwrap_or(0.0);
            let of_all = margin(&limit, quickest, metric.statistic(limit.statistic));
            let of_half = value_of(limit.metric).map_or(of_all, |value| {
                let values = requests.ok().take(first_half).filter_map(|record| value(&record)).map(|ns| ns / 1e6);
                margin(&limit, quickest, statistic(&limit, values.collect()))
            });
            whole = f64::max(whole, of_all);
            half = f64::max(half, of_half);
        }
        if let (Some(limit), Some(goodput)) = (spec.limits.goodput, &self.result.goodput) {
            let of = match limit {
                GoodputLimit::Share(share) => of_share(goodput.attainment.unwrap_or(0.0), share.share()),
                GoodputLimit::PerSecond(least) => (least / goodput.requests.unwrap_or(0.0).max(1e-9)).ln(),
            };
            whole = f64::max(whole, of.clamp(-LARGEST_MARGIN, LARGEST_MARGIN));
            half = f64::max(half, of.clamp(-LARGEST_MARGIN, LARGEST_MARGIN));
        }
        if self.is_overloaded() {
            whole = whole.max(OVERLOADED);
        }
        // Problems that no limit measures: failures beyond their budget, a lost server.
        if whole < 0.0 && !self.result.verdict().is_valid() {
            (whole, half) = (LARGEST_MARGIN, LARGEST_MARGIN);
        }
        ProbeOutcome { rate, whole, first_half: half, capacity: self.result.stability.capacity_per_s() }
    }

    /// Whether more requests arrived than were served, and this makes the run INVALID.
    fn is_overloaded(&self) -> bool {
        let is_overload =
            |reason: &Reason| reason.check == VerdictCheck::Overload && reason.severity != ReasonSeverity::Warning;
        self.result.reasons().iter().any(is_overload)
    }
}

/// Near 100 % both shares of missed limits are clamped to the smallest distinguishable one; the side of the limit stays exact.
fn of_share(attained: f64, least: f64) -> f64 {
    let of = ((1.0 - attained).max(1e-3) / (1.0 - least).max(1e-3)).ln();
    if attained >= least { of.min(-NEAR) } else { of.max(NEAR) }
}

fn margin(limit: &LatencyLimit, quickest: f64, found: Option<f64>) -> f64 {
    let allowed = limit.ms - quickest;
    let Some(found) = found else { return LARGEST_MARGIN };
    if allowed <= 0.0 {
        return LARGEST_MARGIN;
    }
    ((found - quickest) / allowed).max(f64::MIN_POSITIVE).ln().clamp(-LARGEST_MARGIN, LARGEST_MARGIN)
}

/// ns; `None` for metrics without stored single values.
fn value_of(metric: LimitedMetric) -> Option<fn(&RequestRecord) -> Option<f64>> {
    match metric {
        LimitedMetric::Ttft => Some(ttft),
        LimitedMetric::Tpot => Some(tpot),
        LimitedMetric::E2e => Some(e2e),
        LimitedMetric::MaxStall => Some(max_stall),
        LimitedMetric::Itl | LimitedMetric::Icl => None,
    }
}

fn statistic(limit: &LatencyLimit, mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    match limit.statistic.quantile() {
        Some(quantile) => percentile(&values, quantile),
        None => (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_all_requests_can_be_held() {
        assert!(of_share(1.0, 1.0) < 0.0 && of_share(0.9999, 1.0) > 0.0);
        assert!(of_share(0.95, 0.95) < 0.0 && of_share(0.9499, 0.95) > 0.0);
        assert!(of_share(0.99, 0.9) < of_share(0.95, 0.9) && of_share(0.5, 0.9) > of_share(0.8, 0.9));
    }
}
