//! A submission rehearsed from one command: LoadGen built, performance, accuracy and audit runs, scored, verified, packed.

use std::fs;

use serde_json::Value;

use crate::loadgen;
use crate::world::World;

/// The scenario of the round with the tightest limits; the manual's chapter has Offline. All three in one package take five minutes:
/// `regatta run llama2-70b package=true --rehearse scenarios=offline,server,interactive system=sim-h200-x8`.
#[test]
#[ignore = "needs MLPerf's LoadGen: pip, g++ and the network"]
fn a_rehearsal_of_a_submission_is_one_command_and_the_second_time_nothing_is_left_to_do() {
    let mut world = World::new();
    world.env("REGATTA_STORE", loadgen::store());
    let arguments = ["llama2-70b", "package=true", "--rehearse", "scenarios=interactive", "system=sim-h200-x8"];
    let ended = world.good(&[&["run"], &arguments[..]].concat());
    ended.shows("LoadGen Interactive: VALID");
    ended.shows("LoadGen Interactive TEST06: n=100").shows("TEST06 passes: 100 answers looked at");
    ended.shows("REHEARSAL, not for submission: 1 results in closed/Example");

    let packed = world.path("latest/package/closed/Example");
    assert!(packed.join("documentation/REHEARSAL.md").is_file());
    let result = packed.join("results/sim-h200-x8/llama2-70b-99.9/Interactive");
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
    assert!(has("rehearsal") && has("synthetic data"), "{examined:#}");
    assert!(has("missing scenario") && !has("counts"), "{examined:#}");

    // Without a manifest it is that of the last run.
    world.good(&["mlperf", "status"]).shows("done");
    let again = world.good(&[&["run"], &arguments[..]].concat());
    assert!(again.ran().is_empty() && again.stdout.contains(" cached"), "{}", again.stdout);
}
