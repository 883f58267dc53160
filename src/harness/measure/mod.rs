//! From the records of a run to its numbers, and to `result.json`.
//!
//! ```text
//!  drive ─→ collector, worker_output ─→ summary ─→ result ─→ result_files
//! ```

pub(super) mod adjusted;
mod all_runs;
pub(super) mod arrival_law;
pub(super) mod by_host;
pub(super) mod cached_input;
pub(super) mod collector;
pub(super) mod consistency;
pub(super) mod counted_prompts;
pub(super) mod cut_input;
pub(super) mod goodput;
pub(super) mod headline;
pub(super) mod histogram;
pub(super) mod in_flight_changes;
mod latency;
pub(super) mod load_conditions;
pub(super) mod loadgen;
pub(super) mod metric;
pub(super) mod mixed_source;
pub(super) mod preflight_result;
pub(super) mod repeats;
pub(super) mod request_times;
pub(super) mod result;
pub(super) mod result_files;
pub(super) mod retokenize;
mod secondary_metrics;
pub(super) mod sessions_summary;
pub(super) mod stability;
pub(super) mod steady;
pub(super) mod summary;
mod unexplained_ends;
pub(super) mod unknown_chunks;
pub(super) mod verdict_check;
pub(super) mod verdict_reason;
pub(super) mod worker_output;
