//! Hand-made vectors with known answers: every formula, without a network.

use crate::measure::collector::{Collector, WorkerOutput};
use crate::measure::metric::ValueHistogram;
use crate::measure::summary;
use crate::record::RecordWriter;
use crate::spool::SpoolContext;
use crate::tokens::{CountedTokens, TokenChunk};
use crate::transport::request_encoder::{CallKind, TokenCounting};
use crate::*;
use base::spec::{Arrivals, GoodputLimit, Length, Limits, Request, StopAfter};

pub(crate) const MS: u64 = 1_000_000;

pub(crate) fn spec(requests: u64) -> BenchSpec {
    BenchSpec {
        endpoints: vec!["127.0.0.1:1".parse().unwrap()],
        protocol: crate::Transport::Kserve,
        model: "tensorrt_llm".to_owned(),
        scenario: LoadPattern::Server { rate: 100.0.into() },
        arrivals: Arrivals::Constant,
        stop: StopAfter { requests: Some(requests), duration: None },
        input_len: Length::Fixed(8),
        output_len: Length::Fixed(1),
        seed: 0,
        warmup: 0,
        pace: crate::SendingSpec::default(),
        content: crate::PromptSource::default(),
        frontends: 1,
        clients: 1,
        stall_timeout: std::time::Duration::from_mins(1),
        limits: Limits::default(),
        slo: Slo::default(),
        timelines: false,
        vocab_size: 100,
        end_id: 2,
        request: Request::default(),
    }
}

/// Times in ms, chunks as (ms, tokens).
pub(crate) fn ended(
    collector: &mut Collector,
    index: u64,
    (sched, issue, end): (u64, u64, u64),
    requested: u32,
    chunks: &[(u64, u32)],
    ended: RequestEnd,
) {
    let chunks: Vec<TokenChunk> =
        chunks.iter().map(|(at, tokens)| TokenChunk { t_read: at * MS, tokens: *tokens }).collect();
    let record = RequestRecord {
        index,
        sample: None,
        endpoint: 0,
        input_tokens: 8,
        requested_tokens: requested,
        tokens: 0,
        first_tokens: 0,
        first_read_tokens: 0,
        chunks: 0,
        interleaved: false,
        final_marker: true,
        session: index,
        turn: 0,
        t_sched: sched * MS,
        t_issue: issue * MS,
        t_first: None,
        t_last: None,
        t_end: end * MS,
        max_gap: 0,
        t_cancel: None,
        server: None,
        usage: None,
        ended,
        retokenized: false,
        token_source: TokenSource::OutputIds,
        chunk_tokens_unknown: false,
        finish_reason: None,
        violations: std::collections::BTreeMap::new(),
        attempts: Vec::new(),
        timeline: Vec::new(),
    };
    let tokens = chunks.iter().map(|chunk| chunk.tokens).sum();
    let counted = CountedTokens { chunks, tokens, is_per_chunk: true, ..CountedTokens::default() };
    collector.take(record, counted, None);
}

pub(crate) fn summarized(spec: &BenchSpec, collector: Collector) -> Measured {
    summarize_with(spec, collector, |_| ()).judge()
}

/// The same with other facts of the worker.
pub(crate) fn summarize_with(
    spec: &BenchSpec,
    collector: Collector,
    change: impl FnOnce(&mut WorkerOutput),
) -> UnjudgedRun {
    summarize_to(spec, collector, |_| 0, change)
}

/// The same of several servers: `endpoint` is that of the request with an index.
pub(crate) fn summarize_to(
    spec: &BenchSpec,
    collector: Collector,
    endpoint: impl Fn(u64) -> u32,
    change: impl FnOnce(&mut WorkerOutput),
) -> UnjudgedRun {
    let (records, mut collector) = collector.split();
    let mut moved = RecordWriter::one_of(1, collector.records.context().clone());
    for record in &records {
        moved.push(RequestRecord { endpoint: endpoint(record.index), ..record });
    }
    collector.records = moved;
    let issued = records.len() as u64;
    let wall_ns = records.iter().map(|record| record.t_end).max().unwrap_or(0);
    let area = records.iter().map(|record| (record.t_end - record.t_issue) as f64).sum();
    let mut share = WorkerOutput {
        was_stopped: false,
        streams: 0,
        collector,
        issued,
        not_sent: 0,
        in_flight_at_end: 0,
        in_flight_area: area,
        cpu_ns: 0,
        wait_ns: None,
        wall_ns,
        waited_for_stream: 0,
        deferred: 0,
        max_streams: None,
        reconnects: 0,
        idle_closed: 0,
        resent: 0,
        opened: None,
        call: CallKind::Stream,
        count: TokenCounting::Ids { beams: 1, sequences: 1, has_prompt: false },
        pacing: "in virtual time".to_owned(),
    };
    change(&mut share);
    let start = summary::RunStart { wall: String::new(), zero: std::time::Instant::now() };
    let schedule = std::sync::Arc::new(plan(spec).unwrap());
    UnjudgedRun::new(spec.clone().into(), summary::summarize(spec, &schedule, vec![share], 0, &start))
}

fn close(found: Option<f64>, expected: f64) {
    let reason = found.unwrap();
    assert!((reason - expected).abs() < 0.005, "{reason} is not {expected}");
}

/// Every other request is cancelled early: its tokens are in the seconds of the run, and in no rate.
#[test]
fn tokens_of_cancelled_requests_are_not_in_the_steady_rate() {
    let mut collector = Collector::new();
    for index in 0..600 {
        let at = index * 10;
        let chunks: Vec<(u64, u32)> = (1..=4).map(|token| (at + token * 10, 1)).collect();
        let end = if index % 2 == 0 { RequestEnd::Ok } else { RequestEnd::CancelledEarly };
        ended(&mut collector, index, (at, at, at + 40), 4, &chunks, end);
    }
    let result = summarized(&spec(600), collector).result;
    // 50 successful requests a second, of four tokens each.
    let (steady, full) = (result.steady.unwrap().output_tokens_per_s.unwrap(), result.rates.output_tokens.unwrap());
    assert!((steady - 200.0).abs() < 3.0 && (steady / full - 1.0).abs() < 0.02, "{steady} {full}");
    assert!((390..=400).contains(&result.slices[2].tokens), "{:?}", result.slices[2]);
}

/// LoadGen's calls to a server that counts the tokens of each answer, with its time stamps.
#[test]
fn every_metric_has_the_zero_point_and_the_token_source_of_its_run() {
    let mut collector = Collector::new();
    for index in 0..100 {
        let at = index * 10;
        ended(&mut collector, index, (at, at, at + 20), 2, &[(at + 10, 1), (at + 20, 1)], RequestEnd::Ok);
    }
    let (records, _) = collector.split();
    let mut collector = Collector::new();
    for record in &records {
        let mut record = record;
        (record.turn, record.session) = ((record.index % 2) as u32, record.index / 2);
        collector.records.push(record);
    }
    let spec = BenchSpec {
        scenario: LoadPattern::External(CallSource::AtTimes),
        request: Request { return_perf_metrics: true, ..Request::default() },
        ..spec(100)
    };
    let measured = summarize_with(&spec, collector, |output| output.count = TokenCounting::Usage).judge();
    let result = measured.result;
    let source = TokenCounting::Usage.source();
    assert_eq!(result.tokens.source, source);
    let (steady, sessions) = (result.steady.unwrap(), result.load.sessions.unwrap());
    for (metric, zero_point) in [
        (&result.latency.ttft, "external_call"),
        (&result.latency.itl_token, "previous_chunk"),
        (&steady.ttft, "external_call"),
        (&steady.tpot, "first_chunk"),
        (&steady.e2e, "external_call"),
        (&sessions.ttft_first, "external_call"),
        (&sessions.ttft_later, "end_of_turn_and_pause"),
    ] {
        assert_eq!((metric.zero_point.as_str(), metric.token_source.as_str()), (zero_point, source.as_str()));
    }
    // The server's stamps count no tokens.
    assert_eq!(result.server.unwrap().ttft.token_source, "");
}

/// Five requests: one with a role chunk before and a usage chunk after its tokens and a chunk of three, one that the
/// client delayed for 500 ms, a one-token answer, one with an empty text as first token, one error.
#[test]
fn five_hand_made_requests_give_the_primary_row() {
    let mut collector = Collector::new();
    ended(&mut collector, 0, (0, 2, 306), 6, &[(200, 1), (220, 1), (240, 3), (300, 1)], RequestEnd::Ok);
    let held: Vec<(u64, u32)> = (0..11).map(|i| (710 + 20 * i, 1)).collect();
    ended(&mut collector, 1, (10, 510, 912), 11, &held, RequestEnd::Ok);
    ended(&mut collector, 2, (20, 21, 223), 1, &[(221, 1)], RequestEnd::Ok);
    ended(&mut collector, 3, (30, 31, 311), 5, &[(190, 1), (220, 1), (250, 1), (280, 1), (310, 1)], RequestEnd::Ok);
    let failed = RequestEnd::Failed { class: FailureClass::Server, why: "no".to_owned() };
    ended(&mut collector, 4, (40, 41, 61), 1, &[], failed);
    let slo = Slo { ttft_ms: Some(300.0), tpot_ms: Some(25.0), e2e_ms: None };
    let result = summarized(&BenchSpec { slo, ..spec(5) }, collector).result;
    let latency = &result.latency;
    close(latency.ttft.mean, 315.25);
    close(latency.tpot.mean, 23.33);
    close(latency.itl_token.mean, 22.11);
    close(latency.e2e.mean, 420.25);
    close(result.rates.requests_full, 4.39);
    assert_eq!((latency.ttft.n, latency.tpot.n, latency.tpot.excluded), (4, 3, 1));
    assert_eq!((latency.itl_token.n, latency.icl.n, latency.e2e.n), (19, 17, 4));
    // The same records, in the way other tools count: from the issue; gaps not divided; LoadGen's window.
    close(latency.ttft_sent.mean, 189.25);
    close(latency.icl.mean, 24.71);
    close(latency.e2e_sent.mean, 294.25);
    close(result.rates.requests_loadgen_completed, 3.30);
    assert_eq!(result.counts.failed_by_class[&FailureClass::Server], 1);
    assert_eq!(result.verdict(), base::event::Verdict::InvalidServer);
    assert!(result.counts.conserved);
    assert_eq!(result.tokens.output, 23);
    // The delayed request, the slow one and the failed one missed their limits.
    let goodput = result.goodput.unwrap();
    assert_eq!((goodput.good, goodput.of, goodput.attainment), (2, 5, Some(0.4)));
    let adjusted = &latency.ttft_adjusted;
    assert_eq!((adjusted.n, adjusted.unanswered, adjusted.p50, adjusted.p99), (5, 1, Some(201.0), None));
}

#[test]
fn an_slo_on_a_time_that_no_answer_has_is_not_met() {
    let mut collector = Collector::new();
    ended(&mut collector, 0, (0, 2, 306), 1, &[(200, 1)], RequestEnd::Ok);
    ended(&mut collector, 1, (10, 11, 310), 1, &[(210, 1)], RequestEnd::Ok);
    let slo = Slo { tpot_ms: Some(25.0), ..Slo::default() };
    let limits = Limits { goodput: Some(GoodputLimit::PerSecond(0.1)), ..Limits::default() };
    let result = summarized(&BenchSpec { limits, slo, ..spec(2) }, collector).result;
    let goodput = result.goodput.as_ref().unwrap();
    assert_eq!((goodput.good, goodput.of, goodput.attainment, goodput.requests), (0, 2, None, None));
    let reasons = result.reasons();
    let reason = reasons.iter().find(|reason| reason.check == VerdictCheck::Limits).unwrap();
    assert_eq!(reason.text, "there is no TPOT to check against `slo`, and so no goodput to check against its limit");
    assert_eq!(reason.severity, ReasonSeverity::LimitMissed);
}

/// 100 requests/s for 60 s, 20 ms each, one stall of 2 s: an open loop without a cap sees all of it, from the issue
/// as from the schedule.
#[test]
fn a_stalled_server_cannot_hide() {
    let (stall_from, stall_to, service) = (30_000, 32_000, 20);
    let mut collector = Collector::new();
    for index in 0..6_000 {
        let at = index * 10;
        let is_stalled = at < stall_to && at + service > stall_from;
        let done = if is_stalled { stall_to + service } else { at + service };
        ended(&mut collector, index, (at, at, done), 1, &[(done, 1)], RequestEnd::Ok);
    }
    let result = summarized(&spec(6_000), collector).result;
    for metric in [&result.latency.e2e, &result.latency.e2e_sent, &result.latency.ttft] {
        assert_eq!((metric.n, metric.p50, metric.p99), (6_000, Some(20.0), Some(1440.0)));
    }
    assert_eq!(result.counts.not_sent, 0);
    let curve = &result.curves["e2e"];
    assert_eq!((curve.len(), curve[199]), (200, (2_040.0 - 10.0, 1.0)));
    assert_eq!(result.slices[31].in_flight, 102);
    // The stall ends with the second, and all but the newest two of its requests.
    assert_eq!((result.slices[31].in_flight_max, result.slices[33].in_flight_max), (Some(201), Some(2)));
}

/// What is sent at once is in flight from the start on, also in the first second, which begins without any.
#[test]
fn the_most_in_flight_is_known_of_each_second() {
    let mut collector = Collector::new();
    for index in 0..60 {
        let end = 500 + index * 40;
        ended(&mut collector, index, (0, 2, end), 1, &[(end, 1)], RequestEnd::Ok);
    }
    let slices = summarized(&spec(60), collector).result.slices;
    let most: Vec<_> = slices.iter().map(|slice| (slice.in_flight, slice.in_flight_max.unwrap())).collect();
    assert_eq!(most, [(0, 60), (47, 47), (22, 22)]);
}

/// Requests issued `late` ms after their time, answered at once in 100 ms.
fn late_by(late: u64, change: impl FnOnce(&mut BenchSpec)) -> RunResult {
    let mut spec = spec(200);
    change(&mut spec);
    let mut collector = Collector::new();
    for index in 0..200 {
        let at = index * 10;
        ended(&mut collector, index, (at, at + late, at + late + 100), 1, &[(at + late + 100, 1)], RequestEnd::Ok);
    }
    summarized(&spec, collector).result
}

#[test]
fn lateness_of_the_client_warns_first_and_then_invalidates() {
    let verdict = |late| late_by(late, |_| {}).verdict();
    assert_eq!(verdict(0), base::event::Verdict::Valid);
    assert_eq!(verdict(1), base::event::Verdict::Valid);
    assert_eq!(verdict(4), base::event::Verdict::ValidWithWarnings);
    assert_eq!(verdict(50), base::event::Verdict::InvalidClient);
    let offline = late_by(50, |spec| spec.scenario = LoadPattern::Offline);
    assert_eq!(offline.verdict(), base::event::Verdict::Valid);
}

#[test]
fn the_worst_finding_decides_and_comes_first() {
    let limit = |spec: &mut BenchSpec| spec.limits.ttft_p99 = Some(std::time::Duration::from_millis(90).into());
    let missed = late_by(0, limit);
    assert_eq!(missed.verdict(), base::event::Verdict::LimitMissed);
    let both = late_by(50, limit);
    assert_eq!(both.verdict(), base::event::Verdict::InvalidClient);
    let checks: Vec<&str> = both.reasons().iter().map(|reason| reason.check.as_str()).collect();
    assert_eq!(checks, ["lag", "limits"]);
}

#[test]
fn requests_that_vanish_are_noticed() {
    let mut collector = Collector::new();
    ended(&mut collector, 0, (0, 0, 10), 1, &[(10, 1)], RequestEnd::Ok);
    let result = summarized(&spec(2), collector).result;
    assert!(!result.counts.conserved);
    assert!(result.reasons().iter().any(|reason| reason.check == VerdictCheck::Conservation));
    assert_eq!(result.verdict(), base::event::Verdict::InvalidClient);
}

#[test]
fn the_headline_says_what_it_counts() {
    insta::assert_snapshot!(
        late_by(0, |_| {}).headline(),
        @"VALID  96 tok/s  TTFT p99 100 ms  TPOT p99 n/a (200 requests; an interval of TTFT p99 needs 2,000 requests, \
            or at least 30,000 if they queue; latency from schedule; tokens: output_ids)"
    );
}

#[test]
fn the_headline_reports_slo_attainment() {
    let with_slo = late_by(0, |spec| spec.slo = Slo { ttft_ms: Some(450.0), tpot_ms: None, e2e_ms: Some(9000.0) });
    insta::assert_snapshot!(
        with_slo.headline(),
        @"VALID  96 tok/s  TTFT p99 100 ms  TPOT p99 n/a  goodput 95.7 req/s, 100 % met TTFT ≤ 450 ms, E2E ≤ 9,000 ms \
            (200 requests; an interval of TTFT p99 needs 2,000 requests, or at least 30,000 if they queue; latency \
            from schedule; tokens: output_ids)"
    );
    // The verdict's limits are beside it already.
    let limit = |spec: &mut BenchSpec| spec.limits.ttft_p99 = Some(std::time::Duration::from_millis(900).into());
    assert!(!late_by(0, limit).headline().contains("goodput"));
}

/// Two sums of the run that should agree and differ.
#[test]
fn a_value_that_was_counted_once_too_often_is_noticed_with_both_numbers() {
    let request = |all: &mut Collector| ended(all, 0, (0, 0, 60), 4, &[(20, 1), (40, 1), (60, 2)], RequestEnd::Ok);
    let mut collector = Collector::new();
    request(&mut collector);
    let good = summarized(&spec(1), collector).result;
    assert!(good.self_check.checks >= 6 && good.self_check.mismatches.is_empty(), "{:?}", good.self_check);
    let mut collector = Collector::new();
    request(&mut collector);
    collector.itl_token.add(20e6, 1);
    let result = summarized(&spec(1), collector).result;
    assert_eq!(result.verdict(), base::event::Verdict::InvalidClient);
    let reason = result.reasons().iter().find(|reason| reason.check == VerdictCheck::SelfCheck).unwrap();
    assert_eq!(reason.text, "the run's own sums disagree: values of ITL / tokens after the first reads: 4 and 3");
}

/// Answers with a total and several tokens in a chunk: nothing is computed per token.
#[test]
fn without_the_tokens_of_single_chunks_there_is_no_itl_and_no_tpot() {
    let mut collector = Collector::new();
    for index in 0..2 {
        ended(&mut collector, index, (0, 0, 90), 9, &[(30, 1), (60, 1), (90, 1)], RequestEnd::Ok);
    }
    let (records, mut collector) = collector.split();
    collector.records = RecordWriter::one_of(1, SpoolContext::default());
    for record in &records {
        let of_usage =
            RequestRecord { tokens: 9, token_source: TokenSource::Usage, chunk_tokens_unknown: true, ..record };
        collector.records.push(of_usage);
    }
    collector.itl_token = ValueHistogram::new();
    let slo = Slo { ttft_ms: None, tpot_ms: Some(30.0), e2e_ms: None };
    let result = summarized(&BenchSpec { slo, ..spec(2) }, collector).result;
    let LatencyMetrics { tpot, itl_token, icl, .. } = &result.latency;
    assert_eq!((tpot.n, tpot.p50, itl_token.n, itl_token.p50), (0, None, 0, None));
    assert!(tpot.absent.is_some() && itl_token.absent.is_some());
    assert_eq!((icl.n, icl.mean), (4, Some(30.0)));
    assert_eq!((result.tokens.chunk_tokens_unknown, result.tokens.output), (2, 18));
    // Each later chunk has one token at least, so no token took longer than a chunk.
    assert_eq!(result.goodput.unwrap().good, 2);
    assert!(result.self_check.mismatches.is_empty(), "{:?}", result.self_check);
}

/// A run of which nothing is held in memory has the result of one that is.
#[test]
fn a_result_is_the_same_of_records_in_memory_and_in_a_file() {
    let result = |context: &SpoolContext, scenario: LoadPattern| {
        let mut collector = Collector { records: RecordWriter::one_of(1, context.clone()), ..Collector::new() };
        for index in 0..3_000_u64 {
            let mixed = index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56;
            let (due, first) = (10 * index, 10 * index + 5 + mixed);
            let outcome = match mixed {
                7 => RequestEnd::Failed { class: FailureClass::Server, why: "busy".to_owned() },
                _ => RequestEnd::Ok,
            };
            let chunks = [(first, 1), (first + 30, 2), (first + 40 + mixed % 3, 1)];
            ended(&mut collector, index, (due, due + mixed % 2, first + 50), 4, &chunks, outcome);
        }
        let slo = Slo { ttft_ms: Some(100.0), tpot_ms: None, e2e_ms: None };
        let result = summarized(&BenchSpec { scenario, slo, ..spec(3_000) }, collector).result;
        serde_json::to_string_pretty(&result).unwrap()
    };
    for scenario in [
        LoadPattern::Server { rate: 100.0.into() },
        LoadPattern::Concurrency { users: 20.0.into() },
        LoadPattern::Offline,
    ] {
        let (in_memory, in_file) = (SpoolContext::default(), SpoolContext::with_memory(0));
        pretty_assertions::assert_eq!(result(&in_file, scenario.clone()), result(&in_memory, scenario));
        in_file.check().unwrap();
    }
}

/// What each class does to the verdict depends on whether tokens or their owner are in doubt.
#[test]
fn violations_invalidate_where_they_make_the_numbers_doubtful() {
    use base::event::Verdict::{InvalidServer, ValidWithWarnings};

    let verdict = |class, protocol| {
        let mut collector = Collector::new();
        ended(&mut collector, 0, (0, 0, 20), 1, &[(20, 1)], RequestEnd::Ok);
        collector.violations.add(class, || "an example".to_owned());
        let result = summarized(&BenchSpec { protocol, ..spec(1) }, collector).result;
        assert_eq!(result.counts.violations[&class], 1);
        result.verdict()
    };
    let chat = || Transport::Http(Http::new(Api::OpenaiChat));
    assert_eq!(verdict(Violation::WrongId, Transport::Kserve), InvalidServer);
    assert_eq!(verdict(Violation::WrongId, chat()), ValidWithWarnings);
    assert_eq!(verdict(Violation::AfterEnd, chat()), InvalidServer);
    assert_eq!(verdict(Violation::SecondEnd, chat()), ValidWithWarnings);
    assert_eq!(verdict(Violation::SecondEnd, Transport::Kserve), InvalidServer);
    assert_eq!(verdict(Violation::WrongShape, Transport::Kserve), InvalidServer);
    assert_eq!(verdict(Violation::WrongContent, Transport::Kserve), InvalidServer);
    assert_eq!(verdict(Violation::MissingEnd, Transport::Kserve), ValidWithWarnings);
    assert_eq!(verdict(Violation::FinishReason, chat()), ValidWithWarnings);
}

/// `extra` may have the prompt of a pasted line: then every request sends that one, whatever was drawn.
#[test]
fn a_prompt_in_extra_is_that_of_every_request() {
    let repeated = |key: &str| {
        let mut http = Http::new(Api::OpenaiChat);
        http.extra.insert(key.to_owned(), serde_json::json!([]));
        let result = late_by(0, |spec| spec.protocol = Transport::Http(http));
        let is_named = result.reasons().iter().any(|reason| reason.check == VerdictCheck::RepeatedPrompts);
        (result.load.prompts_repeated, is_named)
    };
    assert_eq!((repeated("messages"), repeated("top_k")), ((199, true), (0, false)));
}

/// Whatever the budget of failures, and whatever the limit on goodput: without an answer nothing was measured.
#[test]
fn without_any_answer_no_budget_makes_a_run_valid() {
    let budget = Limits { failures: Some("100%".parse().unwrap()), ..Limits::default() };
    let goodput = Limits { goodput: Some(GoodputLimit::PerSecond(1.0)), ..budget.clone() };
    for limits in [budget, goodput] {
        let spec = BenchSpec { limits, ..spec(2) };
        let has_goodput_limit = spec.limits.goodput.is_some();
        let mut collector = Collector::new();
        for index in 0..2 {
            let failed = RequestEnd::Failed { class: FailureClass::Server, why: "no".to_owned() };
            ended(&mut collector, index, (10 * index, 10 * index, 10 * index + 5), 1, &[], failed);
        }
        let measured = summarize_with(&spec, collector, |_| {}).judge();
        let reasons = measured.result.reasons();
        assert_eq!(measured.result.verdict(), base::event::Verdict::InvalidServer, "{reasons:?}");
        assert_eq!(reasons.iter().any(|reason| reason.check == VerdictCheck::Limits), has_goodput_limit, "{reasons:?}");
    }
}
