//! An instant that is comparable between two processes of one machine.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// ns of `CLOCK_MONOTONIC`, by which `Instant` counts. Steps of the wall clock cannot enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MonotonicTime(u64);

impl MonotonicTime {
    pub fn of(instant: Instant) -> Self {
        let ago = u64::try_from(instant.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Self(now().saturating_sub(ago))
    }

    /// None: before this machine counts.
    pub fn instant(self) -> Option<Instant> {
        Instant::now().checked_sub(Duration::from_nanos(now().saturating_sub(self.0)))
    }
}

fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_comes_back() {
        let then = Instant::now().checked_sub(Duration::from_mins(1)).unwrap();
        let back = MonotonicTime::of(then).instant().unwrap();
        let apart = back.max(then).duration_since(back.min(then));
        assert!(apart < Duration::from_secs(30), "{apart:?}");
    }
}
