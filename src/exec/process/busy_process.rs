//! Which process used most processor time while something else was measured.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, getpid};

use super::command::program_of;
use super::procfs::{all, children_of, command, ticks_with_children};

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
        let pids = all().into_iter().take(MOST_PROCESSES);
        let ticks = pids.filter_map(|pid| Some((pid, ticks_with_children(pid)?))).collect();
        Self { at: Instant::now(), ticks }
    }

    /// The process that used most since then, other than this one and its children: what a run starts is not what
    /// disturbs it.
    pub fn busiest(&self) -> Option<BusyProcess> {
        let this = Pid::as_raw(Some(getpid()));
        let own: HashSet<i32> = children_of(this).into_iter().chain([this]).collect();
        let (pid, cores) = self.busiest_until(&Self::now(), &own)?;
        Some(BusyProcess { pid, program: program_of(&command(pid)).to_owned(), cores })
    }

    /// A process and its cores. One that is new in `now` began with nothing.
    fn busiest_until(&self, now: &Self, own: &HashSet<i32>) -> Option<(i32, f64)> {
        let used = |(pid, ticks): (&i32, &u64)| (*pid, ticks.saturating_sub(self.ticks.get(pid).copied().unwrap_or(0)));
        let others = now.ticks.iter().filter(|(pid, _)| !own.contains(pid)).map(used);
        let (pid, ticks) = others.max_by_key(|(_, ticks)| *ticks)?;
        let seconds = now.at.duration_since(self.at).as_secs_f64();
        let cores = ticks as f64 / clock_ticks_per_second() as f64 / seconds;
        (cores >= LEAST).then_some((pid, cores))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_process_that_used_most_is_named_unless_it_is_ours_or_used_little() {
        let second = clock_ticks_per_second();
        let times = |after, ticks: &[(i32, u64)]| ProcessorTimes { at: after, ticks: ticks.iter().copied().collect() };
        let begin = Instant::now();
        let before = times(begin, &[(1, 90 * second), (2, 5 * second), (3, second)]);
        // In 10 s: 1 s of an old process, 10 s of ours, 20 s of one with two threads, 8 s of a new one.
        let end = begin + Duration::from_secs(10);
        let now = times(end, &[(1, 91 * second), (2, 15 * second), (3, 21 * second), (4, 8 * second)]);
        assert_eq!(before.busiest_until(&now, &HashSet::from([2])), Some((3, 2.0)));
        assert_eq!(before.busiest_until(&now, &HashSet::from([2, 3])), Some((4, 0.8)));
        assert_eq!(before.busiest_until(&now, &HashSet::from([2, 3, 4])), None, "a tenth of a core disturbs nothing");
    }

    #[test]
    fn this_machine_has_processor_times() {
        assert!(ProcessorTimes::now().ticks.contains_key(&Pid::as_raw(Some(getpid()))));
    }
}
