//! A server that dies, hangs or lies under a measurement: what the user is told, and that nothing is left behind.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use regatta::event::Verdict;
use regatta::harness::{RunResult, VerdictCheck, read_result};

use crate::campaign::no_process_left;
use crate::ports::free_port;
use crate::services::{
    ENGINE, SERVE, USER, and_then_it_works, await_event, long_bench, run_into_ready_timeout, scripted, server, watched,
    world,
};
use crate::tritonserver;
use crate::world::{Ended, World, alive_with, signal, until};

/// Processes of a world's runs whose command holds a text.
pub fn processes(world: &World, command: &str) -> Vec<i32> {
    let mark = format!("REGATTA_HOME={}", world.path(".regatta").display());
    alive_with(&mark).into_iter().filter(|(_, line)| line.contains(command)).map(|(pid, _)| pid).collect()
}

#[track_caller]
pub fn the_one(world: &World, command: &str) -> i32 {
    let found = processes(world, command);
    assert_eq!(found.len(), 1, "{command}: {found:?}");
    found[0]
}

pub fn send(pid: i32, name: &str) {
    let done = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().expect("kill");
    assert!(done.success(), "process {pid} is not there");
}

/// A run that measures: `--events jsonl` into a file, and its first progress has come.
pub fn measuring(world: &World) -> Child {
    let run = watched(world, &[]);
    await_event(world, r#""event":"progress","task":"measure""#);
    run
}

/// The end of a run and its events.
pub struct EndedRun {
    code: i32,
    events: String,
}

/// Waits for the end of a run under which something was broken just now.
pub fn await_end(world: &World, run: Child) -> EndedRun {
    let code = Ended::of(run).code;
    let events = world.read("events");
    EndedRun { code, events }
}

impl EndedRun {
    #[track_caller]
    pub fn shows(&self, text: &str) -> &Self {
        assert!(self.events.contains(text), "expected {text:?} in:\n{}", self.events);
        self
    }

    #[track_caller]
    pub fn code(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "{}", self.events);
        self
    }
}

/// The measurement that was under way is kept, and its verdict names the server.
#[track_caller]
pub fn kept_as_invalid(world: &World, reason: &str) -> RunResult {
    let result = read_result(&world.path(".regatta/failed/measure/result.json")).expect("a result that is kept");
    assert_eq!(result.verdict(), Verdict::InvalidServer);
    let first = &result.reasons()[0];
    assert_eq!(first.check, VerdictCheck::Server, "{:#?}", result.reasons());
    assert!(first.text.contains(reason), "expected {reason:?} in {:?}", first.text);
    assert!(result.counts.conserved, "{:?}", result.counts);
    assert!(!world.path("latest/measure").exists(), "no result that nobody may believe");
    result
}

/// Regions in shared memory that belong to a run of this world.
pub fn regions(world: &World) -> Vec<String> {
    let runs: Vec<String> = fs::read_dir(world.path(".regatta/runs"))
        .expect("runs")
        .map(|run| run.expect("a run").file_name().to_string_lossy().into_owned())
        .collect();
    let names =
        fs::read_dir("/dev/shm").expect("/dev/shm").flatten().map(|r| r.file_name().to_string_lossy().into_owned());
    names.filter(|name| runs.iter().any(|run| name.contains(run.as_str()))).collect()
}

#[test]
fn a_server_that_is_killed_mid_run_makes_the_measurement_invalid_and_what_was_measured_is_kept() {
    let world = world(&[&server("", ""), &long_bench()]);
    let run = measuring(&world);
    send(the_one(&world, "sim serve"), "KILL");
    let ended = await_end(&world, run);
    ended.code(1).shows("the server ended by SIGKILL (9) while it was needed").shows("INVALID(server)");
    kept_as_invalid(&world, "server: the server ended by SIGKILL (9) while it was needed");
    and_then_it_works(&world);
}

#[test]
fn a_server_that_stands_still_is_found_silent_and_killed() {
    let world = world(&[&server("", ""), &long_bench()]);
    let run = measuring(&world);
    send(the_one(&world, "sim serve"), "STOP");
    let ended = await_end(&world, run);
    ended.code(1).shows("the server was no longer usable while it was needed").shows("has not answered for");
    kept_as_invalid(&world, "has not answered for");
    and_then_it_works(&world);
}

#[test]
fn a_server_that_this_run_did_not_start_and_that_stops_answering_ends_the_measurement_too() {
    let models = models();
    let simulator = Command::new(env!("CARGO_BIN_EXE_regatta"))
        .args(["sim", "serve", "--grpc-port", "0", "--repository"])
        .arg(models.path("latest/models/triton_model_repo_0"))
        .stdout(Stdio::piped())
        .spawn();
    let mut simulator = Mine(simulator.expect("regatta"));
    let mut ready = String::new();
    BufReader::new(simulator.0.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let target = format!("127.0.0.1:{}", ready.trim().strip_prefix("ready grpc=").unwrap());
    let attached = world(&[&long_bench().replace("{{ stages.server }}", &target)]);
    let run = measuring(&attached);
    signal(&simulator.0, "STOP");
    let ended = await_end(&attached, run);
    ended.code(5).shows("INVALID(server)");
    kept_as_invalid(&attached, &format!("{target} has not answered for"));
    no_process_left(&attached);
}

/// A world whose models are made.
fn models() -> World {
    let models = world(&[USER.replace("{{ stages.server }}", "{{ stages.models.out }}").as_str()]);
    models.good(&["run", "m"]);
    models
}

/// A server that a test started itself.
struct Mine(Child);

impl Drop for Mine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn until_some<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    until("it to be there", || {
        found = look();
        found.is_some()
    });
    found.expect("it is there")
}

/// A script in a server's place, which says what a server says while it loads.
fn loads(script: &str, timeout: &str) -> World {
    world(&[&scripted(script, &format!("ready: {{ timeout: {timeout} }}")), USER])
}

#[test]
fn a_hang_while_loading_names_the_step_and_the_model() {
    let script = r#"
        echo 'I1121 09:11:05.745822 51 model_lifecycle.cc:472] "loading: postprocessing:1"'
        echo 'I1121 09:11:05.745953 51 model_lifecycle.cc:472] "loading: tensorrt_llm:1"'
        echo "I1121 09:11:07.188928 51 model_lifecycle.cc:839] \"successfully loaded 'postprocessing'\""
        exec sleep 1000"#;
    let world = loads(script, "1s");
    let ended = run_into_ready_timeout(
        &world,
        "according to its log it hung while loading tensorrt_llm (1 of 2 models loaded)",
    );
    ended.shows("waited for 127.0.0.1:");
    and_then_it_works(&world);
}

#[test]
fn how_far_the_loading_is_can_be_followed() {
    let script = r#"
        echo 'I1121 09:11:05.745953 51 model_lifecycle.cc:472] "loading: tensorrt_llm:1"'
        echo '[TensorRT-LLM][INFO] Loaded engine size: 6738 MiB'
        while [ ! -e "$W/seen" ]; do sleep 0.02; done
        "#;
    let world = loads(&format!("{script}\n exec {SERVE}"), "1m");
    let run = watched(&world, &[]);
    await_event(&world, "the server: loading tensorrt_llm (0 of 1 models loaded), 0 s: Loaded engine size: 6738 MiB");
    world.file("seen", "");
    assert_eq!(Ended::of(run).code, 0);
    no_process_left(&world);
}

#[test]
fn a_python_model_without_its_library_is_not_waited_for() {
    let script = "echo 'stub: error while loading shared libraries: libpython3.11.so.1.0: cannot open shared object file: No such file or directory'; exec sleep 1000";
    let world = loads(script, "30m");
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("the server will wait for its Python model forever").shows("apt-get install libpython3.11");
    and_then_it_works(&world);
}

#[test]
fn a_server_that_asks_for_longer_to_drain_gets_it() {
    // Ends when the test says so, some time after it was asked to.
    let slow = format!(
        "trap 'touch \"$W/asked\"' TERM; {SERVE} & while [ ! -e \"$W/drained\" ]; do sleep 0.02; done; kill -9 $!; exit 0"
    );
    let world = world(&[&scripted(&slow, ""), USER]);
    let run = watched(&world, &[]);
    world.await_file("asked");
    world.file("drained", "");
    assert_eq!(Ended::of(run).code, 0);
    assert!(!world.read("events").contains("was killed"), "{}", world.read("events"));
    no_process_left(&world);
}

/// The real server with its Python models, and a measurement that is longer than anything here.
fn real(words: &str) -> World {
    let world = World::new();
    world.copy("manifests/triton-cpu");
    let program = tritonserver::program().display();
    let bench = long_bench().replace("rate: 100", "rate: 20");
    let engine = ENGINE.replace("models: [tensorrt_llm] }", "parameters: { triton_backend: python } }");
    world.manifest(
        "m",
        &format!(
            r#"{engine}  filled:
    inputs: {{ files: manifests/triton-cpu/models }}
    shell: |
      set -e
      cp -r "{{{{ stages.models.out }}}}/." .
      cp -r "{{{{ inputs.files }}}}/." triton_model_repo_0/
  server:
    env: {{ TRITON_CPU_STEP_MS: "20" }}
    serve:
      triton: {{ repository: "{{{{ stages.filled.out }}}}", program: "{program}", args: [{words}], ready: {{ timeout: 1m }} }}
{bench}"#
        ),
    );
    world
}

const STUB: &str = "python_backend_stub";

#[test]
#[ignore = "needs a real tritonserver"]
fn the_real_server_killed_mid_run_leaves_no_stub_and_no_shared_memory() {
    let world = real("");
    let run = measuring(&world);
    assert!(!regions(&world).is_empty(), "its Python models have regions that carry the run's name");
    send(the_one(&world, "bin/tritonserver --backend"), "KILL");
    let ended = await_end(&world, run);
    ended.code(1).shows("server 0 ended by SIGKILL (9) while it was needed");
    kept_as_invalid(&world, "server 0 ended by SIGKILL (9)");
    no_process_left(&world);
    assert_eq!(regions(&world), [""; 0]);
}

#[test]
#[ignore = "needs a real tritonserver"]
fn the_real_servers_stub_killed_mid_run_is_noticed_although_the_server_says_ready() {
    let world = real("");
    let run = measuring(&world);
    let stub = until_some(|| processes(&world, "tensorrt_llm/1/model.py").first().copied());
    send(stub, "KILL");
    let ended = await_end(&world, run);
    ended
        .code(1)
        .shows(&format!("its Python model tensorrt_llm ({stub}) has exited, but the server still reports ready"));
    kept_as_invalid(&world, "its Python model tensorrt_llm");
    no_process_left(&world);
    assert_eq!(regions(&world), [""; 0]);
}

#[test]
#[ignore = "needs a real tritonserver"]
fn kill9_of_the_run_leaves_no_real_server_no_stub_and_no_shared_memory() {
    let world = real("");
    let mut run = measuring(&world);
    assert!(!processes(&world, STUB).is_empty());
    run.kill().unwrap();
    run.wait().unwrap();
    no_process_left(&world);
    until("the watchdog to have removed the regions", || regions(&world).is_empty());
}

#[test]
#[ignore = "needs a real tritonserver"]
fn a_real_server_that_is_ready_without_its_model_is_an_error_with_the_models_own_words() {
    let world = real("--exit-on-error=false");
    world.file("manifests/triton-cpu/models/tensorrt_llm/1/model.py", "raise ValueError('no weights here')\n");
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("server 0 ").shows(" without tensorrt_llm").shows("no weights here");
    no_process_left(&world);
    assert_eq!(regions(&world), [""; 0]);
}

#[test]
#[ignore = "needs a real tritonserver"]
fn a_real_server_stopped_in_order_leaves_nothing() {
    let world = real("");
    let run = measuring(&world);
    signal(&run, "INT");
    assert_eq!(Ended::of(run).code, 130);
    let events = world.read("events");
    assert!(!events.contains("was killed"), "it drains and leaves by itself:\n{events}");
    no_process_left(&world);
    assert_eq!(regions(&world), [""; 0]);
}

/// A host of its own: a network namespace, joined to ours by a cable that can be cut.
struct Host {
    name: String,
    address: String,
}

impl Host {
    fn new() -> Self {
        // A network of its own for each test process; 198.18.0.0/15 is for such things.
        let number = std::process::id() % 16_000;
        let net = format!("198.18.{}.{}", number / 64, number % 64 * 4);
        let (base, last) = net.rsplit_once('.').map(|(base, last)| (base, last.parse::<u32>().unwrap())).unwrap();
        let host = Self { name: format!("rgt{}", std::process::id()), address: format!("{base}.{}", last + 2) };
        let name = &host.name;
        Self::ip(&format!("netns add {name}"));
        Self::ip(&format!("link add {name} type veth peer name eth0 netns {name}"));
        Self::ip(&format!("addr add {base}.{}/30 dev {name}", last + 1));
        Self::ip(&format!("link set {name} up"));
        Self::ip(&format!("-n {name} addr add {}/30 dev eth0", host.address));
        Self::ip(&format!("-n {name} link set eth0 up"));
        host
    }

    #[track_caller]
    fn ip(words: &str) {
        let done = Command::new("ip").args(words.split(' ')).status();
        let done = done.expect("`ip`: apt-get install iproute2").success();
        assert!(done, "`ip {words}` needs the rights of root and network namespaces");
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["link", "del", &self.name]).status();
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

#[test]
#[ignore = "needs root, for network namespaces"]
fn an_attached_host_whose_network_is_cut_is_noticed() {
    let host = Host::new();
    let models = models();
    let repository = fs::canonicalize(models.path("latest/models/triton_model_repo_0")).unwrap();
    let simulator = Command::new("ip")
        .args(["netns", "exec", &host.name, env!("CARGO_BIN_EXE_regatta"), "sim", "serve", "--repository"])
        .arg(&repository)
        .args(["--grpc-address", "0.0.0.0", "--grpc-port", "8001"])
        .spawn();
    let _simulator = Mine(simulator.expect("ip netns exec"));
    let target = format!("{}:8001", host.address);
    until("the simulator to listen", || std::net::TcpStream::connect(&target).is_ok());
    let attached = world(&[&long_bench().replace("{{ stages.server }}", &target)]);
    let run = measuring(&attached);
    // At the far end: then packets are lost and nobody says so, as with a cut cable further away.
    Host::ip(&format!("-n {} link set eth0 down", host.name));
    let ended = await_end(&attached, run);
    ended.code(5).shows("INVALID(server)");
    kept_as_invalid(&attached, &format!("{target} has not answered for"));
    no_process_left(&attached);
}

#[test]
fn a_port_is_free_again_when_a_run_is_over() {
    let port = free_port();
    let world = world(&[&server("", &format!("port: {port}")), USER]);
    world.good(&["run", "m"]);
    TcpListener::bind(("127.0.0.1", port)).unwrap();
    no_process_left(&world);
}
