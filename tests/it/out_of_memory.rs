//! Memory that runs out: what a person is told, and the number that a retry lowers, which is part of the key and is told in
//! journal, result and report. The stand-ins say what the real servers and tools say.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use pretty_assertions::assert_eq;
use regatta::event::{Event, MemoryKind};
use regatta::harness::{VerdictCheck, read_result};
use regatta::runner::store::{last_run, read_journal};

use crate::campaign::{home, no_process_left};
use crate::services::{ENGINE, REPOSITORY, USER, bench, world};
use crate::world::World;

/// A server that says what TensorRT-LLM says, until its fraction is low enough; then it is the simulator. `$1` is its
/// port, `$2` the repository, `$4` the fraction.
fn server(script: &str, retry: &str) -> String {
    let script = serde_json::Value::String(script.to_owned());
    format!(
        "  server:\n    retry: {retry}\n    serve:\n      command:\n        words: [sh, -c, {script}, server, \"{{port}}\", \"{REPOSITORY}\", --kv_cache_free_gpu_mem_fraction, \"0.95\"]\n"
    )
}

const UNTIL_085: &str = r#"
echo "$4" >> "$W/starts"
case "$4" in
0.95|0.9)
  echo "[TensorRT-LLM][INFO] Loaded engine size: 67261 MiB"
  echo "[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 139.81 GiB, available: 71.20 GiB"
  echo "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 67.64 GiB for max tokens in paged KV cache (443296)."
  echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.00 GiB. GPU 0 has a total capacity of 139.81 GiB of which 1.10 GiB is free."
  exit 1;;
esac
exec "$S" sim serve --repository "$2" --grpc-port "$1"
"#;

const RULE: &str = "{ on: oom, lower: kv_cache_free_gpu_mem_fraction, by: 0.05, to: 0.7 }";

fn journal(world: &World) -> Vec<Event> {
    let home = home(world);
    let run = last_run(&home).unwrap().expect("a run");
    read_journal(&home.run(&run).join("journal.jsonl")).expect("a journal").events
}

/// `(attempt, value of the number, tried again)` of every try that memory ran out in.
fn tries(world: &World) -> Vec<(u32, Option<f64>, bool)> {
    journal(world)
        .into_iter()
        .filter_map(|event| match event {
            Event::TaskFailed { attempt, failure, will_retry, .. } => {
                Some((attempt, failure.out_of_memory.as_ref()?.value, will_retry))
            }
            _ => None,
        })
        .collect()
}

/// Why tasks were started that were started more than once.
fn reasons(world: &World, id: &str) -> Vec<Vec<String>> {
    journal(world)
        .into_iter()
        .filter_map(|event| match event {
            Event::TaskStarted { task, reasons, .. } if task.as_str() == id => Some(reasons),
            _ => None,
        })
        .collect()
}

#[test]
fn a_server_is_started_with_less_until_it_fits_and_the_key_says_so() {
    let world = world(&[&server(UNTIL_085, RULE), USER]);
    let ended = world.good(&["run", "m"]);
    ended.shows("server");
    assert_eq!(tries(&world), [(1, Some(0.95), true), (2, Some(0.9), true)]);
    let why = reasons(&world, "server");
    assert_eq!(why[2], ["attempt 3", "kv_cache_free_gpu_mem_fraction 0.95 → 0.85, because memory ran out"]);
    assert_eq!(world.read("starts"), "0.95\n0.9\n0.85\n");

    // What was made with less is found under what it was made with: nothing is started again.
    assert!(world.will_run(&[]).is_empty(), "{:?}", world.decisions(&[]));
    world.good(&["run", "m"]);
    assert_eq!(world.count("starts"), 3);

    // Another user begins where the first one ended.
    world.manifest(
        "m",
        &format!(
            "{ENGINE}{}{USER}{}",
            server(UNTIL_085, RULE),
            "  another: { shell: 'echo another {{ stages.server }} > out' }\n"
        ),
    );
    world.good(&["plan", "m"]).shows("kv_cache_free_gpu_mem_fraction 0.95 → 0.85, because memory ran out");
    world.good(&["run", "m"]);
    assert_eq!(world.read("starts"), "0.95\n0.9\n0.85\n0.85\n");

    // Who forces the server sees it as it is written.
    world.good(&["run", "m", "--force", "server", "--force", "user"]);
    assert_eq!(world.read("starts"), "0.95\n0.9\n0.85\n0.85\n0.95\n0.9\n0.85\n");
    no_process_left(&world);
}

#[test]
fn a_server_that_cannot_go_lower_says_what_it_tried_and_what_to_do() {
    let rule = "{ on: oom, lower: kv_cache_free_gpu_mem_fraction, by: 0.05, to: 0.9 }";
    let world = world(&[&server(UNTIL_085, rule), USER]);
    let ended = world.regatta(&["run", "m"]);
    assert_ne!(ended.code, 0);
    ended.shows("not tried again with a lower kv_cache_free_gpu_mem_fraction: `kv_cache_free_gpu_mem_fraction` is 0.9, and may not go lower");
    ended.shows("it requested 5.0 GiB, and 1.1 GiB are free");
    // 67.64 of 71.20 GiB, and 3.9 are missing.
    ended.shows("set it to 0.89 or less");
    assert_eq!(tries(&world), [(1, Some(0.95), true), (2, Some(0.9), false)]);
    // The next run begins with what the manifest says.
    assert_ne!(world.regatta(&["run", "m"]).code, 0);
    assert_eq!(world.read("starts"), "0.95\n0.9\n0.95\n0.9\n");
    no_process_left(&world);
}

#[test]
fn memory_that_runs_out_under_load_starts_the_server_again_and_the_measurement_too() {
    const UNDER_LOAD: &str = r#"
echo "$4" >> "$W/starts"
[ "$4" = 0.95 ] || { touch "$W/gate"; exec "$S" sim serve --repository "$2" --grpc-port "$1"; }
"$S" sim serve --repository "$2" --grpc-port "$1" &
while [ ! -e "$W/using" ]; do sleep 0.02; done
echo "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): out of memory (tllmBuffers.h:112)"
kill $!; wait; exit 1
"#;
    let user = crate::services::LONG_USER;
    let world = world(&[&server(UNDER_LOAD, RULE), user]);
    world.good(&["run", "m"]);
    assert_eq!(world.read("starts"), "0.95\n0.9\n");
    assert_eq!(tries(&world), [(1, Some(0.95), true)]);
    assert_eq!(reasons(&world, "user").len(), 2, "it was stopped with its server, and ran again");
    assert!(world.will_run(&[]).is_empty());
    no_process_left(&world);
}

#[test]
fn trtllms_own_server_is_started_with_less_among_its_options_until_it_fits() {
    let server = format!(
        "  server:\n    retry: {RULE}\n    env: {{ R: \"{REPOSITORY}\" }}\n    serve:\n      trtllm_serve:\n        model: tiny\n        options: {{ kv_cache_config: {{ free_gpu_memory_fraction: 0.95, enable_block_reuse: false }} }}\n        ready: {{ timeout: 1m }}\n"
    );
    let mut world = world(&[&server, USER]);
    program(
        &world,
        "trtllm-serve",
        r#"#!/bin/sh
while [ $# -gt 0 ]; do case $1 in --port) port=$2;; --extra_llm_api_options) options=$2;; esac; shift; done
fraction=$(sed -n 's/.*free_gpu_memory_fraction: *//p' "$options")
grep -q 'enable_block_reuse: false' "$options" || exit 2
echo "$fraction" >> "$W/starts"
case $fraction in
0.95|0.9)
  echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.00 GiB. GPU 0 has a total capacity of 139.81 GiB of which 1.10 GiB is free."
  exit 1;;
esac
exec "$S" sim serve --repository "$R" --http-port "$port" --grpc-port 0
"#,
    );
    let path = format!("{}:{}", world.path("bin").display(), std::env::var("PATH").unwrap());
    world.env("PATH", path);
    world.good(&["run", "m"]);
    assert_eq!(tries(&world), [(1, Some(0.95), true), (2, Some(0.9), true)]);
    assert_eq!(world.read("starts"), "0.95\n0.9\n0.85\n");
    let why = reasons(&world, "server");
    assert_eq!(why[2], ["attempt 3", "kv_cache_free_gpu_mem_fraction 0.95 → 0.85, because memory ran out"]);
    assert!(world.will_run(&[]).is_empty());
    no_process_left(&world);
}

/// The simulator's engines of a tiny model, in a repository with this fraction.
fn simulated(fraction: &str, retry: &str, more: &[&str]) -> String {
    let head = ENGINE.replace(
        "models: [tensorrt_llm] }",
        &format!("models: [tensorrt_llm], runtime_flags: {{ kvcache_free_gpu_mem_frac: {fraction} }} }}"),
    );
    let server = format!(
        "  server:\n    {retry}\n    serve: {{ simulator: {{ repository: \"{{{{ stages.models.out }}}}\", ready: {{ timeout: 1m }} }} }}\n"
    );
    format!("{head}{server}{}", more.concat())
}

#[test]
fn the_simulator_refuses_a_kv_cache_that_leaves_no_room() {
    let world = World::new();
    world.manifest("m", &simulated("1.0", "cpus: 1", &[USER]));
    let ended = world.regatta(&["run", "m"]);
    assert_ne!(ended.code, 0);
    ended.shows("the GPU has too little memory for this");
    ended.shows("lower max_batch_size, max_num_tokens or kvcache_free_gpu_mem_frac");
    ended.shows("with kv_cache_free_gpu_mem_fraction 1 the KV cache takes");
    world.manifest("m", &simulated("0.99", "cpus: 1", &[USER]));
    world.good(&["run", "m"]);
    no_process_left(&world);
}

#[test]
fn a_result_says_that_its_server_ran_with_less() {
    let world = World::new();
    let rule = "retry: { on: oom, lower: kv_cache_free_gpu_mem_fraction, by: 0.05 }";
    let measure = bench("offline", 4, ", preflight: \"off\"");
    world.manifest("m", &simulated("1.0", rule, &[&measure]));
    world.good(&["run", "m"]);
    let result = read_result(&world.path("latest/measure/result.json")).unwrap();
    let reason = result.reasons().iter().find(|reason| reason.check == VerdictCheck::Lowered).expect("a reason");
    assert!(reason.text.contains("kv_cache_free_gpu_mem_fraction 1 → 0.95"), "{}", reason.text);
    assert_eq!(result.verdict().as_str(), "VALID WITH WARNINGS");
    let report = fs::read_to_string(world.path("latest/report.html")).unwrap();
    assert!(report.contains("kv_cache_free_gpu_mem_fraction 1 → 0.95"));
    // The repository is everybody's, and stays as it was.
    let config = fs::read_to_string(world.path("latest/models/triton_model_repo_0/tensorrt_llm/config.pbtxt")).unwrap();
    assert!(config.contains("kv_cache_free_gpu_mem_fraction") && !config.contains("0.95"), "{config}");
    assert!(world.will_run(&[]).is_empty());
    no_process_left(&world);
}

fn program(world: &World, name: &str, text: &str) {
    world.file(&format!("bin/{name}"), text);
    fs::set_permissions(world.path(format!("bin/{name}")), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn an_engine_is_built_with_less_until_it_fits() {
    let mut world = World::new();
    let folder = world.path("");
    program(
        &world,
        "python3",
        "#!/bin/sh\nwhile [ $# -gt 0 ]; do case $1 in --output_dir) mkdir -p \"$2\";; esac; shift; done\n",
    );
    program(
        &world,
        "trtllm-build",
        r#"#!/bin/sh
echo "$@" >> "$W/builds"
out=; tokens=8192
while [ $# -gt 0 ]; do case $1 in --output_dir) out=$2;; --max_num_tokens) tokens=$2;; esac; shift; done
if [ "$tokens" -gt 4096 ]; then
  echo "[TRT] [E] IBuilder::buildSerializedNetwork: Error Code 2: OutOfMemory (Requested size was 51539607552 bytes.)" >&2
  exit 1
fi
echo '{}' > "$out/config.json"
echo engine > "$out/rank0.engine"
"#,
    );
    let path = format!("{}:{}", world.path("bin").display(), std::env::var("PATH").unwrap());
    world.env("W", &folder).env("PATH", path);
    world.file("weights/config.json", "{}").file("trtllm/README.md", "");
    world.manifest(
        "m",
        r"
stages:
  engine:
    retry: { on: oom, lower: max_num_tokens, by: 2048, to: 2048 }
    engine:
      backend: tensorrt_llm
      checkpoint: weights
      trtllm: trtllm
      precision: fp8
      model: { name: llama2-70b, architecture: LlamaForCausalLM, parameters: 68976648192, num_hidden_layers: 80, hidden_size: 8192, intermediate_size: 28672, num_attention_heads: 64, num_key_value_heads: 8, vocab_size: 32000, max_position_embeddings: 4096 }
      system: { name: H100-SXM-80GBx1, gpus: 1, memory_gb: 80, bandwidth_gbs: 3350, tflops_16bit: 989 }
      build_flags: { max_batch_size: 256, max_num_tokens: 8192 }
",
    );
    world.good(&["run", "m"]);
    assert_eq!(tries(&world), [(1, Some(8192.0), true), (2, Some(6144.0), true)]);
    let builds = world.read("builds");
    let tokens: Vec<&str> = builds.lines().filter_map(|line| line.split("--max_num_tokens ").nth(1)).collect();
    assert_eq!(tokens, ["8192", "6144", "4096"]);
    let records = fs::read_to_string(home(&world).records()).unwrap();
    assert!(records.contains(r#""lowered max_num_tokens":"4096""#), "{records}");
    assert!(world.will_run(&[]).is_empty());
    let memory = journal(&world).into_iter().find_map(|event| match event {
        Event::TaskFailed { failure, .. } => Some((failure.out_of_memory.unwrap().of, failure.hint.unwrap())),
        _ => None,
    });
    let (of, hint) = memory.unwrap();
    assert_eq!(of, MemoryKind::Gpu);
    assert!(hint.starts_with("lower max_batch_size, max_num_tokens"), "{hint}");
}

#[test]
fn a_command_that_the_kernel_killed_is_tried_again_only_when_that_was_asked_for() {
    let world = world(&[
        "  a: { retry: { on: oom, times: 1 }, shell: 'echo x >> \"$W/a\"; kill -KILL $$' }\n  b: { retry: { on: oom, times: 1 }, shell: 'echo x >> \"$W/b\"; exit 7' }\n",
    ]);
    assert_ne!(world.regatta(&["run", "m", "--keep-going"]).code, 0);
    assert_eq!((world.count("a"), world.count("b")), (2, 1));
}
