//! A pasted command line: one command, or several with `&&` between them.

use super::command::{Surroundings, translate};
use super::script::read_commands;
use crate::command_line::host_paths::on_the_host;
use crate::command_line::translation::Translation;
use crate::command_line::translation_error::TranslationError;

/// What a command line of another tool means here; on error everything that is wrong with it.
pub fn read_line(words: &[String]) -> Result<Translation, TranslationError> {
    let mut translation = match words {
        // One argument is a line that was quoted.
        [line] => read_commands(None, line)?,
        // The prompt of a terminal.
        [prompt, words @ ..] if prompt == "$" => translate(words, &Surroundings::default())?,
        words => translate(words, &Surroundings::default())?,
    };
    on_the_host(&mut translation);
    Ok(translation)
}
