//! What a benchmark shows of itself while it measures.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use base::event::LiveMeasurement;
use base::units::{grouped, three_digits};
use harness::BenchProgress;

/// The time over which tokens per second are counted.
const WINDOW: Duration = Duration::from_secs(5);

/// Follows the progress of one measurement.
#[derive(Debug, Default)]
pub(super) struct LiveNumbers {
    /// When this many tokens had arrived, over the last [`WINDOW`].
    arrived: VecDeque<(Instant, u64)>,
    /// When this many requests had ended, over the last [`WINDOW`].
    ended: VecDeque<(Instant, u64)>,
    /// When the first request was sent, about.
    begun: Option<Instant>,
    /// The schedule lasts at least this long.
    duration: Option<Duration>,
    gpus: Option<u32>,
}

impl LiveNumbers {
    pub fn new(duration: Option<Duration>, gpus: Option<u32>) -> Self {
        Self { duration, gpus, ..Self::default() }
    }

    pub fn take(&mut self, now: Instant, progress: &BenchProgress) -> LiveMeasurement {
        let tokens_per_s = rate(&mut self.arrived, now, progress.tokens);
        let requests_per_s = rate(&mut self.ended, now, progress.ended);
        if progress.issued > 0 {
            self.begun.get_or_insert(now);
        }
        let remaining_s = self.remaining(now, progress, requests_per_s);
        LiveMeasurement {
            issued: progress.issued,
            ended: progress.ended,
            failed: progress.failed,
            tokens: progress.tokens,
            tokens_per_s,
            ttft_ms: progress.ttft_ms,
            // It exists from the second token of an answer on.
            tpot_ms: progress.tpot_ms.filter(|ms| *ms > 0.0),
            gpus: self.gpus,
            remaining_s,
        }
    }

    /// What is left of the schedule's time, or of its requests at the pace of the last seconds, whichever is longer.
    /// With no pace yet it is not known.
    fn remaining(&self, now: Instant, progress: &BenchProgress, requests_per_s: f64) -> Option<f64> {
        let elapsed = now.duration_since(self.begun?);
        let of_time = self.duration.map(|duration| duration.saturating_sub(elapsed).as_secs_f64());
        // Users that send for a time have as many requests as were sent: no number to count down to before that time is
        // over.
        let is_over = of_time.is_none_or(|time| time <= 0.0);
        let has_count = progress.scheduled > progress.issued || is_over;
        let left = progress.scheduled.saturating_sub(progress.ended) as f64;
        let of_requests = (has_count && requests_per_s > 0.0).then(|| left / requests_per_s);
        match (of_time, of_requests) {
            (Some(time), Some(requests)) => Some(time.max(requests)),
            (time, requests) => time.or(requests),
        }
    }
}

/// Per second over the last [`WINDOW`].
fn rate(seen: &mut VecDeque<(Instant, u64)>, now: Instant, count: u64) -> f64 {
    seen.push_back((now, count));
    while seen.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= WINDOW) {
        seen.pop_front();
    }
    seen.front().map_or(0.0, |(at, before)| {
        let seconds = now.duration_since(*at).as_secs_f64();
        if seconds > 0.0 { count.saturating_sub(*before) as f64 / seconds } else { 0.0 }
    })
}

/// One line, with what matters most first, for a terminal of 80 columns: `6/30 answered, ~8 s left, 1,204 tok/s, mean
/// TTFT 47 ms, TPOT 9.40 ms, 24 in flight`. `scheduled`: how many requests there are to answer. `later`: how long the
/// points of a sweep take that follow this one.
pub(super) fn live_line(live: &LiveMeasurement, scheduled: u64, later: Option<Duration>) -> String {
    let mut parts = vec![format!("{}/{scheduled} answered", live.ended)];
    if live.failed > 0 {
        parts.push(format!("{} failed", live.failed));
    }
    let in_all = if later.is_some() { " in all" } else { "" };
    let later = later.unwrap_or_default().as_secs_f64();
    parts.extend(live.remaining_s.map(|seconds| format!("~{} left{in_all}", time_left(seconds + later))));
    if live.issued > 0 {
        let each = live.tokens_per_s_per_gpu().filter(|_| live.gpus != Some(1));
        let each = each.map_or_else(String::new, |each| format!(" ({} per GPU)", grouped(each, 0)));
        parts.push(format!("{} tok/s{each}", grouped(live.tokens_per_s, 0)));
    }
    let means = [("TTFT", live.ttft_ms), ("TPOT", live.tpot_ms)];
    let means: Vec<String> =
        means.iter().filter_map(|(name, mean)| Some(format!("{name} {} ms", three_digits((*mean)?)))).collect();
    if !means.is_empty() {
        parts.push(format!("mean {}", means.join(", ")));
    }
    if live.issued > 0 {
        parts.push(format!("{} in flight", live.in_flight()));
    }
    parts.join(", ")
}

/// Whole seconds, from ten minutes on whole minutes: it is an estimate.
fn time_left(seconds: f64) -> String {
    match seconds.ceil() as u64 {
        seconds if seconds < 60 => format!("{seconds} s"),
        seconds if seconds < 600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
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
    fn the_time_left_is_that_of_the_schedule_or_of_its_requests() {
        let begin = Instant::now();
        let at = |numbers: &mut LiveNumbers, seconds: u64, scheduled: u64, issued: u64, ended: u64| {
            let progress = BenchProgress { scheduled, issued, ended, ..BenchProgress::default() };
            numbers.take(begin + Duration::from_secs(seconds), &progress).remaining_s.map(f64::round)
        };
        // A number of requests, at the pace of the last five seconds.
        let mut counted = LiveNumbers::default();
        assert_eq!(at(&mut counted, 0, 100, 8, 0), None, "no pace yet");
        assert_eq!(at(&mut counted, 2, 100, 18, 10), Some(18.0));
        assert_eq!(at(&mut counted, 7, 100, 68, 60), Some(4.0));
        // Users that send for 30 s.
        let mut timed = LiveNumbers::new(Some(Duration::from_secs(30)), None);
        assert_eq!(at(&mut timed, 0, 8, 8, 0), Some(30.0));
        assert_eq!(at(&mut timed, 12, 88, 88, 80), Some(18.0));
        // The time is over, and 24 answers are not.
        assert_eq!(at(&mut timed, 31, 208, 208, 184), Some(4.0));
        // A rate for 30 s on a server that is behind: 300 requests, of which it has answered 50 in 10 s.
        let mut behind = LiveNumbers::new(Some(Duration::from_secs(30)), None);
        at(&mut behind, 0, 300, 1, 0);
        at(&mut behind, 5, 300, 50, 25);
        assert_eq!(at(&mut behind, 10, 300, 100, 50), Some(50.0));
    }

    #[test]
    fn one_line_has_what_is_known() {
        let none = LiveMeasurement::default();
        assert_eq!(live_line(&none, 30, None), "0/30 answered");
        let some = LiveMeasurement {
            issued: 30,
            ended: 6,
            failed: 1,
            tokens: 9_000,
            tokens_per_s: 1_204.4,
            ttft_ms: Some(147.2),
            tpot_ms: Some(9.41),
            gpus: Some(4),
            remaining_s: Some(63.2),
        };
        assert_eq!(
            live_line(&some, 30, None),
            "6/30 answered, 1 failed, ~1 min 04 s left, 1,204 tok/s (301 per GPU), mean TTFT 147 ms, TPOT 9.41 ms, \
             24 in flight"
        );
        let later = Some(Duration::from_mins(2));
        assert!(live_line(&some, 30, later).contains(", ~3 min 04 s left in all, "));
        let mut numbers = LiveNumbers::default();
        let before_a_second_token = BenchProgress { tpot_ms: Some(0.0), issued: 1, ..BenchProgress::default() };
        assert_eq!(numbers.take(Instant::now(), &before_a_second_token).tpot_ms, None);
        assert_eq!(time_left(3_000.1), "51 min");
    }
}
