//! Pages made from made-up runs. With `REGATTA_PAGES` set to a folder they are written there, to be looked at.

use serde_json::{Value, json};

use super::*;
use crate::styler::Styler;
use crate::test_runs;
use harness::{Goodput, LoadPattern, RunResult, Slo, WHOLE_ANSWERS};

fn folded_state(events: &[base::event::Event], seconds: &[f64]) -> RunState {
    let mut run_state = RunState::new();
    for (n, event) in events.iter().enumerate() {
        run_state.fold_at(event, seconds.get(n).copied().or(Some(66.9)));
    }
    run_state
}

fn metric(zero: &str, scale: f64) -> Value {
    json!({
        "unit": "ms", "n": 3000, "population": "successful requests", "excluded": 0, "zero_point": zero,
        "token_source": "output_ids", "window": "whole run", "percentile_rule": "nearest rank, sorted element \
            floor(N·p)",
        "mean": 80.0 * scale, "p50": 61.25 * scale, "p90": 150.0 * scale, "p95": 180.5 * scale, "p99": 212.4 * scale,
        "min": 20.0 * scale, "max": 340.0 * scale, "p99_interval": null, "no_interval": "mean: not enough values: \
            300 of 2000",
    })
}

fn curve(scale: f64) -> Value {
    let points = (0..=200).map(|n| {
        let fraction = f64::from(n) / 200.0;
        json!([(20.0 + 60.0 * -(1.0 - fraction * 0.99).ln()) * scale, fraction])
    });
    Value::Array(points.collect())
}

fn result() -> PageResult {
    let slices = (0..62).map(|n| {
        let wave = (f64::from(n) / 6.0).sin();
        json!({ "second": n, "tokens": (1204.0 + 90.0 * wave) as u64, "in_flight": (14.0 + 6.0 * wave) as u64,
            "ttft_ms": 80.0 + 20.0 * wave })
    });
    let result = test_runs::result_of(json!({
        "verdict": "valid_with_warnings",
        "reasons": [
            { "check": "drift", "severity": "warning", "text": "the second half is 3.1 % slower than the first" },
            { "check": "limits", "severity": "warning", "text": "p99 of TPOT rests on 31 requests" },
        ],
        "requested": { "scenario": { "server": { "rate": 9.5 } }, "seed": 4_711_471_147u64, "model": "tensorrt_llm" },
        "counts": { "scheduled": 3000, "ok": 3000, "failed": 0, "not_sent": 0, "conserved": true },
        "rates": { "window_s": 62.4, "offered": 9.5, "requests_full": 9.412, "output_tokens": 1204.4 },
        "latency": { "ttft": metric("schedule", 1.0), "tpot": metric("first_chunk", 0.1), "e2e": metric("schedule",
            9.0) },
        "slices": slices.collect::<Vec<_>>(),
        "curves": { "ttft": curve(1.0), "tpot": curve(0.1), "e2e": curve(9.0) },
    }));
    PageResult::new(TaskId::new("load/server"), result)
}

fn page(name: &str, events: &[base::event::Event], results: &[PageResult]) -> String {
    let seconds = [0.0, 0.0, 0.0, 0.01, 0.02, 0.03, 1.28, 1.3, 30.0, 63.7, 66.0, 66.1, 66.5, 66.9];
    let page = run_page(&folded_state(events, &seconds), results, &[], &test_runs::plan()).expect("a page");
    if let Some(folder) = std::env::var_os("REGATTA_PAGES") {
        std::fs::write(std::path::Path::new(&folder).join(name), &page).expect("written");
    }
    // The template engine escapes `/` as well.
    page.replace("&#x2f;", "/")
}

#[test]
fn a_page_has_verdict_metrics_definitions_curves_and_origin() {
    let page = page("valid.html", &test_runs::valid(), &[result()]);
    for wanted in [
        "VALID WITH WARNINGS · 1,204 tok/s · TTFT p99 212 ms",
        "drift: the second half",
        "from schedule",
        "sorted element floor(N·p)",
        "no 95 % interval from this run alone: mean: not enough values: 300 of 2000",
        "TTFT: cumulative % of requests",
        "Output tokens in each second",
        "1,204",
        "Requests in flight",
        "timeline of the tasks",
        "graph of the tasks",
        "regatta run quickstart system=sim</code>",
        "system=sim",
        "4711471147",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
}

#[test]
fn a_run_of_loadgen_shows_its_numbers_and_comes_before_its_accuracy_run() {
    let loadgen_result = |task: &str, mode: &str, metrics: Value| {
        let result = test_runs::result_of(json!({
            "requested": { "scenario": "offline" }, "counts": { "scheduled": 256, "ok": 256 },
            "rates": { "window_s": 62.4, "requests_full": 9.4, "output_tokens": 32_711.0 },
            "latency": { "ttft": metric("schedule", 1.0) },
            "loadgen": { "scenario": "Offline", "mode": mode, "rehearsal": true, "result": "VALID",
                "headline": "132261.00 tok/s", "metrics": metrics },
        }));
        PageResult::new(TaskId::new(task), result)
    };
    let metrics = json!([
        { "metric": "result_tokens_per_second", "unit": "1/s", "loadgen": 132_261.0 },
        { "metric": "result_samples_per_second", "unit": "1/s", "loadgen": 1_033.29 },
    ]);
    let results = [
        loadgen_result("accuracy/offline", "accuracy", json!([])),
        loadgen_result("run_harness/offline", "performance", metrics),
    ];
    let page = page("loadgen.html", &test_runs::valid(), &results);
    let (top, rest) = page.split_once("<nav").unwrap();
    for wanted in ["<b>run_harness/offline</b>", "132,261 tok/s", "1,033 samples/s", "badge odd\">REHEARSAL<"] {
        assert!(top.contains(wanted), "{wanted}: {top}");
    }
    assert!(!top.contains("32,711") && !top.contains("TTFT"), "{top}");
    let table = rest.split("</table>").next().unwrap();
    assert!(table.contains("accuracy run, no speed is measured") && !table.contains("32,711"), "{table}");
    assert!(table.find("run_harness/offline") < table.find("accuracy/offline"), "{table}");
    assert!(table.contains("VALID REHEARSAL"), "{table}");
}

/// A server that answers alone in 100 ms and at most 100 requests per second; one point is the client's, one above
/// the limit.
fn sweep(scale: f64) -> SweepReport {
    let latency = |ms: f64| {
        let number = |value: f64| json!({ "value": value, "low": value * 0.95, "high": value * 1.05 });
        json!({ "n": 500, "mean": number(ms), "p50": number(ms * 0.9), "p90": number(ms * 1.3),
            "p99": number(ms * 1.8) })
    };
    let points = [1u32, 2, 4, 8, 16, 32, 64, 128].map(|users| {
        let rate = (f64::from(users) * 10.0).min(100.0 * scale);
        let e2e = f64::from(users) / rate * 1e3;
        let verdict = match users {
            32 => "invalid_client",
            128 => "limit_missed",
            2 => "valid_with_warnings",
            _ => "valid",
        };
        let reason = |text: &str, severity: &str| json!([{ "check": "lag", "severity": severity, "text": text }]);
        json!({
            "level": { "users": users }, "verdict": verdict, "folder": format!("points/c{users}"),
            "reasons": match users { 32 => reason("the client was late", "invalid_client"), 128 => reason("TTFT p99 \
                is above", "limit_missed"), _ => json!([]) },
            "scheduled": 500, "ok": 500, "requests_per_s": rate, "output_tokens_per_s": rate * 50.0,
            "tokens_per_s_per_gpu": rate * 25.0, "tokens_per_s_per_user": 5e4 / e2e, "goodput_per_s": rate * 0.9,
                "attainment": 0.9,
            "ttft": latency(e2e * 0.2), "tpot": latency(e2e * 0.8 / 50.0), "e2e": latency(e2e),
                "on_front": verdict.starts_with("valid"),
        })
    });
    let knee = json!({ "definition": "the point with the highest power", "state": "bracketed",
        "level": { "users": 8 }, "point": 3, "power": 8.0 });
    serde_json::from_value(json!({
        "schema": 1, "axis": "concurrency", "points": points, "knee": knee, "ttft_p99_limit_ms": 150.0,
        "gpus": { "count": 2, "source": "nvidia-smi" }, "slo": { "ttft_ms": 100.0, "tpot_ms": null, "e2e_ms": null },
    }))
    .expect("a sweep")
}

fn sweep_page(name: &str, sweeps: &[(String, SweepReport)]) -> String {
    let page = run_page(&folded_state(&test_runs::valid(), &[0.0]), &[], sweeps, &test_runs::plan()).expect("a page");
    if let Some(folder) = std::env::var_os("REGATTA_PAGES") {
        std::fs::write(std::path::Path::new(&folder).join(name), &page).expect("written");
    }
    page.replace("&#x2f;", "/")
}

#[test]
fn a_sweep_is_a_sentence_three_numbers_a_picture_and_one_table() {
    let page = sweep_page("sweep.html", &[("bench".to_owned(), sweep(1.0))]);
    for wanted in [
        "7 of 8 points",
        "8 points, from 1 user to 128 users; up to 5,000 output tokens per second",
        "beyond 8 users more load costs more latency than it brings throughput",
        "Throughput per GPU over interactivity",
        "limit of p99: 150 ms",
        "SLO of each request: 100 ms",
        "Goodput: requests per second",
        "c8 knee",
        "TTFT p99 36 ms (34.2 … 37.8)",
        "the client was late",
        "class=\"unusable\"",
    ] {
        let wanted = wanted.replace("7 of 8 points", "6 of 8 points VALID");
        assert!(page.contains(&wanted), "{wanted}");
    }
    let levels: Vec<usize> = [1, 2, 4, 8, 16, 32, 64, 128]
        .map(|users| page.find(&format!("<th scope=\"row\" class=\"nw\">{users}")).expect("a row"))
        .to_vec();
    assert!(levels.is_sorted(), "in numeric order");
}

/// The head has `SIMULATED` once, and no verdict that the run's own word is already.
#[test]
fn the_head_has_each_badge_once() {
    let identity = harness::RunIdentity { simulated: true, ..harness::RunIdentity::default() };
    let simulated = |verdict: &str| {
        let result = test_runs::result_of(json!({ "verdict": verdict, "identity": identity }));
        PageResult::new(TaskId::new("load"), result)
    };
    let head = |results: &[PageResult]| {
        let page = page("simulated.html", &test_runs::valid(), results);
        page.split_once("<nav").unwrap().0.to_owned()
    };
    let both = head(&[simulated("overloaded"), result()]);
    assert!(both.contains(">OVERLOADED SIMULATED<") && both.contains(">VALID WITH WARNINGS<"), "{both}");
    let overloaded = head(&[simulated("overloaded")]);
    assert!(overloaded.contains(">OVERLOADED<"), "{overloaded}");
    assert_eq!(overloaded.matches(">SIMULATED<").count(), 1, "{overloaded}");
}

/// A page of one benchmark has no order and no needs to show.
#[test]
fn one_task_is_no_pipeline() {
    let mut plan = test_runs::plan();
    plan.tasks.truncate(1);
    let run_state = folded_state(&test_runs::valid(), &[0.0]);
    let page = |plan: &Plan| run_page(&run_state, &[result()], &[], plan).expect("a page");
    let sections = |page: &str| [r#"id="timeline""#, r#"id="pipeline""#].map(|section| page.contains(section));
    assert_eq!((sections(&page(&plan)), sections(&page(&test_runs::plan()))), ([false; 2], [true; 2]));
}

#[test]
fn each_point_of_a_sweep_has_all_its_numbers_and_one_is_shown() {
    let sweeps = [("bench".to_owned(), sweep(1.0))];
    let point = |level: &str| PageResult {
        sweep: Some("bench".to_owned()),
        ..PageResult::new(TaskId::new(level), result().result)
    };
    let results = [point("1 user"), point("2 users")];
    let page = run_page(&folded_state(&test_runs::valid(), &[0.0]), &results, &sweeps, &test_runs::plan());
    let page = page.expect("a page");
    assert_eq!(page.matches(r#"<details class="card" name="sweep-1">"#).count(), 2, "{page}");
    assert!(page.contains(r##"href="#sweep-1-2">2</a>"##) && page.contains(r#"id="sweep-1-2""#), "{page}");
    assert!(page.contains("the others are in their folders") && !page.contains("id=\"results\""), "{page}");
    assert!(page.contains("8 levels, 1 … 128 users"), "{page}");
}

#[test]
fn several_sweeps_are_drawn_over_each_other() {
    let page = sweep_page("sweeps.html", &[("load/h200".to_owned(), sweep(1.0)), ("load/h100".to_owned(), sweep(0.6))]);
    assert!(page.contains("2 sweeps with 16 points") && page.contains("Sweeps over each other"));
    assert!(page.find("load/h100").expect("one") < page.find("load/h200").expect("other"));
    assert!(page.contains("class=\"curve c0\"") && page.contains("class=\"curve c1\""));
}

/// A page that is forwarded is read in a mail: 200 points must stay small, and be drawn at once.
#[test]
fn a_sweep_of_two_hundred_points_stays_below_two_megabytes() {
    let mut report = sweep(1.0);
    report.points = (0..25).flat_map(|_| report.points.clone()).collect();
    assert_eq!(report.points.len(), 200);
    let started = std::time::Instant::now();
    let page = sweep_page("sweep-200.html", &[("bench".to_owned(), report)]);
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    assert!(started.elapsed().as_secs_f64() < 2.0, "{:?}", started.elapsed());
}

#[test]
fn results_are_in_numeric_order_in_one_table() {
    let results: Vec<PageResult> =
        ["load/10", "load/2", "load/5"].map(|task| PageResult { task: TaskId::new(task), ..result() }).to_vec();
    let page = page("three.html", &test_runs::valid(), &results);
    let places: Vec<usize> = ["load/2<", "load/5<", "load/10<"].map(|name| page.find(name).expect(name)).to_vec();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn a_page_of_a_failed_run_says_what_to_do() {
    let page = page("failed.html", &test_runs::failing(), &[]);
    for wanted in
        ["out of GPU memory", "kv_cache_free_gpu_mem_fraction", "CUDA error: out of memory", "logs/triton.server.log"]
    {
        assert!(page.contains(wanted), "{wanted}");
    }
}

#[test]
fn a_page_loads_nothing_and_runs_nothing() {
    let page = page("plain.html", &test_runs::valid(), &[result()]);
    let without_namespace = page.replace("http://www.w3.org/2000/svg", "");
    for unwanted in ["<script", "http://", "https://", "<img", "<link", "@import", "url("] {
        assert!(!without_namespace.contains(unwanted), "{unwanted}");
    }
}

#[test]
fn nothing_from_outside_becomes_markup() {
    let evil = "<script>alert('x')</script>\"&\u{1b}[31m";
    let id = TaskId::new(format!("stage/{evil}"));
    let mut plan = test_runs::plan();
    plan.tasks[0].id = id.clone();
    let mut failure =
        base::event::Failure::new(base::event::FailureKind::Exit(1), evil).cause(evil).hint(evil).command(evil);
    failure.tail = vec![evil.to_owned()];
    let events = [
        base::event::Event::TaskStarted {
            task: id.clone(),
            attempt: 1,
            service: false,
            reasons: vec![evil.to_owned()],
            log: None,
        },
        base::event::Event::Notice { task: Some(id.clone()), text: evil.to_owned() },
        base::event::Event::TaskFailed {
            task: id.clone(),
            attempt: 1,
            failure: Box::new(failure),
            will_retry: false,
            seconds: 1.0,
        },
    ];
    let metric = json!({ "percentile_rule": evil, "unit": evil, "population": evil, "no_interval": evil });
    let reason = json!({ "check": evil, "severity": "warning", "text": evil });
    let regatta = test_runs::result_of(json!({ evil: 1, "reasons": [reason], "latency": { "ttft": metric },
        "curves": { evil: [[0, 0], [1, 1]] }, "tokens": { "source": evil } }));
    let imported = test_runs::result_of(
        json!({ "imported": { "tool": evil }, "verdict": "not_judged", "requested": { evil: evil },
        "latency": { evil: { "percentile_rule": evil, "unit": evil } } }),
    );
    let range = json!({ "at_least": 1.0, "below": 2.0 });
    let search: SearchReport = serde_json::from_value(json!({
        "started_from": { "path": evil, "digest": base::files::Digest::hash(b""), "found": range },
        "probes": [{ "rate": 1.0, "met": false, "why": evil, "folder": evil }], "found": range,
    }))
    .expect("a search");
    let results = [regatta, imported]
        .map(|result| PageResult { search: Some(search.clone()), ..PageResult::new(id.clone(), result) });
    let page = run_page(&folded_state(&events, &[0.0, 0.1, 1.0]), &results, &[], &plan).expect("a page");
    assert!(!page.contains("<script"), "markup got through");
    assert!(!page.contains('\u{1b}'));
}

/// The numbers of a search's page are those of one probe: the rate that was found comes first, and they are named.
#[test]
fn a_search_has_the_rate_that_it_found_at_the_top() {
    let search = json!({
        "model": "tiny", "limits": ["TTFT p99 ≤ 100ms"], "bounds": { "low": 10.0, "high": 200.0, "precision": 0.02 },
        "ttft_p99_limit_ms": 100.0,
        "probes": [{ "rate": 200.0, "met": false, "ttft_p99_ms": 900.0 }, { "rate": 102.1, "met": true,
            "ttft_p99_ms": 46.0 }],
        "found": { "at_least": 102.1, "below": 172.4 },
        "estimate": { "rate": 132.7, "low": 102.1, "high": 172.4, "probes": 9, "slope": 7.0 },
    });
    let searched = PageResult { search: Some(serde_json::from_value(search).expect("a search")), ..result() };
    let text = page("search.html", &test_runs::valid(), &[searched]);
    let top = text.split("<nav").next().unwrap();
    assert!(top.contains("133 req/s at TTFT p99 ≤ 100ms, 95 % interval 102 … 172"), "{top}");
    assert!(top.contains("<dt>highest rate</dt><dd><b>133 req/s</b>"), "{top}");
    assert!(top.contains("of probe 2 of 2, at 102 req/s</dt>") && top.contains("TTFT p99 of each probe"), "{top}");
    let below = text.split("<nav").nth(1).unwrap();
    let (before, _) = below.split_once("<dl class=\"facts\">").unwrap();
    assert!(before.contains("The numbers and plots here are those of probe 2 of 2, at 102 req/s"), "{before}");
}

#[test]
fn an_empty_run_has_a_page() {
    let plan = Plan { name: "nothing".to_owned(), ..Plan::default() };
    let page = run_page(&RunState::new(), &[], &[], &plan).expect("a page");
    assert!(page.contains("Nothing had to run"));
}

/// Of several runs of one measurement the table and the head have the means over them, and the head says so.
#[test]
fn repeated_runs_are_their_means() {
    let over = |unit: &str, mean: f64| {
        json!({ "unit": unit, "values": [mean - 1.0, mean, mean + 1.0], "mean": mean,
        "stddev": 1.0, "low": mean - 2.5, "high": mean + 2.5 })
    };
    let run = json!({ "folder": "repeats/01", "seed": 1, "verdict": "valid", "started": "" });
    let mut run_result = result().result.own().expect("one of Regatta's").clone();
    run_result.repeats = serde_json::from_value(json!({
        "runs": [run, run, run], "shown": 1,
        "over_runs": { "output_tokens": over("/s", 1500.0), "ttft_p99": over("ms", 333.0),
            "requests_failed": over("", 7.0) },
    }))
    .expect("repeats");
    let repeated = PageResult { result: MeasuredResult::Regatta(Box::new(run_result)), ..result() };
    let two = ["load/1", "load/2"].map(|task| PageResult { task: TaskId::new(task), ..repeated.clone() });
    let table = page("repeated-two.html", &test_runs::valid(), &two);
    let row = ["1,500", "n/a", "n/a", "333", "n/a", "n/a", "21"];
    let cells = row.map(|text| format!(r#"<td class="n">{text}</td>"#)).concat();
    assert!(table.contains(&cells), "means, and the failures of all runs");
    let page = page("repeated.html", &test_runs::valid(), &[repeated]);
    assert!(page.contains("<b>1,500 tok/s</b>") && page.contains("mean over 3 runs, 95 % 1,498 … 1,502"), "{page}");
    assert!(page.contains(r#"<td class="n">333</td>"#) && !page.contains(r#"<td class="n">1,204</td>"#), "{page}");
    assert!(page.contains("not every run has this number"), "TPOT, which is not that of the first run: {page}");
}

#[test]
fn numbers_in_names_are_ordered_as_numbers() {
    let mut names = ["load/10", "load/2", "load/5", "load", "load/2/b", "engine", "load/2.5"];
    names.sort_by(|a, b| natural_key(a).cmp(&natural_key(b)));
    assert_eq!(names, ["engine", "load", "load/2", "load/2.5", "load/2/b", "load/5", "load/10"]);
}

/// One name is one number: what counts from the send says so, with each load.
#[test]
fn an_offline_result_on_a_terminal_has_the_rows_of_the_other_loads() {
    let file = include_str!("../../../tests/golden/results/benchmark/result.json");
    let mut run: RunResult = serde_json::from_str(file).unwrap();
    run.requested.scenario = LoadPattern::Offline;
    run.latency.ttft.mean = Some(692.45);
    run.latency.ttft_sent.mean = Some(691.13);
    let shown = |run: &RunResult| {
        let measured = MeasuredResult::Regatta(Box::new(run.clone()));
        result_page::result(&TaskId::new("bench"), &measured).terminal(Styler::OFF)
    };
    let text = shown(&run);
    let row = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
    assert!(row("TTFT ms").contains("692") && row("TTFT from the issue ms").contains("691"), "{text}");
    assert!(!text.contains(WHOLE_ANSWERS), "{text}");
    run.client.call = "unary".to_owned();
    assert!(shown(&run).contains(WHOLE_ANSWERS));
}

#[test]
fn an_slo_on_a_time_that_no_answer_has_is_met_by_no_number_on_a_terminal() {
    let file = include_str!("../../../tests/golden/results/benchmark/result.json");
    let mut run: RunResult = serde_json::from_str(file).unwrap();
    let slo = Slo { tpot_ms: Some(25.0), ..Slo::default() };
    run.goodput = Some(Goodput { slo, of: 9, ..Goodput::default() });
    let measured = MeasuredResult::Regatta(Box::new(run));
    let text = result_page::result(&TaskId::new("bench"), &measured).terminal(Styler::OFF);
    assert!(text.contains("no answer has a time per token") && !text.contains("0 of 9"), "{text}");
}
