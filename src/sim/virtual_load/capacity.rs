//! The highest rate at which limits hold.
//!
//! There is no noise of a measurement in virtual time, only that of finite loads: one set of lengths and of gaps, drawn once,
//! is used at every rate, so that bisection finds one rate.

use super::latencies::VirtualResult;
use super::workload::VirtualWorkload;
use crate::core::{EngineLimits, NeverFits, SimulatedRequest, simulate};
use base::spec::LatencyLimit;

/// The highest rate, and what is measured at it.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// Requests per second for all servers. 0: the limits do not hold for a request alone.
    pub rate: f64,
    pub result: VirtualResult,
}

/// Per-token gaps are not kept in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the simulator has limits on ttft, tpot and e2e in virtual time, not on itl, icl and max_stall")]
pub struct UnknownMetric;

/// Why there is no capacity.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum CapacityError {
    #[error(transparent)]
    Metric(#[from] UnknownMetric),
    /// As in a measurement, which is INVALID then.
    #[error("there is no {} to check against the limit {} of {} ms", .limit.name(), .limit.key(), .limit.ms)]
    NoValue { limit: LatencyLimit },
    #[error("a request can never run: {0}")]
    Fit(#[from] NeverFits),
}

/// The bisection ends at this share of the rate.
const EXACT: f64 = 0.005;
/// A load's time: at least this many seconds, and this many times the longest limit.
const SECONDS: f64 = 30.0;
const LIMITS: f64 = 30.0;
const MOST_DOUBLINGS: usize = 6;

/// Every request at once: the servers are full until the load ends. They are alike, so one of them is simulated, with its share.
pub fn offline(
    server: &EngineLimits,
    servers: usize,
    workload: &VirtualWorkload,
    count: usize,
) -> Result<VirtualResult, NeverFits> {
    let servers = servers.max(1);
    let mut result = run(server, 1, &workload.requests(count.div_ceil(servers), None))?;
    result.times(servers);
    Ok(result)
}

/// Poisson arrivals at a rate, dealt to the servers in turn.
pub fn served_at(
    server: &EngineLimits,
    servers: usize,
    workload: &VirtualWorkload,
    count: usize,
    rate: f64,
) -> Result<VirtualResult, NeverFits> {
    run(server, servers, &workload.requests(count, Some(rate)))
}

/// Like `served_at`, for a load of at least this many requests, and of a time in which limits can be judged.
pub fn judged_at(
    server: &EngineLimits,
    servers: usize,
    workload: &VirtualWorkload,
    count: usize,
    limits: &[LatencyLimit],
    rate: f64,
) -> Result<VirtualResult, NeverFits> {
    served_at(server, servers, workload, judged_count(count, limits, rate), rate)
}

/// Requests of a load in which limits can be judged.
pub(super) fn judged_count(count: usize, limits: &[LatencyLimit], rate: f64) -> usize {
    let longest = limits.iter().fold(0.0_f64, |longest, limit| longest.max(limit.ms / 1e3));
    let seconds = SECONDS.max(LIMITS * longest);
    count.max((rate * seconds) as usize)
}

/// The highest rate at which the limits hold and the servers keep up, for a load of at least this many requests and of a time in
/// which a queue that grows is seen.
pub fn capacity(
    server: &EngineLimits,
    servers: usize,
    workload: &VirtualWorkload,
    count: usize,
    limits: &[LatencyLimit],
) -> Result<Capacity, CapacityError> {
    let full = offline(server, servers, workload, count)?;
    search(&full, |rate| judged_at(server, servers, workload, count, limits, rate), limits)
}

/// Like `capacity`, for servers that take a load at a rate, and whose result with all requests at once is known.
pub(super) fn search(
    full: &VirtualResult,
    at: impl Fn(f64) -> Result<VirtualResult, NeverFits>,
    limits: &[LatencyLimit],
) -> Result<Capacity, CapacityError> {
    let most = full.requests as f64 / full.seconds.max(f64::MIN_POSITIVE);
    let (mut low, mut high) = (0.0, most);
    let mut best = Capacity { rate: 0.0, result: at(most / 1000.0)? };
    // The end of a finite load, when few are left, hides a part of what full servers do.
    for _ in 0..MOST_DOUBLINGS {
        let result = at(high)?;
        if !result.holds(limits)? {
            break;
        }
        low = high;
        best = Capacity { rate: high, result };
        high *= 2.0;
    }
    while high - low > EXACT * high {
        let rate = if low == 0.0 { high / 2.0 } else { f64::midpoint(low, high) };
        let result = at(rate)?;
        if result.holds(limits)? {
            low = rate;
            best = Capacity { rate, result };
        } else {
            high = rate;
        }
        if high < most / 2000.0 {
            break;
        }
    }
    Ok(best)
}

/// Where one server has this many requests, its latencies are those of all: they are alike and take requests in turn.
const ENOUGH: usize = 5000;

fn run(server: &EngineLimits, servers: usize, load: &[SimulatedRequest]) -> Result<VirtualResult, NeverFits> {
    let servers = servers.max(1);
    let simulated = if load.len() / servers >= ENOUGH { 1 } else { servers };
    let mut result = VirtualResult::default();
    for place in 0..simulated {
        let share: Vec<SimulatedRequest> = load.iter().copied().skip(place).step_by(servers).collect();
        let ran = simulate(server, &share)?;
        result.add(&share, &ran.requests, ran.steps);
    }
    result.times(servers / simulated);
    result.sort();
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::spec;
    use crate::served_limits::{EngineServing, served_limits};
    use base::spec::{Length, LimitedMetric, Statistic};

    fn workload() -> VirtualWorkload {
        VirtualWorkload {
            input_tokens: Length::Lognormal { mean: 300.0, stddev: 200.0, min: 16, max: 1024 },
            output_tokens: Length::Lognormal { mean: 100.0, stddev: 50.0, min: 8, max: 512 },
            adapters: Vec::new(),
            seed: 7,
        }
    }

    fn limit(metric: LimitedMetric, ms: f64) -> LatencyLimit {
        LatencyLimit { metric, statistic: Statistic::P99, ms }
    }

    #[test]
    fn limits_hold_at_the_capacity_and_not_above_it() {
        let server = served_limits(&spec(), &EngineServing::default()).unwrap();
        let limits = [limit(LimitedMetric::Ttft, 200.0), limit(LimitedMetric::Tpot, 12.0)];
        let found = capacity(&server, 2, &workload(), 1000, &limits).unwrap();
        assert!(found.rate > 0.0 && found.result.holds(&limits).unwrap());
        let above = served_at(&server, 2, &workload(), found.result.requests, found.rate * 1.05).unwrap();
        assert!(!above.holds(&limits).unwrap(), "{}", found.rate);
        assert_eq!(capacity(&server, 2, &workload(), 1000, &limits).unwrap(), found);
    }

    #[test]
    fn answers_of_one_token_have_no_tpot_that_could_hold() {
        let server = served_limits(&spec(), &EngineServing::default()).unwrap();
        let workload = VirtualWorkload { output_tokens: Length::Fixed(1), ..workload() };
        let result = served_at(&server, 1, &workload, 50, 5.0).unwrap();
        assert_eq!(result.statistic(LimitedMetric::Tpot, Statistic::P50), Ok(None));
        assert!(result.statistic(LimitedMetric::Ttft, Statistic::P50).unwrap().is_some());
        let why = capacity(&server, 1, &workload, 50, &[limit(LimitedMetric::Tpot, 12.0)]).unwrap_err().to_string();
        assert_eq!(why, "there is no TPOT p99 to check against the limit tpot_p99 of 12 ms");
    }

    #[test]
    fn what_cannot_hold_has_no_capacity_and_more_servers_have_more() {
        let server = served_limits(&spec(), &EngineServing::default()).unwrap();
        let never = [limit(LimitedMetric::Tpot, 0.01)];
        assert_eq!(capacity(&server, 1, &workload(), 200, &never).unwrap().rate.to_bits(), 0);
        let limits = [limit(LimitedMetric::Ttft, 100.0)];
        let rate = |servers| capacity(&server, servers, &workload(), 1000, &limits).unwrap().rate;
        assert!(rate(4) > 3.0 * rate(1));
        let stalls = [limit(LimitedMetric::MaxStall, 1.0)];
        assert!(matches!(capacity(&server, 1, &workload(), 200, &stalls), Err(CapacityError::Metric(_))));
    }
}
