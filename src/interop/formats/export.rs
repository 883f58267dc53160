//! Files in the formats of other tools, made from Regatta's requests with *their* definitions.
//!
//! What cannot be known from a run is left out of the files and named in [`Exported::left_out`]; nothing is invented.
//!
//! The JSON object that `vllm bench serve --save-detailed` leaves.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::export_genai_perf;
use crate::command_line::number;
use crate::metrics::{
    ChunkFilter, DeviationRule, MeasuredRun, MetricConcept, MissingMetric, PercentileRule, RequestTrace, SortedValues,
    Tool,
};
use base::spec::Arrivals;
use base::units::csv_cell;
use harness::{LoadLevel, LoadPattern, RunIdentity, RunResult};

base::named! {
    /// The file format to write.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    pub enum ExportFormat {
        GenAiPerf = "genai-perf",
        AiPerf = "aiperf",
        Vllm = "vllm",
        PerfAnalyzer = "perf-analyzer",
    }
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

/// The files of a run in this format.
pub fn export(run: &MeasuredRun, format: ExportFormat) -> Exported {
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
        ExportFormat::Vllm => write(run, &mut out),
        ExportFormat::PerfAnalyzer => export_genai_perf::write_perf_analyzer(run, &mut out),
    }
    out
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

/// That a file is Regatta's, whatever its format.
pub(super) fn generated_by(tool: &str) -> String {
    format!("regatta {}, in the format of {tool} and with its definitions", env!("CARGO_PKG_VERSION"))
}

const TOOL: Tool = Tool::Vllm;

pub(super) fn write(run: &MeasuredRun, out: &mut Exported) {
    let mut object = Map::new();
    let mut insert = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
    insert("date", json!(started(run)));
    insert("backend", json!("regatta"));
    insert("label", json!(generated_by("vLLM")));
    // vLLM's `--metadata KEY=VALUE` adds texts in the same way.
    for (name, value) in identity_entries(run) {
        insert(&format!("regatta_{}", name.replace([' ', '-'], "_")), json!(value));
    }
    let result = run.result.own();
    let requests = json!(run.request_traces.len());
    let model = model(run).map(|model| json!(model)).ok_or("the result has no name of the model");
    let rate = result.map_or(Ok(json!("inf")), request_rate);
    let burstiness = result.map_or(Err("the load is not known"), burstiness).map(|burstiness| json!(burstiness));
    let users = users(run).map(number).ok_or("a result has no limit on requests in flight beside another load");
    for (name, value) in [
        ("model_id", model),
        ("num_prompts", Ok(requests)),
        ("request_rate", rate),
        ("burstiness", burstiness),
        ("max_concurrency", users),
    ] {
        match value {
            Ok(value) => insert(name, value),
            Err(reason) => out.without(format!("{name}: {reason}")),
        }
    }
    let input: u64 = ok(run).filter_map(input_length).map(u64::from).sum();
    let output = output_tokens(run, TOOL, "total_output_tokens, output_throughput, total_token_throughput", out);
    let output = output.map(|output| output.sum() as u64);
    let completed = ok(run).count();
    insert("completed", json!(completed));
    insert("failed", json!(run.request_traces.len() - completed));
    insert("total_input_tokens", json!(input));
    if let Some(output) = output {
        insert("total_output_tokens", json!(output));
    }
    if let Some(rate) = TOOL.rate(&run.request_traces).ok().filter(|rate| *rate > 0.0) {
        let duration = completed as f64 / rate;
        insert("duration", json!(duration));
        insert("request_throughput", json!(rate));
        if let Some(output) = output {
            insert("output_throughput", json!(output as f64 / duration));
            insert("total_token_throughput", json!((input + output) as f64 / duration));
        }
    }
    for (concept, name) in [
        (MetricConcept::Ttft, "ttft"),
        (MetricConcept::Tpot, "tpot"),
        (MetricConcept::Itl, "itl"),
        (MetricConcept::E2e, "e2el"),
    ] {
        let Some(values) = spread(run, TOOL, concept, &format!("*_{name}_ms"), out) else { continue };
        insert(&format!("mean_{name}_ms"), json!(values.mean()));
        insert(&format!("median_{name}_ms"), json!(values.at(0.5)));
        insert(&format!("std_{name}_ms"), json!(values.deviation(DeviationRule::Population)));
        for (p, at) in [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)] {
            insert(&format!("{p}_{name}_ms"), json!(values.at(at)));
        }
    }
    put_details(run, &mut object, out);
    out.without("generated_texts: a run keeps no contents");
    out.without("tokenizer_id, max_output_tokens_per_s, max_concurrent_requests: not available as vLLM counts them");
    out.json("vllm_bench.json", &Value::Object(object));
}

/// Prompt tokens from the server's `usage` where it sends one, as in vLLM 0.33.0 (`output.prompt_len` in
/// vllm/benchmarks/lib/endpoint_request_func.py).
fn input_length(trace: &RequestTrace) -> Option<u32> {
    trace.input_server.or(trace.input)
}

/// In requests per second. `inf`: no request waits for its time, as vLLM has it also with a limit on requests in
/// flight.
fn request_rate(result: &RunResult) -> Result<Value, &'static str> {
    match &result.requested.scenario {
        LoadPattern::Server { rate: LoadLevel::Fixed(rate) } => Ok(json!(rate)),
        other if other.is_open_loop() => Err("the arrivals were not at one rate"),
        _ => Ok(json!("inf")),
    }
}

/// The shape of the gamma law that gaps between arrivals follow: 1/cv².
fn burstiness(result: &RunResult) -> Result<f64, &'static str> {
    match (&result.requested.scenario, result.requested.arrivals) {
        (LoadPattern::Server { .. }, Arrivals::Poisson | Arrivals::PoissonScaled) => Ok(1.0),
        (LoadPattern::Server { .. }, Arrivals::Gamma { cv }) => Ok(1.0 / (cv * cv)),
        (LoadPattern::Server { .. }, Arrivals::Constant) => Err("the arrivals were not of the gamma family"),
        _ => Err("the load was not one of arrivals at a rate, whose gaps have a law"),
    }
}

/// Adds the arrays with one value for each issued request, in seconds.
fn put_details(run: &MeasuredRun, object: &mut Map<String, Value>, out: &mut Exported) {
    let since_issue = |trace: &RequestTrace, at: Option<f64>| at.map_or(0.0, |at| (at - trace.issue) / 1e3);
    let first = |trace: &RequestTrace| trace.first(ChunkFilter::Token).map(|chunk| chunk.at);
    let last = |trace: &RequestTrace| trace.last(ChunkFilter::Token).map(|chunk| chunk.at);
    let mut insert = |name: &str, value: &dyn Fn(&RequestTrace) -> Value| {
        object.insert(name.to_owned(), run.request_traces.iter().map(value).collect());
    };
    insert("input_lens", &|trace| json!(input_length(trace)));
    insert("output_lens", &|trace| json!(if trace.ok { TOOL.output_tokens(trace) } else { Some(0) }));
    insert("ttfts", &|trace| json!(since_issue(trace, first(trace))));
    insert("latencies", &|trace| json!(since_issue(trace, last(trace))));
    insert("start_times", &|trace| json!(trace.issue / 1e3));
    insert("errors", &|trace| json!(trace.error.as_deref().unwrap_or("")));
    let gaps = |trace: &RequestTrace| {
        let gaps = trace.gaps(ChunkFilter::Token)?;
        Some(gaps.into_iter().map(|(gap, _)| json!(gap / 1e3)).collect::<Value>())
    };
    match run.request_traces.iter().map(gaps).collect::<Option<Value>>() {
        Some(gaps) => drop(object.insert("itls".to_owned(), gaps)),
        None => out.without(format!("itls: {}", MissingMetric::Timelines.reason())),
    }
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

    /// vLLM draws gaps from a gamma law whose shape it calls burstiness: their coefficient of variation is 1/√shape.
    #[test]
    fn burstiness_is_the_shape_of_the_law_that_arrivals_follow() {
        let text = include_str!("../../../tests/golden/results/benchmark/result.json");
        let mut result: RunResult = serde_json::from_str(text).unwrap();
        let fixed = LoadPattern::Server { rate: LoadLevel::Fixed(4.0) };
        let users = LoadPattern::Concurrency { users: LoadLevel::Fixed(4.0) };
        let trace = LoadPattern::Trace { speed: 1.0 };
        let (poisson, gamma) = (Arrivals::Poisson, Arrivals::Gamma { cv: 2.0 });
        let inf = Ok(json!("inf"));
        for (scenario, arrivals, shape, rate) in [
            (&fixed, poisson, Some(1.0), Ok(json!(4.0))),
            (&fixed, gamma, Some(0.25), Ok(json!(4.0))),
            (&fixed, Arrivals::Constant, None, Ok(json!(4.0))),
            // These loads have no distribution of arrivals; `arrivals` has its default.
            (&users, poisson, None, inf.clone()),
            (&LoadPattern::Offline, poisson, None, inf),
            (&trace, poisson, None, Err("the arrivals were not at one rate")),
        ] {
            (result.requested.scenario, result.requested.arrivals) = (scenario.clone(), arrivals);
            assert_eq!((burstiness(&result).ok(), request_rate(&result)), (shape, rate), "{scenario:?} {arrivals:?}");
        }
    }
}
