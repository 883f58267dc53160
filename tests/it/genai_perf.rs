//! perf_analyzer's raw exports are told as GenAI-Perf tells them, and our runs in its words.

use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::World;

/// Requests by hand in the shape of perf_analyzer 2.51: answers that begin or end without text, that have no response,
/// that come in one piece, and events read in two pieces or two at once.
fn raw(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/results/genai-perf").join(name);
    path.display().to_string()
}

fn close(found: &Value, expected: f64) {
    let found = found.as_f64().unwrap_or_else(|| panic!("{found} is not a number"));
    assert!((found - expected).abs() < 1e-4, "{found} is not {expected}");
}

/// The numbers are what the parser of GenAI-Perf 0.0.16 makes of the same files, with a tokenizer for which each word in
/// them is one token: answers with TTFT, their mean and 99th percentile, ITLs and their mean, mean latency, requests/s.
#[test]
fn their_raw_records_give_their_numbers() {
    let world = World::new();
    for (name, answered, ttft, ttft_p99, itls, itl, e2e, rate) in [
        ("kserve.json", 4, 17.5, 29.7, 2, 25.5, 30.25, 125.0),
        ("openai.json", 3, 35.0 / 3.0, 19.8, 2, 11.125, 94.0 / 3.0, 100.0),
        ("generate.json", 2, 15.0, 19.9, 2, 20.0, 45.0, 2.0 / 0.053),
    ] {
        world.good(&["import", &raw(name), "--out", name]);
        let result: Value = serde_json::from_str(&world.read(format!("{name}/result.json"))).unwrap();
        let latency = &result["latency"];
        assert_eq!((&latency["ttft"]["n"], &latency["itl"]["n"]), (&json!(answered), &json!(itls)), "{name}");
        close(&latency["ttft"]["mean"], ttft);
        close(&latency["ttft"]["p99"], ttft_p99);
        close(&latency["itl"]["mean"], itl);
        close(&latency["e2e"]["mean"], e2e);
        close(&result["rates"]["requests_full"], rate);
    }
}

/// A run of ours and a raw export of theirs: the same load in other words, told with one definition.
#[test]
fn a_closed_loop_of_ours_is_held_against_one_of_theirs() {
    let world = World::new();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/results/benchmark");
    let mut result: Value = serde_json::from_str(&fs::read_to_string(golden.join("result.json")).unwrap()).unwrap();
    result["asked"]["scenario"] = json!({ "concurrency": { "users": 2.0 } });
    result["tokens"]["source"] = json!("responses, each counted as one token");
    world.file("ours/result.json", &result.to_string());
    world.file("ours/requests.jsonl", &fs::read_to_string(golden.join("requests.jsonl")).unwrap());
    // Their own numbers beside the raw records: the tokens of the requests are still the responses.
    world.good(&["export", "ours", "--as", "genai-perf", "--out", "theirs"]);
    let written: Value = serde_json::from_str(&world.read("theirs/profile_export.json")).unwrap();
    assert_eq!(written["experiments"][0]["experiment"], json!({ "mode": "concurrency", "value": 2.0 }));
    let numbers: Value = serde_json::from_str(&world.read("theirs/profile_export_genai_perf.json")).unwrap();
    assert_eq!(numbers["input_config"]["perf_analyzer"]["stimulus"], json!({ "concurrency": 2.0 }));
    let ended = world.good(&["compare", "ours", "theirs", "--as", "genai-perf", "--json"]);
    let compared: Value = serde_json::from_str(&ended.stdout).unwrap();
    let deltas = compared["comparisons"][0]["deltas"].as_array().unwrap();
    for metric in ["ttft", "itl", "e2e"] {
        let delta = deltas.iter().find(|delta| delta["metric"] == metric && delta["stat"] == "mean").unwrap();
        assert_eq!(delta["unlike"], json!([]), "{delta}");
        close(&delta["percent"], 0.0);
    }
}
