//! One error with its places and hints, and a list of them.

use super::Span;

/// Checks of a text from elsewhere stop at this many errors: more than anybody reads.
pub const MOST_ERRORS: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Error,
    Warning,
}

/// A place and the label to print there (may be empty).
#[derive(Clone, Debug)]
pub struct Label {
    pub span: Span,
    pub text: String,
}

/// A value that an error is about because it is absent: for callers that can do without it or ask for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingValue {
    /// The parameter of this name has no value.
    Parameter(String),
    /// No param or var has this name.
    Name(String),
    /// A text has `none` in it.
    InText,
}

/// One error. Its message is a lower-case fragment; `hints` has what to try.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    pub severity: Severity,
    pub message: String,
    /// The place; absent for errors that are in no file (the command line).
    pub primary: Option<Label>,
    pub further: Vec<Label>,
    pub hints: Vec<String>,
    pub missing: Option<MissingValue>,
}

impl Diagnostic {
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            message: message.into(),
            primary: None,
            further: Vec::new(),
            hints: Vec::new(),
            missing: None,
        }
    }

    pub fn warning(message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(message) }
    }

    /// The place, with the label to print there.
    #[must_use]
    pub fn at(mut self, span: Span, text: impl Into<String>) -> Self {
        self.primary = Some(Label { span, text: text.into() });
        self
    }

    /// A further place that explains the first.
    #[must_use]
    pub fn related(mut self, span: Span, text: impl Into<String>) -> Self {
        self.further.push(Label { span, text: text.into() });
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    #[must_use]
    pub fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hints.extend(hint);
        self
    }

    #[must_use]
    pub fn missing(mut self, value: MissingValue) -> Self {
        self.missing = Some(value);
        self
    }

    fn place(&self) -> Option<(&str, usize)> {
        self.primary.as_ref().map(|label| (label.span.source().name(), label.span.range().start))
    }
}

/// All that was found, in the order of files and places.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.list.push(diagnostic);
    }

    /// Like `push`, for a diagnostic that is completed in its place.
    pub fn push_mut(&mut self, diagnostic: Diagnostic) -> &mut Diagnostic {
        let index = self.list.len();
        self.list.push(diagnostic);
        &mut self.list[index]
    }

    pub fn append(&mut self, other: Self) {
        self.list.extend(other.list);
    }

    pub fn into_list(self) -> Vec<Diagnostic> {
        self.list
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether there are [`MOST_ERRORS`], at which a check stops.
    pub fn is_full(&self) -> bool {
        self.list.len() >= MOST_ERRORS
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn errors(&self) -> usize {
        self.list.iter().filter(|one| one.severity == Severity::Error).count()
    }

    pub fn has_errors(&self) -> bool {
        self.errors() > 0
    }

    /// The parameters that must be given, if nothing else is wrong.
    pub fn missing_parameters(&self) -> Option<Vec<String>> {
        let names = self.sorted().into_iter().map(|error| match &error.missing {
            Some(MissingValue::Parameter(name)) => Some(name.clone()),
            _ => None,
        });
        names.collect()
    }

    /// The same, all of them warnings.
    #[must_use]
    pub fn as_warnings(mut self) -> Self {
        for one in &mut self.list {
            one.severity = Severity::Warning;
        }
        self
    }

    /// Sorted: those without a place first, then by file and place.
    pub fn sorted(&self) -> Vec<&Diagnostic> {
        let mut list: Vec<&Diagnostic> = self.list.iter().collect();
        list.sort_by(|a, b| a.place().cmp(&b.place()));
        list
    }

    /// Without repetitions: one error in a loop is one error.
    #[must_use]
    pub fn unique(mut self) -> Self {
        let mut seen = std::collections::HashSet::new();
        self.list.retain(|one| {
            let place = one.primary.as_ref().map(|label| (label.span.source().name().to_owned(), label.span.range()));
            seen.insert((one.message.clone(), place))
        });
        self
    }

    /// `value` unless there are errors. Warnings alone are dropped: read them first.
    pub fn or<T>(self, value: T) -> Result<T, Self> {
        if self.has_errors() { Err(self) } else { Ok(value) }
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(one: Diagnostic) -> Self {
        Self { list: vec![one] }
    }
}

impl Extend<Diagnostic> for Diagnostics {
    fn extend<T: IntoIterator<Item = Diagnostic>>(&mut self, iter: T) {
        self.list.extend(iter);
    }
}

impl std::error::Error for Diagnostics {}

impl std::fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.render(false))
    }
}
