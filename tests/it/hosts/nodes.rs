//! The same over the nodes of a real Slurm: a server on each, started by `srun`, ports and names known when they are up.

use pretty_assertions::assert_eq;
use regatta::harness::{RunResult, read_result};

use super::{measure, patiently};
use crate::services::{ENGINE, long_bench};
use crate::slurm::cluster::Cluster;
use crate::supervision::{await_end, kept_as_invalid, measuring};
use crate::world::{World, alive_with};

/// A server on each of two nodes of a job of its own.
const SERVER: &str = r#"  server:
    host: { slurm: { nodes: 2, each_node: true, time: 10m, poll: 1s } }
    serve: { simulator: { repository: "{{ stages.models.out }}" } }
"#;

fn result(world: &World) -> RunResult {
    read_result(&world.path("latest/measure/result.json")).unwrap()
}

#[track_caller]
fn spread_over_two_nodes(result: &RunResult) {
    assert_eq!(result.counts.ok, 100);
    let names: Vec<&str> = result.hosts.iter().map(|one| one.host.as_str()).collect();
    assert!(names.len() == 2 && names[0].ends_with("n1") && names[1].ends_with("n2"), "{names:?}");
    assert!(result.hosts.iter().all(|one| one.ok > 20), "both did their part");
    assert_eq!(result.hosts.iter().map(|one| one.ok).sum::<u64>(), 100);
}

fn no_process_left(world: &World) {
    patiently("the nodes to be clean", || alive_with(world.path("")).is_empty());
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_job_of_two_nodes_has_a_server_on_each() {
    let cluster = Cluster::up();
    let world = cluster.world(&format!("{ENGINE}{SERVER}{}", measure(100)));
    world.good(&["run", "m"]);
    spread_over_two_nodes(&result(&world));
    let jobs = cluster.jobs();
    assert!(jobs.len() == 1 && jobs[0].starts_with("COMPLETED"), "it ended by itself when it was asked to: {jobs:?}");
    no_process_left(&world);
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_run_in_an_allocation_has_a_server_on_each_of_as_many_nodes_as_the_stage_says() {
    let cluster = Cluster::up();
    let world = cluster.world(&format!("{ENGINE}{SERVER}{}", measure(100)));
    world.good(&["run", "m", "--on", "slurm", "--slurm", "nodes=3", "--slurm", "time=10m", "--slurm", "poll=1s"]);
    spread_over_two_nodes(&result(&world));
    assert_eq!(cluster.jobs().len(), 1);
    no_process_left(&world);

    let few = ["--on", "slurm", "--slurm", "nodes=1", "--slurm", "time=10m", "--slurm", "poll=1s"];
    let ended = world.regatta(&[&["run", "m", "--force", "measure"][..], &few].concat());
    assert_eq!(ended.code, 1);
    ended.shows("the stage needs 2 nodes, but the allocation has 1: ").shows("--slurm nodes=2");
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_server_that_dies_on_its_node_is_reported_with_the_node() {
    let cluster = Cluster::up();
    let world = cluster.world(&format!("{ENGINE}{SERVER}{}", long_bench()));
    let run = measuring(&world);
    let servers: Vec<(i32, String)> =
        alive_with(world.path("")).into_iter().filter(|(_, command)| command.contains("sim serve")).collect();
    assert_eq!(servers.len(), 2, "{servers:?}");
    crate::supervision::send(servers[0].0, "KILL");
    let ended = await_end(&world, run);
    let died = "server 0 ended by SIGKILL (9) while it was needed";
    ended.code(1).shows(died).shows("host t");
    kept_as_invalid(&world, died);
    no_process_left(&world);
}
