//! How many measurements a benchmark is, and the least time that they take: a sweep with repeats is easily an hour.

use std::fmt;
use std::time::Duration;

use crate::task::Task;
use base::spec::BenchSweep;

/// More than one measurement in a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasurementCost {
    /// Of a sweep; a sweep that finds its own levels has at least this many.
    points: u32,
    finds_levels: bool,
    /// Of each point.
    runs: u32,
    /// The schedule of one measurement, where it has a length.
    each: Option<Duration>,
}

impl MeasurementCost {
    /// `None`: the task measures once, or is not a benchmark.
    pub fn from_task(task: &Task) -> Option<Self> {
        // In turns, each run is a task of its own.
        let bench = task.bench().filter(|bench| bench.turn.is_none())?;
        let points = bench.sweep.as_ref().map_or(1, |sweep| match sweep {
            // One idle, and two to see that more users bring no more.
            BenchSweep::Auto(rates) => rates + 3,
            other => other
                .levels()
                .and_then(|levels| levels.ascending(other.is_whole()).ok())
                .map_or(1, |it| it.len() as u32),
        });
        let finds_levels = matches!(bench.sweep, Some(BenchSweep::Auto(_)));
        let cost = Self { points, finds_levels, runs: bench.repeat.max(1), each: bench.stop.time() };
        (cost.points > 1 || cost.runs > 1).then_some(cost)
    }
}

/// `measures 18 times: 6 points, 3 runs each; at least 9 min`
impl fmt::Display for MeasurementCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { points, finds_levels, runs, each } = *self;
        let times = points.saturating_mul(runs);
        let at_least = if finds_levels { "at least " } else { "" };
        write!(f, "measures {at_least}{times} times")?;
        match (points, runs) {
            (_, 1) | (1, _) => {}
            _ => write!(f, ": {points} points, {runs} runs each")?,
        }
        match each.map(|each| each.saturating_mul(times).as_secs()) {
            Some(seconds) if seconds >= 120 => write!(f, "; at least {} min", seconds.div_ceil(60)),
            Some(seconds) => write!(f, "; at least {seconds} s"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_every_run_of_every_point() {
        let cost = MeasurementCost { points: 6, finds_levels: false, runs: 3, each: Some(Duration::from_secs(30)) };
        assert_eq!(cost.to_string(), "measures 18 times: 6 points, 3 runs each; at least 9 min");
        assert_eq!(MeasurementCost { runs: 1, ..cost }.to_string(), "measures 6 times; at least 3 min");
        assert_eq!(MeasurementCost { points: 1, each: None, ..cost }.to_string(), "measures 3 times");
        let cost = MeasurementCost { points: 11, finds_levels: true, runs: 1, each: Some(Duration::from_secs(5)) };
        assert_eq!(cost.to_string(), "measures at least 11 times; at least 55 s");
    }
}
