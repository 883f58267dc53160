//! Servers that somebody else started: asked before they are used, and everything that is wrong is said at once.

use std::process::Stdio;

use regatta::sim::{Faults, SimOptions};
use serde_json::json;

use crate::harness::{AT_ONCE, script};
use crate::ports::free_port;
use crate::scripted_server::Scripted;
use crate::simulator::ground::{Files, Running};
use crate::world::{Ended, World, signal, until};

/// A benchmark of servers that are there already.
fn bench(target: &str, scenario: &str, more: &str) -> Ended {
    let rate = if scenario == "server" { ", rate: 50" } else { "" };
    let world = World::with(&format!(
        "stages:\n  measure:\n    bench: {{ target: \"{target}\", scenario: {scenario}{rate}, stop: {{ requests: 8 \
                                                                }}, input_tokens: {{ fixed: 16 }}, output_tokens: {{ \
                                                                fixed: 8 }}, vocab_size: 1000{more} }}\n"
    ));
    world.regatta(&["run", "m"])
}

fn target(servers: &[&Running]) -> String {
    let ports: Vec<String> = servers.iter().map(|server| server.address.port().to_string()).collect();
    format!("127.0.0.1:{}", ports.join(","))
}

#[test]
fn servers_that_are_as_they_should_be_are_used_and_named() {
    let files = Files::new(true, &json!({}));
    let (one, two) = (Running::start(files.options()), Running::start(files.options()));
    let ended = bench(&target(&[&one, &two]), "server", "");
    ended.shows(&format!("{} is triton regatta-simulator-", one.address));
    ended.shows("`tensorrt_llm` is tensorrtllm, decoupled, max_batch_size 512");
    // Eight requests are too few for a verdict on the load; that the servers were used is what counts.
    ended.shows("tok/s");
}

#[test]
fn a_call_that_is_refused_is_named() {
    let server = Scripted::start(true, None, script(|_| AT_ONCE));
    let ended = bench(&server.address.to_string(), "server", "");
    assert_eq!(ended.code, 1);
    ended.shows(&format!("{}: ServerLive: not in the script (Unimplemented)", server.address));
}

#[test]
fn a_model_that_cannot_stream_is_found_before_anything_is_sent() {
    let files = Files::new(false, &json!({}));
    let server = Running::start(files.options());
    let ended = bench(&target(&[&server]), "server", "");
    assert_eq!(ended.code, 1);
    ended.shows(&format!("{} cannot be used", server.address));
    ended.shows("`tensorrt_llm` is not decoupled: it cannot stream");
    ended.shows("set `decoupled: true` in its config.pbtxt");
}

#[test]
fn a_model_that_is_not_there_is_answered_with_those_that_are() {
    let files = Files::new(true, &json!({}));
    let server = Running::start(files.options());
    let ended = bench(&target(&[&server]), "server", ", model: tensorrt_lm");
    assert_eq!(ended.code, 1);
    ended.shows("it has no model `tensorrt_lm`");
    ended.shows("it has `ensemble`, `postprocessing`, `preprocessing`, `tensorrt_llm`, `tensorrt_llm_bls`");
}

#[test]
fn a_model_with_other_tensors_says_which() {
    let files = Files::new(true, &json!({}));
    let server = Running::start(files.options());
    let ended = bench(&target(&[&server]), "offline", ", model: ensemble, request: { interface: token_ids }");
    assert_eq!(ended.code, 1);
    ended.shows("`ensemble` has no input `input_ids`, `input_lengths`");
    ended.shows("`ensemble` has no output `output_ids`");
}

#[test]
fn everything_that_is_wrong_with_any_server_is_said_at_once() {
    let files = Files::new(true, &json!({}));
    let fine = Running::start(files.options());
    let smaller =
        Files::new(true, &json!({ "triton_max_batch_size": 16, "batch_scheduler_policy": "max_utilization" }));
    let smaller = Running::start(smaller.options());
    let loading = Faults { never_ready: true, ..Faults::default() };
    let loading = Running::start(SimOptions { faults: loading, ..files.options() });
    let nothing = free_port();
    let target = format!("{},{nothing}", target(&[&fine, &smaller, &loading]));
    let ended = bench(&target, "server", "");
    assert_eq!(ended.code, 1);
    ended.shows("3 of 4 servers cannot be used");
    ended.shows(&format!("{}: its `tensorrt_llm` is not that of {}", smaller.address, fine.address));
    ended.shows("max_batch_size is 16, there 512").shows("batch_scheduler_policy is `max_utilization`");
    ended.shows(&format!("{}: the server is live but not ready", loading.address));
    ended.shows(&format!("127.0.0.1:{nothing}: no connection"));
    let refused = ended.stdout.matches("Connection refused (os error 111)").count();
    assert_eq!(refused, 1, "each cause is printed once: {}", ended.stdout);
}

#[test]
fn a_server_that_speaks_something_else_is_reported_as_what_it_is() {
    // A web server, as one would stand on Triton's HTTP port.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut seen = [0; 512];
            let _ = std::io::Read::read(&mut stream, &mut seen);
            let body = r#"{"name":"triton","version":"2.51.0","extensions":[]}"#;
            let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            let _ = std::io::Write::write_all(&mut stream, text.as_bytes());
        }
    });
    let ended = bench(&format!("127.0.0.1:{port}"), "offline", "");
    assert_eq!(ended.code, 1);
    ended.shows("that is its HTTP port; this stage needs the gRPC port").shows("8001 by default");
}

#[test]
fn a_log_without_a_terminal_shows_which_servers_are_waited_for() {
    let files = Files::new(true, &json!({}));
    let fine = Running::start(files.options());
    let nothing = free_port();
    let manifest = |timeout: &str| {
        format!(
            "stages:\n  server:\n    serve: {{ attach: {{ endpoints: \"{},{nothing}\", ready: {{ timeout: {timeout} \
                                                                                     }} }} }}\n  ask: {{ shell: \
                                                                                     'echo {{{{ stages.server }}}}' \
                                                                                     }}\n",
            target(&[&fine])
        )
    };
    let world = World::with(&manifest("10m"));
    let log = std::fs::File::create(world.path("log")).unwrap();
    let run = world.command(&["run", "m"]).stdout(log).stderr(Stdio::piped()).spawn().unwrap();
    let is_shown = |line: &str| {
        let rest = line.strip_prefix(&format!("… server  waiting for 127.0.0.1:{nothing}, "));
        let seconds = rest.and_then(|rest| rest.strip_suffix(" s: nothing listens there (connection refused)"));
        seconds.is_some_and(|seconds| seconds.parse::<u32>().is_ok())
    };
    until("the server that is not there to be shown", || world.read("log").lines().any(is_shown));
    signal(&run, "INT");
    assert_eq!(Ended::of(run).code, 130);
    world.manifest("m", &manifest("1s"));
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows(&format!("127.0.0.1:{nothing} was not ready within 1s: nothing listens there (connection refused)"));
}
