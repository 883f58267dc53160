//! Intervals of the mean and of percentiles of one run with values that depend on their neighbours: requests that meet in a
//! queue are slow together, so that N of them are worth fewer independent ones.
//!
//! How much fewer is estimated from means of batches (of counts beyond the percentile, for a percentile): where values are
//! independent, the variance of batch means falls with the batch's length, and by how much it exceeds that is the *design
//! effect*. The largest over all lengths with at least eight batches is taken, with Student's t for so many batches. The
//! interval of a percentile is that of order statistics, with ranks for the effective number.
//!
//! In a short run of a busy server the design effect itself is not known, and comes out too small just when the interval
//! would be wrong. So there is an interval only where the run is long: the ranks of block means, which no single spike
//! moves, must be worth enough independent values, or look independent. The nearer a run is to the fewest values that it
//! needs, the wider its interval; and that of a mean reaches further up than down, because a run that misses the busy
//! times has both a lower mean and a smaller spread.
//!
//! Thresholds come from simulated queues (`cargo bench --bench stats`): M/M/4 and M/D/8 at 50, 80 and 90 % utilisation. A
//! server of batches, one with lognormal services, and bursts of arrivals were looked at afterwards.

use std::fmt;

use super::student;

/// Shorter runs have no intervals.
const FEWEST_VALUES: usize = 2_000;
const FEWEST_BATCHES: usize = 8;
/// Values in a block; the means of blocks are ranked.
const BLOCK: usize = 5;
/// A series looks independent if the design effect of its ranks is below the first of these over lengths of which the run has
/// at least so many batches, and below the last over all lengths. Many batches make the first one exact enough to see what
/// meets in a queue, and the last one sees what changes slowly. Independent values do so in 97 of 100 cases.
const LOOKS_INDEPENDENT: (f64, usize, f64) = (1.25, 60, 3.0);
/// Independent blocks that the mean needs.
const FEWEST_BLOCKS: f64 = 200.0;
/// Independent blocks beyond a percentile.
const FEWEST_BLOCKS_BEYOND: f64 = 20.0;
/// Effective values beyond a percentile.
const FEWEST_BEYOND: f64 = 12.0;
/// By how much an interval is wider, at the fewest blocks that it needs; less with the square of their number.
const WIDENING: f64 = 1.0;
/// The same where values look independent, at `FEWEST_BLOCKS`.
const WIDENING_IF_INDEPENDENT: f64 = 0.25;
/// By how much that of a percentile is wider, of one over the effective values beyond it.
const WIDENING_BEYOND: f64 = 4.0;
const TAIL: f64 = 0.025;
const NORMAL_975: f64 = 1.959_963_985;

/// Values of one run in the order of their arrival, looked at once for all intervals.
#[derive(Clone, Debug)]
pub struct RunSeries {
    values: Vec<f64>,
    sorted: Vec<f64>,
    /// How many independent blocks the ranks are worth.
    blocks: f64,
    looks_independent: bool,
}

/// Why there is no interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoInterval {
    TooFewValues {
        n: usize,
    },
    /// The run is too short for the correlation time of its server.
    TooDependent {
        n: usize,
        blocks: f64,
        needed: f64,
    },
    TooFewBeyond {
        beyond: f64,
    },
}

impl fmt::Display for NoInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewValues { n } => write!(f, "not enough values: {n} of {FEWEST_VALUES}"),
            Self::TooDependent { n, blocks, needed } => write!(
                f,
                "not enough independent values: neighbours are correlated, so that {n} are worth about {blocks:.0} independent blocks, and {needed:.0} are needed"
            ),
            Self::TooFewBeyond { beyond } => {
                write!(f, "not enough independent values beyond it: about {beyond:.0} of {FEWEST_BEYOND:.0}")
            }
        }
    }
}

/// Ends of a 95 % interval.
pub type IntervalBounds = (f64, f64);

impl RunSeries {
    /// Values that are not numbers are left out.
    pub fn new(values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let (blocks, looks_independent) =
            if values.len() < FEWEST_VALUES { (0.0, false) } else { ranked_blocks(&values) };
        Self { values, sorted, blocks, looks_independent }
    }

    /// 95 % interval of the mean.
    pub fn mean_interval(&self) -> Result<IntervalBounds, NoInterval> {
        let widening = self.widening(FEWEST_BLOCKS)?;
        let (mean, variance) = moments(&self.values);
        let effect = design_effect(&self.values, FEWEST_BATCHES);
        let half = widening
            * student::critical(TAIL, effect.dof)
            * (variance * effect.times / self.values.len() as f64).sqrt();
        // On a logarithmic scale, where the mean can have one.
        let high = if mean > 0.0 { mean * (half / mean).exp() } else { mean + half };
        Ok((mean - half, high))
    }

    /// 95 % interval of a percentile, 0.5 ≤ p < 1.
    pub fn percentile_interval(&self, p: f64) -> Result<IntervalBounds, NoInterval> {
        let widening = self.widening(FEWEST_BLOCKS.max(FEWEST_BLOCKS_BEYOND / (1.0 - p)))?;
        let n = self.sorted.len();
        let at = |share: f64| self.sorted[((share * n as f64) as usize).min(n - 1)];
        let limit = at(p);
        let beyond: Vec<f64> = self.values.iter().map(|value| if *value >= limit { 1.0 } else { 0.0 }).collect();
        let effect = design_effect(&beyond, FEWEST_BATCHES);
        let effective = n as f64 / effect.times;
        let beyond = effective * (1.0 - p);
        if beyond < FEWEST_BEYOND {
            return Err(NoInterval::TooFewBeyond { beyond });
        }
        let widening = widening * (1.0 + WIDENING_BEYOND / beyond);
        let t = widening * student::critical(TAIL, effect.dof) / NORMAL_975;
        match binomial_shares(effective / (t * t), p) {
            (Some(low), Some(high)) => Ok((at(low), at(high))),
            _ => Err(NoInterval::TooFewBeyond { beyond }),
        }
    }

    /// By how much an interval is wider, because what it rests on is itself an estimate; an error where it is none.
    fn widening(&self, needed: f64) -> Result<f64, NoInterval> {
        let n = self.values.len();
        if n < FEWEST_VALUES {
            return Err(NoInterval::TooFewValues { n });
        }
        if self.looks_independent {
            return Ok(1.0 + WIDENING_IF_INDEPENDENT * (FEWEST_BLOCKS / self.blocks).powi(2));
        }
        if self.blocks < needed {
            return Err(NoInterval::TooDependent { n, blocks: self.blocks, needed });
        }
        Ok(1.0 + WIDENING * (needed / self.blocks).powi(2))
    }
}

/// How much more the mean varies than that of independent values, and what is known of it.
struct DesignEffect {
    times: f64,
    dof: f64,
}

fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0))
}

/// The largest over batch lengths, which grow by a quarter while there are so many batches.
fn design_effect(values: &[f64], fewest_batches: usize) -> DesignEffect {
    let n = values.len();
    let mut largest = DesignEffect { times: 1.0, dof: (n as f64 - 1.0).max(1.0) };
    let (_, variance) = moments(values);
    if variance == 0.0 {
        return largest;
    }
    let mut length = 1;
    while n / length >= fewest_batches {
        let batches = n / length;
        // The beginning is left out, where a length does not divide the run.
        let kept = &values[n - batches * length..];
        let means: Vec<f64> =
            kept.chunks_exact(length).map(|batch| batch.iter().sum::<f64>() / length as f64).collect();
        let times = length as f64 * moments(&means).1 / variance;
        if times > largest.times {
            largest = DesignEffect { times, dof: (batches - 1) as f64 };
        }
        length = if length < 4 { length + 1 } else { length * 5 / 4 };
    }
    largest
}

/// Ranks of block means: how many independent ones they are worth, and whether they look independent.
fn ranked_blocks(values: &[f64]) -> (f64, bool) {
    let means: Vec<f64> = values.chunks_exact(BLOCK).map(|block| block.iter().sum::<f64>()).collect();
    let mut order: Vec<usize> = (0..means.len()).collect();
    order.sort_by(|one, other| means[*one].total_cmp(&means[*other]));
    let mut ranks = vec![0.0; means.len()];
    let mut next = 0;
    // Equal means have the middle of their ranks, not the order in which they came.
    for tied in order.chunk_by(|one, other| means[*one].total_cmp(&means[*other]).is_eq()) {
        let middle = next as f64 + (tied.len() - 1) as f64 / 2.0;
        for place in tied {
            ranks[*place] = middle;
        }
        next += tied.len();
    }
    let effect = design_effect(&ranks, FEWEST_BATCHES).times;
    let (most, batches, most_of_all) = LOOKS_INDEPENDENT;
    let looks_independent = effect <= most_of_all && design_effect(&ranks, batches).times <= most;
    (ranks.len() as f64 / effect, looks_independent)
}

/// Shares of the sorted values between which the percentile lies with 95 %, for `n` independent ones: the number below it
/// is binomial(n, p); the low rank l has P(B < l) ≤ 2.5 %, the high rank h P(B ≥ h) ≤ 2.5 %. Either may not exist.
fn binomial_shares(n: f64, p: f64) -> (Option<f64>, Option<f64>) {
    let n = n.floor().max(1.0) as usize;
    let ln_odds = (p / (1.0 - p)).ln();
    // Walk the masses down from B = n; they underflow harmlessly where they do not matter.
    let mut ln_mass = n as f64 * p.ln();
    let mut upper_tail = 0.0;
    let (mut low, mut high) = (None, None);
    let mut successes = n;
    loop {
        let above = upper_tail;
        upper_tail += ln_mass.exp();
        if upper_tail <= TAIL {
            high = Some(successes);
        }
        // P(B < successes + 1) = 1 − P(B ≥ successes + 1)
        if 1.0 - above <= TAIL {
            low = Some(successes + 1);
        }
        if low.is_some() || successes == 0 {
            break;
        }
        ln_mass += (successes as f64 / (n - successes + 1) as f64).ln() - ln_odds;
        successes -= 1;
    }
    let share = |rank: usize| (rank as f64 - 0.5) / n as f64;
    (low.filter(|rank| (1..=n).contains(rank)).map(share), high.map(share))
}

#[cfg(test)]
mod tests;
