//! MLPerf's rules before and after a run: what a plan tells of its tests, and whether audits hold.

use crate::world::World;

/// A benchmark with LoadGen; `more` are keys of `loadgen`.
fn bench(name: &str, scenario: &str, more: &str) -> String {
    format!(
        "  {name}:\n    bench:\n      target: 127.0.0.1:1\n      scenario: {scenario}\n      loadgen: {{ library: lib, dataset: data, \
         round: v6.1, benchmark: llama2-70b-99.9, {more} }}\n"
    )
}

#[test]
fn a_plan_tells_how_long_its_tests_take_and_which_scenario_is_missing() {
    let mut manifest = "stages:\n".to_owned();
    manifest += &bench("performance", "server", "target_qps: 100");
    manifest += &bench("narrow", "interactive", "target_qps: 41");
    manifest += &bench("accuracy", "offline", "mode: accuracy");
    manifest += &bench("audit", "server", "target_qps: 100, mode: test06");
    manifest += "  pack:\n    mlperf:\n      package:\n        round: v6.1\n        submitter: us\n        system: s\n        results:\n\
                 \x20         - benchmark: llama2-70b-99.9\n            scenario: server\n            performance: \"{{ stages.performance.out }}\"\n\
                 \x20           accuracy: \"{{ stages.accuracy.out }}\"\n            score: \"{{ stages.accuracy.out }}\"\n";
    let world = World::with(&manifest);
    world.file("lib/a", "").file("data/a", "");
    let planned = world.good(&["plan", "m"]);
    planned
        .shows("performance: 100 qps × 600 s → 73,728 queries (3 × 24,576), about 12 min 13 s until the last one arrives\n")
        .shows("narrow: 41 qps × 600 s → 49,152 queries (2 × 24,576), about 19 min 53 s until the last one arrives; up to 40.64 qps one data set less is enough: 10 min 0 s\n")
        .shows("accuracy: 24,576 samples at once, each sample once\n")
        .shows("audit: 100 qps × 0 s → 100 queries, about 1.1 s until the last one arrives\n")
        .shows("pack: a closed submission of llama2-70b-99.9 in v6.1 must hold Offline, too\n");
}

/// The file beside LoadGen's logs.
const TEST: &str = r#"{ "round": "v6.1", "benchmark": "llama2-70b-99.9", "scenario": "server", "mode": "test06", "division": "closed",
    "rehearsal": true, "loadgen_version": "6.0.17", "seeds": { "qsl": 1, "sample_index": 2, "schedule": 3 },
    "dataset": { "benchmark": "llama2-70b-99.9", "synthetic": true, "samples": 48, "sha256": "" },
    "target_qps": 100, "sut_name": "", "result": "INVALID", "errors": 0 }"#;

#[test]
fn an_audit_passes_or_names_the_sample_that_offends() {
    let world = World::with(
        "stages:\n  verify: { mlperf: { verify: { round: v6.1, benchmark: llama2-70b-99.9, audit: tests/golden/mlperf/logs/test06-server } } }\n",
    );
    let logs = "tests/golden/mlperf/logs/test06-server";
    world.copy(logs).file(&format!("{logs}/test.json"), TEST);
    world.good(&["run", "m"]).shows("TEST06 passes: 100 answers looked at");
    assert!(world.read("latest/verify/verify_accuracy.txt").ends_with("TEST06 verification complete\n"));
    let log = format!("{logs}/mlperf_log_accuracy.json");
    let spoilt = world.read(&log).replacen("\"token_count\" : ", "\"token_count\" : 9", 1);
    world.file(&log, &spoilt);
    let failed = world.regatta(&["run", "m"]);
    assert_ne!(failed.code, 0);
    failed.shows("TEST06 fails").shows("sample 4 (query 0): 93 tokens were reported, and the answer has 3");
}
