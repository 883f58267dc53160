//! Files in the formats of other tools, made from Regatta's requests with *their* definitions.
//!
//! What cannot be known from a run is left out of the files and named in [`Exported::left_out`]; nothing is invented.

use std::fmt::Write as _;

use base::diag::FeatureLeftOut;
use serde::Serialize;
use serde_json::{Value, json};

use super::{export_genai_perf, export_parquet, export_vllm};
use crate::metrics::{
    ChunkFilter, MeasuredRun, MetricConcept, MissingMetric, PercentileRule, RequestTrace, SortedValues, Tool,
};
use base::units::csv_cell;
use harness::{LoadLevel, LoadPattern, RequestRecord, RunIdentity};

base::named! {
    /// The file format to write.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    pub enum ExportFormat {
        GenAiPerf = "genai-perf",
        AiPerf = "aiperf",
        Vllm = "vllm",
        PerfAnalyzer = "perf-analyzer",
        /// Regatta's own requests as columns.
        Parquet = "parquet",
    }
}

/// Why a run was not written in the format of another tool.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[cfg(feature = "parquet")]
    #[error(transparent)]
    Parquet(#[from] parquet::errors::ParquetError),
    #[error(transparent)]
    LeftOut(#[from] FeatureLeftOut),
}

/// One file to be written.
#[derive(Clone, Debug)]
pub struct ExportFile {
    /// In the folder of the export.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// The result of an export.
#[derive(Clone, Debug, Default)]
pub struct Exported {
    pub files: Vec<ExportFile>,
    /// What the format has and a run does not, and why.
    pub left_out: Vec<String>,
}

impl Exported {
    pub(super) fn file(&mut self, name: &str, bytes: impl Into<Vec<u8>>) {
        self.files.push(ExportFile { name: name.to_owned(), bytes: bytes.into() });
    }

    pub(super) fn json(&mut self, name: &str, value: &Value) {
        self.file(name, format!("{value:#}\n"));
    }

    pub(super) fn without(&mut self, part: impl Into<String>) {
        let part = part.into();
        if !self.left_out.contains(&part) {
            self.left_out.push(part);
        }
    }
}

/// `records` are the source of `run`.
pub fn export(run: &MeasuredRun, records: &[RequestRecord], format: ExportFormat) -> Result<Exported, ExportError> {
    let mut out = Exported::default();
    let runs = run.result.runs();
    if runs > 1 {
        out.without(format!("runs 2 to {runs} of {runs}: requests and numbers are those of run 1"));
    }
    match format {
        ExportFormat::GenAiPerf => {
            export_genai_perf::write_genai_perf(run, &mut out);
            export_genai_perf::write_perf_analyzer(run, &mut out);
        }
        ExportFormat::AiPerf => export_genai_perf::write_aiperf(run, &mut out),
        ExportFormat::Vllm => export_vllm::write(run, &mut out),
        ExportFormat::PerfAnalyzer => export_genai_perf::write_perf_analyzer(run, &mut out),
        ExportFormat::Parquet => export_parquet::write(run, records, &mut out)?,
    }
    Ok(out)
}

/// The model that was requested; where none was, the server's only one was measured.
pub(super) fn model(run: &MeasuredRun) -> Option<&str> {
    let result = run.result.own()?;
    let mut servers = result.identity.iter().flat_map(|identity| &identity.servers);
    let served = servers.find_map(|server| server.model.as_deref());
    Some(result.requested.model.as_str()).filter(|model| !model.is_empty()).or(served)
}

pub(super) fn urls(run: &MeasuredRun) -> &[String] {
    run.result.own().map(|result| result.requested.endpoints.as_slice()).unwrap_or_default()
}

/// Start of set-up, RFC 3339.
pub(super) fn started(run: &MeasuredRun) -> Option<&str> {
    run.result.own().map(|result| result.started.as_str()).filter(|started| !started.is_empty())
}

/// The requested rate, in requests per second; `None` if none was requested, or if it varies.
pub(super) fn rate(run: &MeasuredRun) -> Option<f64> {
    match &run.result.own()?.requested.scenario {
        LoadPattern::Server { rate: LoadLevel::Fixed(rate) } => Some(*rate),
        _ => None,
    }
}

/// Users of a closed loop.
pub(super) fn users(run: &MeasuredRun) -> Option<f64> {
    match &run.result.own()?.requested.scenario {
        LoadPattern::Concurrency { users: LoadLevel::Fixed(users) } => Some(*users),
        _ => None,
    }
}

/// Wall-clock ns of an instant in ms of the run, as near as it is known.
pub(super) fn wall_clock_ns(run: &MeasuredRun) -> impl Fn(f64) -> u64 {
    let started: Option<jiff::Timestamp> = started(run).and_then(|text| text.parse().ok());
    let epoch = started.map_or(0, jiff::Timestamp::as_nanosecond);
    move |ms| (epoch + (ms * 1e6).round() as i128) as u64
}

pub(super) fn ok(run: &MeasuredRun) -> impl Iterator<Item = &RequestTrace> {
    run.request_traces.iter().filter(|trace| trace.ok)
}

pub(super) fn linear(values: impl IntoIterator<Item = f64>) -> SortedValues {
    SortedValues::new(values.into_iter().collect(), PercentileRule::Linear)
}

/// The first gaps between chunks of each successful request, in ms. `None` without timelines.
pub(super) fn gaps(run: &MeasuredRun, chunks: ChunkFilter, most: usize) -> Option<SortedValues> {
    let mut values = Vec::new();
    for trace in ok(run) {
        values.extend(trace.gaps(chunks)?.into_iter().take(most).map(|(gap, _)| gap));
    }
    Some(linear(values))
}

/// Output tokens of each successful request as a tool counts them. Where one has no count, a sum would be of the others
/// alone: then a note, and nothing.
pub(super) fn output_tokens(run: &MeasuredRun, tool: Tool, name: &str, out: &mut Exported) -> Option<SortedValues> {
    let counts: Option<Vec<u32>> = ok(run).map(|trace| tool.output_tokens(trace)).collect();
    if counts.is_none() {
        out.without(format!("{name}: {}", MissingMetric::Tokens.reason()));
    }
    counts.map(|counts| linear(counts.into_iter().map(f64::from)))
}

/// A tool's numbers, and a note on those that are missing.
pub(super) fn spread(
    run: &MeasuredRun,
    tool: Tool,
    concept: MetricConcept,
    name: &str,
    out: &mut Exported,
) -> Option<SortedValues> {
    match tool.spread(concept, &run.request_traces) {
        Ok(spread) if spread.n() > 0 => return Some(spread),
        Ok(_) => out.without(format!("{name}: no request has one")),
        Err(missing) => out.without(format!("{name}: {}", missing.reason())),
    }
    None
}

/// What was measured, in every exported file: the verdict first, its server and load, whether it was simulated, and the
/// identity of servers, GPUs, engines, client and manifest.
pub(super) fn identity_entries(run: &MeasuredRun) -> Vec<(String, String)> {
    let verdict = ("verdict".to_owned(), run.result.verdict_text());
    let workload = run.result.own().map(|own| ("workload".to_owned(), own.workload().to_string()));
    let others = run.result.identity().map(RunIdentity::entries).unwrap_or_default();
    std::iter::once(verdict).chain(workload).chain(others).collect()
}

/// The identity for formats that take an object of a tool's own.
pub(super) fn identity_object(run: &MeasuredRun) -> Value {
    json!({
        "generated_by": format!("regatta {}", env!("CARGO_PKG_VERSION")),
        "verdict": run.result.verdict_text(),
        "workload": run.result.own().map(|own| own.workload().to_string()),
        "simulated": run.result.identity().map(|identity| identity.simulated),
        "identity": run.result.identity(),
    })
}

/// The identity as one more section of a CSV file, after a blank line, as these tools add sections of their own.
pub(super) fn identity_section(run: &MeasuredRun) -> String {
    let mut text = "\nIdentity,Value\n".to_owned();
    for (name, value) in identity_entries(run) {
        let _ = writeln!(text, "{},{}", csv_cell(&name), csv_cell(&value));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{MeasuredResult, vector};

    #[test]
    fn a_sum_of_tokens_is_of_every_answer_or_there_is_none() {
        let text = include_str!("../../../tests/golden/results/benchmark/result.json");
        let result = MeasuredResult::read(text).unwrap();
        let mut run = MeasuredRun { name: "vector".to_owned(), result, request_traces: vector() };
        let mut out = Exported::default();
        let sum = |run: &MeasuredRun, tool, out: &mut Exported| Some(output_tokens(run, tool, "tokens", out)?.sum());
        let by_client: u32 = ok(&run).filter_map(|trace| trace.retokenized).sum();
        let by_server: u32 = ok(&run).filter_map(|trace| trace.tokens).sum();
        assert_ne!(by_client, by_server);
        assert_eq!(sum(&run, Tool::AiPerf, &mut out), Some(f64::from(by_client)), "AIPerf counts at the client");
        assert_eq!(sum(&run, Tool::Vllm, &mut out), Some(f64::from(by_server)), "vLLM takes the server's count");
        assert!(out.left_out.is_empty());
        let first = run.request_traces.iter_mut().find(|trace| trace.ok).unwrap();
        (first.tokens, first.retokenized) = (None, None);
        assert_eq!(sum(&run, Tool::Vllm, &mut out), None);
        assert_eq!(out.left_out, [format!("tokens: {}", MissingMetric::Tokens.reason())]);
    }
}
