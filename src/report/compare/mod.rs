//! Compares results: values, differences with intervals, and a judgement. Unlike numbers are not subtracted.
//!
//! ```text
//!  MeasuredRun ──of──→ ComparedResult (numbers with their meanings), one for each run ─→ RunSet ─┐
//!  MeasuredRun ──of──→ ComparedResult, …                                              ─→ RunSet ─┴→ Comparison ─→ table · JSON
//! ```
//!
//! A judgement rests on how much *runs* differ from each other. One run on a side gives numbers and no judgement. Runs of one plan are one
//! observation: `plan_groups`.

mod compared_result;
mod comparison;
mod fail_condition;
mod identity;
mod pairing;
mod plan_groups;
mod ratio;
mod run_set;
mod server_table;
mod sweep_comparison;
mod text;

pub use compared_result::{ComparedResult, FOUND_RATE, Measure, NotComputable, SearchedRate};
pub use comparison::{CompareRules, Comparison, Delta, Judgement, PercentInterval};
pub use fail_condition::{FailCondition, FailConditionOutcome, NoDifference, NotCondition};
pub use pairing::Pairing;
pub use ratio::{MeasuredOn, Ratio, Ratios};
pub use run_set::{RunSet, RunSetError};
pub use server_table::ServerRow;
pub use sweep_comparison::{ComparedSweep, sweeps_json, sweeps_text};
pub(crate) use sweep_comparison::{identity_of_sweeps, sweep_notes, sweep_rows};
pub(crate) use text::{doubts, judgement_text, letter, method};
pub use text::{invalid_runs, json, run_counts, text};

#[cfg(test)]
mod tests;
