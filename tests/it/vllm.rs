//! `serve: vllm`: what is started, how far it is, what it reports, and that nothing of it is left.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use pretty_assertions::assert_eq;
use regatta::harness::read_result;
use serde_json::Value;

use crate::campaign::no_process_left;
use crate::world::{Ended, World, alive_with, signal, signal_pid, until};

const BENCH: &str = r#"
  measure:
    bench: { target: "{{ stages.server }}", protocol: openai-completions, model: "", scenario: concurrency, concurrency: 2, stop: { requests: 24 }, input_tokens: { fixed: 16 }, output_tokens: { fixed: 8 }, vocab_size: 1000, request: { interface: token_ids }, warmup: 0, preflight: "off" }
"#;

/// A stage that needs the server until it is stopped.
const USER: &str = "  user: { shell: 'touch \"$W/using\"; echo {{ stages.server }}; sleep 600' }\n";

/// With the stand-in as `vllm` in PATH.
fn world(stages: &str) -> World {
    let mut world = World::new();
    let folder = world.path("");
    world.file("bin/vllm", include_str!("vllm/server.py"));
    fs::set_permissions(world.path("bin/vllm"), fs::Permissions::from_mode(0o755)).expect("a program");
    let path = format!("{}:{}", world.path("bin").display(), std::env::var("PATH").expect("a PATH"));
    world.env("W", folder).env("PATH", path);
    world.manifest("m", &format!("stages:\n{stages}"));
    world
}

fn server(keys: &str, vllm: &str) -> String {
    format!("  server:\n    {keys}\n    serve: {{ vllm: {{ model: org/llama, ready: {{ timeout: 1m }}{vllm} }} }}\n")
}

/// Arguments and GPUs of each server that was started, in the order of its GPUs.
fn calls(world: &World) -> Vec<String> {
    let one = |line: &str| {
        let call: Value = serde_json::from_str(line).expect("a call");
        let mut words: Vec<&str> =
            call["argv"].as_array().expect("arguments").iter().filter_map(Value::as_str).collect();
        let port = words.iter().position(|word| *word == "--port").expect("a port");
        words[port + 1] = "PORT";
        format!("{} {}", call["gpus"].as_str().unwrap_or("-"), words.join(" "))
    };
    let mut calls: Vec<String> = world.read("calls").lines().map(one).collect();
    calls.sort();
    calls
}

#[test]
fn a_server_is_measured_and_reports_its_version_and_its_metrics() {
    let world = world(&format!("{}{BENCH}", server("cpus: 1", ", max_num_seqs: 256, load_format: dummy")));
    let ended = world.good(&["run", "m"]);
    ended.shows("▼ server");
    assert_eq!(calls(&world), ["- serve org/llama --host 0.0.0.0 --port PORT --load-format dummy --max-num-seqs 256"]);
    let result = read_result(&world.path("latest/measure/result.json")).expect("a result");
    assert_eq!(result.counts.ok, 24);
    let server = &result.identity.as_ref().expect("an identity").servers[0];
    assert_eq!((server.kind.as_deref(), server.version.as_deref()), (Some("vllm"), Some("0.24.0")));
    let metrics = result.server_metrics.as_ref().expect("its metrics");
    let grown = |name: &str| metrics.metrics.iter().find(|one| one.name == name).and_then(|one| one.increase);
    assert_eq!(grown("vllm:generation_tokens_total"), Some(192.0));
    assert_eq!(grown("vllm:prompt_tokens_total"), Some(384.0));
    assert!(!metrics.metrics.iter().any(|one| one.name.ends_with("_created")), "{metrics:?}");
    no_process_left(&world);
}

#[test]
fn every_copy_has_its_own_gpus_and_what_is_printed_is_what_is_started() {
    for (gpus, vllm, expected) in [
        (1, "", vec!["0 serve org/llama --host 0.0.0.0 --port PORT"]),
        (
            2,
            ", tensor_parallel_size: 2",
            vec!["0,1 serve org/llama --host 0.0.0.0 --port PORT --tensor-parallel-size 2"],
        ),
        (
            4,
            ", dtype: bfloat16",
            vec![
                "0 serve org/llama --host 0.0.0.0 --port PORT --dtype bfloat16",
                "1 serve org/llama --host 0.0.0.0 --port PORT --dtype bfloat16",
                "2 serve org/llama --host 0.0.0.0 --port PORT --dtype bfloat16",
                "3 serve org/llama --host 0.0.0.0 --port PORT --dtype bfloat16",
            ],
        ),
    ] {
        let user = "  user: { shell: 'echo {{ stages.server }}' }\n";
        let world = world(&format!("{}{user}", server(&format!("gpus: {gpus}"), vllm)));
        let printed = world.good(&["plan", "m", "--launch"]).stdout.replace(['\\', '\''], " ");
        let printed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
        for line in &expected {
            let (_, words) = line.split_once(' ').expect("GPUs and arguments");
            let words = format!("vllm {}", words.replace("PORT", "<free>"));
            assert!(printed.contains(&words), "{words} is not in {printed}");
        }
        world.good(&["run", "m", "--gpus", &gpus.to_string()]);
        assert_eq!(calls(&world), expected);
        no_process_left(&world);
    }
}

#[test]
fn gpus_that_do_not_fit_are_refused_before_anything_starts() {
    let user = "  user: { shell: 'echo {{ stages.server }}' }\n";
    let world = world(&format!("{}{user}", server("gpus: 3", ", tensor_parallel_size: 2")));
    let ended = world.regatta(&["run", "m", "--gpus", "0,1,2"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    ended.shows("3 GPUs leased, but 2 needed: 1 server of 2 (tp × pp × dp)");
    assert!(!world.path("calls").exists());
}

#[test]
fn one_line_starts_a_server_measures_it_and_stops_it() {
    let world = world("  a: { shell: 'true' }\n");
    let words = "bench --serve vllm org/llama --tp 2 --copies 2 --gpus 4 --requests 8 --input-tokens 16 --output-tokens 8 --concurrency 2 -- --max-num-seqs 64";
    let words: Vec<&str> = words.split(' ').collect();
    world.good(&words).shows("vllm 0.24.0");
    let line = "serve org/llama --host 0.0.0.0 --port PORT --tensor-parallel-size 2 --max-num-seqs 64";
    assert_eq!(calls(&world), [format!("0,1 {line}"), format!("2,3 {line}")]);
    no_process_left(&world);
    let ended = world.regatta(&["bench", "--serve", "vllm", "http://127.0.0.1:8000"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    ended.shows("is the address of one");
    assert_eq!(world.regatta(&["bench", "127.0.0.1:8000", "--tp", "2"]).code, 2, "there is no server to start");
}

/// As the server of a user's own: neither its protocol, nor its model, nor how it becomes ready is in the manifest.
#[test]
fn a_command_is_found_out_by_its_port() {
    let own = |ready: &str| {
        let words = r#"words: [vllm, serve, org/llama, --port, "{port}"]"#;
        let bench = r#"target: "{{ stages.server }}", scenario: concurrency, concurrency: 2, stop: { requests: 6 }"#;
        let lengths = r#"input_tokens: { fixed: 16 }, output_tokens: { fixed: 8 }, warmup: 0, preflight: "off""#;
        world(&format!(
            "  server:\n    serve: {{ command: {{ {words}, ready: {{ {ready} }} }} }}\n  measure:\n    \
             bench: {{ {bench}, {lengths} }}\n"
        ))
    };
    let found = own("timeout: 1m");
    found.good_when_undisturbed(&["run", "m"]).shows("OpenAI chat");
    let result = read_result(&found.path("latest/measure/result.json")).expect("a result");
    assert_eq!(result.counts.ok, 6);
    no_process_left(&found);
    let other = own("by: kserve, timeout: 10m");
    let begun = std::time::Instant::now();
    let ended = other.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("speaks HTTP at 127.0.0.1:").shows("waits for gRPC's ServerReady: write `detect`");
    assert!(begun.elapsed() < std::time::Duration::from_mins(1), "not after the limit");
    no_process_left(&other);
}

#[test]
fn the_other_engines_are_started_with_their_own_options() {
    let world = world("  a: { shell: 'true' }\n");
    for program in ["trtllm-serve", "llama-server", "python3-sglang"] {
        world.file(&format!("bin/{program}"), include_str!("vllm/server.py"));
        fs::set_permissions(world.path(format!("bin/{program}")), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let load = "--gpus 0 --requests 8 --input-tokens 16 --output-tokens 8 --concurrency 2";
    for (line, expected) in [
        ("--serve llama-server org/llama-GGUF", "- -hf org/llama-GGUF --port PORT --ctx-size 4096"),
        (
            "--serve sglang org/llama --program python3-sglang",
            "- --model-path org/llama --tp-size 1 --port PORT --ctx-size 4096",
        ),
    ] {
        let _ = fs::remove_file(world.path("calls"));
        let line = format!("bench {line} {load} -- --ctx-size 4096");
        world.good(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(calls(&world), [expected], "{line}");
        no_process_left(&world);
    }
    let dry = |words: &str| {
        let line = format!("bench org/llama --serve {words} --dry-run");
        world.regatta(&line.split(' ').collect::<Vec<_>>())
    };
    let manifest: Value = serde_yaml::from_str(&dry("trtllm-serve --tp 2").stdout).expect("a manifest");
    let server = &manifest["stages"]["server"];
    assert_eq!((&server["gpus"], &server["serve"]["trtllm_serve"]["tensor_parallelism"]), (&2.into(), &2.into()));
    dry("sglang --copies 2").shows("`--copies` is for vllm and trtllm-serve");
}

#[test]
fn a_line_asks_for_the_tokens_of_each_chunk_where_answers_are_streamed() {
    let world = world("  a: { shell: 'true' }\n");
    let extra = |words: &[&str]| {
        let line = [&["bench", "--serve", "vllm", "org/llama", "--dry-run", "--rate", "2", "--duration", "5s"], words]
            .concat();
        let manifest: Value = serde_yaml::from_str(&world.good(&line).stdout).expect("a manifest");
        manifest["stages"]["bench"]["bench"]["extra"].clone()
    };
    assert_eq!(extra(&[])["stream_options"]["continuous_usage_stats"], true);
    assert!(extra(&["--no-streaming"])["stream_options"].is_null());
    let own = extra(&["--extra", r#"stream_options:{"include_usage": true}"#]);
    assert_eq!(own["stream_options"], serde_json::json!({"include_usage": true}));
}

#[test]
fn a_server_with_a_key_is_ready_when_it_is_healthy() {
    let user = "  user: { shell: 'echo {{ stages.server }}' }\n";
    let mut world = world(&format!("{}{user}", server("secrets: [VLLM_API_KEY]", "")));
    world.env("VLLM_API_KEY", "sk-secret");
    let ended = world.good(&["run", "m"]);
    assert!(!format!("{ended:?}").contains("sk-secret"), "{ended:?}");
    no_process_left(&world);
}

#[test]
fn the_steps_of_the_engine_are_kept() {
    let world = world(&format!("{}{BENCH}", server("cpus: 1", ", step_log: true")));
    let ended = world.good(&["run", "m"]);
    ended.shows("server 0: 24 steps of its engine are in ");
    let printed = format!("{}{}", ended.stdout, ended.stderr);
    let path = printed.lines().find_map(|line| line.split_once("steps of its engine are in ")).expect("a file").1;
    let steps = fs::read_to_string(path.trim()).expect("the steps");
    let first: Value = serde_json::from_str(steps.lines().next().expect("a step")).expect("JSON");
    assert_eq!((&first["prefill_tokens"], &first["wait_ms"]), (&16.into(), &12.34.into()));
}

#[test]
fn memory_that_ran_out_names_the_option_and_how_far() {
    let log = "(APIServer pid=50) INFO 11-23 09:12:01 [utils.py:253] non-default args: {'model': 'm', 'gpu_memory_utilization': 0.5}\n\
        ValueError: To serve at least one request with the model's max seq len (131072), (16.0 GiB KV cache is needed, which is larger than the available KV cache memory (9.31 GiB). Based on the available memory, the estimated maximum model length is 76256.\n";
    let server = server("env: { FAULT: \"{{ inputs.log }}\" }\n    inputs: { log: fault.log }", "");
    let world = world(&format!("{server}{USER}"));
    world.file("fault.log", log);
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("one sequence of max_model_len 131072 needs 16.0 GiB of KV cache, and 9.3 GiB are there");
    ended.shows(
        "set max_model_len to 76256 or less, or enlarge the KV cache by 6.7 GiB: gpu_memory_utilization (0.5 now)",
    );
    until("vLLM to be gone", || left(&world).is_empty());
}

#[test]
fn doctor_names_the_model_the_version_and_a_taken_port() {
    let taken = std::net::TcpListener::bind(("0.0.0.0", 0)).expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let world = world(&server("cpus: 1", &format!(", port: {port}")));
    let ended = world.regatta(&["doctor", "m"]);
    ended
        .shows("org/llama")
        .shows("not in the cache: the server fetches it")
        .shows(&format!("port {port}"))
        .shows("version not known");
    let world = self::world(&server("cpus: 1", "").replace("org/llama", "./weights"));
    world.regatta(&["doctor", "m"]).shows("./weights").shows("not there");
    world.file("weights/config.json", "{}").file("weights/model.safetensors", "0123");
    world.good(&["doctor", "m"]).shows("in ");
}

/// Every process of the stand-in, its engine core in another session included.
fn left(world: &World) -> Vec<(i32, String)> {
    alive_with(format!("W={}", world.path("").display()))
}

#[test]
fn nothing_is_left_after_ctrl_c() {
    let world = world(&format!("{}{USER}", server("cpus: 1", "")));
    let child = world.start(&["run", "m"]);
    world.await_file("using");
    signal(&child, "INT");
    let ended = Ended::of(child);
    assert_eq!(ended.code, 130, "{ended:?}");
    until("vLLM to be gone", || left(&world).is_empty());
}

#[test]
fn nothing_is_left_after_regatta_is_killed() {
    let world = world(&format!("{}{USER}", server("cpus: 1", "")));
    let child = world.start(&["run", "m"]);
    world.await_file("using");
    signal(&child, "KILL");
    Ended::of(child);
    until("vLLM to be gone", || left(&world).is_empty());
}

#[test]
fn nothing_is_left_after_the_server_is_killed_and_it_is_the_failure() {
    let world = world(&format!("{}{USER}", server("cpus: 1", "")));
    let child = world.start(&["run", "m"]);
    world.await_file("using");
    let server = left(&world).into_iter().find(|(_, command)| command.contains("bin/vllm")).expect("the server");
    signal_pid(server.0, "KILL");
    let ended = Ended::of(child);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("ended by SIGKILL (9) while it was needed");
    until("vLLM to be gone", || left(&world).is_empty());
}
