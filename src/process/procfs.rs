//! What `/proc` says about processes. Every answer may be out of date at once: a process that is gone reads as `None`.

use std::fs;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, getpid};

/// A line of `/proc/PID/stat`, as far as we need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    pub parent: i32,
    pub group: i32,
    /// Dead, waiting for its parent to notice.
    pub zombie: bool,
    /// On its way out: it has begun to give back what it has.
    pub leaving: bool,
    /// A thread of the kernel's own, which has no command line.
    pub is_kernels: bool,
}

/// Of a task's flags (`include/linux/sched.h`).
const PF_EXITING: u32 = 0x4;
const PF_KTHREAD: u32 = 0x0020_0000;

/// Reads state, parent, process group and flags of a process.
pub fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// `PID (NAME) STATE PPID PGRP SESSION TTY TPGID FLAGS …`; the name may hold spaces and parentheses (man 5 proc_pid_stat).
fn parse_stat(line: &str) -> Option<Stat> {
    let mut fields = line.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let flags: u32 = fields.nth(3)?.parse().ok()?;
    Some(Stat {
        parent,
        group,
        zombie: matches!(state, "Z" | "X"),
        leaving: flags & PF_EXITING != 0,
        is_kernels: flags & PF_KTHREAD != 0,
    })
}

/// The value of a variable in the environment that a process was started with.
pub fn variable(pid: i32, name: &str) -> Option<String> {
    let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
    environ.split(|&byte| byte == 0).find_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    })
}

/// Its command line, or its name in brackets.
pub fn command(pid: i32) -> String {
    /// Between its old memory and its new arguments a process that becomes another program has no command line: for some
    /// microseconds, or as long as nobody lets it go on.
    const LOOKS: u32 = 20;
    for _ in 0..LOOKS {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> =
            line.split(|&byte| byte == 0).filter(|word| !word.is_empty()).map(String::from_utf8_lossy).collect();
        if !words.is_empty() {
            return words.join(" ");
        }
        if stat(pid).is_none_or(|stat| stat.zombie || stat.leaving || stat.is_kernels) {
            break;
        }
        thread::sleep(Duration::from_micros(500));
    }
    fs::read_to_string(format!("/proc/{pid}/comm")).map_or_else(|_| "?".to_owned(), |name| format!("[{}]", name.trim()))
}

/// When it was started, in ticks since the machine was: with its id, this names a process for good (field 22).
pub fn started(pid: i32) -> Option<u64> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    line.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

/// The children of a process: each of its threads has its own.
pub fn children_of(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists: Vec<String> =
        threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok()).collect();
    if lists.is_empty() {
        // Without `CONFIG_PROC_CHILDREN` everybody's parent is looked at instead.
        return all().into_iter().filter(|&child| stat(child).is_some_and(|stat| stat.parent == pid)).collect();
    }
    lists.iter().flat_map(|list| list.split_ascii_whitespace()).filter_map(|pid| pid.parse().ok()).collect()
}

/// Every process that we may look at.
pub fn all() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The children of our first thread. The kernel gives orphans to that thread (`find_new_reaper`), so this is one
/// read of one small file. Without `CONFIG_PROC_CHILDREN` everybody's parent is looked at instead.
pub fn children() -> Vec<i32> {
    let me = Pid::as_raw(Some(getpid()));
    match fs::read_to_string(format!("/proc/self/task/{me}/children")) {
        Ok(list) => list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect(),
        Err(_) => all().into_iter().filter(|&pid| stat(pid).is_some_and(|stat| stat.parent == me)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_confuse_the_parser() {
        let stat = parse_stat("4711 (a) b (c) Z 12 4700 4700 0 -1 4194308 0").unwrap();
        let zombie = Stat { parent: 12, group: 4700, zombie: true, leaving: true, is_kernels: false };
        assert_eq!(stat, zombie);
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
