//! Servers on several hosts over a real ssh: what is measured, what a person sees when a host goes, and what is left running.
//! `tests/parts/hosts.sh` brings the hosts up, and installs sshd where it is missing.

mod lab;
mod nodes;

use std::process::Child;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use regatta::harness::read_result;

use crate::campaign::no_process_left;
use crate::services::{ENGINE, LONG_USER, long_bench};
use crate::supervision::{EndedRun, await_end, kept_as_invalid, measuring, send};
use crate::world::{Ended, World, signal};
use lab::Lab;

/// A simulated server on each of two hosts.
const SERVER: &str = r#"  server:
    host: { ssh: ["{h1}", { name: "{h2}", ssh: "root@{h2}" }] }
    serve: { simulator: { repository: "{{ stages.models.out }}" } }
"#;

fn measure(requests: u32) -> String {
    format!(
        "  measure:\n    bench: {{ target: \"{{{{ stages.server }}}}\", scenario: offline, stop: {{ requests: \
                                                                      {requests} }}, input_tokens: {{ fixed: 16 }}, \
                                                                      output_tokens: {{ fixed: 8 }}, vocab_size: \
                                                                      1000 }}\n"
    )
}

/// Waits for what another machine does in its own time.
#[track_caller]
fn patiently(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(3);
    while !is() {
        assert!(Instant::now() < deadline, "waited three minutes for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Two hosts, a benchmark of half a minute under way on both.
fn under_way() -> (Lab, World, Child) {
    let lab = Lab::up(2);
    let world = lab.world(&format!("{ENGINE}{SERVER}{}", long_bench()));
    let run = measuring(&world);
    (lab, world, run)
}

/// The end of a run under which something was broken just now, and the seconds until then, for who reads the output.
fn ended(world: &World, run: Child, what: &str) -> EndedRun {
    let since = Instant::now();
    let ended = await_end(world, run);
    print_line(&format!("{what}: the run had ended after {:.1} s", since.elapsed().as_secs_f64()));
    ended
}

#[expect(clippy::print_stdout, reason = "seconds, for who reads what a test says; nothing is held against them")]
fn print_line(text: &str) {
    println!("{text}");
}

fn no_process_on(lab: &Lab, hosts: &[u32]) {
    let since = Instant::now();
    for host in hosts {
        patiently("the servers to end", || lab.running(*host).is_empty());
    }
    print_line(&format!("nothing was left on host {hosts:?} after {:.1} s more", since.elapsed().as_secs_f64()));
}

#[test]
#[ignore = "needs root, for network namespaces"]
fn requests_are_spread_over_two_hosts_and_nothing_is_left_there() {
    let lab = Lab::up(2);
    let world = lab.world(&format!("{ENGINE}{SERVER}{}", measure(200)));
    let ended = world.good(&["run", "m"]);
    let result = read_result(&world.path("latest/measure/result.json")).unwrap();
    assert_eq!(result.counts.ok, 200);
    assert_eq!(result.hosts.len(), 2);
    for (number, share) in [1, 2].into_iter().zip(&result.hosts) {
        assert_eq!(share.host, lab.host(number));
        assert!(share.servers.iter().all(|one| one.starts_with(&format!("{}:", lab.address(number)))), "{share:?}");
        assert_eq!((share.issued, share.failed), (share.ok, 0));
        // An answer that came in one read has no time per token.
        assert!(share.ttft.n == share.ok && (1..=share.ok).contains(&share.tpot.n), "{share:?}");
        let metrics = share.server_metrics.as_ref().expect("its own metrics");
        let answered: f64 = metrics
            .metrics
            .iter()
            .filter(|one| one.name == "nv_inference_request_success")
            .filter_map(|one| one.increase)
            .sum();
        assert_eq!(answered.round() as u64, share.ok, "what its own server counts");
        let line = format!("{} ok  ", share.ok);
        assert!(ended.stdout.lines().any(|one| one.contains(&lab.host(number)) && one.contains(&line)), "{ended:?}");
    }
    let of = |each: fn(&regatta::harness::HostShare) -> u64| result.hosts.iter().map(each).sum::<u64>();
    assert_eq!((of(|one| one.ok), of(|one| one.output_tokens)), (200, result.tokens.output));
    assert!(result.hosts.iter().all(|one| one.ok > 50), "both did their part");
    no_process_left(&world);
    for host in [1, 2] {
        assert_eq!(lab.running(host), [""; 0], "they are gone when the run is over");
    }
    let page = std::fs::read_to_string(world.path("latest/report.html")).unwrap();
    assert!(page.contains("Hosts") && page.contains(&lab.host(2)), "the page has them, too");
}

#[test]
#[ignore = "needs root, for network namespaces"]
fn over_a_slow_link_the_same_is_measured() {
    let lab = Lab::up(2);
    let world = lab.world(&format!("{ENGINE}{SERVER}{}", measure(60)));
    world.good(&["run", "m", "--until", "models"]);
    lab.slow(1);
    lab.slow(2);
    let ended = world.good_when_undisturbed(&["run", "m"]);
    let result = read_result(&world.path("latest/measure/result.json")).unwrap();
    assert_eq!((result.counts.ok, result.counts.failed), (60, 0), "{ended:?}");
    assert_eq!(
        result.hosts.iter().map(|one| (one.host.clone(), one.failed)).collect::<Vec<_>>(),
        [(lab.host(1), 0), (lab.host(2), 0)]
    );
    no_process_left(&world);
    no_process_on(&lab, &[1, 2]);
}

/// NVIDIA's flow, on a system whose GPUs are in two machines.
const TWO: &str = "regatta: 1
include: [sim-gb200-x4.yaml]
vars:
  nodes: 2
  tuning: { offline: { triton_num_servers: 4 } }
";

#[test]
#[ignore = "needs root, for network namespaces"]
fn a_system_of_two_machines_is_served_by_both() {
    let lab = Lab::up(2);
    let world = lab.world("stages: {}\n");
    world.file("manifests/llama3.1-8b/sim-two.yaml", TWO);
    let line = ["llama3.1-8b", "system=sim-two", "scenarios=offline"];
    let hosts = format!("hosts={},{}", lab.host(1), lab.host(2));
    world.good(&[&["run"][..], &line, &[&hosts]].concat());
    let result = read_result(&world.path("latest/run_harness/offline/result.json")).unwrap();
    let shares: Vec<(String, usize)> = result.hosts.iter().map(|one| (one.host.clone(), one.servers.len())).collect();
    assert_eq!(shares, [(lab.host(1), 2), (lab.host(2), 2)], "of four servers two on each");
    assert_eq!(result.hosts.iter().map(|one| one.ok).sum::<u64>(), result.counts.ok);

    let few = format!("hosts={}", lab.host(1));
    let ended = world.regatta(&[&["run"][..], &line, &[&few]].concat());
    assert_eq!(ended.code, 2);
    ended.shows("nodes of the system: 2, and `hosts` names 1");
    no_process_left(&world);
}

#[test]
#[ignore = "needs root, for network namespaces"]
fn a_link_is_cut_under_a_measurement_and_the_host_is_named() {
    let (lab, world, run) = under_way();
    lab.does("cut", 2);
    let ended = ended(&world, run, "a link was cut");
    let lost = format!("host {} was lost while it was needed: last message at ", lab.host(2));
    ended.code(1).shows(&lost).shows("INVALID(server)");
    ended.shows(&format!("{}: unreachable, so the state of its servers is unknown", lab.host(2)));
    kept_as_invalid(&world, &lab.host(2));
    assert_eq!(lab.running(1), [""; 0], "who can be reached is clean when the run has ended");
    // Nobody tells it: the link is still cut.
    no_process_on(&lab, &[2]);
    lab.does("heal", 2);
    no_process_left(&world);
    assert!(world.good(&["run", "m", "--only", "models"]).ran().is_empty());
}

#[test]
#[ignore = "needs root, for network namespaces"]
fn a_host_loses_its_power_and_is_named() {
    let (lab, world, run) = under_way();
    lab.does("crash", 1);
    let ended = ended(&world, run, "a host lost its power");
    let lost = format!("host {} was lost while it was needed: last message at ", lab.host(1));
    ended.code(1).shows(&lost).shows("INVALID(server)").shows("unreachable");
    kept_as_invalid(&world, &lab.host(1));
    assert_eq!(lab.running(2), [""; 0]);
    lab.does("boot", 1);
    assert_eq!(lab.running(1), [""; 0]);
    world.manifest("m", &lab.named(&format!("{ENGINE}{SERVER}{}", measure(20))));
    world.good(&["run", "m"]);
    no_process_left(&world);
}

#[test]
#[ignore = "needs root, for network namespaces"]
fn a_server_that_is_killed_on_its_host_is_reported_as_that_host_reports_it() {
    let (lab, world, run) = under_way();
    send(lab.the_one(2, "sim serve"), "KILL");
    let ended = ended(&world, run, "a server was killed");
    let died = format!("host {}: server 0 ended by SIGKILL (9) while it was needed", lab.host(2));
    ended.code(1).shows(&died).shows("INVALID(server)");
    kept_as_invalid(&world, &died);
    no_process_on(&lab, &[1, 2]);
    no_process_left(&world);
}

#[test]
#[ignore = "needs root, for network namespaces"]
fn a_guard_that_is_killed_has_a_watchdog() {
    let (lab, world, run) = under_way();
    send(lab.the_one(2, "__host"), "KILL");
    let ended = ended(&world, run, "a guard was killed");
    ended.code(1).shows(&format!("host {} was lost while it was needed", lab.host(2)));
    ended.shows(&format!("{}: reached once more; nothing of this stage is left running there", lab.host(2)));
    no_process_on(&lab, &[1, 2]);
    no_process_left(&world);
}

#[test]
#[ignore = "needs root, for network namespaces"]
fn a_run_that_is_killed_leaves_nothing_on_any_host() {
    let (lab, world, run) = under_way();
    send(i32::try_from(run.id()).unwrap(), "KILL");
    ended(&world, run, "the run was killed").code(137);
    no_process_on(&lab, &[1, 2]);
    patiently("this machine to be clean", || crate::world::alive_with(world.path("")).is_empty());
}

#[test]
#[ignore = "needs root, for network namespaces"]
fn ctrl_c_stops_every_host() {
    let lab = Lab::up(2);
    let world = lab.world(&format!("{ENGINE}{SERVER}{LONG_USER}"));
    let run = world.start(&["run", "m"]);
    world.await_file("using");
    signal(&run, "INT");
    let ended = Ended::of(run);
    assert_eq!(ended.code, 130, "{ended:?}");
    for host in [1, 2] {
        assert_eq!(lab.running(host), [""; 0], "they are gone when the run is over");
    }
    no_process_left(&world);
}

#[test]
#[ignore = "needs root, for network namespaces"]
fn everything_that_is_wrong_with_any_host_is_said_at_once() {
    let lab = Lab::up(4);
    let hosts = r#"
        - "{h1}"
        - { name: refusing, ssh: "{h1}", port: 9 }
        - { name: strange, ssh: "{h2}", args: [-o, UserKnownHostsFile=/dev/null] }
        - { name: closed, ssh: "{h2}", args: [-o, PubkeyAuthentication=no] }
        - { name: unknown, ssh: no-such-host.invalid }
        - { name: bare, ssh: "{h3}", program: nowhere/regatta }
        - "{h4}"
"#;
    let server = format!(
        "  server:\n    host:\n      ssh:{hosts}    serve: {{ command: {{ words: [no-such-server, '{{port}}'] }} }}\n"
    );
    let world = lab.world(&format!("stages:\n{server}  user: {{ shell: 'echo {{{{ stages.server }}}} > out' }}\n"));
    lab.hide(4, world.path("").parent().expect("the folder of all projects"));
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("7 of 7 hosts cannot be used");
    ended.shows(&format!("{}: there is no `no-such-server` in its PATH", lab.host(1)));
    ended.shows("refusing: nothing listens on its ssh port");
    ended.shows("strange: its host key is unknown").shows("once by hand shows the key");
    ended.shows("closed: ssh is not let in").shows("must do without a question");
    ended.shows("unknown: the host name is unknown");
    ended.shows("bare: there is no program ").shows("nowhere/regatta");
    ended.shows(&format!(
        "{}: there is no folder {}",
        lab.host(4),
        world.path("").display().to_string().trim_end_matches('/')
    ));
    for host in 1..=4 {
        assert_eq!(lab.running(host), [""; 0]);
    }
    let looked = world.regatta(&["doctor", "m"]);
    looked.shows(&format!("reachable: regatta {}, project folder found", env!("CARGO_PKG_VERSION")));
    looked.shows("host refusing").shows("nothing listens on its ssh port").shows("ssh is not let in");
    assert!(!looked.stdout.contains("no-such-server"), "what a host needs is not looked for here: {looked:?}");
}

#[test]
#[ignore = "needs root, for network namespaces"]
fn a_folder_that_is_not_the_same_there_is_found_before_anything_starts() {
    let lab = Lab::up(2);
    let world = lab.world(&format!("{ENGINE}{SERVER}  user: {{ shell: 'echo {{{{ stages.server }}}} > out' }}\n"));
    lab.hide(2, &world.path(""));
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("1 of 2 hosts cannot be used").shows(&format!("{}: ", lab.host(2)));
    ended.shows("is not the project folder of this run").shows("on a filesystem that all hosts share");
    assert_eq!(lab.running(1), [""; 0]);
}

#[test]
#[ignore = "needs root, for network namespaces"]
fn ssh_is_called_with_these_words_and_a_secret_is_none_of_them() {
    let lab = Lab::up(1);
    let program = env!("CARGO_BIN_EXE_regatta");
    let script = "echo $TOKEN > $W/heard; exec $S sim serve --repository $1 --grpc-address 0.0.0.0 --grpc-port $0";
    let server = format!(
        r#"  server:
    host: {{ ssh: [{{ name: only, ssh: "{{h1}}", port: 22, args: [-o, Compression=yes] }}] }}
    env: {{ S: {program}, W: WORLD }}
    secrets: [TOKEN]
    serve: {{ command: {{ words: [sh, -c, '{script}', "{{port}}", "{{{{ stages.models.out }}}}/triton_model_repo_0"] }} }}
  user: {{ shell: 'echo {{{{ stages.server }}}} > out' }}
"#
    );
    let mut world = lab.world(&format!("{ENGINE}{server}"));
    let text = world.read("manifests/m.yaml").replace("WORLD", &world.path("").display().to_string());
    world.file("manifests/m.yaml", &text);
    world.env("TOKEN", "s3cret-of-the-stage");
    let ended = world.good(&["run", "m"]);
    assert_eq!(world.read("heard"), "s3cret-of-the-stage\n", "it has reached the server");
    let calls = lab.calls();
    let [guard, config] = calls.as_slice() else { panic!("{calls:?}") };
    let folder = world.path("").display().to_string();
    let plain = |text: &str| {
        let text = text.replace(folder.trim_end_matches('/'), "PROJECT").replace(program, "PROGRAM");
        text.replace(&lab.host(1), "HOST")
    };
    insta::assert_snapshot!(plain(guard), @r#"-o Compression=yes -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=2 -o ServerAliveCountMax=3 -o ControlMaster=no -o ControlPath=none -o ClearAllForwardings=yes -o ForwardAgent=no -o LogLevel=INFO -p 22 -- HOST exec /bin/sh -c 'd=PROJECT p=PROGRAM; [ -d "$d" ] || { echo "there is no folder $d" >&2; exit 125; }; [ -x "$p" ] || { echo "there is no program $p" >&2; exit 127; }; exec "$p" __host'"#);
    insta::assert_snapshot!(plain(config), @"-G -o Compression=yes -p 22 -- HOST");
    assert!(!format!("{ended:?}").contains("s3cret"));
    no_process_left(&world);
    assert_eq!(lab.running(1), [""; 0]);
}

#[test]
fn a_plan_shows_how_each_host_is_reached() {
    let world = World::with(&format!("{ENGINE}{}", SERVER.replace("{h1}", "node-a").replace("{h2}", "node-b")));
    let ended = world.good(&["plan", "m", "--launch"]);
    ended.shows("each of 2 hosts starts this, with free ports of its own");
    ended.shows("node-b: ssh -T -o BatchMode=yes").shows("-- root@node-b");
}

#[test]
fn what_cannot_be_on_several_hosts_is_reported_with_its_place() {
    let world = World::with(
        r"
stages:
  work: { host: { ssh: [a] }, shell: 'echo x > out' }
  twice: { host: { ssh: [a, { name: a, ssh: other }, { name: 'b c' }] }, serve: { command: { words: [x, '{port}'] } } }
  none: { host: { ssh: [] }, serve: { command: { words: [x, '{port}'] } } }
",
    );
    let ended = world.regatta(&["check", "m"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    ended.shows("`stages.work.host.ssh` is for `serve`");
    ended.shows("another host is also called `a`").shows("is not a name of a host");
    ended.shows("`stages.none.host.ssh` is empty");
}

/// What a `tritonserver` is started with, on record, and a simulated one in its place.
const TRITONSERVER: &str = r#"#!/bin/sh
echo "$(hostname) CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES $*" >> "$W/argv"
for word in "$@"; do
  case $word in
  --grpc-port=*) grpc=${word#*=} ;;
  --http-port=*) http=${word#*=} ;;
  --metrics-port=*) metrics=${word#*=} ;;
  --model-repository=*) repository=${word#*=} ;;
  esac
done
exec "$S" sim serve --repository "$repository" --grpc-address 0.0.0.0 --grpc-port "$grpc" --http-port "$http" --metrics-port "$metrics"
"#;

#[test]
#[ignore = "needs root, for network namespaces"]
fn each_host_starts_the_tritonservers_that_one_would() {
    use std::os::unix::fs::PermissionsExt as _;

    let lab = Lab::up(2);
    let program = env!("CARGO_BIN_EXE_regatta");
    let engine = ENGINE.replace("triton_num_servers: 1", "triton_num_servers: 2, gpus: 2");
    let server = format!(
        r#"  server:
    host: {{ ssh: ["{{h1}}", "{{h2}}"] }}
    gpus: 2
    env: {{ S: {program}, W: WORLD, PATH: "WORLD/bin:/usr/bin:/bin" }}
    serve: {{ triton: {{ repository: "{{{{ stages.models.out }}}}", exit_timeout_secs: 3 }} }}
"#
    );
    let world = lab.world(&format!("{engine}{server}{}", measure(80)));
    let folder = world.path("").display().to_string().trim_end_matches('/').to_owned();
    world.file("manifests/m.yaml", &world.read("manifests/m.yaml").replace("WORLD", &folder));
    world.file("bin/tritonserver", TRITONSERVER);
    let program = world.path("bin/tritonserver");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    world.good(&["run", "m"]);
    let mut argv: Vec<String> = world.read("argv").lines().map(str::to_owned).collect();
    argv.sort();
    let plain = |line: &str| {
        let words = line.split(' ').map(|word| match word.split_once("-port=") {
            Some((option, _)) => format!("{option}-port=FREE"),
            // The rest is a mark that nothing else has.
            None if word.contains("shm-region-prefix-name=") => {
                format!("{}_MARK_", word.split('_').next().unwrap_or_default())
            }
            None if word.contains("/triton_model_repo_") => {
                format!("--model-repository=MODELS{}", &word[word.rfind('/').unwrap_or_default()..])
            }
            None => word.replace(&lab.host(1), "HOST1").replace(&lab.host(2), "HOST2"),
        });
        words.collect::<Vec<_>>().join(" ")
    };
    let lines: Vec<String> = argv.iter().map(|line| plain(line)).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    HOST1 CUDA_VISIBLE_DEVICES=0 --model-repository=MODELS/triton_model_repo_0 --exit-timeout-secs=3 --grpc-port=FREE --http-port=FREE --metrics-port=FREE --disable-auto-complete-config --backend-config=python,shm-region-prefix-name=prefix0_MARK_
    HOST1 CUDA_VISIBLE_DEVICES=1 --model-repository=MODELS/triton_model_repo_1 --exit-timeout-secs=3 --grpc-port=FREE --http-port=FREE --metrics-port=FREE --disable-auto-complete-config --backend-config=python,shm-region-prefix-name=prefix1_MARK_
    HOST2 CUDA_VISIBLE_DEVICES=0 --model-repository=MODELS/triton_model_repo_0 --exit-timeout-secs=3 --grpc-port=FREE --http-port=FREE --metrics-port=FREE --disable-auto-complete-config --backend-config=python,shm-region-prefix-name=prefix0_MARK_
    HOST2 CUDA_VISIBLE_DEVICES=1 --model-repository=MODELS/triton_model_repo_1 --exit-timeout-secs=3 --grpc-port=FREE --http-port=FREE --metrics-port=FREE --disable-auto-complete-config --backend-config=python,shm-region-prefix-name=prefix1_MARK_
    ");
    let result = read_result(&world.path("latest/measure/result.json")).unwrap();
    assert_eq!(result.requested.endpoints.len(), 4);
    let servers: Vec<usize> = result.hosts.iter().map(|one| one.servers.len()).collect();
    assert_eq!((servers, result.hosts.iter().map(|one| one.ok).sum::<u64>()), (vec![2, 2], 80));
    for host in [1, 2] {
        assert_eq!(lab.running(host), [""; 0]);
    }
}

#[test]
#[ignore = "needs root, for network namespaces"]
fn a_stop_while_a_host_does_not_answer_waits_for_no_host() {
    let lab = Lab::up(2);
    // The way to the second host takes everything and brings nothing back, for longer than anything here takes: with a link that is cut
    // it would be up to the kernel when ssh gives up.
    let silent = "ssh: \"root@{h2}\", args: [-o, ConnectTimeout=600, -o, ProxyCommand=sleep 600]";
    let world = lab.world(&format!("{ENGINE}{}{LONG_USER}", SERVER.replace("ssh: \"root@{h2}\"", silent)));
    let run = world.start(&["run", "m"]);
    patiently("the first host to be there", || !lab.running(1).is_empty());
    signal(&run, "INT");
    let ended = Ended::of(run);
    assert_eq!(ended.code, 130, "{ended:?}");
    no_process_on(&lab, &[1, 2]);
    no_process_left(&world);
}
