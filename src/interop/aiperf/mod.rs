//! AIPerf: its command line and its result files.

pub(super) mod command_line;
pub(super) mod export;
pub(super) mod import;
