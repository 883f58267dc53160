//! A run in Markdown, for the summary page of a CI job.

use std::fmt::Write as _;

use super::run_state::{RunState, TaskPhase};
use super::tables::run_word;
use super::terminal::styler::{clean, duration_text};
use super::terminal::summary::{failure_text, reasons_of};
use base::units::counted;

/// A heading, a table of results, and the failures.
pub fn markdown_summary(state: &RunState) -> String {
    let (_, word) = run_word(state, false);
    let word = word.split(';').next().unwrap_or(word);
    let took = state.finished.map(|end| format!(" in {}", duration_text(end.seconds))).unwrap_or_default();
    let mut out = format!("### {}: {word}{took}\n\n", cell(&state.manifest));
    let results: Vec<_> =
        state.tasks.iter().filter_map(|(task, one)| Some((task, one.headline.as_deref()?, &one.warnings))).collect();
    if !results.is_empty() {
        out.push_str("| task | result |\n|---|---|\n");
        for (task, headline, warnings) in results {
            let _ = write!(out, "| {} | {}", cell(task.as_str()), cell(headline));
            for warning in warnings {
                let _ = write!(out, "<br>warning: {}", cell(warning));
            }
            out.push_str(" |\n");
        }
        out.push('\n');
    }
    for (task, one) in state.of(TaskPhase::Failed) {
        let Some(failure) = &one.failure else { continue };
        let _ = writeln!(out, "- **{}** failed: {}", cell(task.as_str()), cell(failure_text(failure)));
        let reasons =
            reasons_of(failure).iter().chain(failure.cause.as_ref().filter(|_| reasons_of(failure).is_empty()));
        for reason in reasons {
            let _ = writeln!(out, "  - {}", cell(reason));
        }
        if let Some(hint) = &failure.hint {
            let _ = writeln!(out, "  - try: {}", cell(hint));
        }
    }
    let tally = state.tally;
    let _ = writeln!(
        out,
        "\n{}: {} ran, {} cached, {} failed",
        counted(state.total.max(state.done()), "task"),
        tally.ran,
        tally.cached,
        tally.failed
    );
    out
}

/// A text that stays in its cell and is no markup.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for c in clean(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '|' | '*' | '`' | '[' | ']' | '\\' | '_' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_runs;

    #[test]
    fn a_summary_has_results_and_failures_and_no_markup_from_outside() {
        let mut state = RunState::new();
        for event in &test_runs::failing() {
            state.fold(event);
        }
        let text = markdown_summary(&state);
        assert!(text.starts_with("### quickstart: failed"), "{text}");
        assert!(text.contains("- **triton/server** failed: killed by SIGKILL\n  - out of GPU memory"), "{text}");
        assert_eq!(cell("<b>|*a_b*\n"), "&lt;b>\\|\\*a\\_b\\*·");
    }
}
