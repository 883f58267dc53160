//! The runs of a project as a list, newest first.

use serde::Serialize;
use serde_json::json;

use super::run_state::RunState;
use super::tables::run_word;
use crate::terminal::styler::{Styler, TextRole, clean, duration_text, ragged, to_the_second};
use base::event::RunTag;

/// One run of the list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRow {
    pub run: String,
    pub manifest: String,
    /// Names that a user gave it.
    pub tags: Vec<RunTag>,
    pub started_at: String,
    /// `done`, `failed`, `invalid` (benchmarks without a valid verdict, and nothing else failed), `interrupted`, `running`; `shared` of another machine's, of which the results are known.
    pub state: &'static str,
    #[serde(skip)]
    role: TextRole,
    /// Absent while it runs, and where it was killed.
    pub seconds: Option<f64>,
    pub ran: usize,
    pub cached: usize,
    pub failed: usize,
    /// Tasks that were running when the run was interrupted.
    pub interrupted: usize,
    /// Each benchmark that has a result or a verdict: its task, and the result in short.
    pub results: Vec<(String, String)>,
}

impl RunRow {
    /// `is_alive`: its process still exists.
    pub fn of(state: &RunState, tags: Vec<RunTag>, is_alive: bool) -> Self {
        let (role, word) = run_word(state, is_alive);
        let result = |(task, one): (&base::event::TaskId, &super::TaskState)| {
            let text = one.headline.clone().or_else(|| {
                let failure = one.failure.as_deref()?;
                matches!(failure.kind, base::event::FailureKind::Invalid(_)).then(|| failure.what.clone())
            })?;
            let short = text.split_once(" (").map_or(text.as_str(), |(numbers, _)| numbers);
            Some((task.to_string(), short.trim().to_owned()))
        };
        Self {
            run: state.run.as_ref().map(ToString::to_string).unwrap_or_default(),
            manifest: state.manifest.clone(),
            tags,
            started_at: to_the_second(&state.started_at),
            state: word.split(';').next().unwrap_or(word),
            role,
            seconds: state.finished.map(|end| end.seconds),
            ran: state.tally.ran,
            cached: state.tally.cached,
            failed: state.tally.failed - state.interrupted(),
            interrupted: state.interrupted(),
            results: state.tasks.iter().filter_map(result).collect(),
        }
    }
}

impl RunRow {
    /// Of another machine, of which a shared store has the results alone; `manifest` names the machine, too.
    pub fn shared(run: &str, manifest: String, started: &str, result: (String, String)) -> Self {
        Self {
            run: run.to_owned(),
            manifest,
            tags: Vec::new(),
            started_at: to_the_second(started),
            state: "shared",
            role: TextRole::Quiet,
            seconds: None,
            ran: 0,
            cached: 0,
            failed: 0,
            interrupted: 0,
            results: vec![result],
        }
    }
}

/// A line for each run, and below it a line for each of its results.
pub fn run_list(rows: &[RunRow], styler: Styler) -> String {
    if rows.is_empty() {
        return "no run\n".to_owned();
    }
    let mut lines = Vec::new();
    for row in rows {
        let counts =
            [(row.ran, "ran"), (row.cached, "cached"), (row.failed, "failed"), (row.interrupted, "interrupted")];
        let counts: Vec<String> =
            counts.into_iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
        lines.push(vec![
            (TextRole::Name, clean(&row.run)),
            (row.role, row.state.to_owned()),
            (TextRole::Plain, row.seconds.map(duration_text).unwrap_or_default()),
            (TextRole::Strong, clean(&row.manifest)),
            (TextRole::Quiet, counts.join(", ")),
            (TextRole::Name, row.tags.iter().map(RunTag::as_str).collect::<Vec<_>>().join(" ")),
        ]);
        for (task, text) in &row.results {
            let empty = (TextRole::Plain, String::new());
            lines.push(vec![
                (TextRole::Plain, format!("  {}", clean(task))),
                empty.clone(),
                empty,
                (TextRole::Plain, clean(text)),
            ]);
        }
    }
    ragged(styler, "", &lines)
}

/// All rows as JSON.
pub fn run_list_json(rows: &[RunRow]) -> String {
    format!("{:#}\n", json!({ "runs": rows }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_runs;

    #[test]
    fn runs_are_listed_with_their_results() {
        let row = |events: &[base::event::Event]| {
            let mut state = RunState::new();
            for event in events {
                state.fold(event);
            }
            RunRow::of(&state, Vec::new(), false)
        };
        let failing = test_runs::failing();
        let rows = [row(&test_runs::valid()), row(&failing), row(&failing[..failing.len() - 1])];
        insta::assert_snapshot!(run_list(&rows, Styler::OFF), @r"
        20261120-224301-4711  done         1m 07s  quickstart                           4 ran, 1 cached
          load/server                              VALID  1,204 tok/s  TTFT p99 212 ms
        20261120-224301-4711  failed       14 s    quickstart                           1 ran, 1 cached, 2 failed
        20261120-224301-4711  interrupted          quickstart                           1 ran, 1 cached, 2 failed
        ");
        assert!(run_list_json(&rows).contains("\"state\": \"interrupted\""));
        assert_eq!(run_list(&[], Styler::OFF), "no run\n");
    }
}
