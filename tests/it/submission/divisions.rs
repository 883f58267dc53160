//! The divisions beside Closed.

use pretty_assertions::assert_eq;
use regatta::mlperf::{self, FindingWeight, SubmissionCheck, SubmissionReport};
use regatta::rules::Round;
use serde_json::json;

use super::broken::ROUNDS;
use super::fixture::{SCENARIOS, Submission, good, good_of};
use crate::world::World;

/// What the submission check says of a good submission that was changed and then moved to Open.
pub(super) fn in_open(round: &Round, change: impl Fn(&Submission)) -> SubmissionReport {
    let folder = tempfile::tempdir().unwrap();
    let submission = good_of(round, folder.path());
    change(&submission);
    submission.submit_to("open");
    mlperf::examine(&submission.0, round)
}

#[test]
fn a_good_submission_of_each_round_passes_in_open_too() {
    for round in ROUNDS.map(|round| Round::named(round).unwrap()) {
        let examined = in_open(&round, |_| ());
        assert_eq!((examined.refusal_count(), examined.results.len()), (0, 3), "{:#?}", examined.findings);
    }
}

/// The checkers judge Open by tokens, too; that of v6.0 only where it knows the limits of the model.
#[test]
fn open_keeps_the_limits_that_the_checker_of_the_round_has() {
    let ttft = "result_first_token_99.00_percentile_latency_ns";
    let found = |round: &Round, change: &dyn Fn(&Submission)| {
        let examined = in_open(round, change);
        let of_latency = examined.findings.iter().filter(|finding| finding.check == SubmissionCheck::Latency);
        of_latency.map(|finding| finding.weight).collect::<Vec<_>>()
    };
    for name in ["v6.0", "v6.1"] {
        let round = Round::named(name).unwrap();
        let reasoning = found(&round, &|s| {
            s.set("Server/performance/run_1", ttft, &json!(9_100_000_000_u64));
            s.with_reasoning_model();
        });
        let weight = if name == "v6.0" { FindingWeight::Review } else { FindingWeight::Refused };
        assert_eq!(reasoning, [weight], "{name}");
    }
    // Until v5.1 Interactive had its own limits, and since then those of Server.
    for (name, weight) in [("v5.1", FindingWeight::Refused), ("v6.0", FindingWeight::Review)] {
        let of_interactive = |s: &Submission| s.set("Interactive/performance/run_1", ttft, &json!(460_000_000));
        assert_eq!(found(&Round::named(name).unwrap(), &of_interactive), [weight], "{name}");
    }
}

/// What LoadGen was told to judge by is not looked at there.
#[test]
fn limits_in_force_are_those_of_closed() {
    let round = Round::named("v6.1").unwrap();
    let examined = in_open(&round, |s| {
        s.set("Server/performance/run_1", "requested_server_ttft_latency", &json!(5_000_000_000_u64));
    });
    assert_eq!(examined.refusal_count(), 0, "{:#?}", examined.findings);
}

#[test]
fn a_good_submission_of_each_round_passes_in_network_too() {
    for round in ROUNDS.map(|round| Round::named(round).unwrap()) {
        let folder = tempfile::tempdir().unwrap();
        let submission = good_of(&round, folder.path());
        submission.over_a_network();
        submission.describe_network();
        submission.submit_to("network");
        let examined = mlperf::examine(&submission.0, &round);
        assert_eq!((examined.refusal_count(), examined.results.len()), (0, 3), "{:#?}", examined.findings);
    }
}

/// Since v6.0 the official checker asks for the fields of a network wherever `is_network` has a text.
#[test]
fn is_network_in_words_is_a_reason_since_v6_0() {
    for (name, refused) in [("v5.1", 0), ("v6.0", 1), ("v6.1", 1)] {
        let round = Round::named(name).unwrap();
        let examined = in_open(&round, |s| s.field(&s.system(), "is_network", Some(json!("false"))));
        assert_eq!(examined.refusal_count(), refused, "{name}: {:#?}", examined.findings);
        let fixes = examined.with_weight(FindingWeight::Refused).map(|finding| finding.fix.as_str());
        assert!(fixes.into_iter().all(|fix| fix == "take `is_network` out"), "{:#?}", examined.findings);
    }
}

/// The record of an assembled submission has the division that it is in.
#[test]
fn the_lock_names_the_network_division() {
    let world = World::new();
    let submission = good(&world.path("a"));
    submission.over_a_network();
    submission.describe_network();
    submission.submit_to("network");
    let system = submission.system();
    let json = system.strip_prefix(submission.0.join("closed")).unwrap();
    let json = submission.0.join("network").join(json).display().to_string();
    let results = submission.0.join("network/Example/results").join(super::fixture::SYSTEM);
    let mut arguments = vec!["mlperf".to_owned(), "assemble".into(), "--out".into(), "whole".into()];
    for scenario in SCENARIOS {
        let folder = results.join(super::fixture::BENCHMARK).join(scenario);
        let logs = format!("{json}:{}:{scenario}={}", super::fixture::BENCHMARK, folder.display());
        arguments.extend(["--logs".to_owned(), logs]);
    }
    world.regatta(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let lock: serde_json::Value =
        serde_json::from_str(&world.read("whole/network/Example/documentation/regatta.lock")).unwrap();
    assert_eq!(lock["division"], json!("network"));
}
