//! What other load tools mean by the same terms, and their numbers computed from Regatta's requests.
//!
//! ```text
//!  RequestRecord ─┐
//!  a tool's file ─┴→ RequestTrace ─ rules of a Tool ─→ values ─→ SortedValues ─→ CompatRow: Regatta's and the tool's
//! ```
//!
//! [`compat`] is the entry point: one run, one tool, a row for each term. Where a number cannot be known from what was
//! kept, the row shows why.

mod compute;
mod measured_run;
mod request_trace;
mod tool_definitions;

use serde::Serialize;

pub use compute::{DeviationRule, MissingMetric, SortedValues};
pub use measured_run::{
    COPY_REPEATS, ImportOrigin, ImportedCounts, ImportedResult, ImportedTokens, ImportedVerdict, MeasuredResult,
    MeasuredRun,
};
pub use request_trace::{ChunkFilter, ChunkKind, RequestTrace, TracedChunk, TracedChunks, vector};
pub use tool_definitions::{MetricConcept, MetricMeaning, PercentileRule, Tool};

use base::units::counted;
use harness::{FailureClass, LatencyMetrics, Metric};

/// One term: the number by Regatta's definition, and by a tool's, from the same requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompatRow {
    /// `TTFT`, `TPOT`, `ITL`, `E2E`, `requests/s`.
    pub word: &'static str,
    /// `ms` or `/s`. A rate has a mean only.
    pub unit: &'static str,
    pub tool: &'static str,
    /// What measured the requests: Regatta, or the tool that wrote the imported file. Then `ours` is that tool's
    /// measurement by Regatta's definition.
    pub measured_by: String,
    pub ours: Option<Metric>,
    pub theirs: Option<Metric>,
    /// The tool's definition.
    pub formula: Option<String>,
    /// Why the number is missing, or why it is an approximation.
    pub note: Option<String>,
}

/// Regatta's numbers and a tool's side by side, from the same requests.
pub fn compat(measured_run: &MeasuredRun, tool: Tool) -> Vec<CompatRow> {
    MetricConcept::ALL.iter().filter_map(|concept| row(measured_run, tool, *concept)).collect()
}

fn row(measured_run: &MeasuredRun, tool: Tool, concept: MetricConcept) -> Option<CompatRow> {
    let (theirs, why) = number(measured_run, tool, concept);
    let imported_from = measured_run.result.imported().map(|result| result.imported.tool.as_str());
    // Of the same requests; the rate of an imported result has its tool's definition.
    let ours = match measured_run.result.own().and_then(|own| own.rates.requests_full) {
        Some(rate) if concept == MetricConcept::Requests => Some(of_rate(rate)),
        _ => number(measured_run, Tool::Regatta, concept).0,
    };
    if ours.is_none() && theirs.is_none() {
        return None;
    }
    Some(CompatRow {
        word: concept.title(),
        unit: if concept == MetricConcept::Requests { "/s" } else { "ms" },
        tool: tool.as_str(),
        measured_by: imported_from.unwrap_or(Tool::Regatta.as_str()).to_owned(),
        ours,
        theirs,
        formula: MetricMeaning::new(tool, concept).map(|meaning| meaning.formula),
        note: why.or_else(|| failed_in_stream(measured_run, tool).filter(|_| concept == MetricConcept::Requests)),
    })
}

/// How many failed requests a tool counts as successful, because it ignores an error inside a stream that has begun:
/// vLLM 0.33.0 (vllm/benchmarks/lib/endpoint_request_func.py), SGLang 0.5.23 (sglang/benchmark/serving.py), and AIPerf
/// 0.13.0.
fn failed_in_stream(measured_run: &MeasuredRun, tool: Tool) -> Option<String> {
    if measured_run.result.own().is_none() || !matches!(tool, Tool::Vllm | Tool::SglangChat | Tool::AiPerf) {
        return None;
    }
    let is_in_stream = |trace: &&RequestTrace| {
        let class = trace.error.as_deref().and_then(|error| error.split(':').next());
        class == Some(FailureClass::Server.as_str()) && trace.first(ChunkFilter::Any).is_some()
    };
    let count = measured_run.request_traces.iter().filter(is_in_stream).count();
    (count > 0)
        .then(|| format!("left out: {} that failed inside the stream, successful there", counted(count, "request")))
}

fn of_rate(rate: f64) -> Metric {
    Metric { unit: "/s".to_owned(), mean: Some(rate), ..Metric::default() }
}

/// A tool's number of a run. Where chunks were not kept, the pools of the result replace pooled gaps.
fn number(measured_run: &MeasuredRun, tool: Tool, concept: MetricConcept) -> (Option<Metric>, Option<String>) {
    if concept == MetricConcept::Requests {
        return match tool.rate(&measured_run.request_traces) {
            Ok(rate) => (Some(of_rate(rate)), None),
            Err(missing) => (None, Some(missing.reason().to_owned())),
        };
    }
    match tool.spread(concept, &measured_run.request_traces) {
        Ok(spread) => (Some(spread.metric()), None),
        Err(MissingMetric::Timelines) => match measured_run.result.own() {
            Some(result) => {
                let metric = pool_of(tool, &result.latency);
                (Some(metric.clone()), Some(format!("percentiles: {}", metric.percentile_rule)))
            }
            None => (None, Some(MissingMetric::Timelines.reason().to_owned())),
        },
        Err(missing) => (None, Some(missing.reason().to_owned())),
    }
}

/// Which of Regatta's pools holds the gaps as this tool pools them.
const fn pool_of(tool: Tool, latency: &LatencyMetrics) -> &Metric {
    match tool {
        Tool::Regatta | Tool::SglangNative => &latency.itl_token,
        _ => &latency.icl,
    }
}
