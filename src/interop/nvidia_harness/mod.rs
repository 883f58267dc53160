//! The harness of NVIDIA's MLPerf submissions: its configs, and the arguments of its Makefile.
//!
//! `nvidia-harness.toml` is the table of its benchmarks, targets and fields.

mod config;
mod config_file;
mod harness_table;
mod make_targets;
pub(super) mod run_args;
mod stage_entry;
mod systems;
mod tuning_fields;

pub use config::read_config;
pub use make_targets::FLAG_VARIABLES;
pub use systems::gpu_name;
