//! Findings about the servers that no request shows: one that was lost, one that ran with less, other clients on it.

use super::evidence::Evidence;
use crate::measure::counted_prompts::CountedPrompts;
use crate::measure::result::RunResult;
use crate::measure::unknown_chunks::NEGLIGIBLE;
use crate::measure::verdict_check::VerdictCheck;
use crate::measure::verdict_reason::{ReasonSeverity, VerdictReasons};

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

/// Prompts that the server did not read to their end.
pub(super) fn cut_prompts(result: &RunResult, found: &mut VerdictReasons) {
    let ok = result.counts.ok;
    let Some(cut) = result.tokens.input_cut.filter(|cut| cut.requests as f64 > NEGLIGIBLE * ok as f64) else { return };
    let text = format!(
        "the `usage` of {} of {ok} answers counts {} prompt tokens, and {} were sent ({}): the server may cut prompts at its context length, so that \
         TTFT and throughput are those of shorter ones; raise that length, or send shorter prompts",
        cut.requests, cut.counted, cut.sent, result.tokens.input_source
    );
    found.add(VerdictCheck::CutPrompts, ReasonSeverity::Warning, text);
}

/// A share of prompt tokens above `most` that the engine did not compute, as vLLM counts it in its `/metrics`. Also where this run has sent
/// no prompt twice: a run before it may have sent the same ones, which the server still has. Returns whether there is such a share.
pub(super) fn prefix_cache(result: &RunResult, most: f64, found: &mut VerdictReasons) -> bool {
    let counted = CountedPrompts::of(result).filter(|counted| counted.share() > most && result.loadgen.is_none());
    let Some(counted) = counted else { return false };
    let (repeated, scheduled) = (result.load.prompts_repeated, result.counts.scheduled);
    let text = format!(
        "{:.0} % of the prompt tokens came from the server's prefix cache, as its metrics count ({:.0} of {:.0}), and {repeated} of \
         {scheduled} prompts had been sent before in this run: TTFT and throughput are in part those of the cache; a run with the same `seed` sends \
         the same prompts, so start the server anew or give each run another `seed`, or report this share with the result",
        100.0 * counted.share(),
        counted.cached,
        counted.tokens
    );
    found.add(VerdictCheck::RepeatedPrompts, ReasonSeverity::Warning, text);
    true
}
