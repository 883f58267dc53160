//! Replicas that fail and come back.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Every replica fails at random, independently of the others. Its requests begin again on other ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failures {
    /// Mean time from a start to the next failure, seconds.
    pub mean_time_between: f64,
    /// From a failure until it takes requests again, seconds.
    pub repair: f64,
}

/// When one replica fails or comes back next, nanoseconds.
pub(super) struct FailureTimes {
    failures: Option<Failures>,
    random: Pcg64,
    next: u64,
}

impl FailureTimes {
    pub(super) fn new(failures: Option<Failures>, seed: u64) -> Self {
        let mut times = Self { failures, random: Pcg64::seed_from_u64(seed ^ 0x6661_696c), next: u64::MAX };
        times.runs_from(0);
        times
    }

    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// It is up from now on: draws its next failure.
    pub(super) fn runs_from(&mut self, now: u64) {
        if let Some(failures) = self.failures {
            let seconds = -libm::log(1.0 - self.random.random::<f64>()) * failures.mean_time_between;
            self.next = now.saturating_add((seconds * 1e9) as u64);
        }
    }

    /// It fails now.
    pub(super) fn fails_at(&mut self, now: u64) {
        if let Some(failures) = self.failures {
            self.next = now.saturating_add((failures.repair * 1e9) as u64);
        }
    }
}
