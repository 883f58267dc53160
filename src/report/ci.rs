//! A run for other programs: JUnit XML, the form in which most CI systems read tests; Markdown for the summary page
//! of a CI job; and OpenMetrics text (1.0) for Prometheus and what reads its format.

use crate::command_tables::run_word;
use crate::document::escape;
use crate::run_state::{RunState, TaskPhase, TaskState};
use crate::styler::{clean, clean_lines, duration_text};
use crate::summary::{failure_lines, failure_text};
use base::event::{FailureKind, LiveMeasurement};
use base::units::counted;
use std::fmt::Write as _;

/// The document.
pub fn junit_xml(state: &RunState) -> String {
    let cases: Vec<_> = state.tasks.iter().filter(|(_, task)| task.state.is_finished()).collect();
    let count = |phase: TaskPhase| cases.iter().filter(|(_, task)| task.state == phase).count();
    let skipped = count(TaskPhase::Skipped) + count(TaskPhase::Cancelled);
    let seconds = state.finished.map_or(0.0, |end| end.seconds);
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    let _ = writeln!(
        out,
        "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{skipped}\" \
            time=\"{seconds:.3}\" timestamp=\"{}\">",
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
            let line = |(name, text): (&str, String)| match name {
                "workload" | "because" | "cause" => Some(clean(&text)),
                "try" | "log" => Some(format!("{name}: {}", clean_lines(&text))),
                _ => None,
            };
            let text: Vec<String> = failure_lines(task, failure).into_iter().filter_map(line).collect();
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
            let reason = task.why.as_deref().map(clean).unwrap_or_default();
            let _ = write!(out, "<skipped message=\"{}\"/>", escape(&reason));
        }
        _ => {
            let lines = task.headline.iter().chain(task.workload()).chain(&task.warnings).map(|line| clean(line));
            let text = lines.collect::<Vec<_>>().join("\n");
            if !text.is_empty() {
                let _ = write!(out, "<system-out>{}</system-out>", escape(&text));
            }
        }
    }
}

/// A heading, a table of results, and the failures.
pub fn markdown_summary(state: &RunState) -> String {
    let (_, word) = run_word(state, false);
    let took = state.finished.map(|end| format!(" in {}", duration_text(end.seconds))).unwrap_or_default();
    // `regatta bench` runs a file of its own.
    let name = state.manifest.rsplit('/').next().unwrap_or_default().trim_end_matches(".yaml");
    let mut out = format!("### {}: {word}{took}\n\n", cell(name));
    let results: Vec<_> =
        state.tasks.iter().filter_map(|(task, one)| Some((task, one.headline.as_deref()?, one))).collect();
    if !results.is_empty() {
        out.push_str("| task | result |\n|---|---|\n");
        for (task, headline, one) in results {
            let _ = write!(out, "| {} | {}", cell(task.as_str()), cell(headline));
            if let Some(workload) = one.workload() {
                let _ = write!(out, "<br>{}", cell(workload));
            }
            for warning in &one.warnings {
                let _ = write!(out, "<br>warning: {}", cell(warning));
            }
            out.push_str(" |\n");
        }
        out.push('\n');
    }
    for (task, one) in state.in_phase(TaskPhase::Failed) {
        let Some(failure) = &one.failure else { continue };
        let _ = writeln!(out, "- **{}** failed: {}", cell(task.as_str()), cell(failure_text(failure)));
        for (name, text) in failure_lines(one, failure) {
            let _ = match name {
                "workload" | "because" | "cause" => writeln!(out, "  - {}", cell(&text)),
                "try" => writeln!(out, "  - try: {}", cell(&text)),
                _ => Ok(()),
            };
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

/// A text that stays in its cell and is not read as markup.
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

/// The media type of [`open_metrics`].
pub const OPEN_METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Its name, type, help text and value.
type Family = (&'static str, &'static str, &'static str, fn(&LiveMeasurement) -> Option<f64>);

const OF_BENCHMARKS: [Family; 9] = [
    ("regatta_requests_issued", "counter", "Requests that were sent.", |live| Some(live.issued as f64)),
    ("regatta_requests_ended", "counter", "Requests that have ended, successful or not.", |live| {
        Some(live.ended as f64)
    }),
    ("regatta_requests_failed", "counter", "Requests that failed.", |live| Some(live.failed as f64)),
    ("regatta_output_tokens", "counter", "Output tokens that have arrived.", |live| Some(live.tokens as f64)),
    ("regatta_requests_in_flight", "gauge", "Requests without an end.", |live| Some(live.in_flight() as f64)),
    ("regatta_ttft_mean_seconds", "gauge", "Mean time to first token so far, from when a request was due.", |live| {
        live.ttft_ms.map(|ms| ms / 1e3)
    }),
    ("regatta_tpot_mean_seconds", "gauge", "Mean time per output token after the first so far.", |live| {
        live.tpot_ms.map(|ms| ms / 1e3)
    }),
    (
        "regatta_output_tokens_per_second_per_gpu",
        "gauge",
        "Output tokens of the last seconds, per second and GPU of the servers.",
        LiveMeasurement::tokens_per_s_per_gpu,
    ),
    ("regatta_remaining_seconds", "gauge", "Estimated time to the last answer.", |live| live.remaining_s),
];

/// All metrics of a run. The numbers of a benchmark go away when it ends: its result has them.
pub fn open_metrics(run_state: &RunState) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "# TYPE regatta_run info\n# HELP regatta_run The run.");
    let run = run_state.run.as_ref().map_or("", |run| run.as_str());
    let _ = writeln!(out, "regatta_run_info{{run=\"{}\",manifest=\"{}\"}} 1", label(run), label(&run_state.manifest));
    let _ = writeln!(out, "# TYPE regatta_tasks gauge\n# HELP regatta_tasks Tasks of the run by state.");
    for &phase in TaskPhase::ALL {
        let _ = writeln!(out, "regatta_tasks{{state=\"{}\"}} {}", phase.as_str(), run_state.in_phase(phase).count());
    }
    let waiting = run_state.total.saturating_sub(run_state.tasks.len());
    let _ = writeln!(out, "regatta_tasks{{state=\"waiting\"}} {waiting}");
    let measuring: Vec<(&str, LiveMeasurement)> = run_state
        .tasks
        .iter()
        .filter_map(|(task, state)| Some((task.as_str(), state.progress.as_ref()?.live?)))
        .collect();
    for (name, kind, help, value) in OF_BENCHMARKS {
        let _ = writeln!(out, "# TYPE {name} {kind}\n# HELP {name} {help}");
        let end = if kind == "counter" { "_total" } else { "" };
        for (task, live) in &measuring {
            if let Some(value) = value(live) {
                let _ = writeln!(out, "{name}{end}{{task=\"{}\"}} {value}", label(task));
            }
        }
    }
    out.push_str("# EOF\n");
    out
}

/// Safe inside a label's quotes.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_runs;
    use base::event::{Event, Failure, TaskId, Verdict};
    use std::collections::BTreeSet;

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
        let failures = state.in_phase(TaskPhase::Failed).count();
        assert!(xml.contains(&format!("tests=\"6\" failures=\"{failures}\" errors=\"0\" skipped=\"2\"")), "{xml}");
        assert_eq!(xml.matches("<testcase").count(), xml.matches("</testcase>").count());
    }

    #[test]
    fn a_benchmark_that_is_no_measurement_has_its_verdict() {
        let kind = FailureKind::Invalid(Verdict::LimitMissed);
        let failure = Box::new(Failure::new(kind, "LIMIT MISSED  686 tok/s"));
        let mut state = RunState::new();
        let task = TaskId::new("load");
        state.fold(&Event::TaskFailed { task, attempt: 1, failure, will_retry: false, seconds: 1.0 });
        let xml = junit_xml(&state);
        assert!(xml.contains("<failure message=\"LIMIT MISSED: 686 tok/s\">"), "{xml}");
    }

    #[test]
    fn nothing_from_outside_becomes_xml() {
        assert_eq!(escape("<a b=\"c\">&\u{1b}\n"), "&lt;a b=&quot;c&quot;&gt;&amp;·\n");
    }

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

    #[test]
    fn a_run_under_way_has_its_tasks_and_what_is_measured() {
        let mut state = RunState::new();
        let events = test_runs::valid();
        let begun = events.iter().position(|event| matches!(event, Event::Progress { .. })).expect("progress");
        for event in &events[..begun] {
            state.fold(event);
        }
        let live = LiveMeasurement {
            issued: 30,
            ended: 6,
            tokens: 900,
            ttft_ms: Some(150.0),
            tokens_per_s: 300.0,
            gpus: Some(2),
            remaining_s: Some(12.5),
            ..LiveMeasurement::default()
        };
        let task = TaskId::new("load/server");
        state.fold(&Event::Progress { task, text: "answered".to_owned(), done: 6, total: None, live: Some(live) });
        let text = open_metrics(&state);
        for line in [
            "regatta_run_info{run=\"20261120-224301-4711\",manifest=\"quickstart\"} 1",
            "regatta_output_tokens_total{task=\"load/server\"} 900",
            "regatta_requests_in_flight{task=\"load/server\"} 24",
            "regatta_ttft_mean_seconds{task=\"load/server\"} 0.15",
            "regatta_output_tokens_per_second_per_gpu{task=\"load/server\"} 150",
            "regatta_remaining_seconds{task=\"load/server\"} 12.5",
            "regatta_tasks{state=\"cached\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        // Each task is in one state, those included that wait for another attempt and those that never ran.
        for event in [
            Event::TaskCancelled { task: TaskId::new("a"), why: "`b` failed".to_owned() },
            Event::TaskCancelled { task: TaskId::new("c"), why: "`b` failed".to_owned() },
        ] {
            state.fold(&event);
        }
        let cancelled = open_metrics(&state);
        let states: Vec<&str> =
            cancelled.lines().filter_map(|line| line.strip_prefix("regatta_tasks{state=")).collect();
        let tasks: usize = states.iter().filter_map(|line| line.split(' ').nth(1)?.parse::<usize>().ok()).sum();
        assert!(states.contains(&"\"cancelled\"} 2") && states.len() == TaskPhase::ALL.len() + 1, "{states:?}");
        assert_eq!(tasks, state.total.max(state.tasks.len()), "{states:?}");
        assert!(!text.contains("regatta_tpot_mean_seconds{") && text.ends_with("# EOF\n"), "{text}");
        assert_eq!(label("a\"b\\"), "a\\\"b\\\\");
    }

    /// A panel without data would look as if nothing happened.
    #[test]
    fn the_dashboard_asks_for_exported_metrics_and_for_all_of_them() {
        let text = include_str!("../../tests/release/grafana.json");
        let dashboard: serde_json::Value = serde_json::from_str(text).unwrap();
        let queries: Vec<&str> = dashboard["panels"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|panel| panel["targets"].as_array().unwrap())
            .map(|target| target["expr"].as_str().unwrap())
            .collect();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let used: BTreeSet<&str> = queries
            .iter()
            .flat_map(|query| query.split(|c| !is_name(c)).filter(|word| word.starts_with("regatta_")))
            .collect();
        let families = OF_BENCHMARKS.iter().map(|(name, kind, ..)| match *kind {
            "counter" => format!("{name}_total"),
            _ => (*name).to_owned(),
        });
        let exported: BTreeSet<String> =
            families.chain(["regatta_run_info", "regatta_tasks"].map(str::to_owned)).collect();
        assert_eq!(used, exported.iter().map(String::as_str).collect());
        for variable in dashboard["templating"]["list"].as_array().unwrap() {
            let query = variable["query"]["query"].as_str().unwrap_or("label_values(regatta_tasks, state)");
            let metric = query.strip_prefix("label_values(").and_then(|rest| rest.split(',').next()).unwrap();
            assert!(exported.contains(metric), "{query}");
        }
    }
}
