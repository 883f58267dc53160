//! `gpt2` and `gpt-tp4`: GenAI-Perf's tutorial and the quick start of the TensorRT-LLM backend, on the simulator, and with
//! stand-ins for every program that they call on a GPU.
//!
//! What was called, and which files were written, is in `tests/golden/gpt2/*.txt`; `UPDATE=1` writes them anew.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::campaign::no_process_left;
use crate::world::{Ended, World};

/// A measurement beside other tests may find that its client was late; then it says so with 3 or 4, and tells all else.
#[track_caller]
fn measured(ended: &Ended) {
    assert!([0, 3, 4].contains(&ended.code), "{}\n{}", ended.stdout, ended.stderr);
}

/// A stage's result; where it is not valid, it is kept aside, and the run says where.
fn result(world: &World, ended: &Ended, stage: &str) -> Value {
    let text = format!("{}{}", ended.stdout, ended.stderr);
    // `✗ STAGE failed after …`, `✗ STAGE INVALID(client) after …`.
    let (bad, after) = (format!("✗ {stage} "), " after ");
    let kept = text
        .lines()
        .skip_while(|line| !(line.starts_with(&bad) && line.contains(after)))
        .find_map(|line| line.trim().strip_prefix("kept"));
    let folder = kept.map_or_else(|| world.path(format!("latest/{stage}")), |kept| kept.trim().into());
    let text = fs::read_to_string(folder.join("result.json")).unwrap_or_else(|error| panic!("{error}\n{text}"));
    serde_json::from_str(&text).expect("JSON")
}

/// Requests that were answered, and output tokens of all of them.
fn answered(result: &Value) -> (u64, u64) {
    (result["counts"]["ok"].as_u64().expect("a count"), result["tokens"]["output"].as_u64().expect("tokens"))
}

#[test]
fn all_four_services_of_the_tutorial_are_measured_on_the_simulator() {
    for (service, source) in [
        ("triton-trtllm", "responses"),
        ("triton-vllm", "responses"),
        ("openai-chat", "usage"),
        ("openai-completions", "usage"),
    ] {
        let world = World::new();
        let ended = world.regatta(&["run", "gpt2", &format!("service={service}"), "requests=6"]);
        measured(&ended);
        let result = result(&world, &ended, "run_harness");
        assert_eq!(answered(&result), (6, 600), "{service}: {result:#}");
        assert!(
            result["tokens"]["source"].as_str().expect("a source").starts_with(source),
            "{service}: {}",
            result["tokens"]
        );
        let requested = &result["requested"];
        assert_eq!((&requested["warmup"], &requested["seed"]), (&json!(10), &json!(0)), "{service}");
        // The tutorial's completions come in one piece.
        assert_eq!(requested["request"]["streaming"], json!(service != "openai-completions"), "{service}");
        no_process_left(&world);
    }
}

#[test]
fn vllms_repository_is_what_triton_cli_writes() {
    let world = World::new();
    world.good(&["run", "gpt2", "service=triton-vllm", "system=gpu", "--until", "generate_vllm_config"]);
    let folder = "latest/generate_vllm_config/triton_model_repo_0/gpt2";
    let args: Value = serde_json::from_str(&world.read(format!("{folder}/1/model.json"))).expect("JSON");
    assert_eq!(args, json!({"model": "gpt2", "gpu_memory_utilization": 0.85}));
    let config = world.read(format!("{folder}/config.pbtxt"));
    assert!(config.contains("backend: \"vllm\"") && config.contains("KIND_MODEL"), "{config}");
}

#[test]
fn the_quick_start_of_the_backend_runs_on_four_simulated_gpus() {
    let world = World::new();
    let ended = world.regatta(&["run", "gpt-tp4", "requests=20", "rate=40", "-k"]);
    measured(&ended);
    let generate = result(&world, &ended, "generate");
    assert_eq!(answered(&generate), (1, 20), "{generate:#}");
    assert_eq!(answered(&result(&world, &ended, "core_model_token_norm_dist")).0, 20);
    let dataset = result(&world, &ended, "core_model_dataset");
    assert_eq!(dataset["counts"]["ok"], json!(64), "every prompt once");
    assert_eq!(dataset["tokens"]["output"], dataset["tokens"]["output_requested"]);
    let config = world.read("latest/generate_triton_config/triton_model_repo_0/tensorrt_llm/config.pbtxt");
    for line in ["max_batch_size: 4", "max_queue_delay_microseconds: 0", "string_value: \"inflight_fused_batching\""] {
        assert!(config.contains(line), "{line} is not in\n{config}");
    }
    no_process_left(&world);
}

/// Every stand-in writes its words down; what they leave is the simulator's.
const RECORD: &str = r#"#!/bin/sh
line="${0##*/} $*"
[ -z "$CUDA_VISIBLE_DEVICES" ] || line="$line   [CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES]"
printf '%s\n' "$line" >> "$CALLS"
"#;
/// Ranks above 0 wait, as they do under TensorRT-LLM.
const TRITONSERVER: &str = r#"for word in "$@"; do
  case $word in
    --model-repository=*) repository=${word#*=} ;;
    --grpc-port=*) grpc=${word#*=} ;;
    --http-port=*) http=${word#*=} ;;
    --metrics-port=*) metrics=${word#*=} ;;
    --allow-grpc=false) exec sleep 1000 ;;
  esac
done
exec "$REGATTA" sim serve --repository "$repository" --grpc-port "$grpc" --http-port "$http" --metrics-port "$metrics"
"#;
const CONVERT: &str = r#"while [ "$1" != --output_dir ]; do shift; done
mkdir -p "$2"
"#;
const TRTLLM_BUILD: &str = r#"while [ "$1" != --output_dir ]; do shift; done
cp "$ENGINE"/* "$2"
"#;
/// The server's own process is the container, known by its name.
const DOCKER: &str = r#"case $1 in
container) exit 1 ;;
image) echo 'sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff []'; exit 0 ;;
pull) exit 0 ;;
esac
if [ "$1" = run ]; then
  while [ $# -gt 0 ]; do
    case $1 in --name=*) echo $$ > "$W/${1#*=}.pid" ;; --port) port=$2 ;; esac
    shift
  done
  exec "$REGATTA" sim serve --repository "$REPOSITORY" --grpc-port 0 --http-port "$port" --metrics-port 0
fi
for name in "$@"; do [ ! -e "$W/$name.pid" ] || kill "$(cat "$W/$name.pid")"; done
"#;

/// A project with programs on its PATH that stand for those of a GPU machine, and what they need of the twin.
fn project(twin: &World) -> World {
    let mut world = World::new();
    for (name, body) in
        [("python3", CONVERT), ("trtllm-build", TRTLLM_BUILD), ("tritonserver", TRITONSERVER), ("docker", DOCKER)]
    {
        world.file(&format!("bin/{name}"), &format!("{RECORD}{body}"));
        fs::set_permissions(world.path(format!("bin/{name}")), fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    for model in ["ensemble", "preprocessing", "tensorrt_llm", "postprocessing", "tensorrt_llm_bls"] {
        world.file(&format!("backend/all_models/inflight_batcher_llm/{model}/1/model.py"), "# stands in\n");
    }
    world.file("backend/tensorrt_llm/examples/models/core/gpt/convert_checkpoint.py", "# stands in\n");
    world.file("checkpoint/config.json", "{}\n");
    // More ranks than cores, without a word on the command line.
    world.file(".openmpi/mca-params.conf", "rmaps_base_oversubscribe = 1\n");
    let (home, calls, w) = (world.path(""), world.path("calls"), world.path(""));
    let path = format!("{}:{}", world.path("bin").display(), std::env::var("PATH").expect("PATH"));
    world
        .env("PATH", path)
        .env("HOME", home)
        .env("CALLS", calls)
        .env("W", w)
        .env("REGATTA", env!("CARGO_BIN_EXE_regatta"));
    world.env("ENGINE", twin.path("latest/generate_engines"));
    world.env("REPOSITORY", twin.path("latest/generate_triton_config/triton_model_repo_0"));
    world
}

const REAL: [&str; 4] = ["tensorrtllm_backend=backend", "checkpoint=checkpoint", "--gpus", "0,1,2,3"];

/// The calls, with what differs from run to run by its name.
fn calls(world: &World) -> String {
    let outputs = fs::canonicalize(world.path(".regatta")).expect("a state folder").display().to_string();
    let root = fs::canonicalize(world.path("")).expect("a folder").display().to_string();
    let plain = |line: &str| {
        let words = line.split(' ').map(|word| {
            let (key, value) = word.split_once('=').map_or(("", word), |(key, value)| (key, value));
            let value = match value.strip_prefix(outputs.as_str()) {
                Some(rest) if rest.ends_with("/.checkpoint") => "<out>/.checkpoint".to_owned(),
                Some(rest) if rest.contains("triton_model_repo_0") => "<out>/triton_model_repo_0".to_owned(),
                Some(_) => "<out>".to_owned(),
                None if key.ends_with("-port") => "<port>".to_owned(),
                None if key == "--backend-config" => value.split("_2").next().unwrap_or(value).to_owned() + "_…",
                None => value.replace(root.as_str(), "<project>"),
            };
            if key.is_empty() { value } else { format!("{key}={value}") }
        });
        words.collect::<Vec<_>>().join(" ")
    };
    let mut lines: Vec<String> = world.read("calls").lines().map(plain).collect();
    // Ranks start in any order.
    if lines.iter().filter(|line| line.starts_with("tritonserver")).count() > 1 {
        let first = lines.iter().position(|line| line.starts_with("tritonserver")).unwrap_or(0);
        lines[first..].sort();
    }
    lines.join("\n") + "\n"
}

#[track_caller]
fn hold(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/gpt2").join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, text).expect("written");
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), text, "not as in {}", path.display());
}

#[test]
fn triton_with_tensorrt_llm_is_built_served_and_measured_by_these_commands() {
    let twin = World::new();
    twin.good(&["run", "gpt2", "--until", "generate_triton_config"]);
    let world = project(&twin);
    // What is called for the lock file is no part of the pipeline.
    let words = [&["run", "gpt2", "system=gpu", "requests=4", "--no-lock"], &REAL[..]].concat();
    let ended = world.regatta(&words);
    measured(&ended);
    assert_eq!(answered(&result(&world, &ended, "run_harness")), (4, 400));
    hold("triton-trtllm.txt", &calls(&world));
    no_process_left(&world);
}

#[test]
fn triton_with_vllm_is_served_and_measured_by_this_command() {
    let twin = World::new();
    twin.good(&["run", "gpt2", "service=triton-vllm", "--until", "generate_engines"]);
    let world = project(&twin);
    // What stands in for vLLM takes a simulated engine for a checkpoint.
    let checkpoint = format!("checkpoint={}", twin.path("latest/generate_engines").display());
    let ended =
        world.regatta(&["run", "gpt2", "service=triton-vllm", "system=gpu", "requests=4", &checkpoint, "--gpus", "1"]);
    measured(&ended);
    assert_eq!(answered(&result(&world, &ended, "run_harness")), (4, 400));
    hold("triton-vllm.txt", &calls(&world));
    no_process_left(&world);
}

#[test]
#[ignore = "needs Open MPI"]
fn four_ranks_of_the_quick_start_are_started_by_these_commands() {
    let twin = World::new();
    twin.good(&["run", "gpt-tp4", "--until", "generate_triton_config"]);
    let world = project(&twin);
    let words = [&["run", "gpt-tp4", "system=gpu-x4", "requests=4", "rate=50", "-k", "--no-lock"], &REAL[..]].concat();
    let ended = world.regatta(&words);
    measured(&ended);
    assert_eq!(answered(&result(&world, &ended, "generate")), (1, 20));
    hold("gpt-tp4.txt", &calls(&world));
    no_process_left(&world);
}

#[test]
fn the_quick_start_is_planned_in_the_pages_container() {
    let world = World::new();
    world.file("backend/.keep", "").file("checkpoint/.keep", "");
    let words = [
        "plan",
        "gpt-tp4",
        "system=gpu-x4",
        "tensorrtllm_backend=backend",
        "checkpoint=checkpoint",
        "image=triton:1",
        "--launch",
    ];
    let plan = world.good(&words).stdout;
    hold("gpt-tp4-launch.txt", &plan.replace(&world.path("").display().to_string(), "<project>/"));
    for word in ["mpirun", "--shm-size", "--ulimit", "triton:1"] {
        assert!(plan.contains(word), "{word} is not in\n{plan}");
    }
}

#[test]
fn vllms_own_server_runs_in_the_tutorials_image_with_the_leased_gpu() {
    // What stands in for vLLM serves a model called gpt2.
    let twin = World::new();
    twin.good(&["run", "gpt2", "service=triton-vllm", "--until", "generate_vllm_config"]);
    for (service, model) in [("openai-completions", "gpt2"), ("openai-chat", "HuggingFaceH4/zephyr-7b-beta")] {
        let mut world = project(&twin);
        world.env("REPOSITORY", twin.path("latest/generate_vllm_config/triton_model_repo_0"));
        let elsewhere = tempfile::tempdir().expect("a folder");
        let folder = fs::canonicalize(elsewhere.path()).expect("a folder").display().to_string();
        // The chat's checkpoint is local, that of the completions is the one of its name.
        let checkpoint = format!("checkpoint={folder}");
        let mut words = vec!["run", "gpt2", "system=gpu", "requests=2", "--gpus", "2,3"];
        let service = format!("service={service}");
        words.push(&service);
        if model != "gpt2" {
            words.push(&checkpoint);
        }
        let run = world.regatta(&words);
        if model == "gpt2" {
            measured(&run);
            assert_eq!(answered(&result(&world, &run, "run_harness")), (2, 200));
        }
        let calls = world.read("calls");
        let first = calls.lines().find(|line| line.starts_with("docker run")).expect("a call");
        for part in ["--gpus=\"device=2\"", "--entrypoint=", "--dtype float16", &format!("--served-model-name {model}")]
        {
            assert!(first.contains(part), "{part}: {first}");
        }
        assert!(!first.contains("--gpus=all"), "{first}");
        let mount = format!("--volume={folder}:{folder}:ro");
        assert_eq!(first.contains(&mount), model != "gpt2", "{first}");
        assert!(first.contains(&format!("vllm serve {}", if model == "gpt2" { model } else { &folder })), "{first}");
        assert!(calls.lines().any(|line| line.starts_with("docker stop")), "{calls}");
        no_process_left(&world);
    }
}

#[test]
fn the_tutorials_page_is_a_script_that_runs_from_the_top() {
    let twin = World::new();
    twin.good(&["run", "gpt2", "service=triton-vllm", "--until", "generate_vllm_config"]);
    let mut world = project(&twin);
    world.env("REPOSITORY", twin.path("latest/generate_vllm_config/triton_model_repo_0"));
    world.file("bin/regatta", "#!/bin/sh\nexec \"$REGATTA\" \"$@\"\n");
    fs::set_permissions(world.path("bin/regatta"), fs::Permissions::from_mode(0o755)).expect("a mode");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/pasted/genai-perf.sh");
    let printed = world.good(&["import", &page.display().to_string()]).stdout;
    // The tutorial's servers of Triton are runs of `gpt2`, its servers of vLLM stages.
    let lines: Vec<String> = printed
        .lines()
        .filter_map(|line| line.strip_prefix("#   beside the manifest: "))
        .map(|line| line.replace("--measurement-interval 4000", "--measurement-interval 1000"))
        .collect();
    assert_eq!(lines.len(), 2, "{printed}");
    for line in &lines {
        let words = shlex::split(line).expect("a line of a shell");
        let words: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        measured(&world.regatta(&words));
    }
    let [port] = crate::ports::free_ports::<1>();
    let here = printed.replace("port: 8000", &format!("port: {port}")).replace("4000ms", "1000ms");
    world.file("manifests/page.yaml", &here);
    let run = world.regatta(&["run", "page", "--gpus", "1"]);
    measured(&run);
    for stage in ["run_harness", "run_harness_2"] {
        assert!(answered(&result(&world, &run, stage)).0 > 0, "{stage}");
    }
    no_process_left(&world);
}
