//! Whether a server answered faster or slower later than earlier, at the same load. Pure.
//!
//! Halves of a run are not comparable as they are: in a queue they differ because one happened to be busier. Here only
//! requests are compared that found about as many others in flight when they arrived. The difference of the halves is
//! taken within such groups, and its standard error from means of consecutive residuals, so that what is left of their
//! correlation counts.

use std::collections::BTreeMap;

/// Groups of equal load at most.
const GROUPS: usize = 20;
/// How much the loads of one group may differ: in a queue more load is more wait.
const SIMILAR: f64 = 1.2;
/// Means of consecutive residuals, for the standard error. Requests of one busy period are correlated, so batches are
/// long.
const BATCHES: usize = 16;
/// Fewer observations show nothing.
const LEAST: usize = 50;
/// Number of parts of each half; their lower tenths are compared.
const EIGHTHS: usize = 8;
/// In fewer a queue near saturation may be busy for all of a half.
const LEAST_FOR_FLOORS: usize = 600;
/// Share of the observations that must have a counterpart in the other half.
const LEAST_COMPARABLE: f64 = 0.5;

/// One value with the load under which it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    pub value: f64,
    /// Requests in flight when it began.
    pub load: u64,
}

/// The second half of a series against its first, at equal load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelChange {
    /// Second half − first half, in the unit of the values.
    pub difference: f64,
    /// Mean of the first half, weighted as `difference` is.
    pub first: f64,
    pub standard_error: f64,
}

impl LevelChange {
    /// In the order of time. `None`: too few, or no load that both halves had.
    pub fn estimate(series: &[Observation]) -> Option<Self> {
        Self::of_many(series.len(), || series.iter().copied())
    }

    /// Like `estimate`, of this many observations that need not be in memory: they are read several times.
    pub fn of_many<I: Iterator<Item = Observation>>(count: usize, series: impl Fn() -> I) -> Option<Self> {
        if count < LEAST {
            return None;
        }
        let half = count / 2;
        let groups = LoadGroups::new(count, series().map(|one| one.load));
        let mut sums = vec![[PartSum::default(); 2]; groups.count()];
        for (at, one) in series().enumerate() {
            sums[groups.group(one.load)][usize::from(at >= half)].add(one.value);
        }
        let (mut weights, mut differences, mut firsts, mut compared) = (0.0, 0.0, 0.0, 0);
        for [early, late] in sums.iter().filter(|parts| is_comparable(parts)) {
            let (first, second) = (early.mean(), late.mean());
            let weight = (early.count * late.count) as f64 / (early.count + late.count) as f64;
            weights += weight;
            differences += weight * (second - first);
            firsts += weight * first;
            compared += early.count + late.count;
        }
        if weights <= 0.0 || (compared as f64) < LEAST_COMPARABLE * count as f64 {
            return None;
        }
        let residuals = series().enumerate().filter_map(|(at, one)| {
            let parts = &sums[groups.group(one.load)];
            is_comparable(parts).then(|| one.value - parts[usize::from(at >= half)].mean())
        });
        Some(Self {
            difference: differences / weights,
            first: firsts / weights,
            standard_error: error_of_mean(compared, residuals) * (compared as f64 / weights).sqrt(),
        })
    }

    /// The difference as a share of the first half: −0.3 is 30 % faster.
    pub fn relative(&self) -> f64 {
        if self.first > 0.0 { self.difference / self.first } else { 0.0 }
    }

    pub fn standard_errors(&self) -> f64 {
        if self.standard_error > 0.0 { self.difference / self.standard_error } else { 0.0 }
    }
}

/// Change of the lower tenth from the first to the second half of this many values, as a share of the first, if it is
/// beyond chance: the lower tenths of all eighths of the first half lie on one side of those of the second. The change
/// is that of the medians of the two groups.
pub fn separated_floors(count: usize, mut series: impl Iterator<Item = f64>) -> Option<f64> {
    if count < LEAST_FOR_FLOORS {
        return None;
    }
    let floors: Vec<f64> = (0..2 * EIGHTHS)
        .map(|_| {
            let mut part: Vec<f64> = series.by_ref().take(count / (2 * EIGHTHS)).collect();
            let tenth = part.len() / 10;
            *part.select_nth_unstable_by(tenth, f64::total_cmp).1
        })
        .collect();
    let (first, second) = floors.split_at(EIGHTHS);
    let least = |part: &[f64]| part.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |part: &[f64]| part.iter().copied().fold(0.0, f64::max);
    let share = |from: f64, to: f64| (from > 0.0).then(|| to / from - 1.0);
    let is_apart = least(second) > most(first) || most(second) < least(first);
    if is_apart { share(middle(first), middle(second)) } else { None }
}

fn middle(part: &[f64]) -> f64 {
    let mut sorted = part.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The values of one half in a group.
#[derive(Clone, Copy, Default)]
struct PartSum {
    sum: f64,
    count: usize,
}

impl PartSum {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn mean(&self) -> f64 {
        self.sum / self.count as f64
    }
}

const fn is_comparable([early, late]: &[PartSum; 2]) -> bool {
    early.count > 0 && late.count > 0
}

/// Observations of similar load, about equally many in each; equal loads are never apart.
struct LoadGroups {
    /// The highest load of each, from the lowest group up.
    highest: Vec<u64>,
}

impl LoadGroups {
    fn new(count: usize, loads: impl Iterator<Item = u64>) -> Self {
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        loads.for_each(|load| *counts.entry(load).or_default() += 1);
        let size = count.div_ceil(GROUPS);
        let mut highest = Vec::new();
        let mut rest = counts.into_iter().peekable();
        while let Some((lowest, first)) = rest.next() {
            let most = lowest as f64 * SIMILAR;
            let (mut last, mut members) = (lowest, first);
            // A group ends with the load that fills it, or before the first one that is not similar.
            while members < size
                && let Some((load, more)) = rest.next_if(|(load, _)| *load as f64 <= most)
            {
                (last, members) = (load, members + more);
            }
            highest.push(last);
        }
        Self { highest }
    }

    const fn count(&self) -> usize {
        self.highest.len()
    }

    fn group(&self, load: u64) -> usize {
        self.highest.partition_point(|highest| *highest < load)
    }
}

/// Standard error of one value's share in a mean, from the spread of batch means: sd(batch mean) × √(batch size / N).
fn error_of_mean(count: usize, mut residuals: impl Iterator<Item = f64>) -> f64 {
    let size = (count / BATCHES).max(1);
    let means: Vec<f64> = (0..count / size).map(|_| residuals.by_ref().take(size).sum::<f64>() / size as f64).collect();
    if means.len() < 2 {
        return f64::INFINITY;
    }
    let center = means.iter().sum::<f64>() / means.len() as f64;
    let variance = means.iter().map(|mean| (mean - center).powi(2)).sum::<f64>() / (means.len() - 1) as f64;
    (variance / means.len() as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(at: u32) -> f64 {
        f64::from((at * 7_919) % 13)
    }

    #[test]
    fn a_busier_half_is_not_a_slower_server() {
        // A wait for each request in flight; the second half has more of them in flight most of the time.
        let load = |at: u32| u64::from(at % 10 + if at >= 100 && at.is_multiple_of(3) { 3 } else { 0 });
        let observation = |at: u32, slower: f64| Observation {
            value: 10.0 + slower + load(at) as f64 * 20.0 + noise(at),
            load: load(at),
        };
        let same: Vec<Observation> = (0..200).map(|at| observation(at, 0.0)).collect();
        let change = LevelChange::estimate(&same).unwrap();
        assert!(change.standard_errors().abs() < 3.0 && change.relative().abs() < 0.1, "{change:?}");
        let slower: Vec<Observation> = (0..200).map(|at| observation(at, if at < 100 { 0.0 } else { 80.0 })).collect();
        let change = LevelChange::estimate(&slower).unwrap();
        assert!((change.difference - 80.0).abs() < 5.0 && change.standard_errors() > 4.0, "{change:?}");
    }

    #[test]
    fn a_slower_server_has_no_quick_answers_left() {
        let slower: Vec<f64> = (0..800).map(|at| f64::from(100 + at / 8) + noise(at)).collect();
        let share = separated_floors(slower.len(), slower.iter().copied()).unwrap();
        assert!((0.3..0.5).contains(&share), "{share}");
        let faster: Vec<f64> = slower.iter().rev().copied().collect();
        assert!(separated_floors(faster.len(), faster.iter().copied()).unwrap() < -0.2);
        let busy: Vec<f64> =
            (0..800).map(|at| 100.0 + if at > 400 && at % 50 > 20 { 300.0 } else { noise(at) }).collect();
        assert!(
            separated_floors(busy.len(), busy.iter().copied()).is_none_or(|share| share < 0.05),
            "quick answers come again"
        );
    }

    #[test]
    fn halves_without_a_common_load_are_not_compared() {
        let apart: Vec<Observation> = (0..100)
            .map(|at| Observation { value: noise(at), load: if at < 50 { u64::from(at) } else { 1_000 } })
            .collect();
        assert_eq!(LevelChange::estimate(&apart), None);
        assert_eq!(LevelChange::estimate(&apart[..10]), None);
    }
}
