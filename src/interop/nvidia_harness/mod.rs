//! The harness of NVIDIA's MLPerf submissions: its configs, and the arguments of its Makefile.
//!
//! `nvidia-harness.toml` is the table of its benchmarks, targets and fields.

mod config;
mod config_file;
mod harness_table;
pub(super) mod run_args;
mod stage_entry;

pub use config::read_config;
pub use harness_table::gpu_name;
pub use run_args::FLAG_VARIABLES;
