//! Loads in virtual time: requests drawn from distributions, the servers that share them, and the highest rate at which
//! limits hold. Hours of load take seconds.
//!
//! Virtual time has no measurement noise, only the sampling noise of finite loads: one set of lengths and of gaps,
//! drawn once, is used at every rate, so that bisection finds one rate.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;

use crate::core::{EngineLimits, NeverFits, Served, SimulatedRequest, simulate, simulate_users};
use base::spec::{LatencyLimit, Length, LimitedMetric, Statistic};

/// The lengths of prompts and answers.
#[derive(Clone, Debug, PartialEq)]
pub struct VirtualWorkload {
    pub input_tokens: Length,
    pub output_tokens: Length,
    /// LoRA adapters, which requests name in turn.
    pub adapters: Vec<u64>,
    pub seed: u64,
}

impl VirtualWorkload {
    /// This many requests, with Poisson arrivals at a rate, or all at once.
    pub fn requests(&self, count: usize, rate: Option<f64>) -> Vec<SimulatedRequest> {
        // A stream for each purpose: another rate has the same lengths.
        let stream = |purpose| Pcg64::seed_from_u64(self.seed ^ purpose);
        let (mut inputs, mut outputs, mut gaps) = (stream(0), stream(0x6f75_7470_7574), stream(0x6761_7073));
        let mut seconds = 0.0;
        (0..count)
            .map(|number| {
                if let Some(rate) = rate {
                    // 1 − u is above 0.
                    seconds -= libm::log(1.0 - gaps.random::<f64>()) / rate;
                }
                SimulatedRequest {
                    at: (seconds * 1e9) as u64,
                    isl: draw(&self.input_tokens, &mut inputs),
                    osl: draw(&self.output_tokens, &mut outputs),
                    adapter: (!self.adapters.is_empty()).then(|| self.adapters[number % self.adapters.len()]),
                }
            })
            .collect()
    }
}

/// A length of at least one token. The functions are not those of the C library: the same bits on every machine.
fn draw(length: &Length, random: &mut Pcg64) -> u64 {
    let within = |value: f64, min: u32, max: u32| value.round().clamp(f64::from(min), f64::from(max)) as u64;
    let tokens = match length {
        Length::Given => 1,
        Length::Fixed(tokens) => u64::from(*tokens),
        Length::Uniform { min, max } => u64::from(random.random_range(*min..=*max)),
        Length::Normal { mean, stddev, min, max } => {
            let standard: f64 = StandardNormal.sample(random);
            within(mean + stddev * standard, *min, *max)
        }
        Length::Lognormal { mean, stddev, min, max } => {
            let variance = libm::log(1.0 + (stddev / mean) * (stddev / mean));
            let standard: f64 = StandardNormal.sample(random);
            within(mean * libm::exp(libm::sqrt(variance) * standard - variance / 2.0), *min, *max)
        }
        Length::Empirical(values) => {
            let mut left = random.random::<f64>() * values.iter().map(|value| value.weight).sum::<f64>();
            let drawn = values.iter().find(|value| {
                left -= value.weight;
                left < 0.0
            });
            drawn.or(values.last()).map_or(1, |value| u64::from(value.tokens))
        }
    };
    tokens.max(1)
}

// A number of users in virtual time, each with one request at a time.

/// Users without pauses, shared out over the servers, and requests by the users. The servers are alike but for their
/// users: some have one more than the others. One server of each kind is simulated.
pub fn with_users(
    server: &EngineLimits,
    servers: usize,
    workload: &VirtualWorkload,
    count: usize,
    users: usize,
) -> Result<VirtualResult, NeverFits> {
    let users = users.max(1);
    let busy = servers.clamp(1, users);
    let more = users % busy;
    let mut result = VirtualResult::default();
    for (servers, own) in [(more, users / busy + 1), (busy - more, users / busy)] {
        if servers > 0 {
            let requests = workload.requests((count * own).div_ceil(users), None);
            let (load, run) = simulate_users(server, &requests, own)?;
            for _ in 0..servers {
                result.add(&load, &run.requests, run.steps);
            }
        }
    }
    result.sort();
    Ok(result)
}

// What a load measured, in virtual time.

/// Servers that end later than this share of the load's time have fallen behind.
const BEHIND: f64 = 0.03;

/// Per-token gaps are not kept.
pub const fn is_in_virtual_time(metric: LimitedMetric) -> bool {
    matches!(metric, LimitedMetric::Ttft | LimitedMetric::Tpot | LimitedMetric::E2e)
}

/// The result of a load on one or several servers. Latencies are sorted, ms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VirtualResult {
    pub requests: usize,
    pub output_tokens: u64,
    /// From the first arrival to the last token, seconds.
    pub seconds: f64,
    /// Of the last arrival, seconds.
    pub last_arrival: f64,
    /// The longest time from a first token to the last one, seconds.
    pub longest_answer: f64,
    pub steps: u64,
    /// How often a request lost its KV cache and computed again.
    pub pauses: u64,
    pub ttft: Vec<f64>,
    pub tpot: Vec<f64>,
    pub e2e: Vec<f64>,
}

impl VirtualResult {
    /// Adds the requests of one server.
    fn add(&mut self, load: &[SimulatedRequest], served: &[Served], steps: u64) {
        self.steps += steps;
        for (request, served) in load.iter().zip(served) {
            self.requests += 1;
            self.output_tokens += served.tokens;
            self.pauses += u64::from(served.pauses);
            self.seconds = self.seconds.max(served.last as f64 / 1e9);
            self.last_arrival = self.last_arrival.max(request.at as f64 / 1e9);
            self.longest_answer = self.longest_answer.max(served.last.saturating_sub(served.first) as f64 / 1e9);
            let ms = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e6;
            self.ttft.push(ms(request.at, served.first));
            self.e2e.push(ms(request.at, served.last));
            if served.tokens > 1 {
                self.tpot.push(ms(served.first, served.last) / (served.tokens - 1) as f64);
            }
        }
    }

    /// This many servers that did the same. The latencies are those of one.
    fn times(&mut self, servers: usize) {
        self.requests *= servers;
        self.output_tokens *= servers as u64;
        self.steps *= servers as u64;
        self.pauses *= servers as u64;
    }

    fn sort(&mut self) {
        for values in [&mut self.ttft, &mut self.tpot, &mut self.e2e] {
            values.sort_by(f64::total_cmp);
        }
    }

    pub fn tokens_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.output_tokens as f64 / self.seconds } else { 0.0 }
    }

    /// One number of one latency, ms. `None`: no request has this latency, as answers of one token have no TPOT.
    pub fn statistic(&self, metric: LimitedMetric, statistic: Statistic) -> Result<Option<f64>, UnknownMetric> {
        let values = match metric {
            LimitedMetric::Ttft => &self.ttft,
            LimitedMetric::Tpot => &self.tpot,
            LimitedMetric::E2e => &self.e2e,
            _ => return Err(UnknownMetric),
        };
        if values.is_empty() {
            return Ok(None);
        }
        Ok(Some(match statistic.quantile() {
            None => values.iter().sum::<f64>() / values.len() as f64,
            Some(share) => values[((values.len() as f64 * share) as usize).min(values.len() - 1)],
        }))
    }

    /// Whether the servers kept up: they end not much later than the last request would alone.
    pub fn keeps_up(&self) -> bool {
        self.seconds - self.last_arrival <= self.longest_answer + BEHIND * self.last_arrival
    }

    /// Whether the servers keep up and every limit holds.
    fn holds(&self, limits: &[LatencyLimit]) -> Result<bool, CapacityError> {
        if !self.keeps_up() {
            return Ok(false);
        }
        for limit in limits {
            let statistic = self.statistic(limit.metric, limit.statistic)?;
            if statistic.ok_or(CapacityError::NoValue { limit: *limit })? > limit.ms {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

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
    use base::spec::Length;

    #[test]
    fn more_users_bring_more_until_all_requests_are_there_at_once() {
        let server = served_limits(&spec(), &EngineServing::default()).unwrap();
        let workload = VirtualWorkload {
            input_tokens: Length::Fixed(200),
            output_tokens: Length::Fixed(50),
            adapters: Vec::new(),
            seed: 3,
        };
        let rate = |users| with_users(&server, 2, &workload, 400, users).unwrap().tokens_per_second();
        assert!(rate(1) < rate(8) && rate(8) < rate(64));
        let result = with_users(&server, 2, &workload, 400, 400).unwrap();
        let at_once = VirtualBenchmark::new(&server, 2, &workload).served(400, None).unwrap();
        assert_eq!((result.requests, result.steps, result.seconds), (400, at_once.steps, at_once.seconds));
        // One server of two answers a single user.
        let alone = with_users(&server, 2, &workload, 10, 1).unwrap();
        assert_eq!(alone.requests, 10);
    }

    /// Nine users on eight servers are nine: one server has two, the others one each.
    #[test]
    fn users_that_do_not_divide_evenly_are_not_rounded_up() {
        let server = served_limits(&spec(), &EngineServing::default()).unwrap();
        let workload = VirtualWorkload {
            input_tokens: Length::Fixed(200),
            output_tokens: Length::Fixed(50),
            adapters: Vec::new(),
            seed: 3,
        };
        let rate = |users| with_users(&server, 8, &workload, 1440, users).unwrap().tokens_per_second();
        let (eight, nine, sixteen) = (rate(8), rate(9), rate(16));
        let share = (nine - eight) / (sixteen - eight);
        assert!((0.05..0.2).contains(&share), "{eight} {nine} {sixteen}");
        let nine = with_users(&server, 8, &workload, 1440, 9).unwrap();
        assert_eq!((nine.requests, nine.ttft.len()), (1440, 1440));
    }
}

#[cfg(test)]
mod capacity_tests {
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
