//! When requests arrive: absolute offsets in ns from the start, drawn one after the other, never rescaled.

use rand::RngExt;
use rand_pcg::Pcg64;

use super::payload::generator;
use super::{Arrivals, Scenario};

const NS: f64 = 1e9;

/// An endless sequence of arrival offsets; a longer plan extends a shorter one because nothing looks ahead.
pub(super) struct Times {
    law: Law,
    next: u64,
}

enum Law {
    AtOnce,
    Constant {
        gap_ns: f64,
    },
    /// Inverse transform of one uniform number per gap.
    Poisson {
        mean_ns: f64,
        at_ns: f64,
        rng: Box<Pcg64>,
    },
}

impl Times {
    pub fn new(scenario: Scenario, arrivals: Arrivals, seed: u64) -> Self {
        let law = match (scenario, arrivals) {
            (Scenario::Offline, _) => Law::AtOnce,
            (Scenario::Server { rate }, Arrivals::Constant) => Law::Constant { gap_ns: NS / rate },
            (Scenario::Server { rate }, Arrivals::Poisson) => {
                Law::Poisson { mean_ns: NS / rate, at_ns: 0.0, rng: Box::new(generator("arrivals", seed, 0)) }
            }
        };
        Self { law, next: 0 }
    }
}

impl Iterator for Times {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let index = self.next;
        self.next += 1;
        Some(match &mut self.law {
            Law::AtOnce => 0,
            // From the index, not from a sum: the thousandth arrival is exact.
            Law::Constant { gap_ns } => (index as f64 * *gap_ns).round() as u64,
            Law::Poisson { mean_ns, at_ns, rng } => {
                let uniform: f64 = rng.random();
                *at_ns += -(-uniform).ln_1p() * *mean_ns;
                at_ns.round() as u64
            }
        })
    }
}
