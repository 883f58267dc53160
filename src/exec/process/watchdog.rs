//! Cleans up when the runner itself is killed.
//!
//! A runner that gets KILL cannot stop its children, and asking the kernel to do it (`PR_SET_PDEATHSIG`) would need a
//! hook in every child. So each run has one watchdog: a second process of our own program, in its own process group,
//! that reads the run's process groups from a pipe. When the pipe ends without a `bye`, the runner is gone; the
//! watchdog then ends every registered group, and everything on the machine with the run's name in its environment (that
//! covers processes that left their group, and processes that were started but not yet registered).
//!
//! The watchdog holds the project's lock as its standard output, so no other run starts before it is done.

use std::collections::BTreeSet;
use std::io::{self, BufRead};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, getpid};
use tokio::signal::unix::{SignalKind, signal};

use super::command::Leftover;
use super::external_resource::remove_all;
use super::process_group::end_blocking;
use super::procfs;
use base::event::{ExternalResource, RunId};

/// The variable that names the project's state folder.
pub const HOME: &str = "REGATTA_HOME";
/// The variable that names the run.
pub const RUN: &str = "REGATTA_RUN";
/// The variable that names the task: `<run>/<task>/<attempt>`.
pub const TASK: &str = "REGATTA_TASK";

/// From TERM to KILL, for processes without a runner.
const GRACE: Duration = Duration::from_secs(1);

/// The watchdog's whole life. Returns when the run sent `bye`, or when nothing of it is left. What a run that sends `bye` could not
/// remove is tried once more.
pub fn run_watchdog(run: &str, orders: impl BufRead) -> io::Result<()> {
    // Signals for the runner must not end the watchdog that cleans up after it; handlers stay for good once installed.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _ignored = {
        let _inside = runtime.enter();
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()].map(signal)
    };
    match watch(orders) {
        RunnerExit::Bye(external_resources) => drop(remove_all(&external_resources)),
        RunnerExit::Alone(WatchdogRegistry { groups, external_resources }) => {
            // First, while the programs that know their processes can still find them.
            remove_all(&external_resources);
            // A process that forks while we look at all of them can slip through one look, not through several.
            for _ in 0..3 {
                if end_blocking(|| belonging(run, &groups), GRACE).is_empty() {
                    break;
                }
            }
            // Shared memory can come back for as long as there is a process to make it.
            remove_all(&external_resources);
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum RunnerExit {
    /// It has ended in order; these were still registered.
    Bye(BTreeSet<ExternalResource>),
    /// The runner is gone; these were still registered.
    Alone(WatchdogRegistry),
}

#[derive(Debug, Default, PartialEq, Eq)]
struct WatchdogRegistry {
    groups: BTreeSet<i32>,
    external_resources: BTreeSet<ExternalResource>,
}

fn watch(mut orders: impl BufRead) -> RunnerExit {
    let mut left = WatchdogRegistry::default();
    let mut pauses = Pauses::new();
    // Each order is one write of a few bytes, which a pipe takes whole or not at all (PIPE_BUF, pipe(7)); a read may cut it.
    let mut cut: Vec<u8> = Vec::new();
    loop {
        let read = match orders.fill_buf() {
            Ok([]) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        let length = read.len();
        cut.extend_from_slice(read);
        orders.consume(length);
        let whole = cut.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let mut count = 0;
        for order in cut.drain(..whole).as_slice().split_inclusive(|&byte| byte == b'\n') {
            if order == b"bye\n" {
                return RunnerExit::Bye(left.external_resources);
            }
            left.apply(&String::from_utf8_lossy(order));
            count += 1;
        }
        pauses.after_read(count);
    }
    left.apply(&String::from_utf8_lossy(&cut));
    RunnerExit::Alone(left)
}

impl WatchdogRegistry {
    fn apply(&mut self, order: &str) {
        let Some((order, what)) = order.trim_end_matches('\n').split_at_checked(1) else { return };
        let group = || what.parse::<i32>().ok().filter(|group| *group > 1);
        let resource = || serde_json::from_str::<ExternalResource>(what).ok();
        match order {
            "+" => self.groups.extend(group()),
            "-" => self.groups.retain(|known| Some(*known) != group()),
            "o" => self.external_resources.extend(resource()),
            "x" => self.external_resources.retain(|known| Some(known) != resource().as_ref()),
            _ => {}
        }
    }
}

/// While hundreds of commands start each second, waking up for an order costs the runner more than the order: then they wait in the
/// pipe (64 KiB, thousands of orders), and the end of the runner is noticed as much later.
struct Pauses {
    since: Instant,
    reads: u32,
}

impl Pauses {
    const TIME: Duration = Duration::from_millis(20);
    /// This many reads or orders in that time are many.
    const MANY: u32 = 8;

    fn new() -> Self {
        Self { since: Instant::now(), reads: 0 }
    }

    fn after_read(&mut self, orders: u32) {
        self.reads += 1;
        if orders >= Self::MANY {
            thread::sleep(Self::TIME);
        } else if self.reads >= Self::MANY {
            if self.since.elapsed() < Self::TIME {
                thread::sleep(Self::TIME);
            }
            *self = Self::new();
        }
    }
}

/// Living processes of a registered group, or with the run in their environment.
fn belonging(run: &str, groups: &BTreeSet<i32>) -> Vec<i32> {
    live_pids(|pid, stat| groups.contains(&stat.group) || procfs::variable(pid, RUN).is_some_and(|name| name == run))
}

fn live_pids(belongs: impl Fn(i32, procfs::ProcessStat) -> bool) -> Vec<i32> {
    let me = Pid::as_raw(Some(getpid()));
    let mut pids = procfs::all();
    pids.retain(|&pid| pid != me && procfs::stat(pid).is_some_and(|stat| !stat.zombie && belongs(pid, stat)));
    pids
}

/// Ends what earlier runs of this project left behind, and names it. The caller must hold the project's lock: then
/// every other run with this `home` in its processes is dead, except one that this process is part of. Looks at every process (about 10 µs each), so call it only
/// if the run before did not end in order.
pub fn end_leftovers(home: &Path, run: &RunId) -> Vec<Leftover> {
    let home = home.to_string_lossy();
    let around = std::env::var(RUN).ok();
    let is_dead = |found: String| found != run.as_str() && Some(&found) != around.as_ref();
    end_blocking(
        || {
            live_pids(|pid, _| {
                procfs::variable(pid, HOME).is_some_and(|found| found == home)
                    && procfs::variable(pid, RUN).is_some_and(is_dead)
            })
        },
        GRACE,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bye_ends_the_watchdog() {
        assert_eq!(watch(&b"+12\n+13\nbye\n"[..]), RunnerExit::Bye(BTreeSet::new()));
    }

    #[test]
    fn after_a_bye_what_could_not_be_removed_is_known() {
        let region = ExternalResource::SharedMemory { mark: "a".to_owned() };
        let orders = format!("o{}\nbye\n", serde_json::to_string(&region).unwrap());
        assert_eq!(watch(orders.as_bytes()), RunnerExit::Bye(BTreeSet::from([region])));
    }

    #[test]
    fn without_a_bye_the_registered_groups_are_left_to_it() {
        let alone = |groups: &[i32]| {
            RunnerExit::Alone(WatchdogRegistry {
                groups: groups.iter().copied().collect(),
                ..WatchdogRegistry::default()
            })
        };
        assert_eq!(watch(&b"+12\n+13\n-12\n"[..]), alone(&[13]));
        assert_eq!(watch(&b""[..]), alone(&[]));
    }

    #[test]
    fn what_outlives_its_processes_is_left_to_it_too() {
        let region = |mark: &str| ExternalResource::SharedMemory { mark: mark.to_owned() };
        let [one, two] = [region("a"), region("b")].map(|thing| serde_json::to_string(&thing).unwrap());
        let orders = format!("o{one}\no{two}\nx{one}\n");
        let left =
            WatchdogRegistry { external_resources: BTreeSet::from([region("b")]), ..WatchdogRegistry::default() };
        assert_eq!(watch(orders.as_bytes()), RunnerExit::Alone(left));
    }

    #[test]
    fn malformed_orders_never_match_all_processes() {
        // kill(-1) and kill(0) have special meanings that must not apply here.
        assert_eq!(watch(&b"+1\n+0\n+-5\n+x\n\n"[..]), RunnerExit::Alone(WatchdogRegistry::default()));
    }
}
