//! Which process listens on a port.

use std::fs;

use super::command::Leftover;
use super::procfs;
use base::files::read_text;

/// A process that listens on a port.
pub type PortOwner = Leftover;

/// The process that listens on a TCP port of this machine, if we may see it.
pub fn listener(port: u16) -> Option<PortOwner> {
    let sockets: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| read_text(table).ok())
        .flat_map(|table| {
            table
                .lines()
                .filter_map(|line| listening(line, port))
                .map(|inode| format!("socket:[{inode}]"))
                .collect::<Vec<_>>()
        })
        .collect();
    if sockets.is_empty() {
        return None;
    }
    procfs::all().into_iter().find_map(|pid| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let owns = |target: &str| sockets.iter().any(|socket| socket == target);
        files
            .flatten()
            .any(|file| fs::read_link(file.path()).is_ok_and(|target| target.to_str().is_some_and(owns)))
            .then(|| PortOwner { pid, command: procfs::command(pid) })
    })
}

/// The inode in a line of `/proc/net/tcp` that listens (state 0A) on a port; fields as in man 5 proc_pid_net.
fn listening(line: &str, port: u16) -> Option<&str> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let local = fields.get(1)?.rsplit_once(':')?.1;
    (u16::from_str_radix(local, 16).ok()? == port && *fields.get(3)? == "0A").then_some(*fields.get(9)?)
}
