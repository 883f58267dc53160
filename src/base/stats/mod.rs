//! Statistics of measured numbers: what several runs of one measurement show about a difference, what one run shows
//! about itself, whether a queue grows, which rate a server holds. Pure.
//!
//! Nothing here depends on requests, files or units of measurement: a caller passes numbers and gets numbers with their
//! uncertainty. Between results the unit of replication is the *run*: requests of one run share a queue, a cache and a
//! minute of their server's life, so that ten thousand of them are not ten thousand independent observations; runs with
//! different seeds are.

mod growth;
mod latency_trend;
mod level;
mod rate_search;
mod replicate;
#[cfg(test)]
#[allow(dead_code, reason = "tests of verdicts and benchmarks use the rest")]
mod simulated_queue;
mod student;
#[cfg(test)]
#[path = "../../../tests/bench/systems.rs"]
#[allow(dead_code, reason = "benchmarks use the rest")]
mod systems;
mod within_run;

pub use growth::Growth;
pub use latency_trend::{LatencyTrend, VisitsInOrder, rank_errors_in_order};
pub use level::{ChangePoint, FEWEST_RUNS, LatencyShift, Observation, SHIFT_ERRORS, SHIFT_SHARE, change_points};
pub use rate_search::{MOST_TRIES, ProbeOutcome, RateEstimate, RateSearcher, RateStep};
pub use replicate::{
    COMMON_CHANGE, ComparedSamples, Conclusion, JudgedRow, Percents, RunValues, beyond_bound, compare_rows, is_beyond,
    mean_interval,
};
pub use student::binomial_tail;
pub use within_run::{FEWEST_VALUES, IntervalBounds, NoInterval, RunSeries};
