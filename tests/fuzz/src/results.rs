//! Results that this program wrote, here or elsewhere, of this or another version.

use regatta::harness::{RequestRecord, SweepReport, read_result, result_of_repeats};
use regatta::interop::{ExportFormat, ImportSource, MeasuredResult, MeasuredRun, RequestTrace, export, import_runs};
use regatta::report::compare::{self, CompareRules, ComparedResult, ComparedSweep, Comparison, RunSet};
use regatta::report::{Styler, sweep_table};

use super::{choose, file};

/// The first byte decides which of the files it is: a result, its requests, or a sweep.
pub fn own_results(data: &[u8]) {
    let (choice, data) = choose(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    match choice % 3 {
        0 => result(text, &[]),
        1 => requests(text),
        _ => sweep(data),
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
    for format in ExportFormat::ALL {
        let _ = export(&run, records, format);
    }
    let named = |name: &str| MeasuredRun { name: name.to_owned(), ..run.clone() };
    let sets = vec![RunSet::single(ComparedResult::of(&run)), RunSet::single(ComparedResult::of(&named("b")))];
    for force in [false, true] {
        let comparison = Comparison::of(&sets[0], &sets[1], CompareRules { force, ..CompareRules::default() });
        let comparisons = [comparison];
        let _ = compare::text(&sets, &comparisons, Styler::OFF);
        let _ = compare::json(&sets, &comparisons).to_string();
    }
}

/// Of a benchmark with the result of the golden files.
fn requests(text: &str) {
    const RESULT: &str = include_str!("../../golden/results/benchmark/result.json");
    let records: Result<Vec<RequestRecord>, _> = text.lines().map(serde_json::from_str).collect();
    if let Ok(records) = records {
        result(RESULT, &records);
    }
}

fn sweep(data: &[u8]) {
    let Ok(report) = SweepReport::read(&file("sweep.json", data)) else { return };
    let _ = (report.text(), sweep_table(&report, Styler::OFF), report.verdict_text());
    let named = |name: &str| ComparedSweep { name: name.to_owned(), report: report.clone() };
    let sweeps = [named("a"), named("b")];
    let _ = compare::sweeps_text(&sweeps, CompareRules::default(), Styler::OFF);
    let _ = compare::sweeps_json(&sweeps, CompareRules::default()).to_string();
}
