//! `result.json` of a run that another tool measured: its numbers, each with the tool's own definition.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{MetricMeaning, MetricStats, Tool};

/// The result of an import. What the tool's file does not have is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImportedResult {
    #[serde(default)]
    pub schema: u32,
    #[serde(default)]
    pub verdict: ImportedVerdict,
    pub imported: ImportOrigin,
    /// The tool's settings under its own names, so that they have no fixed shape.
    #[serde(default, alias = "asked")]
    pub requested: Map<String, Value>,
    #[serde(default)]
    pub counts: ImportedCounts,
    #[serde(default)]
    pub tokens: ImportedTokens,
    /// `window_s` in seconds; the others per second.
    #[serde(default)]
    pub rates: IndexMap<String, f64>,
    #[serde(default)]
    pub latency: IndexMap<String, ImportedMetric>,
}

/// What stands in place of a verdict: a tool's numbers are not judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportedVerdict {
    #[default]
    NotJudged,
}

/// Which tool wrote which files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportOrigin {
    pub from: Vec<String>,
    /// By its name, which this version may not know.
    pub tool: String,
    pub tool_version: Option<String>,
    pub format: String,
    /// Whose definitions the numbers have.
    pub definitions: String,
    /// The source of token counts of single requests, where it is another than that of the numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_counted: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportedCounts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ok: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportedTokens {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<f64>,
    /// The source of output token counts.
    pub source: String,
}

/// A metric with the tool's definition; times are ms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportedMetric {
    pub unit: String,
    pub n: Option<u64>,
    pub definition: String,
    pub population: String,
    pub zero_point: String,
    pub token_source: String,
    pub window: String,
    pub percentile_rule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p90: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

impl ImportedMetric {
    /// A metric in ms with a tool's definition, where `counted` is the source of token counts.
    pub(crate) fn new(meaning: MetricMeaning, stats: &MetricStats, counted: &str) -> Self {
        let MetricMeaning { formula, population, zero_point, token_source, window, percentile_rule } = meaning;
        let &MetricStats { n, mean, p50, p90, p95, p99, min, max } = stats;
        Self {
            unit: "ms".to_owned(),
            n: (n > 0).then_some(n),
            definition: formula,
            population,
            zero_point,
            token_source: if token_source.is_empty() { token_source } else { counted.to_owned() },
            window,
            percentile_rule,
            mean,
            p50,
            p90,
            p95,
            p99,
            min,
            max,
        }
    }
}

impl ImportedResult {
    /// The tool that measured; `None` for one of another version.
    pub fn tool(&self) -> Option<Tool> {
        self.imported.tool.parse().ok()
    }
}
