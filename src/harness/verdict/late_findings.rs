//! Findings that come after the numbers of a run: a server that failed, its own counts, LoadGen's result.

use crate::event::Lowered;
use crate::harness::LoadgenResult;
use crate::harness::measure::reason::{Reason, ReasonSeverity, verdict_of};
use crate::harness::measure::result::{Measured, RunResult};
use crate::triton::ServerMetrics;

/// Requests that the server may count beyond those that were sent.
const COUNTED: f64 = 0.02;

impl Measured {
    /// Findings of the stage that watches the server: it died or stopped answering during the measurement.
    pub fn server_failed(&mut self, text: impl Into<String>) {
        let reason = Reason { check: "server".to_owned(), severity: ReasonSeverity::InvalidServer, text: text.into() };
        self.result.reasons.insert(0, reason);
        self.result.verdict = verdict_of(&self.result.reasons);
    }

    /// What the servers' metrics counted meanwhile, and whether that is what was sent.
    pub fn server_counted(&mut self, metrics: ServerMetrics) {
        self.result.server_metrics = Some(metrics);
        self.result.reasons.extend(other_load(&self.result));
        self.result.reasons.sort_by_key(|reason| reason.severity);
        self.result.verdict = verdict_of(&self.result.reasons);
    }

    /// What the servers had less of than the manifest says, because memory ran out with more.
    pub fn lowered(&mut self, lowered: &[Lowered]) {
        for one in lowered {
            let text = format!("the server ran with {one}: memory ran out with more, and its retry rule lowered it");
            self.result.reasons.push(Reason { check: "lowered".to_owned(), severity: ReasonSeverity::Warning, text });
        }
        self.result.verdict = verdict_of(&self.result.reasons);
    }

    /// What LoadGen said, and what speaks against the run because of it.
    pub fn loadgen_said(&mut self, said: LoadgenResult, reasons: Vec<Reason>) {
        let all = &mut self.result.reasons;
        for reason in all.iter_mut().filter(|reason| matches!(reason.check.as_str(), "lag" | "cpu")) {
            // For LoadGen the client is part of what it measures: lateness makes its numbers worse, never better.
            reason.severity = ReasonSeverity::Warning;
        }
        all.extend(reasons);
        all.sort_by_key(|reason| reason.severity);
        self.result.verdict = verdict_of(all);
        self.result.loadgen = Some(said);
    }
}

/// What the server counted and the client did not send. Warm-up may fall between two polls, so it may be counted; how much of it there
/// is is not known where it lasts for a time.
fn other_load(result: &RunResult) -> Option<Reason> {
    let metrics = &result.server_metrics.as_ref()?.metrics;
    let of_model = metrics.iter().filter(|metric| {
        metric.name == "nv_inference_request_success" && metric.labels.get("model") == Some(&result.asked.model)
    });
    let counted: f64 = of_model.filter_map(|metric| metric.increase).sum();
    let sent = result.counts.issued + result.counts.retried;
    let known = (sent + u64::from(result.asked.warmup)) as f64;
    if result.asked.warmup_ms.is_some() || counted <= known * (1.0 + COUNTED) + 1.0 {
        return None;
    }
    let text = format!(
        "the server counted {counted:.0} successful requests of `{}` meanwhile, and {sent} were sent: another client used the server, \
         and the result has its load in it",
        result.asked.model
    );
    Some(Reason { check: "other_load".to_owned(), severity: ReasonSeverity::Warning, text })
}
