//! GuideLLM: its command lines of before and since 0.8, and its result file.

mod data;
mod measured;

pub(super) mod command_line;
pub(super) mod import;
