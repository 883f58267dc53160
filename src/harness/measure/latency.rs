//! The latencies of a run and of a request, and its rates.
//!
//! A metric is left out where it is not known how many tokens each chunk has, where chunks came in one read, so that the time
//! between them was not measured, or where they belong to several answers to one prompt. A server may put several tokens
//! into a chunk (speculative decoding, stream intervals) and report only the total. Answers that happen to have one token in
//! each chunk are not a fair sample of the others, so they do not represent all.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::collector::Collector;
use crate::measure::metric::MetricLabel;
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
}

/// The metrics. "From schedule" is the headline; "sent" is what tools without a schedule print.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LatencyMetrics {
    /// First token − intended arrival.
    pub ttft: Metric,
    /// First token − issue.
    pub ttft_sent: Metric,
    /// (last − first token chunk) / (tokens − tokens of the first read). Absent where a total is known and the tokens of the first
    /// chunk are not.
    pub tpot: Metric,
    /// Gap between reads over tokens of the later one, that many times. Absent where the tokens of single chunks are not known.
    pub itl_token: Metric,
    /// Gap between reads with chunks.
    pub icl: Metric,
    /// Last token − intended arrival.
    pub e2e: Metric,
    /// Last token − issue.
    pub e2e_sent: Metric,
    /// Largest gap within each request.
    pub max_stall: Metric,
    /// TTFT of all scheduled requests, those without an answer as infinitely late.
    pub ttft_adjusted: Adjusted,
    /// Last token − intended arrival of all scheduled requests, those without an answer as infinitely late.
    pub e2e_adjusted: Adjusted,
    /// Issue − intended arrival: the client's own lateness. Of every issued request.
    pub queue_client: Metric,
}

impl LatencyMetrics {
    /// Each metric with its key, in the order of the file. The adjusted ones are statistics of other metrics.
    pub const fn each(&self) -> [(&'static str, &Metric); 9] {
        [
            ("ttft", &self.ttft),
            ("ttft_sent", &self.ttft_sent),
            ("tpot", &self.tpot),
            ("itl_token", &self.itl_token),
            ("icl", &self.icl),
            ("e2e", &self.e2e),
            ("e2e_sent", &self.e2e_sent),
            ("max_stall", &self.max_stall),
            ("queue_client", &self.queue_client),
        ]
    }

    /// The metric that a limit is about.
    pub(crate) const fn of(&self, metric: LimitedMetric) -> &Metric {
        match metric {
            LimitedMetric::Ttft => &self.ttft,
            LimitedMetric::Tpot => &self.tpot,
            LimitedMetric::Itl => &self.itl_token,
            LimitedMetric::Icl => &self.icl,
            LimitedMetric::E2e => &self.e2e,
            LimitedMetric::MaxStall => &self.max_stall,
        }
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
    const SUCCESSFUL: &str = "successful requests";
    let records = &all.records;
    let (mut requests, mut single) = (0, 0);
    for record in records.ok() {
        requests += 1;
        single += u64::from(record.max_gap == 0);
    }
    let unanswered = scheduled.saturating_sub(requests);
    let token_source = tokens.source.as_str();
    let label = |population, zero_point| MetricLabel { population, zero_point, window: FULL, token_source };
    let mut values = LatencyValues { records, requests, ns: Vec::new() };
    let mut curves = Curves::new();
    let mut with_curve = |name: &str, of: LatencyOf<'_>| {
        let metric = values.metric(&label(SUCCESSFUL, zero), of);
        curves.insert(name.to_owned(), curve(&values.ns));
        (metric, Adjusted::of(&values.ns, unanswered))
    };
    let (ttft, ttft_adjusted) = with_curve("ttft", &ttft);
    let (e2e, e2e_adjusted) = with_curve("e2e", &e2e);
    let unknown = UnknownChunks::of(records);
    let unless = |why: Option<String>, label: &MetricLabel<'_>, metric: Metric| match why {
        Some(why) => Metric::absent(label, &metric.percentile_rule, requests, why),
        None => metric,
    };
    let tpots = label("successful requests with more tokens than their first chunk has", "first_chunk");
    let with_any = values.metric(&tpots, &tpot);
    curves.insert("tpot".to_owned(), curve(&values.ns));
    let tpot = unless(unknown.without_first_chunk(), &tpots, with_any);
    let itls = MetricLabel {
        token_source: tokens.chunk_source.as_deref().unwrap_or(token_source),
        ..label("tokens after the first chunk of successful requests", "previous_chunk")
    };
    let icls = label("chunks after the first of successful requests", "previous_chunk");
    let stalls = label("successful requests with at least two chunks", "previous_chunk");
    let longest_gaps = values.metric(&stalls, &max_stall);
    let latency = LatencyMetrics {
        ttft,
        ttft_adjusted,
        ttft_sent: values
            .metric(&label(SUCCESSFUL, "issue"), &|record| Some(record.t_first?.saturating_sub(record.t_issue) as f64)),
        tpot,
        itl_token: unless(unknown.without_tokens(), &itls, Metric::pooled(&itls, &all.itl_token, single)),
        icl: unless(unknown.without_gaps(), &icls, Metric::pooled(&icls, &all.icl, single)),
        e2e,
        e2e_adjusted,
        e2e_sent: values
            .metric(&label(SUCCESSFUL, "issue"), &|record| Some(record.t_last?.saturating_sub(record.t_issue) as f64)),
        max_stall: unless(unknown.without_gaps(), &stalls, longest_gaps),
        queue_client: values.lag_metric(&label("issued requests, with any outcome", zero)),
    };
    (latency, curves)
}

/// A latency of a successful request, ns.
type LatencyOf<'l> = &'l (dyn Fn(&RequestRecord) -> Option<f64> + Sync);

/// The values of one latency at a time, ns: those of ten million requests take 80 MB.
struct LatencyValues<'r> {
    records: &'r RequestRecords,
    /// The successful ones.
    requests: u64,
    /// Of the latency that was requested last, the least first.
    ns: Vec<f64>,
}

impl LatencyValues<'_> {
    /// Of the successful requests that have it.
    fn metric(&mut self, label: &MetricLabel<'_>, of: LatencyOf<'_>) -> Metric {
        self.records.values_into(&mut self.ns, |record| if record.is_ok() { of(record) } else { None });
        let without = self.requests - self.ns.len() as u64;
        Metric::exact(label, &mut self.ns, without)
    }

    /// From the schedule to the send, of all requests.
    fn lag_metric(&mut self, label: &MetricLabel<'_>) -> Metric {
        let lag = |record: &RequestRecord| Some(record.t_issue.saturating_sub(record.t_sched) as f64);
        self.records.values_into(&mut self.ns, lag);
        Metric::exact(label, &mut self.ns, 0)
    }
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

/// None where a total is known, and the tokens of the first chunk are not; or where no times between tokens were measured.
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
/// Above this share of unmeasured times between tokens a figure of the rest is one of few; above this share of chunks that share a read the
/// times between tokens are rather those of a proxy.
pub(crate) const COALESCED: f64 = 0.5;

pub(crate) struct UnknownChunks {
    /// Of answers with at least two chunks.
    share: f64,
    /// The same, of those that have a total.
    share_with_total: f64,
    /// Of tokens after the first chunk: they came in one read with it, so that the time to them is not known. Where that is all of an answer, it
    /// has no TPOT.
    in_first_read: f64,
    /// Of answers with at least two chunks: they are several answers to one prompt.
    interleaved: f64,
}

impl UnknownChunks {
    pub fn of(records: &RequestRecords) -> Self {
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

    /// Why there is no inter-chunk latency and no longest gap.
    pub fn without_gaps(&self) -> Option<String> {
        if self.interleaved > NEGLIGIBLE {
            return Some("a request has several answers, whose tokens come between each other".to_owned());
        }
        let share = self.in_first_read * 100.0;
        (self.in_first_read > COALESCED).then(|| {
            format!(
                "{share:.0} % of the tokens after the first chunk came in one read with it, so most times between tokens were not measured"
            )
        })
    }

    /// Why there is no time per output token.
    pub fn without_first_chunk(&self) -> Option<String> {
        self.uncounted(self.share_with_total, "the first chunk has")
    }

    /// Why there is no inter-token latency.
    pub fn without_tokens(&self) -> Option<String> {
        self.uncounted(self.share, "each chunk has")
    }

    fn uncounted(&self, share: f64, chunk_has: &str) -> Option<String> {
        let why = || format!("it is not known how many tokens {chunk_has}; see inter-chunk latency (icl)");
        let interleaved = self.without_gaps().filter(|_| self.interleaved > NEGLIGIBLE);
        interleaved.or_else(|| (share > NEGLIGIBLE).then(why)).or_else(|| self.without_gaps())
    }
}

/// Of the gaps between chunks, those of answers in one read, except where a freeze of the server explains it. A short answer weighs as little
/// as it has.
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
