//! Folds events and results into a run state and shows it: terminal, JSON, HTML.
//!
//! [`RunState`] is the one fold; [`LiveDisplay`] shows it during the run, [`summary()`] at the end, [`html`] as a report.
//! `plan` shows what a plan would do, `endpoints` where servers are, `tables` what exists, `bulk` a list of runs, `doctor` what a machine has;
//! [`compare`] compares results with each other, [`explain`] explains what a number means. This module reads and writes no file and decides nothing about a run:
//! its callers pass in the data to show. Everything except [`LiveDisplay`] returns text or bytes.
//!
//! ```text
//!  Event, Event, … ─fold→ RunState ─→ LiveDisplay, summary, JSON, JUnit, HTML
//!  results of runs ─compare→ differences and their certainty ─→ terminal, JSON, HTML
//! ```

mod bulk;
mod calibration;
pub mod compare;
mod doctor;
mod endpoints;
mod escape;
pub mod explain;
mod fleet;
pub mod history;
pub mod html;
mod junit;
mod markdown_summary;
pub mod mlperf;
mod open_metrics;
mod over_runs;
mod page_template;
mod plan;
mod run_list;
mod run_state;
pub mod server;
mod tables;
mod terminal;
#[cfg(test)]
mod test_runs;
mod what_if;

pub use bulk::{BulkRow, bulk_table};
pub use calibration::{calibration_json, calibration_preset, calibration_text};
pub use doctor::{DoctorFinding, FindingLevel, doctor_json, doctor_text};
pub use endpoints::{EndpointRow, endpoints_json, endpoints_text};
pub use fleet::{FleetRow, fleet_json, fleet_text};
pub use junit::junit_xml;
pub use markdown_summary::markdown_summary;
pub use open_metrics::{OPEN_METRICS_TYPE, open_metrics};
pub use plan::{
    BenchEstimate, DecisionKind, DecisionRow, EstimateBasis, EstimatedLoad, LaunchKind, LaunchRow, decisions_text,
    estimates_note, graph_dot, graph_mermaid, launch_json, launch_problems, launch_text, write_decisions_json,
};
pub use run_list::{RunRow, run_list, run_list_json};
pub use run_state::{Finished, Notice, RunState, TaskPhase, TaskProgress, TaskState};
pub use server::{ModelDetails, ModelRow, ServerMetricRow, ServerStatus, TensorFacts};
pub use tables::{ManifestRow, ValueRow, manifest_list, manifest_list_json, run_status, run_status_json, value_table};
pub use terminal::{
    LiveDisplay, LiveOptions, RunPaths, Styler, TextRole, clean, cut, signed_percent, summary, sweep_table, table,
    tool_metrics,
};
pub use what_if::{WhatIfLengths, WhatIfNumbers, WhatIfProblem, WhatIfRow, what_if_json, what_if_text};
