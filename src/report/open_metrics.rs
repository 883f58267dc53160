//! A run under way as OpenMetrics text, for Prometheus and what reads its format (OpenMetrics 1.0).

use std::fmt::Write as _;

use super::run_state::{RunState, TaskPhase};
use base::event::LiveMeasurement;

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
    for phase in TaskPhase::ALL {
        let _ = writeln!(out, "regatta_tasks{{state=\"{}\"}} {}", phase.as_str(), run_state.of(phase).count());
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
    use base::event::{Event, TaskId};

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
}
