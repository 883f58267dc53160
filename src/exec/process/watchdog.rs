//! Cleans up when the runner itself is killed.
//!
//! A runner that gets KILL cannot stop its children, and asking the kernel to do it (`PR_SET_PDEATHSIG`) would need a
//! hook in every child. So each run has one watchdog: a second process of our own program, in its own process group,
//! that reads the run's process groups from a pipe. When the pipe ends without a `bye`, the runner is gone; the
//! watchdog then ends every registered group, and everything on the machine with the run's name in its environment
//! or its mark among its limits (that covers processes that left their group or emptied their environment, and
//! processes that were started but not yet registered).
//!
//! The watchdog holds the project's lock as its standard output, so no other run starts before it is done.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io, thread};

use parking_lot::Mutex;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::signal::unix::{SignalKind, signal};

use super::command::Leftover;
use super::orphans::{InheritedMark, remove_all};
use super::process_ref::{end_blocking, live_pids};
use super::{orphans, procfs};
use base::diag::ErrorText;
use base::event::{Event, ExternalResource, RunId};

/// The variable that names the project's state folder.
pub const HOME: &str = "REGATTA_HOME";
/// The variable that names the run.
pub const RUN: &str = "REGATTA_RUN";
/// The variable that names the task: `<run>/<task>/<attempt>`.
pub const TASK: &str = "REGATTA_TASK";

/// From TERM to KILL, for processes without a runner.
const GRACE: Duration = Duration::from_secs(1);

/// While hundreds of commands start each second, waking up for an order costs the runner more than the order: orders
/// that arrive meanwhile wait in the pipe (64 KiB, thousands of orders).
const BETWEEN_READS: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 2 });

/// The watchdog's whole life. Returns when the run sent `bye`, or when nothing of it is left. What a run that sends
/// `bye` could not remove is tried once more.
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
    // A read may cut an order. One without its end is not obeyed: what the next watchdog is told at its start is one
    // write, which a pipe need not take whole (PIPE_BUF, pipe(7)): `+12` may be half of `+1234`.
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
        for order in cut.drain(..whole).as_slice().split_inclusive(|&byte| byte == b'\n') {
            if order == b"bye\n" {
                return RunnerExit::Bye(left.external_resources);
            }
            left.apply(&String::from_utf8_lossy(order));
        }
        thread::sleep(BETWEEN_READS);
    }
    RunnerExit::Alone(left)
}

impl WatchdogRegistry {
    /// The orders that make it.
    fn orders(&self) -> String {
        let groups = self.groups.iter().map(|group| format!("+{group}\n"));
        groups.chain(self.external_resources.iter().map(|resource| order_about('o', resource))).collect()
    }

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

/// Living processes of a registered group, or with the run in their environment or in what they inherited.
fn belonging(run: &str, groups: &BTreeSet<i32>) -> Vec<i32> {
    let marked = InheritedMark::new("", run).run;
    live_pids(|pid, stat| {
        groups.contains(&stat.group)
            || procfs::variable(pid, RUN).is_some_and(|name| name == run)
            || InheritedMark::read(pid).is_some_and(|mark| mark.run == marked)
    })
}

/// Ends what earlier runs of this project left behind, and names it. The caller must hold the project's lock: then
/// every other run with this `home` in its processes is dead, except one that this process is part of. Looks at every
/// process (about 10 µs each), so call it only if the run before did not end in order.
pub fn end_leftovers(home: &Path, run: &RunId) -> Vec<Leftover> {
    let home = home.to_string_lossy();
    let living = [Some(run.as_str().to_owned()), std::env::var(RUN).ok()];
    let is_living = |name: &String| living.iter().flatten().any(|run| run == name);
    let marks: Vec<_> = living.iter().flatten().map(|run| InheritedMark::new(&home, run)).collect();
    let is_marked = |mark: InheritedMark| marks.iter().all(|live| live.home == mark.home && live.run != mark.run);
    let has_dead_run = |pid, _| {
        let is_named = procfs::variable(pid, HOME).is_some_and(|name| name == home)
            && procfs::variable(pid, RUN).is_some_and(|name| !is_living(&name));
        is_named || InheritedMark::read(pid).is_some_and(is_marked)
    };
    end_blocking(|| live_pids(has_dead_run), GRACE)
}

// The runner's side of its watchdog: starts it, keeps it informed, and starts another one if it ends too early.

/// What ends this many watchdogs of one run ends the next one, too.
const MOST_RESTARTS: u32 = 3;

/// The runner's end of the pipe. Dropping it without [`WatchdogHandle::finish`] lets the watchdog end everything.
#[derive(Debug)]
pub struct WatchdogHandle(Arc<Supervised>);

struct Supervised {
    exe: PathBuf,
    run: RunId,
    on_loss: Box<dyn Fn(String) + Send + Sync>,
    state: Mutex<SupervisedState>,
}

struct SupervisedState {
    process: WatchdogProcess,
    /// For the next one: stays open in each watchdog for as long as it lives.
    hold: Option<File>,
    /// What the watchdog has to end if the runner does not.
    registry: WatchdogRegistry,
    restarts: u32,
    /// It is expected to end, so its end is not reported as a loss.
    is_ending: bool,
}

struct WatchdogProcess {
    pipe: Option<File>,
    handle: Arc<duct::Handle>,
    pid: i32,
}

impl fmt::Debug for Supervised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Supervised({})", self.run)
    }
}

/// `subject`: the watchdog, and what happened to it before.
fn without_watchdog(subject: &str, error: &io::Error) -> ErrorText {
    let end = "processes left behind will be ended by the next run";
    ErrorText::new(format_args!("{subject} cannot be started ({error}): {end}"))
}

impl WatchdogHandle {
    /// Starts `exe __watchdog RUN`. `hold` stays open in the watchdog for as long as it lives. `on_loss` gets a
    /// sentence for the user when the watchdog has ended before the run; by then another one has been started, if that
    /// was possible.
    pub fn start(
        exe: &Path,
        run: &RunId,
        hold: File,
        on_loss: impl Fn(String) + Send + Sync + 'static,
    ) -> Result<Self, ErrorText> {
        let not_started = |error| without_watchdog("the process that ends everything if this run is killed", &error);
        let process = WatchdogProcess::start(exe, run, &hold).map_err(not_started)?;
        let state = SupervisedState {
            process,
            hold: Some(hold),
            registry: WatchdogRegistry::default(),
            restarts: 0,
            is_ending: false,
        };
        let supervised = Arc::new(Supervised {
            exe: exe.to_owned(),
            run: run.clone(),
            on_loss: Box::new(on_loss),
            state: Mutex::new(state),
        });
        let waiting = Arc::clone(&supervised);
        thread::Builder::new().name("watchdog".to_owned()).spawn(move || waiting.supervise()).map_err(not_started)?;
        Ok(Self(supervised))
    }

    /// What a run starts and what has ended: process groups, and what has no process group.
    pub fn follow(&self, event: &Event) {
        let order = match event {
            Event::ProcessStarted { pgid, .. } => format!("+{pgid}\n"),
            Event::ProcessEnded { pgid, .. } => format!("-{pgid}\n"),
            Event::ExternalResourceStarted { resource, .. } => order_about('o', resource),
            Event::ExternalResourceRemoved { resource, .. } => order_about('x', resource),
            _ => return,
        };
        let mut state = self.0.state.lock();
        state.registry.apply(&order);
        state.process.order(&order);
    }

    /// The run has ended in order: the watchdog removes what is still registered beside process groups, and goes.
    /// Blocks until it is gone.
    pub fn finish(self) {
        let (handle, pid) = {
            let mut state = self.0.state.lock();
            state.is_ending = true;
            state.process.order("bye\n");
            state.process.pipe = None;
            state.hold = None;
            (Arc::clone(&state.process.handle), state.process.pid)
        };
        let _ = handle.wait();
        orphans::remove_awaited(pid);
    }
}

impl Drop for WatchdogHandle {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_ending = true;
        state.process.pipe = None;
        state.hold = None;
    }
}

impl Supervised {
    /// Waits for the end of each watchdog, and starts the next one.
    fn supervise(&self) {
        loop {
            let (handle, lost) = {
                let state = self.state.lock();
                (Arc::clone(&state.process.handle), state.process.pid)
            };
            let _ = handle.wait();
            let mut state = self.state.lock();
            if state.is_ending {
                return;
            }
            orphans::remove_awaited(lost);
            let message = format!("process {lost}, which ends everything if this run is killed, has ended");
            let next = match &state.hold {
                Some(hold) if state.restarts < MOST_RESTARTS => WatchdogProcess::start(&self.exe, &self.run, hold),
                _ => Err(io::Error::other("it has ended too often")),
            };
            state.restarts += 1;
            let (text, is_lost) = match next {
                Ok(process) => {
                    state.process = process;
                    // It knows nothing yet.
                    state.process.order(&state.registry.orders());
                    (format!("{message}; it was started again"), false)
                }
                Err(error) => (without_watchdog(&format!("{message}, and"), &error).to_string(), true),
            };
            // The receiver may be about to use this handle.
            drop(state);
            (self.on_loss)(text);
            if is_lost {
                return;
            }
        }
    }
}

impl WatchdogProcess {
    fn start(exe: &Path, run: &RunId, hold: &File) -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let expression = duct::cmd(exe, ["__watchdog", run.as_str()])
            .stdin_file(read)
            .stdout_file(hold.try_clone()?)
            .stderr_null()
            .unchecked()
            .before_spawn(|command| {
                // The marks of an outer run must not make that run's watchdog end this one before it has done its work.
                for name in [HOME, RUN, TASK, orphans::MARK] {
                    command.env_remove(name);
                }
                command.process_group(0);
                Ok(())
            });
        let starting = orphans::starting();
        let handle = expression.start()?;
        let pid = handle.pids().first().map_or(0, |&pid| pid as i32);
        orphans::awaited(pid);
        drop(starting);
        Ok(Self { pipe: Some(File::from(write)), handle: Arc::new(handle), pid })
    }

    /// A watchdog that has just ended takes no order; the next one gets all that still hold.
    fn order(&self, order: &str) {
        if let Some(mut pipe) = self.pipe.as_ref() {
            let _ = pipe.write_all(order.as_bytes());
        }
    }
}

fn order_about(sign: char, resource: &ExternalResource) -> String {
    format!("{sign}{}\n", serde_json::json!(resource))
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};
    use rand_pcg::Pcg64Mcg as Dice;

    use super::*;
    use crate::simulated_seeds::seed_count;

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

    /// What holds in every world.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Property {
        /// The watchdog of a killed runner ends each group that runs and was registered, and removes each resource.
        NothingIsLeft,
        /// It ends no group, and removes no resource, but those that were registered and have not ended.
        NothingElseIsEnded,
        /// After a bye it ends no group.
        ByeIsPeace,
    }

    /// A pipe whose reads are cut and interrupted.
    struct SimulatedPipe {
        bytes: Vec<u8>,
        at: usize,
        dice: Dice,
    }

    impl io::Read for SimulatedPipe {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            unreachable!("its buffer is read")
        }
    }

    impl BufRead for SimulatedPipe {
        fn fill_buf(&mut self) -> io::Result<&[u8]> {
            if self.dice.random_ratio(1, 8) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let rest = self.bytes.len() - self.at;
            let length = self.dice.random_range(0..200_u64).min(rest as u64).max(1.min(rest as u64)) as usize;
            Ok(&self.bytes[self.at..self.at + length])
        }

        fn consume(&mut self, length: usize) {
            self.at += length;
        }
    }

    /// A runner that starts and ends processes until it is killed or says bye. Its watchdogs may die, too. Returns how
    /// many orders it gave.
    fn simulated_run(seed: u64) -> (u64, Option<Property>) {
        const PIPE_BUF: usize = 4096;
        let mut dice = Dice::seed_from_u64(seed);
        let region = |n: u64| ExternalResource::SharedMemory { mark: "m".repeat(1 + n as usize) };
        // What the runner has registered, and of what the watchdog that lives last was sent whole writes.
        let (mut registry, mut pipe) = (WatchdogRegistry::default(), Vec::new());
        let orders = dice.random_range(0..40_u64) + 2000 * u64::from(dice.random_ratio(1, 8));
        let mut is_cut = false;
        for at in 0..orders {
            let is_last = at + 1 == orders;
            let digits = 1 + dice.random_range(0..20_u64);
            let group = 2 + dice.random_range(0..1_i32 << digits);
            let resource = region(dice.random_range(0..9_u64));
            let write = match dice.random_range(0..12_u64) {
                0..6 => format!("+{group}\n"),
                6..8 => format!("-{}\n", registry.groups.first().unwrap_or(&group)),
                8 => order_about('o', &resource),
                9 => order_about('x', &resource),
                // Its watchdog is gone, and the next one gets all.
                _ => {
                    pipe.clear();
                    registry.orders()
                }
            };
            write.split_inclusive('\n').for_each(|order| registry.apply(order));
            // Killed while it writes.
            is_cut = is_last && write.len() > PIPE_BUF;
            let length = if is_cut { dice.random_range(0..write.len()) } else { write.len() };
            pipe.extend_from_slice(&write.as_bytes()[..length]);
        }
        let says_bye = !is_cut && dice.random_ratio(1, 3);
        if says_bye {
            pipe.extend_from_slice(b"bye\n");
        }
        let violated = match watch(SimulatedPipe { bytes: pipe, at: 0, dice }) {
            RunnerExit::Bye(left) if !says_bye || left != registry.external_resources => Some(Property::ByeIsPeace),
            RunnerExit::Bye(_) => None,
            RunnerExit::Alone(_) if says_bye => Some(Property::ByeIsPeace),
            RunnerExit::Alone(left) => {
                let is_registered = left.groups.is_subset(&registry.groups)
                    && left.external_resources.is_subset(&registry.external_resources);
                if is_registered {
                    (!is_cut && left != registry).then_some(Property::NothingIsLeft)
                } else {
                    Some(Property::NothingElseIsEnded)
                }
            }
        };
        (orders, violated)
    }

    #[test]
    fn in_every_simulated_world_the_watchdog_ends_what_is_registered_and_nothing_else() {
        let seeds = seed_count(1000);
        let runs = (0..seeds).map(|seed| (seed, simulated_run(seed)));
        let (mut orders, mut failures) = (0, Vec::new());
        for (seed, (given, violated)) in runs {
            orders += given;
            failures.extend(violated.map(|property| (given, seed, property)));
        }
        // The shortest first.
        failures.sort_by_key(|(given, seed, _)| (*given, *seed));
        assert!(failures.is_empty(), "{} of {seeds} seeds: {:?}", failures.len(), &failures[..failures.len().min(5)]);
        assert!(orders > 30 * seeds, "{orders} orders of {seeds} seeds");
    }

    #[test]
    fn malformed_orders_never_match_all_processes() {
        // kill(-1) and kill(0) have special meanings that must not apply here.
        assert_eq!(watch(&b"+1\n+0\n+-5\n+x\n\n"[..]), RunnerExit::Alone(WatchdogRegistry::default()));
    }
}
