//! What an identity means for its measurement: a server that changed during the run, a simulator with a time that does not
//! run with the clock.

use super::describe::short;
use super::{RunIdentity, ServerIdentity};
use crate::harness::measure::result::{Measured, Reason, ReasonSeverity, RunResult};
use crate::harness::verdict;

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
            let changed = changes(one, now);
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
        self.verdict = verdict::verdict(&self.reasons);
    }

    /// Whether a server was the built-in simulator.
    pub fn is_simulated(&self) -> bool {
        self.identity.as_ref().is_some_and(|identity| identity.simulated)
    }

    /// `VALID`, and `SIMULATED` beside it where a server was the simulator.
    pub fn verdict_text(&self) -> String {
        let verdict = self.verdict.as_str();
        if self.is_simulated() { format!("{verdict} SIMULATED") } else { verdict.to_owned() }
    }
}

impl RunIdentity {
    /// Where the servers of a later run of the same measurement differ: `10.0.0.5:8000: version 0.8.5 / 0.8.6`.
    pub fn changes(&self, later: &Self) -> Vec<String> {
        changes_of_servers(&self.servers, &later.servers)
    }
}

/// See [`RunIdentity::changes`]. A server that did not answer is left out.
pub fn changes_of_servers(before: &[ServerIdentity], after: &[ServerIdentity]) -> Vec<String> {
    let known = before.iter().zip(after).filter(|(one, now)| one.is_known() && now.is_known());
    known
        .flat_map(|(one, now)| changes(one, now).into_iter().map(|change| format!("{}: {change}", now.address)))
        .collect()
}

/// Values that a server reported differently after the measurement. A value reported only once is no change: answers may be late.
fn changes(before: &ServerIdentity, after: &ServerIdentity) -> Vec<String> {
    let text = |field: fn(&ServerIdentity) -> Option<String>| (field(before), field(after));
    let fields = [
        ("kind", text(|server| server.kind.clone())),
        ("version", text(|server| server.version.clone())),
        ("model source", text(|server| server.model_source.clone())),
        ("backend", text(|server| server.backend.clone())),
        ("maximal batch size", text(|server| server.max_batch_size.map(|size| size.to_string()))),
        ("model metadata", text(|server| server.metadata_digest.as_deref().map(|digest| short(digest).to_owned()))),
        ("engine", text(|server| server.engine_path.clone())),
    ];
    let changed = fields.into_iter().filter_map(|(name, values)| match values {
        (Some(before), Some(after)) if before != after => Some(format!("{name} {before} / {after}")),
        _ => None,
    });
    changed.collect()
}
