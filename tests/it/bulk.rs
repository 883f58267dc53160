//! Lists of runs.

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use pretty_assertions::assert_eq;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

use crate::world::{Ended, World, signal, until};

/// `good` and `bad` count how often they ran; `measured` has a benchmark.
fn world() -> World {
    let world = World::new();
    let count = |name: &str| world.path(name).display().to_string();
    let good = format!(
        "params:\n  n: {{ int: {{}}, default: 1, env: N }}\nstages:\n  a: {{ shell: 'echo {{{{ n }}}} >>{}' }}\n",
        count("good")
    );
    world.manifest("good", &good);
    world.manifest(
        "bad",
        &format!("stages:\n  a: {{ shell: 'echo x >>{}; test -e {}' }}\n", count("bad"), count("mended")),
    );
    world.file("d.txt", "{}\n");
    let bench = format!(
        "stages:\n  b:\n    trtllm_bench:\n      {{ model: m, dataset: d.txt, launcher: [sh, -c, 'echo x >>{}; echo \"= PERFORMANCE OVERVIEW\"; echo \"Total Output Throughput (tokens/sec): $((100 + 4 * ${{REGATTA_REPEAT:-0}}))\"'] }}\n",
        count("measured")
    );
    world.manifest("measured", &bench);
    world
}

#[test]
fn it_goes_on_after_a_failure_and_a_second_time_does_only_what_is_left() {
    let world = world();
    world.file(
        "list.yaml",
        "runs:\n- { run: good }\n- { run: bad }\n- { run: good, env: { N: 2 } }\n- { run: measured, repeats: 2 }\n",
    );
    let ended = world.regatta(&["bulk", "list.yaml"]);
    assert_eq!(ended.code, 1, "{}{}", ended.stdout, ended.stderr);
    ended.shows("bulk: 2 of 5: regatta run bad").shows("failed  exit 1").shows("a: exit code 1");
    ended.shows("N=2 regatta run good").shows("regatta run measured --repeat-number 2").shows("4 of 5 runs done");
    ended.shows("output tok/s: mean 104.0, 100.0 to 108.0 (n=2, one of each run)");
    assert_eq!((world.count("good"), world.count("bad"), world.count("measured")), (2, 1, 2));
    assert_eq!(world.read("good"), "1\n2\n");

    world.file("mended", "");
    let ended = world.good(&["bulk", "list.yaml"]);
    ended.shows("5 of 5 runs done").shows("mean 104.0");
    assert_eq!((world.count("good"), world.count("bad"), world.count("measured")), (2, 2, 2));
    assert_eq!(ended.stdout.matches("cached  exit 0").count(), 4, "{}", ended.stdout);
}

#[test]
fn what_cannot_be_run_is_said_before_the_first_begins() {
    let world = world();
    world.file("list.yaml", "runs:\n- { run: good }\n- { run: goood }\n- { run: good, params: { m: 1 } }\n- { run: good, env: { NCCL_DEBUG: INFO } }\n");
    let ended = world.regatta(&["bulk", "list.yaml"]);
    assert_eq!(ended.code, 2);
    ended.shows("3 runs with errors; nothing was started").shows("there is no manifest `goood`");
    ended.shows("there is no parameter `m`").shows("no parameter of `good` reads NCCL_DEBUG");
    assert!(!world.path("good").exists());
    world.file("list.yaml", "runs:\n- { rum: good }\n");
    world.regatta(&["bulk", "list.yaml"]).shows("is not a list of runs").shows("rum");
    world.regatta(&["bulk", "gone.yaml"]).shows("gone.yaml cannot be read");
}

#[test]
fn a_value_by_another_name_takes_precedence_as_by_the_same() {
    let world = world();
    world.file(
        "list.yaml",
        "params: { a.timeout: 9s, a.gpus: 0 }\nruns:\n- { run: good }\n- { run: good, params: { stages.a.timeout: 8s } }\n",
    );
    let first = "regatta run good a.timeout=9s a.gpus=0\n";
    assert_eq!(
        world.good(&["bulk", "list.yaml", "--dry-run"]).stdout,
        format!("{first}regatta run good a.gpus=0 stages.a.timeout=8s\n")
    );
    let over = "regatta run good a.gpus=0 stages.a.timeout=2s\n";
    let ended = world.good(&["bulk", "list.yaml", "stages.a.timeout=2s", "--dry-run"]);
    assert_eq!(ended.stdout, over.repeat(2));

    let ended = world.regatta(&["bulk", "list.yaml", "stages.a.timeout=2s", "a.timeout=3s", "--dry-run"]);
    assert_eq!(ended.code, 2);
    ended.shows("`stages.a.timeout` is given twice");
}

#[test]
fn a_file_of_llmb_run_becomes_commands() {
    let world = World::new();
    world.file(
        "llmb.yaml",
        "inference_llama3.3_70b:\n  defaults: { env: { STREAMING: false } }\n  tasks:\n  - dtypes: nvfp4\n    scales: [1]\n    repeats: 2\n    overrides: { env: { USE_CASES: 'reasoning:1000/1000 chat:128/128', MAX_BATCH_SIZE: 256 } }\n",
    );
    let dry = world.good(&["bulk", "llmb.yaml", "--gpu-type", "gb200", "--dry-run"]);
    let line = "MAX_BATCH_SIZE=256 STREAMING=false USE_CASES='reasoning:1000/1000 chat:128/128' regatta run llama3.3-70b system=gb200-x1 dtype=nvfp4";
    assert_eq!(dry.stdout, format!("{line}\n{line} --repeat-number 2\n"));
    // `cluster_config.yaml` gives the GPU type; `system=sim-…` runs the list on the simulator.
    world.file("cluster_config.yaml", "schema_version: 2\ngpu_type: GB200\n");
    assert_eq!(world.good(&["bulk", "llmb.yaml", "--dry-run"]).stdout, dry.stdout);
    let twin = world.good(&["bulk", "llmb.yaml", "--dry-run", "system=sim-gb200-x1"]);
    twin.shows("regatta run llama3.3-70b dtype=nvfp4 system=sim-gb200-x1").shows("scales have no effect");
    world.file("wrong.yaml", "inference_llama3.3_70b:\n  tasks: [{ dtypes: fp8, scales: 1 }]\n");
    let ended = world.regatta(&["bulk", "wrong.yaml", "--dry-run"]);
    assert_eq!(ended.code, 2);
    ended.shows("`fp8` is not one of the choices");
}

#[test]
fn who_interrupts_a_run_ends_the_list() {
    let world = world();
    let stage = format!("stages:\n  a: {{ shell: 'echo x >>{}; exec sleep 600' }}\n", world.path("started").display());
    world.manifest("long", &stage);
    world.file("list.yaml", "runs:\n- { run: long }\n- { run: good }\n");
    let child = world.start(&["bulk", "list.yaml"]);
    world.await_file("started");
    signal(&child, "INT");
    let ended = Ended::of(child);
    assert_eq!(ended.code, 130, "{}{}", ended.stdout, ended.stderr);
    ended.shows("interrupted").shows("not run").shows("0 of 2 runs done");
    assert!(!world.path("good").exists());
}

/// The list reports each run before it begins. Here nothing takes up the report, so that it stands between two of them.
#[test]
fn an_interrupt_between_two_runs_ends_the_list() {
    let world = world();
    let wait = |name: &str, what: &str| {
        let touched = world.path(name).display().to_string();
        world.manifest(name, &format!("stages:\n  a: {{ timeout: 1m, shell: 'touch {touched}.started; {what}' }}\n"));
    };
    wait("gated", &format!("while [ ! -e {} ]; do sleep 0.02; done", world.path("gate").display()));
    wait("long", "exec sleep 600");
    world.file("list.yaml", "runs:\n- { run: gated }\n- { run: long }\n");
    let pipe = world.path("stderr");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    let open = |options: &mut OpenOptions| {
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(&pipe).expect("the pipe")
    };
    let kept_open = open(OpenOptions::new().read(true));
    let mut filler = open(OpenOptions::new().write(true));
    let stderr = OpenOptions::new().write(true).open(&pipe).expect("the pipe");
    let stdout = fs::File::create(world.path("stdout")).expect("a file");
    let child = world.command(&["bulk", "list.yaml"]).stdout(stdout).stderr(stderr).spawn().expect("regatta");
    world.await_file("gated.started");
    while filler.write(b"\n").is_ok() {}
    world.file("gate", "");
    until("the first run to end", || world.read("stdout").contains("1 ran"));
    signal(&child, "INT");
    drop(filler);
    let mut reported = String::new();
    fs::File::open(&pipe).and_then(|mut pipe| pipe.read_to_string(&mut reported)).expect("a text");
    drop(kept_open);
    let ended = Ended::of(child);
    let all = format!("{reported}{}", world.read("stdout"));
    assert_eq!(ended.code, 130, "{all}");
    assert!(all.contains("bulk: 2 of 2") && all.contains("1 of 2 runs done"), "{all}");
}

#[test]
fn a_locked_list_does_only_what_was_locked() {
    let world = world();
    world.file("list.yaml", "runs:\n- { run: good }\n- { run: good, env: { N: 2 } }\n");
    world.good(&["bulk", "list.yaml"]);
    world.good(&["bulk", "list.yaml", "--locked"]).shows("2 of 2 runs done");
    // Two runs of one manifest have separate sections in regatta.lock.
    let manifest = world.read("manifests/good.yaml");
    world.file("manifests/good.yaml", &manifest.replace("'echo", "'test {{ n }} = 1 || echo two; echo"));
    let ended = world.regatta(&["bulk", "list.yaml", "--locked"]);
    assert_eq!(ended.code, 6, "{}{}", ended.stdout, ended.stderr);
    ended.shows("0 of 2 runs done");
    assert_eq!(world.count("good"), 2, "nothing was started");
}

#[test]
fn what_a_list_has_made_is_shared() {
    let world = world();
    world.file("list.yaml", "runs:\n- { run: good }\n");
    let store = tempfile::tempdir().expect("a folder");
    let store = store.path().display().to_string();
    world.good(&["bulk", "list.yaml", "--store", &store]);
    fs::remove_dir_all(world.path(".regatta")).expect("removed");
    let again = world.good(&["bulk", "list.yaml", "--store", &store]);
    assert_eq!(world.count("good"), 1, "{}", again.stdout);
}
