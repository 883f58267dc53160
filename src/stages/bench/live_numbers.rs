//! What a benchmark shows of itself while it measures.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::event::LiveMeasurement;
use crate::harness::BenchProgress;
use crate::units::grouped;

/// The time over which tokens per second are counted.
const WINDOW: Duration = Duration::from_secs(5);

/// Follows the progress of one measurement.
#[derive(Debug, Default)]
pub(super) struct LiveNumbers {
    /// When so many tokens had arrived, over the last [`WINDOW`].
    arrived: VecDeque<(Instant, u64)>,
}

impl LiveNumbers {
    pub fn take(&mut self, now: Instant, progress: &BenchProgress) -> LiveMeasurement {
        self.arrived.push_back((now, progress.tokens));
        while self.arrived.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= WINDOW) {
            self.arrived.pop_front();
        }
        let tokens_per_s = self.arrived.front().map_or(0.0, |(at, before)| {
            let seconds = now.duration_since(*at).as_secs_f64();
            if seconds > 0.0 { progress.tokens.saturating_sub(*before) as f64 / seconds } else { 0.0 }
        });
        LiveMeasurement {
            issued: progress.issued,
            ended: progress.ended,
            failed: progress.failed,
            tokens: progress.tokens,
            tokens_per_s,
            ttft_ms: progress.ttft_ms,
            tpot_ms: progress.tpot_ms,
        }
    }
}

/// One line: `answered, 24 in flight, 1,204 tok/s, TTFT 47 ms, TPOT 9.4 ms so far`.
pub(super) fn live_line(live: &LiveMeasurement) -> String {
    let mut parts = vec!["answered".to_owned()];
    if live.failed > 0 {
        parts.push(format!("{} failed", live.failed));
    }
    if live.issued > 0 {
        parts.push(format!("{} in flight", live.in_flight()));
        parts.push(format!("{} tok/s", grouped(live.tokens_per_s, 0)));
    }
    let ms = |value: f64| if value < 100.0 { format!("{value:.1}") } else { grouped(value, 0) };
    let means = [("TTFT", live.ttft_ms), ("TPOT", live.tpot_ms)];
    let means: Vec<String> =
        means.iter().filter_map(|(name, mean)| Some(format!("{name} {} ms", ms((*mean)?)))).collect();
    if !means.is_empty() {
        parts.push(format!("mean {} so far", means.join(", ")));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_per_second_are_those_of_the_last_seconds() {
        let (mut numbers, begin) = (LiveNumbers::default(), Instant::now());
        let at = |seconds: u64, tokens: u64| {
            (
                begin + Duration::from_secs(seconds),
                BenchProgress { tokens, issued: 9, ended: 2, ..BenchProgress::default() },
            )
        };
        let mut rate =
            |(now, progress): (Instant, BenchProgress)| numbers.take(now, &progress).tokens_per_s.round() as u64;
        assert_eq!(rate(at(0, 0)), 0);
        assert_eq!(rate(at(2, 200)), 100);
        assert_eq!(rate(at(5, 500)), 100);
        // The first five seconds no longer count.
        assert_eq!(rate(at(10, 2_000)), 300);
    }

    #[test]
    fn one_line_has_what_is_known() {
        let none = LiveMeasurement::default();
        assert_eq!(live_line(&none), "answered");
        let some = LiveMeasurement {
            issued: 30,
            ended: 6,
            failed: 1,
            tokens: 9_000,
            tokens_per_s: 1_204.4,
            ttft_ms: Some(147.2),
            tpot_ms: Some(9.41),
        };
        assert_eq!(
            live_line(&some),
            "answered, 1 failed, 24 in flight, 1,204 tok/s, mean TTFT 147 ms, TPOT 9.4 ms so far"
        );
    }
}
