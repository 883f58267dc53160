//! Requests of a load, drawn with a seed: the same ones on every machine.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal, Normal};
use rand_pcg::Pcg64;

use crate::sim::core::SimulatedRequest;
use crate::spec::Length;

/// The lengths of prompts and answers.
#[derive(Clone, Debug, PartialEq)]
pub struct VirtualWorkload {
    pub input_tokens: Length,
    pub output_tokens: Length,
    pub seed: u64,
}

impl VirtualWorkload {
    /// So many requests, with Poisson arrivals at a rate, or all at once.
    pub fn requests(&self, count: usize, rate: Option<f64>) -> Vec<SimulatedRequest> {
        // A stream for each purpose: another rate has the same lengths.
        let mut inputs = Pcg64::seed_from_u64(self.seed);
        let mut outputs = Pcg64::seed_from_u64(self.seed ^ 0x6f75_7470_7574);
        let mut gaps = Pcg64::seed_from_u64(self.seed ^ 0x6761_7073);
        let mut seconds = 0.0;
        (0..count)
            .map(|_| {
                if let Some(rate) = rate {
                    // 1 − u is above 0.
                    seconds -= (1.0 - gaps.random::<f64>()).ln() / rate;
                }
                SimulatedRequest {
                    at: (seconds * 1e9) as u64,
                    isl: draw(&self.input_tokens, &mut inputs),
                    osl: draw(&self.output_tokens, &mut outputs),
                }
            })
            .collect()
    }
}

/// A length of at least one token.
fn draw(length: &Length, random: &mut Pcg64) -> u64 {
    let within = |value: f64, min: u32, max: u32| value.round().clamp(f64::from(min), f64::from(max)) as u64;
    let tokens = match length {
        Length::Given => 1,
        Length::Fixed(tokens) => u64::from(*tokens),
        Length::Uniform { min, max } => u64::from(random.random_range(*min..=*max)),
        Length::Normal { mean, stddev, min, max } => {
            let value = Normal::new(*mean, *stddev).map_or(*mean, |law| law.sample(random));
            within(value, *min, *max)
        }
        Length::Lognormal { mean, stddev, min, max } => {
            let value = LogNormal::from_mean_cv(*mean, stddev / mean).map_or(*mean, |law| law.sample(random));
            within(value, *min, *max)
        }
        Length::Empirical(values) => {
            let mut left = random.random::<f64>() * values.iter().map(|value| value.weight).sum::<f64>();
            let found = values.iter().find(|value| {
                left -= value.weight;
                left < 0.0
            });
            found.or(values.last()).map_or(1, |value| u64::from(value.tokens))
        }
    };
    tokens.max(1)
}
