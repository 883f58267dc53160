//! The small tables: `list`, `show`, `status`.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::json;

use super::run_state::RunState;
use crate::terminal::styler::{Styler, TextRole, clean, cut, duration_text, ragged, table, to_the_second};
use base::units::counted;

/// A manifest that can be run by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ManifestRow {
    pub name: String,
    /// As it is to be shown.
    pub path: String,
    pub about: Option<String>,
}

/// One value of a manifest, and where it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ValueRow {
    /// `stages.engine.gpus`.
    pub path: String,
    pub value: String,
    /// `file:line`, `command line`, `default`, …
    pub from: String,
}

pub fn manifest_list(manifests: &[ManifestRow], paint: Styler) -> String {
    if manifests.is_empty() {
        return "no manifests here; `regatta init DIR` starts a project with one\n".to_owned();
    }
    let rows: Vec<_> = manifests
        .iter()
        .map(|ManifestRow { name, path, about }| {
            vec![
                (TextRole::Name, clean(name)),
                (TextRole::Plain, about.as_deref().map(clean).unwrap_or_default()),
                (TextRole::Quiet, clean(path)),
            ]
        })
        .collect();
    table(paint, "", &rows)
}

pub fn manifest_list_json(manifests: &[ManifestRow]) -> String {
    format!("{:#}\n", json!({ "manifests": manifests }))
}

/// A longer value is cut in the table.
const WIDEST: usize = 100;

/// Values under each other with where they come from, a line each. What is cut ends with `…`; JSON has all of it.
pub fn value_table(values: &[ValueRow], paint: Styler) -> String {
    let rows: Vec<_> = values
        .iter()
        .map(|ValueRow { path, value, from }| {
            vec![(TextRole::Name, clean(path)), (TextRole::Plain, cut(value, WIDEST)), (TextRole::Quiet, clean(from))]
        })
        .collect();
    ragged(paint, "", &rows)
}

/// The status of a run; `alive`: its process still exists.
pub fn run_status(run_state: &RunState, alive: bool, styler: Styler) -> String {
    let run = run_state.run.as_ref().map_or("?", |run| run.as_str());
    let (tone, state) = run_word(run_state, alive);
    let name = styler.tone(TextRole::Strong, clean(&run_state.manifest));
    let started = to_the_second(&run_state.started_at);
    let mut out = styler.fit(format!("{name}  run {run}, started {started}: {}\n", styler.tone(tone, state)));
    let rows: Vec<_> = run_state
        .tasks
        .iter()
        .filter(|(_, entry)| alive || entry.state.is_finished())
        .flat_map(|(task, entry)| {
            let failure = entry.failure.as_deref().map(|failure| match &failure.cause {
                Some(cause) => format!("{}: {cause}", failure.what),
                None => failure.what.clone(),
            });
            let progress = entry.progress.as_ref().map(|progress| match progress.total {
                Some(total) => format!("{} of {total} {}", progress.done, progress.text),
                None => progress.text.clone(),
            });
            let summary =
                entry.headline.as_deref().or(entry.why.as_deref()).or(failure.as_deref()).or(progress.as_deref());
            let row = vec![
                (TextRole::Plain, entry.label().to_owned()),
                (TextRole::Name, task.to_string()),
                (TextRole::Plain, entry.seconds.map(duration_text).unwrap_or_default()),
                (TextRole::Quiet, clean(summary.unwrap_or_default())),
            ];
            let below = |text: String| {
                let empty = (TextRole::Plain, String::new());
                vec![empty.clone(), empty.clone(), empty, (TextRole::Warning, text)]
            };
            let warnings = entry.warnings.iter().map(move |warning| below(format!("warning: {}", clean(warning))));
            std::iter::once(row).chain(warnings).collect::<Vec<_>>()
        })
        .collect();
    out.push_str(&table(styler, "  ", &rows));
    let finished = run_state.finished_tasks();
    let left = run_state.total.saturating_sub(finished);
    // What is left out of a run that ended well are servers that no task needed.
    let is_done = run_state.finished.is_some_and(|end| end.exit == 0);
    let left = match left {
        0 => String::new(),
        left if is_done => format!(", {left} not needed"),
        left => format!(", {left} not done"),
    };
    let _ = writeln!(out, "  {finished} of {} finished{left}", counted(run_state.total, "task"));
    out
}

pub fn run_status_json(run_state: &RunState, alive: bool) -> String {
    format!("{:#}\n", json!({ "state": run_word(run_state, alive).1, "run_state": run_state }))
}

/// How a run stands; `alive`: its process still exists.
pub(super) fn run_word(run_state: &RunState, alive: bool) -> (TextRole, &'static str) {
    match (run_state.finished, alive) {
        (Some(end), _) if end.exit == 0 => (TextRole::Good, "done"),
        (Some(end), _) if end.exit == 130 => (TextRole::Warning, "interrupted"),
        (Some(_), _) if run_state.is_only_invalid() => (TextRole::Bad, "invalid"),
        (Some(_), _) => (TextRole::Bad, "failed"),
        (None, true) => (TextRole::Good, "running"),
        (None, false) => (TextRole::Warning, "interrupted; `regatta run` continues from there"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_runs;
    use base::event::{Event, Failure, FailureKind, TaskId, Verdict};

    #[test]
    fn a_run_that_was_killed_says_how_to_go_on() {
        let events = test_runs::failing();
        let mut run_state = RunState::new();
        events.iter().take(events.len() - 1).for_each(|event| run_state.fold(event));
        insta::assert_snapshot!(run_status(&run_state, false, Styler::OFF), @r"
        quickstart  run 20261120-224301-4711, started 2026-11-20T22:43:01Z: interrupted; `regatta run` continues from there
          cached     engine
          skipped    smoke                     `when` is false
          ran        repository/server  12 ms
          failed     triton/server      12 s   killed by SIGKILL: out of GPU memory
          failed     load/server        10 s   `triton/server` died
          cancelled  package                   `load/server` failed
          5 of 6 tasks finished, 1 not done
        ");
    }

    #[test]
    fn a_run_that_ended_has_a_word_for_what_it_is_and_for_what_it_left_out() {
        let ended = |exit| {
            let mut run_state = RunState::new();
            run_state.total = 2;
            run_state.fold(&Event::AllCached { tasks: 1 });
            if exit != 0 {
                let failure = Box::new(Failure::new(FailureKind::Invalid(Verdict::InvalidLoad), "INVALID(load)"));
                let task = TaskId::new("load");
                run_state.fold(&Event::TaskFailed { task, attempt: 1, failure, will_retry: false, seconds: 1.0 });
            }
            let tally = run_state.tally;
            run_state.fold(&Event::RunFinished { tally, exit, seconds: 1.0 });
            run_state
        };
        let status = run_status(&ended(0), false, Styler::OFF);
        assert!(status.contains(": done\n") && status.ends_with("1 of 2 tasks finished, 1 not needed\n"), "{status}");
        assert_eq!(run_word(&ended(4), false).1, "invalid");
    }

    #[test]
    fn every_value_is_shown_with_its_place() {
        let shown = |path: &str, value: &str, from: &str| ValueRow {
            path: path.to_owned(),
            value: value.to_owned(),
            from: from.to_owned(),
        };
        let values = [
            shown("stages.engine.gpus", "2", "systems/h200-x8.yaml:7"),
            shown("stages.engine.shell", "set -e\nmake", "manifest.yaml:14"),
        ];
        insta::assert_snapshot!(value_table(&values, Styler::OFF), @r"
        stages.engine.gpus   2         systems/h200-x8.yaml:7
        stages.engine.shell  set -e …  manifest.yaml:14
        ");
    }

    #[test]
    fn manifests_are_listed_with_what_they_are_about() {
        let listed = ManifestRow {
            name: "quickstart".to_owned(),
            path: "manifests/quickstart.yaml".to_owned(),
            about: Some("benchmark two servers".to_owned()),
        };
        assert_eq!(
            manifest_list(std::slice::from_ref(&listed), Styler::OFF),
            "quickstart  benchmark two servers  manifests/quickstart.yaml\n"
        );
        assert!(manifest_list_json(&[listed]).contains("\"manifests\""));
        assert!(manifest_list(&[], Styler::OFF).contains("regatta init"));
    }
}
