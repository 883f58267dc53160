//! What one worker reports at the end of a run: exact records, histograms for token pools, tokens per second.
//!
//! The run checks its own arithmetic: sums that are computed in different ways must agree. Pure.
//!
//! | one way | the other way |
//! |---|---|
//! | values of ITL | tokens − tokens of the first read, over requests |
//! | sum of ITL | TPOT × these tokens, over requests |
//! | values of ICL, and chunks that shared a read | chunks − 1, over requests |
//! | sum of ICL | last − first chunk, over requests |
//! | tokens of chunks | tokens of each second of the run |
//! | tokens of chunks of a request | its tokens |
//! | records | issued requests |

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::latency::{later_tokens, tpot};
use crate::measure::metric::ValueHistogram;
use crate::record::RecordWriter;
use crate::spool::SpoolContext;
use crate::tokens::{AnswerText, CountedTokens, Violations};
use crate::transport::kserve::extra_outputs::OutputTallies;
use crate::transport::request_encoder::{CallKind, TokenCounting};
use crate::{Counts, RequestEnd, RequestRecord, RequestRecords, TokenSource};

const SECOND: u64 = 1_000_000_000;
/// The results of one worker, and when they are complete those of all workers: then the records can be read.
#[derive(Debug)]
pub(crate) struct Collector<R = RecordWriter> {
    pub records: R,
    /// Each gap between reads over the tokens of the later one, that many times; successful requests.
    pub itl_token: ValueHistogram,
    /// Gaps between reads with chunks; successful requests.
    pub icl: ValueHistogram,
    /// Time from the socket read to its processing.
    pub backlog: ValueHistogram,
    /// Tokens of all requests by the second they came in.
    pub tokens_by_second: Vec<u64>,
    /// Those of successful requests, which rates are of.
    pub ok_tokens_by_second: Vec<u64>,
    /// Chunks of successful requests that shared a socket read with the one before them.
    pub coalesced: u64,
    pub chunks: u64,
    /// Outputs besides tokens.
    pub extra_outputs: OutputTallies,
    pub keeps_timelines: bool,
    /// Texts of successful requests, to be counted after the run.
    pub answer_texts: Vec<(u64, AnswerText)>,
    /// The server reports how many tokens an answer has: its texts need not be kept.
    pub has_usage: bool,
    /// Of all answers, with examples.
    pub violations: Violations,
    /// Tokens of all chunks of all requests.
    pub chunk_tokens: u64,
    /// Successful answers over HTTP that came in one piece.
    pub whole_answers: u64,
}

fn add_at(by_second: &mut Vec<u64>, second: usize, tokens: u64) {
    if by_second.len() <= second {
        by_second.resize(second + 1, 0);
    }
    by_second[second] += tokens;
}

impl<R> Collector<R> {
    fn with(records: R) -> Self {
        Self {
            records,
            itl_token: ValueHistogram::new(),
            icl: ValueHistogram::new(),
            backlog: ValueHistogram::new(),
            tokens_by_second: Vec::new(),
            ok_tokens_by_second: Vec::new(),
            coalesced: 0,
            chunks: 0,
            extra_outputs: OutputTallies::new(),
            keeps_timelines: false,
            answer_texts: Vec::new(),
            has_usage: false,
            violations: Violations::default(),
            chunk_tokens: 0,
            whole_answers: 0,
        }
    }

    /// Adds everything but the records, and returns these.
    fn add_sums<O>(&mut self, other: Collector<O>) -> O {
        self.answer_texts.extend(other.answer_texts);
        self.itl_token.merge(&other.itl_token);
        self.icl.merge(&other.icl);
        self.backlog.merge(&other.backlog);
        self.violations.merge(other.violations);
        self.chunk_tokens += other.chunk_tokens;
        self.whole_answers += other.whole_answers;
        self.coalesced += other.coalesced;
        self.chunks += other.chunks;
        for (name, tally) in other.extra_outputs {
            self.extra_outputs.entry(name).or_default().merge(tally);
        }
        for (sums, more) in [
            (&mut self.tokens_by_second, other.tokens_by_second),
            (&mut self.ok_tokens_by_second, other.ok_tokens_by_second),
        ] {
            more.into_iter().enumerate().for_each(|(second, tokens)| add_at(sums, second, tokens));
        }
        other.records
    }

    fn with_records<O>(self, records: O) -> Collector<O> {
        let mut collector = Collector::with(records);
        collector.add_sums(self);
        collector
    }
}

impl Collector {
    pub fn new() -> Self {
        Self::one_of(1)
    }

    /// Of this many workers, which hold a limited number of records in memory together.
    pub fn one_of(workers: usize) -> Self {
        Self::with(RecordWriter::one_of(workers, SpoolContext::default()))
    }

    /// Takes an ended request. The record's token fields are filled from what was counted.
    pub fn take(&mut self, mut record: RequestRecord, counted: CountedTokens, answer_text: Option<AnswerText>) {
        let is_counted = counted.source == TokenSource::Usage;
        self.has_usage |= is_counted;
        if let Some(answer_text) = answer_text.filter(|_| record.ended == RequestEnd::Ok && !is_counted) {
            self.answer_texts.push((record.index, answer_text));
        }
        let CountedTokens { chunks, tokens, is_whole, violations, .. } = counted;
        self.whole_answers += u64::from(is_whole && record.is_ok());
        if let (Some(first), Some(last)) = (chunks.first(), chunks.last()) {
            record.first_tokens = first.tokens;
            let of_first_read = chunks.iter().take_while(|chunk| chunk.t_read == first.t_read);
            let (together, of_read) =
                of_first_read.fold((0, 0_u32), |(count, sum), chunk| (count + 1, sum.saturating_add(chunk.tokens)));
            record.first_read_tokens = if together > 1 { of_read } else { 0 };
            record.t_first = Some(first.t_read);
            record.t_last = Some(last.t_read);
            record.chunks = chunks.len() as u32;
            record.tokens = tokens;
        }
        record.violations = violations.each().map(|(class, count, _)| (class, count)).collect();
        self.violations.merge(violations);
        for chunk in &chunks {
            self.chunk_tokens += u64::from(chunk.tokens);
            let (second, tokens) = ((chunk.t_read / SECOND) as usize, u64::from(chunk.tokens));
            add_at(&mut self.tokens_by_second, second, tokens);
            if record.is_ok() {
                add_at(&mut self.ok_tokens_by_second, second, tokens);
            }
        }
        self.chunks += chunks.len() as u64;
        // The time between chunks of one socket read was not measured: they are one arrival with the tokens of all.
        let mut last_read = None;
        for read in chunks.chunk_by(|one, next| one.t_read == next.t_read) {
            if let Some(before) = last_read.replace(read[0].t_read) {
                let gap = read[0].t_read.saturating_sub(before);
                record.max_gap = record.max_gap.max(gap);
                self.add(gap, read.iter().map(|chunk| u64::from(chunk.tokens)).sum(), &record);
            }
            self.coalesced += if record.is_ok() { read.len() as u64 - 1 } else { 0 };
        }
        if self.keeps_timelines {
            record.timeline = chunks.iter().map(|chunk| (chunk.t_read, chunk.tokens)).collect();
        }
        self.records.push(record);
    }

    /// Adds a socket read with this many tokens, `gap` ns after the previous read.
    fn add(&mut self, gap: u64, tokens: u64, record: &RequestRecord) {
        if !record.is_ok() {
            return;
        }
        self.icl.add(gap as f64, 1);
        // A gap is spread over tokens only where their number is known.
        if !record.chunk_tokens_unknown {
            self.itl_token.add(gap as f64 / tokens as f64, tokens);
        }
    }

    /// Its records so far, and a collector with the same.
    #[cfg(test)]
    pub fn split(mut self) -> (RequestRecords, Self) {
        let fresh = RecordWriter::one_of(1, self.records.context().clone());
        let records = std::mem::replace(&mut self.records, fresh).end();
        for record in &records {
            self.records.push(record);
        }
        (records, self)
    }

    /// The results of all workers, their records by index.
    pub fn merged(parts: impl IntoIterator<Item = Self>) -> Collector<RequestRecords> {
        let mut sums = Collector::with(());
        let records = parts.into_iter().map(|part| sums.add_sums(part).end()).collect();
        sums.with_records(RequestRecords::merged(records))
    }
}

/// The output of a worker.
pub(crate) struct WorkerOutput {
    pub collector: Collector,
    pub issued: u64,
    pub not_sent: u64,
    /// A stop was requested before everything had ended.
    pub was_stopped: bool,
    pub in_flight_at_end: u64,
    /// In-flight integral, request·ns, from a running gauge (not from records).
    pub in_flight_area: f64,
    /// CPU of this thread between start and end, without what was spun away while it waited for arrivals, ns.
    pub cpu_ns: u64,
    /// Time this thread waited for a core, ns; absent where the kernel does not report it.
    pub wait_ns: Option<u64>,
    pub wall_ns: u64,
    /// How often the next request in line waited because all connections were full.
    pub waited_for_stream: u64,
    /// How often an arrival waited because the limit on requests in flight was reached.
    pub deferred: u64,
    pub max_streams: Option<u64>,
    pub reconnects: u32,
    /// Kept HTTP connections that the server closed while they were idle.
    pub idle_closed: u64,
    /// Requests sent again because such a close crossed them on the way.
    pub resent: u64,
    /// Shared streams that were opened.
    pub streams: u64,
    /// HTTP/1.1 connections opened, before the start and after.
    pub opened: Option<u64>,
    pub call: CallKind,
    pub count: TokenCounting,
    /// How arrivals were timed.
    pub pacing: String,
}

/// Sums of gaps are of floating point.
const ROUNDING: f64 = 1e-6;

/// Whether sums that were made on different ways agree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SelfCheck {
    /// Comparisons that were made.
    pub checks: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mismatches: Vec<Mismatch>,
}

/// Two numbers that should be equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mismatch {
    /// What was compared, in the order of the two numbers.
    pub what: String,
    pub found: f64,
    pub expected: f64,
}

impl SelfCheck {
    fn equal(&mut self, what: &str, found: f64, expected: f64) {
        self.checks += 1;
        if (found - expected).abs() > ROUNDING * expected.abs().max(1.0) {
            self.mismatches.push(Mismatch { what: what.to_owned(), found, expected });
        }
    }
}

/// Compares what the collector counted on the way with what its records say.
pub(crate) fn self_check(all: &Collector<RequestRecords>, counts: &Counts) -> SelfCheck {
    let mut checked = SelfCheck::default();
    let per_token = |record: &RequestRecord| !record.chunk_tokens_unknown && !record.retokenized;
    let (mut tokens_after_first, mut times_of_tokens, mut later_chunks, mut spans) = (0, 0.0, 0, 0);
    let mut is_per_token = true;
    for record in all.records.ok() {
        spans += record.t_last.zip(record.t_first).map_or(0, |(last, first)| last.saturating_sub(first));
        later_chunks += u64::from(record.chunks.saturating_sub(1));
        if per_token(&record) {
            let later = later_tokens(&record);
            tokens_after_first += u64::from(later);
            times_of_tokens += tpot(&record).map_or(0.0, |tpot| tpot * f64::from(later));
        }
        // Tokens that are retokenized after the run counted as chunks during the run; tokens of several answers have no
        // TPOT.
        is_per_token &= !record.retokenized && !record.interleaved;
    }
    if is_per_token {
        let values = all.itl_token.count() as f64;
        checked.equal("values of ITL / tokens after the first reads", values, tokens_after_first as f64);
        checked.equal("sum of ITL / TPOT × tokens after the first reads, ns", all.itl_token.sum(), times_of_tokens);
    }
    let gaps = (all.icl.count() + all.coalesced) as f64;
    checked.equal(
        "values of ICL and chunks that shared a read / chunks after the first ones",
        gaps,
        later_chunks as f64,
    );
    checked.equal("sum of ICL / last − first chunk, ns", all.icl.sum(), spans as f64);
    let by_second = all.tokens_by_second.iter().sum::<u64>() as f64;
    checked.equal("tokens by second / tokens of chunks", by_second, all.chunk_tokens as f64);
    let issued = counts.issued as f64;
    checked.equal("records / issued requests", all.records.len() as f64, issued);
    for record in all.records.ok().filter(|record| !record.timeline.is_empty() && per_token(record)) {
        let tokens: u64 = record.timeline.iter().map(|(_, tokens)| u64::from(*tokens)).sum();
        let sums = format!("tokens of the chunks of request {} / its tokens", record.index);
        checked.equal(&sums, tokens as f64, f64::from(record.tokens));
    }
    checked
}
