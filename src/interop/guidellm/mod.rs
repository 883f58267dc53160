//! GuideLLM: its command lines of before and since 0.8.

mod data;
mod measured;

pub(super) mod command_line;
