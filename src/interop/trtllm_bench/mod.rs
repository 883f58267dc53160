//! `trtllm-bench`: its command line.

pub(super) mod command_line;
