//! Several runs of another tool are one sweep: GuideLLM's and AIPerf's as those tools wrote them, the others in their formats.

use std::fs;
use std::path::{Path, PathBuf};

use regatta::harness::{SweepReport, sweep_schema};
use serde_json::{Value, json};

use crate::world::World;

fn golden(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/sweeps").join(name);
    path.to_string_lossy().into_owned()
}

fn imported(world: &World, paths: &[&str], out: &str) -> SweepReport {
    let line: Vec<&str> = ["import"].into_iter().chain(paths.iter().copied()).chain(["--out", out]).collect();
    world.good(&line).shows("not judged").shows("not by Regatta");
    let sweep: Value = serde_json::from_str(&world.read(format!("{out}/sweep.json"))).unwrap();
    jsonschema::validate(&sweep_schema(), &sweep).unwrap();
    let page = world.read(format!("{out}/sweep.html"));
    assert!(page.contains("<svg") && page.contains("Points</h2>") && page.contains("not judged</td>"), "{page}");
    SweepReport::read(&world.path(out).join("sweep.json")).unwrap()
}

fn levels(report: &SweepReport) -> Vec<String> {
    report.points.iter().map(|point| point.level.to_string()).collect()
}

#[test]
fn one_file_of_guidellm_is_a_sweep_with_its_own_numbers() {
    let world = World::new();
    let report = imported(&world, &[&golden("guidellm.json")], "g");
    assert_eq!(levels(&report), ["1 user", "4 users", "16 users"]);
    let file: Value = serde_json::from_str(&fs::read_to_string(golden("guidellm.json")).unwrap()).unwrap();
    for (point, benchmark) in report.points.iter().zip(file["benchmarks"].as_array().unwrap()) {
        let metric = |name: &str| benchmark["metrics"][name]["successful"].clone();
        assert_eq!(point.requests_per_s, metric("requests_per_second")["mean"].as_f64());
        assert_eq!(point.output_tokens_per_s, metric("output_tokens_per_second")["mean"].as_f64());
        let ttft = point.ttft.p99.map(|number| number.value);
        assert_eq!(ttft, metric("time_to_first_token_ms")["percentiles"]["p99"].as_f64());
        // What GuideLLM calls ITL is what others call TPOT; its TPOT has the TTFT inside.
        let tpot = point.tpot.p50.map(|number| number.value);
        assert_eq!(tpot, metric("inter_token_latency_ms")["percentiles"]["p50"].as_f64());
        assert_eq!(point.verdict, None);
        assert!(world.path("g").join(&point.folder).join("result.json").is_file());
    }
    let origin = report.imported.unwrap();
    assert_eq!((origin.tool.as_str(), origin.tool_version.as_deref()), ("guidellm", Some("0.8.1")));
    assert!(origin.definitions["tpot"].ends_with(", which it calls ITL"), "{origin:?}");
    // Which of its runs a single result should be is not known.
    let one = world.regatta(&["report", &golden("guidellm.json"), "--as", "vllm"]);
    assert_eq!(one.code, 2, "{one:?}");
    one.shows("holds 3 runs").shows("makes a sweep of them");
}

#[test]
fn folders_of_aiperf_are_levels_and_are_drawn_over_another_sweep() {
    let world = World::new();
    let report = imported(&world, &[&golden("aiperf")], "a");
    assert_eq!(levels(&report), ["2 users", "4 users", "8 users", "16 users"]);
    let first: Value =
        serde_json::from_str(&fs::read_to_string(golden("aiperf/concurrency_2/profile_export_aiperf.json")).unwrap())
            .unwrap();
    assert_eq!(report.points[0].requests_per_s, first["request_throughput"]["avg"].as_f64());
    assert_eq!(report.points[0].ttft.p50.map(|ttft| ttft.value), first["time_to_first_token"]["p50"].as_f64());
    // Without an import before, and with another tool's.
    let both = ["compare", &golden("aiperf"), &golden("guidellm.json")];
    let line: Vec<&str> = both.into_iter().chain(["--html", "both.html"]).collect();
    world.good(&line).shows("4 points by aiperf").shows("3 points by guidellm").shows("define differently");
    let page = world.read("both.html");
    assert!(page.contains("curve c1") && page.contains("define differently"), "{page}");
    let percent = |more: &[&str]| {
        let line: Vec<&str> = both.into_iter().chain(["--json"]).chain(more.iter().copied()).collect();
        let json: Value = serde_json::from_str(&world.good(&line).stdout).unwrap();
        let at = json["levels"].as_array().unwrap().iter().position(|row| row["level"] == "16 users").unwrap();
        json["levels"][at]["points"][1]["output_tokens"].clone()
    };
    assert_eq!(percent(&[])["percent"], Value::Null, "rates have other ends");
    let forced = percent(&["--force"]);
    assert!(forced["percent"].as_f64().is_some_and(|percent| percent > 10.0), "{forced}");
    assert_eq!(forced["judgement"], "not_judged");
}

fn vllm(users: u64, rate: f64) -> Value {
    json!({ "backend": "openai-chat", "model_id": "m", "num_prompts": 8, "request_rate": "inf", "max_concurrency": users,
        "duration": 2.0, "completed": 8, "failed": 0, "total_input_tokens": 800, "total_output_tokens": 400,
        "request_throughput": rate, "output_throughput": rate * 50.0, "mean_ttft_ms": 50.0, "median_ttft_ms": 49.0,
        "p99_ttft_ms": 60.0, "mean_tpot_ms": 10.0, "median_tpot_ms": 10.0, "p99_tpot_ms": 12.0, "mean_itl_ms": 11.0,
        "median_itl_ms": 10.0, "p99_itl_ms": 20.0, "mean_e2el_ms": 500.0, "median_e2el_ms": 490.0, "p99_e2el_ms": 700.0 })
}

/// The folders of `vllm bench sweep serve`: one for each combination, `run=0.json` and on, a warm-up, and a summary as a list.
#[test]
fn runs_of_vllm_bench_sweep_are_repeats_of_a_point() {
    let world = World::new();
    for (users, rates) in [(2_u64, [4.0, 4.2, 4.4]), (16, [20.0, 21.0, 22.0])] {
        let folder = format!("res/20261124_010000/BENCH--max_concurrency={users}");
        let runs: Vec<Value> = (0..3)
            .map(|run| {
                let mut one = vllm(users, rates[run]);
                one["run_number"] = json!(run);
                world.file(&format!("{folder}/run={run}.json"), &one.to_string());
                one
            })
            .collect();
        world.file(&format!("{folder}/summary.json"), &json!(runs).to_string());
        let mut warmup = vllm(users, 0.1);
        warmup["run_number"] = json!(-1);
        world.file(&format!("{folder}/warmup.json"), &warmup.to_string());
    }
    let report = imported(&world, &["res"], "v");
    assert_eq!(levels(&report), ["2 users", "16 users"]);
    let point = &report.points[0];
    assert_eq!(point.runs, 3);
    assert!((point.requests_per_s.unwrap() - 4.2).abs() < 1e-9);
    // Student's t of two degrees of freedom is 4.303, the standard deviation 0.2.
    let (low, high) = point.interval_over_runs("requests_full").unwrap();
    assert!(((high - low) / 2.0 - 4.303 * 0.2 / 3.0_f64.sqrt()).abs() < 1e-3, "{low} {high}");
    assert!(world.path("v/points/01-c2/repeats/03/result.json").is_file());
    // Two settings of a server at the same level are two sweeps.
    world.file(
        "res/20261124_010000/SERVE--max_num_seqs=8-BENCH--max_concurrency=2/run=0.json",
        &vllm(2, 3.0).to_string(),
    );
    let refused = world.regatta(&["import", "res"]);
    assert_eq!(refused.code, 2);
    refused.shows("at the same level, 2 users").shows("compare the sweeps");
}

/// `bench_serving` adds a line to its file for each run, and Python writes the rate of a closed loop as `Infinity`.
#[test]
fn lines_of_sglang_are_points() {
    let world = World::new();
    let line = |users: u64, rate: f64| {
        format!(
            "{{\"tag\": \"Infinity \\\" NaN\", \"backend\": \"sglang-oai-chat\", \"request_rate\": Infinity, \"max_concurrency\": {users}, \"completed\": 4, \"duration\": 2.0, \"request_throughput\": {rate}, \"output_throughput\": {}, \"mean_ttft_ms\": 50.0, \"mean_tpot_ms\": 10.0, \"median_tpot_ms\": 10.0, \"mean_itl_ms\": 11.0, \"mean_e2e_latency_ms\": 250.0, \"accept_length\": NaN}}\n",
            rate * 50.0
        )
    };
    world.file("s.jsonl", &[line(8, 6.0), line(1, 1.0), line(32, 9.0)].concat());
    let report = imported(&world, &["s.jsonl"], "s");
    assert_eq!(levels(&report), ["1 user", "8 users", "32 users"]);
    assert_eq!(report.points[2].output_tokens_per_s, Some(450.0));
    assert_eq!(report.knee.map(|knee| knee.level.to_string()).as_deref(), Some("32 users"));
    // The same run made again is a repeat.
    world.file("t.jsonl", &[line(8, 6.0), line(8, 7.0)].concat());
    let report = imported(&world, &["t.jsonl"], "t");
    assert_eq!((levels(&report), report.points[0].runs), (vec!["8 users".to_owned()], 2));
    for (run, rate) in [("01", 6.0), ("02", 7.0)] {
        let result: Value =
            serde_json::from_str(&world.read(format!("t/points/01-c8/repeats/{run}/result.json"))).unwrap();
        assert_eq!(result["rates"]["requests_full"], rate);
    }
}

/// What SGLang's and vLLM's own clients wrote, and the structure of TensorRT-LLM's report.
#[test]
fn files_that_the_tools_wrote_are_read_as_they_are() {
    let world = World::new();
    let text = fs::read_to_string(golden("sglang.jsonl")).unwrap();
    let report = imported(&world, &[&golden("sglang.jsonl")], "s");
    assert_eq!(levels(&report), ["1 user", "4 users", "16 users"]);
    for (point, line) in report.points.iter().zip(text.lines()) {
        let line: Value = serde_json::from_str(&line.replace("Infinity", "null")).unwrap();
        let number = |name: &str| line[name].as_f64();
        assert_eq!(point.requests_per_s, number("request_throughput"));
        assert_eq!(point.output_tokens_per_s, number("output_throughput"));
        assert_eq!(Some(point.ok), line["completed"].as_u64());
        assert_eq!(point.ttft.p99.map(|it| it.value), number("p99_ttft_ms"));
        assert_eq!(point.tpot.p50.map(|it| it.value), number("median_tpot_ms"));
        assert_eq!(point.e2e.mean.map(|it| it.value), number("mean_e2e_latency_ms"));
    }
    // Failures are counted where the details have them.
    assert_eq!(report.points.iter().map(|point| point.failed).collect::<Vec<_>>(), [0, 0, 0]);
    world.file("f.json", &text.lines().next().unwrap().replace("\"errors\": [\"\", ", "\"errors\": [\"503\", "));
    world.good(&["import", "f.json", "--out", "f"]);
    let failed: Value = serde_json::from_str(&world.read("f/result.json")).unwrap();
    assert_eq!(failed["counts"]["failed"], 1.0);
    // vLLM writes where each answer begins and its gaps, and no whole latencies: its own mean comes of them.
    let file: Value = serde_json::from_str(&fs::read_to_string(golden("vllm.json")).unwrap()).unwrap();
    let by_rule = world.good(&["report", &golden("vllm.json"), "--as", "vllm"]);
    by_rule.shows("vllm  ITL ms      19.10").shows(&format!("{:.2}", file["mean_e2el_ms"].as_f64().unwrap()));
    world.good(&["import", &golden("vllm.json"), "--out", "v"]);
    let result: Value = serde_json::from_str(&world.read("v/result.json")).unwrap();
    assert_eq!(result["latency"]["e2e"]["mean"], file["mean_e2el_ms"]);
    assert_eq!(result["counts"]["ok"], 12.0);
    world.good(&["import", &golden("trtllm-bench.json"), "--out", "t"]);
    let result: Value = serde_json::from_str(&world.read("t/result.json")).unwrap();
    assert_eq!(result["imported"]["tool_version"], "1.2.1");
    assert_eq!((&result["rates"]["output_tokens"], &result["counts"]["ok"]), (&json!(640.0), &json!(40.0)));
    assert_eq!(result["latency"]["tpot"]["p90"], 5.9);
    assert_eq!(result["requested"]["gpu"], "NVIDIA H200");
}

/// trtllm-bench's report does not have the option `--concurrency`; names of files do.
#[test]
fn reports_of_trtllm_bench_have_the_level_of_their_name() {
    let world = World::new();
    let report = |rate: f64| {
        json!({ "engine": { "model": "m", "version": "1.1", "backend": "PyTorch" },
            "request_info": { "num_requests": 10, "avg_num_concurrent_requests": 3.2, "avg_input_length": 128, "avg_output_length": 64 },
            "performance": { "total_latency_ms": 1000.0, "request_throughput_req_s": rate,
                "system_output_throughput_tok_s": rate * 64.0, "request_latency_percentiles_ms": { "average": 600.0, "p50": 590.0, "p99": 700.0 } },
            "streaming_metrics": { "ttft_percentiles": { "average": 20.0, "p50": 19.0, "p99": 30.0 },
                "tpot_percentiles": { "average": 9.0, "p50": 9.0, "p99": 11.0 } } })
    };
    for (name, rate) in [("c4", 4.0), ("c16", 12.0)] {
        world.file(&format!("{name}.json"), &report(rate).to_string());
    }
    let report = imported(&world, &["c16.json", "c4.json"], "t");
    assert_eq!(levels(&report), ["4 users", "16 users"]);
    assert_eq!(report.points[1].output_tokens_per_s, Some(12.0 * 64.0));
}

/// Logs as LoadGen wrote them, at two target rates.
#[test]
fn folders_of_loadgen_are_points() {
    let world = World::new();
    let log = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/mlperf/logs/server-valid");
    let detail = fs::read_to_string(log.join("mlperf_log_detail.txt")).unwrap();
    let target = detail.lines().find(|line| line.contains("\"effective_target_qps\"")).unwrap();
    let value: Value = serde_json::from_str(target.trim_start_matches(":::MLLOG ")).unwrap();
    let qps = value["value"].as_f64().unwrap();
    let half = target.replace(&format!("\"value\": {}", value["value"]), &format!("\"value\": {}", qps / 2.0));
    assert_ne!(half, target);
    world.file("runs/a/mlperf_log_detail.txt", &detail);
    world.file("runs/b/mlperf_log_detail.txt", &detail.replace(target, &half));
    let report = imported(&world, &["runs"], "l");
    assert_eq!(levels(&report), [format!("{} req/s", qps / 2.0), format!("{qps} req/s")]);
    assert_eq!(report.points[0].ttft.p99.map(|ttft| ttft.value), Some(15.320_277));
}

/// The folders of a submission: what is measured is in the performance run.
#[test]
fn an_accuracy_run_of_loadgen_is_passed_over_beside_a_performance_run_and_alone_it_is_named() {
    let world = World::new();
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/mlperf/logs");
    for (name, to) in [("server-valid", "Server/performance/run_1"), ("server-accuracy", "Server/accuracy")] {
        for log in ["mlperf_log_detail.txt", "mlperf_log_summary.txt"] {
            world.file(&format!("{to}/{log}"), &fs::read_to_string(logs.join(name).join(log)).unwrap());
        }
    }
    world.good(&["import", "Server", "--out", "both"]);
    let alone = world.regatta(&["import", "Server/accuracy", "--out", "alone"]);
    assert_eq!(alone.code, 2, "{alone:?}");
    alone.shows("mlperf_log_detail.txt belongs to an accuracy run, in which LoadGen does not measure");
    fs::remove_file(world.path("Server/accuracy/mlperf_log_detail.txt")).unwrap();
    let summary = world.regatta(&["import", "Server/accuracy", "--out", "alone"]);
    summary
        .shows("mlperf_log_summary.txt belongs to an accuracy run")
        .shows("hint: import the folder of the performance run");
}
