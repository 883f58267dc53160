//! AIPerf: its command line.

pub(super) mod command_line;
mod input_file;
mod option_table;
mod warm_up;
