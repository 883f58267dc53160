//! Waits for a program that `duct` started, for a limited time.
//!
//! Not by `wait_timeout` of `duct`: it installs a handler of SIGCHLD that stays for good, and from then on the end of each command
//! would wake up the main thread.

use std::io;
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

use duct::Handle;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Its end and what it wrote; `None` if it still runs after `limit`, or if what it left behind holds its output open.
pub fn wait_within(handle: &Handle, limit: Duration) -> io::Result<Option<Output>> {
    /// From the end of the process to the end of its output.
    const PAUSE: Duration = Duration::from_millis(1);
    let begun = Instant::now();
    let left = || limit.saturating_sub(begun.elapsed());
    for pid in handle.pids() {
        await_end(pid.cast_signed(), left);
    }
    loop {
        let rest = left();
        if let Some(output) = handle.try_wait()? {
            return Ok(Some(output.clone()));
        }
        if rest.is_zero() {
            return Ok(None);
        }
        thread::sleep(PAUSE.min(rest));
    }
}

/// Blocks until a child has ended or no time is left. The caller looks which of them it was, and what an error here means.
fn await_end(pid: i32, left: impl Fn() -> Duration) {
    let Some(Ok(handle)) = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { return };
    loop {
        let Ok(rest) = Timespec::try_from(left()) else { return };
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&rest)) {
            Err(rustix::io::Errno::INTR) => {}
            _ => return,
        }
    }
}
