//! Results in a notebook, read by the packages that people use.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::python_packages::python;
use crate::world::World;

fn chapter() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manual/guides/notebook")
}

/// A world with the folder of the chapter.
fn world() -> World {
    let world = World::new();
    let from = chapter().with_extension("in");
    fs::create_dir(world.path("measured")).unwrap();
    for name in ["measured/result.json", "measured/requests.jsonl", "sweep.json"] {
        fs::copy(from.join(name), world.path(name)).unwrap();
    }
    world
}

fn printed(world: &World, code: &str) -> String {
    let done = python().args(["-c", code]).current_dir(world.path("")).output();
    let done = done.expect("python3");
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}\n{err}");
    out.into_owned()
}

/// Ends Python without taking it down: on a busy machine pyarrow's threads are sometimes not done then, and abort it.
const LEAVE: &str = "import os, sys; sys.stdout.flush(); os._exit(0)";

#[test]
#[ignore = "needs Python, pip and the network"]
fn the_cell_of_the_chapter_runs() {
    let world = world();
    world.good(&["export", "measured", "--as", "parquet"]);
    let text = fs::read_to_string(chapter().with_extension("md")).unwrap();
    let cell = text.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let shown = printed(&world, &format!("{cell}\n{LEAVE}"));
    // As the result itself has it, to the digit that both percentile rules share.
    let result: Value = serde_json::from_str(&world.read("measured/result.json")).unwrap();
    let count = result["counts"]["ok"].as_u64().unwrap();
    assert!(shown.contains(&format!("over {count} requests")), "{shown}");
    let p50: f64 = shown.strip_prefix("TTFT p50 ").and_then(|rest| rest.split(' ').next()).unwrap().parse().unwrap();
    let own = result["latency"]["ttft"]["p50"].as_f64().unwrap();
    assert!((p50 - own).abs() < 0.1 * own, "{p50} {own}");
    assert!(shown.contains("output_tokens_per_s") && shown.contains("valid"), "{shown}");
}

/// The cell of the chapter, without an account: the run is in the file that `wandb sync` uploads.
#[test]
#[ignore = "needs Python, pip and the network"]
fn the_cell_for_weights_and_biases_writes_an_offline_run() {
    let world = world();
    let text = fs::read_to_string(chapter().with_extension("md")).unwrap();
    let cell = text.split("```python\n").nth(2).and_then(|rest| rest.split("```").next()).unwrap();
    assert!(cell.contains("wandb.init("), "{cell}");
    printed(&world, cell);
    let run = fs::read_dir(world.path("wandb")).unwrap().flatten().map(|item| item.path());
    let run =
        run.into_iter().find(|path| path.file_name().unwrap().to_string_lossy().starts_with("offline-run-")).unwrap();
    let files: Vec<PathBuf> = fs::read_dir(&run).unwrap().flatten().map(|item| item.path()).collect();
    let written = files.iter().find(|path| path.extension().is_some_and(|kind| kind == "wandb")).unwrap();
    let bytes = fs::read(written).unwrap();
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    let result: Value = serde_json::from_str(&world.read("measured/result.json")).unwrap();
    let p99 = result["latency"]["ttft"]["p99"].to_string();
    for text in ["ttft_p99_ms", p99.as_str(), "sweep/tokens_per_s_per_user", "valid_with_warnings"] {
        assert!(has(text), "{text} is not in {}", written.display());
    }
}
