//! A run in which one system call fails, or is where the run is killed: every one of them, one after the other.
//!
//! `strace` counts the calls of each thread and injects the fault at the n-th. Between them they cover each fact of the journal, each
//! line of the records, each file that is published by a rename, each link and each folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use regatta::runner::store::last_run;

use crate::campaign::home;
use crate::state_files::{kind, kinds, state_files};
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
    let mut command = strace(world, calls, what, files);
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

fn strace(world: &World, calls: &str, what: &str, files: &[PathBuf]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["180", "strace", "-f", "-y", "-qq", "-o"]).arg(world.path("trace"));
    for file in files {
        command.arg("-P").arg(file);
    }
    command.arg(format!("--trace={calls}")).arg(format!("--inject={calls}:{what}"));
    command
}

/// Injects into a process that runs already: into files whose names are known only then.
fn attach(world: &World, pid: u32, calls: &str, what: &str, files: &[PathBuf]) -> Child {
    let attached = strace(world, calls, what, files)
        .args(["-p", &pid.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("timeout");
    until("every thread to be traced", || {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        threads.map(|thread| fs::read_to_string(thread.path().join("status")).unwrap_or_default()).all(|status| {
            !status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|tracer| tracer.trim() == "0"))
        })
    });
    attached
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

/// As [`TWO`]; `a` waits at a gate.
const GATED: &str = r#"
stages:
  a:
    inputs: { s: s.txt }
    shell: 'echo a >> "$W/ran"; touch "$W/started"; while [ ! -e "$W/gate" ]; do sleep 0.02; done; cat {{ inputs.s }} > out; echo end >> out'
  b: { shell: 'echo b >> "$W/ran"; cat {{ stages.a.out }}/out > out; echo end >> out' }
"#;

#[test]
#[ignore = "needs strace"]
fn a_journal_that_cannot_be_written_stops_the_run_and_the_next_one_goes_on() {
    for error in ["ENOSPC", "EIO"] {
        let mut tried = 0;
        loop {
            let mut world = World::with(GATED);
            let folder = world.path("");
            world.env("W", folder);
            world.file("s.txt", "text\n");
            let run = world.start(&["run", "m"]);
            world.await_file("started");
            let name = last_run(&home(&world)).expect("runs").expect("a run");
            let journal = [home(&world).run(&name).join("journal.jsonl")];
            let what = format!("error={error}:when={}", tried + 1);
            let mut strace = attach(&world, run.id(), "write", &what, &journal);
            world.file("gate", "");
            let ended = Ended::of(run);
            strace.wait().expect("an end");
            if !world.read("trace").contains("(INJECTED)") {
                assert_eq!(ended.code, 0, "{ended:?}");
                break;
            }
            tried += 1;
            let text = format!("{error} at write {tried}: {ended:?}");
            assert_eq!(ended.code, 1, "{text}");
            assert!(ended.stderr.contains(&format!("cannot write {}: ", journal[0].display())), "{text}");
            assert!(!text.contains("panicked"), "{text}");
            let mark = format!("REGATTA_HOME={}", world.path(".regatta").display());
            until("all processes to be gone", || alive_with(&mark).is_empty());
            let status = world.regatta(&["status"]);
            assert!([0, 1, 130].contains(&status.code), "{text}: {status:?}");
            let accepted = accepted(&world);
            fs::write(world.path("ran"), "").expect("a file");
            world.good(&["run", "m"]);
            assert_eq!(world.read("latest/b/out"), RIGHT, "{text}");
            let ran = world.read("ran");
            assert!(
                !accepted.iter().any(|task| ran.lines().any(|line| line == task)),
                "{accepted:?} ran twice: {text}"
            );
            assert_eq!(world.good(&["run", "m"]).ran(), [""; 0], "{text}");
        }
        assert!(tried >= 3, "{error}: {tried} writes");
    }
}

/// Kinds of files that are made again where they cannot be used.
const CACHES: [&str; 5] = ["plan", "from", "rest", "stats", "binding"];

/// Their temporary names have the number of the process.
#[test]
#[ignore = "needs strace"]
fn a_cache_that_cannot_be_written_is_left_out() {
    let world = kinds();
    let mut names: Vec<PathBuf> = state_files(&world);
    names.retain(|path| CACHES.contains(&kind(path).as_str()));
    for error in ["ENOSPC", "EIO"] {
        for cache in &names {
            let text = format!("{error}: {}", cache.display());
            // Nothing to read: each is made anew.
            let _ = fs::remove_dir_all(world.path(".regatta/plans"));
            let _ = fs::remove_file(world.path(".regatta/stats"));
            let _ = fs::remove_file(world.path(".regatta/binding"));
            let _ = fs::remove_file(world.path("go"));
            let plain = world.command(&["run", "m"]);
            let mut shell = Command::new("sh");
            shell.args(["-c", r#"while [ ! -e go ]; do sleep 0.02; done; exec "$@""#, "sh"]);
            shell.arg(plain.get_program()).args(plain.get_args()).current_dir(world.path(""));
            shell.env_remove("REGATTA_HOME").env_remove("REGATTA_STORE");
            let piped = shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let run = piped.spawn().expect("sh");
            let half = cache.with_extension(format!("tmp{}", run.id()));
            let mut strace =
                attach(&world, run.id(), "write", &format!("error={error}:when=1+"), std::slice::from_ref(&half));
            world.file("go", "");
            let ended = Ended::of(run);
            strace.wait().expect("an end");
            assert!(world.read("trace").contains("(INJECTED)"), "{text}");
            assert_eq!((ended.code, ended.ran()), (0, Vec::new()), "{text}: {ended:?}");
            assert!(!half.exists() && !cache.exists(), "{text}: nothing half-written stays");
            assert_eq!(world.read("latest/c/out"), "text\n");
            assert_eq!(world.good(&["run", "m"]).ran(), [""; 0], "{text}");
        }
    }
}

#[test]
#[ignore = "needs strace"]
fn a_state_file_that_cannot_be_read_is_named_or_only_a_cache_and_nothing_runs_again() {
    let world = kinds();
    let commands: [&[&str]; 6] = [&["run", "m"], &["status"], &["runs"], &["plan", "m"], &["gc"], &["run", "lowered"]];
    for (error, message) in [("EIO", "Input/output error"), ("ESTALE", "Stale file handle")] {
        let mut read = BTreeSet::new();
        for path in state_files(&world) {
            let kind = kind(&path);
            let bench = ["plan", path.to_str().expect("a path")];
            for words in commands.into_iter().chain((kind == "bench.yaml").then_some(&bench[..])) {
                // Without the no-op's conditions, so that everything is looked at.
                if !["plan", "from", "rest"].contains(&kind.as_str()) {
                    let _ = fs::remove_dir_all(world.path(".regatta/plans"));
                }
                // Of all runs' journals, that of the last one is read.
                let last = last_run(&home(&world)).expect("runs").expect("a run");
                let path = if kind == "journal.jsonl" { home(&world).run(&last).join(&kind) } else { path.clone() };
                let file = std::slice::from_ref(&path);
                let ended = inject(&world, words, "read,pread64", &format!("error={error}:when=1+"), file);
                let text = format!("{error}: {}: {words:?}: {ended:?}", path.display());
                assert!(!text.contains("panicked") && ended.ran().is_empty(), "{text}");
                if world.read("trace").contains("(INJECTED)") {
                    read.insert(kind.clone());
                    let is_cache = CACHES.contains(&kind.as_str());
                    assert!(is_cache && ended.code == 0 || text.contains(message), "{text}");
                    let named = path.strip_prefix(world.path("")).expect("below it").display().to_string();
                    assert!(is_cache || text.matches(&named).count() > 1, "{text}");
                    // Others are listed, planned and removed; `runs`, `plan` and `gc` print what they leave out, and a run
                    // prints that it does not know what an earlier one left.
                    let goes_on =
                        ["runs", "plan", "gc"].contains(&words[0]) || words[0] == "run" && kind == "journal.jsonl";
                    assert!(is_cache || goes_on || ended.code == 1, "{text}");
                } else {
                    assert!(ended.code <= 1, "{text}");
                }
                assert_eq!(world.good(&["run", "m"]).ran(), [""; 0], "{text}");
            }
        }
        for kind in ["records", "stats", "plan", "from", "rest", "files", "journal.jsonl", "tags"] {
            assert!(read.contains(kind), "{error}: {kind} is not among {read:?}");
        }
        assert!(read.contains("lowered") && read.contains("bench.yaml"), "{error}: {read:?}");
        world.good(&["run", "lowered"]);
    }
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
