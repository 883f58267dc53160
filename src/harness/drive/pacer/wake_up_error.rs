//! How late the kernel wakes a sleeping worker: learned from each sleep.

use std::cell::Cell;
use std::time::Duration;

const AT_FIRST: Duration = Duration::from_micros(60);
const LEAST: Duration = Duration::from_micros(5);
/// A wake-up that is later has lost its core to something else, and no spin makes up for that.
const MOST: Duration = Duration::from_millis(2);
/// The longest spin before an arrival: this, or that part of a long wait, because a core that was idle for long wakes up later.
const MOST_OF_ANY_WAIT: Duration = Duration::from_micros(250);
const PART_OF_WAIT: u32 = 20;
/// A wake-up later than the estimate sets the estimate to its lateness and a quarter more; each other one lowers it by 1/500. So about
/// one wake-up in a hundred is later than the estimate, and a single late one is forgotten after a few hundred.
const RAISED_BY: u32 = 4;
const LOWERED_BY: u32 = 500;

/// The time before an arrival at which a worker has to be awake.
pub(super) struct WakeUpError(Cell<Duration>);

impl Default for WakeUpError {
    fn default() -> Self {
        Self(Cell::new(AT_FIRST))
    }
}

impl WakeUpError {
    /// What was learned.
    pub fn ahead(&self) -> Duration {
        self.0.get()
    }

    /// How much of a wait to spin.
    pub fn spin_of(&self, wait: Duration) -> Duration {
        self.0.get().min((wait / PART_OF_WAIT).max(MOST_OF_ANY_WAIT))
    }

    /// Takes how late a wake-up was.
    pub fn learn(&self, late: Duration) {
        let ahead = self.0.get();
        let moved = if late > ahead { late + late / RAISED_BY } else { ahead.saturating_sub(ahead / LOWERED_BY) };
        self.0.set(moved.clamp(LEAST, MOST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_wake_ups_are_later_than_what_was_learned() {
        let error = WakeUpError::default();
        let mut later = 0;
        // 1 to 100 µs, each as often.
        for at in 0..20_000_u64 {
            let late = Duration::from_micros(at * 37 % 100 + 1);
            later += u32::from(late > error.ahead());
            error.learn(late);
        }
        assert!((95..=125).contains(&error.ahead().as_micros()), "{:?}", error.ahead());
        assert!(later < 400, "{later} of 20,000");
    }

    #[test]
    fn it_keeps_its_bounds_and_forgets() {
        let error = WakeUpError::default();
        error.learn(Duration::from_secs(1));
        assert_eq!(error.ahead(), MOST);
        for (wait_ms, spin) in [(1, MOST_OF_ANY_WAIT), (10, Duration::from_micros(500)), (50, MOST)] {
            assert_eq!(error.spin_of(Duration::from_millis(wait_ms)), spin);
        }
        (0..500).for_each(|_| error.learn(Duration::ZERO));
        assert!(error.ahead() < MOST / 2);
        (0..10_000).for_each(|_| error.learn(Duration::ZERO));
        assert_eq!(error.ahead(), LEAST);
    }
}
