//! The tables against `tests/golden/mlperf/rounds.json`, which has the same from other sources.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Accuracy, Benchmark, Round};
use crate::MlperfScenario;
use base::spec::TestMode;

#[test]
fn every_table_can_be_read_and_carries_its_name() {
    for name in Round::NAMES {
        assert_eq!(Round::named(name).unwrap().name, name);
    }
    assert_eq!(Round::named("v0.5"), None);
}

fn golden() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/mlperf/rounds.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn scenarios(json: &Value) -> Vec<String> {
    let mut names: Vec<String> =
        json.as_array().into_iter().flatten().map(|name| name.as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

fn titles(list: &[MlperfScenario]) -> Vec<String> {
    let mut names: Vec<String> = list.iter().map(|scenario| scenario.title().to_owned()).collect();
    names.sort();
    names
}

/// `["ROUGE1", 44.3, …]`
fn pairs(json: &Value) -> BTreeMap<String, f64> {
    let list = json.as_array().cloned().unwrap_or_default();
    list.chunks(2).map(|pair| (pair[0].as_str().unwrap().to_owned(), pair[1].as_f64().unwrap())).collect()
}

fn bounds(ours: &Benchmark, bound: impl Fn(&Accuracy) -> Option<f64>) -> BTreeMap<String, f64> {
    ours.accuracy.iter().filter_map(|(metric, limits)| Some((metric.clone(), bound(limits)?))).collect()
}

fn same(ours: &BTreeMap<String, f64>, expected: &BTreeMap<String, f64>, of: &str) {
    assert_eq!(ours.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{of}");
    for (metric, value) in ours {
        assert!((value - expected[metric]).abs() < 1e-7, "{of} {metric}: {value}, not {}", expected[metric]);
    }
}

#[test]
fn the_tables_say_what_the_rounds_checkers_say() {
    let golden = golden();
    let rounds = golden["rounds"].as_object().unwrap();
    assert_eq!(rounds.len(), Round::NAMES.len());
    for (name, golden_round) in rounds {
        let round = Round::named(name).unwrap();
        let seeds = &golden_round["seeds"];
        assert_eq!(seeds["qsl_rng_seed"].as_u64(), Some(round.loadgen.seeds.qsl), "{name}");
        assert_eq!(seeds["sample_index_rng_seed"].as_u64(), Some(round.loadgen.seeds.sample_index), "{name}");
        assert_eq!(seeds["schedule_rng_seed"].as_u64(), Some(round.loadgen.seeds.schedule), "{name}");
        assert!(round.loadgen.accepted.contains(&round.loadgen.version), "{name}");
        let models = golden_round["models"].as_object().unwrap();
        let mut names: Vec<_> = round.benchmarks.keys().collect();
        names.sort();
        let mut expected: Vec<_> = models.keys().collect();
        expected.sort();
        assert_eq!(names, expected, "{name}");
        for (model, golden_model) in models {
            let label = format!("{name} {model}");
            let ours = &round.benchmarks[model];
            assert_eq!(titles(&ours.required), scenarios(&golden_model["required"]), "{label}");
            assert_eq!(titles(&ours.one_of), scenarios(&golden_model["optional"]), "{label}");
            same(&bounds(ours, |limits| limits.min), &pairs(&golden_model["accuracy_min"]), &label);
            same(&bounds(ours, |limits| limits.max), &pairs(&golden_model["accuracy_max"]), &label);
            assert_eq!(Some(ours.performance_samples), golden_model["performance_sample_count"].as_u64(), "{label}");
            assert_eq!(Some(ours.dataset_samples), golden_model["dataset_size"].as_u64(), "{label}");
            assert_eq!(ours.accuracy_samples, golden_model["accuracy_sample_count"].as_u64(), "{label}");
            assert_eq!(Some(ours.offline_min_samples), golden_model["offline_min_samples"].as_u64(), "{label}");
            for scenario in ours.scenarios() {
                let json = &golden_model["latency_ms"][scenario.title()];
                let ours = ours.latency.get(&scenario);
                assert_eq!(ours.map(|limit| limit.ttft_ms), json["ttft"].as_f64(), "{label} {scenario:?}");
                assert_eq!(ours.map(|limit| limit.tpot_ms), json["tpot"].as_f64(), "{label} {scenario:?}");
            }
            assert_eq!(ours.target_latency_ms, golden_model["target_latency_ms"].as_f64(), "{label}");
            assert_eq!(titles_of_tests(&ours.tests), scenarios(&golden_model["tests"]), "{label}");
        }
    }
}

fn titles_of_tests(tests: &[TestMode]) -> Vec<String> {
    tests.iter().map(|test| format!("{test:?}").to_uppercase()).collect()
}

#[test]
fn what_the_tables_leave_out_has_no_place_in_them() {
    for name in Round::NAMES {
        for (model, benchmark) in Round::named(name).unwrap().benchmarks {
            let label = format!("{name} {model}");
            assert!(
                benchmark.latency.keys().all(|one| benchmark.scenarios().any(|allowed| allowed == *one)),
                "{label}"
            );
            assert!(benchmark.audits.keys().all(|test| benchmark.tests.contains(test)), "{label}");
            assert_eq!(benchmark.end_ids.is_empty(), !benchmark.tests.contains(&TestMode::Test06), "{label}");
            let bounded_tests = benchmark.tests.iter().filter(|test| **test != TestMode::Test06);
            assert!(bounded_tests.into_iter().all(|test| benchmark.audits.contains_key(test)), "{label}");
            assert!(!benchmark.loadgen_model.contains('.') && !benchmark.loadgen_model.contains("-99"), "{label}");
        }
    }
}

#[test]
fn the_tests_bounds_are_those_of_the_compliance_folder() {
    let round = Round::named("v6.1").unwrap();
    let audits = &round.benchmarks["gpt-oss-120b"].audits;
    let accuracy = audits[&TestMode::Test07].exact_match.unwrap();
    assert_eq!((accuracy.min, accuracy.max), (Some(60.698), None));
    let lengths = audits[&TestMode::Test09].output_tokens.unwrap();
    assert_eq!((lengths.min, lengths.max), (Some(1150.38), Some(1406.02)));
    assert_eq!((audits[&TestMode::Test07].samples, audits[&TestMode::Test09].samples), (990, 6396));
}
