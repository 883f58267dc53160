//! Differences: judged, paired, reproducible, and gated.

use serde_json::json;

use super::*;
use crate::report::compat::{Chunk, Chunks, Kind, Seen, Told};

/// 400 requests whose TTFT goes through `by` ms.
fn told(name: &str, digest: &str, by: impl Fn(u64) -> f64) -> Told {
    let seen: Vec<Seen> = (0..400)
        .map(|index| {
            let sched = index as f64 * 10.0;
            let at = sched + by(index);
            let chunk = |at| Chunk { at, tokens: 1, kind: Kind::Token };
            Seen {
                index,
                ok: true,
                sched: Some(sched),
                issue: sched,
                end: at + 20.0,
                input: Some(8),
                tokens: Some(3),
                retokenised: None,
                chunks: Chunks::Every(vec![chunk(at), chunk(at + 10.0), chunk(at + 20.0)]),
                error: None,
            }
        })
        .collect();
    let result = json!({
        "verdict": "valid", "schedule_digest": digest, "latency": {}, "rates": {},
        "asked": { "scenario": { "server": { "rate": 100.0 } } },
        "counts": { "ok": 400 }, "tokens": { "input": 3200, "output": 1200 },
    });
    Told { name: name.to_owned(), result, seen }
}

fn compare(a: &Told, b: &Told) -> Comparison {
    let sheet = |told| Sheet::as_tool(told, crate::report::Tool::Regatta).expect("requests are known");
    Comparison::of(&sheet(a), &sheet(b), false)
}

/// Deterministic noise of ±20 ms.
fn noise(index: u64, salt: u64) -> f64 {
    let mixed = (index + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
    (mixed % 4_001) as f64 / 100.0 - 20.0
}

#[test]
fn a_clear_difference_is_judged_and_noise_is_not() {
    let a = told("a", "one", |index| 100.0 + noise(index, 1));
    let same = told("b", "two", |index| 100.0 + noise(index, 7_777));
    let slower = told("c", "two", |index| 110.0 + noise(index, 7_777));
    let judged = |b: &Told| compare(&a, b).find("ttft", "mean").and_then(|delta| delta.judgement);
    assert_eq!(judged(&same), Some(Judgement::NoDifferenceSeen));
    assert_eq!(judged(&slower), Some(Judgement::Worse));
    let back = compare(&slower, &a);
    assert_eq!(back.find("ttft", "p50").and_then(|delta| delta.judgement), Some(Judgement::Better));
}

#[test]
fn requests_of_one_plan_are_compared_one_with_one_and_show_less() {
    let a = told("a", "plan", |index| 100.0 + noise(index, 1));
    let shifted = |digest: &str| told("b", digest, |index| 100.5 + noise(index, 1));
    let paired = compare(&a, &shifted("plan"));
    let apart = compare(&a, &shifted("other"));
    assert!(paired.paired && !apart.paired);
    let judged = |it: &Comparison| it.find("ttft", "mean").and_then(|delta| delta.judgement);
    assert_eq!((judged(&paired), judged(&apart)), (Some(Judgement::Worse), Some(Judgement::NoDifferenceSeen)));
}

#[test]
fn the_same_files_give_the_same_interval() {
    let a = told("a", "one", |index| 100.0 + noise(index, 1));
    let b = told("b", "two", |index| 104.0 + noise(index, 99));
    assert_eq!(compare(&a, &b), compare(&a, &b));
}

#[test]
fn a_tail_that_few_requests_show_has_no_interval() {
    let mut a = told("a", "one", |index| 100.0 + noise(index, 1));
    a.seen.truncate(150);
    let comparison = compare(&a, &a);
    let interval = |stat| comparison.find("ttft", stat).and_then(|delta| delta.interval);
    assert!(interval("mean").is_some() && interval("p90").is_some() && interval("p99").is_none());
}

#[test]
fn a_gate_is_read_and_looks_at_one_difference() {
    let a = told("a", "one", |_| 100.0);
    let b = told("b", "one", |_| 110.0);
    let comparison = compare(&a, &b);
    let trips = |text: &str| text.parse::<Gate>().and_then(|gate| Ok(gate.trips(&comparison)?.is_some()));
    assert_eq!(trips("ttft_p99>5%"), Ok(true));
    assert_eq!(trips("ttft_p99 > 10.5%"), Ok(false));
    assert_eq!(trips("requests_full<-5"), Ok(false));
    assert!(trips("ttft_p98>5%").unwrap_err().contains("ttft_p99"));
    for bad in ["ttft_p99", "ttft>x", ">5%"] {
        assert!(trips(bad).unwrap_err().contains("is no condition"), "{bad}");
    }
}

#[test]
fn a_result_that_measured_its_client_is_told_as_what_it_is() {
    let (mut a, b) = (told("a", "one", |_| 100.0), told("b", "one", |_| 110.0));
    a.result["verdict"] = json!("invalid_client");
    let sheets = [Sheet::of(&a), Sheet::of(&b)];
    assert_eq!((sheets[0].verdict_word(), sheets[1].verdict_word()), ("INVALID(client)", "VALID"));
    assert_eq!(tell::doubts(&sheets), ["A is INVALID(client): its numbers are as much the client's as the server's"]);
    assert_eq!(json(&sheets, &[])["results"][0]["verdict"], "invalid_client");
}
