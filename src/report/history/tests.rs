//! Series of measurements: what belongs to one, and what changes in it.

use super::*;
use crate::styler::Styler;
use crate::test_runs;
use interop::MeasuredRun;

/// The measurement of one run: its throughput, what its server was, and its rate.
fn point(number: usize, tokens_per_s: f64, version: &str, rate: f64) -> HistoryPoint {
    let result = test_runs::result_of(json!({
        "verdict": if tokens_per_s < 800.0 { "invalid_client" } else { "valid" },
        "latency": {}, "rates": { "output_tokens": tokens_per_s },
        "requested": { "scenario": { "server": { "rate": rate } }, "endpoints": [version] },
        "counts": { "ok": 400 }, "tokens": { "input": 3200, "output": 1200 },
    }));
    let measured = MeasuredRun { name: "load".to_owned(), result, request_traces: Vec::new() };
    HistoryPoint {
        run: RunId::new(format!("20261120-2243{number:02}.017-4711")),
        tags: if number == 3 { vec!["before-upgrade".parse().unwrap()] } else { Vec::new() },
        manifest: "quickstart".to_owned(),
        task: "load/server".to_owned(),
        started: format!("2026-11-20T22:43:{number:02}Z"),
        result: ComparedResult::new(&measured),
    }
}

#[test]
fn a_change_of_level_has_the_run_and_what_differs_there() {
    let of = |n: usize| match n {
        4 => point(n, 700.0, "gpu7:8001", 10.0),
        0..8 => point(n, 1_000.0 + (n % 3) as f64, "gpu7:8001", 10.0),
        _ => point(n, 1_100.0 + (n % 3) as f64, "gpu8:8001", 10.0),
    };
    let points = (0..14).map(of).chain([point(14, 900.0, "gpu7:8001", 20.0)]).collect();
    let all = series(points, &[MetricKey::read("output_tokens")], 100);
    insta::assert_snapshot!(document(&all).terminal(Styler::OFF), @"
    quickstart · load/server (request_rate 10)  14 measurements, 13 valid
      started (UTC)         run                       verdict          output tokens, /s           tags
      2026-11-20T22:43:00Z  20261120-224300.017-4711  VALID                        1,000
      2026-11-20T22:43:01Z  20261120-224301.017-4711  VALID                        1,001
      2026-11-20T22:43:02Z  20261120-224302.017-4711  VALID                        1,002
      2026-11-20T22:43:03Z  20261120-224303.017-4711  VALID                        1,000           before-upgrade
      2026-11-20T22:43:04Z  20261120-224304.017-4711  INVALID(client)                700
      2026-11-20T22:43:05Z  20261120-224305.017-4711  VALID                        1,002
      2026-11-20T22:43:06Z  20261120-224306.017-4711  VALID                        1,000
      2026-11-20T22:43:07Z  20261120-224307.017-4711  VALID                        1,001
      2026-11-20T22:43:08Z  20261120-224308.017-4711  VALID                        1,102  +10.0 %
      2026-11-20T22:43:09Z  20261120-224309.017-4711  VALID                        1,100
      2026-11-20T22:43:10Z  20261120-224310.017-4711  VALID                        1,101
      2026-11-20T22:43:11Z  20261120-224311.017-4711  VALID                        1,102
      2026-11-20T22:43:12Z  20261120-224312.017-4711  VALID                        1,100
      2026-11-20T22:43:13Z  20261120-224313.017-4711  VALID                        1,101
      output tokens +10.0 % (better) from 20261120-224308.017-4711 on: mean 1,001 before, 1,101 after, p 0.0030; what \
      differs there:
          endpoints: gpu7:8001 / gpu8:8001

    quickstart · load/server (request_rate 20)  1 measurement, 1 valid
      started (UTC)         run                       verdict  output tokens, /s  tags
      2026-11-20T22:43:14Z  20261120-224314.017-4711  VALID                  900
      output tokens: too few values; a change needs 8 or more valid measurements
    ");
    let json = json(&all);
    assert_eq!(json["series"][0]["changes"][0]["place"], 8);
    assert_eq!(json["series"][0]["points"][4]["verdict"], "invalid_client");
    assert_eq!(series(vec![of(0), of(1), of(2)], &[], 2)[0].points.len(), 2);
}

/// Eight runs have a throughput, and the last seven a TTFT too, in which nothing was looked for.
#[test]
fn a_metric_with_too_few_values_is_not_one_without_a_change() {
    let measurement = |n: usize| {
        let mut point = point(n, 1_000.0 + (n % 3) as f64, "gpu7:8001", 10.0);
        let mut ttft = point.result.measures[0].clone();
        (ttft.key, ttft.stats) = ("ttft".to_owned(), vec![("p99", 100.0)]);
        point.result.measures.extend((n > 0).then_some(ttft));
        point
    };
    let keys = ["output_tokens", "ttft_p99"].map(MetricKey::read);
    let notes = |count: usize| -> Vec<String> {
        notes(&series((0..count).map(measurement).collect(), &keys, 100)[0]).collect()
    };
    let (few, same) = ("too few values; a change needs 8 or more valid measurements", "no change of level was found");
    assert_eq!(notes(8), [format!("TTFT p99: {few}"), format!("output tokens: {same}")]);
    assert_eq!(notes(9), [format!("output tokens, TTFT p99: {same}")]);
    assert_eq!(notes(7), [format!("output tokens, TTFT p99: {few}")]);
}

#[test]
fn a_series_is_of_one_server_and_one_model() {
    let on = |number: usize, name: &str, port: u16, model: &str| {
        let server = json!({ "address": format!("127.0.0.1:{port}"), "name": name });
        let client = json!({ "host": "c", "os": "linux", "arch": "x86_64", "cores": 2 });
        let identity = json!({ "simulated": false, "regatta": "0.1.0", "servers": [server], "client": client });
        let result = test_runs::result_of(json!({
            "latency": {}, "rates": { "output_tokens": 900.0 }, "identity": identity, "requested": {
                "model": model, "endpoints": [format!("127.0.0.1:{port}")],
                "scenario": { "server": { "rate": 5.0 } }, "stop_requests": number,
            },
        }));
        let measured = MeasuredRun { name: "load".to_owned(), result, request_traces: Vec::new() };
        HistoryPoint { result: ComparedResult::new(&measured), ..point(number, 900.0, "", 5.0) }
    };
    let keys = [MetricKey::read("output_tokens")];
    // A server that the run starts has another port each time.
    let spawned = [on(1, "stage server", 40_001, "toy"), on(2, "stage server", 40_002, "toy")];
    let all = series(spawned.to_vec(), &keys, 100);
    assert_eq!((all.len(), all[0].load.as_str()), (1, ""));
    let shown = document(&all).terminal(Styler::OFF);
    assert!(shown.contains("\n  toy @ stage server (KServe gRPC) · 5 req/s Poisson · "), "{shown}");
    assert!(!shown.contains("2 requests"), "a series may have several durations: {shown}");
    let [first, second] = [18_200, 18_201].map(|port| on(3, &format!("127.0.0.1:{port}"), port, "toy"));
    let other_model = on(4, "127.0.0.1:18200", 18_200, "tiny");
    let all = series(vec![first, second, other_model], &keys, 100);
    let loads: Vec<&str> = all.iter().map(|series| series.load.as_str()).collect();
    assert_eq!(
        loads,
        [
            "model tiny, server 127.0.0.1:18200",
            "model toy, server 127.0.0.1:18200",
            "model toy, server 127.0.0.1:18201"
        ]
    );
}

/// Five measurements with one seed and five with another: that other arrivals give another number is no change of
/// the server.
#[test]
fn a_change_of_the_plan_is_neither_better_nor_worse() {
    let of = |plan: fn(usize) -> String| -> String {
        let one = |n: usize| {
            let tokens = if n < 5 { 1_000.0 } else { 900.0 } + (n % 3) as f64;
            let mut point = point(n, tokens, "gpu7:8001", 10.0);
            point.result.digest = Some(plan(n));
            point
        };
        document(&series((0..10).map(one).collect(), &[MetricKey::read("output_tokens")], 100)).terminal(Styler::OFF)
    };
    let shown = of(|n| format!("plan {}", n / 5));
    assert!(shown.contains("output tokens -10.0 % (not judged: with other arrivals and prompts) from"), "{shown}");
    // The same plan all the time, and another one each time.
    assert!(of(|_| "plan".to_owned()).contains("output tokens -10.0 % (worse) from"));
    assert!(of(|n| format!("plan {n}")).contains("output tokens -10.0 % (worse) from"));
}

#[test]
fn searches_are_one_series_of_the_rates_that_they_found() {
    let searched = |number: usize, rate: f64, below: Option<f64>, limit: &str| {
        let search = json!({
            "model": "tiny", "limits": [limit], "probes": [], "found": { "at_least": rate, "below": below },
        });
        let mut point = point(number, 900.0, "gpu7:8001", rate);
        point.result = point.result.with_search(&serde_json::from_value(search).unwrap());
        point
    };
    let (limit, other) = ("TTFT p99 ≤ 400ms", "TTFT p99 ≤ 200ms");
    let found = [searched(0, 10.0, Some(11.0), limit), searched(1, 12.0, Some(13.0), limit)];
    let all = series(found.to_vec(), &[MetricKey::read("output_tokens")], 100);
    assert_eq!((all.len(), all[0].metrics.len(), all[0].name().as_str()), (1, 1, "quickstart · load/server"));
    assert_eq!(all[0].metrics[0].values, [(0, 10.0), (1, 12.0)]);
    // Other limits are another series, and a lower bound is no rate.
    let more = [searched(2, 40.0, None, limit), searched(3, 6.0, Some(7.0), other)];
    let all = series([found, more].concat(), &[MetricKey::read("output_tokens")], 100);
    let names: Vec<String> = all.iter().map(HistorySeries::name).collect();
    assert_eq!(names, [other, limit].map(|limit| format!("quickstart · load/server (limits {limit})")));
    assert_eq!(all[1].metrics[0].values, [(0, 10.0), (1, 12.0)]);
    let shown = document(&all).terminal(Styler::OFF);
    assert!(shown.contains("40.0 or more") && !shown.contains("12.0 or more"), "{shown}");
    assert!(shown.contains("12.0 (no interval)"), "{shown}");
    let mut estimated = searched(4, 102.1, Some(172.4), limit);
    if let Some(found) = &mut estimated.result.searched {
        (found.rate, found.low, found.high) = (132.7, Some(102.1), Some(172.4));
    }
    let all_estimated = series(vec![estimated], &[MetricKey::read("output_tokens")], 100);
    let shown = document(&all_estimated).terminal(Styler::OFF);
    assert!(shown.contains("133 (102 … 172)"), "{shown}");
    let json = json(&all);
    assert_eq!(json["series"][1]["points"][2]["lower_bounds"], json!(["found_rate"]));
}

/// TTFT p99 of five runs is 200, 300, 300, 300, 300 ms: the result shows the first of them, and the measurement
/// had 280 ms.
#[test]
fn a_measurement_of_several_runs_has_their_mean() {
    let run = json!({ "folder": "repeats/01", "seed": 1, "verdict": "valid", "started": "" });
    let over =
        |unit: &str, values: [f64; 5]| json!(harness::AcrossRuns::new(unit, values.to_vec()).expect("several values"));
    let result = test_runs::result_of(json!({
        "latency": { "ttft": { "unit": "ms", "p99": 200.0, "p50": 90.0, "percentile_rule": "nearest rank" } },
        "rates": { "output_tokens": 900.0 },
        "requested": { "scenario": { "server": { "rate": 10.0 } } },
        "repeats": { "runs": vec![run; 5], "shown": 1, "over_runs": {
            "ttft_p99": over("ms", [200.0, 300.0, 300.0, 300.0, 300.0]),
            "output_tokens": over("/s", [900.0, 1_000.0, 1_000.0, 1_000.0, 1_100.0]),
        } },
    }));
    let measured = MeasuredRun { name: "load".to_owned(), result, request_traces: Vec::new() };
    let point = HistoryPoint { result: ComparedResult::new(&measured), ..point(1, 1_000.0, "gpu7:8001", 10.0) };
    let value = |key: &str| point.value(&MetricKey::read(key));
    assert_eq!((value("ttft_p99"), value("output_tokens")), (Some(280.0), Some(1_000.0)));
    assert_eq!(value("ttft_p50"), None, "not every run has it, and that of the first is not the measurement's");
    let all = series(vec![point.clone()], &[MetricKey::read("ttft_p99")], 100);
    let shown = document(&all).terminal(Styler::OFF);
    assert!(shown.contains("VALID, mean of 5 runs           280"), "{shown}");
    let json = json(&all);
    assert_eq!(
        (&json["series"][0]["points"][0]["values"]["ttft_p99"], &json["series"][0]["points"][0]["mean_of_runs"]),
        (&json!(280.0), &json!(5))
    );
}

#[test]
fn a_key_is_a_metric_and_its_statistic() {
    for key in ["ttft_p99", "output_tokens", "tpot_mean", "requests_loadgen_completed"] {
        assert_eq!(MetricKey::read(key).to_string(), key);
    }
}
