//! GuideLLM: its command lines of before and since 0.8.

mod data;
mod measured;
mod options;
mod run;
mod warm_up;

pub(super) mod command_line;
