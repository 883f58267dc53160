//! The small tables: `list`, `show`, `status`, `runs`, the end of `bulk`, and metrics of other tools.

use crate::result_row::ResultRow;
use crate::run_state::{RunState, TaskState};
use crate::styler::{Styler, TextRole, clean, cut, duration_text, ragged, table, to_the_second};
use base::event::{RunTag, Verdict};
use base::units::counted;
use interop::{CompatRow, MetricStats, Tool};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;

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
            let progress = entry.progress.as_ref().map(|progress| progress.line());
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
        (Some(_), _) => (TextRole::Bad, run_state.verdict().map_or("failed", Verdict::as_str)),
        (None, true) => (TextRole::Good, "running"),
        (None, false) => (TextRole::Warning, "interrupted; `regatta run` continues from there"),
    }
}

/// One run of the list.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunRow {
    pub run: String,
    pub manifest: String,
    /// Names that a user gave it.
    pub tags: Vec<RunTag>,
    pub started_at: String,
    /// `done`, `failed`, `invalid` (benchmarks without a valid verdict, and nothing else failed), `interrupted`,
    /// `running`; `shared` of another machine's, of which the results are known.
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
    /// Each benchmark that has a result or a verdict.
    pub results: Vec<ResultRow>,
}

impl RunRow {
    /// `is_alive`: its process still exists.
    pub fn new(state: &RunState, tags: Vec<RunTag>, is_alive: bool) -> Self {
        let (role, word) = run_word(state, is_alive);
        let result = |(task, one): (&base::event::TaskId, &TaskState)| {
            let text = one.headline.clone().or_else(|| {
                let failure = one.failure.as_deref()?;
                matches!(failure.kind, base::event::FailureKind::Invalid(_)).then(|| failure.what.clone())
            })?;
            let short = text.split_once(" (").map_or(text.as_str(), |(numbers, _)| numbers);
            let folder = one.out.clone().or_else(|| one.failure.as_deref()?.kept.clone());
            Some(ResultRow {
                task: task.to_string(),
                headline: short.trim().to_owned(),
                workload: one.workload().cloned(),
                folder,
                ..ResultRow::default()
            })
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
    pub fn shared(run: &str, manifest: String, started: &str, result: ResultRow) -> Self {
        Self {
            run: run.to_owned(),
            manifest,
            started_at: to_the_second(started),
            state: "shared",
            role: TextRole::Quiet,
            results: vec![result],
            ..Self::default()
        }
    }
}

/// A line for each run, and below it a line for each of its results and one for its server and load.
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
        for ResultRow { task, headline: text, workload, .. } in &row.results {
            let mut line = |role, first: String, text: &str| {
                let empty = (TextRole::Plain, String::new());
                lines.push(vec![(TextRole::Plain, first), empty.clone(), empty, (role, clean(text))]);
            };
            line(TextRole::Plain, format!("  {}", clean(task)), text);
            if let Some(workload) = workload {
                line(TextRole::Quiet, String::new(), workload);
            }
        }
    }
    ragged(styler, "", &lines)
}

/// All rows as JSON.
pub fn run_list_json(rows: &[RunRow]) -> String {
    format!("{:#}\n", json!({ "runs": rows }))
}

/// One run of the list.
#[derive(Clone, Debug, PartialEq)]
pub struct BulkRow {
    /// The command.
    pub run: String,
    /// The command of its first repeat.
    pub first_repeat: String,
    /// `ran`, `cached`, `failed`, `interrupted`, `not run`.
    pub outcome: &'static str,
    /// Its exit code; none where it was not run.
    pub exit: Option<u8>,
    pub reason: Option<String>,
    /// Of each benchmark: task and line, and below it its warnings without the task.
    pub headlines: Vec<(String, String)>,
    /// Of each benchmark: output tokens per second, as its result has them.
    pub rates: BTreeMap<String, f64>,
    pub seconds: Option<f64>,
}

/// A cause is cut after this many characters; the output of the run itself has it in full.
const LONGEST_REASON: usize = 160;

pub fn bulk_table(ended: &[BulkRow], paint: Styler) -> String {
    let mut out = String::from("\n");
    let mut rows = Vec::new();
    for (index, one) in ended.iter().enumerate() {
        let tone = match one.outcome {
            "ran" | "cached" => TextRole::Good,
            "failed" => TextRole::Bad,
            _ => TextRole::Warning,
        };
        rows.push(vec![
            (TextRole::Quiet, (index + 1).to_string()),
            (tone, one.outcome.to_owned()),
            (TextRole::Plain, one.exit.map_or_else(|| "–".to_owned(), |exit| format!("exit {exit}"))),
            (TextRole::Quiet, one.seconds.map(duration_text).unwrap_or_default()),
            (TextRole::Name, clean(&one.run)),
        ]);
    }
    let lines = table(paint, "", &rows);
    for (line, one) in lines.lines().zip(ended) {
        let _ = writeln!(out, "{line}");
        let rows: Vec<_> = one
            .headlines
            .iter()
            .map(|(task, line)| vec![(TextRole::Quiet, clean(task)), (TextRole::Plain, clean(line))])
            .collect();
        out.push_str(&table(paint, "   ", &rows));
        if let Some(why) = &one.reason {
            let _ = writeln!(out, "   {}", paint.tone(TextRole::Bad, cut(why, LONGEST_REASON)));
        }
    }
    out.push_str(&spreads(ended, paint));
    let done = ended.iter().filter(|one| one.exit == Some(0)).count();
    let _ = writeln!(out, "{done} of {} done", counted(ended.len(), "run"));
    if done < ended.len() {
        out.push_str("the same command continues with the unfinished runs\n");
    }
    out
}

/// Mean and range of what repeats measured.
fn spreads(ended: &[BulkRow], paint: Styler) -> String {
    let mut groups: Vec<(&str, Vec<&BulkRow>)> = Vec::new();
    for one in ended.iter().filter(|one| one.exit == Some(0)) {
        match groups.iter_mut().find(|(run, _)| *run == one.first_repeat) {
            Some((_, all)) => all.push(one),
            None => groups.push((&one.first_repeat, vec![one])),
        }
    }
    let mut out = String::new();
    for (run, all) in groups.iter().filter(|(_, all)| all.len() > 1) {
        let _ = writeln!(out, "{} repeats of {}", all.len(), paint.tone(TextRole::Name, clean(run)));
        let mut rows = Vec::new();
        for task in all[0].rates.keys() {
            let rates: Vec<f64> = all.iter().filter_map(|one| one.rates.get(task).copied()).collect();
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            let (low, high) =
                rates.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(*rate), high.max(*rate)));
            let text =
                format!("output tok/s: mean {mean:.1}, {low:.1} to {high:.1} (n={}, one of each run)", rates.len());
            rows.push(vec![(TextRole::Quiet, clean(task)), (TextRole::Plain, text)]);
        }
        out.push_str(&table(paint, "   ", &rows));
    }
    out
}

/// The rows of several tools as a table for a terminal.
pub fn tool_metrics(rows: &[CompatRow], paint: Styler) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "n/a".to_owned(), |value| format!("{value:.2}"));
    let cell = |stat: Option<MetricStats>, pick: fn(&MetricStats) -> Option<f64>| match stat {
        Some(stat) => number(pick(&stat)),
        None => "–".to_owned(),
    };
    let imported_from = rows.iter().map(|row| row.measured_by.as_str()).find(|tool| *tool != Tool::Regatta.name());
    let heads = match imported_from {
        None => ["", "", "ours mean", "p99", "theirs mean", "p99", "n", "what they mean"],
        Some(_) => {
            ["", "", "by Regatta's rule: mean", "p99", "by the tool's rule: mean", "p99", "n", "the tool's rule"]
        }
    };
    let mut lines = vec![heads.map(|head| (TextRole::Quiet, head.to_owned())).to_vec()];
    for row in rows {
        let meaning = match (&row.formula, &row.note) {
            (Some(formula), Some(note)) => format!("{formula}; {note}"),
            (Some(text), None) | (None, Some(text)) => text.clone(),
            (None, None) => String::new(),
        };
        lines.push(vec![
            (TextRole::Name, row.tool.to_owned()),
            (TextRole::Strong, format!("{} {}", row.word, if row.unit == "ms" { "ms" } else { "" }).trim().to_owned()),
            (TextRole::Plain, cell(row.ours, |stat| stat.mean)),
            (TextRole::Plain, if row.unit == "ms" { cell(row.ours, |stat| stat.p99) } else { String::new() }),
            (TextRole::Plain, cell(row.theirs, |stat| stat.mean)),
            (TextRole::Plain, if row.unit == "ms" { cell(row.theirs, |stat| stat.p99) } else { String::new() }),
            (
                TextRole::Plain,
                row.theirs.filter(|_| row.unit == "ms").map_or_else(String::new, |stat| stat.n.to_string()),
            ),
            (TextRole::Quiet, clean(&meaning)),
        ]);
    }
    let table = table(paint, "", &lines);
    match imported_from {
        None => table,
        Some(tool) => format!("measured by {}, not by Regatta\n{table}", clean(tool)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_runs;
    use base::event::{Event, Failure, FailureKind, TaskId};

    #[test]
    fn a_run_that_was_killed_says_how_to_go_on() {
        let events = test_runs::failing();
        let mut run_state = RunState::new();
        events.iter().take(events.len() - 1).for_each(|event| run_state.fold(event));
        insta::assert_snapshot!(run_status(&run_state, false, Styler::OFF), @"
        quickstart  run 20261120-224301-4711, started 2026-11-20T22:43:01Z: interrupted; `regatta run` continues from \
            there
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
                let failure = Box::new(Failure::new(FailureKind::Invalid(Verdict::LimitMissed), "LIMIT MISSED"));
                let task = TaskId::new("load");
                run_state.fold(&Event::TaskFailed { task, attempt: 1, failure, will_retry: false, seconds: 1.0 });
            }
            let tally = run_state.tally;
            run_state.fold(&Event::RunFinished { tally, exit, seconds: 1.0 });
            run_state
        };
        let status = run_status(&ended(0), false, Styler::OFF);
        assert!(status.contains(": done\n") && status.ends_with("1 of 2 tasks finished, 1 not needed\n"), "{status}");
        assert_eq!(run_word(&ended(4), false).1, "LIMIT MISSED");
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

    #[test]
    fn runs_are_listed_with_their_results() {
        let row = |events: &[base::event::Event]| {
            let mut state = RunState::new();
            for event in events {
                state.fold(event);
            }
            RunRow::new(&state, Vec::new(), false)
        };
        let failing = test_runs::failing();
        let mut valid = test_runs::valid();
        for event in &mut valid {
            if let Event::TaskFinished { done: base::event::Done { headline: Some(_), below, .. }, .. } = event {
                let workload = "tiny @ stage triton (KServe gRPC) · 5 req/s Poisson · 100 requests";
                below.push(("workload".to_owned(), workload.to_owned()));
            }
        }
        let rows = [row(&valid), row(&failing), row(&failing[..failing.len() - 1])];
        insta::assert_snapshot!(run_list(&rows, Styler::OFF), @r"
        20261120-224301-4711  done         1m 07s  quickstart                           4 ran, 1 cached
          load/server                              VALID  1,204 tok/s  TTFT p99 212 ms
                                                   tiny @ stage triton (KServe gRPC) · 5 req/s Poisson · 100 requests
        20261120-224301-4711  failed       14 s    quickstart                           1 ran, 1 cached, 2 failed
        20261120-224301-4711  interrupted          quickstart                           1 ran, 1 cached, 2 failed
        ");
        assert!(run_list_json(&rows).contains("\"state\": \"interrupted\""));
        assert_eq!(run_list(&[], Styler::OFF), "no run\n");
    }

    #[test]
    fn the_table_lists_every_run_and_groups_repeats() {
        let ran = |repeat: u32, rate: f64| BulkRow {
            run: if repeat > 1 {
                format!("regatta run m --repeat-number {repeat}")
            } else {
                "regatta run m".to_owned()
            },
            first_repeat: "regatta run m".to_owned(),
            outcome: if repeat > 1 { "ran" } else { "cached" },
            exit: Some(0),
            reason: None,
            headlines: vec![("bench/a".to_owned(), "VALID  1,204 tok/s".to_owned())],
            rates: BTreeMap::from([("bench/a".to_owned(), rate)]),
            seconds: Some(f64::from(repeat)),
        };
        let failed = BulkRow {
            run: "regatta run n".to_owned(),
            first_repeat: "regatta run n".to_owned(),
            outcome: "failed",
            exit: Some(1),
            reason: Some("build: exit code 7".to_owned()),
            headlines: Vec::new(),
            rates: BTreeMap::new(),
            seconds: Some(0.5),
        };
        let not_run = BulkRow { outcome: "not run", exit: None, reason: None, seconds: None, ..failed.clone() };
        insta::assert_snapshot!(bulk_table(&[ran(1, 100.0), failed, ran(2, 104.0), not_run], Styler::OFF), @r"

        1  cached   exit 0  1.0 s   regatta run m
           bench/a  VALID  1,204 tok/s
        2  failed   exit 1  500 ms  regatta run n
           build: exit code 7
        3  ran      exit 0  2.0 s   regatta run m --repeat-number 2
           bench/a  VALID  1,204 tok/s
        4  not run  –               regatta run n
        2 repeats of regatta run m
           bench/a  output tok/s: mean 102.0, 100.0 to 104.0 (n=2, one of each run)
        2 of 4 runs done
        the same command continues with the unfinished runs
        ");
    }
}
