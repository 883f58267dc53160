//! MLPerf's own LoadGen, built and driven: a rehearsal on the simulator, and what goes wrong.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::world::{World, alive_with, signal_pid, until};

/// Samples of a made-up data set: prompts and answers are short, so that a test is.
const SAMPLES: u32 = 24;

/// LoadGen of a round, built once for all tests, by the stage that builds it for everybody.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("loadgen-v5.1");
        if !kept.join("libloadgen.so").is_file() {
            let world = World::with("stages:\n  loadgen: { mlperf: { loadgen: { round: v5.1 } } }\n");
            world.good(&["run", "m"]);
            let whole = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("loadgen-{}", std::process::id()));
            fs::create_dir_all(&whole).unwrap();
            for name in ["libloadgen.so", "loadgen.json"] {
                fs::copy(world.path("latest/loadgen").join(name), whole.join(name)).unwrap();
            }
            // Another test process may have been faster.
            let _ = fs::rename(&whole, &kept);
        }
        kept
    })
}

/// A project with a data set, simulated servers, and one LoadGen test for each scenario.
fn world(scenarios: &str, loadgen: &str) -> World {
    let world = World::new();
    let prompt = |at: u32| (0..8 + at % 5).map(|token| 3 + (at * 31 + token) % 90).collect::<Vec<u32>>();
    let lines: Vec<String> = (0..SAMPLES)
        .map(|at| json!({"id": at, "input_ids": prompt(at), "output_tokens": 3 + at % 4}).to_string())
        .collect();
    world.file("data/dataset.jsonl", &(lines.join("\n") + "\n"));
    let told = json!({"benchmark": "llama2-70b-99.9", "synthetic": true, "samples": SAMPLES, "sha256": "0".repeat(64)});
    world.file("data/dataset.json", &told.to_string());
    let library = library().display().to_string();
    world.manifest(
        "m",
        &format!(
            r#"
include: [models/llama2-70b.yaml]
stages:
  engine:
    engine:
      backend: simulator
      model: "{{{{ model }}}}"
      system: {{ name: H200x1, gpus: 1, memory_gb: 141, bandwidth_gbs: 4800, tflops_16bit: 989 }}
      precision: fp8
      build_flags: {{ max_batch_size: 64, max_num_tokens: 1024, max_input_len: 1024, max_seq_len: 2048 }}
  config:
    foreach: {{ scenario: {scenarios} }}
    repository: {{ engine: "{{{{ stages.engine.out }}}}", streaming: "{{{{ scenario != 'offline' }}}}" }}
  servers:
    foreach: {{ scenario: {scenarios} }}
    serve: {{ simulator: {{ repository: "{{{{ stages.config.out }}}}", speed: 20, ready: {{ timeout: 1m }} }} }}
  test:
    foreach: {{ scenario: {scenarios} }}
    bench:
      target: "{{{{ stages.servers }}}}"
      scenario: "{{{{ scenario }}}}"
      loadgen:
        library: {library}
        dataset: data
        round: v5.1
        benchmark: llama2-70b-99.9
        {loadgen}
"#
        ),
    );
    world
}

fn json_of(path: PathBuf) -> Value {
    serde_json::from_slice(&fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))).unwrap()
}

#[test]
fn the_library_says_what_it_was_built_from() {
    let told = json_of(library().join("loadgen.json"));
    assert_eq!(told["version"], "5.1.2");
    assert_eq!(told["seeds"]["qsl"].as_u64(), Some(1_780_908_523_862_526_354));
    assert_eq!(told["sdist_sha256"].as_str().map(str::len), Some(64));
    assert!(told["compiler"].as_str().unwrap().contains("g++"), "{told}");
}

#[test]
fn loadgen_drives_offline_and_server_and_says_what_we_say() {
    let world = world("[offline, server]", "{ target_qps: 30, rehearse: true, user_conf: { min_duration: 2000 } }")
        .replaced_loadgen();
    world.good(&["run", "m"]);
    for (scenario, key) in [("offline", "result_samples_per_second"), ("server", "result_completed_samples_per_sec")] {
        let out = world.path("latest").join(format!("test/{scenario}"));
        let summary = fs::read_to_string(out.join("mlperf_log_summary.txt")).unwrap();
        assert!(summary.contains("Result is : VALID"), "{summary}");
        let test = json_of(out.join("test.json"));
        assert_eq!((&test["result"], &test["errors"], &test["rehearsal"]), (&json!("VALID"), &json!(0), &json!(true)));
        let result = json_of(out.join("result.json"));
        let said = &result["loadgen"];
        assert_eq!((&said["version"], &said["errors"]), (&json!("5.1.2"), &json!(0)));
        let metric = |name: &str| {
            let metrics = said["metrics"].as_array().unwrap();
            metrics.iter().find(|metric| metric["metric"] == name).unwrap_or_else(|| panic!("{name} in {said}"))
        };
        assert!(metric(key)["difference_percent"].as_f64().unwrap().abs() < 5.0, "{}", metric(key));
        // Every sample that LoadGen counted is one of our requests, and every token one of ours.
        let requests = fs::read_to_string(out.join("requests.jsonl")).unwrap();
        let requests: Vec<Value> = requests.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(said_count(&out), requests.len() as u64);
        for request in &requests {
            let sample = request["sample"].as_u64().unwrap();
            assert_eq!(request["tokens"].as_u64(), Some(3 + sample % 4), "{request}");
        }
    }
}

/// `result_query_count`; of Offline the one query has all samples, so what its logs count is their rate × time.
fn said_count(out: &Path) -> u64 {
    let detail = fs::read_to_string(out.join("mlperf_log_detail.txt")).unwrap();
    let value = |key: &str| {
        let line = detail.lines().rev().find(|line| line.contains(&format!("\"{key}\"")))?;
        let record: Value = serde_json::from_str(line.strip_prefix(":::MLLOG ")?).ok()?;
        record["value"].as_u64()
    };
    match value("result_query_count") {
        Some(count) if count > 1 => count,
        _ => value("generated_samples_per_query").unwrap(),
    }
}
