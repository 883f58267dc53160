//! What was measured, in every exported file: verdict, whether it was simulated, and the identity of servers, GPUs,
//! engines, client and manifest.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::exported::cell;
use crate::harness::RunIdentity;
use crate::interop::metrics::MeasuredRun;

/// For formats that take an object of a tool's own.
pub(in crate::interop) fn object(told: &MeasuredRun) -> Value {
    json!({
        "generated_by": format!("regatta {}", env!("CARGO_PKG_VERSION")),
        "verdict": told.result.verdict_text(),
        "simulated": is_simulated(told),
        "identity": told.result.identity(),
    })
}

/// For formats with a single text field.
pub(in crate::interop) fn line(told: &MeasuredRun) -> String {
    let verdict = told.result.verdict_text();
    match told.result.identity() {
        Some(identity) => format!("{verdict}; {}", identity.line()),
        None => format!("{verdict}; what was measured is not known"),
    }
}

/// Name and value, the verdict first.
pub(in crate::interop) fn entries(told: &MeasuredRun) -> Vec<(String, String)> {
    let first = ("verdict".to_owned(), told.result.verdict_text());
    let others = told.result.identity().map(RunIdentity::entries).unwrap_or_default();
    std::iter::once(first).chain(others).collect()
}

/// One more section of a CSV file, after a blank line, as these tools add sections of their own.
pub(in crate::interop) fn csv_section(told: &MeasuredRun) -> String {
    let mut text = "\nIdentity,Value\n".to_owned();
    for (name, value) in entries(told) {
        let _ = writeln!(text, "{},{}", cell(&name), cell(&value));
    }
    text
}

/// `None`: the result does not state it.
pub(in crate::interop) fn is_simulated(told: &MeasuredRun) -> Option<bool> {
    told.result.identity().map(|identity| identity.simulated)
}
