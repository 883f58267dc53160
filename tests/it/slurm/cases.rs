//! What the issue wants to be shown, each on a cluster of its own: what became of it, and what it cost. The tests assert it
//! one by one; `must_show` prints all as one table:
//!
//! `cargo test --test it -- --ignored --nocapture slurm::cases::must_show`

use std::collections::BTreeSet;
use std::time::Instant;

use regatta::harness::read_result;

use super::cluster::Cluster;
use super::{GATED, end, kill_submitter, patiently};
use crate::services::{ENGINE, REPOSITORY};
use crate::world::{alive_with, signal_pid};

/// One line of the table.
pub struct Row {
    case: &'static str,
    outcome: &'static str,
    /// Elements and single jobs that the pipeline needs, and that the queue has had.
    needed: usize,
    jobs: usize,
    submissions: usize,
    /// Over the whole time that the runs took.
    questions: usize,
    seconds: f64,
}

/// Counts from when the cluster is up.
pub struct Case {
    name: &'static str,
    begun: Instant,
}

impl Case {
    pub fn begin(name: &'static str) -> Self {
        Self { name, begun: Instant::now() }
    }

    pub fn end(self, cluster: &Cluster, needed: usize, outcome: &'static str) -> Row {
        Row {
            case: self.name,
            outcome,
            needed,
            jobs: cluster.jobs().len(),
            submissions: cluster.calls("sbatch"),
            questions: cluster.calls("squeue"),
            seconds: self.begun.elapsed().as_secs_f64(),
        }
    }
}

pub fn forty_stages() -> Row {
    let cluster = Cluster::up();
    let case = Case::begin("a foreach of 40");
    let world = cluster.world(
        r#"
stages:
  many:
    foreach: { n: "{{ range(40) }}" }
    host: { slurm: { time: 5m, poll: 2s } }
    shell: 'echo {{ n }} > out; echo {{ n }} >> "$W/ran"'
"#,
    );
    let begun = Instant::now();
    let ended = world.good(&["run", "m", "-j", "1"]);
    let seconds = begun.elapsed().as_secs_f64();
    assert_eq!(ended.ran().len(), 40, "one slot here is no limit there");
    assert_eq!(world.count("ran"), 40, "each ran once");
    assert_eq!((cluster.jobs().len(), cluster.calls("sbatch")), (40, 1));
    let questions = cluster.calls("squeue");
    // Whatever the number of jobs: one every two seconds, one to begin with, and one that was under way.
    assert!((questions as f64) < seconds / 2.0 + 3.0, "{questions} questions in {seconds:.1} s");
    case.end(&cluster, 40, "40 done, each once, in one array")
}

/// What each asks for is another thing, so they cannot be elements of one array: what arrays save.
pub fn forty_that_differ() -> Row {
    let cluster = Cluster::up();
    let case = Case::begin("the same, as single jobs");
    let world = cluster.world(
        r#"
stages:
  many:
    foreach: { n: "{{ range(40) }}" }
    host: { slurm: { time: 5m, poll: 2s, args: ["--comment={{ n }}"] } }
    shell: 'echo {{ n }} > out; echo {{ n }} >> "$W/ran"'
"#,
    );
    world.good(&["run", "m"]);
    assert_eq!((world.count("ran"), cluster.jobs().len(), cluster.calls("sbatch")), (40, 40, 40));
    case.end(&cluster, 40, "40 done, each once")
}

pub fn submitter_killed() -> Row {
    let cluster = Cluster::up();
    let case = Case::begin("the submitter killed and started again");
    let world = cluster.world(GATED);
    kill_submitter(&world, &["run", "m"]);
    let again = world.start(&["run", "m"]);
    patiently("the second run to find the job", || world.newest_journal().contains("continues job"));
    world.file("gate", "");
    let ended = end(again);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.shows("continues job");
    assert_eq!(world.read("latest/it/out"), "begun\ndone\n");
    assert_eq!(world.count("nodes"), 1, "it ran once");
    assert_eq!((cluster.jobs().len(), cluster.calls("sbatch")), (1, 1));
    case.end(&cluster, 1, "the next run goes on with the job; it ran once")
}

pub fn node_killed() -> Row {
    let cluster = Cluster::up();
    let case = Case::begin("a node killed");
    let world = cluster.world(GATED);
    let run = world.start(&["run", "m"]);
    world.await_file("nodes");
    let node = cluster.node(&world, "nodes");
    cluster.kill(&node);
    patiently("the second attempt", || world.count("nodes") == 2);
    world.file("gate", "");
    let ended = end(run);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.shows("lost its node").shows("it is submitted again");
    assert_eq!(world.read("latest/it/out"), "begun\ndone\n");
    let states: Vec<String> = cluster.jobs();
    assert_eq!(states.len(), 2, "{states:?}");
    assert!(states[0].starts_with("NODE_FAIL"), "{states:?}");
    case.end(&cluster, 1, "second attempt done")
}

pub fn link_cut() -> Row {
    let cluster = Cluster::with_links();
    let case = Case::begin("a link cut and healed");
    // The first attempt would overwrite everything if it could: it writes when it is asked to end, and after that.
    let world = cluster.world(
        r#"
stages:
  it:
    host: { slurm: { time: 10m, poll: 1s } }
    shell: |
      echo $SLURMD_NODENAME >> "$W/nodes"
      me=$(wc -l < "$W/nodes")
      echo attempt $me > out
      trap 'echo late >> out; echo late > more; echo $me >> "$W/late"; exit 0' TERM
      while [ ! -e "$W/gate$me" ]; do sleep 0.1; done
      echo attempt $me has ended >> out
"#,
    );
    let run = world.start(&["run", "m"]);
    world.await_file("nodes");
    let node = cluster.node(&world, "nodes");
    // Nobody is told: packets to and from the node are lost, and what runs there runs on.
    Cluster::link("cut", &node);
    patiently("the second attempt", || world.count("nodes") == 2);
    patiently("the old attempt to have written", || world.path("late").exists());
    world.file("gate2", "");
    let ended = end(run);
    Cluster::link("heal", &node);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.shows("lost its node").shows("it is submitted again");
    assert_eq!(world.read("latest/it/out"), "attempt 2\nattempt 2 has ended\n");
    assert!(!world.path("latest/it/more").exists());
    assert_eq!(world.read("late"), "1\n");
    assert!(world.good(&["run", "m"]).ran().is_empty(), "and the output stays what it was");
    let jobs = cluster.jobs();
    assert!(jobs.len() == 2 && jobs[0].starts_with("NODE_FAIL"), "{jobs:?}");
    case.end(&cluster, 1, "second attempt done; what the old one wrote later is nowhere")
}

pub fn controller_stopped() -> Row {
    let cluster = Cluster::up();
    let case = Case::begin("the controller stopped during submission");
    let world = cluster.world(GATED);
    let controller = cluster.pid("slurmctld");
    signal_pid(controller, "STOP");
    let run = world.start(&["run", "m"]);
    patiently("the run to hear that it is not answered", || {
        world.newest_journal().contains("has not accepted its job yet")
    });
    signal_pid(controller, "CONT");
    patiently("the job", || world.path("nodes").exists());
    world.file("gate", "");
    let ended = end(run);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(world.count("nodes"), 1);
    let jobs = cluster.jobs();
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    case.end(&cluster, 1, "told, waited, one job")
}

pub fn time_limit() -> Row {
    let cluster = Cluster::up();
    let case = Case::begin("a time-out");
    let world = cluster.world(
        "stages:\n  it:\n    host: { slurm: { time: 1m, warn: 30s, poll: 1s } }\n    shell: 'echo begun; sleep 1000'\n",
    );
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows(" s left until its time limit").shows("ran into its time limit of 1m").shows("begun");
    let jobs = cluster.jobs();
    assert!(jobs.len() == 1 && jobs[0].starts_with("TIMEOUT"), "{jobs:?}");
    case.end(&cluster, 1, "warned 30 s before, told with the limit, TIMEOUT")
}

pub fn server_over_two_nodes() -> Row {
    let cluster = Cluster::with_links();
    let case = Case::begin("two-node server and harness");
    let program = env!("CARGO_BIN_EXE_regatta");
    // Rank 0 answers, on the first node; the other one waits, as TensorRT-LLM's do in leader mode.
    let script = format!(
        r#"echo $SLURMD_NODENAME >> "$W/ranks"; if [ $SLURM_PROCID = 0 ]; then exec {program} sim serve --repository "$2" --grpc-port "$1" --grpc-address 0.0.0.0; fi; exec sleep 1000"#
    );
    let script = serde_json::Value::String(script);
    let world = cluster.world(&format!(
        r#"{ENGINE}
  server:
    host: {{ slurm: {{ time: 10m, nodes: 2, tasks_per_node: 1, poll: 1s }} }}
    serve:
      command:
        words: [srun, --kill-on-bad-exit=1, sh, -c, {script}, server, "{{port}}", "{REPOSITORY}"]
  measure:
    bench: {{ target: "{{{{ stages.server }}}}", scenario: offline, stop: {{ requests: 12 }}, input_tokens: {{ fixed: 16 }}, output_tokens: {{ fixed: 8 }}, vocab_size: 1000 }}
"#
    ));
    let ended = world.regatta(&["run", "m"]);
    // A busy machine may make the measurement invalid; that is another matter.
    assert!([0, 3, 4].contains(&ended.code), "{ended:?}");
    ended.shows("▲ server").shows("▼ server");
    let folder = if ended.code == 0 { "latest/measure" } else { ".regatta/failed/measure" };
    let result = read_result(&world.path(folder).join("result.json")).unwrap();
    assert_eq!((result.counts.scheduled, result.counts.ok), (12, 12));
    let endpoint = &result.requested.endpoints[0];
    assert!(
        endpoint.starts_with("10."),
        "{endpoint}: over the bridge, at the address that the controller has for the node"
    );
    let ranks = world.read("ranks");
    let ranks: BTreeSet<&str> = ranks.lines().collect();
    assert_eq!(ranks.len(), 2, "{ranks:?}");
    patiently("its job to be over", || matches!(&cluster.jobs()[..], [job] if !job.starts_with("RUNNING")));
    patiently("all ranks to be gone", || alive_with(world.path("")).is_empty());
    case.end(&cluster, 1, "12 of 12 requests answered over the network; all ranks gone")
}

#[test]
#[ignore = "some ten minutes: the table of all"]
#[expect(clippy::print_stdout, reason = "it is for people")]
fn must_show() {
    type Show = fn() -> Row;
    let all: [Show; 12] = [
        forty_stages,
        forty_that_differ,
        server_over_two_nodes,
        time_limit,
        node_killed,
        link_cut,
        controller_stopped,
        submitter_killed,
        super::arrays::submitter_of_an_array_killed,
        super::arrays::ctrl_c,
        super::endings::preempted,
        super::endings::silent,
    ];
    println!(
        "{:<42} {:>6} {:>4} {:>11} {:>6} {:>10} {:>7}  outcome",
        "case", "needed", "jobs", "submissions", "squeue", "per minute", "seconds"
    );
    for show in all {
        let row = show();
        let rate = row.questions as f64 / row.seconds * 60.0;
        println!(
            "{:<42} {:>6} {:>4} {:>11} {:>6} {:>10.1} {:>7.1}  {}",
            row.case, row.needed, row.jobs, row.submissions, row.questions, rate, row.seconds, row.outcome
        );
    }
}
