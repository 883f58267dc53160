//! Waits for a point in time with the kernel's precision: a timerfd in the worker's own reactor, and a short spin at the end
//! where a core is free for it.
//!
//! tokio's timers are a wheel of 1 ms; they are good for time-outs, not for arrivals.

mod free_core;
mod shared_timer;
mod wake_up_error;

use std::cell::Cell;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use free_core::FreeCore;
pub(crate) use shared_timer::Alarms;
use wake_up_error::WakeUpError;

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

    /// Spins at the end of a wait, as long as a wake-up is late, when this many workers leave a core free, and while one is.
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
            Self { error: WakeUpError::default(), core: FreeCore::of(usize::MAX) }
        }
    }
}
