//! What other runners get wrong, row by row: a run that is killed, two at once, changed and deleted outputs, failed stages that
//! wrote, daemons, edits while a stage runs, a full disk, commands and inputs that go and come back.

use std::fs;
use std::process::{Command, Stdio};

use crate::world::{Ended, World, alive_with, signal, until};

/// `a` writes half, waits for the gate, writes the rest; `b` copies it.
const GATED: &str = r#"
stages:
  a:
    shell: |
      echo run >> "$W/count"
      echo $$ >> "$W/writers"
      echo half > out
      touch "$W/started"
      while [ ! -e "$W/gate" ]; do sleep 0.02; done
      echo whole >> out
  b:
    shell: cp {{ stages.a.out }}/out out
"#;

fn gated() -> World {
    let mut world = World::with(GATED);
    let folder = world.path("");
    world.env("W", folder);
    world
}

fn open(world: &World) {
    world.file("gate", "");
}

fn no_process_left(world: &World) {
    let mark = format!("REGATTA_HOME={}", world.path(".regatta").display());
    until("all processes to be gone", || alive_with(&mark).is_empty());
}

#[test]
fn kill9_no_orphan_stays_and_the_half_output_is_never_accepted() {
    let world = gated();
    let mut run = world.start(&["run", "m"]);
    world.await_file("started");
    run.kill().unwrap();
    run.wait().unwrap();
    no_process_left(&world);
    open(&world);
    let again = world.good(&["run", "m"]);
    assert_eq!(again.ran(), ["a", "b"]);
    assert_eq!(world.read("latest/b/out"), "half\nwhole\n");
    assert_eq!(world.count("count"), 2);
}

#[test]
fn kill9live_a_run_that_starts_at_once_waits_until_the_orphan_is_gone() {
    let world = World::with(
        r#"
stages:
  a:
    shell: |
      trap '' TERM
      if [ -e "$W/second" ]; then
        if grep -q "^State:.[RSDT]" "/proc/$(cat "$W/first")/status" 2>/dev/null; then echo two writers > "$W/verdict"; fi
        echo whole > out; exit 0
      fi
      echo $$ > "$W/first"
      echo half > out
      touch "$W/started"
      while :; do sleep 0.02; done
"#,
    );
    let mut world = world;
    let folder = world.path("");
    world.env("W", folder);
    let mut run = world.start(&["run", "m"]);
    world.await_file("started");
    world.file("second", "");
    run.kill().unwrap();
    let second = world.regatta(&["run", "m"]);
    run.wait().unwrap();
    assert_eq!(second.code, 0, "{second:?}");
    assert!(!world.path("verdict").exists(), "the orphan was still writing");
    assert_eq!(world.read("latest/a/out"), "whole\n");
    no_process_left(&world);
}

#[test]
fn conc_the_second_run_waits_says_so_and_finds_everything_done() {
    let world = gated();
    let first = world.start(&["run", "m"]);
    world.await_file("started");
    let second =
        world.command(&["run", "m"]).stdout(fs::File::create(world.path("second.txt")).unwrap()).spawn().unwrap();
    until("the second run to say that it waits", || world.read("second.txt").contains("waiting"));
    open(&world);
    assert_eq!(Ended::of(first).code, 0);
    assert_eq!(Ended::of(second).code, 0);
    assert_eq!(world.count("count"), 1, "a ran once");
    assert_eq!(world.read("latest/b/out"), "half\nwhole\n");
}

#[test]
fn a_hangup_does_not_end_a_run_that_ignores_it() {
    let world = World::with(
        "stages: { it: { shell: 'touch $W/began; while [ ! -e $W/gate ]; do sleep 0.05; done; echo x > out' } }",
    );
    let mut nohup = Command::new("sh");
    nohup.args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_regatta"), "run", "m"]);
    nohup.current_dir(world.path("")).env("W", world.path("")).env_remove("REGATTA_HOME").stdin(Stdio::null());
    let run = nohup.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    world.await_file("began");
    signal(&run, "HUP");
    world.file("gate", "");
    assert_eq!(Ended::of(run).code, 0);
}

#[test]
fn sigint_and_sigterm_end_the_stage_with_130_and_leave_nothing_running() {
    for name in ["INT", "TERM", "HUP"] {
        let world = gated();
        let run = world.start(&["run", "m"]);
        world.await_file("started");
        signal(&run, name);
        let ended = Ended::of(run);
        assert_eq!(ended.code, 130, "{name}: {ended:?}");
        no_process_left(&world);
        open(&world);
        assert_eq!(world.good(&["run", "m"]).ran(), ["a", "b"]);
    }
}

#[test]
fn a_second_sigint_kills_what_does_not_listen() {
    let world = World::with(
        r#"
stages:
  a:
    shell: |
      trap 'touch "$W/asked"' TERM
      touch "$W/started"
      while :; do sleep 0.02; done
"#,
    );
    let mut world = world;
    let folder = world.path("");
    world.env("W", folder);
    let run = world.start(&["run", "m"]);
    world.await_file("started");
    signal(&run, "INT");
    world.await_file("asked");
    signal(&run, "INT");
    assert_eq!(Ended::of(run).code, 130);
    no_process_left(&world);
}

const CHAIN: &str = r#"
stages:
  a:
    inputs: { source: source.txt }
    shell: echo a >> "$W/count"; cat {{ inputs.source }} > out
  b:
    shell: echo b >> "$W/count"; sed s/x/y/ {{ stages.a.out }}/out > out
"#;

fn chain() -> World {
    let mut world = World::with(CHAIN);
    world.file("source.txt", "x1\n");
    let folder = world.path("");
    world.env("W", folder);
    world.good(&["run", "m"]);
    assert_eq!(world.read("latest/b/out"), "y1\n");
    world
}

#[test]
fn tamper_a_changed_output_is_made_again_and_never_built_upon() {
    let world = chain();
    world.file("latest/a/out", "poison\n");
    assert_eq!(world.will_run(&[]), ["a", "b"], "b is looked at again once a is");
    world.good(&["plan", "m"]).shows("out in its output was changed after it was made");
    assert_eq!(world.good(&["run", "m"]).ran(), ["a"], "the new a has the old bytes, so b stays");
    assert_eq!(world.read("latest/a/out"), "x1\n");
    assert_eq!(world.read("latest/b/out"), "y1\n");
}

#[test]
fn tamper2_with_a_change_downstream_b_is_built_from_good_data() {
    let world = chain();
    world.file("latest/a/out", "poison\n");
    world.manifest("m", &CHAIN.replace("s/x/y/", "s/x/z/"));
    world.good(&["run", "m"]);
    assert_eq!(world.read("latest/b/out"), "z1\n");
}

#[test]
fn tamper3_a_change_that_keeps_size_and_mtime_is_seen() {
    let world = chain();
    let path = world.path("latest/a/out");
    let keep = world.path("keep");
    assert!(Command::new("cp").arg("-p").args([&path, &keep]).status().unwrap().success());
    fs::write(&path, "x2\n").unwrap();
    assert!(Command::new("touch").arg("-r").args([&keep, &path]).status().unwrap().success());
    assert_eq!(world.good(&["run", "m"]).ran(), ["a"]);
    assert_eq!(world.read("latest/a/out"), "x1\n");
}

#[test]
fn delmid_and_delend_what_is_gone_is_made_again() {
    let world = chain();
    for gone in ["a", "b"] {
        fs::remove_file(world.path(format!("latest/{gone}/out"))).unwrap();
        assert_eq!(world.good(&["run", "m"]).ran(), [gone]);
        assert_eq!(world.read("latest/b/out"), "y1\n");
    }
    let all = fs::canonicalize(world.path("latest/a")).unwrap();
    fs::remove_dir_all(all).unwrap();
    assert_eq!(world.good(&["run", "m"]).ran(), ["a"]);
}

#[test]
fn failout_what_a_failed_stage_wrote_is_kept_aside_and_never_accepted() {
    let world = World::with(
        r#"
stages:
  a:
    shell: |
      echo bad > out
      if [ ! -e "$W/fixed" ]; then echo "cannot go on" >&2; exit 3; fi
      echo good > out
  b:
    shell: cp {{ stages.a.out }}/out out
"#,
    );
    let mut world = world;
    let folder = world.path("");
    world.env("W", folder);
    let failed = world.regatta(&["run", "m"]);
    assert_eq!(failed.code, 1);
    failed.shows("cannot go on").shows("exit code 3");
    assert!(!world.path("latest/a").exists());
    assert_eq!(world.read(".regatta/failed/a/out"), "bad\n");
    world.file("fixed", "");
    world.good(&["run", "m"]);
    assert_eq!(world.read("latest/b/out"), "good\n");
    assert!(!world.path(".regatta/failed/a").exists(), "the failure is history");
}

#[test]
fn daemon_a_background_process_is_ended_and_named_and_holds_nothing_up() {
    let world = World::with(
        r"
stages:
  group:
    shell: |
      sleep 1000 &
      echo done > out
  escaped:
    shell: |
      setsid sh -c 'setsid sleep 1000 &' &
      echo done > out
",
    );
    let ended = world.good(&["run", "m"]);
    ended.shows("left a background process running").shows("sleep 1000");
    no_process_left(&world);
}

#[test]
fn undeclared_a_stage_that_reads_what_it_did_not_declare_fails_and_the_reason_is_shown() {
    let world = World::with("stages:\n  a:\n    shell: cat undeclared.txt > out\n");
    world.file("undeclared.txt", "secret ingredient\n");
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1);
    ended.shows("inputs");
}

#[test]
fn undeclared2_a_project_file_that_a_command_names_in_full_is_noticed() {
    let world = World::new();
    world.file("undeclared.txt", "secret ingredient\n");
    let path = world.path("undeclared.txt");
    world.manifest("m", &format!("stages:\n  a:\n    shell: cat {} > out\n", path.display()));
    world.good(&["run", "m"]).shows("undeclared.txt is not under its `inputs:`");
}

#[test]
fn midedit_an_input_that_changes_under_its_stage_is_read_again() {
    let world = World::with(
        r#"
stages:
  a:
    inputs: { source: source.txt }
    shell: |
      cp {{ inputs.source }} out
      touch "$W/read"
      while [ ! -e "$W/gate" ]; do sleep 0.02; done
"#,
    );
    let mut world = world;
    let folder = world.path("");
    world.env("W", folder).file("source.txt", "old\n");
    let run = world.start(&["run", "m"]);
    world.await_file("read");
    world.file("source.txt", "new\n");
    open(&world);
    let ended = Ended::of(run);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.shows("changed while it was read");
    assert_eq!(world.read("latest/a/out"), "new\n");
    assert!(world.good(&["run", "m"]).ran().is_empty());
}

#[test]
fn a_run_in_a_stage_of_its_own_project_ends_at_once() {
    for begin in ["", "env -i "] {
        let stages = format!("stages:\n  a: {{ shell: 'cd \"$W\"; {begin}\"$PROGRAM\" run other' }}\n");
        let mut world = World::with(&stages);
        let folder = world.path("");
        world.env("W", folder).env("PROGRAM", env!("CARGO_BIN_EXE_regatta"));
        world.manifest("other", "stages:\n  b: { shell: echo b > out }\n");
        let ended = world.regatta(&["run", "m"]);
        assert_eq!(ended.code, 1);
        // The last lines of the stage's log.
        ended.shows("this command runs in a stage of run");
        world.good(&["run", "other"]);
    }
}

#[test]
fn what_was_changed_and_restored_while_a_stage_read_it_is_not_cached() {
    for attack in [
        r#"echo bad > data/source; cat data/source > "$OUT/out"; echo good > data/source"#,
        r#"mv data/source away; echo bad > data/source; cat data/source > "$OUT/out"; mv away data/source"#,
        r#"mv data away; mkdir data; echo bad > data/source; cat data/source > "$OUT/out"; rm -r data; mv away data"#,
        r#"echo bad > data/guest; cat data/* > "$OUT/out"; rm data/guest"#,
        r#"echo bad > "$FIRST/out"; cat "$FIRST/out" > "$OUT/out"; echo good > "$FIRST/out""#,
    ] {
        let mut world = World::with(&format!(
            r#"
stages:
  first: {{ shell: echo good > out }}
  a:
    inputs: {{ source: data/source, data: data }}
    env: {{ FIRST: "{{{{ stages.first.out }}}}" }}
    shell: |
      cd "$W"
      sleep 0.05
      {attack}
"#
        ));
        let folder = world.path("");
        world.env("W", folder).file("data/source", "good\n");
        world.good(&["run", "m"]).shows("changed while it ran and is as before; its output is not cached");
        assert!(world.read("latest/a/out").contains("bad"));
        assert_eq!(world.good(&["run", "m"]).ran(), ["a"], "{attack}");
    }
}

#[test]
fn a_stage_that_writes_into_an_upstream_output_fails_and_the_output_is_made_again() {
    let mut world = World::with(
        r#"
stages:
  a: { shell: echo good > out }
  b: { shell: 'echo "$MESS" > {{ stages.a.out }}/out; echo b > out' }
"#,
    );
    world.env("MESS", "mess");
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1);
    ended.shows("it wrote into the output of a");
}

/// Runs a script in which `$D` is a full little filesystem's mount point, without touching the machine's own mounts.
fn on_a_small_disk(script: &str) -> Ended {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("mount -t tmpfs -o size=1m none \"$D\" && cd \"$D\" && {script}");
    let child = Command::new("unshare")
        .args(["-rm", "sh", "-c", &script])
        .env("D", folder.path())
        .env("R", env!("CARGO_BIN_EXE_regatta"))
        .env_remove("REGATTA_HOME")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("unshare");
    Ended::of(child)
}

#[test]
#[ignore = "needs root, for a file system that is full"]
fn fullout_a_full_disk_fails_the_stage_and_the_next_run_goes_on() {
    let ended = on_a_small_disk(
        r#"mkdir manifests && printf 'regatta: 1\nname: m\nstages:\n  a: { shell: head -c 3000000 /dev/zero > out }\n' > manifests/m.yaml
        $R run m; echo "first: $?"
        printf 'regatta: 1\nname: m\nstages:\n  a: { shell: head -c 3000 /dev/zero > out }\n' > manifests/m.yaml
        $R run m; echo "second: $?"; wc -c < latest/a/out"#,
    );
    ended.shows("first: 1").shows("the disk is full").shows("second: 0").shows("3000\n");
}

#[test]
#[ignore = "needs root, for a file system that is full"]
fn fullresume_a_full_disk_leaves_what_a_stage_resumes_from() {
    let ended = on_a_small_disk(
        r#"mkdir manifests && cat > manifests/m.yaml <<'END'
regatta: 1
name: m
stages:
  a:
    resume: true
    shell: 'if [ -e part ]; then cp part out; else echo kept > part; head -c 3000000 /dev/zero > "$D/ballast"; fi'
END
        $R run m; echo "full: $?"
        rm ballast; $R run m; echo "again: $?"; cat latest/a/out"#,
    );
    ended.shows("full: 1").shows("the disk is full").shows("again: 0").shows("kept\n");
}

#[test]
#[ignore = "needs root, for a file system that is full"]
fn fulldb_a_full_disk_under_the_state_stops_the_run_and_the_next_one_goes_on() {
    let ended = on_a_small_disk(
        r#"mkdir manifests && printf 'regatta: 1\nname: m\nstages:\n  a: { shell: echo one > out }\n  b: { shell: "cat {{ stages.a.out }}/out > out" }\n' > manifests/m.yaml
        $R run m --until a >/dev/null; head -c 2000000 /dev/zero > ballast 2>/dev/null
        $R run m; echo "full: $?"
        rm ballast; $R run m; echo "again: $?"; cat latest/b/out"#,
    );
    assert!(!ended.stdout.contains("full: 0"), "{ended:?}");
    ended.shows("No space left on device").shows("again: 0").shows("one\n");
}

#[test]
fn cmdchange_back_and_revert_the_right_output_is_always_there() {
    let world = chain();
    world.manifest("m", &CHAIN.replace("s/x/y/", "s/x/z/"));
    assert_eq!(world.will_run(&[]), ["b"]);
    assert_eq!(world.good(&["run", "m"]).ran(), ["b"]);
    assert_eq!(world.read("latest/b/out"), "z1\n");
    world.manifest("m", CHAIN);
    assert!(world.good(&["run", "m"]).ran().is_empty(), "back: it was made before");
    assert_eq!(world.read("latest/b/out"), "y1\n");
    world.file("source.txt", "x9\n");
    assert_eq!(world.good(&["run", "m"]).ran(), ["a", "b"]);
    assert_eq!(world.read("latest/b/out"), "y9\n");
    world.file("source.txt", "x1\n");
    assert!(world.good(&["run", "m"]).ran().is_empty(), "reverted: both were made before");
    assert_eq!(world.read("latest/b/out"), "y1\n");
}

#[test]
fn a_touched_input_reruns_nothing_and_a_change_without_effect_stops_early() {
    let world = World::with(
        r#"
stages:
  a: { inputs: { s: s.txt }, shell: 'grep -v "^#" {{ inputs.s }} > out' }
  b: { shell: 'cat {{ stages.a.out }}/out > out' }
"#,
    );
    world.file("s.txt", "# one\nx\n");
    world.good(&["run", "m"]);
    world.file("s.txt", "# one\nx\n");
    assert!(world.good(&["run", "m"]).ran().is_empty(), "touched");
    world.file("s.txt", "# two\nx\n");
    assert_eq!(world.good(&["run", "m"]).ran(), ["a"], "a's output is the same, so b need not run");
}
