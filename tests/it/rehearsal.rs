//! A submission rehearsed from one command: LoadGen built, performance, accuracy and audit runs, scored, verified, packed.

use std::fs;

use serde_json::Value;

use crate::loadgen;
use crate::world::World;

#[test]
#[ignore = "needs MLPerf's LoadGen: pip, g++ and the network"]
fn a_rehearsal_of_a_submission_is_one_command_and_the_second_time_nothing_is_left_to_do() {
    let mut world = World::new();
    world.env("REGATTA_STORE", loadgen::store());
    let words = ["mlperf/llama2-70b", "--rehearse", "scenarios=offline"];
    let ended = world.good(&[&["run"], &words[..]].concat());
    ended.says("↓ loadgen  from another machine");
    ended.says("LoadGen Offline: VALID").says("TEST06 passes: 100 answers looked at");
    ended.says("REHEARSAL, not for submission: 1 results in closed/Example");

    let packed = world.path("latest/package/closed/Example");
    assert!(packed.join("documentation/REHEARSAL.md").is_file());
    let result = packed.join("results/sim-h200-x4/llama2-70b-99.9/Offline");
    let summary = fs::read_to_string(result.join("performance/run_1/mlperf_log_summary.txt")).unwrap();
    assert!(summary.contains("Result is : VALID"), "{summary}");
    let accuracy = fs::read_to_string(result.join("accuracy/accuracy.txt")).unwrap();
    assert!(accuracy.contains("hash="), "{accuracy}");

    // Looked at as a submission it is refused, and the first reason is what it is.
    let checked = world.regatta(&["mlperf", "check", "latest/package", "--json"]);
    assert_eq!(checked.code, 1, "{checked:?}");
    let examined: Value = serde_json::from_str(&checked.stdout).unwrap();
    let findings = examined["examined"]["findings"].as_array().unwrap();
    let has = |check: &str| findings.iter().any(|finding| finding["check"] == check);
    assert!(has("rehearsal") && has("synthetic data") && has("missing scenario"), "{examined:#}");

    world.good(&[&["mlperf", "status"], &words[..1], &["rehearse=true", "scenarios=offline"]].concat()).says("done");
    let again = world.good(&[&["run"], &words[..]].concat());
    assert!(again.ran().is_empty() && again.stdout.contains("10 cached"), "{}", again.stdout);
}
