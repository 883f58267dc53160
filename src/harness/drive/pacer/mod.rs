//! Waits for a point in time with the kernel's precision: a timerfd in the worker's own reactor, no spinning.
//!
//! tokio's timers are a wheel of 1 ms; they are good for time-outs, not for arrivals.

mod shared_timer;

use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

pub(in crate::harness) use shared_timer::Alarms;

pub(in crate::harness) const KIND: &str = "timerfd in the worker, no spin";

pub(in crate::harness) struct Pacer {
    timer: AsyncFd<OwnedFd>,
}

impl Pacer {
    /// Belongs to the thread (its timer slack becomes 1 ns) and to the reactor it is called in.
    pub fn new() -> io::Result<Self> {
        // Refused in some sandboxes; then the default slack of 50 µs stays and shows in the recorded lag.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        // It is deprecated because a descriptor type can close early or return a different descriptor at each
        // call; `OwnedFd` does neither, and the sound replacement needs `unsafe`, which this crate forbids.
        #[expect(deprecated, reason = "sound for OwnedFd")]
        let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
        Ok(Self { timer })
    }

    /// Returns at once when `due` has passed.
    pub async fn until(&self, due: Instant) -> io::Result<()> {
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let spec = Itimerspec {
                it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
                it_value: Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() },
            };
            timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::empty(), &spec)?;
            let mut ready = self.timer.readable().await?;
            let mut expirations = [0u8; 8];
            // An expiry that was cleared by setting the timer again reads EAGAIN: then wait again.
            let _ = ready.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut expirations)?));
        }
    }
}
