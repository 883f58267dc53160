//! When requests arrive: absolute offsets in ns from the start, drawn one after the other, never rescaled.
//!
//! Every law is drawn at a rate of 1 and mapped through the rate's integral: a ramp scales time and leaves the law unchanged.

use rand::RngExt;
use rand_distr::{Distribution, Gamma};
use rand_pcg::Pcg64;

use super::random_draws::generator;
use crate::LoadLevel;
use base::spec::Arrivals;

const NS: f64 = 1e9;

/// A sequence of arrival offsets; a longer plan extends a shorter one: no offset depends on later ones. It ends only where the
/// rate falls to 0 for good.
#[derive(Clone)]
pub(crate) struct ArrivalTimes {
    process: ArrivalProcess,
    rate: LoadLevel,
    next: u64,
    /// Arrivals as they would be at a rate of 1.
    sum: f64,
}

#[derive(Clone)]
enum ArrivalProcess {
    Constant,
    /// Inverse transform of one uniform number per gap.
    Poisson(Box<Pcg64>),
    Gamma(Gamma<f64>, Box<Pcg64>),
}

impl ArrivalTimes {
    /// None for a law with impossible numbers, which `BenchSpec::check` refuses.
    pub fn new(rate: LoadLevel, arrivals: Arrivals, seed: u64) -> Option<Self> {
        let rng = || Box::new(generator("arrivals", seed, 0));
        let law = match arrivals {
            Arrivals::Constant => ArrivalProcess::Constant,
            Arrivals::Poisson => ArrivalProcess::Poisson(rng()),
            Arrivals::Gamma { cv } => ArrivalProcess::Gamma(Gamma::new(1.0 / (cv * cv), cv * cv).ok()?, rng()),
        };
        Some(Self { process: law, rate, next: 0, sum: 0.0 })
    }
}

impl Iterator for ArrivalTimes {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let index = self.next;
        self.next += 1;
        match &mut self.process {
            // From the index, not from a sum: the thousandth arrival is exact.
            ArrivalProcess::Constant => self.sum = index as f64,
            ArrivalProcess::Poisson(rng) => {
                let uniform: f64 = rng.random();
                self.sum += -(-uniform).ln_1p();
            }
            ArrivalProcess::Gamma(law, rng) => self.sum += law.sample(rng),
        }
        self.rate.when(self.sum).map(|at| (at * NS).round() as u64)
    }
}
