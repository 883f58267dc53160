//! Programs around a benchmark that do nothing here: why, and what to do instead.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::command_line::translation::{Translation, TranslationBuilder, TranslationKind};
use crate::command_line::translation_error::TranslationError;

#[derive(Deserialize)]
struct ProgramTable {
    program: Vec<IdleProgram>,
}

/// A program that changes nothing that is measured.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IdleProgram {
    names: Vec<String>,
    r#for: String,
    instead: String,
}

static TABLE: LazyLock<ProgramTable> =
    LazyLock::new(|| toml::from_str(include_str!("around-a-benchmark.toml")).expect("a test reads the table"));

/// The sentence on a program; none where it is not known.
pub(super) fn no_meaning(name: &str) -> Option<Result<Translation, TranslationError>> {
    let program = TABLE.program.iter().find(|program| program.names.iter().any(|other| other == name))?;
    let sentence = format!("`{name}` has no meaning here: {}", program.instead);
    Some(TranslationBuilder::default().finish(&program.r#for, TranslationKind::Nothing(sentence)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_the_table_are_known_and_others_are_not() {
        for name in ["cd", "scancel", "["] {
            assert!(no_meaning(name).is_some_and(|translation| translation.is_ok()), "{name}");
        }
        assert!(no_meaning("vllm").is_none());
    }
}
