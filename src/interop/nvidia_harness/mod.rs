//! The harness of NVIDIA's MLPerf submissions: its configs, and the arguments of its Makefile.

mod benchmarks;
mod config;
mod entry;
mod file;
mod gpu_data_sheets;
mod make_targets;
mod placeholder;
pub(super) mod run_args;
mod system_name;
mod tuning_fields;
mod untranslated_fields;
mod v4_1_fields;
mod value;

pub use config::read_config;
pub use system_name::gpu_name;
