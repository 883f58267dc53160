//! Results go out in other tools' files and come in from them, and every number keeps its meaning on the way.

use std::fs;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use regatta::event::ReducedSetting;
use regatta::harness::Stability;
use regatta::report::explain;
use serde_json::{Value, json};

use crate::world::World;

/// A real run of 24 requests against the simulator, with every chunk kept.
fn race() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/results/benchmark")
}

fn race_word() -> String {
    race().display().to_string()
}

fn json_of(world: &World, name: &str) -> Value {
    serde_json::from_str(&world.read(name)).expect("JSON")
}

fn number(value: &Value, place: &str) -> f64 {
    value.pointer(place).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number at {place} in {value:#}"))
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{found} is not {expected}");
}

/// `UPDATE=1 cargo test --test it files` writes them anew; read the difference.
#[test]
fn a_run_is_written_in_the_files_of_other_tools() {
    let world = World::new();
    world.good(&["export", &race_word(), "--out", "out", "--as", "genai-perf", "--as", "aiperf", "--as", "vllm"]);
    let golden = race().parent().expect("a folder").join("exported");
    let mut names = Vec::new();
    for file in fs::read_dir(world.path("out")).expect("written").flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        let text = fs::read_to_string(file.path()).expect("text");
        if std::env::var_os("UPDATE").is_some() {
            fs::create_dir_all(&golden).expect("a folder");
            fs::write(golden.join(&name), &text).expect("written");
        }
        let expected = fs::read_to_string(golden.join(&name)).unwrap_or_else(|_| panic!("{name} is new"));
        assert!(text == expected, "{name} differs from tests/golden/results/exported");
        names.push(name);
    }
    names.sort();
    assert_eq!(
        names,
        [
            "profile_export.json",
            "profile_export.jsonl",
            "profile_export_aiperf.csv",
            "profile_export_aiperf.json",
            "profile_export_genai_perf.csv",
            "profile_export_genai_perf.json",
            "vllm_bench.json",
        ]
    );
}

/// Where no model was requested, it is the one that the server reported; where neither is known, that is listed.
#[test]
fn vllms_file_has_the_model_that_was_served() {
    let world = World::new();
    let mut result: Value = serde_json::from_str(&fs::read_to_string(race().join("result.json")).unwrap()).unwrap();
    let mut export = |served: Value| {
        result["asked"]["model"] = "".into();
        result["identity"]["servers"][0]["model"] = served;
        world.file("run/result.json", &result.to_string());
        world.file("run/requests.jsonl", &fs::read_to_string(race().join("requests.jsonl")).unwrap());
        let ended = world.good(&["export", "run", "--as", "vllm", "--out", "out"]);
        let file = fs::read_dir(world.path("out")).unwrap().flatten().next().unwrap().path();
        (ended, serde_json::from_str::<Value>(&fs::read_to_string(file).unwrap()).unwrap())
    };
    let (ended, file) = export("gpt2".into());
    assert_eq!(file["model_id"], "gpt2");
    assert!(!ended.stderr.contains("model_id"), "{ended:?}");
    let (ended, file) = export(Value::Null);
    assert_eq!(file.get("model_id"), None);
    ended.shows("left out: model_id: ");
}

/// vLLM 0.33.0 has the limit on requests in flight and an infinite rate there, and counts prompts as the server does.
#[test]
fn vllms_file_of_a_closed_loop_is_compared_with_one_of_the_same_users() {
    let world = World::new();
    let mut result: Value = serde_json::from_str(&fs::read_to_string(race().join("result.json")).unwrap()).unwrap();
    result["asked"]["scenario"] = json!({"concurrency": {"users": 2}});
    world.file("run/result.json", &result.to_string());
    let records = fs::read_to_string(race().join("requests.jsonl")).unwrap();
    let records: Vec<String> = records
        .lines()
        .map(|line| {
            let mut record: Value = serde_json::from_str(line).unwrap();
            record["usage"] = json!({"prompt": 23, "completion": 3});
            record.to_string()
        })
        .collect();
    world.file("run/requests.jsonl", &(records.join("\n") + "\n"));
    world.good(&["export", "run", "--as", "vllm", "--out", "out"]);
    let file: Value = serde_json::from_str(&world.read("out/vllm_bench.json")).unwrap();
    assert_eq!((&file["max_concurrency"], &file["request_rate"]), (&2.into(), &"inf".into()));
    assert_eq!(file["total_input_tokens"], 23 * file["completed"].as_u64().unwrap());
    assert_eq!(file["input_lens"][0], 23);
    let compared = world.good(&["compare", "run", "out/vllm_bench.json", "--as", "vllm"]);
    assert!(!compared.stdout.contains("load: concurrency"), "{compared:?}");
}

#[test]
fn a_failure_inside_a_stream_is_told_where_it_is_none_to_the_tool() {
    let world = World::new();
    world.file("run/result.json", &fs::read_to_string(race().join("result.json")).unwrap());
    let records = fs::read_to_string(race().join("requests.jsonl")).unwrap();
    let (first, rest) = records.split_once('\n').unwrap();
    let mut first: Value = serde_json::from_str(first).unwrap();
    first["ended"] = json!({"failed": {"class": "server", "why": "engine died"}});
    world.file("run/requests.jsonl", &format!("{first}\n{rest}"));
    let text = "left out: 1 request that failed inside the stream, successful there";
    world.good(&["report", "run", "--as", "vllm"]).shows(text);
    assert!(!world.good(&["report", "run", "--as", "guidellm"]).stdout.contains(text));
}

#[test]
fn what_is_written_for_a_tool_has_its_definition_and_not_ours() {
    let world = World::new();
    world.good(&["export", &race_word(), "--as", "genai-perf", "--as", "vllm"]);
    let ours: Value = serde_json::from_str(&fs::read_to_string(race().join("result.json")).unwrap()).unwrap();
    let (genai, vllm) = (json_of(&world, "profile_export_genai_perf.json"), json_of(&world, "vllm_bench.json"));
    close(number(&genai, "/time_to_first_token/avg"), number(&ours, "/latency/ttft_sent/mean"));
    close(number(&vllm, "/mean_ttft_ms"), number(&ours, "/latency/ttft_sent/mean"));
    close(number(&vllm, "/mean_e2el_ms"), number(&ours, "/latency/e2e_sent/mean"));
    close(number(&vllm, "/mean_itl_ms"), number(&ours, "/latency/icl/mean"));
    assert!(number(&ours, "/latency/ttft/mean") > number(&vllm, "/mean_ttft_ms"));
    assert_eq!(vllm["total_output_tokens"], ours["tokens"]["output"]);
}

/// Each export comes back with the numbers that went out.
#[test]
fn what_goes_out_comes_in_again() {
    let world = World::new();
    for (shape, files) in [
        ("genai-perf", &["profile_export_genai_perf.json", "profile_export.json"][..]),
        ("aiperf", &["profile_export_aiperf.json", "profile_export.jsonl"][..]),
        ("vllm", &["vllm_bench.json"][..]),
    ] {
        world.good(&["export", &race_word(), "--out", shape, "--as", shape]);
        let paths: Vec<String> = files.iter().map(|file| format!("{shape}/{file}")).collect();
        let mut words = vec!["import", "--out", "back"];
        words.extend(paths.iter().map(String::as_str));
        world.good(&words);
        let back = json_of(&world, "back/result.json");
        assert_eq!(back["verdict"], "not_judged");
        assert_eq!(back["counts"]["ok"], json!(24.0), "{shape}");
        assert!(back["latency"]["ttft"]["zero_point"] == "issue", "{back:#}");
        // The raw file beside it knows as much as the run itself.
        let same = world.regatta(&["compare", &race_word(), "back", "--as", "vllm", "--json"]);
        let compared: Value = serde_json::from_str(&same.stdout).expect("JSON");
        let ttft = compared["comparisons"][0]["deltas"]
            .as_array()
            .expect("deltas")
            .iter()
            .find(|delta| delta["metric"] == "ttft" && delta["stat"] == "mean")
            .expect("a TTFT");
        close(number(ttft, "/b"), number(ttft, "/a"));
    }
}

/// Two requests: three tokens after 100 ms each 10 ms, and one token after 50 ms.
#[test]
fn perf_analyzers_raw_export_is_computed_again() {
    let world = World::new();
    let request = |at: u64, answers: &[u64]| {
        json!({
            "timestamp": at * 1_000_000,
            "request_inputs": {},
            "response_timestamps": answers.iter().map(|at| at * 1_000_000).collect::<Vec<_>>(),
            "response_outputs": answers.iter().map(|_| json!({ "text_output": "w" })).collect::<Vec<_>>(),
        })
    };
    let raw = json!({ "experiments": [{
        "experiment": { "mode": "concurrency", "value": 2 },
        "requests": [request(1_000, &[1_100, 1_110, 1_120]), request(1_000, &[1_050])],
        "window_boundaries": [],
    }], "version": "2.60.0", "service_kind": "triton", "endpoint": "" });
    world.file("raw.json", &raw.to_string());
    world.good(&["import", "raw.json", "--out", "in"]);
    let result = json_of(&world, "in/result.json");
    close(number(&result, "/latency/ttft/mean"), 75.0);
    close(number(&result, "/latency/itl/mean"), 10.0);
    assert_eq!(result["latency"]["itl"]["n"], 1);
    assert_eq!(result["latency"]["itl"]["token_source"], "responses, each counted as one token");
    close(number(&result, "/latency/e2e/mean"), 85.0);
    close(number(&result, "/rates/requests_full"), 2.0 / 0.120);
    assert_eq!(result["requested"]["concurrency"], 2);
}

/// Recorded from AIPerf 0.13 with `--use-server-token-count`; and without it, by changing what it counted.
#[test]
fn aiperf_with_the_servers_counts_names_the_server() {
    let world = World::new();
    world.copy("tests/golden/peers/aiperf-server-counts");
    let folder = "tests/golden/peers/aiperf-server-counts";
    let (summary, records) = (format!("{folder}/profile_export_aiperf.json"), format!("{folder}/profile_export.jsonl"));
    for (n, files) in [vec![&summary], vec![&records], vec![&summary, &records]].iter().enumerate() {
        let out = format!("in{n}");
        let mut words = vec!["import"];
        words.extend(files.iter().map(|file| file.as_str()));
        words.extend(["--out", &out]);
        world.good(&words);
        let result = json_of(&world, &format!("{out}/result.json"));
        assert_eq!(result["tokens"]["source"], "the server", "{files:?}");
        assert_eq!(result["latency"]["itl"]["token_source"], "the server", "{files:?}");
        assert_eq!(result["tokens"]["output"], json!(15.0), "{files:?}");
    }
    // Another count of the prompt shows that a tokenizer of the client's counted.
    let text = world.read(&records);
    let other = text.replace("\"input_sequence_length\":{\"value\":7,", "\"input_sequence_length\":{\"value\":8,");
    assert_ne!(text, other);
    world.file("client.jsonl", &other);
    world.good(&["import", "client.jsonl", "--out", "client"]);
    assert_eq!(json_of(&world, "client/result.json")["tokens"]["source"], "the client's tokenizer");
}

#[test]
fn an_imported_result_is_not_called_ours() {
    let world = World::new();
    world.copy("tests/golden/peers/aiperf-server-counts");
    let folder = "tests/golden/peers/aiperf-server-counts";
    world.good(&["import", folder, "--out", "in"]);
    let shown = world.good(&["report", "in", "--as", "vllm"]);
    shown
        .shows("measured by aiperf, not by Regatta")
        .shows("by Regatta's rule: mean")
        .shows("by the tool's rule: mean");
    assert!(!shown.stdout.contains("ours") && !shown.stdout.contains("theirs"), "{}", shown.stdout);
    let report: Value = serde_json::from_str(&world.good(&["report", "in", "--as", "vllm", "--json"]).stdout).unwrap();
    let rows = report["in"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["measured_by"] == "aiperf"), "{report:#}");
    // AIPerf's rate is not Regatta's, which needs the schedule.
    let rate = rows.iter().find(|row| row["word"] == "requests/s").unwrap();
    assert_eq!((&rate["ours"], rate["theirs"]["mean"].is_f64()), (&Value::Null, true));
}

#[test]
fn guidellm_and_sglang_keep_their_own_meanings() {
    let world = World::new();
    let stat = |mean: f64| {
        json!({ "successful": { "mean": mean, "min": mean, "max": mean, "count": 4,
            "percentiles": { "p50": mean, "p90": mean, "p95": mean, "p99": mean } } })
    };
    let guidellm = json!({
        "metadata": { "version": 2, "guidellm_version": "0.8.1" },
        "benchmarks": [{ "duration": 2.0, "metrics": {
            "request_totals": { "successful": 4, "errored": 1 },
            "requests_per_second": stat(2.0), "output_tokens_per_second": stat(40.0),
            "request_latency": stat(0.25), "time_to_first_token_ms": stat(50.0),
            "time_per_output_token_ms": stat(12.5), "inter_token_latency_ms": stat(10.5),
        } }],
    });
    world.file("g.json", &guidellm.to_string());
    world.good(&["import", "g.json", "--out", "g"]);
    let result = json_of(&world, "g/result.json");
    close(number(&result, "/latency/e2e/p99"), 250.0);
    assert_eq!(result["latency"]["tpot"]["definition"], "(last chunk with text − issue) / n");
    assert_eq!(result["counts"]["failed"], json!(1.0));

    let sglang = json!({ "backend": "sglang-oai-chat", "completed": 4, "duration": 2.0, "request_throughput": 2.0,
        "mean_ttft_ms": 50.0, "mean_tpot_ms": 10.0, "mean_itl_ms": 11.0, "mean_e2e_latency_ms": 250.0, "p99_ttft_ms": 60.0 });
    world.file("s.jsonl", &format!("{{\"old\": true}}\n{sglang}\n"));
    world.good(&["import", "s.jsonl", "--out", "s"]);
    let result = json_of(&world, "s/result.json");
    assert_eq!(result["imported"]["tool"], "sglang");
    assert_eq!(result["latency"]["itl"]["definition"], "gaps between chunks with text");
    assert!(result["latency"]["ttft"]["p50"].is_null(), "what the file does not say is not there");
}

#[test]
fn a_file_of_no_known_tool_is_refused_with_what_is_known() {
    let world = World::new();
    world.file("x.json", "{\"a\": 1}");
    let refused = world.regatta(&["import", "x.json", "no.json"]);
    assert_eq!(refused.code, 2);
    refused.shows("not there: no.json");
    let refused = world.regatta(&["import", "x.json"]);
    assert_eq!(refused.code, 2);
    refused.shows("is not in a known result format").shows("GuideLLM benchmarks.json");
    world.good(&["export", &race_word(), "--out", "both", "--as", "vllm", "--as", "aiperf"]);
    world.regatta(&["import", "both"]).shows("several tools").shows("hint: name the file");
}

#[test]
fn every_metric_and_tool_that_can_be_typed_is_known() {
    let world = World::new();
    let listed = world.good(&["explain"]).stdout;
    assert_eq!(listed.lines().count(), explain::ENTRIES.len());
    for entry in explain::ENTRIES.iter() {
        world.good(&["explain", &entry.name]).shows(&entry.formula);
    }
    let ttft: Value = serde_json::from_str(&world.good(&["explain", "ttft", "--json"]).stdout).expect("JSON");
    let elsewhere = ttft["elsewhere"].as_array().expect("tools");
    let of = |tool: &str| elsewhere.iter().find(|other| other["tool"] == tool).expect("known");
    close((number(of("llmperf"), "/golden_mean") * 100.0).round(), 16_425.0);
    close((number(of("vllm"), "/percent_from_ours") * 10.0).round(), -400.0);
    // Names in help come from one list, meanings from another.
    for tool in regatta::interop::Tool::ALL {
        world.good(&["report", &race_word(), "--as", tool.as_str()]).shows("requests/s");
    }
}

/// Places in result.json that `explain` names are there; what needs a GPU or a long run is at least in its schema.
#[test]
fn what_is_explained_is_in_the_result() {
    let result: Value = serde_json::from_str(&fs::read_to_string(race().join("result.json")).unwrap()).unwrap();
    let schema = regatta::harness::result_schema();
    let may_be = |place: &str| {
        let (first, last) = place.split_once('.').unwrap_or((place, ""));
        let parts = schema["$defs"].as_object().expect("parts");
        !schema["properties"][first].is_null()
            && (last.is_empty() || parts.values().any(|part| !part["properties"][last].is_null()))
    };
    assert!(may_be("gpu.energy_j") && !may_be("gpu.energy") && !may_be("gpus"));
    for entry in explain::ENTRIES.iter() {
        let place = format!("/{}", entry.place.replace('.', "/"));
        assert!(result.pointer(&place).is_some() || may_be(&entry.place), "{} is not at {}", entry.name, entry.place);
    }
}

#[test]
fn the_earlier_names_of_keys_are_read() {
    let lowered: ReducedSetting =
        serde_json::from_value(json!({ "knob": "max_num_tokens", "from": 8192.0, "to": 4096.0 })).unwrap();
    assert_eq!(lowered.to_string(), "max_num_tokens 8192 → 4096");
    let trend = json!({
        "arrivals_per_s": 10.0, "window_s": 6.0, "usual_s": 1.0, "first_third_s": 1.0, "last_third_s": 3.0, "rise": 0.5,
        "standard_errors": 4.0,
    });
    let stability: Stability = serde_json::from_value(json!({ "lag": trend })).unwrap();
    assert_eq!(stability.latency_trend.map(|trend| trend.last_third_s), Some(3.0));
}

#[test]
fn summaries_of_llmperf_and_of_an_early_evalscope_are_read_and_no_time_is_below_0() {
    let world = World::new();
    let llmperf = json!({
        "model": "m", "num_concurrent_requests": 5, "mean_input_tokens": 550, "mean_output_tokens": 150,
        "results_ttft_s_mean": 0.25, "results_ttft_s_quantiles_p99": 0.5, "results_end_to_end_latency_s_mean": 3.0,
        "results_num_completed_requests": 20, "results_number_errors": 1,
        "results_mean_output_throughput_token_per_s": 250.0,
    });
    let evalscope = json!({
        "Time taken for tests (s)": 71.6, "Number of concurrency": 20, "Succeed requests": 500, "Failed requests": 0,
        "Output token throughput (tok/s)": 893.3, "Average latency (s)": 2.86, "Average time to first token (s)": 0.2,
    });
    for (name, file, ttft, rate) in [("a.json", &llmperf, 250.0, 250.0), ("b.json", &evalscope, 200.0, 893.3)] {
        world.file(name, &file.to_string()).good(&["import", name, "--out", "out"]);
        let result = json_of(&world, "out/result.json");
        close(number(&result, "/latency/ttft/mean"), ttft);
        close(number(&result, "/rates/output_tokens"), rate);
    }
    assert_eq!(json_of(&world, "out/result.json")["requested"]["concurrency"], 20);
    let mut negative = llmperf;
    negative["results_ttft_s_mean"] = json!(-1.7e9);
    world.file("c.json", &negative.to_string());
    world.regatta(&["import", "c.json"]).shows("c.json has a ttft below 0").shows("measure again");
}
