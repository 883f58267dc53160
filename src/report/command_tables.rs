//! The small tables: `list`, `show`, `status`, `runs`, the end of `bulk`, and metrics of other tools; and the results
//! of runs as fields for programs: in `regatta runs --json`, and a line of `regatta runs --csv`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::document::{Cell, Table};
use crate::run_state::{RunState, TaskState};
use crate::styler::{Styler, TextRole, clean, cut, duration_text, to_the_second};
use base::event::{FailureKind, RunTag, TaskId, Verdict};
use base::units::{counted, csv_cell};
use harness::{Metric, RunResult};
use interop::{CompatRow, Tool};
use plan::manifest::ShownValue;

/// A manifest that can be run by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ManifestRow {
    pub name: String,
    /// As it is to be shown.
    pub path: String,
    pub about: Option<String>,
}

pub fn manifest_list(manifests: &[ManifestRow], styler: Styler) -> String {
    if manifests.is_empty() {
        return "no manifests here; `regatta init DIR` starts a project with one\n".to_owned();
    }
    let row = |row: &ManifestRow| {
        [Cell::name(&row.name), row.about.as_deref().unwrap_or_default().into(), Cell::quiet(&row.path)]
    };
    Table::list([], manifests.iter().map(row)).terminal(styler, "")
}

/// A longer value is cut in the table.
const WIDEST: usize = 100;

/// Values under each other with where they come from, a line each. What is cut ends with `…`; JSON has all of it.
pub fn value_table(values: &[ShownValue], styler: Styler) -> String {
    let row = |row: &ShownValue| [Cell::name(&row.path), cut(&row.value, WIDEST).into(), Cell::quiet(&row.origin)];
    Table::list([], values.iter().map(row)).ragged().terminal(styler, "")
}

/// The status of a run; `alive`: its process still exists.
pub fn run_status(run_state: &RunState, alive: bool, styler: Styler) -> String {
    let run = run_state.run.as_ref().map_or("?", |run| run.as_str());
    let (tone, word) = run_word(run_state, alive);
    let is_cut = run_state.finished.is_none() && !alive;
    let state = format!("{word}{}", if is_cut { "; `regatta run` continues from there" } else { "" });
    let name = styler.tone(TextRole::Strong, clean(&run_state.manifest));
    let started = to_the_second(&run_state.started_at);
    let mut out = styler.fit(format!("{name}  run {run}, started {started}: {}\n", styler.tone(tone, state)));
    let rows = |(task, entry): (&TaskId, &TaskState)| {
        let failure = entry.failure.as_deref().map(|failure| match &failure.cause {
            Some(cause) => format!("{}: {cause}", failure.what),
            None => failure.what.clone(),
        });
        let progress = entry.progress.as_ref().map(|progress| progress.line());
        let summary = entry.headline.clone().or_else(|| entry.why.clone()).or(failure).or(progress);
        let took = entry.seconds.map(duration_text).unwrap_or_default();
        let row =
            [entry.label().into(), Cell::name(task.as_str()), took.into(), Cell::quiet(summary.unwrap_or_default())];
        let below = |warning: &String| {
            ["".into(), "".into(), "".into(), Cell::new(TextRole::Warning, format!("warning: {warning}"))]
        };
        std::iter::once(row).chain(entry.warnings.iter().map(below)).collect::<Vec<_>>()
    };
    let tasks = run_state.tasks.iter().filter(|(_, entry)| alive || entry.state.is_finished());
    out.push_str(&Table::list([], tasks.flat_map(rows)).terminal(styler, "  "));
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

pub fn run_status_json(run_state: &RunState, alive: bool) -> Value {
    json!({ "state": run_word(run_state, alive).1, "run_state": run_state })
}

/// How a run stands; `alive`: its process still exists.
pub(super) fn run_word(run_state: &RunState, alive: bool) -> (TextRole, &'static str) {
    match (run_state.finished, alive) {
        (Some(end), _) if end.exit == 0 => (TextRole::Good, "done"),
        (Some(end), _) if end.exit == 130 => (TextRole::Warning, "interrupted"),
        (Some(_), _) => (TextRole::Bad, run_state.verdict().map_or("failed", Verdict::as_str)),
        (None, true) => (TextRole::Good, "running"),
        (None, false) => (TextRole::Warning, "interrupted"),
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
    /// `running`.
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
        let result = |(task, one): (&TaskId, &TaskState)| {
            let text = one.headline.clone().or_else(|| {
                let failure = one.failure.as_deref()?;
                matches!(failure.kind, FailureKind::Invalid(_)).then(|| failure.what.clone())
            })?;
            let short = text.split_once(" (").map_or(text.as_str(), |(numbers, _)| numbers);
            Some(ResultRow {
                task: task.to_string(),
                headline: short.trim().to_owned(),
                workload: one.workload().cloned(),
                folder: one.folder().cloned(),
                ..ResultRow::default()
            })
        };
        Self {
            run: state.run.as_ref().map(ToString::to_string).unwrap_or_default(),
            manifest: state.manifest.clone(),
            tags,
            started_at: to_the_second(&state.started_at),
            state: word,
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
        let tags = row.tags.iter().map(RunTag::as_str).collect::<Vec<_>>().join(" ");
        lines.push(vec![
            Cell::name(&row.run),
            Cell::new(row.role, row.state),
            row.seconds.map(duration_text).unwrap_or_default().into(),
            Cell::new(TextRole::Strong, &row.manifest),
            Cell::quiet(counts.join(", ")),
            Cell::name(tags),
        ]);
        for ResultRow { task, headline: text, workload, .. } in &row.results {
            lines.push(vec![format!("  {task}").into(), "".into(), "".into(), text.into()]);
            lines.extend(workload.as_ref().map(|line| vec!["".into(), "".into(), "".into(), Cell::quiet(line)]));
        }
    }
    Table::list([], lines).ragged().terminal(styler, "")
}

/// One run of the list.
#[derive(Clone, Debug, Default, PartialEq)]
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

pub fn bulk_table(ended: &[BulkRow], styler: Styler) -> String {
    let row = |(n, one): (usize, &BulkRow)| {
        let role = match one.outcome {
            "ran" | "cached" => TextRole::Good,
            "failed" => TextRole::Bad,
            _ => TextRole::Warning,
        };
        let exit = one.exit.map_or_else(|| "–".to_owned(), |exit| format!("exit {exit}"));
        let took = one.seconds.map(duration_text).unwrap_or_default();
        [Cell::quiet(n.to_string()), Cell::new(role, one.outcome), exit.into(), Cell::quiet(took), Cell::name(&one.run)]
    };
    let mut out = String::from("\n");
    for (text, one) in Table::list([], (1..).zip(ended).map(row)).row_texts(styler).into_iter().zip(ended) {
        out.push_str(&text);
        let rows = one.headlines.iter().map(|(task, line)| [Cell::quiet(task), line.into()]);
        out.push_str(&Table::list([], rows).terminal(styler, "   "));
        if let Some(why) = &one.reason {
            let _ = writeln!(out, "   {}", styler.tone(TextRole::Bad, cut(why, LONGEST_REASON)));
        }
    }
    out.push_str(&spreads(ended, styler));
    let done = ended.iter().filter(|one| one.exit == Some(0)).count();
    let _ = writeln!(out, "{done} of {} done", counted(ended.len(), "run"));
    if done < ended.len() {
        out.push_str("the same command continues with the unfinished runs\n");
    }
    out
}

/// Mean and range of what repeats measured.
fn spreads(ended: &[BulkRow], styler: Styler) -> String {
    let mut groups: IndexMap<&str, Vec<&BulkRow>> = IndexMap::new();
    for one in ended.iter().filter(|one| one.exit == Some(0)) {
        groups.entry(&one.first_repeat).or_default().push(one);
    }
    let mut out = String::new();
    for (run, repeats) in groups.iter().filter(|(_, repeats)| repeats.len() > 1) {
        let _ = writeln!(out, "{} repeats of {}", repeats.len(), styler.tone(TextRole::Name, clean(run)));
        let row = |task: &String| {
            let rates: Vec<f64> = repeats.iter().filter_map(|one| one.rates.get(task).copied()).collect();
            let n = rates.len();
            let mean = rates.iter().sum::<f64>() / n as f64;
            let [low, high] = [rates.iter().copied().reduce(f64::min), rates.iter().copied().reduce(f64::max)]
                .map(Option::unwrap_or_default);
            let text = format!("output tok/s: mean {mean:.1}, {low:.1} to {high:.1} (n={n}, one of each run)");
            [Cell::quiet(task), text.into()]
        };
        out.push_str(&Table::list([], repeats[0].rates.keys().map(row)).terminal(styler, "   "));
    }
    out
}

/// The rows of several tools as a table for a terminal.
pub fn tool_metrics(rows: &[CompatRow], styler: Styler) -> String {
    let imported_from = rows.iter().map(|row| row.measured_by.as_str()).find(|tool| *tool != Tool::Regatta.as_str());
    let heads = match imported_from {
        None => ["", "", "ours mean", "p99", "theirs mean", "p99", "n", "what they mean"],
        Some(_) => {
            ["", "", "by Regatta's rule: mean", "p99", "by the tool's rule: mean", "p99", "n", "the tool's rule"]
        }
    };
    let number = |value: Option<f64>| value.map_or_else(|| "n/a".to_owned(), |value| format!("{value:.2}"));
    let line = |row: &CompatRow| {
        let is_ms = row.unit == "ms";
        let numbers = move |metric: Option<&Metric>| match metric {
            Some(metric) => [number(metric.mean), if is_ms { number(metric.p99) } else { String::new() }],
            None => ["–", if is_ms { "–" } else { "" }].map(str::to_owned),
        };
        let n = row.theirs.as_ref().filter(|_| is_ms).map(|metric| metric.n.to_string()).unwrap_or_default();
        let meaning: Vec<&str> = [&row.formula, &row.note].into_iter().filter_map(Option::as_deref).collect();
        let numbers: Vec<String> =
            [row.ours.as_ref(), row.theirs.as_ref()].into_iter().flat_map(numbers).chain([n]).collect();
        let title = format!("{}{}", row.word, if is_ms { " ms" } else { "" });
        let names = [Cell::name(row.tool), Cell::new(TextRole::Strong, title)];
        names.into_iter().chain(numbers.into_iter().map(Cell::from)).chain([Cell::quiet(meaning.join("; "))])
    };
    let table = Table::list(heads, rows.iter().map(line)).terminal(styler, "");
    match imported_from {
        None => table,
        Some(tool) => format!("measured by {}, not by Regatta\n{table}", clean(tool)),
    }
}

/// A result of a run in the list of runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ResultRow {
    pub task: String,
    /// The result in short, for people.
    #[serde(skip)]
    pub headline: String,
    /// Its server and load.
    pub workload: Option<String>,
    /// Where its files are.
    pub folder: Option<PathBuf>,
    /// Of one measurement: see [`result_numbers`].
    #[serde(flatten)]
    pub numbers: Map<String, Value>,
}

/// The verdict and the numbers of a result by their names. Latencies are in milliseconds, rates per second.
pub fn result_numbers(result: &RunResult) -> Map<String, Value> {
    let mut numbers = Map::new();
    let mut insert = |name: String, value: Value| drop(numbers.insert(name, value));
    insert("verdict".to_owned(), json!(result.verdict()));
    insert("is_simulated".to_owned(), json!(result.is_simulated()));
    insert("requests_ok".to_owned(), json!(result.counts.ok));
    insert("requests_failed".to_owned(), json!(result.counts.failed));
    insert("requests_per_s".to_owned(), json!(result.rates.requests_full));
    insert("output_tokens_per_s".to_owned(), json!(result.rates.output_tokens));
    let latency = &result.latency;
    for (name, metric) in
        [("ttft", &latency.ttft), ("tpot", &latency.tpot), ("itl", &latency.itl_token), ("e2e", &latency.e2e)]
    {
        for (part, value) in [("mean", metric.mean), ("p50", metric.p50), ("p90", metric.p90), ("p99", metric.p99)] {
            insert(format!("{name}_{part}_ms"), json!(value));
        }
    }
    numbers
}

/// A line for each result of these runs, below the names of its fields. A stage that measured nothing has none.
pub fn run_list_csv(rows: &[RunRow]) -> String {
    let is_measured = |result: &ResultRow| !result.numbers.is_empty() || result.workload.is_some();
    let results = rows.iter().flat_map(|run| run.results.iter().map(move |result| (run, result)));
    let lines: Vec<Map<String, Value>> =
        results.filter(|(_, result)| is_measured(result)).map(|(run, result)| line(run, result)).collect();
    // A result that is gone has no numbers.
    let names: Vec<&String> =
        lines.iter().max_by_key(|line| line.len()).map(|line| line.keys().collect()).unwrap_or_default();
    let head = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(",") + "\n";
    let text = |line: &Map<String, Value>| names.iter().map(|name| cell(line.get(*name))).collect::<Vec<_>>().join(",");
    lines.iter().fold(head, |csv, line| csv + &text(line) + "\n")
}

fn line(run: &RunRow, result: &ResultRow) -> Map<String, Value> {
    let fields = [
        ("run", json!(run.run)),
        ("manifest", json!(run.manifest)),
        ("started_at", json!(run.started_at)),
        ("state", json!(run.state)),
        ("task", json!(result.task)),
        ("workload", json!(result.workload)),
        ("folder", json!(result.folder)),
    ];
    let mut line = Map::from_iter(fields.map(|(name, value)| (name.to_owned(), value)));
    line.extend(result.numbers.clone());
    line
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => csv_cell(text),
        Some(value) => value.to_string(),
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
        let shown = |path: &str, value: &str, origin: &str| ShownValue {
            path: path.to_owned(),
            value: value.to_owned(),
            origin: origin.to_owned(),
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
        assert_eq!(json!(rows)[2]["state"], "interrupted");
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

#[cfg(test)]
mod result_row_tests {
    use super::*;

    #[test]
    fn a_table_program_reads_each_number_by_its_name() {
        let file = include_str!("../../tests/golden/results/benchmark/result.json");
        let result: RunResult = serde_json::from_str(file).unwrap();
        let row = ResultRow {
            task: "=load".to_owned(),
            workload: Some("a, \"b\"".to_owned()),
            numbers: result_numbers(&result),
            ..ResultRow::default()
        };
        let (run, manifest) = ("r".to_owned(), "m".to_owned());
        let run = RunRow { run, manifest, state: "done", results: vec![row], ..RunRow::default() };
        let csv = run_list_csv(&[run]);
        let [head, line] = csv.lines().collect::<Vec<_>>()[..] else { panic!("{csv}") };
        assert!(line.starts_with("r,m,,done,'=load,\"a, \"\"b\"\"\","), "{line}");
        let at = head.split(',').rev().position(|name| name == "ttft_p99_ms").unwrap();
        let value = line.rsplit(',').nth(at).unwrap();
        assert_eq!(value.parse().ok(), result.latency.ttft.p99, "{csv}");
    }
}
