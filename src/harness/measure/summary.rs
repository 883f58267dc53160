//! From records to numbers. Pure: the same records give the same result.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::measure::collector::{Collector, WorkerOutput};
use crate::measure::latency::{one_read_share, ttft};
use crate::measure::load_conditions::in_flight_changes;
use crate::measure::result::SCHEMA;
use crate::measure::subsets::{by_name, cancellations, host_of, server_side};
use crate::measure::token_counts::{RETOKENIZED, UnexplainedEnds, count_retokenized, mixed};
use crate::measure::{collector, latency};
use crate::schedule::arrivals;
use crate::tokens::CHUNKS;
use crate::transport::request_encoder::{CallKind, TokenCounting};
use crate::{
    BenchSpec, CachedInput, ClientUsage, Connections, Counts, CutInput, FailureClass, FailureCounts, Goodput,
    LateRequests, LittlesLaw, LoadConditions, LoadPattern, Measured, Rates, RequestEnd, RequestRecord, RequestRecords,
    RequestSchedule, Requested, RunResult, ServerFreeze, Stability, Steady, TimeSlice, TokenCounts, TokenSource,
    Transport, Versions,
};
use base::event::{Endpoint, Verdict};
use base::files::cores;
use base::spec::StreamMode;

const NS: f64 = 1e9;
const SECOND: u64 = 1_000_000_000;
const FAILURES_SHOWN_PER_CLASS: u64 = 3;

/// When the run began.
pub(crate) struct RunStart {
    /// Start of set-up, RFC 3339.
    pub wall: String,
    /// The first possible arrival.
    pub zero: std::time::Instant,
}

/// `untaken`: requests that no user of a closed loop reached, because the run was stopped.
pub(crate) fn summarize(
    spec: &BenchSpec,
    schedule: &Arc<RequestSchedule>,
    outputs: Vec<WorkerOutput>,
    untaken: u64,
    start: &RunStart,
) -> Measured {
    let client = client(&outputs);
    let count =
        outputs.first().map_or(TokenCounting::Ids { beams: 1, sequences: 1, has_prompt: false }, |output| output.count);
    let little_area: f64 = outputs.iter().map(|output| output.in_flight_area).sum();
    let wall_ns = outputs.iter().map(|output| output.wall_ns).max().unwrap_or(0);
    let totals = |of: fn(&WorkerOutput) -> u64| outputs.iter().map(of).sum::<u64>();
    let (issued, in_flight) = (totals(|output| output.issued), totals(|output| output.in_flight_at_end));
    let not_sent = totals(|output| output.not_sent) + untaken;
    let connections = Connections {
        count: outputs.iter().map(|output| output.opened).sum::<Option<u64>>().unwrap_or(spec.connections() as u64),
        max_streams: outputs.iter().filter_map(|output| output.max_streams).min(),
        waited_for_stream: totals(|output| output.waited_for_stream),
        reconnects: totals(|output| u64::from(output.reconnects)),
        idle_closed: totals(|output| output.idle_closed),
        resent: totals(|output| output.resent),
        stream: (spec.protocol == Transport::Kserve && outputs.iter().all(|output| output.call == CallKind::Stream))
            .then_some(spec.pace.stream),
        shared_streams: (spec.pace.stream == StreamMode::Shared).then(|| totals(|output| output.streams)),
    };
    let mut outputs = outputs;
    let parts = outputs.iter_mut().map(|output| std::mem::replace(&mut output.collector, Collector::new()));
    let mut merged = Collector::merged(parts);
    count_retokenized(schedule, count, &mut merged);
    let records = &merged.records;
    let rates = rates(spec, schedule, records);
    // No task waits for the end of a request that the client cancelled.
    let cancelled_early = records.borrowed().filter(|record| record.ended == RequestEnd::CancelledEarly).count() as u64;
    let to_answer = schedule.requests.len() as u64 - cancelled_early;
    let stability = Stability::from_records(spec, records);
    let tokens = tokens(&merged, count, stability.freeze.as_ref());
    let (latency, curves) = latency::latencies(&merged, to_answer, &tokens, spec.scenario.zero_point());
    let late = LateRequests::count(records, latency.ttft.p50.unwrap_or(0.0));
    let mut counts = counts(schedule.requests.len() as u64, issued, not_sent, in_flight, records);
    for (class, count, example) in merged.violations.each() {
        counts.violations.insert(class, count);
        counts.violation_examples.insert(class, example.to_owned());
    }
    let mut result = RunResult {
        schema: SCHEMA,
        verdict: Verdict::Valid,
        reasons: Vec::new(),
        identity: None,
        requested: Requested::from_spec(spec),
        schedule_digest: schedule.digest.to_string(),
        generator: arrivals::GENERATOR.to_owned(),
        started: start.wall.clone(),
        load: LoadConditions::new(spec, schedule, &outputs, records, &tokens.source),
        self_check: collector::self_check(&merged, &counts),
        counts,
        goodput: Goodput::new(spec.slo(), records, to_answer, rates.window_s),
        steady: spec
            .scenario
            .is_open_loop()
            .then(|| steady(spec, &merged, &tokens, stability.freeze.as_ref()))
            .flatten(),
        stability,
        latency,
        server: server_side(spec, records),
        cancellations: cancellations(spec, records),
        outputs: merged.extra_outputs.iter().map(|(name, tally)| ((*name).to_owned(), tally.clone())).collect(),
        little: littles_law(little_area, wall_ns, records),
        client: ClientUsage {
            backlog_p99_ms: merged.backlog.percentile(0.99).map(|ns| ns as f64 / 1e6),
            late,
            ..client
        },
        connections,
        tokens,
        slices: slices(&merged),
        curves,
        rates,
        versions: Versions {
            regatta: env!("CARGO_PKG_VERSION").to_owned(),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
        },
        loadgen: None,
        server_metrics: None,
        gpu: None,
        preflight: None,
        hosts: Vec::new(),
        endpoints: Vec::new(),
        repeats: None,
        extra: BTreeMap::new(),
    };
    result.hosts = by_name(spec, |server| host_of(server).to_owned(), &result, &merged.records);
    result.endpoints = by_name(spec, Endpoint::to_string, &result, &merged.records);
    if let Some(chunks) = (merged.chunks > 0).then_some(merged.chunks) {
        // Kept as a sum until here.
        result.client.cpu_ms_per_1000_chunks = result.client.cpu_ms_per_1000_chunks.map(|ms| ms / chunks as f64 * 1e3);
    } else {
        result.client.cpu_ms_per_1000_chunks = None;
    }
    if let (LoadPattern::Server { rate }, None) = (&spec.scenario, spec.pace.max_in_flight) {
        let batch = spec.request.batch() as u64;
        // Messages arrive by the law, and requests with them; later turns of a session do not.
        let is_first = |record: &RequestRecord| record.turn == 0 && record.index.is_multiple_of(batch);
        let at = records.column(|record| is_first(record).then_some(record.t_issue)).sorted();
        let distance =
            arrivals::distance_from_law(&rate.scaled(1.0 / batch as f64), spec.arrivals, at.iter(), at.len());
        (result.client.ks_distance, result.client.ks_critical) = distance.unzip();
    }
    let has_ids = matches!(&spec.protocol, Transport::Http(http) if http.prompt_ids);
    result.tokens.input_cut = CutInput::from_records(&merged.records, schedule.has_tokenizer() || has_ids);
    if schedule.has_tokenizer() && !matches!(count, TokenCounting::Ids { .. }) {
        "tokens of the tokenizer given".clone_into(&mut result.tokens.input_source);
    }
    Measured {
        result,
        requests: merged.records,
        schedule: Arc::clone(schedule),
        zero: start.zero,
        scrape: None,
        gpu: None,
    }
}

fn counts(scheduled: u64, issued: u64, not_sent: u64, in_flight_at_end: u64, records: &RequestRecords) -> Counts {
    let mut counts = Counts { scheduled, issued, in_flight_at_end, not_sent, ..Counts::default() };
    let mut servers = BTreeMap::<u32, UnexplainedEnds>::new();
    for record in records.borrowed() {
        servers.entry(record.endpoint).or_default().add(&record);
        if let Some(reason) = record.finish_reason {
            *counts.finish_reasons.entry(reason).or_default() += 1;
        }
        for attempt in &record.attempts {
            counts.retried += 1;
            *counts.retried_by_class.entry(attempt.class).or_default() += 1;
        }
        match &record.ended {
            RequestEnd::Ok => counts.ok += 1,
            RequestEnd::Cancelled => counts.cancelled += 1,
            RequestEnd::CancelledEarly => counts.cancelled_early += 1,
            RequestEnd::Failed { class, why } => {
                counts.failed += 1;
                let so_far = counts.failed_by_class.entry(*class).or_default();
                *so_far += 1;
                if *so_far <= FAILURES_SHOWN_PER_CLASS {
                    counts.failures.push(FailureCounts { class: *class, request: record.index, why: why.clone() });
                }
            }
        }
    }
    for server in servers.values() {
        let count = if server.is_habit() { &mut counts.unexplained } else { &mut counts.broken_off };
        *count += server.count();
    }
    let ended = counts.ok + counts.failed + counts.cancelled + counts.cancelled_early + in_flight_at_end;
    counts.conserved = scheduled == ended + not_sent && issued == ended;
    debug_assert!(counts.failed_by_class.keys().all(|class| FailureClass::ALL.contains(class)));
    counts
}

fn tokens(all: &Collector<RequestRecords>, count: TokenCounting, freeze: Option<&ServerFreeze>) -> TokenCounts {
    let input_source = match count {
        TokenCounting::Ids { .. } => "input_ids",
        TokenCounting::Responses { .. } | TokenCounting::Requested => "words of text_input",
        TokenCounting::Usage => "words of the prompt",
    };
    let mut tokens =
        TokenCounts { source: count.source(), input_source: input_source.to_owned(), ..TokenCounts::default() };
    let (mut requests, mut chunks, mut first, mut is_known) = (0u64, 0u64, 0u64, true);
    let (mut prompts, mut whole) = (Some(0_u64), 0_u64);
    let mut answers = BTreeMap::<TokenSource, u64>::new();
    for record in all.records.ok() {
        requests += 1;
        chunks += u64::from(record.chunks);
        first += u64::from(record.first_tokens);
        is_known &= record.known_first_tokens().is_some();
        tokens.input += u64::from(record.input_tokens);
        tokens.output += u64::from(record.tokens);
        tokens.output_requested += u64::from(record.requested_tokens);
        tokens.shorter += u64::from(record.tokens < record.requested_tokens);
        tokens.longer += u64::from(record.tokens > record.requested_tokens);
        tokens.without_final_marker += u64::from(!record.final_marker);
        let prompt = record.usage.as_ref().and_then(|usage| usage.prompt);
        if let Some(reasoning) = record.usage.as_ref().and_then(|usage| usage.reasoning) {
            tokens.output_reasoning = Some(tokens.output_reasoning.unwrap_or(0).saturating_add(reasoning));
        }
        // A server that reports usage and never sends several chunks does not stream.
        whole += u64::from(matches!(count, TokenCounting::Usage) && record.chunks == 1 && record.tokens > 1);
        prompts = prompts.zip(prompt).map(|(sum, more)| sum.saturating_add(more));
        *answers.entry(record.token_source).or_default() += 1;
        if record.chunks > 1 && record.chunk_tokens_unknown {
            tokens.chunk_tokens_unknown += 1;
            // Chunks and responses show it already, where they are the source.
            if !matches!(record.token_source, TokenSource::Chunks | TokenSource::Responses) {
                tokens.chunk_source = Some(CHUNKS.to_owned());
            }
        }
    }
    tokens.source = source(count, &answers);
    tokens.whole_answers = all.whole_answers.max(if chunks == requests { whole } else { 0 });
    tokens.input_server = prompts.filter(|_| requests > 0);
    tokens.input_cached = CachedInput::from_records(&all.records);
    tokens.mean_first_chunk = (requests > 0 && is_known).then(|| first as f64 / requests as f64);
    tokens.one_read_share = one_read_share(&all.records, freeze);
    tokens.coalesced_share = (chunks > 0).then(|| all.coalesced as f64 / chunks as f64);
    tokens
}

/// The token source of every successful answer; where it differs between answers, the count for each. `answers`: of
/// each source.
fn source(count: TokenCounting, answers: &BTreeMap<TokenSource, u64>) -> String {
    let total: u64 = answers.values().sum();
    let text = |source: TokenSource| match source {
        TokenSource::OutputIds | TokenSource::Responses => count.source(),
        TokenSource::Usage => TokenCounting::Usage.source(),
        TokenSource::Requested => TokenCounting::Requested.source(),
        TokenSource::ChunkIds => "token ids or log probabilities of each chunk".to_owned(),
        TokenSource::Chunks => CHUNKS.to_owned(),
        TokenSource::Retokenized => RETOKENIZED.to_owned(),
    };
    // The interface's own source comes first.
    let order = [
        TokenSource::OutputIds,
        TokenSource::Responses,
        TokenSource::Usage,
        TokenSource::ChunkIds,
        TokenSource::Requested,
    ];
    let rest = [TokenSource::Retokenized, TokenSource::Chunks];
    let parts: Vec<(u64, String)> = order
        .into_iter()
        .chain(rest)
        .filter_map(|source| answers.get(&source).map(|answers| (*answers, text(source))))
        .collect();
    match parts.len() {
        0 => count.source(),
        1 => parts.into_iter().map(|(_, source)| source).collect(),
        _ => mixed(parts, total),
    }
}

/// Tokens of each second are those of chunks, and no rate of tokens where chunks were not counted.
fn steady(
    spec: &BenchSpec,
    all: &Collector<RequestRecords>,
    tokens: &TokenCounts,
    freeze: Option<&ServerFreeze>,
) -> Option<Steady> {
    let (zero, by_second) = (spec.scenario.zero_point(), &all.ok_tokens_by_second);
    let steady = Steady::new(&all.records, by_second, freeze, zero, &tokens.source)?;
    let is_known = !all
        .records
        .ok()
        .any(|record| record.retokenized || record.chunk_tokens_unknown && record.token_source == TokenSource::Usage);
    Some(Steady { output_tokens_per_s: steady.output_tokens_per_s.filter(|_| is_known), ..steady })
}

fn rates(spec: &BenchSpec, schedule: &RequestSchedule, records: &RequestRecords) -> Rates {
    let (mut issued, mut arrivals, mut planned) = (InstantRange::NONE, InstantRange::NONE, InstantRange::NONE);
    let (mut answered, mut tokens, mut window_ns) = (0_usize, 0.0, 0);
    // Issue and end of the successful request that was issued last.
    let mut last_query = (0, 0);
    for record in records.borrowed() {
        issued.add(record.t_issue);
        // Later turns wait for answers and are no arrivals.
        if record.turn == 0 {
            arrivals.add(record.t_issue);
        }
        if record.is_ok() {
            answered += 1;
            tokens += f64::from(record.tokens);
            window_ns = window_ns.max(record.t_end);
            if record.t_issue >= last_query.0 {
                last_query = (record.t_issue, record.t_end);
            }
        }
    }
    schedule.scheduled().for_each(|at| planned.add(at));
    let while_arriving = if spec.scenario.is_open_loop() { served_until(planned.last, records) } else { None };
    let window_s = window_ns as f64 / NS;
    let per_window = |count: f64| (window_s > 0.0).then(|| count / window_s);
    let is_timed = spec.scenario.is_open_loop();
    let completed = InstantRange { count: answered, last: last_query.1, ..issued };
    Rates {
        window_s,
        offered: is_timed.then(|| planned.per_second()).flatten(),
        admitted: is_timed.then(|| arrivals.per_second()).flatten(),
        requests_full: per_window(answered as f64),
        requests_loadgen_completed: completed.per_second(),
        output_tokens: per_window(tokens),
        requests_while_arriving: while_arriving.map(|(requests, _)| requests),
        output_tokens_while_arriving: while_arriving.map(|(_, tokens)| tokens),
    }
}

/// Requests and tokens per second from the first end of a successful request to the last one by this time. The first
/// only begins the window.
fn served_until(last_arrival: u64, records: &RequestRecords) -> Option<(f64, f64)> {
    /// Fewer gaps show little of a rate.
    const LEAST: usize = 10;
    let (mut ends, mut tokens, mut first) = (InstantRange::NONE, 0.0, (u64::MAX, 0.0));
    for record in records.borrowed().filter(|record| record.is_ok() && record.t_end <= last_arrival) {
        ends.add(record.t_end);
        tokens += f64::from(record.tokens);
        if record.t_end < first.0 {
            first = (record.t_end, f64::from(record.tokens));
        }
    }
    let requests = ends.per_second().filter(|_| ends.count > LEAST)?;
    Some((requests, (tokens - first.1) * requests / (ends.count - 1) as f64))
}

/// How many instants there are, and the first and the last one, ns.
#[derive(Clone, Copy)]
struct InstantRange {
    count: usize,
    first: u64,
    last: u64,
}

impl InstantRange {
    const NONE: Self = Self { count: 0, first: u64::MAX, last: 0 };

    fn add(&mut self, at: u64) {
        *self = Self { count: self.count + 1, first: self.first.min(at), last: self.last.max(at) };
    }

    /// Gaps between them per second.
    fn per_second(self) -> Option<f64> {
        let ns = self.last.saturating_sub(self.first);
        (self.count > 1 && ns > 0).then(|| (self.count - 1) as f64 / (ns as f64 / NS))
    }
}

fn littles_law(area: f64, wall_ns: u64, records: &RequestRecords) -> LittlesLaw {
    if wall_ns == 0 || records.is_empty() {
        return LittlesLaw::default();
    }
    let total: f64 = records.borrowed().map(|record| record.t_end.saturating_sub(record.t_issue) as f64).sum();
    let wall_s = wall_ns as f64 / NS;
    let in_flight_mean = area / wall_ns as f64;
    let rate = records.len() as f64 / wall_s;
    let time_s = total / records.len() as f64 / NS;
    let relative_error = (in_flight_mean > 0.0).then(|| (in_flight_mean - rate * time_s).abs() / in_flight_mean);
    LittlesLaw { in_flight_mean, rate, time_s, relative_error }
}

fn client(outputs: &[WorkerOutput]) -> ClientUsage {
    let share_of = |ns: u64, wall: u64| ns as f64 / wall.max(1) as f64;
    let call = match outputs.first().map(|output| output.call) {
        Some(CallKind::Unary) => "unary",
        _ => "stream",
    };
    let waits = outputs.iter().filter_map(|output| Some(share_of(output.wait_ns?, output.wall_ns)));
    ClientUsage {
        workers: outputs.len() as u64,
        cores: cores() as u64,
        call: call.to_owned(),
        pacing: outputs.first().map(|output| output.pacing.clone()).unwrap_or_default(),
        cpu_share_max: outputs.iter().map(|output| share_of(output.cpu_ns, output.wall_ns)).fold(0.0, f64::max),
        cpu_ms_per_1000_chunks: Some(outputs.iter().map(|output| output.cpu_ns as f64 / 1e6).sum()),
        core_wait_share_max: waits.max_by(f64::total_cmp),
        ..ClientUsage::default()
    }
}

fn slices(all: &Collector<RequestRecords>) -> Vec<TimeSlice> {
    let seconds = all.records.borrowed().map(|record| record.t_end / SECOND + 1).max().unwrap_or(0) as usize;
    let mut slices: Vec<TimeSlice> =
        (0..seconds as u64).map(|second| TimeSlice { second, ..TimeSlice::default() }).collect();
    for (slice, tokens) in slices.iter_mut().zip(&all.tokens_by_second) {
        slice.tokens = *tokens;
    }
    let mut change = vec![0i64; seconds + 1];
    let mut sums = vec![0.0; seconds];
    for record in all.records.borrowed() {
        // A second that begins at or after the issue, and before the end, counts it.
        change[(record.t_issue.div_ceil(SECOND) as usize).min(seconds)] += 1;
        change[(record.t_end.div_ceil(SECOND) as usize).min(seconds)] -= 1;
        if let (Some(first), Some(ttft)) = (record.t_first, ttft(&record))
            && let Some(slice) = slices.get_mut((first / SECOND) as usize)
        {
            slice.first_tokens += 1;
            sums[slice.second as usize] += ttft / 1e6;
        }
    }
    let mut in_flight = 0;
    for (slice, sum) in slices.iter_mut().zip(sums) {
        in_flight += change[slice.second as usize];
        slice.in_flight = u64::try_from(in_flight).unwrap_or(0);
        slice.ttft_ms = (slice.first_tokens > 0).then(|| sum / slice.first_tokens as f64);
    }
    set_most_in_flight(&all.records, &mut slices);
    slices
}

/// What was in flight when a second began counts for it as well.
fn set_most_in_flight(records: &RequestRecords, slices: &mut [TimeSlice]) {
    let issues = records.sorted_stamps(|record| record.t_issue);
    let ends = records.sorted_stamps(|record| record.t_end);
    let (mut now, mut second) = (0_i64, 0);
    let mut most = vec![0_i64; slices.len()];
    for (at, change) in in_flight_changes(&issues, &ends) {
        let next = ((at / SECOND) as usize).min(slices.len().saturating_sub(1));
        while second < next {
            second += 1;
            most[second] = now;
        }
        now += change;
        if let Some(most) = most.get_mut(second) {
            *most = now.max(*most);
        }
    }
    for (slice, most) in slices.iter_mut().zip(most) {
        slice.in_flight_max = Some(u64::try_from(most).unwrap_or(0));
    }
}
