//! One run with its result, whichever tool measured it.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::imported_result::ImportedResult;
use super::request_trace::RequestTrace;
use super::rules::Tool;
use base::event::Verdict;
use harness::{Measured, REPEATS, RunIdentity, RunResult, TimeSlice};

/// One run: its result and its requests.
#[derive(Clone, Debug)]
pub struct MeasuredRun {
    /// How the user calls it.
    pub name: String,
    pub result: MeasuredResult,
    pub request_traces: Vec<RequestTrace>,
}

impl MeasuredRun {
    pub fn of(name: &str, measured: &Measured) -> Self {
        Self {
            name: name.to_owned(),
            result: MeasuredResult::Regatta(Box::new(measured.result.clone())),
            request_traces: measured.requests.iter().map(|record| RequestTrace::from(&record)).collect(),
        }
    }
}

/// What to do about [`MeasuredRun::without_other_runs`].
pub const COPY_REPEATS: &str = "copy `repeats` with result.json, or compare the folder that has both";

impl MeasuredRun {
    /// A result of several runs whose folder is missing becomes that of the first of them, whose requests and spread are known.
    /// Returns what is missing; `name` is how the result is called there.
    pub fn without_other_runs(&mut self, name: &str) -> Option<String> {
        let runs = self.result.runs();
        let MeasuredResult::Regatta(result) = &mut self.result else { return None };
        result.repeats.take_if(|_| runs > 1)?;
        Some(format!("{name} is the result of {runs} runs, but their folder `{REPEATS}` is not next to it"))
    }
}

/// The content of a `result.json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum MeasuredResult {
    Regatta(Box<RunResult>),
    Imported(Box<ImportedResult>),
}

/// A metric of a result with what the result states of its meaning. Of a measurement of several runs its numbers are means over
/// them; the rest is of the run that the result shows.
#[derive(Clone, Copy, Debug)]
pub struct StatedMetric<'a> {
    /// `ttft`, `tpot`, …
    pub key: &'a str,
    /// By name, ms.
    pub stats: [(&'static str, Option<f64>); 5],
    /// Statistics of Regatta's own file beside those that every tool has.
    pub own_stats: [(&'static str, Option<f64>); 2],
    /// Another tool's; Regatta's own are the same in each result.
    pub definition: Option<&'a str>,
    pub population: &'a str,
    pub zero_point: &'a str,
    pub token_source: &'a str,
    pub window: &'a str,
    pub percentile_rule: &'a str,
}

/// Which file it is, before it is read in full.
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
        header.is_ok_and(|it| it.schema.is_some() && it.verdict.is_some() && it.latency.is_some())
    }

    /// Reads a `result.json` of this or another version. Err: it lacks what makes it a result, or a value has another type.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        let header: Header = serde_json::from_str(text)?;
        Ok(match header.imported {
            Some(_) => Self::Imported(serde_json::from_str(text)?),
            None => Self::Regatta(serde_json::from_str(text)?),
        })
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

    /// What was requested, by name. The settings of another tool have its own names and shapes; those of Regatta are given in
    /// the same form, so that results of all tools can be compared field by field.
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

    /// `requests_full`, `requests_loadgen_completed` or `output_tokens` of the result's rates, per second; of several runs the
    /// mean over them.
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

    /// Every metric that the result has.
    pub fn metrics(&self) -> Vec<StatedMetric<'_>> {
        let stated: Vec<StatedMetric<'_>> = match self {
            Self::Regatta(result) => result
                .latency
                .each()
                .into_iter()
                .map(|(key, it)| StatedMetric {
                    key,
                    stats: result.statistics(key, it),
                    own_stats: [("p75", it.p75), ("max", it.max)],
                    definition: None,
                    population: &it.population,
                    zero_point: &it.zero_point,
                    token_source: &it.token_source,
                    window: &it.window,
                    percentile_rule: &it.percentile_rule,
                })
                .collect(),
            Self::Imported(result) => result
                .latency
                .iter()
                .map(|(key, it)| StatedMetric {
                    key,
                    stats: [("mean", it.mean), ("p50", it.p50), ("p90", it.p90), ("p95", it.p95), ("p99", it.p99)],
                    own_stats: [("p75", None), ("max", None)],
                    definition: Some(&it.definition),
                    population: &it.population,
                    zero_point: &it.zero_point,
                    token_source: &it.token_source,
                    window: &it.window,
                    percentile_rule: &it.percentile_rule,
                })
                .collect(),
        };
        // One that the file does not have states no rule.
        stated.into_iter().filter(|metric| !metric.percentile_rule.is_empty()).collect()
    }
}
