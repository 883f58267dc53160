//! `regatta serve`: servers that stay up until Ctrl-C, or for one command; and nothing of them afterwards.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use pretty_assertions::assert_eq;

use crate::campaign::no_process_left;
use crate::services::{SERVE, USER, scripted, server, world};
use crate::world::{Ended, World, alive_with, signal, until};

/// Starts `regatta serve` and reads its standard output up to the command that it offers: the lines before it, and its address.
#[expect(clippy::zombie_processes, reason = "the caller waits for it, and a panic ends it with its world")]
pub fn serving(world: &World, words: &[&str]) -> (Child, Vec<String>, String) {
    let mut child = world.start(&[&["serve"], words].concat());
    let mut lines = Vec::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    loop {
        let mut line = String::new();
        let read = out.read_line(&mut line).unwrap();
        assert_ne!(read, 0, "it ended before it served: {lines:?}\n{:?}", Ended::of(child));
        if let Some(target) = line.strip_prefix("regatta bench ") {
            let address = target.split(' ').next().unwrap().trim().to_owned();
            child.stdout = Some(out.into_inner());
            return (child, lines, address);
        }
        lines.push(line);
    }
}

#[test]
fn a_server_stays_up_until_ctrl_c_and_others_can_use_it() {
    let world = world(&[&server("", ""), USER]);
    let (child, lines, address) = serving(&world, &["m"]);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[1].starts_with("server") && lines[1].contains(&address), "{lines:?}");
    // In the same folder, whose lock is taken.
    let words =
        format!("bench {address} --model tensorrt_llm --vocab-size 1000 -n 2 --input-tokens 8 --output-tokens 4");
    world
        .good_when_undisturbed(&words.split(' ').collect::<Vec<_>>())
        .shows("uses .regatta; this benchmark is kept in");
    assert!(world.path(".regatta/clients/bench").is_dir());
    signal(&child, "INT");
    let ended = Ended::of(child);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.shows("serving until Ctrl-C").shows("▼ server");
    no_process_left(&world);
    assert!(!world.path("latest/user").exists(), "no stage that only uses the server runs");
    world.good(&["run", "m"]);
}

#[test]
fn a_benchmark_that_waits_goes_on_when_the_servers_are_up() {
    let loads = format!(r#"touch "$W/loading"; while [ ! -e "$W/gate" ]; do sleep 0.02; done; exec {SERVE}"#);
    let world = world(&[&scripted(&loads, ""), USER]);
    let serving = world.start(&["serve", "m"]);
    world.await_file("loading");
    let mut bench =
        world.command(&["bench", "sim:", "-c", "1", "-n", "4", "--input-tokens", "16", "--output-tokens", "4"]);
    let out = fs::File::create(world.path("bench.txt")).unwrap();
    let mut bench = bench.stdout(out).stderr(Stdio::piped()).spawn().unwrap();
    until("the benchmark to wait", || world.read("bench.txt").contains("waiting for run"));
    world.file("gate", "");
    until("the benchmark to end", || bench.try_wait().unwrap().is_some());
    let ended = Ended::of(bench);
    // A client that other tests disturb is late.
    assert!([0, 3, 4].contains(&ended.code), "{ended:?}");
    ended.shows("uses .regatta; this benchmark is kept in");
    signal(&serving, "INT");
    let ended = Ended::of(serving);
    assert_eq!(ended.code, 0, "{ended:?}");
    no_process_left(&world);
}

#[test]
fn a_command_has_the_endpoints_and_its_exit_code_is_the_programs() {
    let world = world(&[&server("", ""), USER]);
    let script = "echo \"$REGATTA_ENDPOINTS $REGATTA_GRPC $REGATTA_MODEL\" > said; echo out; cat; exit 7";
    let ended = world.regatta(&["serve", "m", "server", "--", "sh", "-c", script]);
    assert_eq!((ended.code, ended.stdout.as_str()), (7, "out\n"), "{ended:?}");
    ended.shows("the command ended with exit code 7").shows("▼ server");
    let text = world.read("said");
    let [all, grpc, model] = text.trim().split(' ').collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert!(all == grpc && grpc.starts_with("127.0.0.1:"), "{text}");
    assert_eq!(model, "tensorrt_llm");
    let json = world.good(&["serve", "m", "--json", "--", "true"]).stdout;
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(read["servers"][0]["task"], "server");
    // What came before is cached, and without a server it is not started.
    world.good(&["serve", "m", "--", "true"]).shows("2 tasks as before");
    no_process_left(&world);
}

#[test]
fn a_stop_request_ends_the_command_and_the_servers() {
    let world = world(&[&server("", "")]);
    let child = world.start(&["serve", "m", "--", "sh", "-c", "touch \"$W/using\"; sleep 600"]);
    world.await_file("using");
    signal(&child, "TERM");
    let ended = Ended::of(child);
    assert_eq!(ended.code, 130, "{ended:?}");
    no_process_left(&world);
    let mark = format!("W={}", world.path("").display());
    until("the command to be gone", || alive_with(&mark).is_empty());
}

#[test]
fn a_server_that_dies_ends_the_command_and_is_the_failure() {
    let world = world(&[&server(", --fault, die-after-requests=1", "")]);
    let script = "\"$S\" bench $REGATTA_GRPC --model tensorrt_llm --vocab-size 1000 -n 3 --input-tokens 8 --output-tokens 4; sleep 600";
    let ended = world.regatta(&["serve", "m", "--", "sh", "-c", script]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("the server ended with exit code 1 while it was needed").shows("died after 1 request, as configured");
    no_process_left(&world);
}

#[test]
fn what_to_serve_is_clear_before_anything_starts() {
    let other = server("", "").replace("  server:\n", "  other:\n");
    let gpus = server("", "").replace("  server:\n", "  large:\n    gpus: 8\n");
    let world = world(&[&server("", ""), &other, USER]);
    let wrong = |words: &[&str], text: &str| {
        let ended = world.regatta(&[&["serve", "m"], words].concat());
        assert_eq!(ended.code, 2, "{ended:?}");
        ended.shows(text);
    };
    wrong(&[], "several stages start servers: server, other");
    wrong(&["user"], "`user` starts no servers");
    wrong(&["servr"], "there is no stage or task `servr`");
    wrong(&["server", "other"], "one STAGE is served");
    wrong(&["server", "--", "no-such-program"], "the command `no-such-program` was not found");
    crate::services::change(&world, &[&gpus]);
    wrong(&["--gpus", "4"], "`large` needs 8 GPUs, but this run can lease only 4");
    crate::services::change(&world, &[USER.replace("{{ stages.server }}", "x").as_str()]);
    wrong(&[], "no stage of this plan starts a server");
    assert!(fs::read_dir(world.path(".regatta/out")).map_or(0, Iterator::count) == 0);
}
