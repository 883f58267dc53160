//! Findings about the servers that no request shows: one that was lost, one that ran with less, other clients on it.

use super::evidence::Evidence;
use crate::harness::measure::result::RunResult;
use crate::harness::measure::verdict_check::VerdictCheck;
use crate::harness::measure::verdict_reason::{ReasonSeverity, VerdictReasons};

/// Requests that the server may count beyond those that were sent.
const COUNTED: f64 = 0.02;

/// A lost server comes first: it explains the other findings.
pub(super) fn lost(evidence: &Evidence, found: &mut VerdictReasons) {
    if let Some(why) = &evidence.server_lost {
        found.add(VerdictCheck::Server, ReasonSeverity::InvalidServer, why.clone());
    }
}

pub(super) fn lowered(evidence: &Evidence, found: &mut VerdictReasons) {
    for one in &evidence.lowered {
        let text = format!("the server ran with {one}: memory ran out with more, and its retry rule lowered it");
        found.add(VerdictCheck::Lowered, ReasonSeverity::Warning, text);
    }
}

/// What the server counted and the client did not send. Warm-up may fall between two polls, so it may be counted; how much of
/// a timed warm-up was counted is unknown.
pub(super) fn other_load(result: &RunResult, found: &mut VerdictReasons) {
    let Some(server_metrics) = &result.server_metrics else { return };
    let of_model = server_metrics.metrics.iter().filter(|metric| {
        metric.name == "nv_inference_request_success" && metric.labels.get("model") == Some(&result.requested.model)
    });
    let counted: f64 = of_model.filter_map(|metric| metric.increase).sum();
    let sent = result.counts.issued + result.counts.retried;
    let known = (sent + u64::from(result.requested.warmup)) as f64;
    if result.requested.warmup_ms.is_some() || counted <= known * (1.0 + COUNTED) + 1.0 {
        return;
    }
    let text = format!(
        "the server counted {counted:.0} successful requests of `{}` meanwhile, and {sent} were sent: another client used the server, \
         and the result has its load in it",
        result.requested.model
    );
    found.add(VerdictCheck::OtherLoad, ReasonSeverity::Warning, text);
}
