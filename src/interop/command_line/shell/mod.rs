//! Shell text as pages print it: split into commands, variables expanded, placeholders recognized. Nothing of it is
//! run.
//!
//! Read are the parts that pages use: quotes, comments, continued lines, `&&`, `;`, pipes, redirections,
//! here-documents and `$NAME`. A value that the text does not have (a variable that it does not set, what a command
//! would print, `<model dir>`) becomes an expression of a manifest, `{{name}}`, and an [`UnknownValue`] that has what
//! it stands for. As a number it is read as a [`Quantity`](base::spec::Quantity), and what is computed from it is a
//! formula.

mod parameter;
mod split;
mod terminal_prompt;
mod unknown;
mod variables;

pub(crate) use parameter::sequence;
pub(crate) use split::{WrittenCommand, split};
pub(crate) use terminal_prompt::{as_typed, commands_of_page, without_prompts};
pub use unknown::UnknownValue;
pub(crate) use unknown::{as_written, parameters, unmentioned};
pub(crate) use variables::{ELEMENT_BLANK, Variables, positional};
