//! `profile_export.json`: perf_analyzer's raw export, from which every metric can be computed again.

use crate::metrics::{MeasuredRun, RequestTrace, TracedChunks};
use crate::results::exported::{Exported, facts, has_every_chunk};
use crate::results::identity;
use serde_json::{Value, json};

pub(crate) fn write(measured_run: &MeasuredRun, out: &mut Exported) {
    if let Err(missing) = has_every_chunk(measured_run) {
        out.without(format!("profile_export.json: {}", missing.reason()));
        return;
    }
    let facts = facts(measured_run);
    let epoch = facts.epoch_ns();
    let ns = |ms: f64| (epoch + (ms * 1e6).round() as i128) as u64;
    let requests: Vec<Value> = measured_run
        .request_traces
        .iter()
        .filter(|one| one.ok)
        .map(|one| {
            let stamps: Vec<u64> = chunk_times(one).into_iter().map(ns).collect();
            json!({
                "timestamp": ns(one.issue),
                "request_inputs": {},
                "response_timestamps": stamps,
                "response_outputs": [],
            })
        })
        .collect();
    let first = measured_run.request_traces.iter().map(|one| one.issue).fold(f64::INFINITY, f64::min);
    let last = measured_run.request_traces.iter().map(|one| one.end).fold(f64::NEG_INFINITY, f64::max);
    let windows = if first.is_finite() { vec![ns(first), ns(last)] } else { Vec::new() };
    let (mode, value) = match facts.rate() {
        Some(rate) => ("request_rate", rate),
        // All at once is as many users as requests.
        None => ("concurrency", facts.users().unwrap_or(measured_run.request_traces.len() as f64)),
    };
    out.without("request_inputs, response_outputs: a run keeps no contents");
    out.without("wall-clock stamps: they count from the start of set-up (`started`), only differences are exact");
    if measured_run.request_traces.iter().any(|one| !one.ok) {
        out.without("profile_export.json: failed requests; the shape has no place for them");
    }
    out.json(
        "profile_export.json",
        &json!({
            "experiments": [{
                "experiment": { "mode": mode, "value": value },
                "requests": requests,
                "window_boundaries": windows,
            }],
            "version": "",
            "service_kind": "triton",
            "endpoint": "",
            "regatta": identity::object(measured_run),
        }),
    );
}

fn chunk_times(one: &RequestTrace) -> Vec<f64> {
    match &one.chunks {
        TracedChunks::Every(all) => all.iter().map(|chunk| chunk.at).collect(),
        TracedChunks::Ends { first, count: 1, .. } => vec![first.at],
        TracedChunks::Ends { first, last, .. } => vec![first.at, last.at],
    }
}
