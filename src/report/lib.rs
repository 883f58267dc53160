//! Folds events and results into a run state and shows it: terminal, JSON, HTML.
//!
//! [`RunState`] is the one fold; [`LiveDisplay`] shows it during the run, [`summary()`] at the end, [`run_page()`] as
//! a report. `plan` shows what a plan would do, `server` where servers are, `command_tables` which manifests and runs
//! exist, `doctor` what a machine has; [`compare`] compares results with each other, [`explain`] explains what a number
//! means. A page of a run, a comparison, sweep, history, what-if or table of ratios, and each small report
//! with headings, is a [`Document`], drawn once for a terminal and a page. This module reads and writes no
//! file and decides nothing about a run: its callers pass in the data to show. Everything except [`LiveDisplay`]
//! returns text or bytes.
//!
//! ```text
//!  Event, Event, … ─fold→ RunState ─→ LiveDisplay, summary, JSON, JUnit, HTML
//!  results of runs ─compare · history · sweep→ Document ─→ terminal, HTML; JSON
//! ```

mod calibration;
mod chart;
mod ci;
mod command_tables;
pub mod compare;
mod doctor;
mod document;
mod event_line;
pub mod explain;
pub mod history;
mod live;
mod machine_sections;
mod metric_row;
pub mod mlperf;
mod plan;
mod result_page;
mod result_sections;
mod run_page;
mod run_state;
mod search;
pub mod server;
mod styler;
mod summary;
mod sweep;
#[cfg(test)]
mod test_runs;
mod what_if;

pub use calibration::{calibration, calibration_json, calibration_preset};
pub use ci::{OPEN_METRICS_TYPE, junit_xml, markdown_summary, open_metrics};
pub use command_tables::{
    BulkRow, ManifestRow, ResultRow, RunRow, bulk_table, manifest_list, result_numbers, run_list, run_list_csv,
    run_status, run_status_json, tool_metrics, value_table,
};
pub use doctor::{DoctorFinding, FindingLevel, doctor_json, doctor_text};
pub use document::{Block, Cell, Document, Section, Table};
pub use live::{LiveDisplay, LiveOptions};
pub use plan::{
    BenchEstimate, DecisionRow, EstimateBasis, EstimatedLoad, decisions_text, estimates_note, launch_json,
    launch_problems, launch_text, write_decisions_json,
};
pub use result_page::result;
pub use result_sections::repeats;
pub use run_page::{PageResult, run_page};
pub use run_state::{Finished, Notice, RunState, TaskPhase, TaskProgress, TaskState};
pub use server::{
    EndpointRow, ModelDetails, ModelRow, ServerMetricRow, ServerStatus, TensorFacts, endpoints_json, endpoints_text,
};
pub use styler::{Styler, TextRole, clean, cut, fit_stderr, signed_percent, wrapped};
pub use summary::{RunPaths, failures_text, summary};
pub use sweep::sweep;
pub use what_if::{NearbyTtft, WhatIfLengths, WhatIfNumbers, WhatIfRow, what_if, what_if_json};
