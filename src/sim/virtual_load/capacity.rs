//! The highest rate at which limits hold.
//!
//! Virtual time has no measurement noise, only the sampling noise of finite loads: one set of lengths and of gaps,
//! drawn once, is used at every rate, so that bisection finds one rate.

use super::{VirtualResult, VirtualWorkload};
use crate::core::{EngineLimits, NeverFits, Served, SimulatedRequest, simulate};
use crate::fleet::{DisaggregatedAnswer, Disaggregation, FleetArrival, ServerFailures, run_disaggregated};
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
    pub server: &'a EngineLimits,
    pub arrangement: ServerArrangement,
    pub workload: &'a VirtualWorkload,
}

/// How the servers share a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServerArrangement {
    /// This many, which are alike and take requests in turn.
    Replicas(usize),
    /// Context servers and generation servers, each a copy of the engine.
    Disaggregated(Disaggregation),
}

impl<'a> VirtualBenchmark<'a> {
    /// Of servers that are alike.
    pub const fn new(server: &'a EngineLimits, servers: usize, workload: &'a VirtualWorkload) -> Self {
        Self { server, arrangement: ServerArrangement::Replicas(servers), workload }
    }

    /// Poisson arrivals at a rate, or every request at once: the servers are full until the load ends.
    pub fn served(&self, count: usize, rate: Option<f64>) -> Result<VirtualResult, NeverFits> {
        match self.arrangement {
            ServerArrangement::Disaggregated(setup) => {
                run_apart(self.server, &setup, &self.workload.requests(count, rate))
            }
            ServerArrangement::Replicas(servers) if rate.is_some() => {
                run(self.server, servers, &self.workload.requests(count, rate))
            }
            // One of the full servers is simulated, with its share.
            ServerArrangement::Replicas(servers) => {
                let servers = servers.max(1);
                let mut result = run(self.server, 1, &self.workload.requests(count.div_ceil(servers), None))?;
                result.times(servers);
                Ok(result)
            }
        }
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
        while high - low > EXACT * high {
            let rate = if low == 0.0 { high / 2.0 } else { f64::midpoint(low, high) };
            let result = self.judged_at(count, limits, rate)?;
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
}

/// Requests of a load in which limits can be judged.
fn judged_count(count: usize, limits: &[LatencyLimit], rate: f64) -> usize {
    let longest = limits.iter().fold(0.0_f64, |longest, limit| longest.max(limit.ms / 1e3));
    let seconds = SECONDS.max(LIMITS * longest);
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

/// Like `run`, on context servers and generation servers.
fn run_apart(
    server: &EngineLimits,
    setup: &Disaggregation,
    load: &[SimulatedRequest],
) -> Result<VirtualResult, NeverFits> {
    let mut served = vec![Served::default(); load.len()];
    let arrival =
        |&SimulatedRequest { at, isl, osl, adapter }: &_| FleetArrival { at, isl, osl, prefix: None, adapter };
    let arrivals = load.iter().map(arrival);
    let work = run_disaggregated(server, setup, None, ServerFailures::default(), arrivals, |answer| {
        let DisaggregatedAnswer { number, arrival, first, last, pauses } = answer;
        served[number as usize] = Served { first, last, tokens: arrival.osl, pauses };
    })?;
    let mut result = VirtualResult::default();
    result.add(load, &served, work.steps);
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

#[cfg(test)]
mod disaggregated_tests {
    use super::*;
    use crate::engine::tests::spec;
    use crate::engine::{EngineServing, served_limits};
    use crate::fleet::Balancer;
    use base::spec::{Length, LimitedMetric, SimCalibration, SimScheduler, Statistic};

    struct DisaggregatedServers {
        server: EngineLimits,
        setup: Disaggregation,
    }

    impl DisaggregatedServers {
        fn served(&self, workload: &VirtualWorkload, count: usize, rate: Option<f64>) -> VirtualResult {
            let arrangement = ServerArrangement::Disaggregated(self.setup);
            VirtualBenchmark { server: &self.server, arrangement, workload }.served(count, rate).unwrap()
        }
    }

    fn servers(scheduler: SimScheduler, contexts: usize, generations: usize, kv_link_gbs: f64) -> DisaggregatedServers {
        let calibration = SimCalibration { scheduler, ..SimCalibration::default() };
        let spec = crate::EngineSpec { calibration, ..spec() };
        DisaggregatedServers {
            server: served_limits(&spec, &EngineServing::default()).unwrap(),
            setup: Disaggregation {
                context_servers: contexts,
                generation_servers: generations,
                router: Balancer::LeastLoad,
                kv_link_gbs,
            },
        }
    }

    fn workload(isl: u32, osl: u32) -> VirtualWorkload {
        VirtualWorkload {
            input_tokens: Length::Fixed(isl),
            output_tokens: Length::Fixed(osl),
            adapters: Vec::new(),
            seed: 4,
        }
    }

    fn number(result: &VirtualResult, metric: LimitedMetric, statistic: Statistic) -> f64 {
        result.statistic(metric, statistic).unwrap().unwrap()
    }

    #[test]
    fn a_request_alone_waits_for_its_cache_to_cross_the_link() {
        for scheduler in [SimScheduler::TensorrtLlm, SimScheduler::Vllm] {
            let ttft = |gbs| {
                let servers = servers(scheduler, 1, 1, gbs);
                let result = servers.served(&workload(1500, 20), 1, Some(1.0));
                assert_eq!((result.requests, result.output_tokens), (1, 20));
                (number(&result, LimitedMetric::Ttft, Statistic::P50), servers.server.kv_bytes_per_token)
            };
            let ((fast, bytes), (slow, _)) = (ttft(100.0), ttft(1.0));
            // ms: bytes of the cache over GB/s.
            let longer = bytes * 1500.0 / 1e6 * (1.0 - 0.01);
            assert!((slow - fast - longer).abs() < 0.01, "{scheduler:?} {slow} {fast} {longer}");
        }
    }

    #[test]
    fn every_request_is_answered_once_with_all_of_its_tokens() {
        for scheduler in [SimScheduler::TensorrtLlm, SimScheduler::Vllm] {
            for osl in [1, 2, 30] {
                let result = servers(scheduler, 2, 3, 20.0).served(&workload(300, osl), 500, Some(80.0));
                assert_eq!((result.requests, result.output_tokens), (500, 500 * u64::from(osl)));
                assert!(result.ttft.iter().all(|ttft| *ttft > 0.0));
                let again = servers(scheduler, 2, 3, 20.0).served(&workload(300, osl), 500, Some(80.0));
                assert_eq!(result, again);
            }
        }
    }

    /// What disaggregation is for: prompts do not delay the tokens of others.
    #[test]
    fn prompts_no_longer_delay_the_tokens_of_others() {
        let workload = workload(2000, 100);
        let apart = servers(SimScheduler::Vllm, 2, 2, 50.0);
        let p99 = |result: &VirtualResult| number(result, LimitedMetric::Tpot, Statistic::P99);
        let together = VirtualBenchmark::new(&apart.server, 4, &workload).served(2000, Some(60.0)).unwrap();
        let disaggregated = apart.served(&workload, 2000, Some(60.0));
        assert!(p99(&disaggregated) < 0.8 * p99(&together), "{} {}", p99(&disaggregated), p99(&together));
        // Too few context servers are the limit of all.
        let few = servers(SimScheduler::Vllm, 1, 3, 50.0);
        let tokens = |servers: &DisaggregatedServers| servers.served(&workload, 2000, None).tokens_per_second();
        assert!(tokens(&few) < tokens(&apart));
    }
}
