//! The files of an export in the making, and what the formats share: facts of a run, statistics of its requests, cells.

use serde_json::{Map, Value, json};

use crate::metrics::{
    ChunkFilter, DeviationRule, MeasuredRun, MetricConcept, MissingMetric, PercentileRule, RequestTrace, SortedValues,
    Tool, TracedChunks,
};
use harness::{LoadLevel, LoadPattern, RunResult};

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
    pub(crate) fn file(&mut self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.files.push(ExportFile { name: name.into(), bytes: bytes.into() });
    }

    pub(crate) fn json(&mut self, name: impl Into<String>, value: &Value) {
        self.file(name, format!("{value:#}\n"));
    }

    pub(crate) fn without(&mut self, what: impl Into<String>) {
        let what = what.into();
        if !self.left_out.contains(&what) {
            self.left_out.push(what);
        }
    }
}

/// The facts of a run, for the formats' headers.
pub(crate) struct RunFacts<'a> {
    /// `None` of an imported result, which has none of them in Regatta's form.
    pub result: Option<&'a RunResult>,
}

impl RunFacts<'_> {
    pub(crate) fn model(&self) -> Option<&str> {
        let result = self.result?;
        // Where no model was requested, the server's only one was measured.
        let served =
            result.identity.iter().flat_map(|identity| &identity.servers).find_map(|server| server.model.as_deref());
        Some(result.requested.model.as_str()).filter(|model| !model.is_empty()).or(served)
    }

    pub(crate) fn urls(&self) -> &[String] {
        self.result.map(|result| result.requested.endpoints.as_slice()).unwrap_or_default()
    }

    pub(crate) fn seed(&self) -> Option<u64> {
        self.result.map(|result| result.requested.seed)
    }

    /// Start of set-up, RFC 3339.
    pub(crate) fn started(&self) -> Option<&str> {
        self.result.map(|result| result.started.as_str()).filter(|started| !started.is_empty())
    }

    /// The requested rate, in requests per second; `None` where there is no rate, or none that stays.
    pub(crate) fn rate(&self) -> Option<f64> {
        match &self.result?.requested.scenario {
            LoadPattern::Server { rate: LoadLevel::Fixed(rate) } => Some(*rate),
            _ => None,
        }
    }

    /// Users of a closed loop.
    pub(crate) fn users(&self) -> Option<f64> {
        match &self.result?.requested.scenario {
            LoadPattern::Concurrency { users: LoadLevel::Fixed(users) } => Some(*users),
            _ => None,
        }
    }

    /// Wall-clock ns of the instant that stamps count from, as near as it is known.
    pub(crate) fn epoch_ns(&self) -> i128 {
        let started: Option<jiff::Timestamp> = self.started().and_then(|text| text.parse().ok());
        started.map_or(0, jiff::Timestamp::as_nanosecond)
    }
}

pub(crate) fn facts(measured_run: &MeasuredRun) -> RunFacts<'_> {
    RunFacts { result: measured_run.result.own() }
}

pub(crate) fn ok(measured_run: &MeasuredRun) -> impl Iterator<Item = &RequestTrace> {
    measured_run.request_traces.iter().filter(|one| one.ok)
}

pub(crate) fn linear(values: impl IntoIterator<Item = f64>) -> SortedValues {
    SortedValues::new(values.into_iter().collect(), PercentileRule::Linear)
}

/// The second token chunk less the first, ms, of requests that have two. `None` without timelines.
pub(crate) fn second_token(measured_run: &MeasuredRun) -> Option<SortedValues> {
    let mut values = Vec::new();
    for one in ok(measured_run) {
        values.extend(one.gaps(ChunkFilter::Token)?.first().map(|gap| gap.0));
    }
    Some(linear(values))
}

/// Output tokens of each successful request as a tool counts them. Where one has no count, a sum would be of the others alone: then
/// a note, and nothing.
pub(crate) fn output_tokens(
    measured_run: &MeasuredRun,
    tool: Tool,
    name: &str,
    out: &mut Exported,
) -> Option<SortedValues> {
    let counts: Option<Vec<u32>> = ok(measured_run).map(|one| tool.output_tokens(one)).collect();
    if counts.is_none() {
        out.without(format!("{name}: {}", MissingMetric::Tokens.reason()));
    }
    counts.map(|counts| linear(counts.into_iter().map(f64::from)))
}

pub(crate) fn input_tokens(measured_run: &MeasuredRun) -> SortedValues {
    linear(ok(measured_run).filter_map(|one| one.input).map(f64::from))
}

/// 1/ITL of each request, tokens/s.
pub(crate) fn tokens_per_user(itl: &SortedValues) -> SortedValues {
    linear(itl.values().iter().filter(|ms| **ms > 0.0).map(|ms| 1e3 / ms))
}

/// Percentile names and places as GenAI-Perf and AIPerf have them.
pub(crate) const PERCENTILES: [(&str, f64); 9] = [
    ("p1", 0.01),
    ("p5", 0.05),
    ("p10", 0.10),
    ("p25", 0.25),
    ("p50", 0.50),
    ("p75", 0.75),
    ("p90", 0.90),
    ("p95", 0.95),
    ("p99", 0.99),
];

/// `{unit, avg, p1, …, min, max, std}`; AIPerf adds count and sum.
pub(crate) fn statistics(unit: &str, spread: &SortedValues, counted: bool) -> Value {
    let mut all = Map::new();
    all.insert("unit".to_owned(), json!(unit));
    all.insert("avg".to_owned(), json!(spread.mean()));
    for (name, p) in PERCENTILES {
        all.insert(name.to_owned(), json!(spread.at(p)));
    }
    all.insert("min".to_owned(), json!(spread.min()));
    all.insert("max".to_owned(), json!(spread.max()));
    all.insert("std".to_owned(), json!(spread.deviation(DeviationRule::Population)));
    if counted {
        all.insert("count".to_owned(), json!(spread.n()));
        all.insert("sum".to_owned(), json!(spread.sum()));
    }
    Value::Object(all)
}

pub(crate) fn single(unit: &str, value: f64) -> Value {
    json!({ "unit": unit, "avg": value })
}

/// A tool's numbers, and a note on those that are missing.
pub(crate) fn spread(
    run: &MeasuredRun,
    tool: Tool,
    concept: MetricConcept,
    name: &str,
    out: &mut Exported,
) -> Option<SortedValues> {
    match tool.spread(concept, &run.request_traces) {
        Ok(spread) if spread.n() > 0 => Some(spread),
        Ok(_) => {
            out.without(format!("{name}: no request has one"));
            None
        }
        Err(missing) => {
            out.without(format!("{name}: {}", missing.reason()));
            None
        }
    }
}

/// A tool's own tokenizer counts text; where another count is taken, there is no such count.
pub(crate) fn counted_otherwise(measured_run: &MeasuredRun, out: &mut Exported) {
    if ok(measured_run).any(|one| one.retokenized.is_none()) {
        let source = match measured_run.result.token_source() {
            "" => "the server",
            source => source,
        };
        out.without(format!("counts by a client's tokenizer: output tokens are from {source}"));
    }
}

/// A cell of a CSV file, quoted where it must be.
pub(crate) fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// Seconds from the first start to the last response, as GenAI-Perf and AIPerf take it.
pub(crate) fn duration_s(measured_run: &MeasuredRun, tool: Tool) -> Option<f64> {
    let rate = tool.rate(&measured_run.request_traces).ok()?;
    let count = if tool == Tool::GenAiPerf { measured_run.request_traces.len() } else { ok(measured_run).count() };
    (rate > 0.0).then(|| count as f64 / rate)
}

/// Whether every chunk was kept.
pub(crate) fn has_every_chunk(measured_run: &MeasuredRun) -> Result<(), MissingMetric> {
    let partly = |one: &RequestTrace| matches!(one.chunks, TracedChunks::Ends { count, .. } if count > 2);
    if measured_run.request_traces.iter().any(partly) { Err(MissingMetric::Timelines) } else { Ok(()) }
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
        let by_client: u32 = ok(&run).filter_map(|one| one.retokenized).sum();
        let by_server: u32 = ok(&run).filter_map(|one| one.tokens).sum();
        assert_ne!(by_client, by_server);
        assert_eq!(sum(&run, Tool::AiPerf, &mut out), Some(f64::from(by_client)), "AIPerf counts at the client");
        assert_eq!(sum(&run, Tool::Vllm, &mut out), Some(f64::from(by_server)), "vLLM takes the server's count");
        assert!(out.left_out.is_empty());
        let first = run.request_traces.iter_mut().find(|one| one.ok).unwrap();
        (first.tokens, first.retokenized) = (None, None);
        assert_eq!(sum(&run, Tool::Vllm, &mut out), None);
        assert_eq!(out.left_out, [format!("tokens: {}", MissingMetric::Tokens.reason())]);
    }
}
