//! One run with its result, whichever tool measured it; and the `result.json` of a run that another tool measured: its
//! numbers, each with the tool's own definition.

use indexmap::IndexMap;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::request_trace::RequestTrace;
use super::tool_definitions::Tool;
use base::event::Verdict;
use harness::{Metric, REPEATS, RunIdentity, RunResult, TimeSlice};

/// One run: its result and its requests.
#[derive(Clone, Debug)]
pub struct MeasuredRun {
    /// The name that the user gave.
    pub name: String,
    pub result: MeasuredResult,
    pub request_traces: Vec<RequestTrace>,
}

/// What to do about [`MeasuredRun::without_other_runs`].
pub const COPY_REPEATS: &str = "copy `repeats` with result.json, or compare the folder that has both";

impl MeasuredRun {
    /// A result of several runs whose folder is missing becomes that of the first of them, whose requests and spread
    /// are known. Returns what is missing; `name` is how the result is called there.
    pub fn without_other_runs(&mut self, name: &str) -> Option<String> {
        let runs = self.result.runs();
        let MeasuredResult::Regatta(result) = &mut self.result else { return None };
        result.repeats.take_if(|_| runs > 1)?;
        Some(format!("{name} is the result of {runs} runs, but their folder `{REPEATS}` is not next to it"))
    }
}

/// The content of a `result.json`.
#[derive(Clone, Debug, PartialEq)]
pub enum MeasuredResult {
    Regatta(Box<RunResult>),
    Imported(Box<ImportedResult>),
}

/// The keys that tell which kind of result a file is, before it is read in full.
#[derive(Deserialize)]
struct Header {
    schema: Option<IgnoredAny>,
    verdict: Option<IgnoredAny>,
    latency: Option<IgnoredAny>,
    imported: Option<IgnoredAny>,
}

impl MeasuredResult {
    /// Whether a text is a `result.json`, of any version.
    pub fn is_one(text: &str) -> bool {
        let header: Result<Header, _> = serde_json::from_str(text);
        header.is_ok_and(|header| header.schema.is_some() && header.verdict.is_some() && header.latency.is_some())
    }

    /// Reads a `result.json` of this or another version. Err: it lacks what makes it a result, or a value has another
    /// type.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        let header: Header = serde_json::from_str(text)?;
        Ok(match header.imported {
            Some(_) => Self::Imported(serde_json::from_str(text)?),
            None => Self::Regatta(Box::new(RunResult::from_json(text)?)),
        })
    }

    /// As its file has it.
    pub fn json(&self) -> serde_json::Result<Value> {
        match self {
            Self::Regatta(result) => result.json(),
            Self::Imported(result) => serde_json::to_value(result),
        }
    }

    /// Regatta's own.
    pub fn own(&self) -> Option<&RunResult> {
        match self {
            Self::Regatta(result) => Some(result),
            Self::Imported(_) => None,
        }
    }

    pub fn imported(&self) -> Option<&ImportedResult> {
        match self {
            Self::Regatta(_) => None,
            Self::Imported(result) => Some(result),
        }
    }

    /// The tool that the numbers come from.
    pub fn tool(&self) -> Tool {
        self.imported().and_then(ImportedResult::tool).unwrap_or(Tool::Regatta)
    }

    /// None for an imported result, which has no verdict.
    pub fn verdict(&self) -> Option<Verdict> {
        self.own().map(RunResult::verdict)
    }

    /// `VALID SIMULATED`, `not judged`.
    pub fn verdict_text(&self) -> String {
        self.own().map_or_else(|| "not judged".to_owned(), RunResult::verdict_text)
    }

    /// What was measured; `None` in results of older programs and of other tools.
    pub fn identity(&self) -> Option<&RunIdentity> {
        self.own()?.identity.as_ref()
    }

    /// What was requested, by name. The settings of another tool have its own names and shapes; those of Regatta are
    /// given in the same form, so that results of all tools can be compared field by field.
    pub fn requested(&self) -> Map<String, Value> {
        match self {
            Self::Imported(result) => result.requested.clone(),
            Self::Regatta(result) => match serde_json::to_value(&result.requested) {
                Ok(Value::Object(requested)) => requested,
                _ => Map::new(),
            },
        }
    }

    /// How many runs the numbers are of.
    pub fn runs(&self) -> usize {
        self.own().map_or(1, RunResult::runs)
    }

    /// `requests_full`, `requests_loadgen_completed` or `output_tokens` of the result's rates, per second; of several
    /// runs the mean over them.
    pub fn rate(&self, key: &str) -> Option<f64> {
        match self {
            Self::Imported(result) => result.rates.get(key).copied(),
            Self::Regatta(result) => {
                let of_run = match key {
                    "requests_full" => result.rates.requests_full,
                    "requests_loadgen_completed" => result.rates.requests_loadgen_completed,
                    "output_tokens" => result.rates.output_tokens,
                    _ => return None,
                };
                result.number(key, of_run)
            }
        }
    }

    /// Successful requests.
    pub fn ok(&self) -> Option<f64> {
        match self {
            Self::Imported(result) => result.counts.ok,
            Self::Regatta(result) => Some(result.counts.ok as f64),
        }
    }

    /// Tokens of all prompts, and of all answers.
    pub fn tokens(&self) -> [Option<f64>; 2] {
        match self {
            Self::Imported(result) => [result.tokens.input, result.tokens.output],
            Self::Regatta(result) => [Some(result.tokens.input as f64), Some(result.tokens.output as f64)],
        }
    }

    /// The source of output token counts; empty where the file has none.
    pub fn token_source(&self) -> &str {
        match self {
            Self::Imported(result) => &result.tokens.source,
            Self::Regatta(result) => &result.tokens.source,
        }
    }

    /// One for each second; other tools have none.
    pub fn slices(&self) -> &[TimeSlice] {
        self.own().map(|result| result.slices.as_slice()).unwrap_or_default()
    }

    /// Each latency of the run that the result shows, by its key.
    pub fn latencies(&self) -> Vec<(&str, &Metric)> {
        match self {
            Self::Regatta(result) => result.latency.each().collect(),
            Self::Imported(result) => result.latency.iter().map(|(key, metric)| (key.as_str(), metric)).collect(),
        }
    }

    /// Every metric that the result has, by its key. Of a measurement of several runs its numbers are means over them;
    /// the rest is of the run that the result shows.
    pub fn metrics(&self) -> Vec<(&str, Metric)> {
        // A metric that the file does not have states no percentile rule.
        let stated = self.latencies().into_iter().filter(|(_, metric)| !metric.percentile_rule.is_empty());
        let over_runs = |(key, metric): (_, &Metric)| match self.own() {
            Some(own) => (key, own.metric_over_runs(key, metric)),
            None => (key, metric.clone()),
        };
        stated.map(over_runs).collect()
    }
}

/// The result of an import. Numbers that the tool's file does not have are absent.
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
    pub latency: IndexMap<String, Metric>,
}

impl ImportedResult {
    /// What its own tool reported against it.
    pub fn objections(&self) -> Vec<String> {
        let failed = self.counts.failed.filter(|failed| *failed > 0.0).map(|failed| {
            // A file may count the failed ones alone.
            let total = self.counts.ok.map_or_else(String::new, |ok| format!(" of {}", failed + ok));
            format!("{failed}{total} requests failed; its latencies are those of the others")
        });
        let verdict =
            self.requested.get("loadgen_result").and_then(Value::as_str).filter(|verdict| *verdict != "VALID");
        failed.into_iter().chain(verdict.map(|verdict| format!("LoadGen's own result is {verdict}"))).collect()
    }
}

/// In place of a verdict: another tool's numbers are not judged.
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
    /// The tool's name, which this version may not know.
    pub tool: String,
    pub tool_version: Option<String>,
    pub format: String,
    /// Whose definitions the numbers have.
    pub definitions: String,
    /// The source of token counts of single requests, where it is another than that of the numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_counted: Option<String>,
}

#[base::omit_empty]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportedCounts {
    pub ok: Option<f64>,
    pub failed: Option<f64>,
}

#[base::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportedTokens {
    pub input: Option<f64>,
    pub output: Option<f64>,
    /// The source of output token counts.
    pub source: String,
}

impl ImportedResult {
    /// The tool that measured; `None` for a name that this version does not know.
    pub fn tool(&self) -> Option<Tool> {
        self.imported.tool.parse().ok()
    }
}
