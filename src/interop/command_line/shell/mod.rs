//! Shell text as pages print it: split into commands, variables expanded, placeholders recognized. Nothing of it is run.
//!
//! Read are the parts that pages use: quotes, comments, continued lines, `&&`, `;`, pipes, redirections, here-documents and
//! `$NAME`. A value that the text does not have (a variable that it does not set, `<model dir>`) becomes an expression of a
//! manifest, `{{name}}`, and an [`UnknownValue`] that has what it stands for.

mod arithmetic;
mod split;
mod terminal_prompt;
mod unknown;
mod variables;

pub(in crate::interop) use split::{WrittenCommand, split};
pub(in crate::interop) use terminal_prompt::without_prompts;
pub use unknown::{UnknownNumber, UnknownValue};
pub(in crate::interop) use unknown::{as_written, parameters};
pub(in crate::interop) use variables::Variables;
