//! perf_analyzer: its command line and its raw export.

pub(super) mod command_line;
pub(super) mod export;
pub(super) mod import;
