//! `regatta run vllm-triton`: vLLM's engine behind a real Triton. The engine is a stand-in with vLLM's Python interface, since there is
//! no GPU; what is between it and the client is what users run.

use std::path::Path;

use serde_json::{Value, json};

use crate::tritonserver;
use crate::world::{World, alive_with, signal, until};

fn world() -> World {
    let mut world = World::new();
    world.copy("manifests");
    world.env("PYTHONPATH", Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parts/vllm-engine"));
    world
}

fn words<'a>(program: &'a str, settings: &[&'a str]) -> Vec<&'a str> {
    let fixed = ["run", "vllm-triton", program, "sides=triton", "repeats=1", "input_tokens=16", "output_tokens=8"];
    [&fixed, settings].concat()
}

fn program() -> String {
    format!("tritonserver={}", tritonserver::program().display())
}

#[test]
#[ignore = "needs a real tritonserver"]
fn token_ids_go_through_triton_to_the_engine_and_back() {
    let world = world();
    let ended =
        world.regatta(&words(&program(), &["model=m", "requests=20", "rate=40", "duration=500ms", "--gpus", "1"]));
    // Beside other tests the client may be too late for its schedule. The answers are right or not.
    assert!([0, 3, 4].contains(&ended.code), "{}\n{}", ended.stdout, ended.stderr);
    for scenario in ["offline", "server"] {
        let kept = [format!("latest/measure/triton/{scenario}"), format!(".regatta/failed/measure.triton.{scenario}")];
        let kept = kept.iter().find(|folder| world.path(folder).exists()).expect("a result, valid or not");
        let result: Value = serde_json::from_str(&world.read(format!("{kept}/result.json"))).unwrap();
        let counts = &result["counts"];
        let ok = counts["ok"].as_u64().expect("a count");
        assert!(ok > 0 && (scenario == "server" || ok == 20), "{scenario}: {counts}");
        assert_eq!(counts["failed"], json!(0));
        assert_eq!(result["tokens"]["output"], json!(ok * 8));
        let server = &result["identity"]["servers"][0];
        assert_eq!((&server["kind"], &server["backend"]), (&json!("triton"), &json!("python")));
    }
    until("the engine ends with its server", || alive_with(world.path("")).is_empty());
}

#[test]
#[ignore = "needs a real tritonserver"]
fn an_engine_that_cannot_start_says_why() {
    let world = world();
    let ended = world.regatta(&words(&program(), &["model=no-such-model", "--gpus", "1"]));
    assert_eq!(ended.code, 1, "{}\n{}", ended.stdout, ended.stderr);
    ended.shows("no-such-model is not a folder and not a model at Hugging Face");
}

#[test]
#[ignore = "needs a real tritonserver"]
fn no_engine_is_left_when_the_run_is_killed() {
    let world = world();
    let mut child = world.start(&words(&program(), &["model=m", "scenarios=server", "duration=1h", "--gpus", "1"]));
    let engines = || alive_with(world.path("")).into_iter().filter(|(_, line)| line.contains("engine.py")).count();
    until("the engine is there", || engines() > 0);
    signal(&child, "KILL");
    child.wait().expect("it ends");
    until("nothing is left", || alive_with(world.path("")).is_empty());
}

/// A response factory that is queried after its last response ends the server with SIGSEGV.
#[test]
#[ignore = "needs a real tritonserver"]
fn answers_end_while_cancellation_is_checked() {
    let world = world();
    let model = "manifests/vllm-triton/model/model.py";
    let text = world.read(model);
    let often = text.replace("STOP_SECONDS, LOOK_SECONDS = 20, 5", "STOP_SECONDS, LOOK_SECONDS = 20, 0.05");
    assert_ne!(often, text, "the interval of the check is not where it was");
    world.file(model, &often);
    let program = program();
    let shape = ["input_tokens=500", "output_tokens=100", "requests=600", "scenarios=offline", "repeats=1"];
    let line = [&["run", "vllm-triton", &program, "model=m", "sides=triton", "--gpus", "1"], &shape[..]].concat();
    let ended = world.regatta(&line);
    assert!([0, 3, 4].contains(&ended.code), "{}\n{}", ended.stdout, ended.stderr);
    until("the engine ends with its server", || alive_with(world.path("")).is_empty());
}
