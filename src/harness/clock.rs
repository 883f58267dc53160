//! One monotonic clock for all workers: ns since the run was set up. Records are shifted so that 0 is the start.

use std::time::{Duration, Instant};

/// `Instant` is `CLOCK_MONOTONIC`, so steps of the wall clock cannot enter.
#[derive(Clone, Copy, Debug)]
pub(super) struct BenchClock {
    origin: Instant,
}

impl BenchClock {
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    pub fn now(self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub fn at(self, instant: Instant) -> u64 {
        u64::try_from(instant.saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }

    pub fn instant(self, ns: u64) -> Instant {
        self.origin + Duration::from_nanos(ns)
    }
}
