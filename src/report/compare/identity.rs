//! What two results were measured on: both identities, in what they differ, and what that forbids to claim.

use super::ComparedResult;
use harness::{IdentityDifference, RunIdentity, ServerIdentity, identity_differences};

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
