//! Each block, from results as they are written.

use serde_json::{Value, json};

use super::*;
use crate::test_runs;

fn blocks(result: Value) -> Vec<ResultBlock> {
    sections(test_runs::result_of(result).own().expect("Regatta's own"), None)
}

fn block(result: &Value, title: &str) -> ResultBlock {
    blocks(result.clone()).into_iter().find(|block| block.title == title).unwrap_or_else(|| panic!("no `{title}`"))
}

#[test]
fn a_percentile_among_the_unanswered_is_infinite_and_says_how_many_they_are() {
    let adjusted = json!({ "n": 100, "unanswered": 10, "p50": 51.0, "p90": null, "p95": null, "p99": null });
    let section = block(&json!({ "latency": { "ttft_adjusted": adjusted } }), "Percentiles with failures counted");
    assert_eq!(
        section.rows,
        [["TTFT ms", "100", "10", "51", "∞, 10 unanswered", "∞, 10 unanswered", "∞, 10 unanswered"]]
    );
    let adjusted = json!({ "n": 100, "unanswered": 0, "p50": 51.0, "p90": 1.0, "p95": 1.0, "p99": 1.0 });
    assert!(
        blocks(json!({ "latency": { "ttft_adjusted": adjusted } })).is_empty(),
        "with no failure it is TTFT itself"
    );
}

#[test]
fn slo_attainment_lists_limits_and_counts() {
    let goodput = json!({ "slo": { "ttft_ms": 450.0, "tpot_ms": null, "e2e_ms": 9000.0 }, "good": 95, "of": 100,
        "attainment": 0.95, "requests": 9.5, "output_tokens": 950.0 });
    let section = block(&json!({ "goodput": goodput, "tokens": { "source": "output_ids" } }), "SLO attainment");
    assert!(section.about.contains("TTFT ≤ 450 ms, E2E ≤ 9,000 ms"), "{}", section.about);
    assert_eq!(section.facts[0], ["SLO attainment", "95 %", "95 of 100 scheduled requests"]);
    assert!(section.facts[2][2].contains("tokens from output_ids"));
}

#[test]
fn an_slo_on_a_time_that_no_answer_has_is_met_by_no_number() {
    let goodput = json!({ "slo": { "ttft_ms": null, "tpot_ms": 25.0, "e2e_ms": null }, "good": 0, "of": 9,
        "attainment": null, "requests": null, "output_tokens": null });
    let section = block(&json!({ "goodput": goodput }), "SLO attainment");
    assert_eq!(section.facts, [["SLO attainment", "n/a", "no answer has a time per token"]]);
}

#[test]
fn the_steady_part_stands_beside_the_full_window() {
    let steady = json!({ "from_s": 2.0, "to_s": 9.0, "requests": 70, "requests_per_s": 11.0, "ttft": { "p50": 20.0 } });
    let result = json!({ "steady": steady, "rates": { "requests_full": 10.0 }, "latency": { "ttft": { "p50": 25.0 } },
        "stability": { "changes": [{ "metric": "TPOT", "at_s": 4.5, "before_ms": 20.0, "after_ms": 25.0 }] } });
    let section = block(&result, "Steady part and full window");
    assert_eq!(section.rows[0], ["requests per second", "10", "11", "+10.0 %"]);
    assert_eq!(section.rows[1], ["TTFT p50", "25", "20", "-20.0 %"]);
    assert_eq!(section.facts[0][..2], ["TPOT before and after 4.5 s", "20 → 25 ms"]);
}

#[test]
fn a_search_is_an_interval_with_all_its_probes() {
    let search = json!({ "bounds": { "low": 10.0, "high": 160.0, "precision": 0.1 }, "ttft_p99_limit_ms": 400.0,
        "tpot_p99_limit_ms": null, "found": { "at_least": 40.0, "below": 44.0 }, "probes": [
            { "rate": 40.0, "met": true, "ttft_p99_ms": 25.0, "tpot_p99_ms": 5.0, "output_tokens_per_s": 160.0 },
            { "rate": 44.0, "met": false, "ttft_p99_ms": 9000.0, "tpot_p99_ms": 5.0, "why": "limits: TTFT p99" } ] });
    let search: SearchReport = serde_json::from_value(search).expect("a search");
    let block = sections(&test_runs::result(), Some(&search)).remove(0);
    assert_eq!(block.title, "The search for the highest rate");
    assert_eq!(block.facts[0][1], "40 – 44");
    assert_eq!(block.rows[1], ["2", "44", "9,000", "5", "n/a", "missed: limits: TTFT p99"]);
    let [picture] = block.plots.as_slice() else { panic!("one limit, one picture") };
    for wanted in ["limit 400 ms", "found: 40 – 44 req/s", "44 req/s: TTFT p99 9,000 ms", "40 req/s: TTFT p99 25 ms"]
    {
        assert!(picture.contains(wanted), "{wanted}");
    }
    assert!(
        block.about.starts_with("Highest rate with TTFT p99 ≤ 400 ms: bracketed, not estimated; the last probe"),
        "{}",
        block.about
    );
    assert!(serde_json::from_value::<SearchReport>(json!({ "probes": [] })).is_err());
}

#[test]
fn the_interval_of_a_search_by_limits_is_that_of_its_estimate() {
    let mut search = json!({ "model": "tiny", "limits": ["E2E p95 ≤ 4s"],
        "estimate": { "rate": 115.2, "low": 110.0, "high": 121.0, "probes": 6, "slope": 8.0 },
        "bounds": { "low": 10.0, "high": 160.0, "precision": 0.1 }, "found": { "at_least": 110.0, "below": 121.0 },
        "probes": [{ "rate": 118.0, "met": true }, { "rate": 110.0, "met": false, "why": "limits: E2E p95" }] });
    let block = |search: &serde_json::Value| {
        let search: SearchReport = serde_json::from_value(search.clone()).expect("a search");
        sections(&test_runs::result(), Some(&search)).remove(0)
    };
    let section = block(&search);
    let wanted = "Highest rate with E2E p95 ≤ 4s: estimated as 115 req/s, with a 95 % interval; the last probe, at \
        its lower end, missed.";
    assert!(section.about.starts_with(wanted), "{}", section.about);
    assert_eq!([&section.facts[0][1], &section.facts[1][1]], ["115", "110 – 121"]);
    assert_eq!(section.facts[1][0], "its 95 % interval");
    // The line through the probes may be 0 above all rates that may be tried.
    search["estimate"]["rate"] = json!(170.0);
    search["found"] = json!({ "at_least": 150.0, "below": null });
    let above = block(&search);
    assert!(above.about.contains("estimated as 160 req/s or more, with"), "{}", above.about);
    assert_eq!([&above.facts[0][1], &above.facts[1][1]], ["160 or more", "150 or more"]);
    // An estimate of no probes, as earlier versions wrote it, is none.
    search["estimate"]["probes"] = json!(0);
    search["found"] = json!({ "at_least": 110.0, "below": null });
    let far = block(&search);
    assert!(
        far.about.contains("not reached: nothing above 110 req/s was tried; the last probe, at this rate, missed.")
    );
    assert_eq!(far.facts[0][..2], ["requests per second", "110 or more"]);
    assert!(!far.facts.iter().flatten().any(|text| text.contains("95 %")), "{:?}", far.facts);
    // Without an estimate there is no interval of one.
    search["estimate"] = serde_json::Value::Null;
    search["found"] = json!({ "at_least": 160.0, "below": null });
    let highest = block(&search);
    assert!(highest.about.contains("the limits held at the highest rate that may be tried"), "{}", highest.about);
    assert_eq!(highest.facts[0][1], "160 or more");
    search["probes"] =
        json!([{ "rate": 160.0, "met": true }, { "rate": 160.0, "met": false, "why": "limits: E2E p95" }]);
    let about = block(&search).about;
    assert!(about.contains("nothing above 160 req/s was tried; the last probe, at this rate, missed"), "{about}");
}

#[test]
fn stamps_cancellations_outputs_sessions_and_the_load_are_shown_with_what_was_counted() {
    let metric =
        json!({ "unit": "ms", "n": 9, "population": "successful requests", "percentile_rule": "nearest rank" });
    let result = json!({
        "requested": { "think": { "uniform": { "min": 10.0, "max": 20.0 } } },
        "server": { "queue": metric, "ttft": metric, "without": 1 },
        "cancellations": { "by": "rpc", "after_tokens": 3, "share": 0.5, "requests": 5, "tokens": 20,
            "end_after_cancel": metric },
        "outputs": { "context_logits": { "responses": 9, "bytes": 4096, "misshapen": 2, "example": "[1, 2]" } },
        "load": { "zero_point": "the intended arrival", "held_back": 7, "max_in_flight": 16, "in_flight_max": 16,
            "sessions": { "count": 4, "turns_mean": 2.5, "turns_max": 3, "ttft_first": metric, "ttft_later": metric } },
        "tokens": { "source": "usage", "input_source": "words", "input": 90, "input_server": 99, "output": 50 },
    });
    assert_eq!(block(&result, "Server time stamps").metrics.len(), 2);
    assert!(block(&result, "Cancelled requests").about.contains("by rpc, after 3 tokens; 50 % of the requests"));
    assert_eq!(block(&result, "Other outputs").rows, [["context_logits", "9", "4,096", "2", "[1, 2]"]]);
    assert_eq!(block(&result, "Sessions").facts[1][1], "2.5");
    let facts = block(&result, "Load delivery").facts;
    assert!(facts.iter().any(|fact| fact[1] == "7" && fact[2].contains("because 16 requests")), "{facts:?}");
    assert!(facts.iter().any(|fact| fact[1] == "uniform, 10 to 20 ms"), "{facts:?}");
    let facts = block(&result, "Tokens").facts;
    assert!(facts.iter().any(|fact| fact[1] == "99" && fact[2].contains("its usage")), "{facts:?}");
}

#[test]
fn a_row_for_each_host() {
    let host = |name: &str, ok: u64| HostShare {
        host: name.to_owned(),
        ok,
        output_tokens_per_s: Some(100.0),
        ttft: Metric { p99: Some(12.5), ..Metric::default() },
        ..HostShare::default()
    };
    let mut result = test_runs::result();
    assert!(hosts(&result).is_none());
    result.hosts = vec![host("a", 3), host("b", 4)];
    let block = hosts(&result).unwrap();
    assert!(servers(&result).is_none());
    result.endpoints = vec![host("a:1", 3), host("a:2", 2), host("b:1", 4)];
    let of_servers = servers(&result).unwrap();
    assert_eq!((of_servers.title, of_servers.head[0], of_servers.rows.len()), ("Servers", "server", 3));
    assert_eq!(block.rows[1], ["b", "4", "0", "n/a", "100", "n/a", "n/a", "12.5", "n/a", "n/a", "n/a", "n/a"]);
}

#[test]
fn a_row_for_each_number_over_runs() {
    let over =
        json!({ "unit": "ms", "values": [10.0, 12.0, 11.0], "mean": 11.0, "stddev": 1.0, "low": 8.5, "high": 13.5 });
    let run = json!({ "folder": "repeats/01", "seed": 1, "verdict": "valid", "started": "" });
    let file = json!({ "runs": [run, run, run], "shown": 1, "over_runs": { "ttft_p99": over } });
    let mut result = test_runs::result();
    assert!(over_runs(&result).is_none());
    result.repeats = serde_json::from_value(file).unwrap();
    let block = over_runs(&result).unwrap();
    assert_eq!(block.rows, [["TTFT p99, ms", "11", "8.5 … 13.5", "9.09 %", "10 12 11"]]);
    assert!(block.about.contains("3 runs"));
}
