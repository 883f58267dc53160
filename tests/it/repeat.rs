//! `repeat:` — one measurement several times: every run is kept, and the result has means and intervals over them.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::campaign::nobody_left;
use crate::services::{SERVE, bench, scripted, world};

fn read(world: &crate::world::World, path: &str) -> Value {
    serde_json::from_str(&world.read(path)).expect("JSON")
}

#[test]
fn runs_have_seeds_of_their_own_and_are_summed_up() {
    let load = bench("server", 24, ", rate: 60, seed: 7, repeat: 3, preflight: \"off\"");
    let world = world(&[&scripted(SERVE, "ready: { timeout: 1m }"), &load]);
    // A loaded machine may be late at sending: what the runs say then is INVALID(client), and is kept all the same.
    let ended = world.regatta(&["run", "m"]);
    assert!(matches!(ended.code, 0 | 3), "{}\n{}", ended.stdout, ended.stderr);
    let folder = if ended.code == 0 { "latest/measure" } else { ".regatta/failed/measure" };
    ended.says("3 runs").says("95 % interval over runs");
    let whole = read(&world, &format!("{folder}/result.json"));
    let runs: Vec<Value> = (1..=3).map(|run| read(&world, &format!("{folder}/repeats/0{run}/result.json"))).collect();
    let seeds: Vec<&Value> = runs.iter().map(|run| &run["asked"]["seed"]).collect();
    assert_eq!(seeds, [&json!(7), &json!(8), &json!(9)]);
    assert!(runs[0]["schedule_digest"] != runs[1]["schedule_digest"], "other seeds are other arrivals");
    for run in 1..=3 {
        let lines = world.read(format!("{folder}/repeats/0{run}/requests.jsonl")).lines().count();
        assert_eq!(lines, 24);
    }
    assert_eq!(whole["latency"], runs[0]["latency"], "the other numbers are those of the first run");
    assert_eq!(whole["repeats"]["shown"], 1);
    let over = &whole["repeats"]["over_runs"]["ttft_p50"];
    let values: Vec<f64> = runs.iter().map(|run| run["latency"]["ttft"]["p50"].as_f64().unwrap()).collect();
    assert_eq!(over["values"], json!(values));
    let mean = values.iter().sum::<f64>() / 3.0;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 2.0;
    // Student's t for two degrees of freedom and 97.5 %: 4.3027, from any table.
    let half = 4.3027 * (variance / 3.0).sqrt();
    assert!((over["mean"].as_f64().unwrap() - mean).abs() < 1e-9);
    assert!((over["high"].as_f64().unwrap() - mean - half).abs() < 1e-3 * half.max(1e-6), "{over}");
    // The same folder is a side of a comparison with three runs.
    let compared = world.regatta(&["compare", folder, folder, "--json"]);
    let compared: Value = serde_json::from_str(&compared.stdout).expect("JSON");
    assert_eq!(
        (&compared["comparisons"][0]["a_runs"], &compared["comparisons"][0]["same_plan"]),
        (&json!(3), &json!(true))
    );
    nobody_left(&world);
}

#[test]
fn a_search_and_loadgen_are_not_repeated() {
    let world = crate::world::World::with(
        "stages:\n  a:\n    bench: { target: 'localhost:1', scenario: server, search: { low: 1, high: 9 }, repeat: 2, \
         limits: { ttft_p99: 1s }, stop: { requests: 9 }, input_tokens: { fixed: 1 }, output_tokens: { fixed: 1 } }\n",
    );
    let ended = world.regatta(&["check", "m"]);
    assert_eq!(ended.code, 2);
    ended.says("cannot be beside `search`");
}

#[test]
fn one_line_repeats_too() {
    let world = crate::world::World::new();
    world.good(&["bench", "sim:", "--repeat", "4", "--dry-run"]).says("repeat: 4");
    assert_eq!(world.regatta(&["bench", "sim:", "--repeat", "0"]).code, 2);
}
