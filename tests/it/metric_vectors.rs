//! The golden vectors: one set of requests, and what each load tool makes of it.

use pretty_assertions::assert_eq;
use regatta::interop::{
    ChunkKind, MetricConcept, PercentileRule, RequestTrace, SortedValues, Tool, TracedChunk, TracedChunks, vector,
};

/// Mean and n of TTFT, TPOT, ITL and E2E in ms, and requests/s; to two digits, as the tools' own formulas give them.
const ROWS: [(Tool, &str); 13] = [
    (Tool::LoadGen, "315.25 (n=4) | 17.41 (n=4) | - | 423.00 (n=4) | 3.30"),
    (Tool::AiPerf, "196.75 (n=4) | - | 23.33 (n=3) | 294.25 (n=4) | 4.41"),
    (Tool::GenAiPerf, "196.75 (n=4) | - | 23.33 (n=3) | 294.25 (n=4) | 5.51"),
    (Tool::Vllm, "189.25 (n=4) | 23.33 (n=3) | 24.71 (n=17) | 294.25 (n=4) | 4.40"),
    (Tool::SglangChat, "196.75 (n=4) | 21.38 (n=3) | 24.38 (n=16) | 297.00 (n=4) | 4.40"),
    (Tool::SglangNative, "189.25 (n=4) | 23.88 (n=3) | 22.11 (n=19) | 297.00 (n=4) | 4.40"),
    (Tool::GuideLlm, "196.75 (n=4) | 85.46 (n=4) | 20.83 (n=3) | 297.00 (n=4) | 4.40"),
    (Tool::InferencePerf, "195.67 (n=3) | 20.83 (n=3) | 24.38 (n=16) | 297.00 (n=4) | 4.40"),
    (Tool::LlmPerf, "164.25 (n=4) | - | 87.94 (n=4) | - | -"),
    (Tool::TrtllmBench, "189.25 (n=4) | 17.50 (n=4) | - | 297.00 (n=4) | 4.40"),
    (Tool::Endpoints, "196.75 (n=4) | 23.91 (n=3) | - | 297.00 (n=4) | 4.40"),
    (Tool::HfBenchmarker, "196.75 (n=4) | - | 17.50 (n=4) | 297.00 (n=4) | -"),
    (Tool::Regatta, "315.25 (n=4) | 23.33 (n=3) | 22.11 (n=19) | 420.25 (n=4) | 4.39"),
];

fn row(tool: Tool, seen: &[RequestTrace]) -> String {
    let cell = |concept| match tool.spread(concept, seen) {
        Ok(spread) => format!("{:.2} (n={})", spread.mean().unwrap_or(f64::NAN), spread.n()),
        Err(_) => "-".to_owned(),
    };
    let rate = tool.rate(seen).map_or_else(|_| "-".to_owned(), |rate| format!("{rate:.2}"));
    [cell(MetricConcept::Ttft), cell(MetricConcept::Tpot), cell(MetricConcept::Itl), cell(MetricConcept::E2e), rate]
        .join(" | ")
}

#[test]
fn twelve_tools_and_we_answer_twelve_ways_about_the_same_five_requests() {
    let seen = vector();
    for (tool, expected) in ROWS {
        assert_eq!(row(tool, &seen), expected, "{}", tool.title());
    }
}

/// What perf_analyzer can know of them: requests and responses.
#[test]
fn perf_analyzer_knows_no_tokens() {
    assert_eq!(row(Tool::PerfAnalyzer, &vector()), "- | - | - | 297.00 (n=4) | 4.40");
}

/// A change to any one request changes the rows: they are computed, not written down.
#[test]
fn the_rows_follow_the_requests() {
    let mut seen = vector();
    seen[0].end += 1_000.0;
    for (tool, before) in ROWS {
        let is_until_the_end = [
            Tool::LoadGen,
            Tool::SglangChat,
            Tool::SglangNative,
            Tool::GuideLlm,
            Tool::InferencePerf,
            Tool::TrtllmBench,
            Tool::Endpoints,
            Tool::HfBenchmarker,
            Tool::Vllm,
            Tool::Regatta,
        ];
        assert_eq!(row(tool, &seen) != before, is_until_the_end.contains(&tool), "{}", tool.title());
    }
}

const RATE: f64 = 100.0;
const SERVICE: f64 = 20.0;
const STALL: (f64, f64) = (30_000.0, 32_000.0);

/// The server of the coordinated-omission vector: 20 ms for each request, and the whole server stalls for 2 s.
fn done(start: f64) -> f64 {
    let end = start + SERVICE;
    if start < STALL.1 && end > STALL.0 { STALL.1 + SERVICE } else { end }
}

fn answered(index: u64, sched: f64, issue: f64) -> RequestTrace {
    let end = done(issue);
    RequestTrace {
        index,
        ok: true,
        sched: Some(sched),
        issue,
        end,
        input: None,
        input_server: None,
        tokens: Some(1),
        retokenized: None,
        chunks: TracedChunks::Every(vec![TracedChunk { at: end, tokens: 1, kind: ChunkKind::Token }]),
        error: None,
    }
}

enum Late {
    Waits,
    IsDropped,
}

/// 6,000 arrivals at 100/s, at most `cap` in flight; and how many were never sent.
fn open_loop(cap: usize, late: &Late) -> (Vec<RequestTrace>, u64) {
    let mut in_flight: Vec<f64> = Vec::new();
    let (mut seen, mut lost, mut last_issue) = (Vec::new(), 0, 0.0f64);
    for index in 0..6_000u32 {
        let at = f64::from(index) * 1e3 / RATE;
        in_flight.retain(|end| *end > at);
        let mut issue = at;
        if in_flight.len() >= cap {
            if matches!(late, Late::IsDropped) {
                lost += 1;
                continue;
            }
            let (place, soonest) = in_flight
                .iter()
                .copied()
                .enumerate()
                .min_by(|a, b| a.1.total_cmp(&b.1))
                .expect("there are requests in flight");
            in_flight.swap_remove(place);
            issue = soonest.max(at);
        }
        issue = issue.max(last_issue);
        last_issue = issue;
        let one = answered(u64::from(index), at, issue);
        in_flight.push(one.end);
        seen.push(one);
    }
    (seen, lost)
}

/// p50, p99 and p99.9 from the send, p99 and p99.9 from the schedule, ms.
fn percentiles(seen: &[RequestTrace]) -> [i64; 5] {
    let sent = SortedValues::new(
        Tool::Vllm.spread(MetricConcept::E2e, seen).expect("known").values().to_vec(),
        PercentileRule::Floor,
    );
    let scheduled = Tool::Regatta.spread(MetricConcept::E2e, seen).expect("known");
    let at = |spread: &SortedValues, p| spread.at(p).expect("there are values").round() as i64;
    [at(&sent, 0.5), at(&sent, 0.99), at(&sent, 0.999), at(&scheduled, 0.99), at(&scheduled, 0.999)]
}

#[test]
fn a_stall_shows_in_full_when_everything_is_sent_on_time() {
    let (seen, lost) = open_loop(usize::MAX, &Late::Waits);
    assert_eq!((seen.len(), lost, percentiles(&seen)), (6_000, 0, [20, 1440, 1980, 1440, 1980]));
}

#[test]
fn a_stall_hides_from_the_send_when_arrivals_wait_in_the_client_and_not_from_the_schedule() {
    let (seen, lost) = open_loop(8, &Late::Waits);
    assert_eq!((seen.len(), lost, percentiles(&seen)), (6_000, 0, [20, 20, 1980, 1580, 1980]));
}

/// Counting dropped requests as infinite latency makes p99 show the stall.
#[test]
fn a_stall_hides_even_from_the_schedule_when_arrivals_are_dropped() {
    let (seen, lost) = open_loop(8, &Late::IsDropped);
    assert_eq!((seen.len(), lost, percentiles(&seen)), (5_805, 195, [20, 20, 1980, 20, 1980]));
    let mut adjusted = Tool::Regatta.spread(MetricConcept::E2e, &seen).expect("known").values().to_vec();
    adjusted.resize(6_000, f64::INFINITY);
    assert!(adjusted[(6_000.0f64 * 0.99).floor() as usize].is_infinite());
}

#[test]
fn a_closed_loop_hardly_sees_the_stall() {
    let mut free = [0.0f64; 2];
    let mut seen = Vec::new();
    while free.iter().any(|at| *at < 60_000.0) {
        let user = usize::from(free[1] < free[0]);
        if free[user] >= 60_000.0 {
            break;
        }
        let one = RequestTrace { sched: None, ..answered(seen.len() as u64, free[user], free[user]) };
        free[user] = one.end;
        seen.push(one);
    }
    let sent = SortedValues::new(
        Tool::Vllm.spread(MetricConcept::E2e, &seen).expect("known").values().to_vec(),
        PercentileRule::Floor,
    );
    let at = |p| sent.at(p).expect("there are values").round() as i64;
    assert_eq!((seen.len(), at(0.5), at(0.99), at(0.999)), (5_800, 20, 20, 20));
    // There is no schedule, and nothing that counts from one.
    assert!(Tool::Regatta.spread(MetricConcept::E2e, &seen).is_err());
}
