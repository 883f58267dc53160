//! A server below real Open MPI: rank 0 speaks the protocol, the others wait, as TensorRT-LLM's do in leader mode.

use std::fs;
use std::process::Command;

use crate::campaign::no_process_left;
use crate::services::{LONG_USER, long_bench, world};
use crate::supervision::{await_end, kept_as_invalid, measuring, send, the_one};
use crate::world::{World, alive_with, until};

/// Two ranks. What the second does is up to the test.
fn ranks(second: &str) -> String {
    installed();
    let program = env!("CARGO_BIN_EXE_regatta");
    let second = serde_json::Value::String(second.to_owned());
    let repository = "{{ stages.models.out }}/triton_model_repo_0";
    format!(
        "  server:\n    serve:\n      command:\n        words: [mpirun, --allow-run-as-root, --oversubscribe, -n, \"1\", {program}, sim, serve, --repository, \"{repository}\", --grpc-port, \"{{port}}\", \":\", -n, \"1\", sh, -c, {second}]\n"
    )
}

/// Open MPI is a real part that these tests need.
fn installed() {
    let found = Command::new("mpirun").arg("--version").output();
    assert!(
        found.is_ok_and(|found| String::from_utf8_lossy(&found.stdout).contains("Open MPI")),
        "mpirun of Open MPI is not here: apt-get install openmpi-bin"
    );
}

/// A rank that waits, and says who it is.
const WAITS: &str = "echo rank $OMPI_COMM_WORLD_RANK waits; touch \"$W/second\"; exec sleep 1000";

/// Needs the server until the second rank is up too: rank 0, which answers, may be first.
const USER_OF_BOTH: &str =
    "  user: { shell: 'echo {{ stages.server }} > out; while [ ! -e \"$W/second\" ]; do sleep 0.02; done' }\n";

/// The rank that waits, once it does: `mpirun` has its words among its own.
fn waiting(world: &World) -> i32 {
    let mark = format!("REGATTA_HOME={}", world.path(".regatta").display());
    let mut found = Vec::new();
    until("the second rank", || {
        found = alive_with(&mark);
        found.retain(|(_, line)| line.trim_end() == "sleep 1000");
        !found.is_empty()
    });
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].0
}

/// The logs of the last run.
fn log(world: &World, name: &str) -> String {
    let run = fs::read_dir(world.path(".regatta/runs")).unwrap().map(|run| run.unwrap().path()).max().unwrap();
    fs::read_to_string(run.join(name)).unwrap_or_default()
}

#[test]
#[ignore = "needs Open MPI"]
fn a_world_comes_up_and_is_stopped_whole_and_each_rank_has_its_log() {
    let world = world(&[&ranks(WAITS), USER_OF_BOTH]);
    let ended = world.good(&["run", "m"]);
    ended.shows("▲ server").shows("▼ server");
    assert!(log(&world, "server.rank0.log").starts_with("ready grpc="), "{}", log(&world, "server.log"));
    assert_eq!(log(&world, "server.rank1.log"), "rank 1 waits\n");
    no_process_left(&world);
}

#[test]
#[ignore = "needs Open MPI"]
fn rank_0_drains_before_the_others_are_ended() {
    // Rank 0 is a script around the server, which tells when the server has left; rank 1 tells if it is asked before that.
    let script = r#"trap : TERM; "$S" "$@" & while ! wait $!; do :; done; touch "$W/gone"; exit 0"#;
    let first = format!("sh, -c, {}, rank0, sim,", serde_json::Value::String(script.to_owned()));
    let second = "trap 'echo asked too early' TERM; echo waits; touch \"$W/second\"; while [ ! -e \"$W/gone\" ]; do sleep 0.05; done; echo rank 0 has left; exit 0";
    let server = ranks(second).replace(&format!("{}, sim,", env!("CARGO_BIN_EXE_regatta")), &first);
    let world = world(&[&server, USER_OF_BOTH]);
    world.good(&["run", "m"]);
    assert_eq!(log(&world, "server.rank1.log"), "waits\nrank 0 has left\n");
    no_process_left(&world);
}

#[test]
#[ignore = "needs Open MPI"]
fn a_rank_that_is_killed_mid_run_is_named_as_the_first_to_fail() {
    let world = world(&[&ranks("echo rank 1 was here; exec sleep 1000"), &long_bench()]);
    let run = measuring(&world);
    send(waiting(&world), "KILL");
    let ended = await_end(&world, run);
    ended.code(1).shows("rank 1 failed first").shows("rank 1 was here");
    kept_as_invalid(&world, "the server ended with exit code 137 while it was needed");
    no_process_left(&world);
}

#[test]
#[ignore = "needs Open MPI"]
fn a_rank_that_leaves_with_code_0_is_missed_although_mpirun_goes_on() {
    let second = "echo waits; while [ ! -e \"$W/leave\" ]; do sleep 0.05; done; exit 0";
    let world = world(&[&ranks(second), &long_bench()]);
    let run = measuring(&world);
    // Known to the watch, which looks for the first time when the server is up.
    world.file("leave", "");
    let ended = await_end(&world, run);
    ended.code(1).shows("is gone, and mpirun continues without it").shows("rank 1 (");
    kept_as_invalid(&world, "mpirun continues without it");
    no_process_left(&world);
}

#[test]
#[ignore = "needs Open MPI"]
fn mpirun_killed_mid_run_leaves_no_rank() {
    let world = world(&[&ranks(WAITS), &long_bench()]);
    let run = measuring(&world);
    send(the_one(&world, "mpirun --allow"), "KILL");
    let ended = await_end(&world, run);
    ended.code(1).shows("the server ended by SIGKILL (9) while it was needed");
    kept_as_invalid(&world, "the server ended by SIGKILL (9)");
    no_process_left(&world);
}

#[test]
#[ignore = "needs Open MPI"]
fn a_rank_that_fails_while_it_loads_is_reported_with_its_own_last_lines() {
    // Some moments after its start, as one that loads: mpirun itself does not always say which rank it was.
    let second = "sleep 0.5; echo my engine is not here >&2; exit 3";
    let world = world(&[&ranks(second), LONG_USER]);
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("the server ended with exit code 3").shows("rank 1 failed first");
    ended.shows("my engine is not here").shows("server.rank1.log");
    no_process_left(&world);
}

#[test]
#[ignore = "needs Open MPI"]
fn kill9_of_the_run_leaves_no_mpirun_and_no_rank() {
    let world = world(&[&ranks(WAITS), LONG_USER]);
    let mut run = world.start(&["run", "m"]);
    world.await_file("using");
    waiting(&world);
    run.kill().unwrap();
    run.wait().unwrap();
    no_process_left(&world);
}
