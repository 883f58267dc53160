//! Against what LoadGen 6.0.17 generated (`tests/golden/mlperf/estimates.json`).

use indexmap::IndexMap;
use serde_json::Value;

use super::Estimate;
use crate::conf::{TestSettings, conf};
use crate::{MlperfScenario, Round, TestRequest};
use base::spec::{Division, TestMode};

/// The settings of a recorded run. LoadGen itself needs no round for them; Regatta takes them from one.
fn settings(row: &Value) -> TestSettings {
    let model = row["model"].as_str().unwrap();
    let round = if model.starts_with("llama3_1-405b") { "v6.0" } else { "v6.1" };
    let (plain, is_interactive) = model.strip_suffix("-interactive").map_or((model, false), |plain| (plain, true));
    let table = Round::named(round).unwrap();
    let (benchmark, _) = table.benchmarks.iter().find(|(_, one)| one.loadgen_model == plain).unwrap();
    let scenario = match row["scenario"].as_str().unwrap() {
        "Offline" => MlperfScenario::Offline,
        "SingleStream" => MlperfScenario::SingleStream,
        _ if is_interactive => MlperfScenario::Interactive,
        _ => MlperfScenario::Server,
    };
    let mode = match (row["mode"].as_str().unwrap(), row["audit"].as_str()) {
        ("AccuracyOnly", _) => TestMode::Accuracy,
        (_, Some("test06")) => TestMode::Test06,
        (_, Some("test07")) => TestMode::Test07,
        _ => TestMode::Performance,
    };
    let mut user_conf: IndexMap<String, Value> =
        row["settings"].as_object().unwrap().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    let target_qps = user_conf.shift_remove("target_qps").and_then(|value| value.as_f64());
    let request = TestRequest {
        round,
        benchmark,
        scenario,
        mode,
        // Open, because recordings set what closed submissions may not; with few samples only rehearsals are allowed.
        division: Division::Open,
        rehearsal: row["dataset_samples"].as_u64() == Some(64),
        target_qps,
        user_conf: &user_conf,
        dataset_samples: row["dataset_samples"].as_u64(),
    };
    let mut settings = conf(&request).unwrap().settings;
    // A rehearsal's own duration and number of queries are not LoadGen's.
    settings.min_duration_ms = row["effective_min_duration_ms"].as_u64().unwrap();
    if request.rehearsal {
        settings.min_query_count = row["effective_min_query_count"].as_u64().unwrap();
    }
    settings
}

#[test]
fn the_estimate_matches_what_loadgen_generates() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/mlperf/estimates.json");
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let seed = Round::named("v6.1").unwrap().loadgen.seeds.schedule;
    let rows = golden["rows"].as_array().unwrap();
    assert!(rows.len() >= 20);
    for row in rows {
        let ours = Estimate::new(&settings(row), seed);
        let count = |key: &str| row[key].as_u64().unwrap();
        let queries = count("generated_query_count") * count("generated_samples_per_query");
        assert_eq!(ours.queries, queries, "{row}\n{ours}");
        if matches!(ours.scenario, MlperfScenario::Server | MlperfScenario::Interactive) {
            let seconds = row["generated_query_duration"].as_f64().unwrap() / 1e9;
            assert!((ours.seconds - seconds).abs() < 1e-3, "{row}\n{ours}: {}", ours.seconds);
        }
    }
}

fn estimate_text(scenario: MlperfScenario, mode: TestMode, target_qps: f64) -> String {
    let none = IndexMap::new();
    let request = TestRequest {
        round: "v6.1",
        benchmark: "llama2-70b-99.9",
        scenario,
        mode,
        division: Division::Closed,
        rehearsal: false,
        target_qps: Some(target_qps),
        user_conf: &none,
        dataset_samples: None,
    };
    let seed = request.find().unwrap().round.loadgen.seeds.schedule;
    Estimate::new(&conf(&request).unwrap().settings, seed).to_string()
}

#[test]
fn an_estimate_in_words() {
    assert_eq!(
        estimate_text(MlperfScenario::Server, TestMode::Performance, 100.0),
        "100 qps × 600 s → 73,728 queries (3 × 24,576), about 12 min 13 s until the last one arrives"
    );
    assert_eq!(
        estimate_text(MlperfScenario::Interactive, TestMode::Performance, 41.0),
        "41 qps × 600 s → 49,152 queries (2 × 24,576), about 19 min 53 s until the last one arrives; up to 40.64 qps \
         one data set less is enough: 10 min 0 s"
    );
    assert_eq!(
        estimate_text(MlperfScenario::Offline, TestMode::Performance, 100.0),
        "1.1 × 100 samples/s × 600 s → 73,728 samples at once (3 × 24,576), about 12 min 17 s at 100 samples/s, and \
         then the longest answers"
    );
    assert_eq!(
        estimate_text(MlperfScenario::Server, TestMode::Accuracy, 10.0),
        "24,576 queries, each sample once, about 40 min 39 s at 10 qps until the last one arrives"
    );
    assert_eq!(
        estimate_text(MlperfScenario::Server, TestMode::Test06, 100.0),
        "100 queries at 100 qps, about 1.1 s until the last one arrives"
    );
}

/// Where the least number decides and not the duration, a product of rate and duration would explain nothing.
#[test]
fn an_estimate_names_the_least_number_where_that_decides() {
    assert_eq!(
        estimate_text(MlperfScenario::Offline, TestMode::Performance, 1.0),
        "24,576 samples at once, about 6 h 49 min at 1 samples/s, and then the longest answers"
    );
    assert_eq!(
        estimate_text(MlperfScenario::Offline, TestMode::Test06, 100.0),
        "100 samples at once, about 1.0 s at 100 samples/s, and then the longest answers"
    );
}

#[test]
fn an_impractical_rate_is_reported_at_once() {
    let text = estimate_text(MlperfScenario::Server, TestMode::Performance, 1e9);
    assert!(text.starts_with("1000000000 qps × 600 s → 600,000,0"), "{text}");
}
