//! Results that this program wrote, here or elsewhere, of this or another version.

use regatta::event::{RunId, TaskId};
use regatta::harness::{RequestRecord, SearchReport, SweepReport, read_result, result_of_repeats};
use regatta::interop::{ExportFormat, ImportSource, MeasuredResult, MeasuredRun, RequestTrace, export, import_runs};
use regatta::plan::Plan;
use regatta::report::compare::{self, CompareRules, ComparedResult, ComparedSweep, Comparison, RunSet};
use regatta::report::history::{self, HistoryPoint, MetricKey};
use regatta::report::{PageResult, RunState, Styler, run_page};

use super::{choose, file};

/// The first byte decides which of the files it is: a result, its requests, a sweep, or a search.
pub fn own_results(data: &[u8]) {
    let (choice, data) = choose(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    match choice % 4 {
        0 => result(text, &[]),
        1 => requests(text),
        2 => sweep(data),
        _ => search(data),
    }
}

fn result(text: &str, records: &[RequestRecord]) {
    let own = read_result(&file("result.json", text.as_bytes()));
    if let Ok(own) = &own {
        let again = serde_json::to_string(own).expect("JSON");
        let runs: Vec<_> = std::iter::repeat_n(own.clone(), 2).collect();
        let _ = result_of_repeats(&runs);
        let _ = (own.verdict_text(), again);
    }
    let _ = import_runs("results", &[ImportSource { name: "result.json".to_owned(), text: text.to_owned() }]);
    let Ok(result) = MeasuredResult::read(text) else { return };
    let request_traces = records.iter().map(RequestTrace::from).collect();
    let run = MeasuredRun { name: "a".to_owned(), result, request_traces };
    for &format in ExportFormat::ALL {
        let _ = export(&run, format);
    }
    let named = |name: &str| MeasuredRun { name: name.to_owned(), ..run.clone() };
    let sets = vec![RunSet::single(ComparedResult::new(&run)), RunSet::single(ComparedResult::new(&named("b")))];
    for force in [false, true] {
        let comparison = Comparison::new(&sets[0], &sets[1], CompareRules { force, ..CompareRules::default() });
        let comparisons = [comparison];
        let document = compare::document(&sets, &comparisons, &[run.clone(), named("b")]);
        let _ = (document.terminal(Styler::OFF), compare::json(&sets, &comparisons).to_string());
        document.html().expect("a page");
    }
    past_runs(sets[0].first());
    page(&[PageResult::new(TaskId::new("load"), run.result)], &[]);
}

/// The same measurement again and again, the last ones under another name.
fn past_runs(result: &ComparedResult) {
    let point = |number: usize| HistoryPoint {
        run: RunId::new(format!("r{number}")),
        tags: Vec::new(),
        manifest: "m".to_owned(),
        task: if number < 6 { "a" } else { "b" }.to_owned(),
        started: "2026-11-26T21:25:36Z".to_owned(),
        result: result.clone(),
    };
    let keys: Vec<MetricKey> = history::known_keys(result).map(|key| MetricKey::read(&key)).collect();
    let all = history::series((0..8).map(point).collect(), &keys, 7);
    let document = history::document(&all);
    let _ = (document.terminal(Styler::OFF), history::json(&all));
    document.html().expect("a page");
}

fn page(results: &[PageResult], sweeps: &[(String, SweepReport)]) {
    run_page(&RunState::default(), results, sweeps, &Plan::default()).expect("a page");
}

/// A result whose requests, or whose search, are the fuzzer's.
const RESULT: &str = include_str!("../../golden/results/benchmark/result.json");

fn requests(text: &str) {
    let records: Result<Vec<RequestRecord>, _> = text.lines().map(serde_json::from_str).collect();
    if let Ok(records) = records {
        result(RESULT, &records);
    }
}

fn sweep(data: &[u8]) {
    let Ok(report) = SweepReport::read(&file("sweep.json", data)) else { return };
    let _ = (report.text(), regatta::report::sweep("a", &report).terminal(Styler::OFF), report.verdict_text());
    let named = |name: &str| ComparedSweep { name: name.to_owned(), report: report.clone() };
    let sweeps = [named("a"), named("b")];
    let document = compare::sweeps_document(&sweeps, CompareRules::default());
    let _ = (document.terminal(Styler::OFF), compare::sweeps_json(&sweeps, CompareRules::default()).to_string());
    document.html().expect("a page");
    page(&[], &[("load".to_owned(), report)]);
}

fn search(data: &[u8]) {
    if let Ok(search) = serde_json::from_slice::<SearchReport>(data) {
        let result = MeasuredResult::read(RESULT).expect("a result");
        page(&[PageResult { search: Some(search), ..PageResult::new(TaskId::new("load"), result) }], &[]);
    }
}
