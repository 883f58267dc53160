//! A run as another terminal sees it: how far each task is, and what a benchmark has measured so far.

use serde_json::Value;

use crate::world::{World, signal, until};

#[test]
fn status_has_what_a_benchmark_has_measured_so_far() {
    let world = World::new();
    let mut run = world.start(&[
        "bench",
        "sim:",
        "-c",
        "4",
        "--duration",
        "60s",
        "--input-tokens",
        "32",
        "--output-tokens",
        "16",
    ]);
    let status = || -> Option<Value> { serde_json::from_str(&world.regatta(&["status", "--json"]).stdout).ok() };
    let live = || status().map(|status| status["run_state"]["tasks"]["bench"]["progress"]["live"].clone());
    until("tokens and a first latency", || {
        live().is_some_and(|live| live["ttft_ms"].is_f64() && live["tpot_ms"].is_f64())
    });
    let live = live().unwrap();
    let number = |key: &str| live[key].as_f64().unwrap();
    assert!(number("tokens") >= number("ended") && number("ended") >= 1.0, "{live}");
    assert!(number("issued") - number("ended") <= 4.0, "{live}");
    let shown = world.regatta(&["status"]).stdout;
    assert!(shown.contains("in flight") && shown.contains("so far"), "{shown}");

    signal(&run, "INT");
    run.wait().unwrap();
    // The follower of a run that has ended prints it once, and no progress is left.
    let after = world.regatta(&["status", "--follow"]);
    assert!(
        after.code == 0 && after.stdout.contains("interrupted") && !after.stdout.contains("so far"),
        "{}",
        after.stdout
    );
    let left = walkdir::WalkDir::new(world.path(".regatta/runs")).into_iter().flatten();
    assert!(left.into_iter().all(|item| item.file_name() != "progress.jsonl"));
}
