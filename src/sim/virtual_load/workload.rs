//! Requests of a load, drawn with a seed: the same ones on every machine.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;

use crate::core::SimulatedRequest;
use base::spec::Length;

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
        let mut lengths = self.lengths(self.seed);
        let mut gaps = Pcg64::seed_from_u64(self.seed ^ 0x6761_7073);
        let mut seconds = 0.0;
        (0..count)
            .map(|number| {
                if let Some(rate) = rate {
                    // 1 − u is above 0.
                    seconds -= libm::log(1.0 - gaps.random::<f64>()) / rate;
                }
                let (isl, osl) = lengths.next();
                SimulatedRequest { at: (seconds * 1e9) as u64, isl, osl, adapter: self.adapter(number) }
            })
            .collect()
    }

    /// The adapter of the request of this number.
    pub(crate) fn adapter(&self, number: usize) -> Option<u64> {
        let count = self.adapters.len();
        (count > 0).then(|| self.adapters[number % count])
    }

    /// Lengths drawn with a seed.
    pub(crate) fn lengths(&self, seed: u64) -> LengthSampler<'_> {
        LengthSampler {
            workload: self,
            inputs: Pcg64::seed_from_u64(seed),
            outputs: Pcg64::seed_from_u64(seed ^ 0x6f75_7470_7574),
        }
    }
}

/// The lengths of one request after the other.
pub(crate) struct LengthSampler<'a> {
    workload: &'a VirtualWorkload,
    inputs: Pcg64,
    outputs: Pcg64,
}

impl LengthSampler<'_> {
    /// Tokens of a prompt and of its answer.
    pub(crate) fn next(&mut self) -> (u64, u64) {
        let isl = draw(&self.workload.input_tokens, &mut self.inputs);
        (isl, draw(&self.workload.output_tokens, &mut self.outputs))
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
            let found = values.iter().find(|value| {
                left -= value.weight;
                left < 0.0
            });
            found.or(values.last()).map_or(1, |value| u64::from(value.tokens))
        }
    };
    tokens.max(1)
}
