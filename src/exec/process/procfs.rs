//! What `/proc` reports about processes, and which one used most processor time while something else was measured.
//! Every answer may be out of date at once: a process that is gone reads as `None`.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, getpid};

use super::command::{Leftover, program_of};
use base::files::read_text;

/// A line of `/proc/PID/stat`, as far as we need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    pub parent: i32,
    pub group: i32,
    /// Dead, waiting for its parent to notice.
    pub zombie: bool,
    /// On its way out: it has begun to give back what it has.
    pub leaving: bool,
    /// A thread of the kernel's own, which has no command line.
    pub is_kernel_thread: bool,
    /// Not even an empty place is there for them while it is being loaded.
    pub has_no_arguments: bool,
    pub has_no_environment: bool,
}

/// Of a task's flags (`include/linux/sched.h`).
const PF_EXITING: u32 = 0x4;
const PF_KTHREAD: u32 = 0x0020_0000;

/// Whether it is there and has not ended.
pub fn is_alive(pid: i32) -> bool {
    stat(pid).is_some_and(|stat| !stat.zombie)
}

/// Reads state, parent, process group and flags of a process.
pub fn stat(pid: i32) -> Option<ProcessStat> {
    parse_stat(&read_text(format!("/proc/{pid}/stat")).ok()?)
}

/// `PID (NAME) STATE PPID PGRP SESSION TTY TPGID FLAGS …`; the name may hold spaces and parentheses (man 5
/// proc_pid_stat).
fn parse_stat(line: &str) -> Option<ProcessStat> {
    let mut fields = line.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let flags: u32 = fields.nth(3)?.parse().ok()?;
    // Fields 48 to 51. Without the right to look at its memory they are all 0, as while it is being loaded.
    let places: Vec<u64> = fields.skip(38).take(4).map_while(|place| place.parse().ok()).collect();
    let [arguments, arguments_end, environment, environment_end] = places.try_into().ok()?;
    Some(ProcessStat {
        parent,
        group,
        zombie: matches!(state, "Z" | "X"),
        leaving: flags & PF_EXITING != 0,
        is_kernel_thread: flags & PF_KTHREAD != 0,
        has_no_arguments: arguments_end != 0 && arguments == arguments_end,
        has_no_environment: environment_end != 0 && environment == environment_end,
    })
}

/// The value of a variable in the environment that a process was started with.
pub fn variable(pid: i32, name: &str) -> Option<String> {
    settled(pid, "environ").split(|&byte| byte == 0).find_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    })
}

/// Its command line, or its name in brackets.
pub fn command(pid: i32) -> String {
    let line = settled(pid, "cmdline");
    let words: Vec<_> =
        line.split(|&byte| byte == 0).filter(|word| !word.is_empty()).map(String::from_utf8_lossy).collect();
    if !words.is_empty() {
        return words.join(" ");
    }
    read_text(format!("/proc/{pid}/comm")).map_or_else(|_| "?".to_owned(), |name| format!("[{}]", name.trim()))
}

/// `cmdline` or `environ` of a process; nothing if it has none, is gone, or belongs to another user.
///
/// Between its old memory and its new arguments a process that becomes another program has neither: for some
/// microseconds, or for as long as it waits for a core. An empty answer in that time would hide what the process is.
fn settled(pid: i32, name: &str) -> Vec<u8> {
    const LOOKS: u32 = 200;
    /// A process that is about to receive its arguments has none at first, so one empty answer is not enough.
    const SURE: u32 = 5;
    let mut times_empty = 0;
    for _ in 0..LOOKS {
        let Ok(bytes) = at_once(&format!("/proc/{pid}/{name}")) else { break };
        if !bytes.is_empty() {
            return bytes;
        }
        let Some(stat) = stat(pid).filter(|stat| !stat.zombie && !stat.leaving && !stat.is_kernel_thread) else {
            break;
        };
        let empty = if name == "environ" { stat.has_no_environment } else { stat.has_no_arguments };
        times_empty += u32::from(empty);
        if times_empty == SURE {
            break;
        }
        thread::sleep(Duration::from_micros(500));
    }
    Vec::new()
}

/// More than most files of `/proc` hold (bytes).
const PIECE: usize = 1 << 14;

/// A file in one piece. The next piece may be of another program, or be missing since that one has begun.
fn at_once(path: &str) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; PIECE];
    loop {
        let length = File::open(path)?.read(&mut buffer)?;
        if length < buffer.len() {
            buffer.truncate(length);
            return Ok(buffer);
        }
        buffer.resize(buffer.len() * 4, 0);
    }
}

/// The process ids of a list.
fn list(path: &Path) -> io::Result<Vec<i32>> {
    list_in(&File::open(path)?)
}

/// Reads an open list from its start. The kernel returns it page by page and resumes by position, so that each entry
/// that disappears in between makes it skip one: as much as possible is read at once. Only the last read leaves half a
/// page free.
fn list_in(file: &File) -> io::Result<Vec<i32>> {
    const HALF_A_PAGE: usize = 2048;
    let numbers = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    };
    // Usually none or a few.
    let mut page = [0; 2 * HALF_A_PAGE];
    let length = file.read_at(&mut page, 0)?;
    if length < HALF_A_PAGE {
        return Ok(numbers(&page[..length]));
    }
    let mut buffer = vec![0; PIECE];
    let mut end = 0;
    loop {
        let length = file.read_at(&mut buffer[end..], end as u64)?;
        end += length;
        if length < HALF_A_PAGE {
            break;
        }
        // Room for a whole page.
        buffer.resize(end + PIECE, 0);
    }
    Ok(numbers(&buffer[..end]))
}

/// The soft limit of its file locks, if it has one.
pub fn lock_limit(pid: i32) -> Option<u64> {
    let limits = read_text(format!("/proc/{pid}/limits")).ok()?;
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
    limit.split_ascii_whitespace().next()?.parse().ok()
}

/// When it was started, in ticks since the machine was: with its id, this names a process for good (field 22).
pub fn started(pid: i32) -> Option<u64> {
    times(pid, 19, 1)
}

/// The processor time that it has used, in ticks (fields 14 and 15).
pub fn processor_ticks(pid: i32) -> Option<u64> {
    times(pid, 11, 2)
}

/// Likewise, with that of its children that have ended (fields 16 and 17).
pub fn ticks_with_children(pid: i32) -> Option<u64> {
    times(pid, 11, 4)
}

/// The sum of so many fields after the name and `skipped` others.
fn times(pid: i32, skipped: usize, fields: usize) -> Option<u64> {
    let line = read_text(format!("/proc/{pid}/stat")).ok()?;
    line.rsplit_once(") ")?.1.split(' ').skip(skipped).take(fields).map(|time| time.parse::<u64>().ok()).sum()
}

/// The children of a process: each of its threads has its own.
pub fn children_of(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists: Vec<_> = threads.flatten().filter_map(|thread| list(&thread.path().join("children")).ok()).collect();
    if lists.is_empty() { children_by_parent(pid) } else { lists.concat() }
}

/// The parent of every process is checked: for kernels without `CONFIG_PROC_CHILDREN`.
fn children_by_parent(pid: i32) -> Vec<i32> {
    all().into_iter().filter(|&child| stat(child).is_some_and(|stat| stat.parent == pid)).collect()
}

/// Every process that we may look at.
pub fn all() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The children of our first thread. The kernel gives orphans to that thread (`find_new_reaper`), so this is one
/// read of one small file, which stays open: it is read after each command.
pub fn children() -> Vec<i32> {
    static FILE: OnceLock<Option<File>> = OnceLock::new();
    let me = || Pid::as_raw(Some(getpid()));
    let file = FILE.get_or_init(|| File::open(format!("/proc/self/task/{}/children", me())).ok());
    file.as_ref().and_then(|file| list_in(file).ok()).unwrap_or_else(|| children_by_parent(me()))
}

// Which process listens on a port.

/// A process that listens on a port.
pub type PortOwner = Leftover;

/// The process that listens on a TCP port of this machine, if we may see it.
pub fn listener(port: u16) -> Option<PortOwner> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| read_text(table).unwrap_or_default());
    let inodes = tables.iter().flat_map(|table| table.lines()).filter_map(|line| listening(line, port));
    let sockets: Vec<String> = inodes.map(|inode| format!("socket:[{inode}]")).collect();
    if sockets.is_empty() {
        return None;
    }
    all().into_iter().find_map(|pid| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let owns = |target: &str| sockets.iter().any(|socket| socket == target);
        files
            .flatten()
            .any(|file| fs::read_link(file.path()).is_ok_and(|target| target.to_str().is_some_and(owns)))
            .then(|| PortOwner { pid, command: command(pid) })
    })
}

/// The inode in a line of `/proc/net/tcp` that listens (state 0A) on a port; fields as in man 5 proc_pid_net.
fn listening(line: &str, port: u16) -> Option<&str> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let local = fields.get(1)?.rsplit_once(':')?.1;
    (u16::from_str_radix(local, 16).ok()? == port && *fields.get(3)? == "0A").then_some(*fields.get(9)?)
}

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
        let machine_cores = thread::available_parallelism().map_or(f64::INFINITY, |cores| cores.get() as f64);
        let (pid, cores) = self.busiest_until(&Self::now(), &own, machine_cores)?;
        Some(BusyProcess { pid, program: program_of(&command(pid)).to_owned(), cores })
    }

    /// A process and its cores. One that is new in `now` began with nothing.
    /// Init adopts processes, and with their end it is given all that they used in their lives. So may another one be,
    /// which then used no more than all cores.
    fn busiest_until(&self, now: &Self, own: &HashSet<i32>, machine_cores: f64) -> Option<(i32, f64)> {
        const INIT: i32 = 1;
        let used = |(pid, ticks): (&i32, &u64)| (*pid, ticks.saturating_sub(self.ticks.get(pid).copied().unwrap_or(0)));
        let others = now.ticks.iter().filter(|(pid, _)| **pid != INIT && !own.contains(pid)).map(used);
        let (pid, ticks) = others.max_by_key(|(_, ticks)| *ticks)?;
        let seconds = now.at.duration_since(self.at).as_secs_f64();
        let cores = (ticks as f64 / clock_ticks_per_second() as f64 / seconds).min(machine_cores);
        (cores >= LEAST).then_some((pid, cores))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_confuse_the_parser() {
        let rest = "0 ".repeat(38);
        let stat = parse_stat(&format!("4711 (a) b (c) Z 12 4700 4700 0 -1 4194308 {rest}100 120 120 120 0")).unwrap();
        let zombie = ProcessStat {
            parent: 12,
            group: 4700,
            zombie: true,
            leaving: true,
            is_kernel_thread: false,
            has_no_arguments: false,
            has_no_environment: true,
        };
        assert_eq!(stat, zombie);
    }

    #[test]
    fn environment_is_read_again_during_exec() {
        let again = r#"exec sh -c "$AGAIN""#;
        let child = duct::cmd("sh", ["-c", again]).env("AGAIN", again).unchecked().start().unwrap();
        let values: Vec<_> = (0..2000).map(|_| variable(child.pids()[0] as i32, "AGAIN")).collect();
        child.kill().unwrap();
        assert!(values.iter().all(|value| value.as_deref() == Some(again)));
    }

    #[test]
    fn a_process_without_environment_has_no_variable() {
        let child = duct::cmd("env", ["-i", "sleep", "1000"]).unchecked().start().unwrap();
        let pid = child.pids()[0] as i32;
        while !command(pid).starts_with("sleep") {
            thread::yield_now();
        }
        assert_eq!(variable(pid, "PATH"), None);
        child.kill().unwrap();
    }

    #[test]
    fn we_can_read_about_ourselves() {
        let me = Pid::as_raw(Some(getpid()));
        assert!(!stat(me).unwrap().zombie);
        assert!(all().contains(&me));
        assert!(!command(me).is_empty());
        assert!(!stat(me).unwrap().leaving);
    }
}

#[cfg(test)]
mod busy_process_tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_process_that_used_most_is_named_unless_it_is_ours_or_used_little() {
        let second = clock_ticks_per_second();
        let times = |after, ticks: &[(i32, u64)]| ProcessorTimes { at: after, ticks: ticks.iter().copied().collect() };
        let begin = Instant::now();
        let before = times(begin, &[(1, 90 * second), (2, 5 * second), (3, second)]);
        // In 10 s: 88 s of a process that init had adopted, 10 s of ours, 20 s of one with two threads, 8 s of a new
        // one.
        let end = begin + Duration::from_secs(10);
        let now = times(end, &[(1, 178 * second), (2, 15 * second), (3, 21 * second), (4, 8 * second)]);
        let busiest = |own: &[i32], cores| before.busiest_until(&now, &own.iter().copied().collect(), cores);
        assert_eq!(busiest(&[2], 4.0), Some((3, 2.0)));
        assert_eq!(busiest(&[2], 1.0), Some((3, 1.0)), "it cannot use more than there are");
        assert_eq!(busiest(&[2, 3], 4.0), Some((4, 0.8)));
        assert_eq!(busiest(&[2, 3, 4], 4.0), None, "init itself used nothing");
    }

    #[test]
    fn this_machine_has_processor_times() {
        assert!(ProcessorTimes::now().ticks.contains_key(&Pid::as_raw(Some(getpid()))));
    }
}
