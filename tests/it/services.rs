//! Servers with a lifetime, in good days and bad ones: what is printed, the exit code, and that nothing is left behind.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Stdio};

use regatta::event::{Event, Verdict};
use regatta::harness::{VerdictCheck, read_result};
use regatta::runner::store::{last_run, read_journal};

use crate::campaign::{home, no_process_left};
use crate::world::{Ended, World, signal, until};

pub const ENGINE: &str = r#"
stages:
  engine:
    engine:
      backend: simulator
      precision: fp8
      model: { name: tiny, architecture: LlamaForCausalLM, parameters: 1000000, num_hidden_layers: 2, hidden_size: 64, intermediate_size: 128, num_attention_heads: 4, num_key_value_heads: 4, vocab_size: 1000, max_position_embeddings: 2048 }
      system: { name: H200-SXM-141GBx1, gpus: 1, memory_gb: 141, bandwidth_gbs: 4800, tflops_16bit: 989 }
      build_flags: { max_batch_size: 8, max_num_tokens: 2048, max_input_len: 256, max_seq_len: 512, tokens_per_block: 32 }
  models:
    repository: { engine: "{{ stages.engine.out }}", triton_num_servers: 1, streaming: true, models: [tensorrt_llm] }
"#;

pub const REPOSITORY: &str = "{{ stages.models.out }}/triton_model_repo_0";

/// A `command` server: the simulator, with further words.
pub fn server(words: &str, keys: &str) -> String {
    let program = env!("CARGO_BIN_EXE_regatta");
    format!(
        "  server:\n    serve:\n      command:\n        words: [{program}, sim, serve, --repository, \"{REPOSITORY}\", --grpc-port, \"{{port}}\"{words}]\n        {keys}\n"
    )
}

/// A `command` server that is a script: `$1` is its port, `$2` the repository, `$S` the simulator.
pub fn scripted(script: &str, keys: &str) -> String {
    let script = serde_json::Value::String(script.to_owned());
    format!(
        "  server:\n    serve:\n      command:\n        words: [sh, -c, {script}, server, \"{{port}}\", \"{REPOSITORY}\"]\n        {keys}\n"
    )
}

pub const SERVE: &str = r#""$S" sim serve --repository "$2" --grpc-port "$1""#;

/// A stage that needs the server and is done in no time.
pub const USER: &str = "  user: { shell: 'echo {{ stages.server }} > out' }\n";

/// A stage that needs the server until the gate opens.
pub const LONG_USER: &str = r#"  user: { shell: 'touch "$W/using"; echo "{{ stages.server }}" > address; while [ ! -e "$W/gate" ]; do sleep 0.02; done' }
"#;

pub fn bench(scenario: &str, requests: u32, more: &str) -> String {
    format!(
        "  measure:\n    bench: {{ target: \"{{{{ stages.server }}}}\", scenario: {scenario}, stop: {{ requests: {requests} }}, input_tokens: {{ fixed: 16 }}, output_tokens: {{ fixed: 8 }}, vocab_size: 1000{more} }}\n"
    )
}

/// Half a minute of arrivals: longer than anything here takes.
pub fn long_bench() -> String {
    // What breaks in these tests breaks under the measurement, not before it.
    bench("server", 3000, ", rate: 100, arrivals: constant, preflight: \"off\"")
}

pub fn world(parts: &[&str]) -> World {
    let mut world = World::new();
    let folder = world.path("");
    world.env("W", folder).env("S", env!("CARGO_BIN_EXE_regatta"));
    change(&world, parts);
    world
}

pub fn change(world: &World, parts: &[&str]) {
    world.manifest("m", &format!("{ENGINE}{}", parts.concat()));
}

/// Starts a run whose events go to a file, line by line.
pub fn watched(world: &World, words: &[&str]) -> Child {
    let mut all = vec!["run", "m", "--events", "jsonl"];
    all.extend(words);
    let events = fs::File::create(world.path("events")).unwrap();
    world.command(&all).stdout(events).stderr(Stdio::piped()).spawn().unwrap()
}

pub fn await_event(world: &World, what: &str) {
    until(what, || world.read("events").lines().any(|line| line.contains(what)));
}

/// Runs `m`, whose manifest has `timeout: 1s` for a server that is never ready, until its error has this text. Where a busy machine takes
/// more than that second to bring the server so far, the next run gives it longer.
#[track_caller]
pub fn run_into_ready_timeout(world: &World, text: &str) -> Ended {
    let manifest = world.read("manifests/m.yaml");
    assert!(manifest.contains("timeout: 1s"), "{manifest}");
    let mut runs = ["1s", "6s", "36s"].into_iter().map(|timeout| {
        world.file("manifests/m.yaml", &manifest.replace("timeout: 1s", &format!("timeout: {timeout}")));
        let ended = world.regatta(&["run", "m"]);
        assert_eq!(ended.code, 1, "{ended:?}");
        ended.shows(&format!("was not ready within {timeout}: waited for "));
        ended
    });
    let ended = runs.find(|ended| format!("{}{}", ended.stdout, ended.stderr).contains(text));
    ended.unwrap_or_else(|| panic!("no run showed {text:?}"))
}

/// The journal of the last run.
pub fn journal(world: &World) -> Vec<Event> {
    let home = home(world);
    read_journal(&home.run(&last_run(&home).unwrap().unwrap()).join("journal.jsonl")).unwrap().events
}

/// The run is over, everything it started is gone, and with a good server it goes on from there.
pub fn and_then_it_works(world: &World) {
    no_process_left(world);
    change(world, &[&server("", ""), USER]);
    let again = world.good(&["run", "m"]);
    assert_eq!(again.ran(), ["user"], "the models were done before:\n{}", again.stdout);
    again.shows("▲ server").shows("▼ server");
    assert!(world.read("latest/user/out").starts_with("127.0.0.1:"));
    no_process_left(world);
}

#[test]
fn a_server_that_dies_under_a_benchmark_is_the_failure_and_shows_its_last_lines() {
    let world = world(&[&server(", --fault, die-after-requests=3", ""), &long_bench()]);
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("the server ended with exit code 1 while it was needed");
    ended.shows("died after 3 requests, as configured");
    ended.shows("INVALID(server)").shows("server: the server ended with exit code 1 while it was needed");
    let result = read_result(&world.path(".regatta/failed/measure/result.json")).unwrap();
    assert_eq!(result.verdict(), Verdict::InvalidServer);
    assert_eq!(result.reasons()[0].check, VerdictCheck::Server);
    assert!(result.counts.conserved, "what was measured is kept: {:?}", result.counts);
    and_then_it_works(&world);
}

#[test]
fn a_server_that_hangs_makes_the_measurement_invalid_after_the_stall_timeout() {
    let parts = [server(", --fault, stall-after-tokens=2", ""), bench("offline", 3, ", stall_timeout: 300ms")];
    let world = world(&[&parts[0], &parts[1]]);
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 5, "{ended:?}");
    ended.shows("INVALID(server)").shows("stall");
    assert!(!world.path("latest/measure").exists(), "no result that nobody may believe");
    assert!(world.path(".regatta/failed/measure/result.json").exists(), "but it is there to be looked at");
    and_then_it_works(&world);
}

#[test]
fn a_server_whose_backend_fails_one_request_makes_the_measurement_invalid() {
    let world = world(&[&server(", --fault, error-on-request=2", ""), &bench("offline", 4, "")]);
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 5, "{ended:?}");
    ended.shows("INVALID(server)");
    and_then_it_works(&world);
}

#[test]
fn a_server_that_never_becomes_ready_is_given_up_and_what_was_waited_for_is_said() {
    let world = world(&[&server(", --fault, never-ready", "ready: { timeout: 1s }"), USER]);
    let ended = run_into_ready_timeout(&world, "waited for ServerReady at 127.0.0.1:");
    ended.shows("user  not started").shows("it needs server");
    and_then_it_works(&world);
}

#[test]
fn a_server_that_ends_at_once_fails_with_its_last_lines() {
    let broken = server("", "").replace("triton_model_repo_0", "no_such_folder");
    let world = world(&[&broken, USER]);
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("the server ended with exit code 1 before it was ready").shows("no_such_folder");
    and_then_it_works(&world);
}

#[test]
fn a_server_that_goes_into_the_background_has_ended_and_its_child_is_ended_too() {
    let world = world(&[&scripted(&format!("setsid {SERVE} & sleep 0; exit 0"), ""), USER]);
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("the server ended with exit code 0");
    and_then_it_works(&world);
}

#[test]
fn a_port_that_is_taken_is_named_with_who_has_it() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let world = world(&[&server("", &format!("port: {port}")), USER]);
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows(&format!("port {port} cannot be used"));
    ended.shows(&format!("process {} listens there", std::process::id()));
    and_then_it_works(&world);
}

#[test]
fn a_port_of_another_project_is_named_with_its_run() {
    let port = crate::ports::free_port();
    let parts = [&server("", &format!("port: {port}")), LONG_USER];
    let (measuring, other) = (world(&parts), world(&parts));
    let run = measuring.start(&["run", "m"]);
    measuring.await_file("using");
    let ended = other.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows(&format!("port {port} cannot be used")).shows("it belongs to run ");
    let project = fs::canonicalize(measuring.path("")).unwrap();
    ended.shows(&project.display().to_string());
    assert!(!format!("{}{}", ended.stdout, ended.stderr).contains("kill"), "{ended:?}");
    measuring.file("gate", "");
    assert_eq!(Ended::of(run).code, 0);
}

#[test]
fn a_server_whose_users_are_all_done_is_not_started() {
    let world = world(&[&server("", ""), USER, "  other: { shell: echo 1 > out }\n"]);
    world.good(&["run", "m"]);
    change(&world, &[&server("", ""), USER, "  other: { shell: echo 2 > out }\n"]);
    assert_eq!(world.good(&["run", "m"]).ran(), ["other"]);
    let started = |event: &Event| matches!(event, Event::TaskStarted { service: true, .. });
    assert!(!journal(&world).iter().any(started), "nobody needed it");
}

#[test]
fn two_servers_that_need_the_one_gpu_come_up_one_after_the_other() {
    let each = |text: String| text.replace("    serve:", "    foreach: { n: [1, 2] }\n    gpus: 1\n    serve:");
    let users = "  user:\n    foreach: { n: [1, 2] }\n    shell: 'echo {{ stages.server }} > out'\n";
    let world = world(&[&each(server("", "")), users]);
    world.good(&["run", "m", "--gpus", "3,", "-j", "4"]);
    let mut up = 0;
    let mut ups = 0;
    for event in journal(&world) {
        match event {
            Event::TaskStarted { service: true, .. } => {
                assert_eq!(up, 0, "the other one is still there");
                up += 1;
                ups += 1;
            }
            Event::ServiceStopped { .. } => up -= 1,
            _ => {}
        }
    }
    assert_eq!((up, ups), (0, 2));
    no_process_left(&world);
}

#[test]
fn a_dead_server_takes_only_its_own_users_down_with_keep_going() {
    let bad = server(", --fault, never-ready", "ready: { timeout: 1s }");
    let good = server("", "").replace("  server:", "  good:");
    let other = USER.replace("user", "other").replace("stages.server", "stages.good");
    let world = world(&[&bad, USER, &good, &other]);
    let ended = world.regatta(&["run", "m", "--keep-going"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert_eq!(ended.ran(), ["engine", "models", "other"]);
    assert!(!world.path("latest/user").exists());
    no_process_left(&world);
}

#[test]
fn ctrl_c_while_a_server_loads() {
    let world = world(&[&server(", --fault, never-ready", ""), USER]);
    let run = watched(&world, &[]);
    await_event(&world, r#""event":"process_started","task":"server""#);
    signal(&run, "INT");
    let ended = Ended::of(run);
    assert_eq!(ended.code, 130, "{ended:?}");
    and_then_it_works(&world);
}

#[test]
fn ctrl_c_while_a_benchmark_runs() {
    let world = world(&[&server("", ""), &long_bench()]);
    let run = watched(&world, &[]);
    await_event(&world, r#""event":"progress","task":"measure""#);
    signal(&run, "INT");
    let ended = Ended::of(run);
    assert_eq!(ended.code, 130, "{ended:?}");
    let stopped = |event: &Event| matches!(event, Event::ServiceStopped { .. });
    assert!(journal(&world).iter().any(stopped), "the server was stopped in order");
    assert!(!world.path("latest/measure").exists());
    and_then_it_works(&world);
}

#[test]
fn ctrl_c_twice_while_a_server_will_not_stop_kills_it_and_nothing_that_is_done_is_lost() {
    let deaf = format!("trap 'touch \"$W/asked\"' TERM; {SERVE} & while :; do sleep 0.02; done");
    let world = world(&[&scripted(&deaf, ""), USER]);
    let run = watched(&world, &[]);
    world.await_file("asked");
    signal(&run, "INT");
    await_event(&world, r#""event":"stopping""#);
    signal(&run, "INT");
    let ended = Ended::of(run);
    assert_eq!(ended.code, 130, "{ended:?}");
    no_process_left(&world);
    assert!(world.good(&["run", "m"]).ran().is_empty(), "the user was done before");
}

#[test]
fn kill9_while_a_server_is_up_leaves_no_server() {
    let world = world(&[&server("", ""), LONG_USER]);
    let mut run = world.start(&["run", "m"]);
    world.await_file("using");
    run.kill().unwrap();
    run.wait().unwrap();
    and_then_it_works(&world);
}

#[test]
fn a_server_that_dies_between_two_users_is_a_failure_for_the_second() {
    // Dies when the first user asks it to; the second would wait for ever.
    let mortal =
        format!("{SERVE} & while [ ! -e \"$W/die\" ]; do sleep 0.02; done; echo had enough >&2; kill $!; exit 9");
    let users = "  one: { shell: 'echo {{ stages.server }} > out; touch \"$W/die\"; while :; do sleep 0.02; done' }\n  two: { needs: [one], shell: 'echo {{ stages.server }} > out' }\n";
    let world = world(&[&scripted(&mortal, ""), users]);
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("the server ended with exit code 9 while it was needed").shows("had enough");
    ended.shows("two  not started");
    and_then_it_works(&world);
}
