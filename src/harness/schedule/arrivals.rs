//! When requests arrive: absolute offsets in ns from the start, drawn one after the other, and scaled only where
//! the law says so.
//!
//! Every law is drawn at a rate of 1 and mapped through the rate's integral: a ramp scales time and leaves the law
//! unchanged.
//!
//! Whether real arrivals follow the law that they were drawn from.

use rand::RngExt;
use rand_distr::{Distribution, Gamma, LogNormal, Normal};
use rand_pcg::Pcg64;

use crate::{LoadLevel, Pause};
use base::files::Hasher;
use base::spec::{Arrivals, Length, Weighted};

const NS: f64 = 1e9;

/// A sequence of arrival offsets; a longer plan extends a shorter one: no offset depends on later ones, except where
/// they are scaled. It ends only where the rate falls to 0 for good.
#[derive(Clone)]
pub(crate) struct ArrivalTimes {
    process: ArrivalProcess,
    rate: LoadLevel,
    next: u64,
    /// Arrivals as they would be at a rate of 1.
    sum: f64,
    /// The factor applied to those arrivals.
    scale: f64,
}

#[derive(Clone)]
enum ArrivalProcess {
    Constant,
    /// Inverse transform of one uniform number per gap.
    Poisson(Box<Pcg64>),
    Gamma(Gamma<f64>, Box<Pcg64>),
}

impl ArrivalTimes {
    /// `count`: arrivals of the whole plan, where it is known. None for a law with impossible numbers, which
    /// `BenchSpec::check` refuses.
    pub fn new(rate: LoadLevel, arrivals: Arrivals, seed: u64, count: Option<u64>) -> Option<Self> {
        let rng = || Box::new(generator("arrivals", seed, 0));
        let law = match arrivals {
            Arrivals::Constant => ArrivalProcess::Constant,
            Arrivals::Poisson | Arrivals::PoissonScaled => ArrivalProcess::Poisson(rng()),
            Arrivals::Gamma { cv } => ArrivalProcess::Gamma(Gamma::new(1.0 / (cv * cv), cv * cv).ok()?, rng()),
        };
        let mut times = Self { process: law, rate, next: 0, sum: 0.0, scale: 1.0 };
        if arrivals == Arrivals::PoissonScaled {
            let mut whole = times.clone();
            (0..count?).for_each(|index| whole.advance(index));
            times.scale = count? as f64 / whole.sum;
        }
        Some(times)
    }

    fn advance(&mut self, index: u64) {
        match &mut self.process {
            // From the index, not from a sum: the thousandth arrival is exact.
            ArrivalProcess::Constant => self.sum = index as f64,
            ArrivalProcess::Poisson(rng) => {
                let uniform: f64 = rng.random();
                self.sum += -(-uniform).ln_1p();
            }
            ArrivalProcess::Gamma(law, rng) => self.sum += law.sample(rng),
        }
    }
}

impl Iterator for ArrivalTimes {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.advance(self.next);
        self.next += 1;
        self.rate.when(self.sum * self.scale).map(|at| (at * NS).round() as u64)
    }
}

// Random draws: lengths, prompt tokens and think times, each a pure function of (seed, index).

/// The name that goes into results; a change of how numbers are drawn needs a new one.
pub(crate) const GENERATOR: &str = "pcg64-blake3/2";

/// Ids below this are special in the vocabularies in use (unknown, begin, end).
const FIRST_PLAIN_TOKEN: u32 = 3;

/// The generator for one purpose and one request. State and stream come from a hash, so neighbors are unrelated.
pub(crate) fn generator(purpose: &str, seed: u64, index: u64) -> Pcg64 {
    let digest = Hasher::new()
        .field(GENERATOR.as_bytes())
        .field(purpose.as_bytes())
        .field(&seed.to_le_bytes())
        .field(&index.to_le_bytes())
        .finish();
    let (state, stream) = digest.bytes().split_at(16);
    let number = |half: &[u8]| half.iter().rev().fold(0u128, |all, byte| all << 8 | u128::from(*byte));
    Pcg64::new(number(state), number(stream))
}

/// None where the law leaves it to the data.
pub(crate) fn length(law: &Length, purpose: &str, seed: u64, index: u64) -> Option<u32> {
    let within = |drawn: f64, min: u32, max: u32| drawn.round().clamp(f64::from(min), f64::from(max)) as u32;
    let rng = || generator(purpose, seed, index);
    Some(match law {
        Length::Given => return None,
        Length::Fixed(tokens) => *tokens,
        Length::Uniform { min, max } => rng().random_range(*min..=*max),
        Length::Normal { mean, stddev, min, max } => {
            within(Normal::new(*mean, *stddev).map_or(*mean, |law| law.sample(&mut rng())), *min, *max)
        }
        Length::Lognormal { mean, stddev, min, max } => {
            let law = LogNormal::from_mean_cv(*mean, stddev / mean);
            within(law.map_or(*mean, |law| law.sample(&mut rng())), *min, *max)
        }
        Length::Empirical(values) => empirical(values, &mut rng()),
    })
}

fn empirical(values: &[Weighted], rng: &mut impl RngExt) -> u32 {
    let total: f64 = values.iter().map(|value| value.weight).sum();
    let mut left = rng.random::<f64>() * total;
    for value in values {
        left -= value.weight;
        if left < 0.0 {
            return value.tokens;
        }
    }
    values.iter().rev().find(|value| value.weight > 0.0).map_or(1, |value| value.tokens)
}

/// The think time before request `index`, ns.
pub(crate) fn think_time(pause: Pause, seed: u64, index: u64) -> u64 {
    let ms = match pause {
        Pause::Fixed(ms) => ms,
        Pause::Exponential(mean) => {
            let uniform: f64 = generator("think", seed, index).random();
            -(-uniform).ln_1p() * mean
        }
        Pause::Uniform { min, max } => {
            let uniform: f64 = generator("think", seed, index).random();
            min + (max - min) * uniform
        }
    };
    (ms * 1e6).round() as u64
}

/// `len` tokens in 3..vocab_size without `end_id`.
pub(crate) fn prompt(purpose: &str, seed: u64, index: u64, len: u32, vocab_size: u32, end_id: i32) -> Vec<i32> {
    let mut rng = generator(purpose, seed, index);
    (0..len)
        .map(|_| {
            let token = rng.random_range(FIRST_PLAIN_TOKEN..vocab_size) as i32;
            if token != end_id {
                token
            } else if token as u32 + 1 < vocab_size {
                token + 1
            } else {
                FIRST_PLAIN_TOKEN as i32
            }
        })
        .collect()
}

/// The distance between the observed gaps of `count` arrivals (sorted) and the distribution they were drawn from, with
/// the critical distance of the test. `None` without a distribution: equal gaps, traces, fewer than two arrivals.
pub(crate) fn distance_from_law(
    rate: &LoadLevel,
    arrivals: Arrivals,
    at_ns: impl Iterator<Item = u64>,
    count: usize,
) -> Option<(f64, f64)> {
    let shape = match arrivals {
        Arrivals::Poisson | Arrivals::PoissonScaled => 1.0,
        Arrivals::Gamma { cv } => 1.0 / (cv * cv),
        Arrivals::Constant => return None,
    };
    let mut before: Option<f64> = None;
    // To grow a vector of millions copies it, and holds both.
    let mut gaps: Vec<f64> = Vec::with_capacity(count);
    gaps.extend(
        at_ns
            .map(|at| rate.area(at as f64 / NS))
            .filter_map(|at| before.replace(at).map(|before| (at - before).max(0.0))),
    );
    let critical = ks_critical(gaps.len());
    // Stamps are whole ns, and bursts have gaps that are shorter.
    let from = gaps.iter().sum::<f64>() / gaps.len() as f64 * 1e-4;
    Some((ks_distance(gaps, from, |gap| gamma_law(shape, gap * shape))?, critical))
}

/// Largest distance between a sample and a law, given as its cumulative function (Kolmogorov and Smirnov), from the
/// value `from` on: below it the sample was rounded. None for no sample.
fn ks_distance(mut sample: Vec<f64>, from: f64, law: impl Fn(f64) -> f64) -> Option<f64> {
    sample.sort_unstable_by(f64::total_cmp);
    let n = sample.len() as f64;
    let distances = sample.iter().enumerate().filter(|(_, value)| **value >= from).map(|(rank, value)| {
        let law = law(*value);
        (law - rank as f64 / n).abs().max((law - (rank as f64 + 1.0) / n).abs())
    });
    distances.max_by(f64::total_cmp)
}

/// Critical distance at 0.1 %: a correct process fails one run in a thousand.
fn ks_critical(gaps: usize) -> f64 {
    1.949 / (gaps as f64).sqrt()
}

/// The gamma law of this shape and scale 1, cumulative: the regularised lower incomplete gamma function. Shape 1 is
/// exponential.
fn gamma_law(shape: f64, x: f64) -> f64 {
    const TERMS: usize = 10_000;
    const ENOUGH: f64 = 1e-12;
    if x <= 0.0 {
        return 0.0;
    }
    let front = (shape * x.ln() - x - libm::lgamma(shape)).exp();
    if x < shape + 1.0 {
        let mut term = 1.0 / shape;
        let mut sum = term;
        for step in 1..TERMS {
            term *= x / (shape + step as f64);
            sum += term;
            if term < sum * ENOUGH {
                break;
            }
        }
        return front * sum;
    }
    // Beyond its middle the continued fraction of the other tail is the one that converges (Lentz).
    let mut denominator = x + 1.0 - shape;
    let mut upper = f64::MAX;
    let mut lower = 1.0 / denominator;
    let mut fraction = lower;
    for step in 1..TERMS {
        let factor = step as f64 * (shape - step as f64);
        denominator += 2.0;
        lower = 1.0 / (factor * lower + denominator);
        upper = denominator + factor / upper;
        fraction *= upper * lower;
        if (upper * lower - 1.0).abs() < ENOUGH {
            break;
        }
    }
    1.0 - front * fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_a_pure_function_and_avoid_special_tokens() {
        let item = prompt("prompt", 7, 3, 5_000, 50, 49);
        assert_eq!(item, prompt("prompt", 7, 3, 5_000, 50, 49));
        assert_ne!(item, prompt("prompt", 7, 4, 5_000, 50, 49));
        assert!(item.iter().all(|token| (3..49).contains(token)));
        assert_eq!(item[..100], prompt("prompt", 7, 3, 100, 50, 49)[..]);
    }

    #[test]
    fn scaled_arrivals_have_exactly_their_rate_and_the_law_of_the_others() {
        let times = |arrivals| {
            let rate = LoadLevel::from(50.0);
            ArrivalTimes::new(rate, arrivals, 3, Some(40)).unwrap().take(40).collect::<Vec<_>>()
        };
        let (plain, scaled) = (times(Arrivals::Poisson), times(Arrivals::PoissonScaled));
        assert_eq!(scaled[39], 800_000_000, "40 requests at 50/s");
        let factor = scaled[39] as f64 / plain[39] as f64;
        assert!(plain.iter().zip(&scaled).all(|(plain, scaled)| (*plain as f64 * factor - *scaled as f64).abs() < 2.0));
    }

    #[test]
    fn lengths_stay_within_their_bounds() {
        let law = Length::Normal { mean: 100.0, stddev: 50.0, min: 80, max: 120 };
        let drawn: Vec<u32> = (0..500).map(|index| length(&law, "input", 1, index).unwrap()).collect();
        assert!(drawn.iter().all(|tokens| (80..=120).contains(tokens)));
        assert!(drawn.contains(&80) && drawn.contains(&120) && drawn.iter().any(|t| (81..120).contains(t)));
        let even: Vec<u32> =
            (0..500).map(|i| length(&Length::Uniform { min: 3, max: 5 }, "input", 1, i).unwrap()).collect();
        assert!([3, 4, 5].iter().all(|tokens| even.contains(tokens)) && even.iter().all(|t| (3..=5).contains(t)));
    }

    #[test]
    fn laws_have_the_mean_that_they_are_given() {
        let mean = |law: &Length| {
            (0..20_000).map(|index| f64::from(length(law, "input", 4, index).unwrap())).sum::<f64>() / 20_000.0
        };
        let lognormal = mean(&Length::Lognormal { mean: 500.0, stddev: 300.0, min: 1, max: 100_000 });
        // Six standard errors.
        assert!((lognormal - 500.0).abs() < 6.0 * 300.0 / 20_000f64.sqrt(), "{lognormal}");
        let values = [(100, 3.0), (900, 1.0), (7, 0.0)].map(|(tokens, weight)| Weighted { tokens, weight });
        let empirical = mean(&Length::Empirical(values.into()));
        assert!((empirical - 300.0).abs() < 6.0 * 347.0 / 20_000f64.sqrt(), "{empirical}");
        assert_eq!(length(&Length::Given, "input", 4, 0), None);
    }

    #[test]
    fn pauses_are_a_pure_function_with_the_mean_they_say() {
        for (pause, mean) in [(Pause::Exponential(200.0), 200.0), (Pause::Uniform { min: 100.0, max: 300.0 }, 200.0)] {
            let drawn: Vec<u64> = (0..4_000).map(|index| think_time(pause, 9, index)).collect();
            assert_eq!(drawn[17], think_time(pause, 9, 17));
            let actual = drawn.iter().sum::<u64>() as f64 / 4e9;
            // Six standard errors of the exponential one.
            assert!((actual - mean).abs() < 6.0 * 200.0 / 4_000f64.sqrt(), "{actual}");
        }
        assert_eq!(think_time(Pause::Fixed(5.0), 0, 3), 5_000_000);
        assert!(Pause::Uniform { min: 3.0, max: 1.0 }.problem().is_some() && Pause::default().problem().is_none());
    }
}

#[cfg(test)]
mod arrival_law_tests {
    use super::*;

    #[test]
    fn equal_gaps_are_not_exponential() {
        let distance = ks_distance(vec![1.0; 999], 0.0, |gap| gamma_law(1.0, gap)).unwrap();
        assert!((distance - 0.632).abs() < 0.001 && distance > ks_critical(999));
        assert_eq!(ks_distance(Vec::new(), 0.0, |gap| gap), None);
    }

    #[test]
    fn the_gamma_law_agrees_with_tables() {
        // P(1, x) = 1 − e⁻ˣ; P(½, x) = erf(√x); P(3, x) by its finite sum; chi-squared with 4 degrees at 9.488 is 95 %.
        for x in [0.01, 0.7, 1.9, 2.1, 6.0, 40.0] {
            assert!((gamma_law(1.0, x) + (-x).exp_m1()).abs() < 1e-10, "{x}");
            assert!((gamma_law(0.5, x) - libm::erf(x.sqrt())).abs() < 1e-10, "{x}");
            assert!((gamma_law(3.0, x) - (1.0 - (-x).exp() * (1.0 + x + x * x / 2.0))).abs() < 1e-10, "{x}");
        }
        assert!((gamma_law(2.0, 9.488 / 2.0) - 0.95).abs() < 1e-4);
    }
}
