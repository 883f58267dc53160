//! Queues with known truth, for tests of intervals and comparisons: c servers, first come first served, Poisson
//! arrivals. Time is in mean service times. Also read by `cargo bench --bench stats` and `--bench verdicts`.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Requests that pass before the first that is returned, so that the queue is in its long-run state.
const SETTLING: usize = 5_000;

/// How long a request is served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServiceTime {
    Exponential,
    Fixed,
}

/// In what two runs of the same requests differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServiceTimeNoise {
    /// Each service takes up to this share longer or shorter, evenly distributed.
    Factor(f64),
    /// This fraction of service times is redrawn from an exponential distribution.
    Anew(f64),
}

/// One server system under one load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulatedQueue {
    pub servers: usize,
    pub service: ServiceTime,
    /// Arrivals over what the servers could do.
    pub utilization: f64,
    /// Mean service time; 1.05 is a server that is 5 % slower under the same arrivals.
    pub service_time: f64,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueuedRequest {
    pub arrival: f64,
    pub wait: f64,
    pub service: f64,
}

/// One request by its times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visit {
    pub arrival: f64,
    pub start: f64,
    pub end: f64,
}

impl Visit {
    pub fn wait(&self) -> f64 {
        self.start - self.arrival
    }
}

/// Servers that take requests in the order of their arrival.
#[derive(Clone, Debug)]
pub struct ServerPool {
    /// When each is free again.
    free: Vec<f64>,
}

impl ServerPool {
    pub fn new(servers: usize) -> Self {
        Self { free: vec![0.0; servers] }
    }

    /// Takes the next request; `service` is how long it takes.
    pub fn serve(&mut self, arrival: f64, service: f64) -> Visit {
        let next = (0..self.free.len()).min_by(|one, other| self.free[*one].total_cmp(&self.free[*other]));
        let free = &mut self.free[next.unwrap_or_default()];
        let start = free.max(arrival);
        *free = start + service;
        Visit { arrival, start, end: *free }
    }
}

impl SimulatedQueue {
    pub const fn new(servers: usize, service: ServiceTime, utilization: f64) -> Self {
        Self { servers, service, utilization, service_time: 1.0 }
    }

    /// The same seed gives the same arrivals, whatever the service time.
    pub fn requests(&self, n: usize, seed: u64) -> Vec<QueuedRequest> {
        self.served(n, seed, |demand| demand)
    }

    /// Like `requests`, with noise of the server's own, from a seed of its own: two runs with one `seed` have the same
    /// arrivals, and services that are alike and not equal.
    pub fn noisy_requests(&self, n: usize, seed: u64, noise: ServiceTimeNoise, own: u64) -> Vec<QueuedRequest> {
        let mut rng = Pcg64::seed_from_u64(own);
        self.served(n, seed, |demand| {
            let (one, other) = (rng.random::<f64>(), rng.random::<f64>());
            match noise {
                ServiceTimeNoise::Factor(spread) => demand * (1.0 + spread * (2.0 * one - 1.0)),
                ServiceTimeNoise::Anew(share) if one < share => -other.max(f64::MIN_POSITIVE).ln(),
                ServiceTimeNoise::Anew(_) => demand,
            }
        })
    }

    /// Runs that begin with an empty queue, as measurements do; [`Self::requests`] are of the long-run state.
    pub fn starting_empty(&self, n: usize, seed: u64) -> Vec<Visit> {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut exponential = || -(1.0 - rng.random::<f64>()).ln();
        let mut pool = ServerPool::new(self.servers);
        let mut arrival = 0.0;
        let mut next = || {
            arrival += exponential() / (self.servers as f64 * self.utilization);
            let demand = if self.service == ServiceTime::Fixed { 1.0 } else { exponential() };
            pool.serve(arrival, self.service_time * demand)
        };
        (0..n).map(|_| next()).collect()
    }

    /// `serve` makes of a demand in mean service times what the server needs for it.
    fn served(&self, n: usize, seed: u64, mut serve: impl FnMut(f64) -> f64) -> Vec<QueuedRequest> {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut exponential = move || -rng.random::<f64>().max(f64::MIN_POSITIVE).ln();
        let mut pool = ServerPool::new(self.servers);
        let mut arrival = 0.0;
        let mut requests = Vec::with_capacity(n);
        for number in 0..SETTLING + n {
            arrival += exponential() / (self.servers as f64 * self.utilization);
            let drawn = exponential();
            let demand = if self.service == ServiceTime::Fixed { 1.0 } else { drawn };
            let service = self.service_time * serve(demand);
            let visit = pool.serve(arrival, service);
            if number >= SETTLING {
                requests.push(QueuedRequest { arrival, wait: visit.wait(), service });
            }
        }
        requests
    }

    /// Probability of waiting: Erlang's C formula, of exponential service.
    pub fn erlang_c(&self) -> f64 {
        let load = self.servers as f64 * self.utilization * self.service_time;
        let mut blocked = 1.0;
        for servers in 1..=self.servers {
            blocked = load * blocked / (servers as f64 + load * blocked);
        }
        blocked / (1.0 - load / self.servers as f64 * (1.0 - blocked))
    }
}
