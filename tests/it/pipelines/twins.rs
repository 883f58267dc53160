//! Every workload run from its one command to its result, on simulated systems.

use regatta::event::Verdict;
use regatta::harness::{RunResult, read_result};
use regatta::sim::SimOptions;
use serde_json::json;

use crate::campaign::no_process_left;
use crate::loadgen;
use crate::simulator::ground::{Files, Running};
use crate::world::World;

/// A task's result, also when this machine was too busy for it to be believed.
fn result(world: &World, scenario: &str) -> RunResult {
    let [valid, kept] = [format!("latest/run_harness/{scenario}"), format!(".regatta/failed/run_harness.{scenario}")]
        .map(|folder| world.path(folder).join("result.json"));
    let path = if valid.exists() { valid } else { kept };
    read_result(&path).expect("a result that can be read")
}

/// Runs a workload on a simulated system and holds the results against what was asked for.
fn run(workload: &str, system: &str, servers: [usize; 2]) {
    let world = World::new();
    let system = format!("system={system}");
    let words = ["run", workload, &system, "samples=12", "duration=1s", "target_qps=6", "--keep-going"];
    let ended = world.regatta(&words);
    let mut is_believed = true;
    for (scenario, servers) in ["offline", "server"].into_iter().zip(servers) {
        let result = result(&world, scenario);
        let busy = matches!(result.verdict(), Verdict::InvalidClient | Verdict::Overloaded | Verdict::LimitMissed);
        is_believed &= !busy;
        assert!(busy || result.verdict().is_valid(), "{workload} {scenario}: {ended:?}");
        assert!(result.counts.ok >= 12, "{workload} {scenario}: {:?}", result.counts);
        assert_eq!(result.counts.ok, result.counts.scheduled, "{workload} {scenario}: {:?}", result.counts);
        assert_eq!(
            result.requested.endpoints.len(),
            servers,
            "{workload} {scenario}: {:?}",
            result.requested.endpoints
        );
    }
    assert!(!ended.stdout.contains("✓ clone_trt_llm"), "nothing is cloned: {}", ended.stdout);
    if is_believed {
        assert_eq!(ended.code, 0, "{ended:?}");
        let again = world.good(&words);
        assert!(again.stdout.contains("done: 6 cached, ") && again.ran().is_empty(), "{}", again.stdout);
    }
    no_process_left(&world);
}

#[test]
fn llama2_70b_runs_on_eight_simulated_h200() {
    run("llama2-70b", "sim-h200-x8", [1, 8]);
}

#[test]
fn mixtral_8x7b_runs_on_two_simulated_gh200_with_the_tuning_of_its_round() {
    run("mixtral-8x7b", "sim-gh200-x2", [1, 1]);
}

#[test]
fn llama3_1_405b_runs_on_four_simulated_gb200() {
    run("llama3.1-405b", "sim-gb200-x4", [1, 1]);
}

#[test]
fn llama3_1_8b_runs_over_openais_interface_on_a_simulated_b200() {
    run("llama3.1-8b", "sim-b200-x1", [1, 1]);
}

#[test]
#[ignore = "needs MLPerf's LoadGen: pip, g++ and the network"]
fn with_loadgen_the_harness_is_that_of_the_rules_and_answers_are_scored_and_audited() {
    let mut world = World::new();
    world.env("REGATTA_STORE", loadgen::store());
    let words = ["run", "llama2-70b", "loadgen=true", "--rehearse", "scenarios=offline", "samples=128", "duration=2s"];
    let ended = world.good_when_undisturbed(
        &[&words[..], &["tests=performance,accuracy,test06", "offline_expected_qps=20"]].concat(),
    );
    ended.shows("LoadGen Offline: VALID").shows("128 synthetic samples").shows("TEST06 passes: 100 answers looked at");
    let result = result(&world, "offline");
    assert_eq!(result.counts.ok, result.counts.scheduled, "{:?}", result.counts);
    let conf = world.read("latest/run_harness/offline/user.conf");
    assert!(conf.contains("llama2-70b.Offline.min_duration = 2000"), "{conf}");
    no_process_left(&world);
}

/// A system of v6.0 answers over OpenAI's completions: LoadGen is given the token ids that `detokenize: false` requests, and TEST06
/// compares them with the first token and the number of tokens that were reported.
#[test]
#[ignore = "needs MLPerf's LoadGen: pip, g++ and the network"]
fn loadgen_is_given_token_ids_over_openais_interface() {
    let mut world = World::new();
    world.env("REGATTA_STORE", loadgen::store());
    let words =
        ["run", "llama2-70b", "system=sim-b200-x1", "loadgen=true", "--rehearse", "scenarios=server", "samples=128"];
    let ended =
        world.good_when_undisturbed(&[&words[..], &["tests=performance,accuracy,test06", "duration=2s"]].concat());
    ended.shows("LoadGen Server: VALID").shows("TEST06 passes: 100 answers looked at");
    no_process_left(&world);
}

/// `endpoints=`: servers on two hosts that somebody else brought up, one LoadGen test over both, and a row for each host.
#[test]
#[ignore = "needs MLPerf's LoadGen: pip, g++ and the network"]
fn servers_of_two_hosts_that_are_up_are_measured_by_one_loadgen_and_reported_by_host() {
    let files = Files::built(true, &json!({"triton_max_batch_size": 64}), &json!({}));
    let [first, second] = ["127.0.0.1:0", "127.0.0.2:0"].map(|address| {
        let repository = files.repository();
        Running::start(SimOptions::new(repository, address.parse().expect("an address")))
    });
    let mut world = World::new();
    world.env("REGATTA_STORE", loadgen::store());
    let endpoints = format!("endpoints={}|{}", first.address, second.address);
    let words = ["run", "llama2-70b", "system=h200-x8", "loadgen=true", "--rehearse", "scenarios=offline"];
    let ended = world.regatta(
        &[&words[..], &["tests=performance", "duration=2s", "samples=64", "offline_expected_qps=20", &endpoints]]
            .concat(),
    );
    ended.shows("LoadGen Offline: VALID").shows("127.0.0.1").shows("127.0.0.2");
    let result = result(&world, "offline");
    let hosts: Vec<(&str, bool)> = result.hosts.iter().map(|share| (share.host.as_str(), share.ok > 0)).collect();
    assert_eq!(hosts, [("127.0.0.1", true), ("127.0.0.2", true)]);
    assert_eq!(result.hosts.iter().map(|share| share.ok).sum::<u64>(), result.counts.ok);
    no_process_left(&world);
}
