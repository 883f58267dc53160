//! MLPerf's own LoadGen, built and driven: a rehearsal on the simulator, and what goes wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::services::{await_event, watched};
use crate::supervision::{send, the_one};
use crate::world::{Ended, World, alive_with, signal, signal_pid, until};

/// Samples of a made-up data set: prompts and answers are short, so that a test is.
const SAMPLES: u32 = 24;

/// As many queries as LoadGen's early stopping needs for a p99 that nobody missed, and no more time than they take.
const BRIEF: &str = "min_duration: 1, min_query_count: 600";
const LONG: &str = "min_duration: 600000";

/// A project in the build folder that compiles a round's LoadGen from its sources, by the stage that does it for everybody, and puts it
/// into a shared store.
fn compiled(round: &str) -> PathBuf {
    let project = Path::new(env!("CARGO_TARGET_TMPDIR")).join("loadgen").join(round);
    for folder in ["manifests", "store"] {
        fs::create_dir_all(project.join(folder)).expect("a folder");
    }
    let manifest =
        format!("regatta: 1\nname: m\nstages:\n  loadgen: {{ mlperf: {{ loadgen: {{ round: {round} }} }} }}\n");
    fs::write(project.join("manifests/m.yaml"), manifest).expect("a manifest");
    let mut run = Command::new(env!("CARGO_BIN_EXE_regatta"));
    run.args(["run", "m", "--store", "store"]).current_dir(&project).env_remove("REGATTA_HOME");
    let ended =
        Ended::of(run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("regatta"));
    assert_eq!(ended.code, 0, "{ended:?}");
    project
}

/// LoadGen of a round, once for all tests.
pub fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| fs::canonicalize(compiled("v5.1").join("latest/loadgen")).expect("the library's folder"))
}

/// The shared store that has LoadGen of the newest round, for a world whose own pipeline has the stage: compiling takes half a minute
/// of both cores. The manual's chapter compiles it, as its reader does.
pub fn store() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| compiled("v6.1").join("store"))
}

/// A project with a data set, simulated servers, and one LoadGen test for each scenario.
fn world(scenarios: &str, round: &str, library: &Path, user_conf: &str) -> World {
    let world = World::new();
    let prompt = |at: u32| (0..8 + at % 5).map(|token| 3 + (at * 31 + token) % 90).collect::<Vec<u32>>();
    let lines: Vec<String> = (0..SAMPLES)
        .map(|at| json!({"id": at, "input_ids": prompt(at), "output_tokens": 3 + at % 4}).to_string())
        .collect();
    world.file("data/dataset.jsonl", &(lines.join("\n") + "\n"));
    let description =
        json!({"benchmark": "llama2-70b-99.9", "synthetic": true, "samples": SAMPLES, "sha256": "0".repeat(64)});
    world.file("data/dataset.json", &description.to_string());
    let library = library.display();
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
        round: {round}
        benchmark: llama2-70b-99.9
        target_qps: 100
        rehearse: true
        user_conf: {{ {user_conf} }}
"#
        ),
    );
    world
}

pub fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))).unwrap()
}

#[test]
#[ignore = "needs MLPerf's LoadGen: pip, g++ and the network"]
fn the_library_says_what_it_was_built_from() {
    let record = json_of(&library().join("loadgen.json"));
    assert_eq!(record["version"], "5.1.2");
    assert_eq!(record["seeds"]["qsl"].as_u64(), Some(1_780_908_523_862_526_354));
    assert_eq!(record["sdist_sha256"].as_str().map(str::len), Some(64));
    assert!(record["compiler"].as_str().unwrap().contains("g++"), "{record}");
}

#[test]
#[ignore = "needs MLPerf's LoadGen: pip, g++ and the network"]
fn a_result_says_that_the_server_of_loadgen_ran_with_less() {
    let world = world("[offline]", "v5.1", library(), BRIEF);
    let whole = world.read("manifests/m.yaml");
    let full = whole.replace("streaming: ", "runtime_flags: { kvcache_free_gpu_mem_frac: 1.0 }, streaming: ");
    let rule = "retry: { on: oom, lower: kv_cache_free_gpu_mem_fraction, by: 0.05 }\n    serve: ";
    world.file("manifests/m.yaml", &full.replace("serve: ", rule));
    world.good_when_undisturbed(&["run", "m"]);
    let result = json_of(&world.path("latest/test/offline/result.json"));
    let reason = result["reasons"].as_array().unwrap().iter().find(|reason| reason["check"] == "lowered").unwrap();
    assert!(reason["text"].as_str().unwrap().contains("kv_cache_free_gpu_mem_fraction 1 → 0.95"), "{reason}");
}

#[test]
#[ignore = "needs MLPerf's LoadGen: pip, g++ and the network"]
fn loadgen_drives_offline_and_server_and_says_what_we_say() {
    let world = world("[offline, server]", "v5.1", library(), BRIEF);
    world.good_when_undisturbed(&["run", "m"]);
    for (scenario, key) in [("offline", "result_samples_per_second"), ("server", "result_completed_samples_per_sec")] {
        let out = world.path("latest").join(format!("test/{scenario}"));
        let summary = fs::read_to_string(out.join("mlperf_log_summary.txt")).unwrap();
        assert!(summary.contains("Result is : VALID"), "{summary}");
        assert!(summary.contains("okens per second"), "the rules of the model are in force: {summary}");
        // Its own mlperf.conf was read, and not only our user.conf.
        let logged = |key: &str| logged(&out, key).unwrap_or_else(|| panic!("no {key}"));
        assert_eq!(logged("effective_qsl_rng_seed"), json!(1_780_908_523_862_526_354_u64));
        assert_eq!(logged("effective_sample_index_rng_seed"), json!(14_771_362_308_971_278_857_u64));
        assert_eq!(logged("effective_schedule_rng_seed"), json!(18_209_322_760_996_052_031_u64));
        let test = json_of(&out.join("test.json"));
        assert_eq!((&test["result"], &test["errors"], &test["rehearsal"]), (&json!("VALID"), &json!(0), &json!(true)));
        let result = json_of(&out.join("result.json"));
        let loadgen = &result["loadgen"];
        assert_eq!((&loadgen["version"], &loadgen["errors"]), (&json!("5.1.2"), &json!(0)));
        let metric = |name: &str| {
            let metrics = loadgen["metrics"].as_array().unwrap();
            metrics.iter().find(|metric| metric["metric"] == name).unwrap_or_else(|| panic!("{name} in {loadgen}"))
        };
        assert!(metric(key)["difference_percent"].as_f64().unwrap().abs() < 5.0, "{}", metric(key));
        // What the servers' own metrics said meanwhile is beside it.
        let servers = &result["server_metrics"];
        assert_eq!(servers["servers"].as_array().map(Vec::len), Some(1), "{servers:#}");
        let lines = fs::read_to_string(out.join("server-metrics.jsonl")).unwrap();
        assert!(lines.lines().count() > 1, "{lines}");
        // Every sample that LoadGen counted is one of our requests, and every token one of ours.
        let requests = fs::read_to_string(out.join("requests.jsonl")).unwrap();
        let requests: Vec<Value> = requests.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(query_count(&out), requests.len() as u64);
        for request in &requests {
            let sample = request["sample"].as_u64().unwrap();
            assert_eq!(request["tokens"].as_u64(), Some(3 + sample % 4), "{request}");
        }
    }
}

#[test]
#[ignore = "needs MLPerf's LoadGen: pip, g++ and the network"]
fn what_loadgen_asked_for_can_be_asked_for_again_without_it() {
    let world = world("[server]", "v5.1", library(), BRIEF);
    world.good_when_undisturbed(&["run", "m"]);
    let plan = world.read("latest/test/server/plan.jsonl");
    let result = json_of(&world.path("latest/test/server/result.json"));
    assert_eq!(plan.lines().count(), 1 + result["counts"]["issued"].as_u64().unwrap() as usize);
    assert_eq!(plan.matches("\"parts\"").count(), SAMPLES as usize, "each prompt once");
    let text = world.read("manifests/m.yaml");
    let (before, _) = text.split_once("  test:\n").unwrap();
    let again = "  test:\n    foreach: { scenario: [server] }\n    bench:\n      target: \"{{ stages.servers }}\"\n      scenario: server\n      \
                 rate: 1\n      data: { plan: plan.jsonl }\n      preflight: off\n";
    world.file("plan.jsonl", &plan).file("manifests/again.yaml", &format!("{before}{again}"));
    let replayed = world.regatta(&["run", "again"]);
    // The simulator runs faster than the clock: without LoadGen's rehearsal that is INVALID(server).
    assert!([0, 3, 4, 5].contains(&replayed.code), "{replayed:?}");
    let kept = if replayed.code == 0 { "latest/test/server" } else { ".regatta/failed/test.server" };
    let replayed = json_of(&world.path(kept).join("result.json"));
    assert_eq!(replayed["schedule_digest"], result["schedule_digest"], "the same requests at the same times");
    assert_eq!(world.read(format!("{kept}/plan.jsonl")), plan);
}

#[test]
#[ignore = "needs MLPerf's LoadGen: pip, g++ and the network"]
fn a_server_that_is_lost_under_loadgen_leaves_a_result_that_says_so() {
    let world = world("[server]", "v5.1", library(), LONG);
    let run = watched(&world, &[]);
    await_event(&world, "answered, ");
    send(the_one(&world, "sim serve"), "KILL");
    let ended = Ended::of(run);
    assert_eq!(ended.code, 1, "{}", world.read("events"));
    let result = json_of(&world.path(".regatta/failed/test.server/result.json"));
    assert_eq!(result["verdict"], "invalid_server", "{result:#}");
    assert_eq!(result["reasons"][0]["check"], "server", "{:#}", result["reasons"]);
    let why = result["reasons"][0]["text"].as_str().unwrap();
    assert!(why.contains("ended by SIGKILL (9) while it was needed") && why.contains("had ended"), "{why}");
    assert_eq!((&result["loadgen"]["result"], &result["counts"]["conserved"]), (&Value::Null, &json!(true)));
    assert!(result["counts"]["ok"].as_u64() > Some(0), "{:#}", result["counts"]);
    // No test of LoadGen's that came to its end.
    assert!(!world.path(".regatta/failed/test.server/test.json").exists());
    assert_eq!(alive_with(world.path("")), []);
}

/// `result_query_count`; of Offline the one query has all samples, so what its logs count is their rate × time.
fn query_count(out: &Path) -> u64 {
    let value = |key: &str| logged(out, key)?.as_u64();
    match value("result_query_count") {
        Some(count) if count > 1 => count,
        _ => value("generated_samples_per_query").unwrap(),
    }
}

/// The child process of a world's test, once there is one.
fn child(world: &World) -> i32 {
    let find = || alive_with(world.path("")).into_iter().find(|(_, command)| command.contains("__loadgen-test"));
    until("LoadGen's process to start", || find().is_some());
    find().expect("LoadGen's process").0
}

/// LoadGen has begun: it writes its logs.
fn await_loadgen(world: &World) -> i32 {
    let pid = child(world);
    until("LoadGen to begin", || {
        let found = walkdir::WalkDir::new(world.path(".regatta")).into_iter().flatten();
        found.into_iter().any(|entry| entry.file_name() == "mlperf_log_detail.txt")
    });
    pid
}

#[test]
#[ignore = "needs MLPerf's LoadGen: pip, g++ and the network"]
fn a_test_that_is_killed_fails_its_stage() {
    let world = world("[server]", "v5.1", library(), LONG);
    let run = world.start(&["run", "m"]);
    signal_pid(await_loadgen(&world), "KILL");
    let ended = Ended::of(run);
    assert_eq!(ended.code, 1);
    ended.shows("test/server").shows("ended by SIGKILL");
    assert_eq!(alive_with(world.path("")), []);
}

#[test]
#[ignore = "needs MLPerf's LoadGen: pip, g++ and the network"]
fn a_run_that_is_stopped_takes_its_test_along() {
    let world = world("[server]", "v5.1", library(), LONG);
    let run = world.start(&["run", "m"]);
    await_loadgen(&world);
    signal(&run, "INT");
    let ended = Ended::of(run);
    assert_eq!(ended.code, 130, "{}", ended.stderr);
    assert_eq!(alive_with(world.path("")), []);
}

#[test]
#[ignore = "needs MLPerf's LoadGen: pip, g++ and the network"]
fn a_library_of_another_round_is_refused() {
    let world = world("[offline]", "v6.0", library(), BRIEF);
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1);
    ended.shows("the library is LoadGen 5.1.2, but round v6.0 accepts");
    ended.shows("the library's qsl_rng_seed is 1780908523862526354, and round v6.0 has 2465351861681999779");
}

/// A project whose performance runs are measured by a meter; its client is a stand-in, without which there is none.
fn metered(library: &Path, client: &str) -> World {
    let world = world("[offline]", "v5.1", library, BRIEF);
    let meter = format!("power: {{ server: \"director:4951\", ntp: time.example.com, client: {client} }}");
    let manifest =
        world.read("manifests/m.yaml").replace("rehearse: true", &format!("rehearse: true\n        {meter}"));
    world.file("manifests/m.yaml", &manifest);
    world.file("bin/power_client", include_str!("power_client.py"));
    fs::set_permissions(world.path("bin/power_client"), fs::Permissions::from_mode(0o755)).unwrap();
    world
}

/// LoadGen runs twice under power-dev's client, and what the meter measured lies where a package has it.
#[test]
#[ignore = "needs MLPerf's LoadGen: pip, g++ and the network"]
fn power_is_measured_by_a_ranging_and_a_testing_run() {
    let world = metered(library(), "bin/power_client");
    let ended = world.good_when_undisturbed(&["run", "m"]);
    ended.shows("run twice for the power meter: ranging, then testing");
    let out = world.path("latest/test/offline");
    for name in regatta::mlperf::POWER_PATHS.split(' ') {
        assert!(out.join(name).is_file(), "{name}");
    }
    assert!(!out.join("run_1/ptd_out.txt").exists());
    let record = json_of(&out.join("power/client.json"));
    let sha1 = |name: &str| crate::submission::sha1(&fs::read(out.join(name)).unwrap());
    assert_eq!(record["results"]["run_1/mlperf_log_detail.txt"], sha1("mlperf_log_detail.txt"), "the testing run");
    assert_ne!(record["results"]["ranging/mlperf_log_detail.txt"], sha1("mlperf_log_detail.txt"));
    assert_eq!(json_of(&out.join("result.json"))["loadgen"]["result"], "VALID");
    let log = fs::read_to_string(out.join("power/client.log")).unwrap();
    assert_eq!(log, "measured by director:4951, the clock is time.example.com's\n");
}

/// power-dev's client ends with exit code 0 where the clocks differ.
#[test]
#[ignore = "needs MLPerf's LoadGen: pip, g++ and the network"]
fn a_client_that_measured_nothing_fails_its_stage() {
    let mut world = metered(library(), "bin/power_client");
    world.env("NO_NTP", "1");
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("the power client wrote no power/client.json");
}

#[test]
fn a_client_of_the_meter_that_is_absent_is_reported_with_its_remedy() {
    let world = metered(Path::new("nowhere"), "no_power_client");
    fs::create_dir_all(world.path("nowhere")).unwrap();
    fs::write(world.path("nowhere/libloadgen.so"), "no library").unwrap();
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("no_power_client").shows("pip install git+https://github.com/mlcommons/power-dev");
}

#[test]
fn a_library_that_is_none_is_reported_with_its_path() {
    let world = world("[offline]", "v5.1", Path::new("nowhere"), BRIEF);
    let inside = world.path("nowhere");
    fs::create_dir_all(&inside).unwrap();
    fs::write(inside.join("libloadgen.so"), "no library").unwrap();
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1);
    ended.shows("nowhere/libloadgen.so cannot be loaded");
}

/// The last value of a key in LoadGen's detail log.
fn logged(out: &Path, key: &str) -> Option<Value> {
    let detail = fs::read_to_string(out.join("mlperf_log_detail.txt")).unwrap();
    let line = detail.lines().rev().find(|line| line.contains(&format!("\"{key}\"")))?;
    let record: Value = serde_json::from_str(line.strip_prefix(":::MLLOG ")?).ok()?;
    record.get("value").cloned()
}
