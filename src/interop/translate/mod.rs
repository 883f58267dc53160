//! The table of tools by their programs, and the translation of lines and scripts with it.
//!
//! Each tool translates its own arguments with the means of `command_line`; here is what knows all of them.

mod command;
mod loops;
mod script;
mod unknown_values;

pub use command::read_line;
pub use script::read_scripts;
