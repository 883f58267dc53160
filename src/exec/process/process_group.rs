//! Everything that one command started: its process group, and what left the group but carries its mark.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, test_kill_process_group, waitpgid,
};

use super::command::Leftover;
use super::{orphans, procfs};

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
        while let Ok(Some(_)) = waitpgid(self.group, WaitOptions::NOHANG) {}
        test_kill_process_group(self.group).is_ok()
            || orphans::adopted()
                .iter()
                .any(|&pid| procfs::variable(pid, orphans::MARK).is_some_and(|mark| mark == self.mark))
    }

    /// All processes that are left and alive: looks at all processes.
    fn live_pids(&self) -> Vec<i32> {
        orphans::adopted();
        let me = Pid::as_raw(Some(getpid()));
        let group = Pid::as_raw(Some(self.group));
        let ours = |&pid: &i32| {
            pid != me
                && procfs::stat(pid).is_some_and(|stat| {
                    !stat.zombie
                        && (stat.group == group
                            || procfs::variable(pid, orphans::MARK).is_some_and(|mark| mark == self.mark))
                })
        };
        procfs::all().into_iter().filter(ours).collect()
    }

    /// Ends all processes that are left, and names them.
    pub async fn end(&self, grace: Duration) -> Vec<Leftover> {
        if self.may_be_left() { end(|| self.live_pids(), grace).await } else { Vec::new() }
    }
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
