//! Waits for a point in time with the kernel's precision: a timerfd in the worker's own reactor, and a short spin at
//! the end where a core is free for it.
//!
//! tokio's timers are a wheel of 1 ms; they are good for time-outs, not for arrivals.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, oneshot};

use base::files::{cores, read_text};

/// A turn of a spin that did no work takes less: it asks the reactor for events and gets none.
const IDLE_TURN: Duration = Duration::from_micros(5);

pub(crate) struct Pacer {
    timer: AsyncFd<OwnedFd>,
    /// Set where the end of a wait is spun.
    spin: Option<Spin>,
    /// Time of turns without work.
    spun: Cell<Duration>,
}

/// How long before an arrival a spin begins, and whether there is a core for it.
struct Spin {
    error: WakeUpError,
    core: FreeCore,
}

impl Pacer {
    /// Sleeps only. Belongs to the thread (its timer slack becomes 1 ns) and to the reactor it is called in.
    pub fn new() -> io::Result<Self> {
        // Refused in some sandboxes; then the default slack of 50 µs stays and shows in the recorded lag.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        // It is deprecated because a descriptor type can close early or return a different descriptor at each
        // call; `OwnedFd` does neither, and the sound replacement needs `unsafe`, which this crate forbids.
        #[expect(deprecated, reason = "sound for OwnedFd")]
        let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
        Ok(Self { timer, spin: None, spun: Cell::default() })
    }

    /// Spins at the end of a wait, as long as a wake-up is late, when this many workers leave a core free, and while
    /// one is.
    pub fn for_arrivals(workers: usize) -> io::Result<Self> {
        let spin = FreeCore::beside(workers).map(|core| Spin { error: WakeUpError::default(), core });
        Ok(Self { spin, ..Self::new()? })
    }

    /// How arrivals are timed, in readable form.
    pub fn kind(&self) -> String {
        let Some(Spin { error, core }) = &self.spin else { return "timerfd in the worker, no spin".to_owned() };
        let us = error.ahead().as_nanos().div_ceil(1_000);
        let busy = match core.busy_share() * 100.0 {
            share if share > 0.0 => format!(", except while no core was free ({share:.0} % of looks)"),
            _ => String::new(),
        };
        format!("timerfd in the worker, spins for the last {us} µs{busy}")
    }

    /// Time that was spun away, and would be idle without. It is CPU time, but not of the load.
    pub fn spun(&self) -> Duration {
        self.spun.get()
    }

    /// Returns at once when `due` has passed.
    pub async fn until(&self, due: Instant) -> io::Result<()> {
        let mut turn: Option<Instant> = None;
        let wait = due.saturating_duration_since(Instant::now());
        loop {
            let now = Instant::now();
            if let Some(took) = turn.take().map(|since| now - since).filter(|took| *took < IDLE_TURN) {
                self.spun.set(self.spun.get() + took);
            }
            let left = due.saturating_duration_since(now);
            if left.is_zero() {
                return Ok(());
            }
            let spin = self.spin.as_ref().filter(|spin| spin.core.is_free(now, left));
            let ahead = spin.map_or(Duration::ZERO, |spin| spin.error.spin_of(wait));
            let Some(sleep) = left.checked_sub(ahead).filter(|sleep| !sleep.is_zero()) else {
                // Through the reactor: answers are read meanwhile.
                turn = Some(now);
                tokio::task::yield_now().await;
                continue;
            };
            self.sleep(sleep).await?;
            if let Some(Spin { error, .. }) = &self.spin {
                error.learn(now.elapsed().saturating_sub(sleep));
            }
        }
    }

    async fn sleep(&self, time: Duration) -> io::Result<()> {
        let spec = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() },
        };
        timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::empty(), &spec)?;
        loop {
            let mut ready = self.timer.readable().await?;
            let mut expirations = [0u8; 8];
            // An expiry that was cleared by setting the timer again reads EAGAIN: then wait again.
            if ready.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut expirations)?)).is_ok() {
                return Ok(());
            }
        }
    }
}

// Many waiters on one timer: users in their think time, and turns that pause.

#[derive(Default)]
pub(crate) struct Alarms {
    set: RefCell<BinaryHeap<Reverse<Alarm>>>,
    /// Notified when a new alarm becomes the earliest.
    earlier: Notify,
    count: Cell<u64>,
}

struct Alarm {
    due: Instant,
    /// Alarms of the same time fire in the order in which they were set.
    number: u64,
    wake: oneshot::Sender<()>,
}

impl Ord for Alarm {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

impl PartialOrd for Alarm {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Alarm {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Alarm {}

impl Alarms {
    /// Wakes waiters when their time comes; never returns without an error.
    pub async fn run(&self, pacer: &Pacer) -> io::Result<std::convert::Infallible> {
        loop {
            let first = self.set.borrow().peek().map(|Reverse(alarm)| alarm.due);
            let Some(due) = first else {
                self.earlier.notified().await;
                continue;
            };
            tokio::select! {
                waited = pacer.until(due) => waited?,
                () = self.earlier.notified() => continue,
            }
            let now = Instant::now();
            let mut set = self.set.borrow_mut();
            while set.peek().is_some_and(|Reverse(alarm)| alarm.due <= now) {
                if let Some(Reverse(alarm)) = set.pop() {
                    // A waiter that was dropped needs no wake-up.
                    let _ = alarm.wake.send(());
                }
            }
        }
    }

    /// Returns at once when `due` has passed.
    pub async fn until(&self, due: Instant) {
        if due <= Instant::now() {
            return;
        }
        let (sender, receiver) = oneshot::channel();
        let number = self.count.get();
        self.count.set(number + 1);
        let is_first = self.set.borrow().peek().is_none_or(|Reverse(alarm)| due < alarm.due);
        self.set.borrow_mut().push(Reverse(Alarm { due, number, wake: sender }));
        if is_first {
            self.earlier.notify_one();
        }
        // An error would mean that `run` has ended, and then the task that waits here ends too.
        let _ = receiver.await;
    }
}

// Whether a core is free for a worker that spins: looked at before the load and while it runs, because a machine may
// fill up.

/// Between two looks, each of which takes some 20 µs.
const EVERY: Duration = Duration::from_millis(100);
/// With less time until the next arrival a look would make it late; after this many times `EVERY` without one it is
/// taken anyway.
const ROOM: Duration = Duration::from_micros(200);
const OVERDUE: u32 = 10;
/// Looks that must find a free core, one after the other, before spinning goes on: once it stopped, it does not
/// flicker.
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
    /// None unless there is a core more than these workers and all that runs now need. One that spins would slow the
    /// server down otherwise, where it is on this machine.
    pub fn beside(workers: usize) -> Option<Self> {
        let cores = cores();
        running().is_some_and(|running| running + workers < cores).then(|| Self::new(cores))
    }

    pub(super) fn new(cores: usize) -> Self {
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

// How late the kernel wakes a sleeping worker: learned from each sleep.

const AT_FIRST: Duration = Duration::from_micros(60);
const LEAST: Duration = Duration::from_micros(5);
/// A wake-up that is later has lost its core to something else, and no spin makes up for that.
const MOST: Duration = Duration::from_millis(2);
/// The longest spin before an arrival: this, or that part of a long wait, because a core that was idle for long wakes
/// up later.
const MOST_OF_ANY_WAIT: Duration = Duration::from_micros(250);
const PART_OF_WAIT: u32 = 20;
/// A wake-up later than the estimate sets the estimate to its lateness and a quarter more; each other one lowers it by
/// 1/500. So about one wake-up in a hundred is later than the estimate, and a single late one is forgotten after a few
/// hundred.
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

    #[tokio::test]
    async fn no_wait_ends_early_with_a_spin_or_without() {
        let spins = Pacer { spin: Some(Spin::always()), ..Pacer::new().unwrap() };
        for pacer in [Pacer::new().unwrap(), spins] {
            for us in [0, 5, 80, 700, 3_000] {
                let due = Instant::now() + Duration::from_micros(us);
                pacer.until(due).await.unwrap();
                assert!(Instant::now() >= due);
            }
            assert!(pacer.spun() <= Duration::from_millis(4));
            assert!(pacer.spin.is_some() || pacer.spun().is_zero());
        }
    }

    #[test]
    fn a_spin_is_reported() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let kind = |spin| Pacer { spin, ..Pacer::new().unwrap() }.kind();
        assert_eq!(kind(None), "timerfd in the worker, no spin");
        assert_eq!(kind(Some(Spin::always())), "timerfd in the worker, spins for the last 60 µs");
    }

    impl Spin {
        fn always() -> Self {
            Self { error: WakeUpError::default(), core: FreeCore::new(usize::MAX) }
        }
    }
}

#[cfg(test)]
mod shared_timer_tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn every_alarm_rings_and_none_early() {
        let alarms = Alarms::default();
        let pacer = Pacer::new().unwrap();
        let start = Instant::now();
        let rung = RefCell::new(Vec::new());
        let wait = async |ms: u64| {
            let due = start + Duration::from_millis(ms);
            alarms.until(due).await;
            assert!(Instant::now() >= due);
            rung.borrow_mut().push(ms);
        };
        let waits = async { tokio::join!(wait(30), wait(10), wait(0), wait(20), wait(10)) };
        tokio::select! {
            _ = alarms.run(&pacer) => unreachable!("alarms ring for ever"),
            _ = waits => {}
        }
        rung.borrow_mut().sort_unstable();
        assert_eq!(*rung.borrow(), [0, 10, 10, 20, 30]);
    }
}

#[cfg(test)]
mod free_core_tests {
    use super::*;

    #[test]
    fn no_machine_has_a_core_free_for_as_many_workers_as_it_has_cores() {
        assert!(FreeCore::beside(cores()).is_none());
    }

    #[test]
    fn a_machine_that_fills_up_stops_the_spin_until_a_core_is_free_for_a_while() {
        let core = FreeCore::new(4);
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
        let core = FreeCore::new(usize::MAX);
        let later = |times: u32| core.looked.get() + EVERY * times;
        core.is_free(later(1), Duration::from_micros(50));
        assert_eq!(core.looks.get(), 0);
        core.is_free(later(1), Duration::from_millis(5));
        assert_eq!(core.looks.get(), 1);
        core.is_free(later(OVERDUE), Duration::from_micros(50));
        assert_eq!(core.looks.get(), 2);
    }
}

#[cfg(test)]
mod wake_up_error_tests {
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
