//! What an identity means for its measurement: a server that changed during the run, a simulator with a time that does not
//! run with the clock.

use super::evidence::Evidence;
use crate::identity::server_changes;
use crate::measure::result::RunResult;
use crate::measure::verdict_check::VerdictCheck;
use crate::measure::verdict_reason::{ReasonSeverity, VerdictReasons};

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
                "{} changed during the measurement, so its numbers are of no one server: {}",
                now.address,
                changed.join("; ")
            );
            found.add(VerdictCheck::Identity, ReasonSeverity::InvalidServer, text);
        } else if let (Some(before), Some(after)) = (one.start_time_seconds, now.start_time_seconds)
            && (before - after).abs() > f64::EPSILON
        {
            let text = format!(
                "{} gave another start time before the measurement than after it: it was restarted, or several servers answer at this address",
                now.address
            );
            found.add(VerdictCheck::Identity, ReasonSeverity::Warning, text);
        }
    }
    if let Some(speed) = identity.speed() {
        // LoadGen's rehearsals are not submitted, whatever their numbers are.
        let is_rehearsal = result.loadgen.as_ref().is_some_and(|loadgen| loadgen.rehearsal);
        let severity = if is_rehearsal { ReasonSeverity::Warning } else { ReasonSeverity::InvalidLoad };
        let text = format!(
            "the simulator runs at `speed: {speed}`: its time does not run with the clock, so these rates and latencies are of nothing that it simulates; measure at `speed: 1`"
        );
        found.add(VerdictCheck::Speed, severity, text);
    }
}
