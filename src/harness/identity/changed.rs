//! What an identity means for its measurement: a server that changed meanwhile, a simulator whose time does not run with
//! the clock.

use super::{RunIdentity, ServerIdentity};
use crate::harness::judge;
use crate::harness::result::{Measured, Reason, RunResult, Severity};

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
            // Nothing can be said of a server that does not answer any more.
            if one.is_known() && now.is_known() && one.digest() != now.digest() {
                let text = format!(
                    "{} was {} before the measurement and {} after it{}: its numbers are of no one server",
                    now.address,
                    one.describe(),
                    now.describe(),
                    if one.start_time_seconds == now.start_time_seconds { "" } else { ", and it was started anew" },
                );
                self.find("identity", Severity::InvalidServer, text);
            }
        }
        if let Some(speed) = identity.speed() {
            // LoadGen's rehearsals are not submitted, whatever their numbers are.
            let is_rehearsal = self.loadgen.as_ref().is_some_and(|loadgen| loadgen.rehearsal);
            let severity = if is_rehearsal { Severity::Warning } else { Severity::InvalidLoad };
            let text = format!(
                "the simulator runs at `speed: {speed}`: its time does not run with the clock, so these rates and latencies are of nothing that it simulates; measure at `speed: 1`"
            );
            self.find("speed", severity, text);
        }
        self.identity = Some(identity);
    }

    fn find(&mut self, check: &str, severity: Severity, text: String) {
        self.reasons.push(Reason { check: check.to_owned(), severity, text });
        self.reasons.sort_by_key(|reason| reason.severity);
        self.verdict = judge::verdict(&self.reasons);
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
