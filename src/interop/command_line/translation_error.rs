//! Why a pasted text has no translation.

use std::fmt;

/// Everything that keeps a text from being translated, at least one; its `Display` has a line for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranslationError {
    pub problems: Vec<TranslationProblem>,
}

impl TranslationError {
    pub(crate) fn new(problem: impl Into<TranslationProblem>) -> Self {
        Self { problems: vec![problem.into()] }
    }

    /// The same problems of a text that stands at `place` of another one.
    pub(crate) fn within(self, place: &str) -> Self {
        Self { problems: self.problems.into_iter().map(|problem| problem.within(place)).collect() }
    }

    /// The programs that are not known here.
    pub(crate) fn unknown_programs(&self) -> impl Iterator<Item = &str> {
        self.problems.iter().filter_map(|problem| match &problem.kind {
            ProblemKind::UnknownProgram { name, .. } => Some(name.as_str()),
            _ => None,
        })
    }

    /// Whether it is only that a program is not known here.
    pub(crate) fn has_unknown_program(&self) -> bool {
        self.unknown_programs().next().is_some()
    }
}

impl fmt::Display for TranslationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            write!(f, "{}{problem}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for TranslationError {}

/// One problem of a pasted text, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranslationProblem {
    /// `run.sh:12`, or the beginning of a command; `None`: the text is one command.
    pub place: Option<String>,
    pub kind: ProblemKind,
}

impl TranslationProblem {
    fn within(mut self, place: &str) -> Self {
        self.place = Some(match self.place {
            Some(inner) => format!("{place}: {inner}"),
            None => place.to_owned(),
        });
        self
    }
}

impl fmt::Display for TranslationProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.kind),
            None => write!(f, "{}", self.kind),
        }
    }
}

impl<K: Into<ProblemKind>> From<K> for TranslationProblem {
    fn from(kind: K) -> Self {
        Self { place: None, kind: kind.into() }
    }
}

/// What cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProblemKind {
    #[error("a quote in the line is not closed")]
    OpenQuote,
    #[error("there is no command in the line")]
    NoCommand,
    #[error("there is no script behind python")]
    NoScript,
    #[error("there is no command in it that is known here{}", listed(programs))]
    NoKnownCommand { programs: Vec<String> },
    #[error("there are {commands} commands in it; at most {most} are read")]
    TooManyCommands { commands: usize, most: usize },
    #[error("its loops make more than {most} commands")]
    TooManyInLoops { most: usize },
    #[error("commands stand in each other more than {deepest} deep")]
    TooDeep { deepest: usize },
    /// `hint` is the nearest program that is known, or nothing.
    #[error("command lines of `{name}` cannot be imported; {hint}")]
    UnknownProgram { name: String, hint: String },
    /// Of one program: what is wrong with its arguments, as a sentence.
    #[error("{0}")]
    Arguments(String),
}

/// The first of some programs.
fn listed(programs: &[String]) -> String {
    const MOST: usize = 5;
    let names: Vec<String> = programs.iter().take(MOST).map(|name| format!("`{name}`")).collect();
    let rest = programs.len().saturating_sub(MOST);
    match (names.as_slice(), rest) {
        ([], _) => String::new(),
        (names, 0) => format!(": it calls {}", names.join(", ")),
        (names, rest) => format!(": it calls {} and {rest} more", names.join(", ")),
    }
}

impl From<String> for ProblemKind {
    fn from(sentence: String) -> Self {
        Self::Arguments(sentence)
    }
}

impl From<&str> for ProblemKind {
    fn from(sentence: &str) -> Self {
        Self::Arguments(sentence.to_owned())
    }
}
