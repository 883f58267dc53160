//! What is known to fail is refused before the first stage runs: inputs that are not there, keys that are not set.

use crate::world::World;

const BENCH: &str = "bench: { target: 'openai://127.0.0.1:1', model: m, scenario: concurrency, concurrency: 1, stop: { requests: 1 }, output_tokens: { fixed: 4 }, ";

/// A long stage, and a benchmark that needs it.
fn world(bench: &str) -> World {
    let mut world = World::with(&format!(
        "stages:\n  build: {{ shell: 'echo built >> \"$W/built\"' }}\n  measure:\n    needs: [build]\n    {BENCH}{bench} }}\n"
    ));
    let folder = world.path("");
    world.env("W", folder);
    world
}

#[test]
fn a_file_that_is_not_there_is_an_error_before_the_first_stage() {
    let world = world("data: { jsonl: nosuch.jsonl }");
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
        "stages:\n  make: { shell: 'echo made > \"$W/data/made.txt\"' }\n  script: { inputs: { s: make.sh }, shell: 'sh \"$INPUT_S\"' }\n  use: { needs: [make, script], inputs: { a: data/made.txt, b: other }, shell: 'cat \"$INPUT_A\" \"$INPUT_B\" > out' }\n",
    );
    let folder = world.path("");
    world.env("W", folder);
    world.file("data/is-there", "").file("make.sh", "echo other > \"$W/other\"\n");
    world.good(&["run", "m"]);
    assert_eq!(world.read("latest/use/out"), "made\nother\n");
}

#[test]
fn a_key_that_is_not_set_is_an_error_before_the_first_stage() {
    let mut world = world("input_tokens: { fixed: 4 }, api_key_env: REGATTA_TEST_KEY");
    let ended = world.regatta(&["run", "m"]);
    assert_eq!((ended.code, world.count("built")), (2, 0), "{ended:?}");
    ended.shows("error: measure: `api_key_env: REGATTA_TEST_KEY`: the environment variable is not set");
    world.good(&["plan", "m"]).shows("will fail: `api_key_env: REGATTA_TEST_KEY`: the environment variable is not set");
    let line = |ended: &crate::world::Ended| {
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
fn a_secret_that_is_not_set_is_noted_before_the_first_stage() {
    let world = World::with("stages:\n  a: { secrets: [REGATTA_TEST_SECRET], shell: 'true' }\n");
    let note = "REGATTA_TEST_SECRET is not set, and the stage's `secrets:` name it: it runs without";
    world.good(&["plan", "m"]).shows(note);
    let ended = world.good(&["run", "m"]);
    assert!(ended.stderr.contains(&format!("note: a: {note}")), "{ended:?}");
    // A cached stage needs none.
    assert!(!world.good(&["run", "m", "--no-lock"]).stderr.contains(note));
}
