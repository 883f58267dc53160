//! A run that is killed at any instant, and a file of records that is cut off at any byte.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use crate::campaign::{fifty, instants, kill_and_rerun, no_process_left};
use crate::world::{World, alive_with};

#[test]
fn kill9_at_random_instants_and_a_rerun_has_the_same_bytes_and_runs_nothing_twice() {
    let subject = fifty();
    let undisturbed = subject.undisturbed();
    for at in instants(20_261_120, undisturbed.seconds, 12) {
        let outcome = kill_and_rerun(&subject, &undisturbed, &at);
        assert!(outcome.violations.is_empty(), "killed at {at:?} s: {outcome:#?}");
    }
}

/// Three stages, one of them with more files than a record holds in its own line.
const SMALL: &str = r#"
stages:
  a: { shell: 'echo a >> "$W/ran"; echo a > out' }
  b: { shell: 'echo b >> "$W/ran"; for n in $(seq 70); do cat {{ stages.a.out }}/out > file$n; done' }
  c: { shell: 'echo c >> "$W/ran"; cat {{ stages.b.out }}/file1 {{ stages.a.out }}/out > out' }
"#;

fn small() -> World {
    let mut world = World::with(SMALL);
    let folder = world.path("");
    world.env("W", folder);
    world
}

#[test]
fn records_cut_at_any_byte_are_no_error_and_what_is_cut_off_runs_again() {
    let world = small();
    world.good(&["run", "m"]);
    let path = world.path(".regatta/records");
    let whole = fs::read(&path).unwrap();
    let ends: Vec<usize> = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    // Around every end of a line, and some in the middle.
    let mut cuts: Vec<usize> = ends.iter().flat_map(|end| [end - 1, *end, end + 1]).collect();
    cuts.extend([0, 1, 16, 17, 18]);
    cuts.extend((0..whole.len()).step_by(whole.len() / 12));
    cuts.retain(|cut| *cut <= whole.len());
    for cut in cuts {
        fs::write(&path, &whole[..cut]).unwrap();
        fs::write(world.path("ran"), "").unwrap();
        // What makes a run a no-op was written after the records; a crash that loses the one loses the other.
        fs::remove_dir_all(world.path(".regatta/plans")).unwrap();
        let again = world.good(&["run", "m"]);
        let lines = ends.iter().filter(|end| **end <= cut).count();
        let ran = world.count("ran");
        assert_eq!(ran, 3_usize.saturating_sub(lines), "cut at {cut} of {}:\n{}", whole.len(), again.stdout);
        assert_eq!(world.read("latest/c/out"), "a\na\n");
        assert_eq!(world.read("latest/b/file70"), "a\n");
        assert!(world.good(&["run", "m"]).ran().is_empty(), "cut at {cut}: whole again");
    }
}

#[test]
fn records_with_a_changed_byte_lose_that_task_and_no_other() {
    let world = small();
    world.good(&["run", "m"]);
    let path = world.path(".regatta/records");
    let mut bytes = fs::read(&path).unwrap();
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 60;
    bytes[second] ^= 1;
    fs::write(&path, bytes).unwrap();
    fs::remove_dir_all(world.path(".regatta/plans")).unwrap();
    assert_eq!(world.good(&["run", "m"]).ran(), ["b"]);
}

#[test]
fn kill9_between_a_long_list_of_files_and_its_record_leaves_no_list_behind() {
    let world = small();
    world.good(&["run", "m"]);
    // As a kill after the list was written and before the record was: a list and a folder that nothing names.
    fs::create_dir(world.path(".regatta/out/0000000000000000-0")).unwrap();
    world.file(".regatta/out/0000000000000000-0.files", "");
    world.file(".regatta/stats.tmp4711", "");
    std::os::unix::fs::symlink("nowhere", world.path("latest/b.tmp4711")).unwrap();
    std::os::unix::fs::symlink("nowhere", world.path("latest.tmp4711")).unwrap();
    // A name like ours, and a file of the user.
    world.file("notes.tmp4711", "");
    crashed(&world);
    world.good(&["run", "m", "--force"]);
    assert!(!world.path(".regatta/out/0000000000000000-0").exists());
    assert!(fs::symlink_metadata(world.path("latest.tmp4711")).is_err());
    assert!(world.path("notes.tmp4711").exists());
    assert!(!world.path(".regatta/out/0000000000000000-0.files").exists());
    assert!(!world.path(".regatta/stats.tmp4711").exists());
    assert!(fs::symlink_metadata(world.path("latest/b.tmp4711")).is_err());
}

/// Makes the last run look like one that did not come to its end.
fn crashed(world: &World) {
    let runs = world.path(".regatta/runs");
    let last = fs::read_dir(runs).unwrap().map(|run| run.unwrap().path()).max().unwrap();
    let journal = fs::read(last.join("journal.jsonl")).unwrap();
    fs::write(last.join("journal.jsonl"), &journal[..journal.len() - 9]).unwrap();
}

#[test]
fn kill9_again_and_again_the_last_run_is_always_known() {
    let mut world = World::with(
        r#"
stages:
  a:
    shell: |
      echo half > out
      touch "$W/started$N"
      while [ ! -e "$W/gate" ]; do sleep 0.02; done
      echo whole >> out
"#,
    );
    let folder = world.path("");
    world.env("W", folder);
    // Within one second, and with process ids that grow a digit sooner or later: names of runs must sort by time.
    for n in 0..4 {
        world.env("N", n.to_string());
        let mut run = world.start(&["run", "m"]);
        world.await_file(&format!("started{n}"));
        run.kill().unwrap();
        run.wait().unwrap();
    }
    no_process_left(&world);
    world.file("gate", "");
    world.good(&["run", "m"]);
    assert_eq!(world.read("latest/a/out"), "half\nwhole\n");
    assert_eq!(
        fs::read_dir(world.path(".regatta/out")).unwrap().count(),
        1,
        "unfinished outputs of killed runs are gone"
    );
}

#[test]
fn kill9_of_the_runner_and_its_watchdog_the_next_run_ends_what_they_left() {
    let mut world = World::with(
        r#"
stages:
  a:
    shell: |
      if [ ! -e "$W/gate" ]; then touch "$W/started"; sleep 1000; fi
      echo whole > out
"#,
    );
    let folder = world.path("");
    world.env("W", folder);
    let mut run = world.start(&["run", "m"]);
    world.await_file("started");
    let pid = run.id();
    let watchdog = watchdog_of(pid);
    // A runner that stands still cannot see its watchdog go. (The other way round the kernel would wake a stopped watchdog
    // when its runner dies: SIGCONT for a process group that becomes an orphan.)
    for (pid, name) in [(pid as i32, Signal::STOP), (watchdog, Signal::KILL), (pid as i32, Signal::KILL)] {
        kill_process(Pid::from_raw(pid).unwrap(), name).unwrap();
    }
    run.wait().unwrap();
    let mark = format!("REGATTA_HOME={}", world.path(".regatta").display());
    assert!(!alive_with(&mark).is_empty(), "nobody was left to end the stage");
    world.file("gate", "");
    let again = world.good(&["run", "m"]);
    again.shows("which an earlier run left running");
    assert_eq!(world.read("latest/a/out"), "whole\n");
    assert!(alive_with(&mark).is_empty());
}

/// The process that ends what a killed run leaves.
pub fn watchdog_of(run: u32) -> i32 {
    // A child is listed by the thread that started it.
    let threads = fs::read_dir(format!("/proc/{run}/task")).unwrap().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let children = lists.collect::<Vec<_>>().join(" ");
    let is_watchdog = |child: &&str| {
        fs::read_to_string(format!("/proc/{child}/cmdline")).is_ok_and(|line| line.contains("__watchdog"))
    };
    children.split_whitespace().find(is_watchdog).expect("a watchdog").parse().unwrap()
}
