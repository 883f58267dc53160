//! From the records of a run to its numbers, and to `result.json`.
//!
//! ```text
//!  collector ─→ summary ─→ result ─→ result_files
//! ```

pub(super) mod adjusted;
pub(super) mod by_host;
pub(super) mod collector;
pub(super) mod consistency;
pub(super) mod goodput;
pub(super) mod headline;
pub(super) mod load_summary;
pub(super) mod loadgen;
pub(super) mod metric;
pub(super) mod repeats;
pub(super) mod result;
pub(super) mod result_files;
pub(super) mod retokenize;
pub(super) mod secondary_metrics;
pub(super) mod selfcheck;
pub(super) mod stability;
pub(super) mod steady;
pub(super) mod summary;
pub(super) mod unknown_chunks;

#[cfg(test)]
pub(super) mod golden;
