//! Secondary metrics from the records: the server's own stamps, requests cancelled early, other outputs.

use super::metric::MetricLabel;
use super::request_times::FULL;
use super::result::{Cancellations, ExtraOutput, ServerSide};
use crate::record::ServerStamps;
use crate::transport::kserve::extra_outputs::OutputTally;
use crate::{BenchSpec, Metric, RequestEnd, RequestRecord, RequestRecords};

const ARRIVAL: &str = "arrival_time_ns, as the server stamps";

/// None unless stamps were requested.
pub(crate) fn server(spec: &BenchSpec, records: &RequestRecords) -> Option<ServerSide> {
    if !spec.request.return_perf_metrics {
        return None;
    }
    let requests = records.ok().count() as u64;
    let stamped = || records.ok().filter_map(|record| Some((*record.server.as_deref()?, record)));
    let metric = |zero_point: &'static str, value: &dyn Fn(&RequestRecord, &ServerStamps) -> Option<f64>| {
        let population = "successful requests that the server stamped";
        let label = MetricLabel { population, zero_point, window: FULL, token_source: "" };
        let mut ns: Vec<f64> = stamped().filter_map(|(stamps, record)| value(&record, &stamps)).collect();
        let excluded = requests - ns.len() as u64;
        Metric::exact(&label, &mut ns, excluded)
    };
    // A stamp of 0 is unset.
    let since = |from: i64, to: i64| (from > 0 && to >= from).then(|| (to - from) as f64);
    let sum = |of: fn(&ServerStamps) -> i32| stamped().map(|(stamps, _)| i64::from(of(&stamps))).sum();
    Some(ServerSide {
        queue: metric(ARRIVAL, &|_, stamps| since(stamps.arrival_time_ns, stamps.first_scheduled_time_ns)),
        ttft: metric(ARRIVAL, &|_, stamps| since(stamps.arrival_time_ns, stamps.first_token_time_ns)),
        e2e: metric(ARRIVAL, &|_, stamps| since(stamps.arrival_time_ns, stamps.last_token_time_ns)),
        ttft_outside: metric("issue, less what the server stamps", &|record, stamps| {
            let ours = record.t_first?.saturating_sub(record.t_issue) as f64;
            Some(ours - since(stamps.arrival_time_ns, stamps.first_token_time_ns)?)
        }),
        kv_cache_alloc_new_blocks: sum(|stamps| stamps.kv_cache_alloc_new_blocks),
        kv_cache_reused_blocks: sum(|stamps| stamps.kv_cache_reused_blocks),
        kv_cache_alloc_total_blocks: sum(|stamps| stamps.kv_cache_alloc_total_blocks),
        without: requests - stamped().count() as u64,
    })
}

/// None unless `cancel` was requested.
pub(crate) fn cancellations(spec: &BenchSpec, records: &RequestRecords) -> Option<Cancellations> {
    let cancel = spec.request.cancel?;
    let cancelled = || records.iter().filter(|record| record.ended == RequestEnd::CancelledEarly);
    let population = "requests that were cancelled early";
    let label = MetricLabel { population, zero_point: "cancel", window: FULL, token_source: "" };
    let ends = cancelled().filter_map(|record| Some(record.t_end.saturating_sub(record.t_cancel?) as f64));
    Some(Cancellations {
        by: cancel.by,
        after_tokens: cancel.after_tokens,
        share: cancel.share,
        requests: cancelled().count() as u64,
        tokens: cancelled().map(|record| u64::from(record.tokens)).sum(),
        end_after_cancel: Metric::exact(&label, &mut ends.collect::<Vec<_>>(), 0),
    })
}

impl From<&OutputTally> for ExtraOutput {
    fn from(tally: &OutputTally) -> Self {
        let OutputTally { responses, bytes, misshapen, example } = tally.clone();
        Self { responses, bytes, misshapen, example }
    }
}
