//! Server runs as NVIDIA's READMEs show them: the target, what was completed, and the two latencies, a row for each measurement.

use serde::Serialize;
use serde_json::Value;

use harness::{LoadLevel, LoadPattern};
use interop::MeasuredRun;

/// One measurement at a rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServerRow {
    pub row: String,
    pub column: String,
    /// How many runs its numbers are means over.
    pub runs: usize,
    pub target_qps: Option<f64>,
    pub completed_qps: Option<f64>,
    pub output_tokens: Option<f64>,
    /// 99th percentiles, ms.
    pub ttft_ms: Option<f64>,
    pub tpot_ms: Option<f64>,
    /// Of a published row: where it was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// What stands over the columns behind the names.
pub const HEADS: [&str; 5] = ["target QPS", "completed QPS", "output tok/s", "TTFT p99 ms", "TPOT p99 ms"];

impl ServerRow {
    /// Of the runs of one measurement, the means of numbers that every run has. `None`: they were not at a rate.
    pub fn of(row: &str, column: &str, runs: &[MeasuredRun]) -> Option<Self> {
        let each: Vec<Self> = runs.iter().map(|run| Self::of_run(row, column, run)).collect::<Option<_>>()?;
        let mean = |of: fn(&Self) -> Option<f64>| {
            let values: Vec<f64> = each.iter().map(of).collect::<Option<_>>()?;
            Some(values.iter().sum::<f64>() / values.len() as f64)
        };
        Some(Self {
            runs: each.iter().map(|run| run.runs).sum(),
            completed_qps: mean(|run| run.completed_qps),
            output_tokens: mean(|run| run.output_tokens),
            ttft_ms: mean(|run| run.ttft_ms),
            tpot_ms: mean(|run| run.tpot_ms),
            ..each.first()?.clone()
        })
    }

    fn of_run(row: &str, column: &str, run: &MeasuredRun) -> Option<Self> {
        let imported = run.result.imported();
        let target_qps = if let Some(own) = run.result.own() {
            match &own.requested.scenario {
                LoadPattern::Server { rate: LoadLevel::Fixed(rate) } => Some(*rate),
                // A rate that changes is no target.
                LoadPattern::Server { rate: LoadLevel::Ramp(_) } => None,
                // LoadGen has the target, in its own log.
                _ if own.loadgen.as_ref().is_some_and(|loadgen| loadgen.scenario != "Offline") => None,
                _ => return None,
            }
        } else {
            let requested = imported.map(|result| &result.requested)?;
            requested.get("scenario").and_then(Value::as_str).filter(|name| *name == "Server")?;
            requested.get("target_qps").and_then(Value::as_f64)
        };
        let metrics = run.result.metrics();
        let p99 = |key: &str| {
            let stats = metrics.iter().find(|metric| metric.key == key)?.stats.iter();
            stats.filter(|(name, _)| *name == "p99").find_map(|(_, value)| *value)
        };
        Some(Self {
            row: row.to_owned(),
            column: column.to_owned(),
            runs: run.result.runs(),
            target_qps,
            completed_qps: run.result.rate("requests_loadgen_completed").or_else(|| run.result.rate("requests_full")),
            output_tokens: run.result.rate("output_tokens"),
            ttft_ms: p99("ttft"),
            tpot_ms: p99("tpot"),
            source: None,
        })
    }

    /// The numbers, in the order of `HEADS`; those that were published as they were.
    pub fn numbers(&self) -> [String; 5] {
        let all = [self.target_qps, self.completed_qps, self.output_tokens, self.ttft_ms, self.tpot_ms];
        all.map(|value| super::ratio::number(value, self.source.is_some()))
    }

    /// Where the numbers are from, if that is a publication, or of how many runs they are.
    pub fn remark(&self) -> String {
        match (&self.source, self.runs) {
            (Some(source), _) => format!("published: {source}"),
            (None, 1) => String::new(),
            (None, runs) => format!("means over {runs} runs"),
        }
    }
}
