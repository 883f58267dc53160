//! What an identity means for its measurement: a server that changed during the run, a simulator with a time that does not
//! run with the clock.

use crate::harness::identity::server_changes;
use crate::harness::measure::reason::verdict_of;
use crate::harness::{Measured, Reason, ReasonSeverity, RunIdentity, RunResult, ServerIdentity};

impl Measured {
    /// Puts the identity into the result. `before` is what the servers reported before the first request, the identity
    /// has what they reported after the last answer.
    pub fn identify(&mut self, before: &[ServerIdentity], identity: RunIdentity) {
        self.result.identify(before, identity);
    }
}

impl RunResult {
    /// See [`Measured::identify`].
    pub fn identify(&mut self, before: &[ServerIdentity], identity: RunIdentity) {
        for (one, now) in before.iter().zip(&identity.servers) {
            // A server that no longer answers cannot be compared.
            if !one.is_known() || !now.is_known() {
                continue;
            }
            let changed = server_changes(one, now);
            if !changed.is_empty() {
                let text = format!(
                    "{} changed during the measurement, so its numbers are of no one server: {}",
                    now.address,
                    changed.join("; ")
                );
                self.find("identity", ReasonSeverity::InvalidServer, text);
            } else if let (Some(before), Some(after)) = (one.start_time_seconds, now.start_time_seconds)
                && (before - after).abs() > f64::EPSILON
            {
                let text = format!(
                    "{} gave another start time before the measurement than after it: it was restarted, or several servers answer at this address",
                    now.address
                );
                self.find("identity", ReasonSeverity::Warning, text);
            }
        }
        if let Some(speed) = identity.speed() {
            // LoadGen's rehearsals are not submitted, whatever their numbers are.
            let is_rehearsal = self.loadgen.as_ref().is_some_and(|loadgen| loadgen.rehearsal);
            let severity = if is_rehearsal { ReasonSeverity::Warning } else { ReasonSeverity::InvalidLoad };
            let text = format!(
                "the simulator runs at `speed: {speed}`: its time does not run with the clock, so these rates and latencies are of nothing that it simulates; measure at `speed: 1`"
            );
            self.find("speed", severity, text);
        }
        self.identity = Some(identity);
    }

    fn find(&mut self, check: &str, severity: ReasonSeverity, text: String) {
        self.reasons.push(Reason { check: check.to_owned(), severity, text });
        self.reasons.sort_by_key(|reason| reason.severity);
        self.verdict = verdict_of(&self.reasons);
    }
}
