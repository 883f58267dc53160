//! From records to latencies and their distributions.

use std::collections::BTreeMap;

use super::collector::Collector;
use super::metric::MetricLabel;
use super::request_times::{FULL, e2e, tpot, ttft};
use super::result::{LatencyMetrics, TokenCounts};
use super::unknown_chunks::UnknownChunks;
use crate::harness::{Adjusted, Metric, RequestRecord, RequestRecords};

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
        single += u64::from(record.chunks < 2);
    }
    let unanswered = scheduled.saturating_sub(requests);
    let label = |population, zero_point| MetricLabel { population, zero_point, window: FULL };
    let metric = |label: &MetricLabel, ns: &mut [f64]| Metric::exact(label, ns, requests - ns.len() as u64);
    let once = |label: &MetricLabel, of: &(dyn Fn(&RequestRecord) -> Option<f64> + Sync)| {
        metric(label, &mut successful(records, of))
    };
    // The values of one latency at a time: those of ten million requests take 80 MB.
    let with_curve = |name: &str, zero, of: &(dyn Fn(&RequestRecord) -> Option<f64> + Sync), curves: &mut Curves| {
        let mut ns = successful(records, of);
        let metric = metric(&label(SUCCESSFUL, zero), &mut ns);
        curves.insert(name.to_owned(), curve(&ns));
        (metric, Adjusted::of(&ns, unanswered))
    };
    let mut curves = Curves::new();
    let (ttft, ttft_adjusted) = with_curve("ttft", zero, &ttft, &mut curves);
    let (e2e, e2e_adjusted) = with_curve("e2e", zero, &e2e, &mut curves);
    let unknown = UnknownChunks::of(records, tokens);
    let tpots = label("successful requests with more tokens than their first chunk has", "first_chunk");
    let tpot = {
        let mut ns = successful(records, &tpot);
        let with_any = metric(&tpots, &mut ns);
        curves.insert("tpot".to_owned(), curve(&ns));
        unknown.unless_without_first_chunk(&tpots, requests, || with_any)
    };
    let itls = label("tokens after the first chunk of successful requests", "previous_chunk");
    let icls = label("chunks after the first of successful requests", "previous_chunk");
    let stalls = label("successful requests with at least two chunks", "previous_chunk");
    let queue_client = {
        let mut lags = records.values(|record| Some(record.t_issue.saturating_sub(record.t_sched) as f64));
        Metric::exact(&label("issued requests, with any outcome", zero), &mut lags, 0)
    };
    let mut latency = LatencyMetrics {
        ttft,
        ttft_adjusted,
        ttft_sent: once(&label(SUCCESSFUL, "issue"), &|record| {
            Some(record.t_first?.saturating_sub(record.t_issue) as f64)
        }),
        tpot,
        itl_token: unknown.unless_per_token(&itls, requests, || Metric::pooled(&itls, &all.itl_token, single)),
        icl: Metric::pooled(&icls, &all.icl, single),
        e2e,
        e2e_adjusted,
        e2e_sent: once(&label(SUCCESSFUL, "issue"), &|record| {
            Some(record.t_last?.saturating_sub(record.t_issue) as f64)
        }),
        max_stall: once(&stalls, &|record| (record.chunks > 1).then_some(record.max_gap as f64)),
        queue_client,
    };
    name_token_sources(&mut latency, tokens);
    (latency, curves)
}

/// For a mixture each metric carries the source.
fn name_token_sources(latency: &mut LatencyMetrics, tokens: &TokenCounts) {
    let LatencyMetrics { ttft, ttft_sent, tpot, itl_token, icl, e2e, e2e_sent, max_stall, queue_client, .. } = latency;
    for metric in [ttft, ttft_sent, tpot, icl, e2e, e2e_sent, max_stall, queue_client] {
        tokens.source.clone_into(&mut metric.token_source);
    }
    itl_token.token_source = tokens.chunk_source.clone().unwrap_or_else(|| tokens.source.clone());
}

/// A latency of each successful request that has it, ns.
fn successful(records: &RequestRecords, of: &(dyn Fn(&RequestRecord) -> Option<f64> + Sync)) -> Vec<f64> {
    records.values(|record| if record.is_ok() { of(record) } else { None })
}

/// `sorted`: ns, the least first.
fn curve(sorted: &[f64]) -> Vec<(f64, f64)> {
    let n = sorted.len();
    let points = n.min(POINTS);
    let upto = |point: usize| (point * n).div_ceil(points);
    (1..=points).map(|point| (sorted[upto(point) - 1] / 1e6, upto(point) as f64 / n as f64)).collect()
}
