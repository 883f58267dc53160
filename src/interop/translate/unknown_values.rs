//! Values that a text does not have: each is in the translation, or an error names it with what to do.

use crate::command_line::{
    ProblemKind, Translation, TranslationBuilder, TranslationError, TranslationKind, TranslationProblem,
    TranslationResult, UnknownValue, as_written, assignment, is_secret, unmentioned,
};

/// The translation of a command. On error the values that it does not have, although the command's words do: something
/// else was computed in their place.
pub(super) fn with_every_value(
    words: &[String],
    translation: Translation,
    unknown: &[UnknownValue],
) -> TranslationResult {
    if matches!(translation.kind, TranslationKind::Nothing(_)) {
        return Ok(translation);
    }
    // Variables in front of it are for the program, which may have no place for them here.
    let begin = words.iter().take_while(|word| assignment(word).is_some()).count();
    // A secret is never written down.
    let is_hidden = |option: &str, word: &str| {
        is_secret(option) || is_secret(word.split('=').next().unwrap_or(word)) || word.starts_with("Authorization")
    };
    let options = [String::new()].into_iter().chain(words[begin..].iter().cloned());
    // The shared memory of ranks is kept apart by the stage that starts them.
    let is_of_rank = |word: &str| word.contains("shm-region-prefix-name=");
    let shown = options.zip(&words[begin..]).filter(|(option, word)| !is_hidden(option, word) && !is_of_rank(word));
    let shown: Vec<String> = shown.map(|(_, word)| word.clone()).collect();
    let mut builder = TranslationBuilder::default();
    for value in unmentioned(&shown, &format!("{translation:?}"), unknown) {
        if !value.env.as_deref().is_some_and(is_secret) {
            builder.push_error(format!("`{}`: others are computed from this value", value.marker()));
        }
    }
    if builder.problems.is_empty() { Ok(translation) } else { Err(TranslationError { problems: builder.problems }) }
}

/// Problems in the user's words, with what to do where a variable has no value in the text.
pub(super) fn with_variables_named(problems: Vec<TranslationProblem>, unknown: &[UnknownValue]) -> TranslationError {
    let named = |mut problem: TranslationProblem| {
        if let ProblemKind::NoKnownCommand { programs } = &mut problem.kind {
            for program in programs {
                *program = as_written(program, unknown);
            }
        }
        if let ProblemKind::Arguments(sentence) = &mut problem.kind {
            let variables = unknown.iter().filter(|value| sentence.contains(&value.marker()));
            let cures: Vec<String> = variables
                .map(|value| match &value.env {
                    Some(name) => format!("the text does not set `{name}`; write `{name}=…` in front of the line"),
                    None => format!("write a value in place of `{}`", value.written),
                })
                .collect();
            let written = as_written(sentence, unknown);
            *sentence = cures.first().map_or(written.clone(), |cure| format!("{written}: {cure}"));
        }
        problem
    };
    TranslationError { problems: problems.into_iter().map(named).collect() }
}
