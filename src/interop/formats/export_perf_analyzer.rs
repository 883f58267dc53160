//! `profile_export.json`: perf_analyzer's raw export, from which every metric can be computed again.

use serde_json::{Value, json};

use super::export::{Exported, identity_object, ok, rate, users, wall_clock_ns};
use crate::metrics::{MeasuredRun, MissingMetric, RequestTrace, TracedChunks};

pub(super) fn write(run: &MeasuredRun, out: &mut Exported) {
    let is_partly_kept = |trace: &RequestTrace| matches!(trace.chunks, TracedChunks::Ends { count, .. } if count > 2);
    if run.request_traces.iter().any(is_partly_kept) {
        return out.without(format!("profile_export.json: {}", MissingMetric::Timelines.reason()));
    }
    let ns = wall_clock_ns(run);
    let request = |trace: &RequestTrace| {
        json!({
            "timestamp": ns(trace.issue),
            "request_inputs": {},
            "response_timestamps": chunk_times(trace).into_iter().map(&ns).collect::<Vec<u64>>(),
            "response_outputs": [],
        })
    };
    let first = run.request_traces.iter().map(|trace| trace.issue).fold(f64::INFINITY, f64::min);
    let last = run.request_traces.iter().map(|trace| trace.end).fold(f64::NEG_INFINITY, f64::max);
    let windows = if first.is_finite() { vec![ns(first), ns(last)] } else { Vec::new() };
    let (mode, value) = match rate(run) {
        Some(rate) => ("request_rate", rate),
        // All at once is as many users as requests.
        None => ("concurrency", users(run).unwrap_or(run.request_traces.len() as f64)),
    };
    out.without("request_inputs, response_outputs: a run keeps no contents");
    out.without("wall-clock stamps: they count from the start of set-up (`started`), only differences are exact");
    if run.request_traces.iter().any(|trace| !trace.ok) {
        out.without("profile_export.json: failed requests; the shape has no place for them");
    }
    out.json(
        "profile_export.json",
        &json!({
            "experiments": [{
                "experiment": { "mode": mode, "value": value },
                "requests": ok(run).map(request).collect::<Value>(),
                "window_boundaries": windows,
            }],
            "version": "",
            "service_kind": "triton",
            "endpoint": "",
            "regatta": identity_object(run),
        }),
    );
}

fn chunk_times(trace: &RequestTrace) -> Vec<f64> {
    match &trace.chunks {
        TracedChunks::Every(all) => all.iter().map(|chunk| chunk.at).collect(),
        TracedChunks::Ends { first, count: 1, .. } => vec![first.at],
        TracedChunks::Ends { first, last, .. } => vec![first.at, last.at],
    }
}
