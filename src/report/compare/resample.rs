//! Intervals of a difference by resampling requests: 95 %, the seed is fixed, so the same files give the same interval.
//!
//! Requests near each other in time are not independent, so blocks of neighbours are drawn, ⌈N^⅓⌉ at a time. With the same
//! plan in both runs the same requests are drawn from both.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::Serialize;

use crate::report::compat::{Rule, Spread};

const SEED: u64 = 0x5eed_ab1e;
/// Values drawn in all, so that large runs do not take minutes.
const DRAWS: usize = 10_000_000;
const FEWEST_ROUNDS: usize = 200;
const MOST_ROUNDS: usize = 1_000;
/// Below this an interval says nothing.
const FEWEST_REQUESTS: usize = 20;

/// Of a difference in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// `None` where there are too few requests, or for a p99 that so few requests do not show.
pub(super) fn interval(a: &[(u64, f64)], b: &[(u64, f64)], stat: &str, rule: Rule, paired: bool) -> Option<Interval> {
    let (a, b) = if paired { both(a, b) } else { (values(a), values(b)) };
    let fewest = a.len().min(b.len());
    let p = match stat {
        "mean" => None,
        _ => Some(stat.strip_prefix('p')?.parse::<f64>().ok()? / 100.0),
    };
    // A percentile needs values beyond it.
    let enough = p.map_or(FEWEST_REQUESTS, |p| ((2.0 / (1.0 - p)).ceil() as usize).max(FEWEST_REQUESTS));
    if fewest < enough {
        return None;
    }
    let rounds = (DRAWS / (a.len() + b.len())).clamp(FEWEST_ROUNDS, MOST_ROUNDS);
    let mut rng = Pcg64::seed_from_u64(SEED);
    let mut percents = Vec::with_capacity(rounds);
    let (mut from_a, mut from_b) = (Vec::with_capacity(a.len()), Vec::with_capacity(b.len()));
    for _ in 0..rounds {
        if paired {
            draw(&mut rng, a.len(), |range| {
                from_a.extend_from_slice(&a[range.clone()]);
                from_b.extend_from_slice(&b[range]);
            });
        } else {
            draw(&mut rng, a.len(), |range| from_a.extend_from_slice(&a[range]));
            draw(&mut rng, b.len(), |range| from_b.extend_from_slice(&b[range]));
        }
        let (one, other) = (number(&mut from_a, p, rule), number(&mut from_b, p, rule));
        if one != 0.0 {
            percents.push((other / one - 1.0) * 100.0);
        }
        from_a.clear();
        from_b.clear();
    }
    let spread = Spread::new(percents, Rule::Linear);
    Some(Interval { low: spread.at(0.025)?, high: spread.at(0.975)? })
}

fn values(all: &[(u64, f64)]) -> Vec<f64> {
    all.iter().map(|(_, value)| *value).collect()
}

/// Values of requests that both have.
fn both(a: &[(u64, f64)], b: &[(u64, f64)]) -> (Vec<f64>, Vec<f64>) {
    let b: BTreeMap<u64, f64> = b.iter().copied().collect();
    a.iter().filter_map(|(index, value)| Some((*value, *b.get(index)?))).unzip()
}

/// As many values as there are, in blocks of neighbours; a block that reaches the end goes on at the beginning.
fn draw(rng: &mut Pcg64, n: usize, mut take: impl FnMut(std::ops::Range<usize>)) {
    let block = (n as f64).cbrt().ceil() as usize;
    let mut left = n;
    while left > 0 {
        let length = block.min(left);
        let start = rng.random_range(0..n);
        let end = (start + length).min(n);
        take(start..end);
        take(0..length - (end - start));
        left -= length;
    }
}

fn number(values: &mut [f64], p: Option<f64>, rule: Rule) -> f64 {
    let Some(p) = p else { return values.iter().sum::<f64>() / values.len() as f64 };
    let place = rule.place(values.len(), p);
    let (_, below, above) = values.select_nth_unstable_by(place.floor() as usize, f64::total_cmp);
    let next = above.iter().copied().fold(f64::INFINITY, f64::min);
    if place.fract() == 0.0 { *below } else { *below + (next - *below) * place.fract() }
}
