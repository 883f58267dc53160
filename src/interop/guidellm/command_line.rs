//! Which of GuideLLM's commands a line is.

use super::{options, run};
use crate::command_line::translation::{Translation, TranslationBuilder};
use crate::command_line::translation_error::TranslationError;

pub(crate) fn translate(words: &[String]) -> Result<Translation, TranslationError> {
    let (command, rest) = words.split_first().map_or(("", words), |(command, rest)| (command.as_str(), rest));
    match (command, rest.first().map(String::as_str)) {
        ("run", _) => run::translate(rest),
        ("benchmark", Some("run")) => options::translate(&rest[1..]),
        ("benchmark", Some(option)) if option.starts_with('-') => options::translate(rest),
        ("benchmark", None) => options::translate(rest),
        ("", _) => TranslationBuilder::nothing(
            "guidellm",
            "the line has no meaning here: its settings are in variables; give them as options, as `guidellm benchmark --target URL --profile sweep --data …`",
        ),
        (command, other) => {
            let line = [Some(command), other.filter(|word| !word.starts_with('-'))].into_iter().flatten();
            let line = line.collect::<Vec<_>>().join(" ");
            TranslationBuilder::nothing(
                "guidellm",
                format!(
                    "`guidellm {line}` has no meaning here: it measures no answers of text; lines of `guidellm benchmark` and `guidellm run` are imported"
                ),
            )
        }
    }
}
