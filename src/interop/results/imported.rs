//! What a file of another tool gives: its own numbers, or its requests one by one; and how readers find values in it.

use serde_json::{Map, Value};

use crate::metrics::{ChunkKind, MetricConcept, MetricStats, RequestTrace, Tool, TracedChunk, TracedChunks};

/// A server's count of tokens, as [`Tool::counted`] names it.
pub(crate) const SERVER: &str = "the server";

#[derive(Default)]
pub(crate) struct ImportedNumbers {
    pub tool: Option<Tool>,
    pub format: &'static str,
    pub version: Option<String>,
    pub requested: Map<String, Value>,
    pub ok: Option<f64>,
    pub failed: Option<f64>,
    pub input_tokens: Option<f64>,
    pub output_tokens: Option<f64>,
    pub window_s: Option<f64>,
    /// Mean number of requests in flight, of a tool that measures it.
    pub in_flight: Option<f64>,
    pub requests_per_s: Option<f64>,
    pub tokens_per_s: Option<f64>,
    /// The source of output token counts, where it is not this tool's usual one.
    pub counted: Option<&'static str>,
    /// Further rates, per second, by the name that they get.
    pub extra_rates: Vec<(&'static str, Option<f64>)>,
    /// Of ms.
    pub stats: Vec<(MetricConcept, MetricStats)>,
}

pub(crate) struct ImportedRequests {
    pub tool: Tool,
    pub format: &'static str,
    pub version: Option<String>,
    pub requested: Map<String, Value>,
    /// The source of output token counts, where it is not this tool's usual one.
    pub counted: Option<&'static str>,
    pub request_traces: Vec<RequestTrace>,
}

/// Where a file keeps the numbers of a metric: places under it, and what makes ms of them.
pub(crate) struct StatsLayout<'a> {
    pub value: &'a Value,
    pub factor: f64,
    pub n: &'a str,
    pub mean: &'a str,
    pub percentile: &'a str,
}

impl StatsLayout<'_> {
    pub fn read(&self, metric: &str) -> MetricStats {
        let get = |name: &str| at(self.value, &format!("{metric}/{name}"));
        let ms = |name: &str| get(name).map(|number| number * self.factor);
        let percentile = |p: &str| ms(&self.percentile.replace('#', p));
        MetricStats {
            n: get(self.n).map_or(0, |n| n as u64),
            mean: ms(self.mean),
            p50: percentile("50"),
            p90: percentile("90"),
            p95: percentile("95"),
            p99: percentile("99"),
            min: ms("min"),
            max: ms("max"),
        }
    }
}

/// A number at a place such as `/request_latency/avg`.
pub(crate) fn at(value: &Value, place: &str) -> Option<f64> {
    value.pointer(place)?.as_f64().filter(|number| number.is_finite())
}

pub(crate) fn text_at(value: &Value, place: &str) -> Option<String> {
    Some(value.pointer(place)?.as_str()?.to_owned())
}

pub(crate) fn put(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value.filter(|value| !value.is_null()) {
        map.insert(key.to_owned(), value);
    }
}

/// Chunks from a first one and the gaps after it. Which chunk has how many tokens is known only if each has one.
pub(crate) fn from_gaps(first: f64, gaps: &[f64], tokens: Option<u32>, last: Option<f64>) -> TracedChunks {
    let chunk = |at| TracedChunk { at, tokens: 1, kind: ChunkKind::Token };
    if tokens == Some(gaps.len() as u32 + 1) {
        let mut at = first;
        let later = gaps.iter().map(|gap| {
            at += gap;
            chunk(at)
        });
        return TracedChunks::Every(std::iter::once(chunk(first)).chain(later).collect());
    }
    let last = last.unwrap_or_else(|| first + gaps.iter().sum::<f64>());
    TracedChunks::Ends {
        first: chunk(first),
        last: chunk(last),
        count: (gaps.len() as u32 + 1).max(tokens.unwrap_or(1).min(3)),
    }
}
