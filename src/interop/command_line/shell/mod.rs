//! Shell text as pages print it: split into commands, variables expanded, placeholders recognized. Nothing of it is run.
//!
//! Read are the parts that pages use: quotes, comments, continued lines, `&&`, `;`, pipes, redirections, here-documents and
//! `$NAME`. A value that the text does not have (a variable that it does not set, what a command would print, `<model dir>`) becomes
//! an expression of a manifest, `{{name}}`, and an [`UnknownValue`] that has what it stands for. As a number it is read as a
//! [`Quantity`](crate::spec::Quantity), and what is computed from it is a formula.

mod arithmetic;
mod parameter;
mod split;
mod substitution;
mod terminal_prompt;
mod unknown;
mod variables;

pub(in crate::interop) use arithmetic::sequence;
pub(in crate::interop) use split::{WrittenCommand, split};
pub(in crate::interop) use terminal_prompt::without_prompts;
pub use unknown::UnknownValue;
pub(in crate::interop) use unknown::{as_written, parameters, unmentioned};
pub(in crate::interop) use variables::Variables;
