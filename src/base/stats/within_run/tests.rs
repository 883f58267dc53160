//! Intervals hold what they claim, on series with a truth known by a formula.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::super::queue::{ServiceTime, SimulatedQueue};
use super::*;

/// How often an interval was there, and how often it held the truth.
#[derive(Debug, Default)]
struct Coverage {
    runs: u32,
    given: u32,
    held: u32,
}

impl Coverage {
    fn count(&mut self, interval: Result<IntervalBounds, NoInterval>, truth: f64) {
        self.runs += 1;
        if let Ok((low, high)) = interval {
            self.given += 1;
            self.held += u32::from(low <= truth && truth <= high);
        }
    }

    /// Few runs, so that the test is quick: 90 % of 95 % is what chance leaves; the campaign has more.
    fn is_kept(&self) -> bool {
        f64::from(self.held) >= 0.90 * f64::from(self.given)
    }
}

/// P(wait > t) of M/M/c is C·exp(−c·(1 − ρ)·t), by Erlang.
fn wait_percentile(queue: &SimulatedQueue, p: f64) -> f64 {
    (queue.erlang_c() / (1.0 - p)).ln() / (queue.servers as f64 * (1.0 - queue.utilization))
}

#[test]
fn independent_values_have_intervals_that_hold() {
    let mut coverages = [Coverage::default(), Coverage::default(), Coverage::default()];
    for seed in 0..100 {
        let mut rng = Pcg64::seed_from_u64(seed);
        let series = RunSeries::new((0..4_000).map(|_| -rng.random::<f64>().max(f64::MIN_POSITIVE).ln()));
        coverages[0].count(series.mean_interval(), 1.0);
        coverages[1].count(series.percentile_interval(0.9), 10.0_f64.ln());
        coverages[2].count(series.percentile_interval(0.99), 100.0_f64.ln());
    }
    assert!(coverages.iter().all(|one| one.given >= 75 && one.is_kept()), "{coverages:?}");
}

/// Waits of M/M/4: 10,000 requests are a long run at 50 % utilization and a short one at 90 %, which has no interval.
#[test]
fn waits_in_a_queue_have_intervals_that_hold_or_none() {
    for (utilization, runs, least, most) in [(0.5, 40, 38, 40), (0.8, 30, 0, 30), (0.9, 30, 0, 2)] {
        let queue = SimulatedQueue::new(4, ServiceTime::Exponential, utilization);
        let mean = queue.erlang_c() / (4.0 * (1.0 - utilization));
        let (mut of_mean, mut of_tail) = (Coverage::default(), Coverage::default());
        for seed in 0..runs {
            let series = RunSeries::new(queue.requests(10_000, seed).into_iter().map(|request| request.wait));
            of_mean.count(series.mean_interval(), mean);
            of_tail.count(series.percentile_interval(0.95), wait_percentile(&queue, 0.95));
        }
        assert!((least..=most).contains(&of_mean.given), "at {utilization}: {of_mean:?}");
        for coverage in [of_mean, of_tail] {
            assert!(coverage.given < 10 || coverage.is_kept(), "at {utilization}: {coverage:?}");
        }
    }
}

/// Where the dependence of a run is seen, the run that it asks for is long enough: of M/M/4 at 70 % most such runs have
/// an interval of p99, and those of a third of that length do not.
#[test]
fn a_run_without_an_interval_estimates_how_long_one_would_have_to_be() {
    assert_eq!(NoInterval::TooFewValues { n: 300 }.values_needed(), None);
    assert_eq!(NoInterval::TooDependent { n: 3_000, blocks: 61.0, needed: 2_000.0 }.values_needed(), Some(99_000.0));
    assert_eq!(NoInterval::TooFewBeyond { n: 5_000, beyond: 8.0 }.values_needed(), Some(7_500.0));
    let queue = SimulatedQueue::new(4, ServiceTime::Exponential, 0.7);
    let interval = |n: usize, seed: u64| {
        RunSeries::new(queue.requests(n, seed).into_iter().map(|request| request.wait)).percentile_interval(0.99)
    };
    let mut estimates: Vec<f64> =
        (0..21).map(|seed| interval(10_000, seed).unwrap_err().values_needed().expect("an estimate")).collect();
    estimates.sort_by(f64::total_cmp);
    let median = estimates[10] as usize;
    let given = |n: usize| (100..110).filter(|seed| interval(n, *seed).is_ok()).count();
    assert!(given(median * 3) >= 8 && given(median / 3) <= 2, "{median}: {} {}", given(median * 3), given(median / 3));
}

#[test]
fn a_short_run_says_why_it_has_no_interval() {
    let short = RunSeries::new((0..300).map(f64::from));
    assert_eq!(short.mean_interval(), Err(NoInterval::TooFewValues { n: 300 }));
    assert_eq!(short.percentile_interval(0.99).unwrap_err().to_string(), "not enough values: 300 of 2000");
    let queue = SimulatedQueue::new(8, ServiceTime::Fixed, 0.9);
    let busy = RunSeries::new(queue.requests(3_000, 1).into_iter().map(|request| request.wait));
    let error = busy.mean_interval().unwrap_err().to_string();
    assert!(
        error.starts_with("not enough independent values: neighbors are correlated, so that 3000 are worth about "),
        "{error}"
    );
}

#[test]
fn ranks_are_those_of_the_binomial_law() {
    let rank = |n: f64, p: f64| {
        let (low, high) = binomial_shares(n, p);
        let rank = |share: Option<f64>| share.map(|share| (share * n + 0.5).round() as u32);
        (rank(low), rank(high))
    };
    assert_eq!(rank(300.0, 0.99), (Some(293), None));
    assert_eq!(rank(367.0, 0.99).1, None);
    assert_eq!(rank(368.0, 0.99).1, Some(368));
    let (low, high) = rank(10_000.0, 0.99);
    // Normal approximation: 9,900 ± 1.96·√99 ≈ 9,880.5 … 9,919.5.
    assert!((9_879..=9_882).contains(&low.unwrap()) && (9_919..=9_922).contains(&high.unwrap()));
    assert_eq!(rank(1.0, 0.5), (None, None));
}

/// The generator is the intended queue: Erlang's mean wait, and Little's law by it.
#[test]
fn the_queues_are_those_of_the_formulas() {
    let queue = SimulatedQueue::new(4, ServiceTime::Exponential, 0.8);
    assert!((queue.erlang_c() - 0.5964).abs() < 1e-3, "{}", queue.erlang_c());
    let waits: Vec<f64> = (0..8).flat_map(|seed| queue.requests(20_000, seed)).map(|request| request.wait).collect();
    let mean = waits.iter().sum::<f64>() / waits.len() as f64;
    let expected = queue.erlang_c() / (4.0 * 0.2);
    assert!((mean / expected - 1.0).abs() < 0.1, "{mean} {expected}");
}

#[test]
fn the_nth_smallest_is_the_value_of_the_sorted_ones() {
    let mixed = |at: u64| at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let many: Vec<f64> = (0..600_000).map(|at| (mixed(at) >> 40) as f64 - 3e6).collect();
    let equal: Vec<f64> = (0..600_000).map(|at| f64::from(at % 3 == 0)).collect();
    let near: Vec<f64> = (0..600_000).map(|at| 1.0 + (mixed(at) >> 45) as f64 * f64::EPSILON).collect();
    for values in [many, equal, near, vec![2.0], vec![0.0, -0.0, 5.0, -7.5]] {
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        for place in [0, sorted.len() / 3, sorted.len() / 2, sorted.len() - 1] {
            assert_eq!(nth_smallest(&values, place).to_bits(), sorted[place].to_bits(), "{place}");
        }
    }
}
