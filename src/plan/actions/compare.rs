//! `compare:` — results of other stages, compared as ratios.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ActionFacts, BY_THIS_PROGRAM, Check, StageChecker, faults};
use crate::manifest::model::{OneOrMany, Stage};
use base::diag::did_you_mean;

/// A table of ratios: one row for each measurement, one column for each way to make it, compared with the first column.
/// Leaves `table.txt`, `comparison.json` and `comparison.html`.
#[base::omit_empty(except(results))]
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompareResults {
    /// Column → its results in the order of the rows: `{ custom: "{{ stages.run_custom.outs }}", triton: "{{
    /// stages.run_triton.outs }}" }`. The first column is the baseline.
    pub results: IndexMap<String, OneOrMany<String>>,
    /// Names of the rows, e.g. `"{{ scenarios }}"`. [default: the measured scenario]
    pub rows: Vec<String>,
    /// `output_tokens, requests_full, requests_loadgen_completed`, or a latency with its statistic (`ttft_p99`).
    #[serde(default = "super::by_output_tokens")]
    pub metrics: Vec<String>,
    /// Compare numbers of different loads anyway; the differences are shown.
    #[serde(default)]
    pub force: bool,
    /// Published rows, for comparison.
    pub published: Vec<PublishedRow>,
    /// Published runs of Server, for comparison.
    pub published_server: Vec<PublishedServerRow>,
}

/// A row from a publication.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedRow {
    /// `H200x1 Offline`
    pub row: String,
    /// What the numbers are. [default: the first of `metrics`]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Column → its number.
    pub values: IndexMap<String, f64>,
    /// Where it was published.
    pub source: String,
}

/// A run of Server from a publication.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedServerRow {
    /// `H200x1 Server`
    pub row: String,
    /// One of the columns of `results`.
    pub column: String,
    /// The target, queries per second.
    pub target_qps: f64,
    /// Completed queries per second.
    pub completed_qps: f64,
    /// Output tokens per second.
    pub output_tokens: f64,
    /// 99th percentile of TTFT, ms.
    pub ttft_ms: f64,
    /// 99th percentile of TPOT, ms.
    pub tpot_ms: f64,
    /// Where it was published.
    pub source: String,
}

impl Check for CompareResults {
    const FACTS: ActionFacts =
        ActionFacts { is_repeatable: false, container_obstacle: BY_THIS_PROGRAM, ..ActionFacts::MEASUREMENT };

    fn reads(&self) -> Vec<(&'static str, &str)> {
        let paths = self.results.values().flat_map(OneOrMany::all);
        paths.map(|path| ("compare.results", path.as_str())).collect()
    }

    fn check(&self, _: &Stage, checker: &mut StageChecker<'_>) {
        let columns: Vec<&str> = self.results.keys().map(String::as_str).collect();
        faults! { checker;
            ["compare", "results"], columns.len() < 2, "needs two columns or more", "nothing to compare with",
                "`{ custom: \"{{ stages.a.outs }}\", triton: \"{{ stages.b.outs }}\" }`";
            ["compare", "metrics"], self.metrics.is_empty(), "must name a number", "it is empty",
                "`[output_tokens]`";
        }
        for (index, row) in self.published_server.iter().enumerate() {
            if !columns.contains(&row.column.as_str()) {
                let path = ["compare", "published_server", &index.to_string(), "column"];
                let hint = did_you_mean(&row.column, columns.iter().copied());
                checker.fault(&path, "is not a column", "not under `results`").maybe_hint(hint);
            }
        }
        for (index, row) in self.published.iter().enumerate() {
            for name in row.values.keys().filter(|name| !columns.contains(&name.as_str())) {
                let path = ["compare", "published", &index.to_string(), "values", name];
                checker
                    .fault(&path, "is not a column", "not under `results`")
                    .maybe_hint(did_you_mean(name, columns.iter().copied()));
            }
        }
    }
}
