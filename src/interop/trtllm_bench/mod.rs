//! `trtllm-bench`: its command line and what it reports.

pub(super) mod command_line;
pub(super) mod import;
