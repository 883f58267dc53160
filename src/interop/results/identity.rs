//! What was measured, in every exported file: verdict, whether it was simulated, and the identity of servers, GPUs,
//! engines, client and manifest.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::exported::cell;
use crate::metrics::MeasuredRun;
use harness::RunIdentity;

/// For formats that take an object of a tool's own.
pub(crate) fn object(measured_run: &MeasuredRun) -> Value {
    json!({
        "generated_by": format!("regatta {}", env!("CARGO_PKG_VERSION")),
        "verdict": measured_run.result.verdict_text(),
        "simulated": is_simulated(measured_run),
        "identity": measured_run.result.identity(),
    })
}

/// Name and value, the verdict first.
pub(crate) fn entries(measured_run: &MeasuredRun) -> Vec<(String, String)> {
    let first = ("verdict".to_owned(), measured_run.result.verdict_text());
    let others = measured_run.result.identity().map(RunIdentity::entries).unwrap_or_default();
    std::iter::once(first).chain(others).collect()
}

/// One more section of a CSV file, after a blank line, as these tools add sections of their own.
pub(crate) fn csv_section(measured_run: &MeasuredRun) -> String {
    let mut text = "\nIdentity,Value\n".to_owned();
    for (name, value) in entries(measured_run) {
        let _ = writeln!(text, "{},{}", cell(&name), cell(&value));
    }
    text
}

/// `None`: the result does not state it.
pub(crate) fn is_simulated(measured_run: &MeasuredRun) -> Option<bool> {
    measured_run.result.identity().map(|identity| identity.simulated)
}
