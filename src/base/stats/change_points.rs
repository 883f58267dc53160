//! Where a series of runs changes its level.
//!
//! Divided in two where the difference of means is largest against the scatter within the parts; a permutation test
//! says how often such a difference would arise in runs whose order means nothing, and each part is divided again (the
//! hierarchy of E-divisive: Matteson and James 2014). A part is divided only where the series around it was, so a
//! series without a change shows one in at most 5 % of cases.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;

/// The shortest part: two runs cannot show their own scatter.
const SHORTEST: usize = 3;

/// Below this many runs no order is rare enough.
pub const FEWEST_RUNS: usize = 8;

const PERMUTATIONS: usize = 1_999;
const SIGNIFICANCE: f64 = 0.05;

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// The first run of the new level.
    pub at: usize,
    /// The mean before it, back to the change before.
    pub before: f64,
    /// The mean from it on, to the next change.
    pub after: f64,
    /// How often a series of the same values in random order shows as large a difference.
    pub p: f64,
}

impl ChangePoint {
    /// 0.05: 5 % higher than before.
    pub fn relative(&self) -> f64 {
        self.after / self.before - 1.0
    }
}

/// The changes of a series, in order. `smallest`: shares of the mean below this are no change, whatever their p. Equal
/// series have equal results.
pub fn change_points(series: &[f64], smallest: f64) -> Vec<ChangePoint> {
    let mut points = Vec::new();
    divide(series, 0, smallest, &mut points);
    points.sort_by_key(|(at, _)| *at);
    let bounds: Vec<usize> = std::iter::once(0).chain(points.iter().map(|(at, _)| *at)).chain([series.len()]).collect();
    let levels: Vec<f64> = bounds.windows(2).map(|part| mean(&series[part[0]..part[1]])).collect();
    let changes = points.iter().zip(levels.windows(2));
    changes.map(|((at, p), level)| ChangePoint { at: *at, before: level[0], after: level[1], p: *p }).collect()
}

fn divide(series: &[f64], from: usize, smallest: f64, found: &mut Vec<(usize, f64)>) {
    if series.len() < FEWEST_RUNS {
        return;
    }
    let Some((at, statistic)) = widest(series) else { return };
    let (before, after) = series.split_at(at);
    if (mean(after) / mean(before) - 1.0).abs() < smallest {
        return;
    }
    let mut order = series.to_vec();
    let mut random = Pcg64Mcg::seed_from_u64(0x5eed);
    let mut as_wide = 0_usize;
    for _ in 0..PERMUTATIONS {
        order.shuffle(&mut random);
        as_wide += usize::from(widest(&order).is_some_and(|(_, other)| other >= statistic));
    }
    let p = (as_wide + 1) as f64 / (PERMUTATIONS + 1) as f64;
    if p <= SIGNIFICANCE {
        found.push((from + at, p));
        divide(before, from, smallest, found);
        divide(after, from + at, smallest, found);
    }
}

/// The best place to divide, and the squared difference of means there against the scatter within both parts.
fn widest(series: &[f64]) -> Option<(usize, f64)> {
    let n = series.len() as f64;
    let (sum, squares) = series.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    let total = squares - sum * sum / n;
    let mut left = 0.0;
    let mut best: Option<(usize, f64)> = None;
    for (k, x) in series.iter().enumerate() {
        if k >= SHORTEST && series.len() - k >= SHORTEST {
            let (a, b) = (k as f64, n - k as f64);
            let between = (left / a - (sum - left) / b).powi(2) * a * b / n;
            // What rounding leaves of a series of two constants counts as no scatter.
            let within = (total - between).max(total * 1e-12).max(f64::MIN_POSITIVE);
            let ratio = between / within;
            if between > 0.0 && best.is_none_or(|(_, most)| ratio > most) {
                best = Some((k, ratio));
            }
        }
        left += x;
    }
    best
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use rand_distr::{Distribution, Normal};

    use super::*;

    fn noise(seed: u64, levels: &[(usize, f64)], deviation: f64) -> Vec<f64> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let level = |(n, level): &(usize, f64)| vec![*level; *n];
        let deviation = Normal::new(0.0, deviation).unwrap();
        levels.iter().flat_map(level).map(|level| level + deviation.sample(&mut random)).collect()
    }

    #[test]
    fn a_change_is_found_where_it_is() {
        let points = change_points(&noise(1, &[(15, 100.0), (15, 95.0)], 1.0), 0.01);
        assert_eq!(points.len(), 1, "{points:?}");
        assert!(points[0].at.abs_diff(15) <= 1 && points[0].p <= 0.001, "{points:?}");
        assert!((points[0].relative() + 0.05).abs() < 0.01, "{points:?}");
        let steps = change_points(&noise(2, &[(10, 100.0), (10, 110.0), (10, 104.0)], 1.0), 0.01);
        assert_eq!(steps.len(), 2, "{steps:?}");
    }

    #[test]
    fn a_series_without_a_change_rarely_shows_one() {
        let shown = (0..200).filter(|seed| !change_points(&noise(*seed, &[(30, 100.0)], 5.0), 0.0).is_empty()).count();
        assert!((2..=20).contains(&shown), "{shown} of 200 at a level of 5 %");
    }

    #[test]
    fn few_runs_and_small_changes_show_nothing() {
        assert!(change_points(&[1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0], 0.01).is_empty());
        assert!(change_points(&noise(3, &[(15, 100.0), (15, 100.5)], 0.01), 0.01).is_empty());
        assert!(change_points(&[5.0; 12], 0.0).is_empty());
        assert_eq!(change_points(&[1.0, 1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0], 0.01).len(), 1);
    }
}
