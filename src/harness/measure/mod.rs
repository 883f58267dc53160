//! From the records of a run to its numbers, and to `result.json`.
//!
//! ```text
//!  drive ─→ collector ─→ summary ─→ result ─→ result_files
//! ```

pub(super) mod arrival_law;
pub(super) mod collector;
pub(super) mod consistency;
pub(super) mod course;
pub(super) mod freeze;
pub(super) mod goodput;
pub(super) mod headline;
pub(super) mod latency;
pub(super) mod load_conditions;
pub(super) mod loadgen;
pub(super) mod metric;
pub(super) mod occupancy;
pub(super) mod output_tokens;
pub(super) mod prompt_tokens;
pub(super) mod reasons;
pub(super) mod repeats;
pub(super) mod requested;
pub(super) mod result;
pub(super) mod result_files;
pub(super) mod stability;
pub(super) mod steady;
pub(super) mod subsets;
pub(super) mod summary;
pub(super) mod workload;
