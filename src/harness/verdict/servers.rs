//! Findings about the servers that no request shows: one that was lost, that changed, or that ran with less; other
//! clients on it; a simulator whose time does not run with the clock; and what LoadGen reports of a run that it drove.

use crate::identity::server_changes;
use crate::measure::latency::NEGLIGIBLE;
use crate::measure::reasons::VerdictReasons;
use crate::measure::token_counts::CountedPrompts;
use crate::verdict::unjudged_run::Evidence;
use crate::{BenchSpec, LoadgenResult, ReasonSeverity, ReportingDelay, RunResult, VerdictCheck};
use base::units::counted;

/// Requests that the server may count beyond those that were sent.
pub(crate) const COUNTED: f64 = 0.02;

/// A lost server comes first: it explains the other findings.
pub(super) fn lost(evidence: &Evidence, found: &mut VerdictReasons) {
    if let Some(why) = &evidence.server_lost {
        found.add(VerdictCheck::Server, ReasonSeverity::InvalidServer, why.clone());
    }
}

pub(super) fn lowered(evidence: &Evidence, found: &mut VerdictReasons) {
    for one in &evidence.lowered {
        let text = format!("the server ran with {one}: memory ran out with more, and its retry rule lowered it");
        found.warn(VerdictCheck::Lowered, text);
    }
}

/// What the server counted and the client did not send. Warm-up may fall between two polls, so it may be counted; how
/// much of a timed warm-up was counted is unknown.
pub(super) fn other_load(result: &RunResult, found: &mut VerdictReasons) {
    let Some(server_metrics) = &result.server_metrics else { return };
    let of_model = server_metrics.metrics.iter().filter(|metric| {
        metric.name == "nv_inference_request_success" && metric.labels.get("model") == Some(&result.requested.model)
    });
    let counted: f64 = of_model.filter_map(|metric| metric.increase).sum();
    let sent = result.counts.issued + result.counts.retried;
    let expected = (sent + u64::from(result.requested.warmup)) as f64;
    if result.requested.warmup_ms.is_some() || counted <= expected * (1.0 + COUNTED) + 1.0 {
        return;
    }
    let text = format!(
        "the server counted {counted:.0} successful requests of `{}` meanwhile, and {sent} were sent: another client \
         used the server, and the result has its load in it",
        result.requested.model
    );
    found.warn(VerdictCheck::OtherLoad, text);
}

/// Prompts that the server did not read to their end.
pub(super) fn cut_prompts(result: &RunResult, found: &mut VerdictReasons) {
    let ok = result.counts.ok;
    let Some(cut) = result.tokens.input_cut.filter(|cut| cut.requests as f64 > NEGLIGIBLE * ok as f64) else { return };
    let text = format!(
        "the `usage` of {} of {ok} answers counts {} prompt tokens, and {} were sent ({}): the server cuts prompts at \
         its context length, so that TTFT and throughput are those of shorter ones, or its tokenizer is another one; \
         {}",
        cut.requests,
        cut.counted,
        cut.sent,
        result.tokens.input_source,
        VerdictCheck::CutPrompts.cure()
    );
    found.warn(VerdictCheck::CutPrompts, text);
}

/// How many tokens a server counts in drawn prompts: so many for each word, and so many of a chat's template.
pub(crate) const OF_A_WORD: f64 = 1.5;
pub(crate) const OF_A_TEMPLATE: f64 = 100.0;

/// Drawn prompts have the requested length in words, which most vocabularies have as one token each.
pub(super) fn longer_prompts(spec: &BenchSpec, result: &RunResult, found: &mut VerdictReasons) {
    let (tokens, ok) = (&result.tokens, result.counts.ok);
    let is_drawn = spec.content.data.is_none() && spec.content.tokenizer.is_none() && spec.content.sessions.is_none();
    let bound = OF_A_WORD * tokens.input as f64 + OF_A_TEMPLATE * ok as f64;
    let Some(counted) = tokens.input_server.filter(|counted| is_drawn && *counted as f64 > bound) else { return };
    let text = format!(
        "prompts are longer than requested: the server counts {counted} tokens in {} {}: its tokenizer cuts words, \
         or it adds a prompt of its own; with a `tokenizer` prompts have the requested length",
        tokens.input, tokens.input_source
    );
    found.warn(VerdictCheck::Lengths, text);
}

/// A share of prompt tokens above `most` that the engine did not compute, as vLLM counts it in its `/metrics`. Also
/// where this run has sent no prompt twice: a run before it may have sent the same ones, which the server still has.
/// Returns whether there is such a share.
pub(super) fn prefix_cache(result: &RunResult, most: f64, found: &mut VerdictReasons) -> bool {
    let counted =
        CountedPrompts::from_result(result).filter(|counted| counted.share() > most && result.loadgen.is_none());
    let Some(counted) = counted else { return false };
    let (repeated, scheduled) = (result.load.prompts_repeated, result.counts.scheduled);
    let text = format!(
        "{:.0} % of the prompt tokens came from the server's prefix cache, as its metrics count ({:.0} of {:.0}), and \
         {repeated} of {scheduled} prompts had been sent before in this run: TTFT and throughput are in part those of \
         the cache; a run with the same `seed` sends the same prompts, so start the server anew or give each run \
         another `seed`, or report this share with the result",
        100.0 * counted.share(),
        counted.cached,
        counted.tokens
    );
    found.warn(VerdictCheck::RepeatedPrompts, text);
    true
}

pub(super) fn identity(result: &RunResult, evidence: &Evidence, found: &mut VerdictReasons) {
    let Some(identity) = &result.identity else { return };
    for (one, now) in evidence.servers_before.iter().zip(&identity.servers) {
        // A server that no longer answers cannot be compared.
        if !one.is_known() || !now.is_known() {
            continue;
        }
        let changed = server_changes(one, now);
        if !changed.is_empty() {
            let text = format!(
                "{} changed during the measurement, so the results are a mixture: {}",
                now.address,
                changed.join("; ")
            );
            found.add(VerdictCheck::Identity, ReasonSeverity::InvalidServer, text);
        } else if let (Some(before), Some(after)) = (one.start_time_seconds, now.start_time_seconds)
            && (before - after).abs() > f64::EPSILON
        {
            let text = format!(
                "{} reported different start times before and after the measurement: it was restarted, or several \
                servers answer at this address",
                now.address
            );
            found.warn(VerdictCheck::Identity, text);
        }
    }
    if let Some(speed) = identity.speed() {
        // LoadGen's rehearsals are not submitted, whatever their numbers are.
        let is_rehearsal = result.loadgen.as_ref().is_some_and(|loadgen| loadgen.rehearsal);
        let severity = if is_rehearsal { ReasonSeverity::Warning } else { ReasonSeverity::InvalidServer };
        let text = format!(
            "the simulator runs at speed {speed}: its time does not follow the clock, so these rates and latencies \
             do not describe the simulated system; {}",
            VerdictCheck::Speed.cure()
        );
        found.add(VerdictCheck::Speed, severity, text);
    }
}

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
            add(ReasonSeverity::LimitMissed, format!("LoadGen reports {result}: {}", reported.why.join(" ")));
        }
        None if reported.is_accuracy() => {}
        None => add(ReasonSeverity::InvalidClient, "LoadGen gave no result".to_owned()),
    }
    if reported.errors > 0 {
        add(ReasonSeverity::LimitMissed, errors(reported));
    }
}

/// Whether the lag may be why LoadGen reports a latency over its limit: it is in TTFT, and in no TPOT. The limit itself
/// is not known here, so the lag has to be much of TTFT.
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
