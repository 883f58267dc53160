//! Pages of comparisons made from made-up results. With `REGATTA_PAGES` set to a folder they are written there.

use serde_json::{Value, json};

use crate::compare::{CompareRules, ComparedResult, Comparison, RunSet, document};
use crate::test_runs;
use interop::MeasuredRun;

/// 300 requests at 20 a second, TTFT `by` ms.
fn measured_run(name: &str, by: impl Fn(u64) -> f64, change: impl FnOnce(&mut Value)) -> MeasuredRun {
    let traces = (0..300_u64).map(|index| test_runs::trace(index, index as f64 * 50.0, by(index)));
    let metric = |zero: &str| {
        json!({ "unit": "ms", "n": 300, "population": "successful requests", "zero_point": zero,
            "token_source": "output_ids", "window": "full", "percentile_rule": "nearest rank, sorted element \
                floor(N·p)",
            "mean": by(1), "p50": by(1), "p90": by(2), "p95": by(3), "p99": by(4) })
    };
    let slices: Vec<Value> =
        (0..15).map(|n| json!({ "second": n, "tokens": 60, "in_flight": 4 + n % 3, "ttft_ms": by(n) })).collect();
    let mut result = json!({
        "verdict": "valid", "schedule_digest": "one", "started": "2026-11-20T22:43:01Z",
        "requested": { "scenario": { "server": { "rate": 20.0 } }, "endpoints": [format!("{name}:8001")],
            "input_len": { "uniform": { "min": 4, "max": 12 } }, "ttft_p99_limit_ms": null },
        "counts": { "ok": 300 }, "tokens": { "input": 2400, "output": 900, "source": "output_ids" },
        "latency": { "ttft": metric("schedule"), "tpot": metric("first_chunk"), "e2e": metric("schedule") },
        "rates": { "requests_full": 19.5, "output_tokens": 58.5 }, "slices": slices,
    });
    change(&mut result);
    MeasuredRun { name: name.to_owned(), result: test_runs::result_of(result), request_traces: traces.collect() }
}

fn noise(index: u64) -> f64 {
    (index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f64 / f64::from(1 << 24) * 40.0
}

fn page(file: &str, measured_runs: &[MeasuredRun]) -> String {
    let sets: Vec<RunSet> = measured_runs.iter().map(|run| RunSet::single(ComparedResult::new(run))).collect();
    page_of(file, measured_runs, &sets)
}

fn page_of(file: &str, measured_runs: &[MeasuredRun], sets: &[RunSet]) -> String {
    let (first, others) = sets.split_first().expect("results");
    let comparisons: Vec<_> =
        others.iter().map(|other| Comparison::new(first, other, CompareRules::default())).collect();
    let page = document(sets, &comparisons, measured_runs).html().expect("a page");
    if let Some(folder) = std::env::var_os("REGATTA_PAGES") {
        std::fs::write(std::path::Path::new(&folder).join(file), &page).expect("written");
    }
    page
}

#[test]
fn differences_distributions_courses_and_how_it_was_measured_are_on_one_page() {
    let a = measured_run("before", |index| 100.0 + noise(index), |_| {});
    let b = measured_run("after", |index| 112.0 + noise(index), |_| {});
    let text = page("compared.html", &[a, b]);
    for wanted in [
        "B against A",
        "+11.",
        "one run: not judged",
        "TTFT: cumulative % of requests",
        "Requests in flight",
        "same arrivals and prompts",
    ] {
        assert!(text.contains(wanted), "no {wanted}");
    }
    assert!(text.contains("uniform min 4, max 12") || text.contains("uniform max 12, min 4"));
    assert!(text.matches(r#"class="curve c1""#).count() >= 5, "B is in every picture");
    assert!(text.contains("before:8001") && text.contains(r#"<tr class="differs">"#), "endpoints differ");
    for unwanted in ["<script", "http:", "https:", "<img", "<link", "@import", "url("] {
        let text = text.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "");
        assert!(!text.contains(unwanted), "{unwanted}");
    }
}

#[test]
fn a_difference_beyond_its_bar_is_an_arrow() {
    let a = measured_run("before", |_| 100.0, |_| {});
    let b = measured_run("after", |_| 361.0, |_| {});
    let text = page("beyond.html", &[a, b]);
    assert!(text.contains("class=\"beyond none\"") && text.contains("Bars are cut at ± 100 %"), "{text}");
    assert!(
        text.replace("&#x2f;", "/").contains("Difference: (other − A) / A, of the means. With several runs"),
        "one run on each side is not a pair"
    );
}

#[test]
fn several_runs_are_judged_on_the_page() {
    let side = |name: &str, from: f64| -> Vec<MeasuredRun> {
        (0..4).map(|run| measured_run(name, move |index| from + f64::from(run) / 10.0 + noise(index), |_| {})).collect()
    };
    let (a, b) = (side("before", 100.0), side("after", 112.0));
    let set = |runs: &[MeasuredRun]| {
        RunSet::new(runs[0].name.clone(), runs.iter().map(ComparedResult::new).collect()).expect("one load")
    };
    let text = page_of("runs.html", &[a[0].clone(), b[0].clone()], &[set(&a), set(&b)]);
    for wanted in [
        "4 runs",
        "3 worse",
        "exploratory: 6 worse",
        "means over 4 runs of 1 plan and 4 runs of 1 plan;",
        "of the first run of each",
        "not paired: all runs of both sides had the same arrivals and prompts",
    ] {
        assert!(text.contains(wanted), "no {wanted}");
    }
}

#[test]
fn what_is_not_alike_is_refused_with_the_reason_in_the_first_place() {
    let a = measured_run("a", |_| 100.0, |_| {});
    let b = measured_run("b", |_| 110.0, |result| result["requested"]["scenario"]["server"]["rate"] = json!(40.0));
    let text = page("refused.html", &[a.clone(), b]);
    assert!(text.contains("not comparable") && text.contains("load: request_rate 20 &#x2f; 40"));
    assert!(!text.contains("+10.0 %"));
    let c = measured_run("c", |_| 110.0, |result| result["latency"]["ttft"]["zero_point"] = json!("issue"));
    let text = page("unlike.html", &[a, c]);
    assert!(text.contains("3 not comparable") && text.contains("zero point: schedule &#x2f; issue"));
    assert!(text.contains("not the same by definition, B: zero point"), "the picture shows it, too");
}

#[test]
fn names_from_outside_stay_text() {
    let a = measured_run("<script>alert(1)</script>", |_| 100.0, |_| {});
    let b = measured_run("b\u{1b}[2J", |_| 110.0, |_| {});
    let text = page("evil.html", &[a, b]);
    assert!(!text.contains("<script>") && !text.contains('\u{1b}'));
}
