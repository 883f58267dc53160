//! Every workload run from its one command to its result, on simulated systems.

use serde_json::Value;

use crate::campaign::nobody_left;
use crate::world::World;

/// Runs a workload on a simulated system and holds the result against what was asked for.
fn run(workload: &str, system: &str, servers: [usize; 2], more: &[&str]) {
    let world = World::new();
    let system = format!("system={system}");
    let mut words = vec!["run", workload, &system, "samples=12", "duration=1s", "target_qps=6"];
    words.extend(more);
    let ended = world.good(&words);
    for (scenario, servers) in ["offline", "server"].into_iter().zip(servers) {
        let result: Value =
            serde_json::from_str(&world.read(format!("latest/run_harness/{scenario}/result.json"))).unwrap();
        assert_eq!(result["counts"]["succeeded"], result["counts"]["scheduled"], "{workload} {scenario}: {result:#}");
        let endpoints = result["spec"]["endpoints"].as_array().map(Vec::len);
        assert_eq!(endpoints, Some(servers), "{workload} {scenario}: {:#}", result["spec"]);
    }
    assert!(!ended.stdout.contains("clone_trt_llm"), "nothing is cloned: {}", ended.stdout);
    let again = world.good(&words);
    assert!(again.stdout.contains("cached in"), "{}", again.stdout);
    nobody_left(&world);
}

#[test]
fn llama2_70b_runs_on_eight_simulated_h200() {
    run("llama2-70b", "sim-h200-x8", [1, 8], &[]);
}

#[test]
fn mixtral_8x7b_runs_on_two_simulated_gh200_with_the_software_of_its_round() {
    run("mixtral-8x7b", "sim-gh200-x2", [1, 1], &[]);
}

#[test]
fn llama3_1_405b_runs_on_four_simulated_gb200() {
    run("llama3.1-405b", "sim-gb200-x4", [1, 1], &[]);
}

#[test]
fn llama3_1_8b_runs_over_openais_interface_on_a_simulated_b200() {
    run("llama3.1-8b", "sim-b200-x1", [1, 1], &[]);
}
