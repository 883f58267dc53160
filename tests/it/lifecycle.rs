//! A run from its first to its last moment: interrupted in each phase, retried, chosen from, limited, asked about, cleaned up.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use regatta::event::Event;
use regatta::runner::store::{last_run, read_journal};

use crate::campaign::{home, no_process_left};
use crate::world::{Ended, World, signal, until};

fn world(manifest: &str) -> World {
    let mut world = World::with(manifest);
    let folder = world.path("");
    world.env("W", folder);
    world
}

/// Starts a run whose events go to a file, line by line.
fn watched(world: &World, words: &[&str]) -> Child {
    let mut all = vec!["run", "m", "--events", "jsonl"];
    all.extend(words);
    let events = fs::File::create(world.path("events")).unwrap();
    world.command(&all).stdout(events).stderr(Stdio::piped()).spawn().unwrap()
}

fn await_event(world: &World, what: &str) {
    until(what, || world.read("events").lines().any(|line| line.contains(what)));
}

fn journal(world: &World) -> Vec<Event> {
    let home = home(world);
    read_journal(&home.run(&last_run(&home).unwrap().unwrap()).join("journal.jsonl")).unwrap().events
}

const GATED: &str = r#"
stages:
  a:
    shell: |
      touch "$W/started"
      while [ ! -e "$W/gate" ]; do sleep 0.02; done
      echo a > out
"#;

#[test]
fn status_exits_as_the_run_did() {
    let world = world("stages:\n  a: { shell: 'exit 3' }\n");
    assert_eq!(world.regatta(&["status"]).code, 2, "nothing has run");
    assert_eq!(world.regatta(&["run", "m"]).code, 1);
    world.regatta(&["status"]).shows("failed");
    assert_eq!(world.regatta(&["status"]).code, 1);
    world.manifest("m", "stages:\n  a: { shell: 'true' }\n");
    world.good(&["run", "m"]);
    assert_eq!(world.regatta(&["status"]).code, 0);
}

#[test]
fn the_end_of_a_command_interrupts_no_thread_of_the_run() {
    // The shell of a strict stage has been queried before this one starts.
    let world = world("stages:\n  a: { shell: 'grep SigCgt /proc/$PPID/status > out' }\n");
    world.good(&["run", "m"]);
    let caught = world.read("latest/a/out");
    let caught = u64::from_str_radix(caught.split_whitespace().last().unwrap(), 16).unwrap();
    let has_handler = |signal: rustix::process::Signal| caught & (1 << (signal.as_raw() - 1)) != 0;
    assert!(has_handler(rustix::process::Signal::INT) && !has_handler(rustix::process::Signal::CHILD), "{caught:x}");
}

// ── Ctrl-C ────────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn ctrl_c_while_waiting_for_another_run_leaves_that_run_alone() {
    let world = world(GATED);
    let first = world.start(&["run", "m"]);
    world.await_file("started");
    let second = watched(&world, &[]);
    await_event(&world, r#""event":"waiting""#);
    signal(&second, "INT");
    assert_eq!(Ended::of(second).code, 130);
    assert_eq!(world.regatta(&["status"]).code, 0, "a run that is not over has not failed");
    world.file("gate", "");
    assert_eq!(Ended::of(first).code, 0);
    assert_eq!(world.read("latest/a/out"), "a\n");
}

/// Whether a process has a file of this name open.
fn has_open(process: &std::process::Child, name: &str) -> bool {
    let open = fs::read_dir(format!("/proc/{}/fd", process.id())).into_iter().flatten().flatten();
    open.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|file| file.ends_with(name))
}

#[test]
fn ctrl_c_while_a_large_input_is_read_does_not_wait_for_its_end() {
    let world = world("stages:\n  a: { inputs: { big: big }, shell: 'echo a > out' }\n");
    // A hole of 60 GiB takes many seconds to read; a larger one is refused.
    fs::File::create(world.path("big")).unwrap().set_len(60 << 30).unwrap();
    let run = world.start(&["run", "m"]);
    until("the input to be read", || has_open(&run, "big"));
    signal(&run, "INT");
    assert_eq!(Ended::of(run).code, 130);
    fs::write(world.path("big"), "small\n").unwrap();
    assert_eq!(world.good(&["run", "m"]).ran(), ["a"]);
}

#[test]
fn ctrl_c_while_a_large_output_is_read_does_not_wait_for_its_end() {
    let world =
        world("stages:\n  a: { shell: 'if [ -e \"$W/small\" ]; then echo a > big; else truncate -s 60G big; fi' }\n");
    let run = watched(&world, &[]);
    until("the output to be read", || has_open(&run, "big"));
    // Once lets it be read to its end, so that nothing that is done is lost; twice does not.
    signal(&run, "INT");
    await_event(&world, "interrupted; Ctrl-C again");
    signal(&run, "INT");
    assert_eq!(Ended::of(run).code, 130);
    world.file("small", "");
    world.good(&["run", "m"]);
    assert_eq!(world.read("latest/a/big"), "a\n");
}

#[test]
fn ctrl_c_while_a_retry_waits() {
    let world = world(
        "stages:\n  a: { retry: { times: 3, delay: 1h }, shell: '[ -e \"$W/fixed\" ] || exit 7; echo a > out' }\n  \
                                                                                  b: { shell: 'echo {{ stages.a.out \
                                                                                  }} > out' }\n",
    );
    let run = watched(&world, &[]);
    await_event(&world, r#""will_retry":true"#);
    signal(&run, "INT");
    assert_eq!(Ended::of(run).code, 130);
    assert!(
        journal(&world).iter().any(|event| matches!(event, Event::TaskCancelled { task, .. } if task.as_str() == "b"))
    );
    no_process_left(&world);
    world.file("fixed", "");
    assert_eq!(world.good(&["run", "m"]).ran(), ["a", "b"]);
}

#[test]
fn ctrl_c_while_a_clone_waits_for_the_other_side() {
    let mut world = world("stages:\n  a: { git: { url: \"ssh://nowhere/repository\", rev: main } }\n");
    // What git starts to speak to the other side, and what never answers.
    world.file("ssh", "#!/bin/sh\ntouch \"$W/asked\"\nexec sleep 1000\n");
    let ssh = world.path("ssh");
    assert!(Command::new("chmod").arg("+x").arg(&ssh).status().unwrap().success());
    world.env("GIT_SSH", ssh).env("GIT_SSH_VARIANT", "simple");
    let run = world.start(&["run", "m"]);
    world.await_file("asked");
    signal(&run, "INT");
    assert_eq!(Ended::of(run).code, 130);
    no_process_left(&world);
}

// ── Retries and timeouts ──────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_stage_that_fails_once_is_tried_again_in_an_empty_folder() {
    let world = world(
        r#"
stages:
  a:
    retry: { times: 2 }
    shell: |
      [ ! -e out ] || exit 8
      echo a >> "$W/tries"; echo a > out
      [ $(wc -l < "$W/tries") -ge 2 ] || exit 7
"#,
    );
    let ended = world.good(&["run", "m"]);
    assert_eq!(world.count("tries"), 2);
    ended.shows("exit code 7").shows("attempt 1 failed, trying again").shows("attempt 2");
    assert!(world.good(&["run", "m"]).ran().is_empty());
}

#[test]
fn a_stage_that_keeps_failing_is_tried_as_often_as_it_says_and_no_more() {
    let world = world("stages:\n  a: { retry: { times: 2 }, shell: 'echo a >> \"$W/tries\"; exit 7' }\n");
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1);
    assert_eq!(world.count("tries"), 3);
    ended.shows("(attempt 3)");
}

#[test]
fn a_stage_that_keeps_its_work_goes_on_in_the_same_folder() {
    let world = world(
        r"
stages:
  a:
    resume: true
    shell: |
      echo part >> work
      [ $(wc -l < work) -ge 3 ] || exit 7
",
    );
    assert_eq!(world.regatta(&["run", "m"]).code, 1);
    assert_eq!(world.regatta(&["run", "m"]).code, 1);
    world.good(&["run", "m"]);
    assert_eq!(world.read("latest/a/work"), "part\npart\npart\n");
}

#[test]
fn kill9_a_stage_that_keeps_its_work_goes_on_where_it_was() {
    let world = world(
        r#"
stages:
  a:
    resume: true
    shell: |
      echo part >> work
      touch "$W/started"
      while [ ! -e "$W/gate" ]; do sleep 0.02; done
"#,
    );
    let mut run = world.start(&["run", "m"]);
    world.await_file("started");
    run.kill().unwrap();
    run.wait().unwrap();
    world.file("gate", "");
    world.good(&["run", "m"]);
    assert_eq!(world.read("latest/a/work"), "part\npart\n");
}

#[test]
fn a_stage_that_keeps_its_work_leaves_what_an_earlier_run_finished() {
    let world = world(
        r#"
stages:
  a:
    resume: true
    outputs: [out]
    shell: '[ -e "$W/quiet" ] || cat /proc/sys/kernel/random/uuid >> out'
"#,
    );
    let newest = || fs::canonicalize(world.path("latest/a")).unwrap();
    let uuid = |folder: &Path| fs::read_to_string(folder.join("out")).unwrap();
    world.good(&["run", "m"]);
    world.good(&["tag", "monday"]);
    let first = newest();
    let before = uuid(&first);
    let mut folders = BTreeSet::from([first.clone()]);
    for _ in 0..2 {
        world.good(&["run", "m", "--force", "a"]);
        assert_eq!(uuid(&newest()).lines().count(), 1);
        assert!(folders.insert(newest()));
        assert_eq!(uuid(&first), before);
    }
    // The records of the tagged run are gone then.
    world.good(&["gc", "--keep", "1", "--yes"]);
    world.good(&["run", "m", "--force", "a"]);
    assert_eq!(uuid(&first), before);
    world.file("quiet", "");
    let ended = world.regatta(&["run", "m", "--force", "a"]);
    assert_eq!(ended.code, 1);
    ended.shows("it did not write out");
}

#[test]
fn what_a_stage_keeps_stays_when_another_one_of_its_name_ends() {
    let world = world(
        "params:\n  n: { int: {}, default: 3 }\nstages:\n  work: { resume: true, shell: 'echo part >> out; [ $(wc -l \
         < out) -ge {{ n }} ] || exit 7' }\n",
    );
    world.manifest("failing", "stages:\n  work: { shell: 'echo > out; exit 3' }\n");
    world.manifest("good", "stages:\n  work: { shell: 'echo > out' }\n");
    assert_eq!(world.regatta(&["run", "m"]).code, 1);
    world.good(&["run", "good"]);
    assert_eq!(world.regatta(&["run", "failing"]).code, 1);
    assert_eq!(world.regatta(&["run", "m"]).code, 1);
    world.good(&["run", "m", "n=1"]);
    world.good(&["run", "m"]);
    assert_eq!(world.read("latest/work/out"), "part\npart\npart\n");
}

#[test]
fn kill9_an_output_of_an_earlier_run_is_no_leftover() {
    let world = world("stages:\n  a: { shell: 'cat /proc/sys/kernel/random/uuid > out' }\n");
    world.good(&["run", "m"]);
    world.good(&["tag", "monday"]);
    let first = fs::canonicalize(world.path("latest/a")).unwrap();
    world.good(&["run", "m", "--force", "a"]);
    world.manifest("slow", "stages:\n  b: { shell: 'touch \"$W/begun\"; sleep 1000' }\n");
    let mut run = world.start(&["run", "slow"]);
    world.await_file("begun");
    run.kill().unwrap();
    run.wait().unwrap();
    world.good(&["run", "m"]);
    assert!(first.join("out").exists());
    no_process_left(&world);
}

#[test]
fn a_stage_past_its_timeout_is_ended_and_says_so() {
    let world = world("stages:\n  a: { timeout: 3s, shell: 'echo begun; sleep 1000' }\n");
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1);
    ended.shows("it ran past its timeout of 3 s").shows("begun");
    no_process_left(&world);
}

#[test]
fn a_stage_that_leaves_out_what_it_promised_fails() {
    let world = world("stages:\n  a: { outputs: [engine/rank0.engine, config.json], shell: 'echo > config.json' }\n");
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1);
    ended.shows("it did not write engine/rank0.engine\n").shows("must be there at the end");
}

// ── Choices ───────────────────────────────────────────────────────────────────────────────────────────────────────

const CHAIN: &str = r#"
stages:
  a: { shell: 'echo a >> "$W/count"; echo a > out' }
  b: { shell: 'echo b >> "$W/count"; cat {{ stages.a.out }}/out > out' }
  c: { shell: 'echo c >> "$W/count"; cat {{ stages.b.out }}/out > out' }
  d: { shell: 'echo d >> "$W/count"; echo d > out' }
"#;

#[test]
fn until_runs_a_stage_and_what_it_needs() {
    let world = world(CHAIN);
    assert_eq!(world.good(&["run", "m", "--until", "b"]).ran(), ["a", "b"]);
    assert_eq!(world.good(&["run", "m"]).ran(), ["c", "d"]);
}

#[test]
fn only_runs_a_stage_alone_if_what_it_needs_is_there() {
    let world = world(CHAIN);
    let ended = world.regatta(&["run", "m", "--only", "b"]);
    assert_eq!(ended.code, 1);
    ended.shows("it has not finished yet, and --only excludes it").shows("run without --only");
    assert_eq!(world.count("count"), 0);
    world.good(&["run", "m", "--until", "a"]);
    assert_eq!(world.good(&["run", "m", "--only", "b"]).ran(), ["b"]);
    assert_eq!(world.count("count"), 2);
}

/// `plan` and `run` refuse alike what would run a stage that `--only` leaves out.
#[test]
fn a_forced_stage_outside_only_is_refused() {
    let world = world(CHAIN);
    world.good(&["run", "m"]);
    for command in ["plan", "run"] {
        let ended = world.regatta(&[command, "m", "--force", "a", "--only", "b"]);
        assert_eq!(ended.code, 2, "{ended:?}");
        ended.shows("`--force a` forces what `--only b` leaves out").shows("add `--only a`");
    }
    assert_eq!(world.good(&["run", "m", "--force", "b", "--only", "b"]).ran(), ["b"]);
    assert_eq!(world.good(&["run", "m", "--force", "--only", "b"]).ran(), ["b"]);
}

#[test]
fn force_runs_what_is_done_and_early_cut_off_spares_the_rest() {
    let world = world(CHAIN);
    world.good(&["run", "m"]);
    assert_eq!(world.good(&["run", "m", "--force", "a"]).ran(), ["a"], "the same bytes: b stays");
    assert_eq!(world.good(&["run", "m", "--force"]).ran(), ["a", "b", "c", "d"]);
    assert!(world.good(&["run", "m"]).ran().is_empty());
}

#[test]
fn a_stage_that_is_not_cached_runs_every_time() {
    let world = world("stages:\n  a: { cache: false, shell: 'echo a >> \"$W/count\"; echo a > out' }\n");
    for n in 1..=3 {
        assert_eq!(world.good(&["run", "m"]).ran(), ["a"]);
        assert_eq!(world.count("count"), n);
    }
}

#[test]
fn keep_going_does_all_that_does_not_need_what_failed() {
    let broken = CHAIN.replace("echo a > out", "exit 3");
    let world = world(&broken);
    let ended = world.regatta(&["run", "m", "--keep-going", "-j1"]);
    assert_eq!(ended.code, 1);
    assert_eq!(ended.ran(), ["d"]);
    ended.shows("b  not started").shows("c  not started");
    world.manifest("m", CHAIN);
    assert_eq!(world.good(&["run", "m"]).ran(), ["a", "b", "c"]);
}

#[test]
fn without_keep_going_nothing_starts_after_a_failure() {
    let broken = CHAIN.replace("echo a > out", "exit 3");
    let world = world(&broken);
    let ended = world.regatta(&["run", "m", "-j1"]);
    assert_eq!(ended.code, 1);
    assert!(ended.ran().is_empty());
    ended.shows("d  not started");
}

// ── Limits ────────────────────────────────────────────────────────────────────────────────────────────────────────

/// Two stages that wait for each other. Alone, each gives up after a while.
const HANDSHAKE: &str = r#"
stages:
  a: { shell: 'touch "$W/a"; n=0; while [ ! -e "$W/b" ]; do n=$((n+1)); [ $n -lt 1000 ] || exit 9; sleep 0.02; done' }
  b: { shell: 'touch "$W/b"; n=0; while [ ! -e "$W/a" ]; do n=$((n+1)); [ $n -lt 1000 ] || exit 9; sleep 0.02; done' }
"#;

#[test]
fn two_jobs_run_two_stages_at_once() {
    world(HANDSHAKE).good(&["run", "m", "-j2"]);
}

#[test]
fn one_job_runs_one_stage_at_a_time() {
    let one = r#"mkdir "$W/busy" || exit 9; echo {} > out; rmdir "$W/busy""#;
    let stages: Vec<String> = (0..8).map(|n| format!("  s{n}: {{ shell: '{one}' }}\n")).collect();
    let world = world(&format!("stages:\n{}", stages.concat()));
    assert_eq!(world.good(&["run", "m", "-j1"]).ran().len(), 8);
}

#[test]
fn stages_at_once_have_different_gpus() {
    let world = world(
        r#"
stages:
  a: { gpus: 1, shell: 'echo $CUDA_VISIBLE_DEVICES > out; touch "$W/a"; while [ ! -e "$W/b" ]; do sleep 0.02; done' }
  b: { gpus: 1, shell: 'echo $CUDA_VISIBLE_DEVICES > out; touch "$W/b"; while [ ! -e "$W/a" ]; do sleep 0.02; done' }
"#,
    );
    world.good(&["run", "m", "-j4", "--gpus", "4,7"]);
    let mut seen = [world.read("latest/a/out"), world.read("latest/b/out")];
    seen.sort();
    assert_eq!(seen, ["4\n", "7\n"]);
}

#[test]
fn more_gpus_than_there_are_is_refused_in_words() {
    let world = world(
        "stages:\n  a: { shell: 'echo > out' }\n  b: { gpus: 4, shell: 'cat \"{{ stages.a.out }}/out\" > out' }\n",
    );
    let ended = world.regatta(&["run", "m", "--gpus", "0,1"]);
    assert_eq!(ended.code, 2);
    ended.shows("b: it needs 4 GPUs, but this run can lease only 2").shows("`--gpus 0,` GPU 0 alone");
    assert!(!world.path("latest/a").exists(), "nothing ran before it");
    let ended = world.regatta(&["run", "m", "--gpus", "0,1", "--keep-going"]);
    assert_eq!((ended.code, ended.ran()), (1, vec!["a".to_owned()]));
    assert_eq!(world.good(&["run", "m", "--gpus", "0,1,2,3"]).ran(), ["b"], "a is cached");
    world.good(&["run", "m", "--gpus", "0"]);
    assert_eq!(world.good(&["run", "m", "--gpus", "0", "--force", "a"]).ran(), ["a"], "the same again, so b is cached");
    let ended = world.regatta(&["run", "m", "--gpus", "0", "--force", "b"]);
    assert_eq!(ended.code, 2);
    ended.shows("b: it needs 4 GPUs, but this run can lease only 0");
}

// ── Secrets ───────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_secret_is_nowhere_under_the_state_and_in_nothing_that_is_printed() {
    const VALUE: &str = "hf_9f8e7d6c5b4a";
    let mut world = world(
        r#"
stages:
  good: { secrets: [TOKEN], shell: 'echo "token $TOKEN"; [ ${#TOKEN} = 15 ] && echo fine > out' }
  bad: { secrets: [TOKEN], needs: [good], shell: 'echo "refused: $TOKEN" >&2; setsid sleep 1000 "$TOKEN" & exit 4' }
"#,
    );
    world.env("TOKEN", VALUE);
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1);
    ended.shows("refused: ***");
    let plan = world.good(&["plan", "m"]);
    let json = world.good(&["plan", "m", "--json"]);
    let show = world.good(&["show", "m"]);
    let status = world.regatta(&["status"]);
    let logs = world.good(&["logs", "bad"]);
    for output in [&ended, &plan, &json, &show, &status, &logs] {
        assert!(!output.stdout.contains(VALUE) && !output.stderr.contains(VALUE), "{output:?}");
    }
    for item in walkdir::WalkDir::new(world.path("")).into_iter().flatten().filter(|item| item.file_type().is_file()) {
        let bytes = fs::read(item.path()).unwrap();
        let found = bytes.windows(VALUE.len()).any(|window| window == VALUE.as_bytes());
        assert!(!found, "{} holds the secret", item.path().display());
    }
    world.env("TOKEN", "hf_another_valu");
    assert_eq!(world.will_run(&[]), ["bad"], "a secret's value is not part of the key");
    no_process_left(&world);
}

// ── Asking and cleaning up ────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn status_and_logs_say_what_is_going_on_and_what_was() {
    let world = world(
        "stages:\n  a: { shell: 'echo first line; printf \"caf\\\\303\"; touch \"$W/started\"; while [ ! -e \
                                                                                             \"$W/gate\" ]; do sleep \
                                                                                             0.02; done; printf \"\\\\251\\\\nlast line\\\\n\"' }\n",
    );
    let ended = world.regatta(&["status"]);
    assert_eq!(ended.code, 2);
    ended.shows("nothing has run in this folder yet");
    let run = world.start(&["run", "m"]);
    world.await_file("started");
    world.good(&["status"]).shows("running");
    world.good(&["logs"]).shows("a\n");
    let followed = fs::File::create(world.path("followed")).unwrap();
    let follower = world.command(&["logs", "-f", "a"]).stdout(followed).stderr(Stdio::piped()).spawn().unwrap();
    let is_followed = || fs::read(world.path("followed")).unwrap().starts_with(b"first line");
    until("the log to be followed", is_followed);
    world.file("gate", "");
    assert_eq!(Ended::of(run).code, 0);
    assert_eq!(Ended::of(follower).code, 0, "the follower leaves when the run does");
    assert_eq!(world.read("followed"), "first line\ncafé\nlast line\n");
    world.good(&["logs", "a"]).shows("first line\ncafé\nlast line\n");
    world.good(&["status"]).shows("done");
    let status: serde_json::Value = serde_json::from_str(&world.good(&["status", "--json"]).stdout).unwrap();
    assert_eq!(status["run_state"]["finished"]["exit"], 0, "{status}");
    let wrong = world.regatta(&["logs", "b"]);
    assert_eq!(wrong.code, 2);
    wrong.shows("no run has a task b");
}

#[test]
fn a_task_without_a_log_is_told_from_one_that_does_not_exist() {
    let world = world("stages:\n  a: { shell: echo a }\n  b: { when: false, shell: echo b }\n");
    world.good(&["run", "m"]);
    let without = world.regatta(&["logs", "b"]);
    assert_eq!(without.code, 2);
    without.shows("b has no log").shows("`regatta logs` lists the logs of the last run");
}

#[test]
fn the_wait_for_another_run_is_no_part_of_a_run() {
    let world = world(GATED);
    let first = world.start(&["run", "m"]);
    world.await_file("started");
    let begun = Instant::now();
    let output = fs::File::create(world.path("second")).unwrap();
    let second = world.command(&["run", "m"]).stdout(output).stderr(Stdio::piped()).spawn().unwrap();
    until("the second run to wait", || world.read("second").contains("waiting for run"));
    assert!(world.read("second").contains("`--home DIR`"), "{}", world.read("second"));
    let waiting = Instant::now();
    std::thread::sleep(Duration::from_secs(2));
    let waited = waiting.elapsed();
    world.file("gate", "");
    assert_eq!(Ended::of(first).code, 0);
    assert_eq!(Ended::of(second).code, 0);
    let most = begun.elapsed().checked_sub(waited).unwrap().as_secs_f64();
    let runs: serde_json::Value = serde_json::from_str(&world.good(&["runs", "--json"]).stdout).unwrap();
    let took = runs["runs"][0]["seconds"].as_f64().unwrap();
    assert!(took < most, "{took} s of {most} s without the wait");
}

/// Two processes, and the first is in the middle of its run until the second has ended.
#[test]
fn a_run_with_a_state_folder_of_its_own_waits_for_none() {
    let world = world(GATED);
    let first = world.start(&["run", "m"]);
    world.await_file("started");
    world.manifest("n", "stages:\n  b: { shell: echo b }\n");
    let beside = world.good(&["run", "n", "--home", "beside"]);
    assert!(!beside.stdout.contains("waiting for run"), "{beside:?}");
    assert!(!world.path("gate").exists() && world.path("beside/runs").is_dir());
    world.file("gate", "");
    assert_eq!(Ended::of(first).code, 0);
}

/// The tasks of a `foreach` have the names that every other command has for them.
#[test]
fn logs_are_named_by_their_tasks() {
    let world = world(
        "stages:\n  each: { foreach: { x: [c, d] }, shell: '{{ \"echo in d\" if x == \"d\" else \"true\" }}' }\n",
    );
    world.good(&["run", "m"]);
    assert_eq!(world.good(&["logs"]).stdout, "each/c\neach/d\n");
    let wrong = world.regatta(&["logs", "each/cc"]);
    assert_eq!(wrong.code, 2);
    wrong.shows("did you mean `each/c`?");
    world.good(&["logs", "each/c"]).shows("each.c.log is empty: its task printed nothing");
    world.good(&["logs", "each/d"]).shows("in d\n");
    world.manifest("n", "stages:\n  each: { foreach: { x: [0.5], y: [e] }, shell: echo it }\n");
    world.good(&["run", "n"]);
    assert_eq!(world.good(&["logs"]).stdout, "each/0.5/e\n");
    // As runs of earlier programs named it.
    let runs = fs::read_dir(world.path(".regatta/runs")).unwrap();
    let last = runs.map(|run| run.unwrap().path()).max().unwrap();
    let logs = fs::read_dir(&last).unwrap().map(|item| item.unwrap().path());
    let log = logs.filter(|path| path.extension().is_some_and(|end| end == "log")).max().unwrap();
    fs::rename(log, last.join("each.0.5.e.log")).unwrap();
    assert_eq!(world.good(&["logs"]).stdout, "each/0.5/e\n");
    world.good(&["logs", "each/0.5/e"]).shows("it\n");
}

/// Set and empty is how shells express "not set".
#[test]
fn an_empty_home_is_not_set() {
    let mut world = world(CHAIN);
    world.env("REGATTA_HOME", "");
    world.good(&["list"]);
    world.good(&["run", "m"]);
    assert!(world.path(".regatta").is_dir());
    let typed = world.regatta(&["list", "--home", ""]);
    assert_eq!(typed.code, 2);
    typed.shows("`--home` has an empty name");
}

#[test]
fn a_run_that_was_killed_is_said_to_be_broken_off() {
    let world = world(GATED);
    let mut run = world.start(&["run", "m"]);
    world.await_file("started");
    run.kill().unwrap();
    run.wait().unwrap();
    no_process_left(&world);
    let status = world.regatta(&["status"]);
    status.shows("interrupted; `regatta run` continues from there");
    assert_eq!(status.code, 130);
}

#[test]
fn in_a_folder_below_the_project_its_folder_is_named() {
    let world = world(CHAIN);
    world.good(&["run", "m"]);
    world.file("sub/deep/x", "");
    let below = |words: &[&str]| {
        let mut command = world.command(words);
        command.current_dir(world.path("sub/deep")).stdout(Stdio::piped()).stderr(Stdio::piped());
        let ended = Ended::of(command.spawn().unwrap());
        assert_eq!(ended.code, 2, "{ended:?}");
        ended
    };
    let project = fs::canonicalize(world.path("")).unwrap();
    below(&["plan", "m"]).shows(&format!("it is a manifest of {}: start regatta in that folder", project.display()));
    for words in [&["status"][..], &["logs"], &["report"]] {
        below(words).shows(&format!("{} has runs: start regatta in that folder", project.display()));
    }
}

#[test]
fn gc_shows_what_could_go_and_with_yes_it_goes() {
    let world = world(CHAIN);
    world.good(&["run", "m"]);
    world.manifest("m", &CHAIN.replace("echo d > out", "echo e > out"));
    world.good(&["run", "m"]);
    let outputs = || fs::read_dir(world.path(".regatta/out")).unwrap().count();
    assert_eq!(outputs(), 5);
    world.good(&["gc"]).shows("an older output of d, manifest m").shows("`--yes` removes them");
    assert_eq!(outputs(), 5, "a dry run");
    world.good(&["gc", "--yes"]).shows("removed");
    assert_eq!(outputs(), 4);
    world.good(&["gc"]).shows("nothing to remove");
    assert!(world.good(&["run", "m"]).ran().is_empty());
    world.manifest("m", CHAIN);
    assert_eq!(world.good(&["run", "m"]).ran(), ["d"], "its older output is gone, and known to be");
    assert_eq!(world.read("latest/d/out"), "d\n");
}

#[test]
fn clean_shows_what_would_go_and_with_yes_all_of_it_goes() {
    let world = world(CHAIN);
    world.good(&["run", "m"]);
    world.good(&["clean"]).shows(".regatta").shows("latest").shows("`--yes` removes them");
    assert_eq!(world.read("latest/d/out"), "d\n");
    world.good(&["clean", "--yes"]);
    assert!(!world.path(".regatta").exists());
    assert!(!world.path("latest").exists());
    world.good(&["clean", "--yes"]).shows("nothing to remove");
    assert_eq!(world.good(&["run", "m"]).ran(), ["a", "b", "c", "d"]);
}

#[test]
fn clean_refuses_a_folder_that_has_no_state_in_it() {
    let world = world(CHAIN);
    world.file("docs/thesis.tex", "mine").file("docs/out/mine", "mine").file("docs/records", "mine");
    for words in [&["clean", "--yes"][..], &["clean"], &["gc", "--yes"]] {
        for home in ["docs", "."] {
            let refused = world.regatta(&[words, &["--home", home]].concat());
            assert_eq!(refused.code, 2, "{words:?} {home}");
            refused.shows("is not a folder with state of Regatta");
        }
    }
    assert_eq!(fs::read_dir(world.path("docs")).unwrap().count(), 3);
    assert_eq!(world.read("docs/records"), "mine");
}

#[test]
fn clean_and_gc_leave_what_others_put_into_a_state_folder() {
    let mut world = world(CHAIN);
    world.env("REGATTA_HOME", world.path("docs"));
    world.file("docs/thesis.tex", "mine").file("docs/out/mine", "mine");
    world.good(&["run", "m"]);
    world.good(&["gc"]).shows("nothing to remove");
    world.good(&["clean", "--yes"]).shows("docs  all state of this project").shows("docs/thesis.tex stays");
    let left: Vec<_> = walkdir::WalkDir::new(world.path("docs")).sort_by_file_name().into_iter().flatten().collect();
    let left: Vec<_> = left.iter().map(|item| item.path().strip_prefix(world.path("")).unwrap().to_owned()).collect();
    assert_eq!(left, ["docs", "docs/out", "docs/out/mine", "docs/thesis.tex"].map(std::path::PathBuf::from));
}

#[test]
fn clean_says_where_the_state_may_be_that_of_other_projects_too() {
    let mut world = world(CHAIN);
    let elsewhere = World::new();
    world.env("REGATTA_HOME", elsewhere.path("state"));
    world.good(&["run", "m"]);
    world.good(&["clean"]).shows("all state of every project that uses this folder");
    world.good(&["clean", "--yes"]).shows("all state of every project that uses this folder");
    assert!(!elsewhere.path("state").exists());
}

#[test]
fn nothing_is_cleaned_up_under_a_run() {
    let world = world(GATED);
    let run = world.start(&["run", "m"]);
    world.await_file("started");
    for words in [["gc", "--yes"], ["clean", "--yes"]] {
        let ended = world.regatta(&words);
        assert_eq!(ended.code, 1);
        ended.shows("is working in this folder");
    }
    // Its stage has an output folder that no record names.
    let listed = world.good(&["gc"]);
    assert!(!listed.stdout.contains("did not finish"), "{}", listed.stdout);
    listed.shows("is running; what it has not finished is not listed");
    world.file("gate", "");
    assert_eq!(Ended::of(run).code, 0);
    assert_eq!(world.read("latest/a/out"), "a\n");
}

#[test]
fn the_state_may_lie_elsewhere() {
    let mut world = world(CHAIN);
    let elsewhere = World::new();
    world.env("REGATTA_HOME", elsewhere.path("deep/state"));
    assert_eq!(world.good(&["run", "m"]).ran(), ["a", "b", "c", "d"]);
    assert!(!world.path(".regatta").exists());
    assert!(elsewhere.path("deep/state/records").exists());
    assert_eq!(elsewhere.read("deep/state/latest/c/out"), "a\n");
    assert!(!elsewhere.path("deep/latest").exists(), "nothing is written beside a folder that a user named");
    assert!(world.good(&["run", "m"]).ran().is_empty());
    world.good(&["status"]).shows("done");
}

#[test]
fn events_are_one_json_object_a_line_and_the_last_one_has_the_exit_code() {
    for (manifest, exit) in [(CHAIN.to_owned(), 0), (CHAIN.replace("echo d > out", "exit 3"), 1)] {
        let world = world(&manifest);
        let ended = world.regatta(&["run", "m", "--events", "jsonl"]);
        let events: Vec<serde_json::Value> =
            ended.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        assert_eq!(events[0]["event"], "run_started");
        let last = events.last().unwrap();
        assert_eq!(last["event"], "run_finished");
        assert_eq!(last["exit"], exit);
        assert_eq!(ended.code, exit);
    }
    // When nothing has to run, too.
    let world = world(CHAIN);
    world.good(&["run", "m"]);
    let again = world.good(&["run", "m", "--events", "jsonl"]);
    let last: serde_json::Value = serde_json::from_str(again.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["exit"]), (&"run_finished".into(), &0.into()));
}
