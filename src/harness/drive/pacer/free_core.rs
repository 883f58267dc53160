//! Whether a core is free for a worker that spins: looked at before the load and while it runs, because a machine may fill up.

use base::files::{cores, read_text};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Between two looks, each of which takes some 20 µs.
const EVERY: Duration = Duration::from_millis(100);
/// With less time until the next arrival a look would make it late; after this many times `EVERY` without one it is taken anyway.
const ROOM: Duration = Duration::from_micros(200);
const OVERDUE: u32 = 10;
/// Looks that must find a free core, one after the other, before spinning goes on: once it stopped, it does not flicker.
const IN_A_ROW: u32 = 5;

/// What was seen of the machine's cores.
pub(super) struct FreeCore {
    cores: usize,
    looked: Cell<Instant>,
    /// Looks in a row that found a free core.
    in_a_row: Cell<u32>,
    looks: Cell<u32>,
    busy_looks: Cell<u32>,
}

impl FreeCore {
    /// None unless there is a core more than these workers and all that runs now need. One that spins would slow the server down
    /// otherwise, where it is on this machine.
    pub fn beside(workers: usize) -> Option<Self> {
        let cores = cores();
        running().is_some_and(|running| running + workers < cores).then(|| Self::of(cores))
    }

    pub(super) fn of(cores: usize) -> Self {
        Self {
            cores,
            looked: Cell::new(Instant::now()),
            in_a_row: Cell::new(IN_A_ROW),
            looks: Cell::default(),
            busy_looks: Cell::default(),
        }
    }

    /// Whether to spin; `left` is the time until the next arrival.
    pub fn is_free(&self, now: Instant, left: Duration) -> bool {
        let since = now.saturating_duration_since(self.looked.get());
        if since >= EVERY && (left >= ROOM || since >= EVERY * OVERDUE) {
            self.looked.set(now);
            self.see(running());
        }
        self.in_a_row.get() >= IN_A_ROW
    }

    /// Threads that run or are ready to, this one among them.
    fn see(&self, running: Option<usize>) {
        let is_free = running.is_some_and(|running| running < self.cores);
        self.looks.set(self.looks.get() + 1);
        self.busy_looks.set(self.busy_looks.get() + u32::from(!is_free));
        self.in_a_row.set(if is_free { self.in_a_row.get().saturating_add(1) } else { 0 });
    }

    /// Of the looks while the load ran, those that found all cores in use.
    pub fn busy_share(&self) -> f64 {
        f64::from(self.busy_looks.get()) / f64::from(self.looks.get().max(1))
    }
}

/// Threads of this machine that run or are ready to.
fn running() -> Option<usize> {
    let load = read_text("/proc/loadavg").ok()?;
    load.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_machine_has_a_core_free_for_as_many_workers_as_it_has_cores() {
        assert!(FreeCore::beside(cores()).is_none());
    }

    #[test]
    fn a_machine_that_fills_up_stops_the_spin_until_a_core_is_free_for_a_while() {
        let core = FreeCore::of(4);
        let is_free = || core.is_free(core.looked.get(), Duration::ZERO);
        assert!(is_free());
        core.see(Some(3));
        assert!(is_free());
        core.see(Some(4));
        assert!(!is_free());
        for _ in 1..IN_A_ROW {
            core.see(Some(1));
            assert!(!is_free());
        }
        core.see(Some(1));
        assert!(is_free());
        core.see(None);
        assert!(!is_free(), "nothing is known");
        assert!((core.busy_share() - 2.0 / 8.0).abs() < 1e-9);
    }

    #[test]
    fn a_look_is_not_taken_shortly_before_an_arrival_unless_it_is_overdue() {
        let core = FreeCore::of(usize::MAX);
        let later = |times: u32| core.looked.get() + EVERY * times;
        core.is_free(later(1), Duration::from_micros(50));
        assert_eq!(core.looks.get(), 0);
        core.is_free(later(1), Duration::from_millis(5));
        assert_eq!(core.looks.get(), 1);
        core.is_free(later(OVERDUE), Duration::from_micros(50));
        assert_eq!(core.looks.get(), 2);
    }
}
