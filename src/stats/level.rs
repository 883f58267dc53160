//! Whether a server answered faster or slower later than earlier, at the same load. Pure.
//!
//! Halves of a run are not comparable as they are: in a queue they differ because one happened to be busier. Here only requests are
//! compared that found about as many others in flight when they arrived. The difference of the halves is taken within such groups,
//! and its standard error from means of consecutive residuals, so that what is left of their correlation counts.

/// Groups of equal load at most.
const GROUPS: usize = 20;
/// How much the loads of one group may differ: in a queue more load is more wait.
const SIMILAR: f64 = 1.2;
/// Means of consecutive residuals, for the standard error. Requests of one busy period are correlated, so batches are long.
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
    pub fn of(series: &[Observation]) -> Option<Self> {
        if series.len() < LEAST {
            return None;
        }
        let half = series.len() / 2;
        let mut by_load: Vec<usize> = (0..series.len()).collect();
        by_load.sort_by_key(|at| (series[*at].load, *at));
        let mut residuals = vec![None; series.len()];
        let (mut weights, mut differences, mut firsts, mut compared) = (0.0, 0.0, 0.0, 0);
        for group in groups(&by_load, series) {
            let (early, late): (Vec<usize>, Vec<usize>) = group.iter().partition(|at| **at < half);
            if early.is_empty() || late.is_empty() {
                continue;
            }
            let mean = |part: &[usize]| part.iter().map(|at| series[*at].value).sum::<f64>() / part.len() as f64;
            let (first, second) = (mean(&early), mean(&late));
            let weight = (early.len() * late.len()) as f64 / group.len() as f64;
            weights += weight;
            differences += weight * (second - first);
            firsts += weight * first;
            compared += group.len();
            for (part, mean) in [(&early, first), (&late, second)] {
                for at in part {
                    residuals[*at] = Some(series[*at].value - mean);
                }
            }
        }
        if weights <= 0.0 || (compared as f64) < LEAST_COMPARABLE * series.len() as f64 {
            return None;
        }
        let residuals: Vec<f64> = residuals.into_iter().flatten().collect();
        Some(Self {
            difference: differences / weights,
            first: firsts / weights,
            standard_error: error_of_mean(&residuals) * (residuals.len() as f64 / weights).sqrt(),
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

/// Change of the lower tenth from the first to the second half, as a share of the first, if it is beyond chance: the lower tenths of all
/// eighths of the first half lie on one side of those of the second. The change is that of the medians of the two groups.
pub fn separated_floors(series: &[f64]) -> Option<f64> {
    if series.len() < LEAST_FOR_FLOORS {
        return None;
    }
    let floors: Vec<f64> = series
        .chunks_exact(series.len() / (2 * EIGHTHS))
        .take(2 * EIGHTHS)
        .map(|part| {
            let mut sorted = part.to_vec();
            sorted.sort_by(f64::total_cmp);
            sorted[sorted.len() / 10]
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

/// Observations of similar load, about equally many in each; equal loads are never apart.
fn groups<'a>(by_load: &'a [usize], series: &[Observation]) -> Vec<&'a [usize]> {
    let size = by_load.len().div_ceil(GROUPS);
    let mut groups = Vec::new();
    let mut rest = by_load;
    while !rest.is_empty() {
        let most = series[rest[0]].load as f64 * SIMILAR;
        let similar = rest.partition_point(|at| series[*at].load as f64 <= most);
        let mut end = size.min(similar);
        while end < rest.len() && series[rest[end]].load == series[rest[end - 1]].load {
            end += 1;
        }
        let (group, later) = rest.split_at(end);
        groups.push(group);
        rest = later;
    }
    groups
}

/// Standard error of one value's share in a mean, from the spread of batch means: sd(batch mean) × √(batch size / N).
fn error_of_mean(residuals: &[f64]) -> f64 {
    let size = (residuals.len() / BATCHES).max(1);
    let means: Vec<f64> =
        residuals.chunks_exact(size).map(|batch| batch.iter().sum::<f64>() / batch.len() as f64).collect();
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
        let of = |at: u32, slower: f64| Observation {
            value: 10.0 + slower + load(at) as f64 * 20.0 + noise(at),
            load: load(at),
        };
        let same: Vec<Observation> = (0..200).map(|at| of(at, 0.0)).collect();
        let change = LevelChange::of(&same).unwrap();
        assert!(change.standard_errors().abs() < 3.0 && change.relative().abs() < 0.1, "{change:?}");
        let slower: Vec<Observation> = (0..200).map(|at| of(at, if at < 100 { 0.0 } else { 80.0 })).collect();
        let change = LevelChange::of(&slower).unwrap();
        assert!((change.difference - 80.0).abs() < 5.0 && change.standard_errors() > 4.0, "{change:?}");
    }

    #[test]
    fn a_slower_server_has_no_quick_answers_left() {
        let slower: Vec<f64> = (0..800).map(|at| f64::from(100 + at / 8) + noise(at)).collect();
        let share = separated_floors(&slower).unwrap();
        assert!((0.3..0.5).contains(&share), "{share}");
        let faster: Vec<f64> = slower.iter().rev().copied().collect();
        assert!(separated_floors(&faster).unwrap() < -0.2);
        let busy: Vec<f64> =
            (0..800).map(|at| 100.0 + if at > 400 && at % 50 > 20 { 300.0 } else { noise(at) }).collect();
        assert!(separated_floors(&busy).is_none_or(|share| share < 0.05), "quick answers come again");
    }

    #[test]
    fn halves_without_a_common_load_are_not_compared() {
        let apart: Vec<Observation> = (0..100)
            .map(|at| Observation { value: noise(at), load: if at < 50 { u64::from(at) } else { 1_000 } })
            .collect();
        assert_eq!(LevelChange::of(&apart), None);
        assert_eq!(LevelChange::of(&apart[..10]), None);
    }
}
