//! A `foreach` as one job array: one submission, and each element a life of its own.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::cases::{Case, Row};
use super::cluster::Cluster;
use super::{end, patiently};
use crate::world::{World, signal};

/// How many of the elements have begun, each counted once: one whose node was taken for lost begins again.
fn begun(world: &World) -> usize {
    let ran = fs::read_to_string(world.path("ran")).unwrap_or_default();
    ran.lines().filter_map(|line| line.split(' ').next()).collect::<BTreeSet<_>>().len()
}

/// Eight elements; each says who it is, and waits for its gate, or for everybody's.
const EIGHT: &str = r#"
stages:
  many:
    foreach: { n: "{{ range(8) }}" }
    host: { slurm: { time: 10m, poll: 1s } }
    shell: |
      echo {{ n }} ${SLURM_ARRAY_JOB_ID-} ${SLURMD_NODENAME-} >> "$W/ran"
      while [ ! -e "$W/gate" ] && [ ! -e "$W/gate{{ n }}" ]; do sleep 0.1; done
      echo {{ n }} > out
"#;

#[test]
#[ignore = "needs a Slurm cluster"]
fn forty_stages_are_one_submission_and_one_question_at_a_time() {
    super::cases::forty_stages();
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn at_once_holds_back_those_of_one_array() {
    let cluster = Cluster::up();
    let world = cluster.world(&EIGHT.replace("poll: 1s", "poll: 1s, at_once: 2"));
    let run = world.start(&["run", "m"]);
    patiently("two to begin", || world.count("ran") == 2);
    // Others have room: only the array's own limit holds them.
    patiently("the array's limit to be the reason", || {
        let waiting = cluster.query(&["squeue", "-h", "-t", "PENDING", "-o", "%i %r"]);
        waiting.trim().ends_with("%2] JobArrayTaskLimit")
    });
    world.file("gate", "");
    let ended = end(run);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!((world.count("ran"), cluster.calls("sbatch")), (8, 1));
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn larger_ones_than_the_cluster_takes_are_several() {
    let cluster = Cluster::configured("MaxArraySize=3");
    let world = cluster.world(EIGHT);
    world.file("gate", "");
    world.good(&["run", "m"]);
    assert_eq!((world.count("ran"), cluster.calls("sbatch")), (8, 3), "of three, three and two");
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn where_somebody_may_not_have_so_many_jobs_they_come_in_pieces() {
    let cluster = Cluster::up();
    let mut world = cluster.world(EIGHT);
    // A limit of an account needs a database. So the refusal is one that such a cluster once gave, in front of the real Slurm.
    world.file(
        "bin/sbatch",
        r#"#!/bin/sh
for word in "$@"; do case $word in --array=*) last=${word##*-} first=${word#--array=}; first=${first%%-*};; esac; done
if [ $((${last%%[!0-9]*} - first)) -ge 3 ]; then
  echo "sbatch: error: AssocMaxSubmitJobLimit" >&2
  echo "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)" >&2
  exit 1
fi
exec "$REAL" "$@"
"#,
    );
    fs::set_permissions(world.path("bin/sbatch"), fs::Permissions::from_mode(0o755)).unwrap();
    world.env("REAL", cluster.program("sbatch"));
    let path = format!("{}:{}", world.path("bin").display(), cluster.path());
    world.env("PATH", path);
    world.file("gate", "");
    let ended = world.good(&["run", "m"]);
    ended.shows("Slurm does not accept 8 jobs at once");
    assert_eq!(world.count("ran"), 8, "each ran once");
    assert_eq!(cluster.jobs().len(), 8);
    assert!((2..8).contains(&cluster.calls("sbatch")), "{}", cluster.calls("sbatch"));
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn one_element_is_cancelled_by_somebody_and_the_others_go_on() {
    let cluster = Cluster::up();
    let world = cluster.world(EIGHT);
    let run = world.start(&["run", "m"]);
    patiently("all to run", || begun(&world) == 8);
    let ran = world.read("ran");
    let array = ran.split_whitespace().nth(1).unwrap();
    cluster.query(&["scancel", &format!("{array}_5")]);
    patiently("it to be told", || world.newest_journal().contains("was cancelled, but not by this run"));
    world.file("gate", "");
    let ended = end(run);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows(&format!("its job {array}_5"));
    // Once in many runs Slurm cancelled a second one with it: what counts is that each that it cancelled failed, and no other.
    let cancelled = cluster.query(&["squeue", "-h", "-r", "-t", "CANCELLED", "-o", "%i"]);
    let mut cancelled: Vec<String> =
        cancelled.lines().filter_map(|id| Some(format!("many/{}", id.trim().split_once('_')?.1))).collect();
    cancelled.sort();
    assert!(cancelled.contains(&"many/5".to_owned()), "{cancelled:?}");
    assert_eq!(ended.ran().len(), 8 - cancelled.len(), "{ended:?}");
    let again = world.good(&["run", "m"]);
    assert_eq!(again.ran(), cancelled);
    assert_eq!((world.count("ran"), cluster.calls("sbatch")), (8 + cancelled.len(), 2));
    assert!(cancelled.len() > 1 || !cluster.lines("sbatch")[1].contains("--array"), "alone it is not an array");
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_node_is_lost_and_only_its_elements_are_submitted_again() {
    let cluster = Cluster::up();
    // Two on each node.
    let world = cluster.world(&EIGHT.replace("poll: 1s", "poll: 1s, cpus_per_task: 2"));
    let run = world.start(&["run", "m"]);
    patiently("all to run", || begun(&world) == 8);
    let first = world.read("ran");
    let node = first.split_whitespace().nth(2).unwrap();
    let there = first.lines().filter(|line| line.ends_with(&format!(" {node}"))).count();
    assert_eq!(there, 2, "{first}");
    cluster.kill(node);
    patiently("new attempts to be submitted", || world.newest_journal().matches("it is submitted again").count() == 2);
    world.file("gate", "");
    let ended = end(run);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.shows("lost its node");
    assert_eq!(world.count("ran"), 10, "each of the lost ones twice, the others once");
    assert_eq!(cluster.jobs().len(), 10);
    for n in 0..8 {
        assert_eq!(world.read(format!("latest/many/{n}/out")).trim(), n.to_string());
    }
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn ctrl_c_cancels_all_with_few_questions() {
    ctrl_c();
}

pub fn ctrl_c() -> Row {
    let cluster = Cluster::up();
    let case = Case::begin("Ctrl-C on an array of 8");
    let world = cluster.world(EIGHT);
    let run = world.start(&["run", "m"]);
    patiently("all to run", || begun(&world) == 8);
    signal(&run, "INT");
    let ended = end(run);
    assert_eq!(ended.code, 130, "{ended:?}");
    let jobs = cluster.jobs();
    assert!(
        jobs.len() == 8 && jobs.iter().all(|job| !job.starts_with("RUNNING") && !job.starts_with("PENDING")),
        "{jobs:?}"
    );
    assert!(cluster.calls("scancel") <= 4, "{} calls", cluster.calls("scancel"));
    assert!(!world.path(".regatta/jobs").read_dir().unwrap().any(|_| true));
    assert!(!world.path(".regatta/arrays").read_dir().unwrap().any(|_| true));
    case.end(&cluster, 8, "all cancelled, and seen to be gone, before the prompt comes back")
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn the_submitter_is_killed_and_the_next_run_goes_on_with_every_element() {
    submitter_of_an_array_killed();
}

pub fn submitter_of_an_array_killed() -> Row {
    let cluster = Cluster::up();
    let case = Case::begin("the submitter of an array of 8 killed");
    let world = cluster.world(&EIGHT.replace("poll: 1s", "poll: 1s, at_once: 3"));
    let mut run = world.start(&["run", "m"]);
    patiently("three to begin", || world.count("ran") == 3);
    run.kill().unwrap();
    run.wait().unwrap();
    let again = world.start(&["run", "m"]);
    patiently("the second run to find them", || world.newest_journal().matches("continues job").count() == 8);
    world.file("gate", "");
    let ended = end(again);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!((world.count("ran"), cluster.calls("sbatch")), (8, 1));
    case.end(&cluster, 8, "the next run goes on with all, also those that waited; each ran once")
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_submission_whose_answer_was_lost_is_found_by_its_name() {
    let cluster = Cluster::up();
    let world = cluster.world(EIGHT);
    let mut run = world.start(&["run", "m"]);
    patiently("all to run", || begun(&world) == 8);
    run.kill().unwrap();
    run.wait().unwrap();
    // As it is when the submitter dies between the controller's yes and its own hearing of it: no numbers, and here not even
    // the words of the jobs that have begun.
    for folder in fs::read_dir(world.path(".regatta/jobs")).unwrap().flatten() {
        // One that was not noted yet is what this is about.
        let _ = fs::remove_file(folder.path().join("number"));
    }
    let ended = {
        world.file("gate", "");
        world.good(&["run", "m"])
    };
    // Some still run, others have ended meanwhile.
    ended.shows(", which an earlier run submitted");
    assert_eq!((world.count("ran"), cluster.calls("sbatch")), (8, 1));
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_submission_that_never_arrived_is_made_once_more_under_the_same_name() {
    let cluster = Cluster::up();
    let world = cluster.world(EIGHT);
    let controller = cluster.pid("slurmctld");
    crate::world::signal_pid(controller, "STOP");
    let mut run = world.start(&["run", "m"]);
    // The question for the array's size comes before everything is written down; then sbatch, which gets no answer.
    patiently("the submission to be under way", || cluster.calls("sbatch") == 1);
    run.kill().unwrap();
    run.wait().unwrap();
    let name = |line: &str| line.split(' ').find(|word| word.starts_with("--job-name=")).map(str::to_owned);
    let first = cluster.lines("sbatch");
    crate::world::signal_pid(controller, "CONT");
    world.file("gate", "");
    let ended = world.good(&["run", "m"]);
    assert_eq!(ended.ran().len(), 8);
    assert_eq!(world.count("ran"), 8, "each ran once");
    for line in cluster.lines("sbatch") {
        assert_eq!(name(&line), name(&first[0]), "{line}");
    }
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn the_controller_stops_while_an_array_is_submitted_and_it_is_there_once() {
    let cluster = Cluster::up();
    let world = cluster.world(EIGHT);
    let controller = cluster.pid("slurmctld");
    crate::world::signal_pid(controller, "STOP");
    let run = world.start(&["run", "m"]);
    patiently("the run to hear that it is not answered", || {
        world.newest_journal().contains("Slurm has not accepted its array yet")
    });
    let count = world.newest_journal().matches("Slurm has not accepted its array yet").count();
    assert_eq!(count, 1, "once for all");
    crate::world::signal_pid(controller, "CONT");
    world.file("gate", "");
    let ended = end(run);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!((world.count("ran"), cluster.jobs().len()), (8, 8));
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn what_slurm_will_not_take_is_the_failure_of_each() {
    let cluster = Cluster::up();
    let world = cluster.world(&EIGHT.replace("poll: 1s", "poll: 1s, partition: gpuu"));
    let ended = world.regatta(&["run", "m", "--keep-going"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("Slurm rejects its array: invalid partition specified: gpuu").shows("--array=0-7").shows("8 failed");
    assert_eq!(cluster.calls("sbatch"), 1);
    assert!(!world.path(".regatta/jobs").read_dir().unwrap().any(|_| true));
    assert!(!world.path(".regatta/arrays").read_dir().unwrap().any(|_| true));
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn elements_that_are_no_longer_needed_are_cancelled_and_the_others_stay() {
    let cluster = Cluster::up();
    let world = cluster.world(EIGHT);
    let mut run = world.start(&["run", "m"]);
    patiently("all to run", || begun(&world) == 8);
    run.kill().unwrap();
    run.wait().unwrap();
    // Half of them are asked for something else now.
    let text = world
        .read("manifests/m.yaml")
        .replace("      echo {{ n }} > out", "      echo {{ n }}{{ '!' if n < 4 else '' }} > out");
    world.file("manifests/m.yaml", &text);
    let again = world.start(&["run", "m"]);
    patiently("the others to begin", || world.count("ran") == 12);
    world.file("gate", "");
    let ended = end(again);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.shows("of many/0, which an earlier run left behind").shows("continues job");
    assert_eq!((world.read("latest/many/3/out").trim(), world.read("latest/many/4/out").trim()), ("3!", "4"));
    assert_eq!((world.count("ran"), cluster.calls("sbatch")), (12, 2));
}
