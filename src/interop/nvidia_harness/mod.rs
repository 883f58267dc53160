//! The harness of NVIDIA's MLPerf submissions: its configs, and the arguments of its Makefile.

mod config;
mod entry;
mod file;
mod gpu_data_sheets;
pub(super) mod run_args;
mod value;

pub use config::read_config;
