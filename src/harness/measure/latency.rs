//! From records to latencies and their distributions.

use std::collections::BTreeMap;

use super::collector::Collector;
use super::metric::MetricLabel;
use super::request_times::{FULL, e2e, max_stall, tpot, ttft};
use super::result::{LatencyMetrics, TokenCounts};
use super::unknown_chunks::UnknownChunks;
use crate::{Adjusted, Metric, RequestRecord, RequestRecords};

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
