//! The floor: what the system calls of a stage cost by themselves. A loop with nothing but these, one stage after the other.
//!
//! They are those of `strace -f` on a cold run, and each has its reason: a folder for the output, a log that the command writes to, the
//! command with an environment of its own, a handle to wait for it, a look for what it left running, the output listed, read and hashed,
//! its needs looked at again, four facts in the journal and one record (each a write, so that a kill loses none), two lines to the
//! watchdog and two to the terminal, a link in `latest`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cpu_seconds;
use rustix::event::epoll;
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, test_kill_process_group, waitpgid};

/// Bytes of a fact of the journal, on average, and of a record.
const FACT: [u8; 140] = [b'x'; 140];
const RECORD: [u8; 950] = [b'x'; 950];

/// Does it so many times below `root`: seconds of the processor for each, without the commands.
pub fn cost(stages: usize, root: &Path) -> io::Result<f64> {
    for folder in ["out", "latest", "log"] {
        fs::create_dir_all(root.join(folder))?;
    }
    let append = |name: &str| OpenOptions::new().append(true).create(true).open(root.join(name));
    let (mut journal, mut records) = (append("journal")?, append("records")?);
    let (mut watchdog, mut terminal) = (append("watchdog")?, File::create("/dev/null")?);
    let children = File::open(format!("/proc/self/task/{}/children", std::process::id()))?;
    let queue = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut ended = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }];
    let own_cpu = || Ok::<_, io::Error>(cpu_seconds(&fs::read_to_string("/proc/self/stat")?));
    let before = own_cpu()?;
    for stage in 0..stages {
        let out = root.join(format!("out/{stage}"));
        terminal.write_all(b"\xe2\x86\x92 s1  not in cache\n")?;
        journal.write_all(&FACT)?;
        fs::create_dir(&out)?;
        let log = append(&format!("log/{stage}"))?;
        let mut child = Command::new("/bin/sh")
            .args(["-c", "read a < ../../source; read b < ../../source; read c < ../../source; echo $a > out"])
            .current_dir(&out)
            .env("REGATTA_SPAWN", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()?;
        let id = Pid::from_child(&child);
        let handle = pidfd_open(id, PidfdFlags::NONBLOCK)?;
        epoll::add(&queue, &handle, epoll::EventData::new_u64(1), epoll::EventFlags::IN)?;
        journal.write_all(&FACT)?;
        watchdog.write_all(b"+12345\n")?;
        epoll::wait(&queue, &mut ended, None)?;
        child.wait()?;
        let _ = waitpgid(id, WaitOptions::NOHANG);
        let _ = test_kill_process_group(id);
        children.read_at(&mut [0; 4096], 0)?;
        epoll::delete(&queue, &handle)?;
        journal.write_all(&FACT)?;
        watchdog.write_all(b"-12345\n")?;
        for need in stage.saturating_sub(3)..stage {
            fs::metadata(root.join(format!("out/{need}")))?;
            fs::metadata(root.join(format!("out/{need}/out")))?;
        }
        for item in fs::read_dir(&out)? {
            fs::symlink_metadata(item?.path())?;
        }
        blake3::hash(&fs::read(out.join("out"))?);
        records.write_all(&RECORD)?;
        symlink(&out, root.join(format!("latest/{stage}")))?;
        journal.write_all(&FACT)?;
        terminal.write_all(b"\xe2\x9c\x93 s1  1 ms\n")?;
    }
    Ok((own_cpu()? - before) / stages as f64)
}
