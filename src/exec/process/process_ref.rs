//! The processes below one of ours: their identity, and whether they are still there.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::procfs;

/// A process below one of ours. Identifies it reliably: a process id alone may have been reused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRef {
    pub pid: i32,
    pub command: String,
    started: u64,
}

impl ProcessRef {
    fn of(pid: i32) -> Option<Self> {
        Some(Self { pid, command: procfs::command(pid), started: procfs::started(pid)? })
    }

    /// The name of its program.
    pub fn program(&self) -> &str {
        let first = self.command.split(' ').next().unwrap_or_default();
        first.rsplit('/').next().unwrap_or(first)
    }

    pub fn is_alive(&self) -> bool {
        procfs::started(self.pid) == Some(self.started) && procfs::stat(self.pid).is_some_and(|stat| !stat.zombie)
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
    procfs::children_of(pid).into_iter().filter_map(ProcessRef::of).collect()
}

/// All processes below a process, found from parent to child: cheap, but misses orphaned processes. A single scan may
/// miss a process, as with [`children`].
pub fn below(pid: i32) -> Vec<ProcessRef> {
    let mut found = Vec::new();
    let mut look = vec![pid];
    while let Some(parent) = look.pop() {
        for child in procfs::children_of(parent) {
            if let Some(process) = ProcessRef::of(child) {
                found.push(process);
                look.push(child);
            }
        }
    }
    found
}

/// The processor time that a process and all below it have used so far, in the kernel's ticks. It grows while any of them works.
pub fn processor_time(pid: i32) -> u64 {
    let below = below(pid).into_iter().map(|process| process.pid);
    below.chain([pid]).filter_map(procfs::processor_ticks).sum()
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
