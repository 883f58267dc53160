//! The latencies of a run and of a request, and its rates.
//!
//! A metric is left out where it is not known how many tokens each chunk has, where chunks came in one read, so that
//! the time between them was not measured, or where they belong to several answers to one prompt. A server may put
//! several tokens into a chunk (speculative decoding, stream intervals) and report only the total. Answers that happen
//! to have one token in each chunk are not a fair sample of the others, so they do not represent all.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::collector::Collector;
use crate::measure::metric::{MetricLabel, ValueHistogram};
use crate::{Adjusted, Metric, RequestRecord, RequestRecords, ServerFreeze, TokenCounts, TokenSource};
use base::spec::{CancelBy, LimitedMetric};

/// Per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Rates {
    /// From the schedule's start to the end of the last successful request.
    pub window_s: f64,
    /// (N − 1) / time between first and last intended arrival; null for Offline.
    pub offered: Option<f64>,
    /// (N − 1) / time between first and last issue.
    pub admitted: Option<f64>,
    /// Successful requests / window.
    pub requests_full: Option<f64>,
    /// (ok − 1) / (end of the last-issued successful request − first issue).
    pub requests_loadgen_completed: Option<f64>,
    /// Output tokens of successful requests / window.
    pub output_tokens: Option<f64>,
    /// Successful requests that ended between the first end and the last intended arrival, per second: without the
    /// times in which the server fills and drains. Null in closed loops, and where too few ended by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_while_arriving: Option<f64>,
    /// Their output tokens per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens_while_arriving: Option<f64>,
}

impl LatencyMetrics {
    /// Each metric with its key, in the order of [`LATENCIES`]. The adjusted ones are statistics of other metrics.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, &Metric)> {
        LATENCIES.iter().map(|row| (row.key, (row.numbers)(self)))
    }

    /// The metric that a limit is about.
    pub(crate) fn limited(&self, metric: LimitedMetric) -> Option<&Metric> {
        LatencyMetric::limited(metric).map(|row| (row.numbers)(self))
    }
}

/// A latency of a run: everything about it in one row. Its numbers are a field of [`LatencyMetrics`].
#[derive(Clone, Copy, Debug)]
pub struct LatencyMetric {
    /// As `result.json` has it below `latency`.
    pub key: &'static str,
    /// Where it is in `result.json`.
    pub place: &'static str,
    /// As tables, pages and charts call it.
    pub short: &'static str,
    pub title: &'static str,
    /// In one sentence.
    pub about: &'static str,
    pub formula: &'static str,
    /// What to keep in mind.
    pub mind: &'static str,
    /// What one value is, and which requests are left out.
    pub population: &'static str,
    /// Where its clock starts; `schedule`: where the load pattern counts from.
    pub zero_point: &'static str,
    /// Which token counts its values depend on.
    pub tokens: CountedIn,
    /// The metric in `limits`; none cannot be limited.
    limit: Option<LimitedMetric>,
    values: LatencyValues,
    /// Why it is left out.
    absent: fn(&UnknownChunks) -> Option<String>,
    has_curve: bool,
    numbers: fn(&LatencyMetrics) -> &Metric,
    numbers_mut: fn(&mut LatencyMetrics) -> &mut Metric,
    /// Its percentiles with failures counted.
    adjusted: Option<fn(&mut LatencyMetrics) -> &mut Adjusted>,
}

/// Whose tokens a latency divides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedIn {
    Nothing,
    Answers,
    Chunks,
}

/// The values of a latency, ns.
#[derive(Clone, Copy, Debug)]
enum LatencyValues {
    /// One for each successful request that has it.
    Successful(fn(&RequestRecord) -> Option<f64>),
    /// One for each issued request, whatever its outcome.
    Issued(fn(&RequestRecord) -> Option<f64>),
    /// Those of all successful requests together.
    Pool(fn(&Collector<RequestRecords>) -> &ValueHistogram),
}

/// What most rows have.
const LATENCY: LatencyMetric = LatencyMetric {
    key: "",
    place: "",
    short: "",
    title: "",
    about: "",
    formula: "",
    mind: "",
    population: "successful requests",
    zero_point: SCHEDULE,
    tokens: CountedIn::Nothing,
    limit: None,
    values: LatencyValues::Successful(ttft),
    absent: |_| None,
    has_curve: false,
    numbers: |all| &all.ttft,
    numbers_mut: |all| &mut all.ttft,
    adjusted: None,
};
const SCHEDULE: &str = "schedule";

/// Each row: its name, its field of [`LatencyMetrics`], which is its key in `result.json`, its formula, and what is
/// known of it.
macro_rules! latencies {
    ($($name:ident = $key:ident: $formula:literal { $($fact:ident: $value:expr,)* })*) => {
        $(
            pub(crate) const $name: LatencyMetric = LatencyMetric {
                key: stringify!($key),
                place: concat!("latency.", stringify!($key)),
                formula: $formula,
                numbers: |all| &all.$key,
                numbers_mut: |all| &mut all.$key,
                $($fact: $value,)*
                ..LATENCY
            };
        )*

        /// Every latency, in the order of `result.json`.
        pub const LATENCIES: &[LatencyMetric] = &[$($name),*];

        /// The metrics. "From schedule" is the headline; "sent" is what tools without a schedule print. Where a metric
        /// may be null, `regatta explain KEY` says when.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(default)]
        pub struct LatencyMetrics {
            $(#[doc = $formula] pub $key: Metric,)*
            /// TTFT of all scheduled requests, those without an answer as infinitely late.
            pub ttft_adjusted: Adjusted,
            /// Last token − intended arrival of all scheduled requests, those without an answer as infinitely late.
            pub e2e_adjusted: Adjusted,
        }
    };
}

latencies! {
    TTFT = ttft: "socket read of the first chunk with a token − intended arrival" {
        short: "TTFT",
        title: "time to first token",
        about: "How long a user waits for the first token, including the wait inside the client.",
        mind: "A role chunk is not a token; a token with empty text is one. A late client makes it worse, never \
               better. Text of `content`, of reasoning and of tool calls counts alike, and records do not keep which \
               it was: numbers of a tool that leaves one of them out are, for such answers, not what it would print.",
        limit: Some(LimitedMetric::Ttft),
        has_curve: true,
        adjusted: Some(|all| &mut all.ttft_adjusted),
    }
    TTFT_SENT = ttft_sent: "socket read of the first chunk with a token − issue" {
        short: "TTFT from the issue",
        title: "time to first token, from the issue",
        about: "The same without the client's own lateness, as tools without a schedule report it.",
        zero_point: "issue",
        mind: "A stalled server that keeps the client from sending does not show here (coordinated omission).",
        values: LatencyValues::Successful(|record| Some(record.t_first?.saturating_sub(record.t_issue) as f64)),
    }
    TPOT = tpot: "(last token − first token) / (tokens − tokens of the first read)" {
        short: "TPOT",
        title: "time per output token",
        about: "The mean time between tokens of an answer, after its first chunk.",
        population: "successful requests with more tokens than their first chunk has",
        zero_point: "first_chunk",
        tokens: CountedIn::Answers,
        mind: "Others divide by n − 1, which is the same when the first chunk has one token. Answers that are too \
               short are counted as excluded. Left out where the server reports how many tokens an answer has, but \
               not how many its first chunk has, or where most tokens came in one read with the first chunk. Tokens \
               that came in one read with the first chunk count as its own.",
        limit: Some(LimitedMetric::Tpot),
        values: LatencyValues::Successful(tpot),
        absent: |unknown| unknown.uncounted(unknown.share_with_total, "the first chunk has"),
        has_curve: true,
    }
    ITL_TOKEN = itl_token: "each gap between reads / tokens of the later read, that many times" {
        short: "ITL",
        title: "inter-token latency",
        about: "The pace of tokens, over all tokens of all requests.",
        population: "tokens after the first chunk of successful requests",
        zero_point: "previous_chunk",
        tokens: CountedIn::Chunks,
        mind: "A pool: long answers weigh more. Percentiles come from a histogram of 3 digits. Its sum is that of \
               TPOT × tokens after the first read. Left out where it is not known how many tokens each chunk has, or \
               where most tokens came in one read with the first chunk.",
        limit: Some(LimitedMetric::Itl),
        values: LatencyValues::Pool(|all| &all.itl_token),
        absent: |unknown| unknown.uncounted(unknown.share, "each chunk has"),
    }
    ICL = icl: "gap between reads with chunks" {
        short: "ICL",
        title: "inter-chunk latency",
        about: "The gaps that a reader sees on the wire, however many tokens each chunk has.",
        population: "chunks after the first of successful requests",
        zero_point: "previous_chunk",
        mind: "vLLM and inference-perf call this ITL, and count a gap of 0 for each further chunk of a read. Chunks \
               that came in one read are one arrival. Left out where most tokens came in one read with the first \
               chunk.",
        limit: Some(LimitedMetric::Icl),
        values: LatencyValues::Pool(|all| &all.icl),
        absent: UnknownChunks::without_gaps,
    }
    E2E = e2e: "last token − intended arrival" {
        short: "E2E",
        title: "end-to-end latency",
        about: "How long a user waits for the whole answer, including the wait inside the client.",
        mind: "It ends with the last token, not with the end of the stream or a usage chunk.",
        limit: Some(LimitedMetric::E2e),
        values: LatencyValues::Successful(e2e),
        has_curve: true,
        adjusted: Some(|all| &mut all.e2e_adjusted),
    }
    E2E_SENT = e2e_sent: "last token − issue" {
        short: "E2E from the issue",
        title: "end-to-end latency, from the issue",
        about: "The same without the client's own lateness.",
        zero_point: "issue",
        values: LatencyValues::Successful(|record| Some(record.t_last?.saturating_sub(record.t_issue) as f64)),
    }
    MAX_STALL = max_stall: "largest gap between chunks of a request" {
        short: "longest stall",
        title: "longest stall",
        about: "The longest pause within each answer.",
        population: "successful requests with at least two chunks",
        zero_point: "previous_chunk",
        limit: Some(LimitedMetric::MaxStall),
        values: LatencyValues::Successful(max_stall),
        absent: UnknownChunks::without_gaps,
    }
    QUEUE_CLIENT = queue_client: "issue − intended arrival" {
        short: "client lateness",
        title: "lateness of the client",
        about: "How late the load generator itself sent requests.",
        population: "issued requests, with any outcome",
        mind: "How many requests are late, and how much of TTFT that is, decides on INVALID(client): `explain lag`.",
        values: LatencyValues::Issued(|record| Some(record.t_issue.saturating_sub(record.t_sched) as f64)),
    }
}

impl LatencyMetric {
    /// The row of a limit's metric.
    pub(crate) fn limited(metric: LimitedMetric) -> Option<&'static Self> {
        LATENCIES.iter().find(|row| row.limit == Some(metric))
    }

    /// Its value of one successful request, ns; none of a pool.
    pub(crate) const fn of_request(&self) -> Option<fn(&RequestRecord) -> Option<f64>> {
        match self.values {
            LatencyValues::Successful(value) | LatencyValues::Issued(value) => Some(value),
            LatencyValues::Pool(_) => None,
        }
    }

    /// `zero`: what the load pattern counts from.
    pub(crate) fn label<'t>(&self, zero: &'static str, window: &'static str, token_source: &'t str) -> MetricLabel<'t> {
        let zero_point = if self.zero_point == SCHEDULE { zero } else { self.zero_point };
        MetricLabel { population: self.population, zero_point, window, token_source }
    }
}

/// What the server stamps of successful requests, beside what we see. Its clock is its own: only differences are used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServerSide {
    /// first_scheduled_time_ns − arrival_time_ns.
    pub queue: Metric,
    /// first_token_time_ns − arrival_time_ns.
    pub ttft: Metric,
    /// last_token_time_ns − arrival_time_ns.
    pub e2e: Metric,
    /// Our TTFT from the issue less the server's: network, both protocol stacks, and the front end of the server.
    pub ttft_outside: Metric,
    /// Sums over requests.
    pub kv_cache_alloc_new_blocks: i64,
    pub kv_cache_reused_blocks: i64,
    pub kv_cache_alloc_total_blocks: i64,
    /// Successful requests without stamps.
    pub without: u64,
}

/// Requests that were ended early, as `cancel` sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cancellations {
    pub by: CancelBy,
    pub after_tokens: u32,
    pub share: f64,
    pub requests: u64,
    /// Tokens that they had in all; more than `after_tokens` each when the server went on for a while.
    pub tokens: u64,
    /// From the cancel to the end of the answer; with `rpc` we hang up and the end is ours.
    pub end_after_cancel: Metric,
}

/// Points of a curve, at most.
const POINTS: usize = 200;

/// Points (ms, share of the values up to there) by the name of the latency.
type Curves = BTreeMap<String, Vec<(f64, f64)>>;

/// `scheduled`: requests that were to be answered in full; `zero`: the zero point of what counts from the schedule.
pub(super) fn latencies(
    all: &Collector<RequestRecords>,
    scheduled: u64,
    tokens: &TokenCounts,
    zero: &'static str,
) -> (LatencyMetrics, Curves) {
    let records = &all.records;
    let (mut requests, mut single) = (0, 0);
    for record in records.ok() {
        requests += 1;
        single += u64::from(record.max_gap == 0);
    }
    let unanswered = scheduled.saturating_sub(requests);
    let unknown = UnknownChunks::count(records);
    let (mut latency, mut curves) = (LatencyMetrics::default(), Curves::new());
    // The values of one latency at a time, the least first: those of ten million requests take 80 MB.
    let mut ns = Vec::new();
    for row in LATENCIES {
        let by_chunk = tokens.chunk_source.as_deref().filter(|_| row.tokens == CountedIn::Chunks);
        let label = row.label(zero, FULL, by_chunk.unwrap_or(&tokens.source));
        let metric = match row.values {
            LatencyValues::Successful(value) => {
                records.values_into(&mut ns, |record| if record.is_ok() { value(record) } else { None });
                let without = requests - ns.len() as u64;
                Metric::exact(&label, &mut ns, without)
            }
            LatencyValues::Issued(value) => {
                records.values_into(&mut ns, value);
                Metric::exact(&label, &mut ns, 0)
            }
            LatencyValues::Pool(pool) => Metric::pooled(&label, pool(all), single),
        };
        if row.has_curve {
            curves.insert(row.key.to_owned(), curve(&ns));
        }
        if let Some(adjusted) = row.adjusted {
            *adjusted(&mut latency) = Adjusted::new(&ns, unanswered);
        }
        *(row.numbers_mut)(&mut latency) = match (row.absent)(&unknown) {
            Some(why) => Metric::absent(&label, &metric.percentile_rule, requests, why),
            None => metric,
        };
    }
    (latency, curves)
}

/// `sorted`: ns, the least first.
fn curve(sorted: &[f64]) -> Vec<(f64, f64)> {
    let n = sorted.len();
    let points = n.min(POINTS);
    let upto = |point: usize| (point * n).div_ceil(points);
    (1..=points).map(|point| (sorted[upto(point) - 1] / 1e6, upto(point) as f64 / n as f64)).collect()
}

/// The definition of the window of most numbers.
pub const FULL: &str = "full: schedule start to the end of the last successful request";

pub(crate) fn ttft(record: &RequestRecord) -> Option<f64> {
    Some(record.t_first?.saturating_sub(record.t_sched) as f64)
}

/// Tokens after the first read: those that came with the first chunk took no time of their own.
pub(crate) fn later_tokens(record: &RequestRecord) -> u32 {
    record.tokens.saturating_sub(record.first_tokens.max(record.first_read_tokens))
}

/// None where a total is known, and the tokens of the first chunk are not; or where no times between tokens were
/// measured.
pub(crate) fn tpot(record: &RequestRecord) -> Option<f64> {
    if !record.has_token_times() || record.chunk_tokens_unknown && record.token_source == TokenSource::Usage {
        return None;
    }
    let later = Some(later_tokens(record)).filter(|later| *later > 0)?;
    Some(record.t_last?.saturating_sub(record.t_first?) as f64 / f64::from(later))
}

/// Longest gap between chunks.
pub(crate) fn max_stall(record: &RequestRecord) -> Option<f64> {
    (record.chunks > 1 && record.has_token_times()).then_some(record.max_gap as f64)
}

pub(crate) fn e2e(record: &RequestRecord) -> Option<f64> {
    Some(record.t_last?.saturating_sub(record.t_sched) as f64)
}

/// Above this share of the answers a figure of the rest is one of a selection.
pub(crate) const NEGLIGIBLE: f64 = 0.01;
/// If more than this share of the times between tokens is unmeasured, the remaining ones do not represent the run. If
/// more than this share of the chunks shares a socket read, the times reflect a proxy's buffering.
pub(crate) const COALESCED: f64 = 0.5;

pub(crate) struct UnknownChunks {
    /// Of answers with at least two chunks.
    share: f64,
    /// The same, of those that have a total.
    share_with_total: f64,
    /// Of tokens after the first chunk: they came in one read with it, so that the time to them is not known. Where
    /// that is all of an answer, it has no TPOT.
    in_first_read: f64,
    /// Of answers with at least two chunks: they are several answers to one prompt.
    interleaved: f64,
}

impl UnknownChunks {
    pub fn count(records: &RequestRecords) -> Self {
        let (mut several, mut unknown, mut with_total, mut interleaved) = (0_u64, 0_u64, 0_u64, 0_u64);
        let (mut later, mut in_first_read) = (0_u64, 0_u64);
        for record in records.ok().filter(|record| record.chunks > 1) {
            several += 1;
            interleaved += u64::from(record.interleaved);
            if record.chunk_tokens_unknown {
                unknown += 1;
                with_total += u64::from(record.token_source == TokenSource::Usage);
            }
            // Chunks stand in for tokens where these are unknown.
            let (tokens, first) =
                if record.chunk_tokens_unknown { (record.chunks, 1) } else { (record.tokens, record.first_tokens) };
            later += u64::from(tokens.saturating_sub(first));
            let of_first_read = if record.is_one_read() { tokens } else { record.first_read_tokens };
            in_first_read += u64::from(of_first_read.saturating_sub(first));
        }
        let of_all = |count: u64| count as f64 / several.max(1) as f64;
        Self {
            share: of_all(unknown),
            share_with_total: of_all(with_total),
            in_first_read: in_first_read as f64 / later.max(1) as f64,
            interleaved: of_all(interleaved),
        }
    }

    /// Why inter-chunk latency and the longest gap cannot be reported, if so.
    pub fn without_gaps(&self) -> Option<String> {
        if self.interleaved > NEGLIGIBLE {
            return Some("a request has several answers, whose tokens come between each other".to_owned());
        }
        let share = self.in_first_read * 100.0;
        (self.in_first_read > COALESCED).then(|| {
            format!(
                "{share:.0} % of the tokens after the first chunk came in one read with it, so most times between \
                 tokens were not measured"
            )
        })
    }

    /// Why time per token cannot be reported: this share of the answers lacks the token count to divide by.
    fn uncounted(&self, share: f64, chunk_has: &str) -> Option<String> {
        let reason = || format!("the number of tokens {chunk_has} is unknown; see inter-chunk latency (icl)");
        let interleaved = self.without_gaps().filter(|_| self.interleaved > NEGLIGIBLE);
        interleaved.or_else(|| (share > NEGLIGIBLE).then(reason)).or_else(|| self.without_gaps())
    }
}

/// The share of gaps between chunks that belong to answers received in one socket read, unless a server freeze explains
/// it. Answers count by their number of gaps.
pub(super) fn one_read_share(records: &RequestRecords, freeze: Option<&ServerFreeze>) -> Option<f64> {
    let (mut all, mut one_read) = (0_u64, 0_u64);
    for record in records.ok() {
        let gaps = u64::from(record.chunks.saturating_sub(1));
        all += gaps;
        let is_held_up = freeze.is_some_and(|freeze| freeze.overlaps(&record));
        one_read += if record.is_one_read() && !is_held_up { gaps } else { 0 };
    }
    (one_read > 0).then(|| one_read as f64 / all as f64)
}

/// That share, in words.
pub(crate) fn in_one_read(share: f64) -> String {
    format!("{:.0} % of the gaps between chunks are in answers that came in one read", share * 100.0)
}
