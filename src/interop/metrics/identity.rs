//! The identity of a result that is given as JSON.

use serde::Deserialize as _;
use serde_json::Value;

use crate::event::Verdict;
use crate::harness::RunIdentity;

/// What was measured; `None` in results of older programs and of other tools.
pub fn identity_of(result: &Value) -> Option<RunIdentity> {
    RunIdentity::deserialize(result.get("identity")?).ok()
}

/// `VALID SIMULATED`, `not judged`.
pub fn verdict_text(result: &Value) -> String {
    let verdict = result.get("verdict").and_then(|verdict| Verdict::deserialize(verdict).ok());
    let verdict = verdict.map_or("not judged", Verdict::as_str);
    match identity_of(result) {
        Some(identity) if identity.simulated => format!("{verdict} SIMULATED"),
        _ => verdict.to_owned(),
    }
}
