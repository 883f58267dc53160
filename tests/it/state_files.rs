//! Files of the state folder that were cut off or altered, each kind; clocks that step; a runner that stands still; the death of the
//! process that cleans up after a killed run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regatta::event::Event;
use regatta::runner::store::{last_run, read_journal};

use crate::campaign::home;
use crate::crash::watchdog_of;
use crate::world::{Ended, World, alive_with, signal, signal_pid, until};

/// `b` has more files than a record holds in its own line.
const KINDS: &str = r"
stages:
  a: { inputs: { s: s.txt, t: t }, shell: 'cat {{ inputs.s }} > out' }
  b: { shell: 'for n in $(seq 70); do cat {{ stages.a.out }}/out > file$n; done' }
  c: { shell: 'cat {{ stages.b.out }}/file7 > out' }
";

const FAILING: &str = "stages:\n  f: { shell: 'echo part > out; exit 3' }\n";

/// Memory runs out with 2; with 1 it is enough.
const LOWERED: &str = r#"
stages:
  o:
    retry: { on: oom, lower: n, by: 1, to: 1 }
    shell: [sh, -c, 'if [ "$2" = 2 ]; then echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.00 GiB."; exit 1; fi; echo $2 > out', sh, --n, "2"]
"#;

const BENCH: [&str; 9] = ["bench", "sim:", "-q", "-n", "4", "--input-tokens", "8", "--output-tokens", "2"];

/// A state folder with files of every kind that a run here leaves.
pub fn kinds() -> World {
    let world = World::with(KINDS);
    world.manifest("failing", FAILING).manifest("lowered", LOWERED);
    world.file("s.txt", "text\n").file("t/one", "1\n");
    assert_eq!(world.regatta(&["run", "failing"]).code, 1);
    world.good(&["run", "lowered"]);
    // Whether this measurement is valid depends on what else the machine does.
    world.regatta(&BENCH);
    world.good(&["run", "m"]);
    // As many as several threads parse, and not so many that they are rewritten.
    let records = world.read(".regatta/records");
    let count = records.lines().filter(|line| line.contains("{\"record\":")).count();
    world.file(".regatta/records", &records.repeat(700 / count));
    // Of all plans only that of `m` is kept: faults are injected into what a run of it writes.
    let _ = fs::remove_dir_all(world.path(".regatta/plans"));
    world.good(&["run", "m"]);
    // Digests of files that were written just now are not kept: on a quick machine the first run may have none to keep.
    until("the digests of the inputs to be kept", || {
        let are_kept = world.path(".regatta/stats").exists();
        if !are_kept {
            let _ = fs::remove_dir_all(world.path(".regatta/plans"));
            world.good(&["run", "m"]);
        }
        are_kept
    });
    world.good(&["tag", "kept"]);
    // What a run that is killed leaves.
    let run = last_run(&home(&world)).unwrap().unwrap();
    world.file(&format!(".regatta/runs/{run}/progress.jsonl"), PROGRESS);
    world
}

const PROGRESS: &str = "{\"event\":\"progress\",\"task\":\"a\",\"text\":\"reading\",\"done\":3,\"total\":10}\n";

/// The kind of a file of the state folder: its name, or the end of it.
pub fn kind(path: &Path) -> String {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let has_name_of_kind = path.extension().is_some_and(|end| end == "jsonl") || name == "bench.yaml";
    match path.extension() {
        Some(end) if !has_name_of_kind && end != "json" => end.to_string_lossy().into_owned(),
        Some(end) if end == "json" => path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned(),
        _ => name,
    }
}

/// What every world of [`kinds()`] has.
pub const ALL_KINDS: [&str; 13] = [
    "records",
    "stats",
    "lock",
    "plan",
    "from",
    "rest",
    "files",
    "journal.jsonl",
    "progress.jsonl",
    "tags",
    "lowered",
    "bench.yaml",
    "log",
];

/// Files of the state folder beside the outputs themselves.
pub fn state_files(world: &World) -> Vec<PathBuf> {
    let state = world.path(".regatta");
    let all = walkdir::WalkDir::new(&state).sort_by_file_name().into_iter().map(|item| item.unwrap().into_path());
    let is_state = |path: &PathBuf| {
        let is_list = path.extension().is_some_and(|end| end == "files");
        path.is_file() && !path.is_symlink() && (is_list || !path.starts_with(state.join("out")))
    };
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    // Two of each kind are enough: each run has a log and a page.
    let is_new = |path: &PathBuf| {
        let count = found.entry(kind(path)).or_default();
        *count += 1;
        *count <= 2
    };
    all.filter(is_state).filter(is_new).collect()
}

/// The forms of damage: cut to nothing, in the middle and before the last byte; a bit flipped at the start, in the middle, at the end.
fn damaged(bytes: &[u8]) -> Vec<Vec<u8>> {
    let flipped = |at: usize| {
        let mut bytes = bytes.to_vec();
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 4;
        }
        bytes
    };
    let last = bytes.len().saturating_sub(1);
    vec![
        Vec::new(),
        bytes[..bytes.len() / 2].to_vec(),
        bytes[..last].to_vec(),
        flipped(0),
        flipped(last / 2),
        flipped(last),
    ]
}

fn remove_with_end(folder: &Path, end: &str) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.extension().is_some_and(|found| found == end) {
            fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn every_kind_of_state_file_may_be_cut_or_altered_and_no_wrong_output_is_used() {
    let world = kinds();
    let files = state_files(&world);
    let kinds: BTreeSet<String> = files.iter().map(|path| kind(path)).collect();
    for expected in ALL_KINDS.into_iter().chain(["html"]) {
        assert!(kinds.contains(expected), "no file of the kind {expected} among {kinds:?}");
    }
    for path in files {
        let Ok(whole) = fs::read(&path) else { continue };
        let is_of_plan = ["plan", "from"].contains(&kind(&path).as_str());
        for (form, bytes) in damaged(&whole).into_iter().enumerate() {
            fs::write(&path, bytes).unwrap();
            // Without the no-op's conditions, so that everything is looked at. A damaged plan is left, so that it is read.
            if is_of_plan {
                remove_with_end(&world.path(".regatta/plans"), "rest");
            } else if kind(&path) != "rest" {
                let _ = fs::remove_dir_all(world.path(".regatta/plans"))
                    .and_then(|()| fs::create_dir(world.path(".regatta/plans")));
            }
            let again = world.regatta(&["run", "m"]);
            assert_eq!(again.code, 0, "{} form {form}: {again:?}", path.display());
            assert_eq!(world.read("latest/c/out"), "text\n", "{} form {form}", path.display());
            if is_of_plan {
                assert!(again.ran().is_empty(), "{} form {form}: it is compiled again, as it was", path.display());
                assert_ne!(
                    fs::read(&path).unwrap(),
                    damaged(&whole)[form],
                    "{} form {form}: it is kept again",
                    path.display()
                );
            }
            match kind(&path).as_str() {
                // Without it the stage would run out of memory again, and another number would be another measurement.
                "lowered" => {
                    let ended = world.regatta(&["run", "lowered"]);
                    assert_eq!(ended.code, 1, "form {form}: {ended:?}");
                    ended.shows(&format!("cannot read {}: it was cut off or altered", path.display()));
                    ended.shows("remove that file");
                }
                "bench.yaml" => {
                    world.regatta(&BENCH);
                    assert_eq!(fs::read(&path).unwrap(), whole, "form {form}: it is written again");
                }
                _ => {}
            }
            let seldom: &[&[&str]] = match form {
                1 | 4 => &[&["logs"], &["history"], &["report"], &["gc"], &["store", "status", "m"]],
                _ => &[],
            };
            for command in [&["status"][..], &["runs"], &["plan", "m"]].iter().chain(seldom) {
                let ended = world.regatta(command);
                assert!(
                    ended.code <= 2 && !ended.stderr.contains("panicked"),
                    "{command:?} with {}: {ended:?}",
                    path.display()
                );
            }
        }
        if path.exists() {
            fs::write(&path, &whole).unwrap();
        }
    }
    world.good(&["run", "lowered"]);
    assert_eq!(world.read("latest/o/out"), "1\n");
}

#[test]
fn the_progress_of_a_run_that_was_cut_or_altered_is_not_shown_and_no_error() {
    let world = gated();
    let run = world.start(&["run", "m"]);
    world.await_file("started");
    let path = home(&world).run(&last_run(&home(&world)).unwrap().unwrap()).join("progress.jsonl");
    fs::write(&path, PROGRESS).unwrap();
    world.good(&["status"]).shows("reading");
    for bytes in damaged(PROGRESS.as_bytes()) {
        fs::write(&path, bytes).unwrap();
        world.good(&["status"]);
        world.good(&["status", "--json"]);
    }
    world.file("gate", "");
    assert_eq!(Ended::of(run).code, 0);
    assert!(!path.exists(), "it goes with the run");
}

#[test]
fn a_damaged_link_to_what_a_failed_stage_left_removes_nothing_else() {
    let world = World::with("stages:\n  a: { shell: 'echo whole > out' }\n");
    world.good(&["run", "m"]);
    let link = world.path(".regatta/failed/f");
    let output = fs::canonicalize(world.path("latest/a")).unwrap();
    world.file("mine/file", "mine\n");
    let failing = |index: usize| FAILING.replace("echo part", &format!("echo {index}"));
    for (index, target) in [world.path("mine"), output.clone(), "mine".into(), world.path("nowhere")].iter().enumerate()
    {
        world.manifest("failing", &failing(2 * index));
        assert_eq!(world.regatta(&["run", "failing"]).code, 1);
        let point = || {
            fs::remove_file(&link).unwrap();
            std::os::unix::fs::symlink(target, &link).unwrap();
        };
        let are_there = || {
            assert_eq!(world.read("mine/file"), "mine\n", "{}", target.display());
            assert_eq!(fs::read_to_string(output.join("out")).unwrap(), "whole\n", "{}", target.display());
        };
        point();
        world.manifest("failing", &failing(2 * index + 1));
        assert_eq!(world.regatta(&["run", "failing"]).code, 1);
        are_there();
        point();
        world.good(&["gc", "--yes"]);
        are_there();
        world.manifest("failing", &failing(2 * index + 1).replace("; exit 3", ""));
        world.good(&["run", "failing"]);
        are_there();
        assert!(!link.is_symlink(), "{}: it is forgotten", target.display());
    }
}

#[test]
fn an_altered_digest_of_an_input_is_not_believed() {
    let world = kinds();
    let path = world.path(".regatta/stats");
    let whole = fs::read(&path).unwrap();
    for at in (0..whole.len()).step_by(whole.len().div_ceil(40)) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        let _ = fs::remove_dir_all(world.path(".regatta/plans"));
        assert!(
            world.good(&["run", "m"]).ran().is_empty(),
            "byte {at}: the inputs are read again, and are what they were"
        );
    }
}

#[test]
fn files_with_times_of_another_century_are_still_watched() {
    let world = World::with("stages:\n  a: { inputs: { s: s.txt }, shell: 'cat {{ inputs.s }} > out' }\n");
    let set_time = |time: &str| {
        let done = Command::new("touch").args(["-d", time]).arg(world.path("s.txt")).status().unwrap();
        assert!(done.success());
    };
    world.file("s.txt", "1\n");
    for (time, text) in [("2099-01-01", "2\n"), ("1971-01-01", "3\n"), ("2099-01-01", "4\n")] {
        set_time(time);
        world.good(&["run", "m"]);
        assert!(world.good(&["run", "m"]).ran().is_empty(), "{time}: unchanged");
        // As if the clock had stepped: the content changes, size and time do not.
        fs::write(world.path("s.txt"), text).unwrap();
        set_time(time);
        assert_eq!(world.good(&["run", "m"]).ran(), ["a"], "{time}: changed");
        assert_eq!(world.read("latest/a/out"), text);
    }
}

#[test]
fn runs_under_a_clock_that_steps_back_are_found_in_their_order() {
    let world = World::with("stages:\n  a: { shell: 'echo one > out' }\n");
    world.good(&["run", "m"]);
    // A run of tomorrow, as a clock that was ahead has named it.
    let runs = world.path(".regatta/runs");
    let last = fs::read_dir(&runs).unwrap().map(|run| run.unwrap().path()).max().unwrap();
    fs::rename(&last, runs.join("29990101-000000.000-1")).unwrap();
    world.manifest("m", "stages:\n  a: { shell: 'exit 3' }\n");
    assert_eq!(world.regatta(&["run", "m"]).code, 1);
    let status = world.regatta(&["status"]);
    assert_eq!(status.code, 1, "{}", status.stderr);
    status.shows("exit code 3");
}

/// The clock is stepped for the run and what it starts; timers and time limits do not follow it, as on a machine that is set by hand.
#[test]
#[ignore = "needs faketime"]
fn a_clock_that_steps_while_a_stage_runs_changes_nothing() {
    for step in ["-1d", "+1d"] {
        let mut world = gated();
        let limited = GATED.replace("  a:\n", "  a:\n    timeout: 5m\n");
        world.manifest("m", &format!("{limited}  b: {{ shell: 'date +%s > out; cat {{{{ stages.a.out }}}}/out' }}\n"));
        for (name, value) in [("LD_PRELOAD", "/usr/$LIB/faketime/libfaketime.so.1"), ("FAKETIME_NO_CACHE", "1")] {
            world.env(name, value);
        }
        for name in ["FAKETIME_DONT_FAKE_MONOTONIC", "NO_FAKE_STAT"] {
            world.env(name, "1");
        }
        let clock = world.path("clock");
        world.env("FAKETIME_TIMESTAMP_FILE", &clock);
        let set = |offset: &str| {
            world.file("clock.new", offset);
            fs::rename(world.path("clock.new"), &clock).unwrap();
        };
        let now = || jiff::Timestamp::now().as_second();
        set("+0d");
        let run = world.start(&["run", "m"]);
        world.await_file("started");
        set(step);
        world.file("gate", "");
        let ended = Ended::of(run);
        assert_eq!(ended.code, 0, "{step}: {ended:?}");
        assert_eq!(world.read("latest/a/out"), "whole\n");
        let seen: i64 = world.read("latest/b/out").trim().parse().unwrap();
        assert!((now() - seen).abs() > 80_000, "{step}: the clock of the run was stepped");
        let state = home(&world);
        let journal = read_journal(&state.run(&last_run(&state).unwrap().unwrap()).join("journal.jsonl")).unwrap();
        let durations = journal.events.iter().filter_map(|event| match event {
            Event::TaskFinished { seconds, .. } | Event::RunFinished { seconds, .. } => Some(*seconds),
            _ => None,
        });
        let durations: Vec<f64> = durations.collect();
        assert_eq!(durations.len(), 3, "{step}: two tasks and the run");
        assert!(durations.iter().all(|seconds| (0.0..300.0).contains(seconds)), "{step}: {durations:?}");
        assert!(world.good(&["run", "m"]).ran().is_empty(), "{step}: nothing has changed");
        // Back in the right time, the last run is the last one.
        set("+0d");
        world.good(&["status"]).shows("2 of 2 tasks finished");
        assert!(world.good(&["run", "m"]).ran().is_empty(), "{step}: and nothing has, later");
        none_left(&world);
    }
}

/// Runs until the gate opens.
const GATED: &str = r#"
stages:
  a:
    shell: |
      touch "$W/started"
      while [ ! -e "$W/gate" ]; do sleep 0.02; done
      echo whole > out
"#;

fn gated() -> World {
    let mut world = World::with(GATED);
    let folder = world.path("");
    world.env("W", folder);
    world
}

fn none_left(world: &World) {
    let mark = format!("REGATTA_HOME={}", world.path(".regatta").display());
    until("all processes to be gone", || alive_with(&mark).is_empty());
}

#[test]
fn a_runner_that_stands_still_keeps_its_lock_and_goes_on() {
    let world = gated();
    let run = world.start(&["run", "m"]);
    world.await_file("started");
    signal(&run, "STOP");
    world.file("gate", "");
    let second =
        world.command(&["run", "m"]).stdout(fs::File::create(world.path("second.txt")).unwrap()).spawn().unwrap();
    until("the second run to wait", || world.read("second.txt").contains("waiting"));
    signal(&run, "CONT");
    let first = Ended::of(run);
    assert_eq!(first.code, 0, "{first:?}");
    assert_eq!(Ended::of(second).code, 0);
    assert_eq!(world.read("latest/a/out"), "whole\n");
    none_left(&world);
}

#[test]
fn a_stage_that_stands_still_is_ended_by_its_time_limit() {
    let world = World::with("stages:\n  a: { timeout: 1s, shell: 'kill -STOP $$; echo late > out' }\n");
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1);
    ended.shows("timeout");
    none_left(&world);
}

#[test]
fn the_watchdogs_own_death_is_noticed_and_the_next_one_ends_what_is_left() {
    let world = gated();
    let mut run =
        world.command(&["run", "m"]).stdout(fs::File::create(world.path("run.txt")).unwrap()).spawn().unwrap();
    world.await_file("started");
    let first = watchdog_of(run.id());
    signal_pid(first, "KILL");
    until("the run to report it", || world.read("run.txt").contains("it was started again"));
    let second = watchdog_of(run.id());
    assert_ne!(first, second);
    run.kill().unwrap();
    run.wait().unwrap();
    none_left(&world);
    world.file("gate", "");
    world.good(&["run", "m"]);
    assert_eq!(world.read("latest/a/out"), "whole\n");
}

/// A link to itself is there and cannot be followed, not even by root: like a file on a filesystem of the network that does not answer.
#[test]
fn what_cannot_be_looked_at_is_not_taken_for_absent() {
    let world = kinds();
    let run = last_run(&home(&world)).unwrap().unwrap();
    // What a job of an earlier run may be filling.
    fs::create_dir(world.path(".regatta/out/0123456789abcdef-0")).unwrap();
    let state = |below: &str| format!(".regatta/{below}");
    let output = fs::canonicalize(world.path("latest/a")).unwrap();
    let output = output.strip_prefix(fs::canonicalize(world.path("")).unwrap()).unwrap().to_str().unwrap().to_owned();
    let all: [(String, &[&[&str]]); 9] = [
        (
            ".regatta".to_owned(),
            &[
                &["status"],
                &["runs"],
                &["logs"],
                &["report"],
                &["history"],
                &["tag", "t"],
                &["plan", "m"],
                &["gc", "--yes"],
                &["clean", "--yes"],
            ],
        ),
        (state("runs"), &[&["status"], &["runs"], &["logs"], &["run", "m", "--force"], &["gc", "--yes"]]),
        (state("lock"), &[&["status"], &["runs"], &["run", "m", "--force"]]),
        (state(&format!("runs/{run}/tags")), &[&["runs"], &["gc", "--yes"]]),
        (state(&format!("runs/{run}/journal.jsonl")), &[&["status"], &["runs"], &["gc", "--yes"]]),
        (state("jobs"), &[&["run", "m", "--force"], &["gc", "--yes"]]),
        ("manifests".to_owned(), &[&["run", "m"], &["list"]]),
        ("manifests/m.yaml".to_owned(), &[&["run", "m"], &["plan", "m"], &["run", "manifests/m.yaml"]]),
        (output, &[&["run", "m"]]),
    ];
    for (hidden, commands) in all {
        let (path, aside) = (world.path(&hidden), world.path("aside"));
        let was_there = fs::rename(&path, &aside).is_ok();
        std::os::unix::fs::symlink(path.file_name().unwrap(), &path).unwrap();
        for words in commands {
            let ended = world.regatta(words);
            let text = format!("{hidden}: {words:?}: {ended:?}");
            let is_noted = matches!(
                (path.file_name().and_then(|name| name.to_str()), words[0]),
                (Some("jobs"), "run") | (Some("tags" | "journal.jsonl"), "runs")
            );
            assert_eq!(ended.code == 0, is_noted, "{text}");
            assert!(text.contains("Too many levels of symbolic links") && text.contains(&hidden), "{text}");
            assert!(!text.contains("panicked"), "{text}");
        }
        fs::remove_file(&path).unwrap();
        if was_there {
            fs::rename(&aside, &path).unwrap();
        }
        assert_eq!(world.good(&["run", "m"]).ran(), [""; 0], "{hidden}: nothing was lost");
    }
    world.good(&["runs"]).shows("kept");
}
