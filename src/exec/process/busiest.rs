//! Which process of this machine used most processor time while something else was measured.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, getpid};

use super::procfs;

/// More processes are not read: it is a note for a reader, and takes about 10 µs for each.
const MOST_PROCESSES: usize = 4_096;
/// Cores; a process that used less disturbs nothing.
const LEAST: f64 = 0.5;

/// The processor time of each process so far, in the kernel's ticks.
pub struct ProcessorTimes {
    at: Instant,
    ticks: HashMap<i32, u64>,
}

/// A process that was at work.
#[derive(Clone, Debug, PartialEq)]
pub struct BusyProcess {
    pub pid: i32,
    /// The name of its program; its arguments may have secrets.
    pub program: String,
    /// Cores that it kept busy, those of its finished children included.
    pub cores: f64,
}

impl ProcessorTimes {
    pub fn now() -> Self {
        let pids = procfs::all().into_iter().take(MOST_PROCESSES);
        let ticks = pids.filter_map(|pid| Some((pid, procfs::ticks_with_children(pid)?))).collect();
        Self { at: Instant::now(), ticks }
    }

    /// The process that used most since then, other than this one and its children: what a run starts is not what
    /// disturbs it. One that is new since then began with nothing.
    pub fn busiest(&self) -> Option<BusyProcess> {
        let seconds = self.at.elapsed().as_secs_f64();
        let this = Pid::as_raw(Some(getpid()));
        let own: HashSet<i32> = procfs::children_of(this).into_iter().chain([this]).collect();
        let used = |(pid, ticks): (i32, u64)| (pid, ticks.saturating_sub(self.ticks.get(&pid).copied().unwrap_or(0)));
        let others = Self::now().ticks.into_iter().filter(|(pid, _)| !own.contains(pid)).map(used);
        let (pid, ticks) = others.max_by_key(|(_, ticks)| *ticks)?;
        let cores = ticks as f64 / clock_ticks_per_second() as f64 / seconds;
        let command = procfs::command(pid);
        let program = command.split(' ').next().unwrap_or_default();
        let program = program.rsplit('/').next().unwrap_or_default().to_owned();
        (cores >= LEAST).then_some(BusyProcess { pid, program, cores })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a process that keeps a core busy")]
    fn a_process_that_keeps_a_core_busy_is_named() {
        let before = ProcessorTimes::now();
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let pid = child.id() as i32;
        // Other tests may be busier: whatever is named used at least as much as this child.
        let busiest = (0..100).find_map(|_| {
            std::thread::sleep(Duration::from_millis(100));
            before.busiest().filter(|_| procfs::ticks_with_children(pid).is_some_and(|ticks| ticks > 20))
        });
        child.kill().unwrap();
        child.wait().unwrap();
        let busiest = busiest.expect("a busy process");
        assert!(busiest.cores >= LEAST && !busiest.program.is_empty(), "{busiest:?}");
        assert!(busiest.pid != pid || busiest.program == "sh", "{busiest:?}");
    }
}
