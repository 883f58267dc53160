//! What two results were measured on: both identities, in what they differ, and what that forbids to claim.

use super::{ComparedResult, Comparison, RunSet, letter};
use crate::harness::{IdentityDifference, RunIdentity, ServerIdentity, identity_differences};

/// Why a difference between a simulated and a real server is no finding. `None`: both are the same kind, or it is not known.
pub(super) fn simulated_and_real(a: &ComparedResult, b: &ComparedResult) -> Option<String> {
    let (one, other) = (a.identity.as_ref()?.simulated, b.identity.as_ref()?.simulated);
    let word = |simulated| if simulated { "SIMULATED" } else { "a real server" };
    (one != other).then(|| {
        format!(
            "measured on: {} / {}; a difference between simulated and real is neither better nor worse",
            word(one),
            word(other)
        )
    })
}

/// How the servers differ, beyond where they run and where their files are; `None` where they are equal or not known.
pub(super) fn other_server(a: &ComparedResult, b: &ComparedResult) -> Option<String> {
    let (one, other) = (a.identity.as_ref()?, b.identity.as_ref()?);
    let names = |identity: &RunIdentity| {
        let mut names: Vec<String> = identity.servers.iter().map(ServerIdentity::describe).collect();
        names.sort();
        names.dedup();
        names.join(", ")
    };
    let (one, other) = (names(one), names(other));
    (one != other).then(|| format!("measured on: {one} / {other}"))
}

/// In what the two differ; empty where either is not known.
pub(super) fn differences(a: &ComparedResult, b: &ComparedResult) -> Vec<IdentityDifference> {
    match (&a.identity, &b.identity) {
        (Some(one), Some(other)) => identity_differences(one, other),
        _ => Vec::new(),
    }
}

impl Comparison {
    /// Takes every judgement back where one was simulated and the other was not, also where `--force` subtracts them.
    pub(super) fn without_claims(mut self, a: &ComparedResult, b: &ComparedResult) -> Self {
        if simulated_and_real(a, b).is_some() {
            for delta in &mut self.deltas {
                delta.judgement = None;
            }
        }
        self
    }
}

/// A line for each result that states what was measured, and one for all that do not.
pub(in crate::report) fn lines(sets: &[RunSet]) -> Vec<String> {
    let known = |(n, set): (usize, &RunSet)| Some(format!("{}: {}", letter(n), set.first().identity.as_ref()?.line()));
    let mut lines: Vec<String> = sets.iter().enumerate().filter_map(known).collect();
    let unknown: Vec<String> =
        sets.iter().enumerate().filter(|(_, set)| set.first().identity.is_none()).map(|(n, _)| letter(n)).collect();
    if !unknown.is_empty() {
        lines.push(format!("what was measured is not known of {}: no identity in the file", unknown.join(", ")));
    }
    lines
}
