//! Results in a notebook and in MLflow, read by the packages that people use.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::python_packages::python;
use crate::world::World;

fn chapter() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manual/24-in-a-notebook")
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
    let done = python().args(["-c", code]).env("MLFLOW_ALLOW_FILE_STORE", "true").current_dir(world.path("")).output();
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

#[test]
fn a_run_is_in_the_form_of_mlflows_file_store() {
    let world = world();
    for _ in 0..2 {
        world.good(&["export", "measured", "--as", "mlflow", "--out", "tracking"]).shows("tracking/mlruns");
    }
    let experiments: Vec<_> = fs::read_dir(world.path("tracking/mlruns")).unwrap().flatten().collect();
    assert_eq!(experiments.len(), 1);
    let experiment = experiments[0].path();
    let runs: Vec<PathBuf> =
        fs::read_dir(&experiment).unwrap().flatten().map(|it| it.path()).filter(|path| path.is_dir()).collect();
    let [run] = runs.as_slice() else { panic!("the same result is the same run: {runs:?}") };
    let id = run.file_name().unwrap().to_string_lossy().into_owned();
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    let meta: Value = serde_yaml::from_str(&fs::read_to_string(run.join("meta.yaml")).unwrap()).unwrap();
    assert_eq!((meta["run_id"].as_str(), meta["status"].as_u64()), (Some(id.as_str()), Some(3)));
    let result: Value = serde_json::from_str(&world.read("measured/result.json")).unwrap();
    let metric = fs::read_to_string(run.join("metrics/ttft_p99_ms")).unwrap();
    let parts: Vec<&str> = metric.split_whitespace().collect();
    assert_eq!(parts[1].parse::<f64>().ok(), result["latency"]["ttft"]["p99"].as_f64());
    assert_eq!((parts[0].parse::<u64>().ok(), parts[2]), (meta["start_time"].as_u64(), "0"));
    let kept: Value = serde_json::from_str(&fs::read_to_string(run.join("artifacts/result.json")).unwrap()).unwrap();
    assert_eq!(kept["schedule_digest"], result["schedule_digest"]);
}

#[test]
#[ignore = "needs Python, pip and the network"]
fn mlflow_finds_the_run_with_its_numbers() {
    let world = world();
    world.good(&["export", "measured", "--as", "mlflow", "--out", "tracking"]);
    let code = "import json, mlflow\n\
        mlflow.set_tracking_uri('file:tracking/mlruns')\n\
        runs = mlflow.search_runs(experiment_names=['regatta'], filter_string='metrics.ttft_p99_ms > 0')\n\
        run = runs.iloc[0]\n\
        found = {'count': len(runs), 'status': run['status'], 'ttft': run['metrics.ttft_p99_ms'], 'verdict': run['tags.regatta.verdict'], 'seed': run['params.seed']}\n\
        print(json.dumps(found))";
    let shown = printed(&world, code);
    let found: Value = serde_json::from_str(shown.lines().last().unwrap()).unwrap();
    let result: Value = serde_json::from_str(&world.read("measured/result.json")).unwrap();
    assert_eq!((&found["count"], &found["status"]), (&1.into(), &"FINISHED".into()));
    assert_eq!(found["ttft"].as_f64(), result["latency"]["ttft"]["p99"].as_f64());
    assert_eq!(found["seed"], "0");
    assert!(found["verdict"].as_str().unwrap().contains("SIMULATED"), "{found}");
}
