//! Systems that no threshold was set on: services with a long tail, a server of batches, and arrivals in bursts. Time is in mean
//! service times.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::simulated_queue::{ServerPool, Visit};

/// What serves, and how requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Poisson arrivals, four servers, lognormal services with a coefficient of variation of 1.3.
    Lognormal,
    /// Poisson arrivals; what waits is served at once, up to 16, in half a service time and up to half more with the number.
    Batches,
    /// Poisson arrivals, four servers; one service in ten takes nine times as long on average as the others, which are exponential.
    TwoKinds,
    /// The same with one server.
    TwoKindsAtOnce,
    /// Poisson arrivals; 16 slots that advance in common steps, longer with each slot in use: an engine that batches in flight.
    Steps,
    /// Four servers with exponential services; arrivals come at 1.5 and at 0.5 times their mean rate, ten service times each on average.
    Bursts,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct System {
    pub kind: Kind,
    /// Arrivals over what the servers can do.
    pub load: f64,
}

pub const SERVERS: usize = 4;
pub const BATCH: usize = 16;
/// Of an answer of [`Kind::Steps`]; with all slots in use they take one service time.
pub const MEAN_STEPS: f64 = 20.0;
const MEAN_BURST: f64 = 10.0;

impl Kind {
    pub const ALL: [Self; 5] = [Self::Lognormal, Self::Batches, Self::TwoKinds, Self::Steps, Self::Bursts];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Lognormal => "M/G/4",
            Self::Batches => "batches",
            Self::TwoKinds => "M/H2/4",
            Self::TwoKindsAtOnce => "M/H2/1",
            Self::Steps => "steps",
            Self::Bursts => "bursts",
        }
    }
}

impl System {
    /// The first `settling` requests are not returned.
    pub fn run(&self, requests: usize, settling: usize, seed: u64) -> Vec<Visit> {
        let mut random = Pcg64::seed_from_u64(seed);
        let all = settling + requests;
        let mut visits = match self.kind {
            Kind::Batches => batches(&self.arrivals(all, BATCH, &mut random)),
            Kind::Steps => {
                let arrivals = self.arrivals(all, BATCH, &mut random);
                steps(&arrivals, || 1 + (exponential(&mut random) * (MEAN_STEPS - 0.5)) as u32, || 1.0)
            }
            Kind::Lognormal | Kind::TwoKinds | Kind::TwoKindsAtOnce | Kind::Bursts => {
                let servers = if self.kind == Kind::TwoKindsAtOnce { 1 } else { SERVERS };
                self.served(servers, &self.arrivals(all, servers, &mut random), &mut random)
            }
        };
        visits.split_off(settling)
    }

    /// When requests come, as long as these many at once can be served.
    pub fn arrivals(&self, requests: usize, capacity: usize, random: &mut Pcg64) -> Vec<f64> {
        let rate = capacity as f64 * self.load;
        let (mut at, mut is_burst, mut left) = (0.0, true, MEAN_BURST * exponential(random));
        let mut next = || {
            let mut due = exponential(random);
            if self.kind != Kind::Bursts {
                at += due / rate;
                return at;
            }
            loop {
                let rate = rate * if is_burst { 1.5 } else { 0.5 };
                if due <= left * rate {
                    at += due / rate;
                    left -= due / rate;
                    return at;
                }
                due -= left * rate;
                at += left;
                is_burst = !is_burst;
                left = MEAN_BURST * exponential(random);
            }
        };
        (0..requests).map(|_| next()).collect()
    }

    fn served(&self, servers: usize, arrivals: &[f64], random: &mut Pcg64) -> Vec<Visit> {
        let mut pool = ServerPool::new(servers);
        let mut serve = |arrival: f64| {
            let service = match self.kind {
                Kind::Lognormal => lognormal(random),
                Kind::TwoKinds | Kind::TwoKindsAtOnce => two_kinds(random),
                _ => exponential(random),
            };
            pool.serve(arrival, service)
        };
        arrivals.iter().map(|arrival| serve(*arrival)).collect()
    }
}

fn batches(arrivals: &[f64]) -> Vec<Visit> {
    let (mut visits, mut free) = (Vec::with_capacity(arrivals.len()), 0.0_f64);
    let mut rest = arrivals;
    while let Some(first) = rest.first() {
        let start = free.max(*first);
        let size = rest.iter().take(BATCH).take_while(|arrival| **arrival <= start).count();
        free = start + 0.5 + 0.5 * size as f64 / BATCH as f64;
        visits.extend(rest[..size].iter().map(|arrival| Visit { arrival: *arrival, start, end: free }));
        rest = &rest[size..];
    }
    visits
}

/// `count`: the steps of the next answer, in the order of arrival; `pace`: how long the next step takes, of its usual
/// time.
pub fn steps(arrivals: &[f64], mut count: impl FnMut() -> u32, mut pace: impl FnMut() -> f64) -> Vec<Visit> {
    let (mut visits, mut active): (Vec<Visit>, Vec<(usize, u32)>) = (Vec::with_capacity(arrivals.len()), Vec::new());
    let mut now = 0.0_f64;
    while visits.len() < arrivals.len() || !active.is_empty() {
        if active.is_empty() {
            now = now.max(arrivals[visits.len()]);
        }
        while let Some(arrival) = arrivals.get(visits.len()).filter(|due| active.len() < BATCH && **due <= now) {
            active.push((visits.len(), count()));
            visits.push(Visit { arrival: *arrival, start: now, end: now });
        }
        now += pace() * (0.5 + 0.5 * active.len() as f64 / BATCH as f64) / MEAN_STEPS;
        active.retain_mut(|(request, remaining)| {
            *remaining -= 1;
            visits[*request].end = now;
            *remaining > 0
        });
    }
    visits
}

pub fn exponential(random: &mut Pcg64) -> f64 {
    -(1.0 - random.random::<f64>()).ln()
}

/// With mean 1; one in ten takes nine times as long as the others.
pub fn two_kinds(random: &mut Pcg64) -> f64 {
    exponential(random) * if random.random::<f64>() < 0.9 { 5.0 / 9.0 } else { 5.0 }
}

/// With mean 1; the logarithm has a standard deviation of 1 (Box and Muller).
pub fn lognormal(random: &mut Pcg64) -> f64 {
    let radius = (2.0 * exponential(random)).sqrt();
    (radius * (std::f64::consts::TAU * random.random::<f64>()).cos() - 0.5).exp()
}
