//! What `regatta plan` expects of benchmarks, by the twin of their servers.

use std::process::Command;

use serde_json::Value;

/// The estimates of a plan by task, and the notes of its text.
fn plan(arguments: &[&str]) -> (Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let run = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_regatta"));
        let output = command.current_dir(folder.path()).arg("plan").args(arguments).args(options).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    (serde_json::from_str(&run(&["--json"])).unwrap(), run(&[]))
}

fn estimate<'a>(plan: &'a Value, task: &str) -> &'a Value {
    let tasks = plan["tasks"].as_array().unwrap();
    &tasks.iter().find(|one| one["id"] == task).unwrap_or_else(|| panic!("no {task} in {plan}"))["estimate"]
}

#[test]
fn a_plan_of_a_real_system_has_the_time_and_the_gpu_hours_of_its_twin() {
    let (json, text) = plan(&["llama2-70b", "system=h200-x8", "loadgen=true"]);
    let offline = estimate(&json, "run_harness/offline");
    let number = |of: &Value, key: &str| of[key].as_f64().unwrap_or_else(|| panic!("no {key} in {of}"));
    // Nebius published 34,812 tok/s for it in v5.1.
    let rate = number(offline, "output_tokens_per_second");
    assert!((rate / 34_812.0 - 1.0).abs() < 0.15, "{rate}");
    let seconds = number(offline, "seconds");
    assert!((number(offline, "gpu_hours") - 8.0 * seconds / 3600.0).abs() < 1e-9 && offline["gpus"] == 8);
    // As many as LoadGen issues in ten minutes of 115.2 samples/s.
    assert_eq!(offline["requests"], 98_304.0);
    assert!((number(offline, "requests_per_second") * seconds / 98_304.0 - 1.0).abs() < 0.01);
    // Ten minutes of arrivals, and the last answer.
    let server = estimate(&json, "run_harness/server");
    assert!((600.0..700.0).contains(&number(server, "seconds")) && server["falls_behind"] == false, "{server}");
    assert!(text.contains("model, not a measurement: the benchmarks take") && text.contains("by the twin sim-h200-x8"));
    assert!(text.contains("lengths: those of the benchmark's stand-in data set"), "{text}");
}

#[test]
fn a_rate_above_what_the_servers_answer_is_seen_in_the_plan() {
    let (json, text) = plan(&["llama2-70b", "system=h200-x8", "scenarios=server", "target_qps=300"]);
    assert_eq!(estimate(&json, "run_harness/server")["falls_behind"], true);
    assert!(text.contains("requests come faster than the servers answer them"), "{text}");
}

#[test]
fn simulated_servers_use_no_gpu_and_another_model_has_no_twin() {
    let (json, text) = plan(&["quickstart"]);
    let offline = estimate(&json, "run_harness/offline");
    assert!(offline["seconds"].as_f64().unwrap() > 1.0 && offline["gpu_hours"] == 0.0, "{offline}");
    assert!(text.contains("on simulated servers, which use no GPU"), "{text}");
    let (json, text) = plan(&["vllm", "system=h100-x1", "scenarios=offline", "model=meta/llama-70b"]);
    assert!(estimate(&json, "benchmark/offline").is_null() && !text.contains("model, not"), "{text}");
    let (json, _) = plan(&["vllm", "system=h100-x1", "scenarios=offline"]);
    assert_eq!(estimate(&json, "benchmark/offline")["gpus"], 1);
}
