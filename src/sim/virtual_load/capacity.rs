//! The highest rate at which limits hold.
//!
//! Virtual time has no measurement noise, only the sampling noise of finite loads: one set of lengths and of gaps,
//! drawn once, is used at every rate, so that bisection finds one rate.

use super::{VirtualResult, VirtualWorkload};
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

/// Why a server's capacity cannot be determined.
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

/// A load in virtual time: servers of one engine, and the kind of requests that they get.
#[derive(Clone, Copy, Debug)]
pub struct VirtualBenchmark<'a> {
    server: &'a EngineLimits,
    /// They are alike and take requests in turn.
    servers: usize,
    workload: &'a VirtualWorkload,
}

impl<'a> VirtualBenchmark<'a> {
    pub const fn new(server: &'a EngineLimits, servers: usize, workload: &'a VirtualWorkload) -> Self {
        Self { server, servers, workload }
    }

    /// Poisson arrivals at a rate, or every request at once: the servers are full until the load ends.
    pub fn served(&self, count: usize, rate: Option<f64>) -> Result<VirtualResult, NeverFits> {
        if rate.is_some() {
            return run(self.server, self.servers, &self.workload.requests(count, rate));
        }
        // One of the full servers is simulated, with its share.
        let servers = self.servers.max(1);
        let mut result = run(self.server, 1, &self.workload.requests(count.div_ceil(servers), None))?;
        result.times(servers);
        Ok(result)
    }

    /// Like `served`, for a load of at least this many requests, and of a time in which limits can be judged.
    pub fn judged_at(&self, count: usize, limits: &[LatencyLimit], rate: f64) -> Result<VirtualResult, NeverFits> {
        self.served(judged_count(count, limits, rate), Some(rate))
    }

    /// The highest rate at which the limits hold and the servers keep up, for a load of at least this many requests and
    /// of a time in which a queue that grows is seen.
    pub fn capacity(&self, count: usize, limits: &[LatencyLimit]) -> Result<Capacity, CapacityError> {
        let full = self.served(count, None)?;
        let most = full.requests as f64 / full.seconds.max(f64::MIN_POSITIVE);
        let (mut low, mut high) = (0.0, most);
        let mut best = Capacity { rate: 0.0, result: self.judged_at(count, limits, most / 1000.0)? };
        // The end of a finite load, when few are left, hides a part of what full servers do.
        for _ in 0..MOST_DOUBLINGS {
            let result = self.judged_at(count, limits, high)?;
            if !result.holds(limits)? {
                break;
            }
            low = high;
            best = Capacity { rate: high, result };
            high *= 2.0;
        }
        while high - low > EXACT * high && high >= most / 2000.0 {
            let rate = if low == 0.0 { high / 2.0 } else { f64::midpoint(low, high) };
            let result = self.judged_at(count, limits, rate)?;
            if result.holds(limits)? {
                low = rate;
                best = Capacity { rate, result };
            } else {
                high = rate;
            }
        }
        Ok(best)
    }
}

/// Requests of a load in which limits can be judged.
fn judged_count(count: usize, limits: &[LatencyLimit], rate: f64) -> usize {
    let seconds = limits.iter().fold(SECONDS, |seconds, limit| seconds.max(LIMITS * (limit.ms / 1e3)));
    count.max((rate * seconds) as usize)
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
    use crate::engine::{EngineServing, served_limits};
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
        let served = VirtualBenchmark::new(&server, 2, &workload()).capacity(1000, &limits).unwrap();
        assert!(served.rate > 0.0 && served.result.holds(&limits).unwrap());
        let above = VirtualBenchmark::new(&server, 2, &workload())
            .served(served.result.requests, Some(served.rate * 1.05))
            .unwrap();
        assert!(!above.holds(&limits).unwrap(), "{}", served.rate);
        assert_eq!(VirtualBenchmark::new(&server, 2, &workload()).capacity(1000, &limits).unwrap(), served);
    }

    #[test]
    fn answers_of_one_token_have_no_tpot_that_could_hold() {
        let server = served_limits(&spec(), &EngineServing::default()).unwrap();
        let workload = VirtualWorkload { output_tokens: Length::Fixed(1), ..workload() };
        let result = VirtualBenchmark::new(&server, 1, &workload).served(50, Some(5.0)).unwrap();
        assert_eq!(result.statistic(LimitedMetric::Tpot, Statistic::P50), Ok(None));
        assert!(result.statistic(LimitedMetric::Ttft, Statistic::P50).unwrap().is_some());
        let reason = VirtualBenchmark::new(&server, 1, &workload)
            .capacity(50, &[limit(LimitedMetric::Tpot, 12.0)])
            .unwrap_err()
            .to_string();
        assert_eq!(reason, "there is no TPOT p99 to check against the limit tpot_p99 of 12 ms");
    }

    #[test]
    fn what_cannot_hold_has_no_capacity_and_more_servers_have_more() {
        let server = served_limits(&spec(), &EngineServing::default()).unwrap();
        let never = [limit(LimitedMetric::Tpot, 0.01)];
        assert_eq!(VirtualBenchmark::new(&server, 1, &workload()).capacity(200, &never).unwrap().rate.to_bits(), 0);
        let limits = [limit(LimitedMetric::Ttft, 100.0)];
        let rate = |servers| VirtualBenchmark::new(&server, servers, &workload()).capacity(1000, &limits).unwrap().rate;
        assert!(rate(4) > 3.0 * rate(1));
        let stalls = [limit(LimitedMetric::MaxStall, 1.0)];
        assert!(matches!(
            VirtualBenchmark::new(&server, 1, &workload()).capacity(200, &stalls),
            Err(CapacityError::Metric(_))
        ));
    }
}
