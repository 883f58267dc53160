//! `compare:` — results of other stages beside each other, as ratios: a table, the same for programs, and a page.

use std::path::Path;

use super::task_context::TaskContext;
use crate::Run;
use base::event::{Done, Failure};
use base::files::read_text;
use harness::{LoadPattern, REQUESTS, RESULT, RequestRecord, RunResult, read_records, repeat_folders};
use interop::{COPY_REPEATS, MeasuredResult, MeasuredRun, RequestTrace};
use plan::manifest::model::CompareResults;
use report::Styler;
use report::compare::{CompareRules, ComparedResult, Ratios, RunSet, ServerRow};

impl Run for CompareResults {
    const FORMAT: Option<u32> = Some(1);

    async fn run(&self, context: TaskContext) -> Result<Done, Failure> {
        let context = &context;
        let columns: Vec<String> = self.results.keys().cloned().collect();
        let rows = read(context, self)?;
        let mut ratios = Ratios { base: columns.first().cloned().unwrap_or_default(), ..Ratios::default() };
        for (index, row) in rows.iter().enumerate() {
            let sets = columns.iter().zip(row).map(|(column, runs)| {
                RunSet::new(column.as_str(), runs.iter().map(ComparedResult::new).collect())
                    .map_err(|error| Failure::refused(error.to_string()))
            });
            let sets = sets.collect::<Result<Vec<_>, _>>()?;
            let first = row.first().and_then(|runs| runs.first()).and_then(|run| run.result.own());
            let name = self.rows.get(index).cloned().unwrap_or_else(|| scenario(first, index));
            let rules = CompareRules { force: self.force, ..CompareRules::default() };
            ratios.measured(&name, &columns, &sets, &self.metrics, rules);
            let firsts = columns.iter().zip(row).filter_map(|(column, runs)| ServerRow::mean(&name, column, runs));
            ratios.server.extend(firsts);
        }
        let metric = self.metrics.first().map(String::as_str).unwrap_or_default();
        for row in &self.published {
            let first = ratios.base.clone();
            let Some(base) = row.values.get(&first).copied() else { continue };
            for (column, other) in row.values.iter().filter(|(column, _)| **column != first) {
                let metric = row.metric.as_deref().unwrap_or(metric);
                ratios.published(&row.row, base, column, *other, metric, &row.source);
            }
        }
        ratios.server.extend(self.published_server.iter().map(|row| ServerRow {
            row: row.row.clone(),
            column: row.column.clone(),
            runs: 1,
            target_qps: Some(row.target_qps),
            completed_qps: Some(row.completed_qps),
            output_tokens: Some(row.output_tokens),
            ttft_ms: Some(row.ttft_ms),
            tpot_ms: Some(row.tpot_ms),
            source: Some(row.source.clone()),
        }));
        let title = format!("{} and {}", columns.get(1..).unwrap_or_default().join(", "), ratios.base);
        let document = ratios.document(&title);
        let text = document.terminal(Styler::OFF);
        for line in text.lines() {
            context.lease.notice(line.to_owned());
        }
        let page = document.html().map_err(|error| Failure::system(error.to_string()))?;
        for (name, text) in
            [("table.txt", text), ("comparison.json", format!("{:#}\n", ratios.json())), ("comparison.html", page)]
        {
            context.write(name, text)?;
        }
        Ok(Done { headline: ratios.headline(), ..Done::default() })
    }
}

/// Row by row, in the order of the columns, the runs of each result.
fn read(context: &TaskContext, compare: &CompareResults) -> Result<Vec<Vec<Vec<MeasuredRun>>>, Failure> {
    let rows = compare.results.values().map(|paths| paths.all().len()).max().unwrap_or_default();
    let counts: Vec<String> =
        compare.results.iter().map(|(name, paths)| format!("{name} has {}", paths.all().len())).collect();
    if compare.results.values().any(|paths| paths.all().len() != rows) {
        return Err(Failure::refused(format!("the columns do not have the same rows: {}", counts.join(", ")))
            .hint("`stages.NAME.outs` of stages with the same `foreach`"));
    }
    (0..rows)
        .map(|row| {
            let row = compare.results.iter().map(|(name, paths)| runs(context, name, &paths.all()[row]));
            row.collect::<Result<Vec<_>, _>>()
        })
        .collect()
}

/// The runs of one result: itself, or its repeats.
fn runs(context: &TaskContext, name: &str, given: &str) -> Result<Vec<MeasuredRun>, Failure> {
    let folder = context.path(given);
    let repeats = repeat_folders(&folder).map_err(|error| Failure::files(error.to_string()))?;
    if repeats.is_empty() {
        let mut run = read_run(name, &folder)?;
        if let Some(missing) = run.without_other_runs(&format!("{name} ({given})")) {
            context.lease.notice(format!("{missing}: only its first run is compared; {COPY_REPEATS}"));
        }
        return Ok(vec![run]);
    }
    (1..).zip(repeats).map(|(number, folder)| read_run(&format!("{name}, run {number}"), &folder)).collect()
}

/// A result with its requests, where they were kept; a folder with the logs of LoadGen alone is the run that they
/// report.
fn read_run(name: &str, folder: &Path) -> Result<MeasuredRun, Failure> {
    let path = folder.join(RESULT);
    if !path.exists()
        && let Some(run) = interop::loadgen_run(folder)
    {
        let run = run.map_err(|error| {
            let failure = Failure::files(error.to_string());
            error.hint().into_iter().fold(failure, Failure::hint)
        })?;
        return Ok(MeasuredRun { name: name.to_owned(), ..run.into() });
    }
    let text = read_text(&path).map_err(|error| {
        Failure::files(format!("cannot read {}: {error}", path.display())).hint(
            "name the output of a `bench` stage, `{{ stages.NAME.outs }}`, or what `regatta import FILES --out FOLDER` \
            made of another tool's",
        )
    })?;
    let result = MeasuredResult::read(&text).map_err(|error| Failure::files(format!("{}: {error}", path.display())))?;
    let mut request_traces = Vec::new();
    let path = folder.join(REQUESTS);
    if path.is_file() {
        let kept = read_records(&path, |record: RequestRecord| request_traces.push(RequestTrace::from(&record)));
        kept.map_err(|error| Failure::files(error.to_string()))?;
    }
    Ok(MeasuredRun { name: name.to_owned(), result, request_traces })
}

/// `server`, `offline`, …; the number where another tool measured, whose scenarios have other names.
fn scenario(result: Option<&RunResult>, index: usize) -> String {
    match result {
        None => format!("row {}", index + 1),
        Some(RunResult { loadgen: Some(loadgen), .. }) => loadgen.scenario.to_lowercase(),
        Some(result) => match result.requested.scenario {
            LoadPattern::Offline => "offline",
            LoadPattern::Server { .. } => "server",
            LoadPattern::Trace { .. } => "trace",
            LoadPattern::Concurrency { .. } => "concurrency",
            LoadPattern::External(_) => "loadgen",
        }
        .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_called_by_the_scenario_that_was_measured() {
        let named = |text: &str| scenario(Some(&serde_json::from_str(text).unwrap()), 0);
        assert_eq!(
            named(r#"{ "schema": 1, "verdict": "valid", "reasons": [], "requested": { "scenario": "offline" } }"#),
            "offline"
        );
        let server = r#"{ "schema": 1, "verdict": "valid", "reasons": [],
            "requested": { "scenario": { "server": { "rate": 1 } } } }"#;
        assert_eq!(named(server), "server");
        let loadgen = r#"{ "schema": 1, "verdict": "valid", "reasons": [],
            "requested": { "scenario": { "outside": "at_times" } },
            "loadgen": { "scenario": "Interactive" } }"#;
        assert_eq!((named(loadgen), scenario(None, 0)), ("interactive".to_owned(), "row 1".to_owned()));
    }
}
