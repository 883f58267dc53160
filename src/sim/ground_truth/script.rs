//! When each token comes: a pure function of the seed, the request and the token.

use std::time::Duration;

use crate::random::mix;

/// Times are drawn evenly between the two ends, in ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResponseScript {
    pub seed: u64,
    /// From a request's arrival to its first token.
    pub first_ms: (f64, f64),
    /// From token to token.
    pub gap_ms: (f64, f64),
}

impl ResponseScript {
    pub(super) fn drawn(&self, id: u64, token: u32, (low, high): (f64, f64)) -> Duration {
        let bits = mix(self.seed ^ mix(id ^ mix(u64::from(token))));
        // 53 bits are what a float between 0 and 1 can hold.
        let share = (bits >> 11) as f64 / (1u64 << 53) as f64;
        Duration::from_secs_f64((low + share * (high - low)).max(0.0) / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_a_pure_function_within_its_bounds() {
        let script = ResponseScript { seed: 7, first_ms: (20.0, 60.0), gap_ms: (2.0, 10.0) };
        let drawn: Vec<Duration> = (0..1000).map(|id| script.drawn(id, 0, script.first_ms)).collect();
        assert!(drawn.iter().all(|time| (20.0..60.0).contains(&(time.as_secs_f64() * 1e3))));
        assert_eq!(drawn[3], script.drawn(3, 0, script.first_ms));
        let mean = drawn.iter().map(Duration::as_secs_f64).sum::<f64>();
        assert!((mean - 40.0).abs() < 1.0, "1000 times the mean in seconds is the mean in ms: {mean}");
        assert_ne!(script.drawn(3, 1, script.gap_ms), script.drawn(3, 2, script.gap_ms));
    }
}
