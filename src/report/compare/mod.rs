//! Compares results: values, differences with intervals, and a judgement. Unlike numbers are not subtracted.
//!
//! ```text
//!  MeasuredRun ──of──→ ComparedResult (numbers with their meanings), one for each run ─→ RunSet ─┐
//!  MeasuredRun ──of──→ ComparedResult, …                                              ─→ RunSet ─┴→ Comparison ─→
//! table · JSON
//! ```
//!
//! A judgement rests on how much *runs* differ from each other. One run on a side gives numbers and no judgement.
//! Which rows are tested together, and which in pairs of runs, is a rule of each metric: `comparison`.
//! Runs of one plan are one observation: `run_set`.

mod compared_result;
mod comparison;
mod document;
mod fail_condition;
mod ratio;
mod run_set;
mod sweep_comparison;

pub use compared_result::{ComparedResult, FOUND_RATE, Measure, SearchedRate};
pub use comparison::{CompareRules, Comparison, Delta, Judgement, RowFamily};
pub use document::{document, invalid_runs, run_counts};
pub use fail_condition::{FailCondition, FailConditionOutcome};
pub use ratio::{MeasuredOn, Ratio, Ratios, ServerRow};
pub use run_set::{Pairing, RunSet, json};
pub use sweep_comparison::{ComparedSweep, sweeps_document, sweeps_json};

#[cfg(test)]
mod tests;
