//! A run in which one system call fails, or is where the run is killed: every one of them, one after the other.
//!
//! `strace` counts the calls of each thread and injects the fault at the n-th. Between them they cover each fact of the journal, each
//! line of the records, each file that is published by a rename, each link and each folder.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::world::{Ended, World, alive_with, until};

/// `a` and `b` count their runs; `b` is built on `a`.
const TWO: &str = r#"
stages:
  a: { inputs: { s: s.txt }, shell: 'echo a >> "$W/ran"; cat {{ inputs.s }} > out; echo end >> out' }
  b: { shell: 'echo b >> "$W/ran"; cat {{ stages.a.out }}/out > out; echo end >> out' }
"#;
const RIGHT: &str = "text\nend\nend\n";

/// What is injected, and into which calls.
#[derive(Clone, Copy)]
struct Fault {
    calls: &'static str,
    what: &'static str,
    /// Every `step`-th call.
    step: usize,
    /// Not beyond this call.
    most: usize,
    /// `+`: all calls after it fail, too.
    rest: &'static str,
    /// Of these files of the state folder only; empty: of all.
    files: &'static [&'static str],
}

const fn fault(calls: &'static str, what: &'static str) -> Fault {
    Fault { calls, what, step: 1, most: 500, rest: "", files: &[] }
}

const KILL: &str = "signal=KILL";

/// Runs with the fault at the n-th call of a thread, and reports what did not hold; `None` when there is no n-th call any more.
fn disturbed(fault: Fault, nth: usize) -> Option<Vec<String>> {
    let mut world = World::with(TWO);
    let folder = world.path("");
    world.env("W", folder);
    world.file("s.txt", "text\n");
    let ended = under_strace(&world, fault, nth);
    let trace = world.read("trace");
    if !trace.contains("(INJECTED)") && !trace.contains("killed by SIGKILL") {
        return None;
    }
    let mut wrong = Vec::new();
    let mut check = |holds: bool, what: &str| {
        if !holds {
            wrong.push(format!("{} at {} {nth}: {what}: {ended:?}", fault.what, fault.calls));
        }
    };
    let right = |world: &World| std::fs::read_to_string(world.path("latest/b/out")).is_ok_and(|text| text == RIGHT);
    check(ended.code != 124, "it hung");
    check(ended.code != 0 || right(&world), "it reported success without its output");
    check(!ended.stderr.contains("panicked"), "it panicked");
    let mark = format!("REGATTA_HOME={}", world.path(".regatta").display());
    until("all processes to be gone", || alive_with(&mark).is_empty());
    let accepted = accepted(&world);
    std::fs::write(world.path("ran"), "").expect("a file");
    let again = world.regatta(&["run", "m"]);
    check(again.code == 0, &format!("the next run: {again:?}"));
    check(right(&world), "the next run's output");
    let ran = world.read("ran");
    check(!accepted.iter().any(|task| ran.lines().any(|line| line == task)), &format!("{accepted:?} ran twice"));
    check(world.good(&["run", "m"]).ran().is_empty(), "the run after it is a no-op");
    Some(wrong)
}

/// The tasks whose record was written whole.
fn accepted(world: &World) -> Vec<String> {
    let records = std::fs::read_to_string(world.path(".regatta/records")).unwrap_or_default();
    let whole = records.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let of = |line: &str| {
        let record: serde_json::Value = serde_json::from_str(line.get(17..)?).ok()?;
        Some(record["record"]["task"].as_str()?.to_owned())
    };
    whole.filter_map(of).collect()
}

fn under_strace(world: &World, fault: Fault, nth: usize) -> Ended {
    let files: Vec<PathBuf> = fault.files.iter().map(|file| world.path(".regatta").join(file)).collect();
    inject(world, &["run", "m"], fault.calls, &format!("{}:when={nth}{}", fault.what, fault.rest), &files)
}

/// Runs with a fault in some calls: of all files, or of these; the calls are in `trace`.
pub fn inject(world: &World, args: &[&str], calls: &str, what: &str, files: &[PathBuf]) -> Ended {
    let plain = world.command(args);
    let mut command = Command::new("timeout");
    command.args(["180", "strace", "-f", "-y", "-qq", "-o"]).arg(world.path("trace"));
    for file in files {
        command.arg("-P").arg(file);
    }
    command.arg(format!("--trace={calls}")).arg(format!("--inject={calls}:{what}"));
    command.arg(plain.get_program()).args(plain.get_args()).current_dir(world.path(""));
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let child = command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
    Ended::of(child.stderr(std::process::Stdio::piped()).spawn().expect("timeout"))
}

/// Tries each fault at the first call, the second, … until there is none any more.
#[track_caller]
fn nothing_is_wrong_with(faults: &[Fault]) {
    assert!(Path::new("/usr/bin/strace").exists(), "strace is not installed");
    let (wrong, tried, next) = (Mutex::new(Vec::new()), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(fault) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut nth = 1;
                    while let Some(found) = disturbed(*fault, nth) {
                        tried.fetch_add(1, Ordering::Relaxed);
                        wrong.lock().expect("no panic").extend(found);
                        nth += fault.step;
                        if nth > fault.most {
                            break;
                        }
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{} of {tried:?}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(tried.into_inner() >= faults.len(), "every fault was injected at least once");
}

#[test]
#[ignore = "needs strace"]
fn killed_at_each_write_rename_link_and_folder_nothing_finished_is_lost() {
    nothing_is_wrong_with(&[
        fault("write", KILL),
        fault("rename", KILL),
        fault("symlink", KILL),
        fault("mkdir", KILL),
        fault("syncfs,fdatasync", KILL),
    ]);
}

#[test]
#[ignore = "needs strace"]
fn a_write_or_sync_that_fails_is_an_error_and_the_next_run_goes_on() {
    nothing_is_wrong_with(&[
        // How threads wake each other is a write, too, and does not depend on a disk.
        Fault { files: &["records", "lock"], ..fault("write", "error=ENOSPC") },
        Fault { files: &["records", "lock"], ..fault("write", "error=EIO") },
        fault("rename", "error=ENOSPC"),
        fault("symlink", "error=EIO"),
        fault("mkdir", "error=ENOSPC"),
        fault("syncfs,fdatasync", "error=EIO"),
    ]);
}

#[test]
#[ignore = "needs strace"]
fn without_file_descriptors_or_processes_a_run_fails_and_the_next_one_goes_on() {
    nothing_is_wrong_with(&[
        Fault { step: 4, ..fault("openat", "error=EMFILE") },
        // Of threads: a run looks for them before it begins.
        Fault { most: 3, rest: "+", ..fault("clone3", "error=EAGAIN") },
        fault("pidfd_open", "error=EMFILE"),
    ]);
}

#[test]
#[ignore = "needs strace"]
fn a_slow_disk_delays_a_run_and_changes_nothing() {
    let mut world = World::with(TWO);
    let folder = world.path("");
    world.env("W", folder);
    world.file("s.txt", "text\n");
    let slow = fault("rename,fdatasync,syncfs,symlink", "delay_enter=100000");
    let ended = under_strace(&world, slow, 1);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(world.read("latest/b/out"), RIGHT);
    assert!(world.good(&["run", "m"]).ran().is_empty());
}

#[test]
#[ignore = "needs strace"]
fn on_a_filesystem_whose_lock_server_is_away_a_run_goes_on_with_a_notice() {
    for errno in ["ENOLCK", "EOPNOTSUPP"] {
        let mut world = World::with(TWO);
        let folder = world.path("");
        world.env("W", folder);
        world.file("s.txt", "text\n");
        let lock = [world.path(".regatta/lock")];
        let ended = inject(&world, &["run", "m"], "flock", &format!("error={errno}"), &lock);
        assert_eq!(ended.code, 0, "{errno}: {ended:?}");
        assert!(world.read("trace").contains("(INJECTED)"), "{errno}");
        ended.shows("this filesystem has no locks");
        assert_eq!(world.read("latest/b/out"), RIGHT);
        assert!(world.good(&["run", "m"]).ran().is_empty());
    }
}
