//! Launch plans: what `regatta plan --launch` says, what really starts, and servers that are there already.
//!
//! `tests/golden/launch/manifests/*.yaml` are planned in that folder; what is printed is in `tests/golden/launch/*.txt`.
//! After a change `UPDATE=1 cargo test --test it launch` writes what is printed now; read the difference. How each
//! command differs from the one of NVIDIA's script stands at the top of `src/triton/launch/mod.rs`.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;
use regatta::triton::launch::{LaunchSpec, ServerSpec, plan, ports};
use serde_json::{Value, json};

use crate::campaign::no_process_left;
use crate::ports::free_ports;
use crate::tritonserver::{self, RealTriton};
use crate::world::{Ended, World};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/launch")
}

/// `regatta plan NAME --launch …` in the folder of the golden files, with a state folder that does not exist.
fn planned(name: &str, words: &[&str]) -> Ended {
    let state = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_regatta"));
    command.args(["plan", name, "--launch"]).args(words).current_dir(golden());
    command.env("REGATTA_HOME", state.path().join("state")).stdin(Stdio::null());
    let ended = Ended::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("regatta"));
    assert!(!state.path().join("state").exists(), "a plan writes nothing");
    ended
}

fn names() -> Vec<String> {
    let files = fs::read_dir(golden().join("manifests")).expect("the manifests").flatten();
    let names = files.filter_map(|file| Some(file.path().file_stem()?.to_str()?.to_owned()));
    let mut names: Vec<String> = names.filter(|name| name != "base").collect();
    names.sort();
    names
}

#[test]
fn every_plan_is_printed_as_it_was_read_and_approved() {
    let names = names();
    assert_eq!(names.len(), 14, "{names:?}");
    let mut different = Vec::new();
    for name in &names {
        let ended = planned(name, &[]);
        assert_eq!(ended.code, if name == "impossible" { 2 } else { 0 }, "{name}: {ended:?}");
        let printed = format!("{}{}", ended.stdout, ended.stderr);
        let path = golden().join(format!("{name}.txt"));
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, &printed).expect("written");
        }
        if fs::read_to_string(&path).unwrap_or_default() != printed {
            different.push(format!("{name}:\n{printed}"));
        }
    }
    assert!(different.is_empty(), "not as in tests/golden/launch:\n{}", different.join("\n"));
}

#[test]
fn a_program_reads_the_same_plan() {
    let plan: Value = serde_json::from_str(&planned("h100-x8-tp4-pp2", &["--json"]).stdout).expect("JSON");
    let server = &plan["launches"][0]["servers"][0];
    assert_eq!(server["mode"], "leader");
    assert_eq!(server["world_size"], 8);
    assert_eq!(server["ports"]["grpc"], Value::Null, "not chosen yet");
    let ranks = server["ranks"].as_array().expect("ranks");
    let open: Vec<bool> = ranks.iter().map(|rank| rank["opens_ports"].as_bool().expect("a switch")).collect();
    assert_eq!(open, [true, false, false, false, false, false, false, false]);
    let gpus: Vec<u64> = ranks.iter().map(|rank| rank["gpu"].as_u64().expect("a GPU")).collect();
    assert_eq!(gpus, [0, 1, 2, 3, 4, 5, 6, 7]);
    let impossible: Value = serde_json::from_str(&planned("impossible", &["--json"]).stdout).expect("JSON");
    let problems = impossible["launches"][1]["problems"].as_array().expect("problems").len();
    assert!(problems >= 1, "{impossible}");
}

#[test]
fn shipped_manifests_are_planned_before_anything_is_there() {
    let world = World::new();
    world.copy("manifests");
    let ended = world.good(&["plan", "triton-cpu", "--launch", "scenarios=server", "servers=3"]);
    ended.shows("triton/server: 3 servers").shows("server 2  plain, 1 rank, no launcher");
    ended.shows("<install_tritonserver>/bin/tritonserver --model-repository=<generate_triton_config/server>/triton_model_repo_2");
    let ended = world.good(&["plan", "quickstart", "--launch"]);
    ended.shows("regatta sim serve --repository <generate_triton_config/offline>/triton_model_repo_0 --grpc-port 0");
}

#[test]
fn only_what_was_chosen_is_planned() {
    let ended = planned("attach", &["--only", "nvidia"]);
    assert!(ended.stdout.starts_with("nvidia:") && !ended.stdout.contains("text:"), "{ended:?}");
    assert_eq!(planned("attach", &["--only", "nobody"]).code, 2);
}

#[test]
fn every_option_of_nvidias_launcher_has_its_key() {
    // `launch_triton_server.py --help`.
    const OPTIONS: [&str; 17] = [
        "--world_size",
        "--tritonserver",
        "--grpc_port",
        "--http_port",
        "--metrics_port",
        "--force",
        "--log",
        "--log-file",
        "--model_repo",
        "--tensorrt_llm_model_name",
        "--multi-model",
        "--disable-spawn-processes",
        "--multimodal_gpu0_cuda_mem_pool_bytes",
        "--oversubscribe",
        "--no-mpi",
        "--trtllm_llmapi_launch",
        "--exit_timeout",
    ];
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/triton/launch/mod.rs")).unwrap();
    let keys = regatta::manifest::schema()["$defs"]["TritonServer"]["properties"].clone();
    let rows: Vec<(&str, &str)> =
        page.lines().filter_map(|line| line.strip_prefix("//! | `--")?.split_once('|')).collect();
    let options: Vec<String> =
        rows.iter().map(|(option, _)| format!("--{}", option.split('`').next().unwrap())).collect();
    assert_eq!(options, OPTIONS);
    for (option, key) in rows {
        let key = key.trim().trim_start_matches('`').split(['`', ':']).next().unwrap();
        assert!(keys.get(key).is_some(), "--{option} → `{key}` is not a key of serve.triton");
    }
}

#[test]
fn under_slurm_every_task_finds_its_own_words() {
    let settings = json!({"grpc_port": 8001, "http_port": 8101, "metrics_port": 8201});
    let ports = ports(&serde_json::from_value(settings).unwrap(), 2).unwrap();
    let server = |(index, ports)| ServerSpec { repository: format!("/r/it's {index}"), ports, ..ServerSpec::default() };
    let settings = json!({"args": ["$HOME `x` \\"], "mode": "leader", "world_size": 3, "launcher": "srun"});
    let spec = LaunchSpec {
        settings: serde_json::from_value(settings).unwrap(),
        servers: ports.into_iter().enumerate().map(server).collect(),
        gpus: Vec::new(),
        container: None,
        stage_env: Vec::new(),
    };
    let world = World::new();
    // What stands where `tritonserver` would: it says its words, a line each.
    world.file("bin/tritonserver", "#!/bin/sh\nprintf '%s\\n' \"$@\"\n");
    let done = Command::new("chmod").arg("+x").arg(world.path("bin/tritonserver")).status().expect("chmod");
    assert!(done.success());
    for (index, server) in plan(&spec).expect("a plan").servers.iter().enumerate() {
        let argv = server.argv();
        let at = argv.iter().position(|word| word == "sh").expect("sh");
        for rank in &server.ranks {
            let output = Command::new(&argv[at])
                .args(&argv[at + 1..])
                .env("PATH", format!("{}:/usr/bin:/bin", world.path("bin").display()))
                .env("SLURM_PROCID", rank.rank.to_string())
                .output()
                .expect("sh");
            let text = String::from_utf8(output.stdout).expect("text");
            let words: Vec<&str> = text.lines().collect();
            let has = |word: String| assert!(words.contains(&word.as_str()), "{word} is not in:\n{text}");
            has(format!("--model-repository=/r/it's {index}"));
            has(format!("--backend-config=python,shm-region-prefix-name={}", rank.shm_prefix));
            has("$HOME `x` \\".to_owned());
            let opens = words.iter().any(|word| word.starts_with("--grpc-port="));
            assert_eq!((opens, rank.opens_ports), (rank.rank == 0, rank.rank == 0), "{text}");
        }
    }
}

/// A repository for each of `servers` real servers, with Python models, in `repositories`.
fn repositories(world: &World, servers: u32) {
    world.copy("manifests");
    let servers = format!("servers={servers}");
    let made =
        world.regatta(&["run", "triton-cpu", "--until", "generate_triton_config", &servers, "scenarios=offline"]);
    assert_eq!(made.code, 0, "{made:?}");
    let made = fs::canonicalize(world.path("latest/generate_triton_config/offline")).expect("the repositories");
    let copied = Command::new("cp").arg("-r").arg(made).arg(world.path("repositories")).status().expect("cp");
    assert!(copied.success());
}

/// A stage that has what it is told of the servers, and asks each over HTTP whether it is ready.
const ASK: &str = r#"
  ask:
    env: { SERVERS: "{{ stages.triton }}" }
    shell: echo "$SERVERS" > servers.txt
"#;

/// The first of three free ports in a row, to count up from.
fn base() -> u16 {
    free_ports::<3>()[0]
}

#[test]
#[ignore = "needs a real tritonserver"]
fn several_real_servers_count_their_ports_up_and_take_every_kind_of_option() {
    let world = World::new();
    repositories(&world, 3);
    let base = base();
    let program = tritonserver::program().display().to_string();
    world.manifest(
        "m",
        &format!(
            r#"
stages:
  triton:
    serve:
      triton:
        repository: repositories
        program: {program}
        ready: {{ timeout: 2m }}
        grpc_port: {base}
        http_address: 127.0.0.1
        grpc_address: 127.0.0.1
        log_verbose: 1
        log_file: "triton-{{server}}.txt"
        exit_timeout_secs: 5
        model_control_mode: explicit
        load_model: [tensorrt_llm]
        backend_config: {{ python: {{ stub-timeout-seconds: 60 }} }}
        trace: {{ level: [TIMESTAMPS], rate: 1, file: "trace-{{server}}.json" }}
        rate_limit: execution_count
        options: {{ http-thread-count: 2, metrics_interval_ms: 500, id: regatta, allow-gpu-metrics: false }}
        args: [--log-info=true]
{ASK}"#
        ),
    );
    let plan: Value = serde_json::from_str(&world.good(&["plan", "m", "--launch", "--json"]).stdout).expect("JSON");
    let servers = plan["launches"][0]["servers"].as_array().expect("servers");
    assert_eq!(
        servers.iter().map(|one| one["ports"]["grpc"].as_u64()).collect::<Vec<_>>(),
        [0, 1, 2].map(|n| Some(u64::from(base) + n))
    );
    world.good(&["run", "m"]);
    let expected = (0..3).map(|n| (base + n).to_string()).collect::<Vec<_>>().join(",");
    assert_eq!(world.read("latest/ask/servers.txt").trim(), format!("127.0.0.1:{expected}"));
    for server in 0..3 {
        let log = world.read(format!("triton-{server}.txt"));
        for line in [format!("prefix{server}_"), format!("Started GRPCInferenceService at 127.0.0.1:{}", base + server)]
        {
            assert!(log.contains(&line), "{line} is not in the log of server {server}:\n{log}");
        }
        assert!(log.contains("regatta") && log.contains("MODE_EXPLICIT") && log.contains("EXEC_COUNT"), "{log}");
    }
    no_process_left(&world);
}

#[test]
fn a_port_that_somebody_has_is_named_with_its_owner_before_anything_starts() {
    let world = World::new();
    world.file("repositories/triton_model_repo_0/echo/config.pbtxt", "backend: \"python\"\n");
    let taken = TcpListener::bind(("0.0.0.0", 0)).expect("a port");
    let port = taken.local_addr().expect("an address").port();
    world.manifest(
        "m",
        &format!("stages:\n  triton:\n    serve: {{ triton: {{ repository: repositories, program: /bin/false, http_port: {port} }} }}\n{ASK}"),
    );
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows(&format!("port {port} cannot be used")).shows(&format!("process {} listens there", std::process::id()));
    ended.shows("or leave `http_port` out to get a free one");
}

#[test]
fn what_cannot_start_is_refused_before_anything_starts() {
    let world = World::new();
    world.file("repositories/triton_model_repo_0/echo/config.pbtxt", "backend: \"python\"\n");
    world.manifest(
        "m",
        &format!("stages:\n  triton:\n    serve: {{ triton: {{ repository: repositories, program: /bin/false, spawn_processes: false, container: {{ engine: apptainer, image: x, user: me }} }} }}\n{ASK}"),
    );
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    ended.shows("`spawn_processes` requires mode orchestrator; the mode is plain");
    ended.shows("`container.user`: apptainer runs as the user that starts it");
}

#[test]
fn a_division_of_gpus_that_fails_is_refused_before_the_engine_is_built() {
    let world = World::new();
    world.copy("manifests");
    world.manifest(
        "m",
        &format!(
            r#"
include: [models/llama2-70b.yaml]
stages:
  engine:
    engine: {{ backend: simulator, model: "{{{{ model }}}}", system: {{ name: eight, gpus: 8, memory_gb: 141, bandwidth_gbs: 4800, tflops_16bit: 989 }}, precision: fp8, tensor_parallelism: 4, build_flags: {{ max_batch_size: 8, max_num_tokens: 4096, max_input_len: 512, max_seq_len: 1024 }} }}
  repository:
    repository: {{ engine: "{{{{ stages.engine.out }}}}", triton_num_servers: 3, gpus: 8, models: [tensorrt_llm] }}
  triton:
    gpus: 8
    serve: {{ triton: {{ repository: "{{{{ stages.repository.out }}}}", program: /bin/false }} }}
{ASK}"#
        ),
    );
    for words in [&["run", "m"][..], &["plan", "m"], &["serve", "m", "--gpus", "8"]] {
        let ended = world.regatta(words);
        assert_eq!(ended.code, 2, "{words:?}: {ended:?}");
        ended.shows("`repository` has 8 GPUs for 3 servers, but each copy of the engine needs 4 (tp × pp)");
    }
    assert!(!world.path("latest").exists(), "nothing ran");
}

#[test]
fn each_server_sees_its_own_gpus_and_is_no_rank_of_another() {
    let mut world = World::new();
    for server in 0..2 {
        world.file(&format!("repositories/triton_model_repo_{server}/echo/config.pbtxt"), "backend: \"python\"\n");
    }
    // It writes its environment down, waits until both have done so, and goes.
    let stand_in = format!(
        "#!/bin/sh\nfor word in \"$@\"; do case $word in *shm-region*) mine=${{word##*=}}; mine=${{mine%%_*}}_ ;; esac; done\ncd {0}\n\
         env > writing.$mine && mv writing.$mine env.$mine\n\
         until [ -e env.prefix0_ ] && [ -e env.prefix1_ ]; do sleep 0.01; done\nexit 1\n",
        world.path("").display()
    );
    world.file("tritonserver", &stand_in);
    let done = Command::new("chmod").arg("+x").arg(world.path("tritonserver")).status().expect("chmod");
    assert!(done.success());
    let program = world.path("tritonserver");
    world.manifest(
        "m",
        &format!(
            "stages:\n  triton:\n    gpus: 2\n    env: {{ PMIX_MCA_gds: hash }}\n    serve: {{ triton: {{ repository: repositories, program: \"{}\" }} }}\n{ASK}",
            program.display()
        ),
    );
    // As if Regatta itself had been started by mpirun on GPUs 4 and 5.
    for (name, value) in
        [("CUDA_VISIBLE_DEVICES", "4,5"), ("OMPI_COMM_WORLD_RANK", "3"), ("PMIX_RANK", "3"), ("PMI_RANK", "3")]
    {
        world.env(name, value);
    }
    assert_eq!(world.regatta(&["run", "m"]).code, 1, "the stand-in leaves");
    for (server, gpu) in [(0, "4"), (1, "5")] {
        let env = world.read(format!("env.prefix{server}_"));
        let has = |line: &str| env.lines().any(|one| one == line);
        assert!(has(&format!("CUDA_VISIBLE_DEVICES={gpu}")), "{env}");
        assert!(has("PMIX_MCA_gds=hash"), "what the stage sets stays:\n{env}");
        let rank = env.lines().find(|line| ["OMPI_", "PMI_", "PMIX_R"].iter().any(|start| line.starts_with(start)));
        assert_eq!(rank, None, "{env}");
    }
    no_process_left(&world);
}

#[test]
fn a_repository_that_exists_is_read_before_it_is_served() {
    let world = World::new();
    world.copy("manifests");
    world.manifest(
        "make",
        r#"
include: [models/llama2-70b.yaml]
stages:
  engine:
    engine: { backend: simulator, model: "{{ model }}", system: { name: two, gpus: 2, memory_gb: 141, bandwidth_gbs: 4800, tflops_16bit: 989 }, precision: fp8, tensor_parallelism: 2, build_flags: { max_batch_size: 8, max_num_tokens: 4096, max_input_len: 512, max_seq_len: 1024 } }
  repository:
    repository: { engine: "{{ stages.engine.out }}", models: [tensorrt_llm] }
"#,
    );
    world.good(&["run", "make"]);
    let plan = |words: &str| {
        let made = ["latest/repository", "latest/repository/triton_model_repo_0"];
        made.map(|repository| {
            let body = format!(
                "stages:\n  triton:\n    gpus: 2\n    serve: {{ triton: {{ repository: {repository}{words} }} }}\n"
            );
            world.manifest("m", &body);
            world.regatta(&["plan", "m", "--launch"])
        })
    };
    for ended in plan("") {
        assert_eq!(ended.code, 0, "{ended:?}");
        ended
            .shows("leader, tensorrt_llm: TP2·PP1, 2 ranks, by mpirun")
            .shows("rank 1: worker, never opens its ports, GPU 1")
            .shows("--output-filename");
    }
    // What mpirun writes itself does not go past what takes secrets out of the log.
    let body = "stages:\n  triton:\n    gpus: 2\n    secrets: [TOKEN]\n    serve: { triton: { repository: latest/repository } }\n";
    world.manifest("m", body);
    let ended = world.regatta(&["plan", "m", "--launch"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.shows("rank 1: worker, never opens its ports, GPU 1");
    assert!(!ended.stdout.contains("--output-filename"), "{}", ended.stdout);
    for ended in plan(", world_size: 4") {
        assert_eq!(ended.code, 2, "{ended:?}");
        ended.shows("world_size is 4, and the engine needs 2 (tp × pp): server 0");
    }
    for ended in plan(", mode: plain") {
        ended.shows("mode plain starts one rank, but the engine of server 0 needs 2 (tp × pp)");
    }
}

/// What mpirun does as far as a launch plan needs it: starts what stands between the colons, and ends it all together.
const MPIRUN: &str = r#"#!/usr/bin/env python3
import signal, subprocess, sys, threading
words = sys.argv[1:]
first = words.index("-n")
print("mpirun", *words[:first], flush=True)
lines, line = [], []
for word in words[first:] + [":"]:
    if word == ":":
        lines.append(line[2:])
        line = []
    else:
        line.append(word)
print("ranks", len(lines), flush=True)
# As TensorRT-LLM's leader does, the first waits for the others before it is ready.
loaded = threading.Semaphore(0)
def pass_on(rank):
    for line in rank.stdout:
        print(line, end="", flush=True)
        if "successfully loaded 'tensorrt_llm'" in line:
            loaded.release()
ranks = [subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for line in lines[1:]]
for rank in ranks:
    threading.Thread(target=pass_on, args=[rank], daemon=True).start()
def end(*_):
    for rank in ranks:
        rank.terminate()
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGINT, end)
for _ in ranks:
    loaded.acquire()
ranks.insert(0, subprocess.Popen(lines[0]))
code = ranks[0].wait()
for rank in ranks:
    rank.terminate()
    rank.wait()
sys.exit(code)
"#;

#[test]
#[ignore = "needs a real tritonserver"]
fn the_ranks_of_a_leader_are_servers_of_which_one_opens_ports() {
    let world = World::new();
    repositories(&world, 1);
    world.file("mpirun", MPIRUN);
    let done = Command::new("chmod").arg("+x").arg(world.path("mpirun")).status().expect("chmod");
    assert!(done.success());
    let (program, mpirun) = (tritonserver::program().display(), world.path("mpirun"));
    world.manifest(
        "m",
        &format!(
            r#"
stages:
  triton:
    serve:
      triton:
        repository: repositories
        program: {program}
        ready: {{ timeout: 2m }}
        mode: leader
        world_size: 3
        oversubscribe: true
        mpi: {{ program: "{}", args: [--bind-to, none] }}
{ASK}"#,
            mpirun.display()
        ),
    );
    world.good(&["run", "m"]);
    let log = world.good(&["logs", "triton"]).stdout;
    assert!(log.contains("mpirun --allow-run-as-root --oversubscribe --output-filename "), "{log}");
    assert!(log.contains("--bind-to none") && log.contains("ranks 3"), "{log}");
    // Each of the three has loaded the model, and one of them has printed where it listens.
    assert_eq!(log.matches("Started GRPCInferenceService").count(), 1, "{log}");
    assert_eq!(log.matches("successfully loaded 'tensorrt_llm'").count(), 3, "{log}");
    for rank in 0..3 {
        assert!(log.contains(&format!("prefix{rank}_")), "rank {rank}:\n{log}");
    }
    no_process_left(&world);
}

#[test]
#[ignore = "needs a real tritonserver"]
fn servers_that_are_there_are_attached_to_and_left_alone() {
    let world = World::new();
    repositories(&world, 1);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(RealTriton::ready(&world.path("repositories/triton_model_repo_0"), &[]));
    let port = server.endpoint.grpc;
    let body = |how: &str| format!("stages:\n  triton:\n    serve: {how}\n{ASK}");
    for (name, how) in [
        ("text", format!("{{ attach: {{ endpoints: \"127.0.0.1:{port}\", models: [tensorrt_llm] }} }}")),
        ("list", format!("{{ attach: {{ endpoints: [{{ grpc: \"127.0.0.1:{port}\" }}] }} }}")),
        (
            "nvidia",
            format!("{{ triton: {{ triton_skip_server_spawn: true, triton_grpc_ports: \"127.0.0.1:{port}\" }} }}"),
        ),
    ] {
        world.manifest(name, &body(&how));
        world.good(&["run", name]);
        assert_eq!(world.read("latest/ask/servers.txt").trim(), format!("127.0.0.1:{port}"), "{name}");
    }
    world.manifest("wrong", &body(&format!("{{ attach: {{ endpoints: \"127.0.0.1:{port}\", models: [gpt] }} }}")));
    let ended = world.regatta(&["run", "wrong"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("it has no model `gpt`").shows("it has `");
    let [nobody] = free_ports::<1>();
    world.manifest(
        "nobody",
        &body(&format!("{{ attach: {{ endpoints: \"127.0.0.1:{nobody}\", ready: {{ timeout: 300ms }} }} }}")),
    );
    world.regatta(&["run", "nobody"]).shows(&format!("127.0.0.1:{nobody} was not ready within 300ms"));
    // Nobody stopped it.
    assert_eq!(server.stubs().len(), 4, "{}", server.log_text());
}
