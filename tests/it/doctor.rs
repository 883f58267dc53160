//! `regatta doctor`: what a manifest needs of a machine, against machines that are recorded as small programs on PATH.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::world::World;

/// What `nvidia-smi` of a machine with two H200 says.
const NVIDIA_SMI: &str = r#"#!/bin/sh
case "$1" in
--query-gpu=*)
  echo "0, NVIDIA H200, 143771, 570.86.15, 9.0"
  echo "1, NVIDIA H200, 143771, 570.86.15, 9.0" ;;
*) echo "| NVIDIA-SMI 570.86.15   Driver Version: 570.86.15   CUDA Version: 12.8 |" ;;
esac
"#;

/// A docker whose daemon runs and that has one image.
const DOCKER: &str = r#"#!/bin/sh
case "$*" in
"version --format {{.Server.Version}}") echo 27.5.1 ;;
"image inspect"*" here:1") echo "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff null" ;;
"image inspect"*) echo "Error: No such image" >&2; exit 1 ;;
esac
"#;

const MANIFEST: &str = r#"
stages:
  clone: { git: { url: x, rev: main, lfs: true } }
  prebuild: { image: { engine: docker, build: { context: docker } } }
  build:
    gpus: 2
    inputs: { weights: /no/such/weights }
    secrets: [HF_TOKEN, NGC_KEY]
    engine:
      backend: tensorrt_llm
      precision: fp8
      tensor_parallelism: 2
      checkpoint: "{{ inputs.weights }}"
      trtllm: "{{ stages.clone.out }}"
      model: { name: m, architecture: LlamaForCausalLM, parameters: 68976648192, num_hidden_layers: 80, hidden_size: 8192,
               intermediate_size: 28672, num_attention_heads: 64, num_key_value_heads: 8, vocab_size: 32000, max_position_embeddings: 4096 }
      system: { name: H200-SXM-141GBx8, gpus: 8, memory_gb: 141, bandwidth_gbs: 4800, tflops_16bit: 989 }
  inside:
    gpus: 1
    container: { engine: docker, image: "here:1" }
    shell: trtllm-build --help
  gone:
    container: { engine: docker, image: "gone:1" }
    shell: "true"
  compile: { shell: "set -e; CC=gcc cmake .. && make -j; echo done | jq ." }
  servers:
    serve: { triton: { repository: models, mode: leader, world_size: 2 } }
  use: { shell: "echo {{ stages.servers }}" }
"#;

/// A world with these programs on its PATH, and no others.
fn world(programs: &[(&str, &str)]) -> World {
    let mut world = World::with(MANIFEST);
    world
        .file("models/triton_model_repo_0/m/config.pbtxt", "backend: \"python\"\n")
        .file("docker/Dockerfile", "FROM x\n");
    world.file("bin/.keep", "");
    for (name, text) in programs {
        world.file(&format!("bin/{name}"), text);
        fs::set_permissions(world.path(format!("bin/{name}")), fs::Permissions::from_mode(0o755)).expect("permissions");
    }
    let bin = world.path("bin");
    world.env("PATH", bin).env("HF_TOKEN", "hf_verysecret").env("NGC_KEY", "").env("HOME", "/no/such/home");
    world
}

/// Without what differs from machine to machine whatever is on PATH.
fn findings(json: &str) -> Vec<Value> {
    let report: Value = serde_json::from_str(json).expect("JSON");
    let all = report["findings"].as_array().expect("findings").clone();
    let varies = |about: &str| ["system", "memory", "disk", "/dev/shm"].contains(&about) || about.starts_with("ulimit");
    all.into_iter().filter(|one| !varies(one["about"].as_str().expect("a text"))).collect()
}

fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/doctor").join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, text).expect("the golden file");
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), text, "`UPDATE=1` writes it anew");
}

/// One line each: level, what, found, needed, what helps.
fn lines(findings: &[Value]) -> String {
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or("-").to_owned();
    let by = |one: &Value| {
        let by = one["by"].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
        by.join(" ")
    };
    // The package manager is this machine's.
    let fix = |one: &Value| {
        text(one, "fix").replace("sudo apt-get install ", "install ").replace("sudo dnf install ", "install ")
    };
    let line = |one: &Value| {
        let [level, about, found, needed] = ["level", "about", "found", "needed"].map(|key| text(one, key));
        format!("{level} | {about} | {found} | {needed} | {} | {}\n", by(one), fix(one))
    };
    findings.iter().map(line).collect()
}

#[test]
fn what_a_machine_with_most_of_it_lacks_is_reported() {
    let version = "#!/bin/sh\necho tool version 1.2.3\n";
    let world = world(&[
        ("nvidia-smi", NVIDIA_SMI),
        ("docker", DOCKER),
        ("git", version),
        ("cmake", version),
        ("make", version),
        ("python3", version),
        ("mpirun", "#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\n"),
        ("nvidia-container-runtime-hook", version),
    ]);
    let ended = world.regatta(&["doctor", "m", "--json"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(!ended.stdout.contains("verysecret"));
    golden("two-h200.txt", &lines(&findings(&ended.stdout)));
    let text = world.regatta(&["doctor", "m", "--color", "never"]);
    assert_eq!(text.code, 1);
    text.shows("✓  GPUs")
        .shows("2 × NVIDIA H200, 151 GB, compute 9.0")
        .shows("✗  NGC_KEY")
        .shows("  try export NGC_KEY=…");
    text.shows("  try docker pull gone:1").shows("items missing");
    text.shows("needs 138 GB for engines, at most").shows("build: 2 × 69.0 G weights × 1 B");
}

#[test]
fn on_a_bare_machine_everything_is_missing_and_everything_has_a_remedy() {
    let world = world(&[]);
    let ended = world.regatta(&["doctor", "m", "--json"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let found = findings(&ended.stdout);
    golden("bare.txt", &lines(&found));
    for one in found.iter().filter(|one| one["level"] == "missing") {
        assert!(one["fix"].as_str().is_some_and(|fix| !fix.is_empty()), "{one}");
    }
}

#[test]
fn a_daemon_that_does_not_answer_and_a_driver_that_is_broken_are_reported_as_such() {
    let world = world(&[
        (
            "docker",
            "#!/bin/sh\necho 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?' >&2; exit 1\n",
        ),
        (
            "nvidia-smi",
            "#!/bin/sh\necho \"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\"; exit 9\n",
        ),
    ]);
    let ended = world.regatta(&["doctor", "m", "--color", "never"]);
    ended.shows("the daemon of docker does not answer").shows("sudo systemctl start docker");
    ended.shows("couldn't communicate with the NVIDIA driver");
}

#[test]
fn without_a_manifest_there_are_facts_and_no_judgement() {
    let world = world(&[("nvidia-smi", NVIDIA_SMI)]);
    let ended = world.good(&["doctor", "--color", "never"]);
    ended.shows("·  GPUs").shows("·  HF_TOKEN").shows("set").shows("facts only");
    assert!(!ended.stdout.contains('✗') && !ended.stdout.contains("verysecret"), "{}", ended.stdout);
}

#[test]
fn a_manifest_that_needs_nothing_special_finds_it_everywhere() {
    let world = world(&[]);
    world.manifest("plain", "stages:\n  say: { shell: \"echo hello > said\" }\n");
    world.good(&["doctor", "plain"]);
    let wrong = world.regatta(&["doctor", "plain", "x=1"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
}

#[test]
fn trtllm_bench_needs_itself_and_its_launcher_and_locked_clocks_need_nvidia_smi() {
    let world = world(&[]);
    world.file("d.txt", "{}\n");
    world.manifest(
        "recipe",
        "stages:\n  b: { gpus: 1, gpu_clocks: { graphics: [1410, 1410] }, trtllm_bench: { model: m, dataset: d.txt } }\n",
    );
    let ended = world.regatta(&["doctor", "recipe", "--color", "never"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    for program in ["trtllm-bench", "trtllm-llmapi-launch", "nvidia-smi"] {
        ended.shows(&format!("✗  {program}"));
    }
}
