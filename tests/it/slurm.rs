//! Stages as jobs of a real Slurm: a controller and four virtual nodes on this machine, one cluster for each test.
//! `tests/parts/slurm.sh` brings them up, and installs Slurm where it is missing.

mod arrays;
mod cases;
pub mod cluster;
mod endings;

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::services::ENGINE;
use crate::world::{Ended, World, signal};
use cluster::Cluster;

/// Waits for something that Slurm does in its own time: it notices a lost node after half a minute.
#[track_caller]
fn patiently(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(5);
    while !is() {
        assert!(Instant::now() < deadline, "waited five minutes for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// One stage whose job says where it is, and waits for a gate.
const GATED: &str = r#"
stages:
  it:
    host: { slurm: { time: 10m, poll: 1s } }
    shell: |
      echo $SLURMD_NODENAME >> "$W/nodes"
      echo begun > out
      while [ ! -e "$W/gate" ]; do sleep 0.1; done
      echo done >> out
"#;

/// An engine, and a server that a job starts.
fn served(below: &str) -> String {
    format!(
        r#"{ENGINE}
  server:
    host: {{ slurm: {{ time: 10m, poll: 1s }} }}
    serve: {{ simulator: {{ repository: "{{{{ stages.models.out }}}}" }} }}
{below}"#
    )
}

/// Starts a run of [`GATED`], and kills it once its job has begun.
fn kill_submitter(world: &World, command: &[&str]) {
    let mut run = world.start(command);
    world.await_file("nodes");
    run.kill().unwrap();
    run.wait().unwrap();
}

fn end(child: Child) -> Ended {
    Ended::of(child)
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_stage_runs_on_a_node_and_where_it_ran_is_no_part_of_what_it_made() {
    let cluster = Cluster::up();
    let world = cluster.world(
        r#"
stages:
  here: { shell: 'echo here > out' }
  there:
    host: { slurm: { partition: gpu, time: 5m, nodes: 1, poll: 1s } }
    gpus: 1
    env: { WHO: me }
    shell: |
      echo "$WHO $CUDA_VISIBLE_DEVICES ${SBATCH_TIMELIMIT-none}" > out
      cat {{ stages.here.out }}/out >> out
      echo $SLURMD_NODENAME > "$W/node"
      echo said by the job
  after: { shell: 'cat {{ stages.there.out }}/out > out' }
"#,
    );
    let mut command = world.command(&["run", "m"]);
    // A person's default, which the job must not inherit; and an allocation of somebody else's.
    command.env("SBATCH_TIMELIMIT", "7").env("SLURM_JOB_ID", "999").stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = Ended::of(command.spawn().unwrap());
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(ended.ran(), ["after", "here", "there"]);
    cluster.node(&world, "node");
    let out = world.read("latest/after/out");
    assert!(out.starts_with("me 0 none\n"), "{out}");
    assert!(out.ends_with("\nhere\n"), "{out}");
    world.good(&["logs", "there"]).shows("said by the job");
    assert!(!world.path(".regatta/jobs").read_dir().unwrap().any(|_| true), "its folder goes when it has been judged");
    assert_eq!(cluster.jobs().len(), 1);

    assert!(world.good(&["run", "m"]).ran().is_empty());
    let text = world.read("manifests/m.yaml").replace("partition: gpu, time: 5m, ", "time: 6m, ");
    world.file("manifests/m.yaml", &text);
    assert!(world.good(&["run", "m"]).ran().is_empty(), "another place makes the same");
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_stage_that_fails_there_is_reported_as_if_it_had_failed_here() {
    let cluster = Cluster::up();
    let world = cluster.world(
        "stages:\n  it:\n    host: { slurm: { time: 5m, poll: 1s } }\n    shell: 'echo almost; echo no such engine >&2; exit 3'\n",
    );
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1);
    ended.shows("exit code 3").shows("no such engine");
    assert_eq!(cluster.jobs().len(), 1);
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn what_slurm_will_not_take_or_never_start_is_reported_at_once() {
    let cluster = Cluster::up();
    let world = cluster.world(
        r"
stages:
  nowhere: { host: { slurm: { partition: gpuu, poll: 1s } }, shell: 'echo x > out' }
  odd: { host: { slurm: { mem: 12 Gigs, poll: 1s } }, shell: 'echo x > out' }
  never: { host: { slurm: { partition: short, time: 30m, poll: 1s } }, shell: 'echo x > out' }
",
    );
    let ended = world.regatta(&["run", "m", "--only", "nowhere"]);
    assert_eq!(ended.code, 1);
    ended.shows("Slurm rejects its job: invalid partition specified: gpuu").shows("--partition=gpuu");
    let ended = world.regatta(&["run", "m", "--only", "odd"]);
    assert_eq!(ended.code, 1);
    ended.shows("Slurm rejects its job: Invalid --mem specification");
    let ended = world.regatta(&["run", "m", "--only", "never"]);
    assert_eq!(ended.code, 1);
    ended.shows("will never start: it requests more time than its partition allows (PartitionTimeLimit)");
    let jobs = cluster.jobs();
    assert!(jobs.len() == 1 && jobs[0].starts_with("CANCELLED"), "{jobs:?}");
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn the_submitter_is_killed_and_the_next_run_goes_on_with_its_job() {
    cases::submitter_killed();
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn the_submitter_is_killed_and_the_job_ends_before_anybody_looks() {
    let cluster = Cluster::up();
    let world = cluster.world(GATED);
    kill_submitter(&world, &["run", "m"]);
    world.file("gate", "");
    patiently("the job to end", || cluster.jobs().iter().all(|job| job.starts_with("COMPLETED")));
    let ended = world.good(&["run", "m"]);
    ended.shows("job 1, which an earlier run submitted, has ended meanwhile");
    assert_eq!(world.read("latest/it/out"), "begun\ndone\n");
    assert_eq!((world.count("nodes"), cluster.calls("sbatch")), (1, 1));
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn the_submitter_is_killed_and_its_job_cancelled_and_the_next_run_submits_another() {
    let cluster = Cluster::up();
    let world = cluster.world(GATED);
    kill_submitter(&world, &["run", "m"]);
    cluster.query(&["scancel", "1"]);
    patiently("the job to end", || cluster.jobs().iter().all(|job| job.starts_with("CANCELLED")));
    world.file("gate", "");
    let ended = world.good(&["run", "m"]);
    ended.shows("was cancelled before this run began; it is submitted again");
    assert_eq!((world.count("nodes"), cluster.calls("sbatch")), (2, 2));
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn ctrl_c_cancels_the_job() {
    let cluster = Cluster::up();
    let world = cluster.world(GATED);
    let run = world.start(&["run", "m"]);
    world.await_file("nodes");
    signal(&run, "INT");
    let ended = end(run);
    assert_eq!(ended.code, 130, "{ended:?}");
    ended.shows("stopped, and its job cancelled");
    let jobs = cluster.jobs();
    assert!(jobs.len() == 1 && !jobs[0].starts_with("RUNNING") && !jobs[0].starts_with("PENDING"), "{jobs:?}");
    assert!(!world.path(".regatta/jobs").read_dir().unwrap().any(|_| true));
    world.file("gate", "");
    world.good(&["run", "m"]);
    assert_eq!(world.count("nodes"), 2, "the second run has a job of its own");
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_node_is_killed_and_the_stage_is_submitted_again() {
    cases::node_killed();
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_link_is_cut_and_what_the_old_attempt_still_writes_counts_for_nothing() {
    cases::link_cut();
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn the_controller_stops_while_a_job_is_submitted_and_there_is_one_job() {
    cases::controller_stopped();
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_job_that_runs_into_its_time_limit_is_warned_of_and_told() {
    cases::time_limit();
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn the_timeout_of_a_stage_counts_from_its_start_there() {
    let cluster = Cluster::up();
    let world = cluster.world(
        "stages:\n  it:\n    host: { slurm: { time: 5m, poll: 1s } }\n    timeout: 2s\n    shell: 'sleep 1000'\n",
    );
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("it ran past its timeout of 2 s");
    // In an allocation that is there already likewise.
    let ended = world.regatta(&["run", "m", "--on", "slurm", "--slurm", "time=5m", "--slurm", "poll=1s"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("it ran past its timeout of 2 s");
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_server_in_a_job_is_measured_from_here_and_gone_afterwards() {
    let cluster = Cluster::up();
    let world = cluster.world(
        r#"
stages:
  engine:
    engine:
      backend: simulator
      precision: fp8
      model: { name: tiny, architecture: LlamaForCausalLM, parameters: 1000000, num_hidden_layers: 2, hidden_size: 64, intermediate_size: 128, num_attention_heads: 4, num_key_value_heads: 4, vocab_size: 1000, max_position_embeddings: 2048 }
      system: { name: sim, gpus: 1, memory_gb: 141, bandwidth_gbs: 4800, tflops_16bit: 989 }
      build_flags: { max_batch_size: 16, max_num_tokens: 2048, max_input_len: 256, max_seq_len: 512, tokens_per_block: 32 }
  models:
    repository: { engine: "{{ stages.engine.out }}", streaming: true, models: [tensorrt_llm] }
  server:
    host: { slurm: { time: 10m, poll: 1s } }
    serve: { simulator: { repository: "{{ stages.models.out }}" } }
  user:
    shell: 'echo {{ stages.server }} > out; cp "$W/.regatta/jobs"/*/claim claim'
"#,
    );
    let ended = world.good(&["run", "m"]);
    ended.shows("▲ server").shows("▼ server");
    // The address at which the node answers, found when the server was up.
    assert!(world.read("latest/user/out").starts_with("127.0.0.1:"), "{}", world.read("latest/user/out"));
    let claim = world.read("latest/user/claim");
    assert!(claim.ends_with(" \"1\"\n"), "a seal, and the number of the job: {claim}");
    // It ends by itself when it is asked to.
    patiently("its job to be over", || matches!(&cluster.jobs()[..], [job] if job.starts_with("COMPLETED")));
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_job_that_is_just_writing_its_claim_is_not_taken_for_a_second_one() {
    let cluster = Cluster::up();
    let world = cluster.world(GATED);
    let run = world.start(&["run", "m"]);
    patiently("the job to begin", || world.count("nodes") == 1);
    let jobs = world.path(".regatta/jobs").read_dir().unwrap();
    let claim = jobs.map(|job| job.unwrap().path().join("claim")).next().unwrap();
    let whole = std::fs::read(&claim).unwrap();
    // Where the file is made, and not written yet.
    std::fs::write(&claim, "").unwrap();
    let looks = cluster.calls("squeue");
    patiently("the queue to be seen twice", || cluster.calls("squeue") > looks + 2);
    std::fs::write(&claim, whole).unwrap();
    world.file("gate", "");
    let ended = end(run);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!((cluster.calls("scancel"), world.count("nodes")), (0, 1));
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn an_error_of_the_filesystem_is_not_the_end_of_a_job() {
    let cluster = Cluster::up();
    let world = cluster.world(GATED);
    let run = world.start(&["run", "m"]);
    world.await_file("nodes");
    let mut jobs = world.path(".regatta/jobs").read_dir().unwrap();
    let job = jobs.next().unwrap().unwrap().path();
    // In the place of the record of its end, which replaces it: a link to itself, which cannot be followed.
    std::os::unix::fs::symlink("ended.json", job.join("ended.json")).unwrap();
    patiently("a notice", || world.newest_journal().contains("the run tries to read it again"));
    world.file("gate", "");
    let ended = end(run);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!((cluster.calls("scancel"), world.count("nodes")), (0, 1));
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_job_of_another_manifest_with_the_same_stage_name_is_left_alone() {
    let cluster = Cluster::up();
    let world = cluster.world(GATED);
    world.manifest("other", &GATED.replace("nodes", "others"));
    kill_submitter(&world, &["run", "m"]);
    let other = world.start(&["run", "other"]);
    world.await_file("others");
    world.file("gate", "");
    let ended = end(other);
    assert_eq!(ended.code, 0, "{ended:?}");
    // It may still run, or have ended meanwhile.
    world.good(&["run", "m"]).shows("job 1, which an earlier run submitted");
    assert_eq!((cluster.calls("scancel"), world.count("nodes"), cluster.jobs().len()), (0, 1, 2));
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_whole_run_in_one_allocation() {
    let cluster = Cluster::up();
    let world = cluster.world(
        r#"
stages:
  a: { shell: 'echo $SLURM_JOB_ID > out; echo $SLURM_JOB_ID > "$W/job"' }
  b:
    host: { slurm: { partition: short, poll: 1s } }
    shell: 'echo $SLURM_JOB_ID $SLURM_JOB_NUM_NODES > out; cat {{ stages.a.out }}/out >> out'
  c: { when: "{{ fail }}", shell: 'echo went wrong >&2; exit 9' }
params:
  fail: { switch: {}, default: false }
"#,
    );
    let on = ["run", "m", "--on", "slurm", "--slurm", "nodes=2", "--slurm", "time=5m", "--slurm", "poll=1s"];
    let ended = world.good(&on);
    assert_eq!(ended.ran(), ["a", "b"], "what it says there is said here");
    assert_eq!(world.read("latest/b/out"), "1 2\n1\n", "one allocation, of two nodes");
    assert_eq!(cluster.jobs().len(), 1);
    let failing: Vec<&str> = on.iter().copied().chain(["fail=true"]).collect();
    let ended = world.regatta(&failing);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("exit code 9").shows("went wrong");
    assert!(!world.path(".regatta/jobs").read_dir().unwrap().any(|_| true));
    let mistaken = world.regatta(&["run", "m", "--on", "slurm", "--slurm", "partitoin=gpu"]);
    assert_eq!(mistaken.code, 2);
    mistaken.shows("partitoin");
    assert_eq!(cluster.jobs().len(), 2);
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn the_command_around_an_allocation_is_killed_and_said_again() {
    let cluster = Cluster::up();
    let world = cluster.world(&GATED.replace("    host: { slurm: { time: 10m, poll: 1s } }\n", ""));
    let on = ["run", "m", "--on", "slurm", "--slurm", "time=5m", "--slurm", "poll=1s"];
    kill_submitter(&world, &on);
    let queries = cluster.calls("squeue");
    let again = world.start(&on);
    // The job must not end before it was seen running: the second query begins when the first is answered.
    patiently("the job to be found", || cluster.calls("squeue") > queries + 1);
    world.file("gate", "");
    let ended = end(again);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.shows("continues job 1").shows("✓ it");
    assert_eq!((world.count("nodes"), cluster.jobs().len()), (1, 1));

    fs::remove_file(world.path("gate")).unwrap();
    let run = world.start(&[&on[..], &["--force"]].concat());
    patiently("it to run again", || world.count("nodes") == 2);
    signal(&run, "INT");
    let ended = end(run);
    assert_eq!(ended.code, 130, "{ended:?}");
    let jobs = cluster.jobs();
    assert!(jobs.len() == 2 && !jobs[1].starts_with("RUNNING"), "{jobs:?}");
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_server_over_two_nodes_is_measured_over_the_network() {
    cases::server_over_two_nodes();
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn what_a_killed_run_left_and_no_run_can_go_on_with_is_cancelled() {
    let cluster = Cluster::up();
    let world = cluster.world(&served(
        r#"  user:
    host: { slurm: { time: 10m, poll: 1s } }
    shell: 'echo {{ stages.server }} > out; touch "$W/using"; while [ ! -e "$W/gate" ]; do sleep 0.1; done'
"#,
    ));
    let mut run = world.start(&["run", "m"]);
    world.await_file("using");
    run.kill().unwrap();
    run.wait().unwrap();
    // Another command is another key: the job of the old one makes what nobody wants any more.
    let text = world.read("manifests/m.yaml").replace("touch \"$W/using\"", "touch \"$W/again\"");
    world.file("manifests/m.yaml", &text);
    world.file("gate", "");
    let ended = world.good(&["run", "m"]);
    ended.shows("of server, which an earlier run left behind").shows("of user, which an earlier run left behind");
    patiently("everything to be over", || {
        cluster.jobs().iter().all(|job| !job.starts_with("RUNNING") && !job.starts_with("COMPLETING"))
    });
    let jobs = cluster.jobs();
    assert_eq!(jobs.len(), 4, "{jobs:?}");
    assert!(!world.path(".regatta/jobs").read_dir().unwrap().any(|_| true));
}

#[test]
#[ignore = "needs a Slurm cluster"]
fn a_stage_in_a_container_is_run_through_pyxis() {
    let cluster = Cluster::up();
    let world = cluster.world(
        r#"
stages:
  inside:
    host: { slurm: { time: 5m, poll: 1s, container: { image: "nvcr.io#nvidia/tritonserver:24.12", mounts: ["/models:/models:ro"] } } }
    env: { WHO: me }
    shell: |
      echo $PYXIS_TEST_IMAGE > out
      echo $PYXIS_TEST_MOUNTS > "$W/mounts"
      echo $PYXIS_TEST_WORKDIR = $OUT > "$W/workdir"
      echo $PYXIS_TEST_ENV $WHO > "$W/env"
  gone:
    host: { slurm: { time: 5m, poll: 1s, container: { image: missing } } }
    shell: 'echo x > out'
"#,
    );
    world.good(&["run", "m", "--only", "inside"]);
    assert_eq!(world.read("latest/inside/out"), "nvcr.io#nvidia/tritonserver:24.12\n");
    let here = fs::canonicalize(world.path("")).unwrap();
    assert_eq!(world.read("mounts"), format!("{0}:{0},/models:/models:ro\n", here.display()));
    let workdir = world.read("workdir");
    let (workdir, out) = workdir.trim().split_once(" = ").unwrap();
    assert_eq!(workdir, out);
    assert_eq!(world.read("env"), "WHO,OUT me\n");
    let ended = world.regatta(&["run", "m", "--only", "gone"]);
    assert_eq!(ended.code, 1);
    ended.shows("failed to import docker image: missing");
}
