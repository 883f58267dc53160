//! The processes below one of ours: their identity, and whether they are still there.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, test_kill_process_group, waitpgid,
};

use super::command::{Leftover, program_of};
use super::{orphans, procfs};

/// A process below one of ours. Identifies it reliably: a process id alone may have been reused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRef {
    pub pid: i32,
    pub command: String,
    started: u64,
}

impl ProcessRef {
    fn find(pid: i32) -> Option<Self> {
        Some(Self { pid, command: procfs::command(pid), started: procfs::started(pid)? })
    }

    /// The name of its program.
    pub fn program(&self) -> &str {
        program_of(&self.command)
    }

    pub fn is_alive(&self) -> bool {
        procfs::started(self.pid) == Some(self.started) && procfs::is_alive(self.pid)
    }

    /// A variable of the environment that it was started with.
    pub fn variable(&self, name: &str) -> Option<String> {
        procfs::variable(self.pid, name)
    }

    /// Sends it TERM, with its whole group if it leads one.
    pub fn terminate(&self) {
        let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.is_alive()) else { return };
        // ESRCH: it is gone, as intended.
        let _ = match procfs::stat(self.pid) {
            Some(stat) if stat.group == self.pid => kill_process_group(pid, Signal::TERM),
            _ => kill_process(pid, Signal::TERM),
        };
    }
}

/// The children of a process. If a thread of it ends meanwhile, some of them may be missing until the next call:
/// each thread has a list of its own, and the lists are read one after the other.
pub fn children(pid: i32) -> Vec<ProcessRef> {
    procfs::children_of(pid).into_iter().filter_map(ProcessRef::find).collect()
}

/// All processes below a process, found from parent to child: cheap, but misses orphaned processes. A single scan may
/// miss a process, as with [`children`].
pub fn below(pid: i32) -> Vec<ProcessRef> {
    let mut descendants = Vec::new();
    let mut look = vec![pid];
    while let Some(parent) = look.pop() {
        for child in procfs::children_of(parent) {
            if let Some(process) = ProcessRef::find(child) {
                descendants.push(process);
                look.push(child);
            }
        }
    }
    descendants
}

/// The processor time that a process and all below it have used so far, in the kernel's ticks. It grows while any of
/// them works.
pub fn processor_time(pid: i32) -> u64 {
    let below = below(pid).into_iter().map(|process| process.pid);
    below.chain([pid]).filter_map(procfs::processor_ticks).sum()
}

// Everything that one command started: its process group, and what left the group but carries its mark.

/// How long we wait for a killed process to be gone before we give up on it (it hangs in the kernel then).
const HOPELESS: Duration = Duration::from_secs(10);

/// A process group and the mark in the environment of its members.
#[derive(Clone, Debug)]
pub struct ProcessGroup {
    pub group: Pid,
    pub mark: String,
}

impl ProcessGroup {
    /// Sends a signal to the group. Sound only while its leader has not been reaped.
    pub fn signal(&self, signal: Signal) {
        // ESRCH: it is gone, as intended.
        let _ = kill_process_group(self.group, signal);
    }

    /// Whether any process may be left, cheaply. Call it after the leader has been reaped.
    fn may_be_left(&self) -> bool {
        let has_members = || test_kill_process_group(self.group).is_ok();
        let mut is_left = has_members();
        // A dead member that came to us is in the group until it is reaped.
        if is_left {
            while let Ok(Some(_)) = waitpgid(self.group, WaitOptions::NOHANG) {}
            is_left = has_members();
        }
        let has_mark = |pid: &i32| procfs::variable(*pid, orphans::MARK).is_some_and(|mark| mark == self.mark);
        is_left || orphans::adopted().iter().any(has_mark)
    }

    /// All processes that are left and alive: looks at all processes.
    fn live_pids(&self) -> Vec<i32> {
        orphans::adopted();
        let group = Pid::as_raw(Some(self.group));
        live_pids(|pid, stat| {
            stat.group == group || procfs::variable(pid, orphans::MARK).is_some_and(|mark| mark == self.mark)
        })
    }

    /// Ends all processes that are left, and names them.
    pub async fn end(&self, grace: Duration) -> Vec<Leftover> {
        if self.may_be_left() { end(|| self.live_pids(), grace).await } else { Vec::new() }
    }
}

/// The living processes, other than this one, that belong: looks at all processes.
pub fn live_pids(belongs: impl Fn(i32, procfs::ProcessStat) -> bool) -> Vec<i32> {
    let me = Pid::as_raw(Some(getpid()));
    let mut pids = procfs::all();
    pids.retain(|&pid| pid != me && procfs::stat(pid).is_some_and(|stat| !stat.zombie && belongs(pid, stat)));
    pids
}

/// Ends all that `living` finds: TERM to each, KILL after the grace, until it finds none. Returns the processes found.
pub async fn end(living: impl Fn() -> Vec<i32>, grace: Duration) -> Vec<Leftover> {
    let mut ending = TerminationProgress::new(grace);
    while let Some(pause) = ending.round(living()) {
        tokio::time::sleep(pause).await;
    }
    ending.found()
}

/// Like `end`, without a runtime.
pub fn end_blocking(living: impl Fn() -> Vec<i32>, grace: Duration) -> Vec<Leftover> {
    let mut ending = TerminationProgress::new(grace);
    while let Some(pause) = ending.round(living()) {
        std::thread::sleep(pause);
    }
    ending.found()
}

/// How far the ending of some processes is.
struct TerminationProgress {
    found: BTreeMap<i32, String>,
    started: Instant,
    grace: Duration,
    pause: Duration,
}

impl TerminationProgress {
    fn new(grace: Duration) -> Self {
        Self { found: BTreeMap::new(), started: Instant::now(), grace, pause: Duration::from_millis(1) }
    }

    /// Signals the living processes; returns how long to wait before the next look, `None` when it has finished.
    fn round(&mut self, living: Vec<i32>) -> Option<Duration> {
        let elapsed = self.started.elapsed();
        if living.is_empty() || elapsed > self.grace + HOPELESS {
            return None;
        }
        for raw in living {
            let Some(pid) = Pid::from_raw(raw) else { continue };
            let new = !self.found.contains_key(&raw);
            // A process that was already ending by itself was not left running.
            if new && procfs::stat(raw).is_some_and(|stat| !stat.leaving) {
                self.found.insert(raw, procfs::command(raw));
            }
            if elapsed >= self.grace {
                let _ = kill_process(pid, Signal::KILL);
            } else if new {
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(Duration::from_millis(50));
        Some(pause)
    }

    fn found(self) -> Vec<Leftover> {
        self.found.into_iter().map(|(pid, command)| Leftover { pid, command }).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::process::id;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_child_is_known_by_name_and_known_to_be_gone() {
        let child = duct::cmd("sleep", ["1000"]).unchecked().start().unwrap();
        let pid = child.pids()[0] as i32;
        // Its parent is one of our threads, and other tests' threads end while we look. `posix_spawn` may return
        // before the new program has its command line.
        let is_it = |process: &ProcessRef| process.pid == pid && process.program() == "sleep";
        let instant = Instant::now();
        let process = loop {
            if let Some(process) = below(id() as i32).into_iter().find(is_it) {
                break process;
            }
            assert!(instant.elapsed() < Duration::from_mins(1), "{pid} is not seen below us");
            std::thread::yield_now();
        };
        assert!(process.is_alive());
        process.terminate();
        child.wait().unwrap();
        assert!(!process.is_alive());
    }
}
