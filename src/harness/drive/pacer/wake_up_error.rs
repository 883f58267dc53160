//! How late the kernel wakes a sleeping worker: learnt from each sleep.

use std::cell::Cell;
use std::time::Duration;

const AT_FIRST: Duration = Duration::from_micros(60);
const LEAST: Duration = Duration::from_micros(5);
/// A wake-up that is later has lost its core to something else, and no spin makes up for that.
const MOST: Duration = Duration::from_micros(250);
/// By how much one sleep moves the estimate. Up and down are 50 to 1, so that some 2 % of wake-ups are later.
const UP: Duration = Duration::from_micros(5);
const DOWN: Duration = Duration::from_nanos(100);

/// The time before an arrival at which a worker has to be awake.
pub(super) struct WakeUpError(Cell<Duration>);

impl Default for WakeUpError {
    fn default() -> Self {
        Self(Cell::new(AT_FIRST))
    }
}

impl WakeUpError {
    pub fn ahead(&self) -> Duration {
        self.0.get()
    }

    /// Takes how late a wake-up was.
    pub fn learn(&self, late: Duration) {
        let ahead = self.0.get();
        let moved = if late > ahead { ahead + UP } else { ahead.saturating_sub(DOWN) };
        self.0.set(moved.clamp(LEAST, MOST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_settles_where_few_wake_ups_are_later_and_keeps_its_bounds() {
        let error = WakeUpError::default();
        // 1 to 100 µs, each as often.
        for at in 0..20_000_u64 {
            error.learn(Duration::from_micros(at * 37 % 100 + 1));
        }
        assert!((94..=104).contains(&error.ahead().as_micros()), "{:?}", error.ahead());
        (0..10_000).for_each(|_| error.learn(Duration::from_secs(1)));
        assert_eq!(error.ahead(), MOST);
        (0..10_000).for_each(|_| error.learn(Duration::ZERO));
        assert_eq!(error.ahead(), LEAST);
    }
}
