//! How jobs end that nobody here ended: preempted, silent, killed with a container on their node.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::cases::{Case, Row};
use super::cluster::Cluster;
use super::{GATED, end, patiently, served};
use crate::world::{World, alive_with, signal_pid};

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_preempted_job_is_submitted_again_and_what_it_left_is_not_taken() {
    preempted();
}

/// In a partition whose jobs are put back into the queue: ours asks not to be, and is ended.
pub fn preempted() -> Row {
    let cluster = Cluster::up();
    let case = Case::begin("preempted (PreemptMode=REQUEUE)");
    let world = cluster.world(&GATED.replace("time: 10m", "time: 10m, partition: spare, exclusive: true"));
    let run = world.start(&["run", "m"]);
    world.await_file("nodes");
    let urgent = cluster.urgent();
    patiently("the preemption to be told", || world.newest_journal().contains("was preempted"));
    assert_eq!(world.count("nodes"), 1, "the second attempt waits for its turn");
    cluster.query(&["scancel", &urgent]);
    patiently("the second attempt", || world.count("nodes") == 2);
    world.file("gate", "");
    let ended = end(run);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.shows("was preempted; it is submitted again");
    assert_eq!(world.read("latest/it/out"), "begun\ndone\n", "nothing of the first attempt");
    patiently(
        "the second job to be over",
        || matches!(&cluster.jobs()[..], [first, _, second] if first.starts_with("PREEMPTED") && second.starts_with("COMPLET")),
    );
    case.end(&cluster, 1, "told, second attempt done (one of the jobs is the urgent one)")
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn where_preemption_cancels_it_is_the_same() {
    let cluster = Cluster::up();
    let world =
        cluster.world(&GATED.replace("time: 10m", "time: 10m, partition: sparer, exclusive: true, resubmit: 0"));
    let run = world.start(&["run", "m"]);
    world.await_file("nodes");
    cluster.urgent();
    let ended = end(run);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("was preempted");
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_server_whose_job_is_cancelled_has_failed() {
    let cluster = Cluster::up();
    let world = cluster.world(&served(""));
    let run = world.start(&["serve", "m"]);
    patiently("the server", || world.newest_journal().contains("service_ready"));
    cluster.query(&["scancel", "1"]);
    let ended = end(run);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("its job 1 on ").shows("was cancelled, but not by this run");
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_requeued_job_is_cancelled_and_submitted_again() {
    let cluster = Cluster::up();
    let world = cluster.world(GATED);
    let run = world.start(&["run", "m"]);
    world.await_file("nodes");
    cluster.query(&["scontrol", "update", "jobid=1", "requeue=1"]);
    cluster.query(&["scontrol", "requeue", "1"]);
    patiently("the second attempt", || world.count("nodes") == 2);
    world.file("gate", "");
    let ended = end(run);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.shows("its job 1 was put back into the queue after it had begun; it is submitted again");
    let jobs = cluster.jobs();
    assert!(jobs.len() == 2 && !jobs[0].starts_with("PENDING"), "{jobs:?}");
}

/// Ours, on the node.
fn program_of(world: &World) -> i32 {
    let all = alive_with(world.path(""));
    all.iter().find(|(_, command)| command.contains(" __job ")).expect("its program on the node").0
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_job_that_gives_no_sign_of_life_is_reported_and_decides_nothing() {
    silent();
}

pub fn silent() -> Row {
    let cluster = Cluster::up();
    let case = Case::begin("a job stands still for some seconds");
    let world = cluster.world(&GATED.replace("poll: 1s", "poll: 1s, silence: 4s"));
    let run = world.start(&["run", "m"]);
    world.await_file("nodes");
    let jobs = world.path(".regatta/jobs");
    let program = program_of(&world);
    signal_pid(program, "STOP");
    patiently("its silence to be told", || world.newest_journal().contains("no heartbeat"));
    signal_pid(program, "CONT");
    patiently("its voice to be told", || world.newest_journal().contains("heartbeats from its job resumed"));
    assert!(jobs.read_dir().unwrap().any(|_| true), "it was not given up");
    world.file("gate", "");
    let ended = end(run);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!((world.count("nodes"), cluster.jobs().len()), (1, 1));
    case.end(&cluster, 1, "its silence is told, and its end; nothing is given up")
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_container_that_outlives_its_killed_job_is_named_with_its_node() {
    let cluster = Cluster::up();
    let mut world = cluster.world(
        r"
stages:
  it:
    host: { slurm: { time: 10m, poll: 1s } }
    container: { image: some/image, engine: podman }
    shell: 'echo x > out'
",
    );
    // A stand-in for podman: there is an image, and what runs is no child of the job's, as with a daemon.
    let image = format!("sha256:{:064}", 7);
    world.file(
        "bin/podman",
        &format!("#!/bin/sh\ncase $1 in image) echo '{image} []';; run) touch \"$W/inside\"; exec sleep 1000;; esac\n"),
    );
    fs::set_permissions(world.path("bin/podman"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", world.path("bin").display(), cluster.path());
    world.env("PATH", path);
    let run = world.start(&["run", "m"]);
    world.await_file("inside");
    // As the kernel does when the node's memory runs out: it gets to write nothing down.
    signal_pid(program_of(&world), "KILL");
    let ended = end(run);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("its container regatta-").shows("may still run on ").shows("podman rm -f regatta-");
}
