//! What is known to fail is refused before the first stage runs: inputs that are not there, keys that are not set.

use crate::world::{Ended, World};

const BENCH: &str = "bench: { target: 'openai://127.0.0.1:1', model: m, scenario: concurrency, concurrency: 1, stop: \
                     { requests: 1 }, output_tokens: { fixed: 4 }, ";

const KEY: &str = "input_tokens: { fixed: 4 }, api_key_env: REGATTA_TEST_KEY";

/// A long stage, and a benchmark that needs these stages.
fn world(needs: &str, bench: &str) -> World {
    let mut world = World::with(&format!(
        "stages:\n  build: {{ shell: 'echo built >> \"$W/built\"' }}\n  measure:\n    needs: [{needs}]\n    {bench} \
                                                                }}\n"
    ));
    let folder = world.path("");
    world.env("W", folder);
    world
}

#[test]
fn a_file_that_is_not_there_is_an_error_before_the_first_stage() {
    let world = world("", &format!("{BENCH}data: {{ jsonl: nosuch.jsonl }}"));
    let ended = world.regatta(&["run", "m"]);
    assert_eq!((ended.code, world.count("built")), (2, 0), "{ended:?}");
    ended.shows("error: measure: input ").shows("nosuch.jsonl does not exist");
    assert!(!world.path(".regatta/runs").exists(), "no run has begun");
    // What can run does.
    let ended = world.regatta(&["run", "m", "--keep-going"]);
    assert_eq!(world.count("built"), 1, "{ended:?}");
    assert_ne!(ended.code, 0);
    ended.shows("paths are relative to the folder that regatta is started in");
    assert!(!ended.stderr.contains("`inputs:`") && !ended.stdout.contains("`inputs:`"), "{ended:?}");
    world.good(&["plan", "m"]).shows("will fail: input ");
}

#[test]
fn a_file_that_an_earlier_stage_writes_is_not_missed() {
    let mut world = World::with(
        "stages:\n  make: { shell: 'echo made > \"$W/data/made.txt\"' }\n  script: { shell: 'cd \"$W\" && sh \
                                                                                                      make.sh' }\n  use: { needs: [make, script], inputs: { a: data/made.txt, b: other }, shell: 'cat \"$INPUT_A\" \"$INPUT_B\" > out' }\n",
    );
    let folder = world.path("");
    world.env("W", folder);
    world.file("data/is-there", "").file("make.sh", "echo other > \"$W/other\"\n");
    world.good(&["run", "m"]);
    assert_eq!(world.read("latest/use/out"), "made\nother\n");
}

#[test]
fn a_file_that_a_confined_stage_cannot_write_is_missed() {
    let world = World::with(
        "stages:\n  make: { confine: true, shell: 'true' }\n  use: { needs: [make], inputs: { a: nosuch.txt }, \
         shell: 'true' }\n",
    );
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    ended.shows("error: use: input a: ").shows("nosuch.txt does not exist");
}

#[test]
fn a_file_that_the_run_before_this_one_writes_is_not_missed() {
    let mut world = World::with(
        "stages:\n  make: { shell: 'touch \"$W/begun\"; until [ -e \"$W/gate\" ]; do sleep 0.05; done; echo made > \
                                                                              \"$W/made.txt\"' }\n",
    );
    let folder = world.path("");
    world.env("W", folder);
    world.manifest("n", "stages:\n  use: { inputs: { a: made.txt }, shell: 'cat \"$INPUT_A\" > out' }\n");
    let making = world.start(&["run", "m"]);
    world.await_file("begun");
    let waiting = world.start(&["run", "n", "--events", "jsonl"]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    world.file("gate", "");
    let (making, waiting) = (Ended::of(making), Ended::of(waiting));
    assert_eq!((making.code, waiting.code), (0, 0), "{making:?} {waiting:?}");
    assert_eq!(world.read("latest/use/out"), "made\n");
    let without = world.path("made.txt");
    std::fs::remove_file(without).expect("it is there");
    assert_eq!(world.regatta(&["run", "n"]).code, 2);
}

#[test]
fn a_key_that_is_not_set_is_an_error_before_the_first_stage() {
    let mut world = world("build", &format!("{BENCH}{KEY}"));
    let ended = world.regatta(&["run", "m"]);
    assert_eq!((ended.code, world.count("built")), (2, 0), "{ended:?}");
    ended.shows("error: measure: `api_key_env: REGATTA_TEST_KEY`: the environment variable is not set");
    world.good(&["plan", "m"]).shows("will fail: `api_key_env: REGATTA_TEST_KEY`: the environment variable is not set");
    let line = |ended: &Ended| {
        let line = ended.stdout.lines().find(|line| line.contains("REGATTA_TEST_KEY")).map(str::to_owned);
        line.expect("a line of the key")
    };
    let of_doctor = line(&world.regatta(&["doctor", "m", "--color", "never"]));
    assert!(of_doctor.contains("not set"), "{of_doctor}");
    world.env("REGATTA_TEST_KEY", "sk-1");
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(world.count("built"), 1, "{ended:?}");
}

#[test]
fn a_key_over_grpc_is_an_error_of_the_check() {
    let world = world("build", &format!("{}{KEY}", BENCH.replace("openai:", "grpc:")));
    let ended = world.regatta(&["run", "m"]);
    assert_eq!((ended.code, world.count("built")), (2, 0), "{ended:?}");
    ended.shows("`stages.measure.bench.api_key_env` is for protocols over HTTP");
}

#[test]
fn a_key_of_another_scenario_is_refused_next_to_a_scenario_only() {
    let load = "stop: { requests: 1 }, input_tokens: { fixed: 4 }, output_tokens: { fixed: 4 }";
    let world = World::with(&format!(
        "params:\n  kind: {{ choice: [server, concurrency], default: server }}\nstages:\n  \
         each: {{ foreach: {{ scenario: [offline, server] }}, bench: {{ target: 'localhost:1', scenario: '{{{{ \
         scenario }}}}', rate: 50, {load} }} }}\n  \
         one: {{ bench: {{ target: 'localhost:1', scenario: '{{{{ kind }}}}', rate: 5, concurrency: 4, {load} }} }}\n"
    ));
    world.good(&["plan", "m"]);
    world.good(&["plan", "m", "kind=concurrency"]);
    world.good(&["plan", "quickstart", "run_harness.bench.rate=5"]);
    let ended = world.regatta(&["plan", "m", "one.bench.scenario=server"]);
    assert_eq!(ended.code, 0, "{ended:?}");
}

#[test]
fn a_secret_that_is_not_set_is_noted_once_for_each_stage() {
    let world =
        World::with("stages:\n  a: { foreach: { n: [1, 2, 3] }, secrets: [REGATTA_TEST_SECRET], shell: 'true' }\n");
    let note = "REGATTA_TEST_SECRET is not set; the stage lists it under `secrets:` and runs without it";
    world.good(&["plan", "m"]).shows(note);
    let notes = |ended: &Ended| [&ended.stdout, &ended.stderr].map(|text| text.matches(note).count());
    assert_eq!(notes(&world.good(&["run", "m"])).iter().sum::<usize>(), 1);
    // A cached stage needs none.
    assert_eq!(notes(&world.good(&["run", "m", "--no-lock"])), [0, 0]);
}
