//! `regatta what-if` on servers that are apart, and with the settings of a simulated vLLM.

use std::process::Command;

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::world::World;

fn what_if(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_regatta"));
    let output = command.current_dir(folder.path()).arg("what-if").args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn points(arguments: &[&str], of: &str) -> Vec<Value> {
    let found: Value = serde_json::from_str(&what_if(&[arguments, &["--json"]].concat())).unwrap();
    found[of].as_array().unwrap_or_else(|| panic!("no {of} in {found}")).clone()
}

const VLLM: [&str; 3] = ["vllm", "system=sim-h100-x1", "scenarios=server"];

#[test]
fn a_day_of_context_and_generation_servers_that_fail_answers_every_request() {
    let day = ["--disaggregated", "1:2,0:3", "--day", "1..4", "--replicas", "2", "--balancers", "2", "--sample", "1"];
    let lengths = ["--input-tokens", "800", "--output-tokens", "60"];
    let of = |failures: &[&str]| points(&[&VLLM, &day[..], &lengths, failures].concat(), "fleets");
    let (calm, stormy) = (of(&[]), of(&["--failures", "2h,10m"]));
    let number = |fleet: &Value, place: &str| {
        fleet.pointer(place).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {place} in {fleet}"))
    };
    // Two balancers with two times a context server and two generation servers; `0:3` has two replicas that do both.
    assert_eq!([&calm[0], &calm[1]].map(|fleet| number(fleet, "/replicas")), [12, 4]);
    assert_eq!([&calm[0], &calm[1]].map(|fleet| number(fleet, "/gpus")), [12, 4]);
    assert_eq!([&calm[0], &calm[1]].map(|fleet| number(fleet, "/simulated/replicas")), [6, 2]);
    for (calm, stormy) in calm.iter().zip(&stormy) {
        assert_eq!(number(calm, "/simulated/failures"), 0);
        assert!(number(stormy, "/simulated/failures") > 5, "{stormy}");
        for place in ["/simulated/requests", "/simulated/output_tokens"] {
            assert_eq!(number(stormy, place), number(calm, place), "{place}");
        }
    }
    let p99 = |fleet: &Value| fleet["ttft_ms"]["p99"].as_f64().unwrap();
    assert!(p99(&stormy[0]) > p99(&calm[0]), "{} {}", p99(&stormy[0]), p99(&calm[0]));
}

#[test]
fn servers_apart_have_the_command_of_their_load() {
    let lengths = ["--input-tokens", "800", "--output-tokens", "60"];
    let arguments = [&VLLM[..], &["--disaggregated", "0:1,1:1", "--rate", "5"], &lengths].concat();
    let found = points(&arguments, "points");
    let commands: Vec<&str> = found.iter().map(|point| point["command"].as_str().unwrap()).collect();
    assert_eq!(
        commands,
        [
            "regatta run vllm system=h100-x1 scenarios=server rate=5",
            "regatta bench openai://ROUTER:8000 --ignore-eos --input-tokens 800 --output-tokens 60 --duration 60s --rate=5",
        ]
    );
    assert!(what_if(&arguments).contains("No stage starts context and generation servers apart."));
    // The command is one that the program takes.
    let words: Vec<&str> = commands[1].split(' ').skip(1).collect();
    let output = Command::new(env!("CARGO_BIN_EXE_regatta")).args(words).arg("--dry-run").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn steps_above_the_largest_cuda_graph_take_longer() {
    let tpot = |settings: &[&str]| {
        let point = points(&[&VLLM, settings, &["--rate", "20"]].concat(), "points").remove(0);
        point["tpot_ms"]["p50"].as_f64().unwrap_or_else(|| panic!("{point}"))
    };
    // About 25 requests generate at a time; the layers' kernels are launched one by one in a step of more tokens than that.
    let (usual, small) = (tpot(&[]), tpot(&["max_cudagraph_capture_size=8"]));
    assert!(small > 1.2 * usual, "{small} ms, {usual} ms");
    assert_eq!(tpot(&["max_cudagraph_capture_size=512"]).to_bits(), usual.to_bits());
    // Without graphs small steps take longer, too.
    assert!(tpot(&["enforce_eager=true"]) >= small);
}

/// Gaps between tokens are not kept in virtual time.
#[test]
fn a_goal_that_cannot_be_judged_is_refused() {
    let words = ["what-if", "vllm", "system=sim-h100-x1", "scenarios=server", "--goal", "itl_p99<1s"];
    let ended = World::new().regatta(&words);
    assert_eq!(ended.code, 2, "{ended:?}");
    ended.shows("--goal: `itl_p99<1s`").shows("limits on ttft, tpot and e2e");
}
