//! Answers that came in one read, that broke off, or that were counted in several ways: what is said of them, and what
//! is left out. And bad measurements that users of benchmarks reported of servers, gateways and clients, on made-up
//! records: rows of the table of `verdict_table_tests`.

use super::verdict_table_tests::{Case, answered_after, case};
use crate::measure::collector::Collector;
use crate::record::RecordWriter;
use crate::spool::SpoolContext;
use crate::transport::request_encoder::TokenCounting;
use crate::verdict::metric_vector_tests::{ended, spec, summarize_with, summarized};
use crate::*;
use base::spec::{GoodputLimit, Limits};

#[test]
fn answers_without_a_finish_reason_broke_off_where_the_others_have_one() {
    let counted =
        |source: TokenSource, usage: bool, finish: fn(u64) -> Option<FinishReason>, failures: Option<&str>| {
            let mut collector = Collector::new();
            for index in 0..200 {
                let at = index * 10;
                let tokens = if index % 10 == 0 { 3 } else { 8 };
                let chunks: Vec<(u64, u32)> = (1..=tokens).map(|token| (at + token * 10, 1)).collect();
                ended(&mut collector, index, (at, at, at + 90), 8, &chunks, RequestEnd::Ok);
            }
            let (records, mut collector) = collector.split();
            collector.records = RecordWriter::one_of(1, SpoolContext::default());
            for record in &records {
                let finish_reason = finish(record.index);
                let usage = finish_reason.filter(|_| usage).map(|_| Box::default());
                collector.records.push(RequestRecord { finish_reason, usage, token_source: source, ..record });
            }
            let limits = Limits { failures: failures.map(|budget| budget.parse().unwrap()), ..Limits::default() };
            summarized(&BenchSpec { limits, ..spec(200) }, collector).result
        };
    let result = |finish, failures| counted(TokenSource::OutputIds, false, finish, failures);
    let verdict = |result: &RunResult| (result.counts.broken_off, result.verdict());
    let broken = |index: u64| (!index.is_multiple_of(10)).then_some(FinishReason::Length);
    let reasons = result(broken, None);
    assert_eq!(verdict(&reasons), (20, base::event::Verdict::InvalidServer));
    insta::assert_snapshot!(reasons.reasons()[0].text, @"20 of 200 answers broke off: they are shorter than \
        requested, without a finish_reason and without usage, and others of the same server have a finish_reason; \
        they are in the latencies and rates");
    assert_eq!(verdict(&result(broken, Some("10%"))), (20, base::event::Verdict::ValidWithWarnings));
    assert_eq!(result(|_| None, None).counts.broken_off, 0);
    assert_eq!(result(|_| Some(FinishReason::Stop), None).counts.broken_off, 0);
    // Chunks may be fewer than tokens, unless the others show by their usage that these lack one.
    assert_eq!(counted(TokenSource::Chunks, false, broken, None).counts.broken_off, 0);
    assert_eq!(counted(TokenSource::Chunks, true, broken, None).counts.broken_off, 20);
}

#[test]
fn requests_that_failed_and_answers_that_broke_off_share_a_budget() {
    let severities = |budget: &str| {
        let limits = Limits { failures: Some(budget.parse().unwrap()), ..Limits::default() };
        let spec = BenchSpec { limits, ..spec(200) };
        let mut result = summarized(&spec, answered_after(200, |_| 30)).result;
        (result.counts.failed, result.counts.broken_off) = (12, 12);
        let result = UnjudgedRun::elsewhere(spec, result, std::time::Instant::now()).judge().result;
        let failures = result.reasons().iter().filter(|reason| reason.check == VerdictCheck::Failures);
        failures.map(|reason| reason.severity).collect::<Vec<_>>()
    };
    assert_eq!(severities("10%"), [ReasonSeverity::InvalidServer; 2]);
    assert_eq!(severities("12%"), [ReasonSeverity::Warning; 2]);
}

/// As of a server that names a reason only where the model stopped, or behind whose address another one names none.
#[test]
fn a_server_that_often_names_no_finish_reason_has_that_habit() {
    let mut collector = Collector::new();
    for index in 0..200 {
        let at = index * 10;
        let chunks: Vec<(u64, u32)> = (1..=3).map(|token| (at + token * 10, 1)).collect();
        ended(&mut collector, index, (at, at, at + 90), 8, &chunks, RequestEnd::Ok);
    }
    let (records, mut collector) = collector.split();
    collector.records = RecordWriter::one_of(1, SpoolContext::default());
    for record in &records {
        let finish_reason = (!record.index.is_multiple_of(4)).then_some(FinishReason::Stop);
        collector.records.push(RequestRecord { finish_reason, ..record });
    }
    let result = summarized(&spec(200), collector).result;
    assert_eq!((result.counts.broken_off, result.counts.unexplained), (0, 50));
    assert_eq!(result.verdict(), base::event::Verdict::ValidWithWarnings);
    insta::assert_snapshot!(result.reasons()[0].text, @"50 of 200 answers are shorter than requested, without a \
        finish_reason and without usage, and others of the same server have a finish_reason: it cannot be told \
        whether they broke off; they are in the latencies and rates");
}

/// The source of each tenth answer is another one than that of the rest.
#[test]
fn tokens_that_were_not_counted_are_those_of_some_answers() {
    let reason = |other: TokenSource| {
        let mut collector = Collector::new();
        for index in 0..200 {
            ended(
                &mut collector,
                index,
                (index * 10, index * 10, index * 10 + 90),
                1,
                &[(index * 10 + 90, 1)],
                RequestEnd::Ok,
            );
        }
        let (records, mut collector) = collector.split();
        collector.records = RecordWriter::one_of(1, SpoolContext::default());
        for record in &records {
            let token_source = if record.index % 10 == 0 { other } else { TokenSource::Usage };
            collector.records.push(RequestRecord { token_source, ..record });
        }
        let protocol = Transport::Http(Http::new(Api::OpenaiChat));
        let spec = BenchSpec { protocol, ..spec(200) };
        let result = summarize_with(&spec, collector, |output| output.count = TokenCounting::Usage).judge().result;
        result.reasons().iter().find(|reason| reason.check == VerdictCheck::Tokens).unwrap().text.clone()
    };
    insta::assert_snapshot!(reason(TokenSource::Requested), @"output tokens of 20 of 200 answers were not counted: an \
        answer is one text, so the requested number is used");
    insta::assert_snapshot!(reason(TokenSource::Chunks), @"output tokens of 20 of 200 answers were not counted: they \
        came without usage, although each request has `stream_options.include_usage`, and chunks stand in; name a \
        `tokenizer`");
}

/// Two answers to one prompt, each with a token every 10 ms, that come in turn.
#[test]
fn gaps_between_tokens_of_several_answers_are_no_times_of_one() {
    let http = Http { extra: [("n".to_owned(), 2.into())].into_iter().collect(), ..Http::new(Api::OpenaiChat) };
    let mut collector = Collector::new();
    for index in 0..200 {
        let chunks: Vec<(u64, u32)> = (0..16).map(|token| (index * 10 + 5 * token, 1)).collect();
        ended(&mut collector, index, (index * 10, index * 10, index * 10 + 90), 16, &chunks, RequestEnd::Ok);
    }
    let (records, mut collector) = collector.split();
    collector.records = RecordWriter::one_of(1, SpoolContext::default());
    for record in &records {
        collector.records.push(RequestRecord { interleaved: true, ..record });
    }
    let slo = Slo { tpot_ms: Some(8.0), ..Slo::default() };
    let limits = Limits { tpot_p99: Some(std::time::Duration::from_millis(8).into()), ..Limits::default() };
    let result = summarized(&BenchSpec { protocol: Transport::Http(http), limits, slo, ..spec(200) }, collector).result;
    let LatencyMetrics { tpot, itl_token, icl, max_stall, .. } = &result.latency;
    assert!([tpot, itl_token, icl, max_stall].into_iter().all(|metric| metric.n == 0), "{:?}", result.latency);
    assert_eq!(result.goodput.as_ref().unwrap().attainment, None);
    let texts: Vec<&str> = result.reasons().iter().map(|reason| reason.text.as_str()).collect();
    insta::assert_snapshot!(texts.join("\n"), @"
    there is no TPOT p99 to check against the limit tpot_p99 of 8.0 ms: a request has several answers, whose tokens \
    come between each other
    a request has several answers, whose tokens come between each other: TPOT, ITL, ICL and the longest gap are left out
    ");
}

/// A proxy that collects events, and passes an answer on as a whole: nothing shows how fast its tokens came.
#[test]
fn times_between_chunks_of_one_read_are_left_out_and_keep_no_limit() {
    let result = |tpot: f64| {
        let mut collector = Collector::new();
        for index in 0..200 {
            let at = index * 10;
            ended(&mut collector, index, (at, at, at + 70), 8, &[(at + 70, 1); 8], RequestEnd::Ok);
        }
        let slo = Slo { tpot_ms: Some(tpot), ..Slo::default() };
        let tpot_p99 = Some(std::time::Duration::from_millis(5).into());
        let limits = Limits { tpot_p99, goodput: Some(GoodputLimit::PerSecond(0.1)), ..Limits::default() };
        summarized(&BenchSpec { limits, slo, ..spec(200) }, collector).result
    };
    let unknown = result(5.0);
    let LatencyMetrics { tpot, itl_token, icl, max_stall, .. } = &unknown.latency;
    for metric in [tpot, itl_token, icl, max_stall] {
        assert_eq!((metric.n, metric.p99), (0, None));
        assert!(metric.absent.as_ref().unwrap().contains("came in one read"), "{metric:?}");
    }
    assert_eq!(unknown.goodput.as_ref().unwrap().attainment, None);
    let texts: Vec<&str> = unknown.reasons().iter().map(|reason| reason.text.as_str()).collect();
    insta::assert_snapshot!(texts.join("\n"), @"
    there is no TPOT p99 to check against the limit tpot_p99 of 5.0 ms: 100 % of the tokens after the first chunk \
    came in one read with it, so most times between tokens were not measured
    there is no TPOT to check against `slo`, and so no goodput to check against its limit
    88 % of the chunks came in one read with the chunk before, and 100 % of the gaps between chunks are in answers \
    that came in one read: the server or a proxy in front of it writes several at once (nginx: set `proxy_buffering \
    off`; HAProxy: `option http-no-delay`), or the client was late; TPOT, ITL, ICL and the longest gap are left out, \
    and TTFT is the time of the first read, which may also contain later tokens
    ");
    // The whole answer took 10 ms for each token after the first, so no token took more.
    assert_eq!(result(10.0).goodput.unwrap().attainment, Some(1.0));
}

/// Answers in one read of `short` tokens each, as many as of 9 tokens 10 ms apart: they weigh by their gaps.
#[test]
fn answers_of_one_read_weigh_as_many_gaps_as_they_have() {
    let reasons = |each: u64, short: usize| {
        let mut collector = Collector::new();
        for index in 0..400 {
            let at = index * 10;
            let is_short = index % each == 0;
            let late: Vec<(u64, u32)> = vec![(at + 70, 1); short];
            let long: Vec<(u64, u32)> = (1..=9).map(|token| (at + token * 10, 1)).collect();
            let chunks = if is_short { late } else { long };
            ended(&mut collector, index, (at, at, at + 90), chunks.len() as u32, &chunks, RequestEnd::Ok);
        }
        let tpot_p99 = Some(std::time::Duration::from_millis(20).into());
        let limits = Limits { tpot_p99, ..Limits::default() };
        let result = summarized(&BenchSpec { limits, ..spec(400) }, collector).result;
        let texts: Vec<String> = result.reasons().iter().map(|reason| reason.text.clone()).collect();
        (result.latency.tpot.p99, result.latency.max_stall.p99, texts.join("\n"))
    };
    // 4 % of the answers have 0.5 % of the gaps.
    assert_eq!(reasons(25, 2), (Some(10.0), Some(10.0), String::new()));
    let (tpot, stall, texts) = reasons(2, 2);
    assert_eq!((tpot, stall), (Some(10.0), Some(10.0)));
    insta::assert_snapshot!(texts, @"11 % of the gaps between chunks are in answers that came in one read: the server \
        or a proxy in front of it writes several at once (nginx: set `proxy_buffering off`; HAProxy: `option \
        http-no-delay`), or the client was late; TPOT, ITL, ICL and the longest gap are from the other answers, \
        and TTFT is the time of the first read, which may also contain later tokens");
    let (tpot, stall, texts) = reasons(2, 10);
    assert_eq!((tpot, stall), (None, None));
    assert!(texts.contains("53 % of the gaps between chunks are in answers that came in one read"), "{texts}");
}

/// 7 tokens in the first read and one 40 ms later; and twice 4 tokens.
#[test]
fn tokens_of_the_first_read_are_those_of_the_first_chunk() {
    let tpot = |chunks: &[(u64, u32)]| {
        let mut collector = Collector::new();
        for index in 0..2 {
            ended(&mut collector, index, (0, 0, 140), 8, chunks, RequestEnd::Ok);
        }
        let slo = Slo { tpot_ms: Some(9.0), ..Slo::default() };
        let result = summarized(&BenchSpec { slo, ..spec(2) }, collector).result;
        assert!(result.self_check.mismatches.is_empty(), "{:?}", result.self_check);
        (result.latency.tpot.p50, result.latency.max_stall.p50, result.goodput.unwrap().good)
    };
    let apart = |first: usize| [vec![(100, 1); first], vec![(140, 1); 8 - first]].concat();
    // Of most tokens no time is known.
    assert_eq!(tpot(&apart(7)), (None, None, 0));
    assert_eq!(tpot(&apart(4)), (Some(10.0), Some(40.0), 0));
    assert_eq!(tpot(&apart(1)), (Some(40.0 / 7.0), Some(40.0), 2));
}

/// The metrics of answers that are all like this: TPOT, ITL and ICL as p50, the share of chunks that shared a read, and
/// what speaks against them.
fn of_answers(chunks: &[(u64, u32)]) -> ([Option<f64>; 3], Option<f64>, String) {
    let mut collector = Collector::new();
    let tokens: u32 = chunks.iter().map(|(_, tokens)| tokens).sum();
    for index in 0..200 {
        let at = index * 10;
        let chunks: Vec<(u64, u32)> = chunks.iter().map(|(after, tokens)| (at + after, *tokens)).collect();
        ended(&mut collector, index, (at, at, chunks[chunks.len() - 1].0), tokens, &chunks, RequestEnd::Ok);
    }
    let result = summarized(&spec(200), collector).result;
    assert!(result.self_check.mismatches.is_empty(), "{:?}", result.self_check);
    let LatencyMetrics { tpot, itl_token, icl, .. } = &result.latency;
    let texts: Vec<String> = result.reasons().iter().map(|reason| reason.text.clone()).collect();
    let rounded = |ms: Option<f64>| ms.map(|ms| (ms * 10.0).round() / 10.0);
    ([tpot.p50, itl_token.mean, icl.mean].map(rounded), result.tokens.coalesced_share, texts.join("\n"))
}

/// Tokens 20 ms apart, each sent when so many have gathered.
fn gathered(tokens: u64, each: u64) -> Vec<(u64, u32)> {
    (1..=tokens).map(|token| (token.div_ceil(each) * each * 20, 1)).collect()
}

#[test]
fn chunks_of_one_read_are_one_arrival_of_all_their_tokens() {
    let apart = of_answers(&gathered(16, 1));
    assert_eq!(apart, ([Some(20.0); 3], Some(0.0), String::new()));
    let pairs = of_answers(&gathered(16, 2));
    assert_eq!(pairs, ([Some(20.0), Some(20.0), Some(40.0)], Some(0.5), String::new()));
    // Every third token waits for the next one.
    let joined: Vec<(u64, u32)> = (1..=15).map(|token| ((token + u64::from(token % 3 == 0)) * 20, 1)).collect();
    let (metrics, share, texts) = of_answers(&joined[..14]);
    assert_eq!((metrics, texts.as_str()), ([Some(20.0), Some(20.0), Some(28.9)], ""));
    assert_eq!(share, Some(4.0 / 14.0));
    // Both at once: two tokens to a chunk, and two chunks to a read.
    let both: Vec<(u64, u32)> = gathered(16, 2).into_iter().map(|(at, _)| (at, 2)).collect();
    assert_eq!(of_answers(&both).0, [Some(10.0), Some(10.0), Some(40.0)]);
}

/// A relay that passes on every 200 ms what has come.
#[test]
fn where_most_tokens_come_with_the_first_no_time_between_them_is_known() {
    let relayed = |tokens: u64| (1..=tokens).map(|token| ((token * 5).div_ceil(200) * 200, 1)).collect::<Vec<_>>();
    let (metrics, share, texts) = of_answers(&relayed(64));
    assert_eq!((metrics, share), ([None; 3], Some(62.0 / 64.0)));
    insta::assert_snapshot!(texts, @"97 % of the chunks came in one read with the chunk before: the server or a proxy \
        in front of it writes several at once (nginx: set `proxy_buffering off`; HAProxy: `option http-no-delay`), or \
        the client was late; TPOT, ITL, ICL and the longest gap are left out, and TTFT is the time of the first read, \
        which may also contain later tokens");
    let (metrics, share, texts) = of_answers(&relayed(400));
    assert_eq!((metrics, share), ([Some(5.0), Some(5.0), Some(200.0)], Some(390.0 / 400.0)));
    assert!(texts.contains("98 % of the chunks came in one read with the chunk before"), "{texts}");
    assert!(texts.contains("TPOT and ITL spread the time of a read over its tokens"), "{texts}");
}

/// Prompts of `sent` words or tokens, by the server's own count, with what its cache has apart.
#[test]
fn a_server_that_counts_far_fewer_prompt_tokens_than_were_sent_cuts_prompts() {
    let cut = |sent: u32, prompt: Option<u64>, cached: Option<u64>, is_exact: bool| {
        let mut collector = Collector::new();
        ended(&mut collector, 0, (0, 0, 30), 1, &[(30, 1)], RequestEnd::Ok);
        let (records, _) = collector.split();
        let usage = Usage { prompt, cached, ..Usage::default() };
        let record = |record| RequestRecord { input_tokens: sent, usage: Some(Box::new(usage)), ..record };
        let records = RequestRecords::new(records.iter().map(record));
        CutInput::from_records(&records, is_exact).map(|cut| (cut.sent, cut.counted))
    };
    let words = |sent, counted| cut(sent, Some(counted), None, false);
    assert_eq!(words(8_000, 2_048), Some((8_000, 2_048)));
    // A server that does not count says 0.
    assert_eq!(words(8_000, 0), None);
    // Words that a tokenizer merges, a template around them, a text of one word without blanks, and a few words.
    for (sent, counted) in [(8_000, 4_100), (8_000, 8_020), (1, 4_000), (8, 2)] {
        assert_eq!(words(sent, counted), None, "{sent} {counted}");
    }
    let tokens = |sent, counted| cut(sent, Some(counted), None, true);
    assert_eq!(tokens(8_000, 7_500), Some((8_000, 7_500)));
    for (sent, counted) in [(8_000, 7_998), (8_000, 8_020), (8, 7), (20, 16)] {
        assert_eq!(tokens(sent, counted), None, "{sent} {counted}");
    }
    assert_eq!(cut(8_000, Some(100), Some(7_900), true), None);
    assert_eq!(cut(8_000, None, None, true), None);
}

/// Requests every 20 ms, the first token of each after 50 ms; `gap_ms` is the time before each later token of a
/// request.
fn with_stalls(requests: u64, tokens: u64, gap_ms: impl Fn(u64, u64) -> u64) -> Collector {
    let mut collector = Collector::new();
    for index in 0..requests {
        let at = index * 20;
        let mut now = at + 50;
        let mut chunks = vec![(now, 1)];
        for token in 1..tokens {
            now += gap_ms(index, token);
            chunks.push((now, 1));
        }
        ended(&mut collector, index, (at, at, now), tokens as u32, &chunks, RequestEnd::Ok);
    }
    collector
}

/// Requests every 10 ms that the client sends, and reads the answers of, as late as `resumes` has it.
fn of_a_paused_client(requests: u64, resumes: impl Fn(u64) -> u64) -> Collector {
    let mut collector = Collector::new();
    for index in 0..requests {
        let at = index * 10;
        let issued = resumes(at);
        let read = resumes(issued + 30);
        ended(&mut collector, index, (at, issued, read), 1, &[(read, 1)], RequestEnd::Ok);
    }
    collector
}

/// Refused at the end of each second, for 100 ms.
fn rate_limited(requests: u64) -> Collector {
    let mut collector = Collector::new();
    for index in 0..requests {
        let at = index * 10;
        let refusal = || "HTTP status 429: Too Many Requests".to_owned();
        let (end, chunks, how) = match at % 1_000 {
            900.. => (at + 2, Vec::new(), RequestEnd::Failed { class: FailureClass::Refused, why: refusal() }),
            _ => (at + 30, vec![(at + 30, 1)], RequestEnd::Ok),
        };
        ended(&mut collector, index, (at, at, end), 1, &chunks, how);
    }
    collector
}

/// A context window that fills: from the middle on answers end after a quarter of their tokens.
fn cut_answers(requests: u64) -> Collector {
    let mut collector = Collector::new();
    for index in 0..requests {
        let (at, tokens) = (index * 10, if index < requests / 2 { 40 } else { 10 });
        let chunks: Vec<(u64, u32)> = (0..tokens).map(|token| (at + 30 + token * 10, 1)).collect();
        let end = at + 30 + (tokens - 1) * 10;
        ended(&mut collector, index, (at, at, end), 40, &chunks, RequestEnd::Ok);
    }
    collector
}

pub(super) fn cases() -> Vec<Case> {
    let noise = |index: u64| index * 7_919 % 7;
    vec![
        case(
            "a client that pauses for 60 ms every second to collect garbage",
            300,
            of_a_paused_client(300, |at| if at % 1_000 < 940 { at } else { at - at % 1_000 + 1_000 }),
            |_| (),
        ),
        case(
            "a client whose machine is suspended for 1 s",
            300,
            of_a_paused_client(300, |at| if (1_000..2_000).contains(&at) { 2_000 } else { at }),
            |_| (),
        ),
        case(
            "a client that falls behind by 20 ms over the run",
            300,
            of_a_paused_client(300, |at| at + at / 150),
            |_| (),
        ),
        case(
            "a warm-up that is part of the run: 30 requests of 300 twice as slow",
            300,
            answered_after(300, |index| if index < 30 { 200 } else { 100 } + noise(index)),
            |_| (),
        ),
        case(
            "a prefix cache that is hot in the second half",
            300,
            answered_after(300, |index| if index < 150 { 300 } else { 60 } + noise(index)),
            |_| (),
        ),
        case(
            "a gateway that answers every second request from its cache",
            300,
            answered_after(300, |index| if index % 2 == 0 { 200 } else { 2 }),
            |spec| spec.content.distinct = Some(150),
        ),
        case("a rate limiter that refuses the end of each second", 300, rate_limited(300), |_| ()),
        case("the same within a budget of failures", 300, rate_limited(300), |spec| {
            spec.limits.failures = Some("15%".parse().unwrap());
        }),
        case("answers cut to a quarter in the second half", 300, cut_answers(300), |_| ()),
        case(
            "a stall of 65 ms in each answer of the second half, TPOT 6 % longer",
            300,
            with_stalls(300, 200, |index, token| if index >= 150 && token == 100 { 65 } else { 5 }),
            |_| (),
        ),
        case(
            "tokens sent ten at a time from the middle on, at the same TPOT",
            300,
            with_stalls(300, 101, |index, token| match (index, token % 10) {
                (..150, _) => 6,
                (_, 1) => 60,
                _ => 0,
            }),
            |_| (),
        ),
        case(
            "a fifth of the answers preempted for 1 s in the last third",
            1_000,
            with_stalls(1_000, 200, |index, token| match (index, token) {
                (667.., 150) if index % 5 == 0 => 1_000,
                _ => 20 + (index + token) % 3,
            }),
            |_| (),
        ),
    ]
}
