//! Servers in containers: what they are given of the machine, and that `plan --launch` prints the command that a run starts.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::ports::free_ports;
use crate::world::World;

/// The id of every image of the stand-in.
const IMAGE: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// A docker that writes down what it is to run, a word on a line, and fails.
const DOCKER: &str = r#"#!/bin/sh
case "$1 $2" in
  "image inspect") echo "IMAGE []" ;;
  "container inspect") exit 1 ;;
  "run "*) printf '%s\n' "$@" > "$W/argv"; exit 1 ;;
esac
"#;

/// A world whose docker is the stand-in, with one stage `api` and a stage that needs it.
fn world(api: &str) -> World {
    let mut world = World::with(&format!("stages:\n  api:\n{api}\n  ask: {{ shell: 'echo {{{{ stages.api }}}}' }}\n"));
    world.file("bin/docker", &DOCKER.replace("IMAGE", IMAGE));
    fs::set_permissions(world.path("bin/docker"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", world.path("bin").display(), std::env::var("PATH").unwrap());
    let folder = world.path("");
    world.env("PATH", path).env("W", folder);
    world
}

/// The words of the only server's command in the launch plan, behind the program.
fn printed(world: &World) -> Vec<String> {
    let plan: Value = serde_json::from_str(&world.good(&["plan", "m", "--launch", "--json"]).stdout).unwrap();
    let command = plan["launches"][0]["servers"][0]["command"].as_array().unwrap();
    let words = command.iter().flat_map(|piece| piece.as_array().unwrap());
    words.map(|word| word.as_str().unwrap().to_owned()).skip(1).collect()
}

/// What a run gives to the stand-in, with the plan's placeholders for what is known only then.
fn started(world: &World) -> Vec<String> {
    let ended = world.regatta(&["run", "m", "--gpus", "0,1"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let words = world.read("argv");
    let value = |option: &str| {
        let found = words.lines().find_map(|word| word.strip_prefix(option)).map(str::to_owned);
        found.unwrap_or_else(|| format!("no {option}"))
    };
    let (out, name) = (value("--workdir="), value("--name="));
    let words = words.replace(&out, "<out>").replace(&name, "regatta-PID-api").replace(IMAGE, "img:1");
    words.replace("<out>/extra_llm_api_options.yaml", "<options>").lines().map(str::to_owned).collect()
}

#[test]
fn what_a_plan_prints_for_a_server_in_a_container_is_what_a_run_starts() {
    let far = tempfile::tempdir().unwrap();
    let model = far.path().join("checkpoint");
    let drafts = far.path().join("drafts");
    fs::create_dir_all(&model).unwrap();
    fs::create_dir_all(&drafts).unwrap();
    let (model, drafts) = (model.display(), drafts.display());
    let [port] = free_ports::<1>();
    let stage = "    gpus: 2\n    env: { MODE: fast }\n    container: { engine: docker, image: \"img:1\" }\n";
    for serve in [
        format!(
            "trtllm_serve: {{ model: \"{model}\", tensor_parallelism: 2, port: {port}, args: [--trust_remote_code], options: {{ speculative_config: {{ speculative_model_dir: \"{drafts}\" }} }} }}"
        ),
        format!(
            "vllm: {{ model: \"{model}\", tensor_parallel_size: 2, port: {port}, options: {{ speculative_config: {{ model: \"{drafts}\" }} }} }}"
        ),
        format!(
            "command: {{ words: [vllm, serve, \"{model}\", \"--draft={drafts}\", --port, \"{{port}}\"], port: {port}, ready: {{ by: health }} }}"
        ),
    ] {
        let world = world(&format!("{stage}    serve: {{ {serve} }}"));
        let (printed, started) = (printed(&world), started(&world));
        assert_eq!(printed, started, "{serve}");
        for path in [model.to_string(), drafts.to_string()] {
            let mount = format!("--volume={path}:{path}:ro");
            assert!(started.contains(&mount), "{mount} is not in {started:#?}");
        }
        assert!(started.contains(&"--gpus=\"device=0,1\"".to_owned()), "{started:#?}");
    }
}

#[test]
fn what_the_configs_of_a_repository_name_is_mounted_where_triton_runs() {
    let far = tempfile::tempdir().unwrap();
    for name in ["tokenizer", "checkpoint", "plugins"] {
        fs::create_dir(far.path().join(name)).unwrap();
    }
    let at = |name: &str| far.path().join(name).display().to_string();
    let [grpc, http, metrics] = free_ports::<3>();
    let world = world(&format!(
        "    serve: {{ triton: {{ repository: repository, grpc_port: {grpc}, http_port: {http}, metrics_port: {metrics}, \
         args: [\"--backend-directory={}\"], container: {{ engine: docker, image: \"img:1\" }} }} }}",
        at("plugins")
    ));
    let parameter = format!(
        "backend: \"python\"\nparameters {{ key: \"tokenizer_dir\" value {{ string_value: \"{}\" }} }}\n",
        at("tokenizer")
    );
    world.file("repository/preprocessing/config.pbtxt", &parameter);
    world.file("repository/vllm/config.pbtxt", "backend: \"vllm\"\n");
    world.file("repository/vllm/1/model.json", &format!("{{\"model\": \"{}\"}}", at("checkpoint")));
    let (printed, started) = (printed(&world), started(&world));
    for words in [&printed, &started] {
        for path in ["tokenizer", "checkpoint", "plugins"].map(at) {
            let mount = format!("--volume={path}:{path}:ro");
            assert!(words.contains(&mount), "{mount} is not in {words:#?}");
        }
    }
    // The run's id is in the name of shared memory, and a plan has none.
    let without_run = |words: Vec<String>| -> Vec<String> {
        let cut = |word: String| match word.split_once("shm-region-prefix-name=") {
            Some((before, _)) => format!("{before}shm-region-prefix-name=…"),
            None => word,
        };
        words.into_iter().map(cut).collect()
    };
    assert_eq!(without_run(printed), without_run(started));
}
