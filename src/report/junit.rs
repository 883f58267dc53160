//! A run as JUnit XML, the form in which most CI systems read tests: a case for each task, a failure for each that failed.

use std::fmt::Write as _;

use super::escape::escape;
use super::run_state::{RunState, TaskPhase, TaskState};
use super::terminal::styler::{clean, clean_lines};
use super::terminal::summary::{failure_text, reasons_of};
use base::event::FailureKind;

/// The document.
pub fn junit_xml(state: &RunState) -> String {
    let cases: Vec<_> = state.tasks.iter().filter(|(_, task)| task.state.is_finished()).collect();
    let count = |phase: TaskPhase| cases.iter().filter(|(_, task)| task.state == phase).count();
    let skipped = count(TaskPhase::Skipped) + count(TaskPhase::Cancelled);
    let seconds = state.finished.map_or(0.0, |end| end.seconds);
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    let _ = writeln!(
        out,
        "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{skipped}\" time=\"{seconds:.3}\" timestamp=\"{}\">",
        escape(&state.manifest),
        cases.len(),
        count(TaskPhase::Failed),
        escape(&state.started_at),
    );
    for (task, one) in cases {
        let _ = write!(
            out,
            "<testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\">",
            escape(&state.manifest),
            escape(task.as_str()),
            one.seconds.unwrap_or_default()
        );
        body(one, &mut out);
        out.push_str("</testcase>\n");
    }
    out.push_str("</testsuite>\n</testsuites>\n");
    out
}

fn body(task: &TaskState, out: &mut String) {
    match (&task.failure, task.state) {
        (Some(failure), TaskPhase::Failed) => {
            let lines =
                reasons_of(failure).iter().chain(failure.cause.as_ref().filter(|_| reasons_of(failure).is_empty()));
            let mut text: Vec<String> = lines.map(|line| clean(line)).collect();
            text.extend(failure.hint.as_deref().map(|hint| format!("try: {}", clean_lines(hint))));
            text.extend(failure.log.as_ref().map(|log| format!("log: {}", log.display())));
            let message = match failure.kind {
                FailureKind::Invalid(verdict) => format!("{}: {}", verdict.as_str(), failure_text(failure)),
                _ => failure_text(failure).to_owned(),
            };
            let _ = write!(
                out,
                "<failure message=\"{}\">{}</failure>",
                escape(&clean(message.trim_end_matches(": "))),
                escape(&text.join("\n"))
            );
        }
        (_, TaskPhase::Skipped | TaskPhase::Cancelled) => {
            let why = task.why.as_deref().map(clean).unwrap_or_default();
            let _ = write!(out, "<skipped message=\"{}\"/>", escape(&why));
        }
        _ => {
            let lines = task.headline.iter().chain(&task.warnings).map(|line| clean(line));
            let text = lines.collect::<Vec<_>>().join("\n");
            if !text.is_empty() {
                let _ = write!(out, "<system-out>{}</system-out>", escape(&text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_runs;
    use base::event::{Event, Failure, TaskId, Verdict};

    #[test]
    fn a_failed_task_is_a_failed_case_with_its_cause() {
        let mut state = RunState::new();
        for event in &test_runs::failing() {
            state.fold(event);
        }
        let xml = junit_xml(&state);
        assert!(xml.contains("<testcase classname=\"quickstart\" name=\"triton/server\" time="), "{xml}");
        assert!(xml.contains("<failure message=\"killed by SIGKILL\">out of GPU memory"), "{xml}");
        assert!(xml.contains("<skipped message=\"`when` is false\"/>"), "{xml}");
        let failures = state.of(TaskPhase::Failed).count();
        assert!(xml.contains(&format!("tests=\"6\" failures=\"{failures}\" errors=\"0\" skipped=\"2\"")), "{xml}");
        assert_eq!(xml.matches("<testcase").count(), xml.matches("</testcase>").count());
    }

    #[test]
    fn a_benchmark_that_is_no_measurement_has_its_verdict() {
        let kind = FailureKind::Invalid(Verdict::InvalidLoad);
        let failure = Box::new(Failure::new(kind, "INVALID(load)  686 tok/s"));
        let mut state = RunState::new();
        let task = TaskId::new("load");
        state.fold(&Event::TaskFailed { task, attempt: 1, failure, will_retry: false, seconds: 1.0 });
        let xml = junit_xml(&state);
        assert!(xml.contains("<failure message=\"INVALID(load): 686 tok/s\">"), "{xml}");
    }

    #[test]
    fn nothing_from_outside_becomes_xml() {
        assert_eq!(escape("<a b=\"c\">&\u{1b}\n"), "&lt;a b=&quot;c&quot;&gt;&amp;·\n");
    }
}
