//! What in LoadGen's own result speaks against a run that it drove.

use crate::measure::result::RunResult;
use crate::measure::verdict_check::VerdictCheck;
use crate::measure::verdict_reason::{ReasonSeverity, VerdictReasons};
use crate::{LoadgenResult, ReportingDelay};
use base::units::counted;

/// The share of TTFT p99 from which on a lag may be why TTFT is over LoadGen's limit.
const LAG_OF_TTFT: f64 = 0.5;

pub(super) fn loadgen(result: &RunResult, found: &mut VerdictReasons) {
    let Some(reported) = &result.loadgen else { return };
    let mut add = |severity, text| found.add(VerdictCheck::Loadgen, severity, text);
    match reported.result.as_deref() {
        Some("VALID") => {}
        // An audit is about answers: TEST06 sends 100 queries, too few for LoadGen to call any Server run valid.
        Some(_) if !reported.is_performance() => {}
        Some(result) => {
            add(ReasonSeverity::InvalidLoad, format!("LoadGen reports {result}: {}", reported.why.join(" ")));
        }
        None if reported.is_accuracy() => {}
        None => add(ReasonSeverity::InvalidLoad, "LoadGen gave no result".to_owned()),
    }
    if reported.errors > 0 {
        add(ReasonSeverity::InvalidLoad, errors(reported));
    }
}

/// Whether the lag may be why LoadGen reports a latency over its limit: it is in TTFT, and in no TPOT. The limit itself is not
/// known here, so the lag has to be much of TTFT.
pub(super) fn lag_explains_limit(loadgen: &LoadgenResult, result: &RunResult) -> bool {
    let latency = &result.latency;
    let is_much = match (latency.queue_client.p99, latency.ttft.p99) {
        (Some(lag), Some(ttft)) => lag >= LAG_OF_TTFT * ttft,
        _ => true,
    };
    loadgen.is_over_latency_limit() && !loadgen.is_over_tpot_limit() && is_much
}

/// How many errors, why as far as it is known, and the first.
fn errors(reported: &LoadgenResult) -> String {
    let ReportingDelay { too_short, failed, .. } = reported.reporting;
    let mut causes = Vec::new();
    if too_short > 0 {
        causes.push(format!("{} had fewer than two tokens", counted(too_short, "answer")));
    }
    if failed > 0 {
        causes.push(format!("{} failed", counted(failed, "request")));
    }
    let causes = if causes.is_empty() { String::new() } else { format!(" ({})", causes.join(", ")) };
    format!(
        "LoadGen logged {}{causes}; the first: {}",
        counted(reported.errors, "error"),
        reported.first_errors.join("; ")
    )
}
