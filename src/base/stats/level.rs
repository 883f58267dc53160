//! Whether a server answered faster or slower later than earlier, at the same load. Pure.
//!
//! Parts of a run are not comparable as they are: in a queue they differ because one happened to be busier. So the
//! logarithms of the values are compared among requests that found about as many others in flight, as a regression
//! within groups of equal load on a step at each twentieth of the run, and on a straight rise over all of it; where
//! no queue can be the cause, also on a level that comes back. Standard errors are those of means of consecutive
//! residuals, so that what is left of their correlation counts. Where the load itself changed with the level, as it
//! does at a constant rate of arrivals, nothing can be compared at equal load; then all values are, and have to be
//! further apart.
//!
//! The bounds were set on queues of ten kinds up to ρ = 0.9; `tests/bench/verdicts.rs` prints false alarms and power.

use std::collections::BTreeMap;
use std::ops::Range;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;

use super::latency_trend::{NOT_BY_CHANCE, rank_errors};

/// Groups of equal load at most.
const GROUPS: usize = 20;
/// How much the loads of one group may differ: in a queue more load is more wait.
const SIMILAR: f64 = 1.2;
/// Means of consecutive residuals, for the standard error. Requests of one busy period are correlated, so batches are
/// long.
const BATCHES: usize = 16;
/// Places at which a step is looked for.
const STEPS: usize = 20;
/// Fewer observations show nothing.
const FEWEST: usize = 100;
/// On each side of a step.
const FEWEST_OF_SIDE: usize = 10;
/// Share of the variation over time that must be within groups of equal load.
const LEAST_COMPARABLE: f64 = 0.5;
/// Of the mean: the logarithm of next to nothing would outweigh all other values.
const LEAST_OF_MEAN: f64 = 0.01;
/// Standard errors of a change at equal load, the largest of all places.
pub const SHIFT_ERRORS: f64 = 6.5;
/// The same where no load was common to both sides: one busy period is many standard errors from another.
const ERRORS_AT_ANY_LOAD: f64 = 19.0;
/// A queue that rises as straight over a whole run is rarer than one that is busy in a part of it.
const ERRORS_OF_RISE_AT_ANY_LOAD: f64 = 15.0;
/// The same of a part after which the level comes back: there are ten times as many parts as steps.
const ERRORS_OF_A_PART: f64 = 10.0;
/// A shorter series may have one busy period that fills most of it: a step at any load must lie between two flat parts.
const LONG: usize = 1_000;
/// Smaller changes do not matter.
pub const SHIFT_SHARE: f64 = 0.1;

/// One value with the load under which it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    pub value: f64,
    /// Requests in flight when it began.
    pub load: u64,
}

/// A change of level that neither chance nor the load explains.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyShift {
    /// The observations of the other level: to the end of the series after a step, fewer where the level came back.
    /// None: a rise or fall over the whole series.
    pub part: Option<Range<usize>>,
    /// Its level over that of the others, of geometric means: 1.5 is 50 % slower.
    pub ratio: f64,
    pub standard_errors: f64,
    pub is_at_equal_load: bool,
    /// A step between two parts that show no trend of their own: requests in flight rose with it and no further.
    pub is_settled: bool,
}

impl LatencyShift {
    /// The change that is the most standard errors from none, of a series in the order of time.
    /// `is_constant`: the load was meant to be the same all the time, so that a change of it is the server's.
    /// `users`: of a closed loop; else 0. `may_return`: no queue makes a part of such a series slower, so a level that
    /// comes back is the server's, too.
    pub fn find(series: &[Observation], is_constant: bool, users: usize, may_return: bool) -> Option<Self> {
        let count = series.len();
        if count < FEWEST {
            return None;
        }
        let groups = LoadGroups::new(count, series.iter().map(|observation| observation.load));
        let group = |observation: &Observation| groups.group(observation.load);
        let by_load = Panel::new(series, groups.highest.len(), group);
        let by_time = Panel::new(series, 1, |_| 0);
        // Users wait for each other, so that each round of them is one observation.
        let common_wait = ((BATCHES * users) as f64 / count as f64).sqrt().max(1.0);
        let shift = |part: Option<Range<usize>>| {
            let course = |at: usize| match &part {
                Some(part) => f64::from(u8::from(part.contains(&at))),
                None => at as f64 / count as f64,
            };
            let (step, is_left) =
                (part.as_ref().map(|part| part.start), part.as_ref().is_some_and(|it| it.end < count));
            let at_equal_load = by_load.effect(course);
            let bound = match step {
                _ if is_left => ERRORS_OF_A_PART,
                _ if at_equal_load.is_some() => SHIFT_ERRORS,
                Some(_) => ERRORS_AT_ANY_LOAD,
                None => ERRORS_OF_RISE_AT_ANY_LOAD,
            };
            let at_any_load = || (is_constant && !is_left).then(|| by_time.effect(course))?;
            let (change, standard_errors) = at_equal_load.or_else(at_any_load)?;
            let is_shift = standard_errors.abs() > bound * common_wait && change.abs() > SHIFT_SHARE.ln_1p();
            let is_at_equal_load = at_equal_load.is_some();
            let is_flat_before_and_after = |step: usize| is_flat(&series[..step]) && is_flat(&series[step..]);
            let is_settled = is_shift && !is_left && step.is_some_and(is_flat_before_and_after);
            let is_certain = is_at_equal_load || step.is_none() || is_settled || count >= LONG;
            let shift = Self { part, ratio: change.exp(), standard_errors, is_at_equal_load, is_settled };
            (is_shift && is_certain).then_some(shift)
        };
        let place = |place: usize| count * place / STEPS;
        let is_long = |part: &Range<usize>| part.len() >= FEWEST_OF_SIDE && count - part.len() >= FEWEST_OF_SIDE;
        let steps = (1..STEPS).map(|step| place(step)..count);
        let parts = (1..STEPS).flat_map(|from| (from + 1..STEPS.min(from + STEPS / 2 + 1)).map(move |to| (from, to)));
        let parts = parts.map(|(from, to)| place(from)..place(to));
        let most = |shifts: &mut dyn Iterator<Item = Option<Range<usize>>>| {
            shifts.filter_map(shift).max_by(|a, b| a.rank().total_cmp(&b.rank()))
        };
        most(&mut steps.filter(is_long).map(Some).chain([None]))
            .or_else(|| may_return.then(|| most(&mut parts.filter(is_long).map(Some)))?)
    }

    /// What was compared at equal load comes first.
    fn rank(&self) -> f64 {
        self.standard_errors.abs() * if self.is_at_equal_load { ERRORS_AT_ANY_LOAD / SHIFT_ERRORS } else { 1.0 }
    }
}

/// The last third has no other ranks than the first.
fn is_flat(part: &[Observation]) -> bool {
    let values = |part: &[Observation]| part.iter().map(|observation| observation.value).collect::<Vec<f64>>();
    let third = part.len() / 3;
    let mut first = values(&part[..third]);
    first.sort_unstable_by(f64::total_cmp);
    rank_errors(&first, &values(&part[part.len() - third..])).abs() < NOT_BY_CHANCE
}

/// Logarithms in groups, of which only differences within a group count.
struct Panel {
    values: Vec<f64>,
    members: Vec<usize>,
    sizes: Vec<f64>,
}

impl Panel {
    fn new(series: &[Observation], groups: usize, group: impl Fn(&Observation) -> usize) -> Self {
        let members: Vec<usize> = series.iter().map(group).collect();
        let mut sizes = vec![0.0; groups];
        for member in &members {
            sizes[*member] += 1.0;
        }
        let mut panel = Self { values: Vec::new(), members, sizes };
        let mean = series.iter().map(|observation| observation.value).sum::<f64>() / series.len() as f64;
        let least = (mean * LEAST_OF_MEAN).max(f64::MIN_POSITIVE);
        panel.values = panel.centered(|at| series[at].value.max(least).ln());
        panel
    }

    /// Without the mean of its group.
    fn centered(&self, value: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut means = vec![0.0; self.sizes.len()];
        for (at, group) in self.members.iter().enumerate() {
            means[*group] += value(at) / self.sizes[*group];
        }
        self.members.iter().enumerate().map(|(at, group)| value(at) - means[*group]).collect()
    }

    /// How much the values change with `course`, and in how many standard errors; None where it changes between groups
    /// rather than within them.
    fn effect(&self, course: impl Fn(usize) -> f64) -> Option<(f64, f64)> {
        let count = self.values.len();
        let inside = self.centered(&course);
        let mean = (0..count).map(&course).sum::<f64>() / count as f64;
        let total: f64 = (0..count).map(|at| (course(at) - mean).powi(2)).sum();
        let squares: f64 = inside.iter().map(|x| x * x).sum();
        if squares < LEAST_COMPARABLE * total {
            return None;
        }
        let change = inside.iter().zip(&self.values).map(|(x, y)| x * y).sum::<f64>() / squares;
        let residuals: Vec<f64> = inside.iter().zip(&self.values).map(|(x, y)| y - change * x).collect();
        let size = (count / BATCHES).max(1);
        let batches = residuals.chunks_exact(size).map(|batch| batch.iter().sum::<f64>() / size as f64);
        let variance = batches.map(|mean| mean * mean).sum::<f64>() / (count / size - 1) as f64;
        // What rounding leaves of a series of two constants counts as no scatter.
        let standard_error = (variance * size as f64 / squares).sqrt().max(1e-9);
        Some((change, change / standard_error))
    }
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
        let (mut highest, mut most, mut members) = (Vec::new(), 0.0, 0);
        for (load, more) in counts {
            match highest.last_mut() {
                // A group ends with the load that fills it, or before the first one that is not similar.
                Some(last) if members < size && load as f64 <= most => (*last, members) = (load, members + more),
                _ => {
                    highest.push(load);
                    (most, members) = (load as f64 * SIMILAR, more);
                }
            }
        }
        Self { highest }
    }

    fn group(&self, load: u64) -> usize {
        self.highest.partition_point(|highest| *highest < load)
    }
}

// Where a series of runs changes its level. Divided in two where the difference of means is largest against the scatter
// within the parts; a permutation test says how often such a difference would arise in runs whose order means nothing,
// and each part is divided again (the hierarchy of E-divisive: Matteson and James 2014). A part is divided only where
// the series around it was, so a series without a change shows one in at most 5 % of cases.

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

    fn noise(at: u32) -> f64 {
        f64::from((at * 7_919) % 13)
    }

    fn series(count: u32, observation: impl Fn(u32) -> (f64, u64)) -> Option<LatencyShift> {
        let series: Vec<Observation> =
            (0..count).map(observation).map(|(value, load)| Observation { value, load }).collect();
        LatencyShift::find(&series, true, 0, true)
    }

    #[test]
    fn a_busier_half_is_not_a_slower_server() {
        // A wait for each request in flight; the second half has more of them in flight most of the time.
        let load = |at: u32| u64::from(at % 10 + if at >= 100 && at.is_multiple_of(3) { 3 } else { 0 });
        let value = |at: u32, slower: f64| 10.0 + slower + load(at) as f64 * 20.0 + noise(at);
        assert_eq!(series(200, |at| (value(at, 0.0), load(at))), None);
        let shift = series(200, |at| (value(at, if at < 100 { 0.0 } else { 80.0 }), load(at))).unwrap();
        let step = shift.part.as_ref().unwrap();
        assert!(step.start.abs_diff(100) <= 10 && step.end == 200 && shift.is_at_equal_load, "{shift:?}");
    }

    #[test]
    fn a_change_at_equal_load_comes_before_one_at_any_load() {
        let shift = |standard_errors, is_at_equal_load| LatencyShift {
            part: None,
            ratio: 2.0,
            standard_errors,
            is_at_equal_load,
            is_settled: false,
        };
        assert!(
            shift(7.0, true).rank() > shift(20.0, false).rank() && shift(7.0, true).rank() < shift(21.0, false).rank()
        );
    }

    #[test]
    fn a_step_and_a_rise_are_found_where_they_are() {
        let step = series(300, |at| (30.0 * if at < 240 { 1.0 } else { 3.0 } + noise(at) / 10.0, 4)).unwrap();
        assert!(step.part == Some(240..300) && (step.ratio - 3.0).abs() < 0.05, "{step:?}");
        let rise = series(300, |at| (30.0 + f64::from(at) / 40.0, 4)).unwrap();
        assert!(rise.part.is_none() && (rise.ratio - 1.25).abs() < 0.02, "{rise:?}");
        assert_eq!(series(300, |at| (30.0 + f64::from(at) / 150.0, 4)), None, "7 % do not matter");
        assert_eq!(series(99, |at| (if at < 50 { 1.0 } else { 3.0 }, 4)), None, "too few");
    }

    #[test]
    fn a_level_that_comes_back_is_found_where_no_queue_makes_one() {
        let bump =
            |at: u32| Observation { value: (if (120..180).contains(&at) { 60.0 } else { 30.0 }) + noise(at), load: 4 };
        let series: Vec<Observation> = (0..300).map(bump).collect();
        let shift = LatencyShift::find(&series, true, 0, true).unwrap();
        assert!(shift.part == Some(120..180) && (shift.ratio - 1.8).abs() < 0.1 && !shift.is_settled, "{shift:?}");
        assert_eq!(LatencyShift::find(&series, true, 0, false), None, "in a queue it may be a busy period");
    }

    #[test]
    fn where_the_load_changes_with_the_level_the_levels_must_be_far_apart() {
        let at_constant_rate = |late: f64| {
            move |at: u32| {
                let value = if at < 400 { 30.0 } else { late } + noise(at);
                (value, (value / 10.0) as u64 + if at < 400 { 0 } else { 9 })
            }
        };
        let shift = series(800, at_constant_rate(90.0)).unwrap();
        assert!(!shift.is_at_equal_load && shift.part == Some(400..800), "{shift:?}");
        // A queue that is busy in its second half returns to its quick answers again and again.
        let busy = |at: u32| if at > 400 && at % 50 > 20 { (300.0, 40) } else { (100.0 + noise(at), 3) };
        assert_eq!(series(800, busy), None);
        // A short run ends in the middle of a busy period, which rises.
        let rising = |count: u32| {
            series(count, |at| {
                let late = f64::from(at.saturating_sub(count * 3 / 5)) * 1_000.0 / f64::from(count);
                let load = if late > 0.0 { 100 + at / 4 } else { at % 4 };
                (30.0 + noise(at) + if late > 0.0 { 200.0 + late } else { 0.0 }, u64::from(load))
            })
        };
        assert_eq!(rising(300), None);
        assert!(rising(1_000).is_some_and(|shift| !shift.is_at_equal_load && !shift.is_settled), "{:?}", rising(1_000));
    }

    fn levels_with_noise(seed: u64, levels: &[(usize, f64)], deviation: f64) -> Vec<f64> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let level = |(n, level): &(usize, f64)| vec![*level; *n];
        let deviation = Normal::new(0.0, deviation).unwrap();
        levels.iter().flat_map(level).map(|level| level + deviation.sample(&mut random)).collect()
    }

    #[test]
    fn a_change_is_found_where_it_is() {
        let points = change_points(&levels_with_noise(1, &[(15, 100.0), (15, 95.0)], 1.0), 0.01);
        assert_eq!(points.len(), 1, "{points:?}");
        assert!(points[0].at.abs_diff(15) <= 1 && points[0].p <= 0.001, "{points:?}");
        assert!((points[0].relative() + 0.05).abs() < 0.01, "{points:?}");
        let steps = change_points(&levels_with_noise(2, &[(10, 100.0), (10, 110.0), (10, 104.0)], 1.0), 0.01);
        assert_eq!(steps.len(), 2, "{steps:?}");
    }

    #[test]
    fn a_series_without_a_change_rarely_shows_one() {
        let shown = (0..200)
            .filter(|seed| !change_points(&levels_with_noise(*seed, &[(30, 100.0)], 5.0), 0.0).is_empty())
            .count();
        assert!((2..=20).contains(&shown), "{shown} of 200 at a level of 5 %");
    }

    #[test]
    fn few_runs_and_small_changes_show_nothing() {
        assert!(change_points(&[1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0], 0.01).is_empty());
        assert!(change_points(&levels_with_noise(3, &[(15, 100.0), (15, 100.5)], 0.01), 0.01).is_empty());
        assert!(change_points(&[5.0; 12], 0.0).is_empty());
        assert_eq!(change_points(&[1.0, 1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0], 0.01).len(), 1);
    }
}
