//! What a check of manifests or of a model repository found, for other programs: JSON, and annotations of GitHub.

use serde::Serialize;
use serde_json::{Value, json};

use super::{Diagnostic, Diagnostics, Severity, Span};

/// A manifest that was checked.
#[derive(Clone, Debug)]
pub struct CheckedManifest {
    /// As it was named on the command line.
    pub name: String,
    pub is_good: bool,
    /// How many tasks its plan has; none: it has errors, or a parameter has no value.
    pub tasks: Option<usize>,
}

/// One error or warning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckProblem {
    /// `None` for a model repository, whose JSON has no such key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// `error` or `warning`.
    pub severity: &'static str,
    pub message: String,
    pub hints: Vec<String>,
    #[serde(flatten)]
    pub place: Option<ProblemPlace>,
}

/// Lines and columns count from 1, columns in characters; the end is the column after the last character.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProblemPlace {
    pub file: String,
    pub line: usize,
    pub column: usize,
    pub end_line: usize,
    pub end_column: usize,
    /// The label to print at the place.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
}

impl CheckProblem {
    /// All of one manifest, or of a model repository, in their order.
    pub fn list(manifest: Option<&str>, found: &Diagnostics) -> Vec<Self> {
        let problem = |one: &Diagnostic| Self {
            manifest: manifest.map(str::to_owned),
            severity: match one.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            },
            message: one.message.clone(),
            hints: one.hints.clone(),
            place: one.primary.as_ref().map(|label| ProblemPlace::new(&label.span, &label.text)),
        };
        found.sorted().into_iter().map(problem).collect()
    }

    /// The message with its label and hints, a line for each.
    fn text(&self) -> String {
        let label = self.place.as_ref().map(|place| place.label.as_str()).filter(|label| !label.is_empty());
        let first = label.map_or_else(|| self.message.clone(), |label| format!("{}: {label}", self.message));
        let hints = self.hints.iter().map(|hint| format!("hint: {hint}"));
        std::iter::once(first).chain(hints).collect::<Vec<_>>().join("\n")
    }
}

impl ProblemPlace {
    fn new(span: &Span, label: &str) -> Self {
        let source = span.source();
        let position = |byte: usize| {
            let line = source.line_of(byte);
            let begin = source.line_start(line);
            (line, source.text().get(begin..byte).map_or(1, |text| text.chars().count() + 1))
        };
        let range = span.range();
        let ((line, column), (end_line, end_column)) = (position(range.start), position(range.end));
        Self { file: source.name().to_owned(), line, column, end_line, end_column, label: label.to_owned() }
    }
}

/// Every manifest and every problem.
pub fn check_json(manifests: &[CheckedManifest], problems: &[CheckProblem]) -> String {
    let manifests: Vec<Value> =
        manifests.iter().map(|one| json!({"manifest": one.name, "good": one.is_good, "tasks": one.tasks})).collect();
    format!("{:#}\n", json!({"manifests": manifests, "problems": problems}))
}

/// Workflow commands, which GitHub shows at the lines of a change.
pub fn check_github(problems: &[CheckProblem]) -> String {
    let escaped = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| escaped(text).replace(':', "%3A").replace(',', "%2C");
    let mut out = Vec::new();
    for one in problems {
        let place = one.place.as_ref().map_or_else(String::new, |place| {
            let ProblemPlace { file, line, column, end_line, end_column, .. } = place;
            // Columns of an annotation are of one line.
            let columns =
                if line == end_line { format!(",col={column},endColumn={end_column}") } else { String::new() };
            format!("file={},line={line},endLine={end_line}{columns},", property(file))
        });
        let checked = one.manifest.as_deref().unwrap_or("repository");
        let title = property(&format!("regatta check {checked}"));
        out.push(format!("::{} {place}title={title}::{}\n", one.severity, escaped(&one.text())));
    }
    out.concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::SourceText;

    fn found() -> Vec<CheckProblem> {
        let source = SourceText::new("manifests/a b.yaml", "regatta: 1\nstäges: 100 %\n");
        let mut diagnostics = Diagnostics::new();
        diagnostics.push(
            Diagnostic::error("unknown key `stäges`").at(source.span(11..18), "here").hint("did you mean `stages`?"),
        );
        diagnostics.push(Diagnostic::error("a,b: 100 %\nof it"));
        CheckProblem::list(Some("a"), &diagnostics)
    }

    #[test]
    fn places_count_characters_from_one() {
        let problems = found();
        let place = problems[1].place.as_ref().unwrap();
        assert_eq!((place.line, place.column, place.end_line, place.end_column), (2, 1, 2, 7));
        insta::assert_snapshot!(check_github(&problems), @"
        ::error title=regatta check a::a,b: 100 %25%0Aof it
        ::error file=manifests/a b.yaml,line=2,endLine=2,col=1,endColumn=7,title=regatta check a::unknown key \
            `stäges`: here%0Ahint: did you mean `stages`?
        ");
    }

    #[test]
    fn json_has_every_problem_with_its_place() {
        let json: Value = serde_json::from_str(&check_json(&[], &found())).unwrap();
        assert_eq!((&json["problems"][1]["line"], &json["problems"][1]["end_column"]), (&json!(2), &json!(7)));
    }
}
