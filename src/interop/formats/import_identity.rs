//! What an imported run is: how it was sent, and what it was sent to. Runs of the same identity are repeats of one
//! measurement; a property in which runs differ tells them apart.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::discriminant;

use serde_json::{Map, Value};

use super::file_format::ImportedNumbers;
use harness::SweepLevel;

/// Requested settings that are levels of a sweep: the load, or the lengths.
const LEVELS: &str =
    "request_rate concurrency target_qps burstiness input_tokens output_tokens input_seq_len output_seq_len";

fn is_level(key: &str) -> bool {
    LEVELS.split(' ').any(|level| level == key)
}

/// Further settings of the load, whose values have no order.
const OTHER_LOAD: [&str; 3] = ["ramp", "scenario", "dataset"];

/// Settings that do not tell runs apart: how long a run went on, how it ended, and what is read with its load.
const NO_IDENTITY: [&str; 4] = ["requests", "strategy", "min_duration_ms", "loadgen_result"];

/// How much measured mean lengths of prompts and answers may differ between runs of the same requests: seeds draw
/// different lengths, and the model decides how long an answer is.
const TOLERANCE: [f64; 2] = [0.1, 0.2];

/// How much the mean number of requests in flight may differ between runs at the same load.
const IN_FLIGHT_TOLERANCE: f64 = 0.1;

const NOT_STATED: &str = "not stated";

/// What a run is, as its file states it.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportIdentity {
    /// Users, a rate, or all at once. `None`: the file does not state it.
    load: Option<SweepLevel>,
    /// How requests are sent at a load of that kind: arrivals and the limit of a rate, the number of those sent at
    /// once.
    load_settings: BTreeMap<&'static str, String>,
    /// Mean tokens of a prompt and of an answer.
    lengths: [Option<MeanLength>; 2],
    /// Mean number of requests in flight, of a tool that measures it.
    in_flight: Option<f64>,
    /// Model, server, backend, scenario, and all else that was requested.
    settings: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct MeanLength {
    tokens: f64,
    /// Requested; otherwise measured.
    is_stated: bool,
}

/// A property in which runs differ, with its value in each run. `None`: it does not apply to the run's load, or the run
/// has no answers.
pub(super) type RunDifference = Vec<Option<SweepLevel>>;

impl ImportIdentity {
    pub(super) fn new(numbers: &ImportedNumbers) -> Self {
        let requested = &numbers.requested;
        let load = load(requested);
        let keys: &[(&'static str, &str)] = match load {
            Some(SweepLevel::Rate(_)) => {
                &[("burstiness", "burstiness"), ("strategy", "strategy"), ("max_in_flight", "concurrency")]
            }
            Some(SweepLevel::AllAtOnce) => &[("requests", "requests")],
            _ => &[],
        };
        let load_settings = keys.iter().filter_map(|(name, key)| Some((*name, text(requested.get(*key)?)))).collect();
        let is_setting = |key: &&String| !is_level(key) && !NO_IDENTITY.contains(&key.as_str());
        let settings = requested.iter().filter(|(key, _)| is_setting(key));
        let length = |names: [&str; 2], sum: Option<f64>| {
            let stated = names.iter().find_map(|name| stated_length(requested.get(*name)?));
            let measured = || Some(sum? / numbers.ok.filter(|ok| *ok > 0.0)?).filter(|tokens| *tokens > 0.0);
            let measured = || measured().map(|tokens| MeanLength { tokens, is_stated: false });
            stated.map(|tokens| MeanLength { tokens, is_stated: true }).or_else(measured)
        };
        Self {
            load,
            load_settings,
            lengths: [
                length(["input_tokens", "input_seq_len"], numbers.input_tokens),
                length(["output_tokens", "output_seq_len"], numbers.output_tokens),
            ],
            in_flight: numbers.in_flight,
            settings: settings.map(|(key, value)| (key.clone(), text(value))).collect(),
        }
    }

    pub(super) const fn load(&self) -> Option<&SweepLevel> {
        self.load.as_ref()
    }

    /// Takes the load from a name, where the file does not state it.
    #[must_use]
    pub(super) fn or_load(self, named: impl FnOnce() -> Option<SweepLevel>) -> Self {
        Self { load: self.load.or_else(named), ..self }
    }

    pub(super) fn set(&mut self, key: &str, setting: &str) {
        self.settings.insert(key.to_owned(), setting.to_owned());
    }

    /// Whether a requested setting of an imported result belongs to the load. Numbers at different loads are not
    /// comparable.
    pub fn is_load(key: &str, requested: &Map<String, Value>) -> bool {
        (is_level(key) || OTHER_LOAD.contains(&key)) && !(key == "target_qps" && is_offline(requested))
    }
}

/// All samples of LoadGen's Offline are sent at once: its `target_qps` only decides how many there are.
fn is_offline(requested: &Map<String, Value>) -> bool {
    requested.get("scenario").is_some_and(|scenario| scenario == "Offline")
}

fn load(requested: &Map<String, Value>) -> Option<SweepLevel> {
    let number = |key: &str| requested.get(key)?.as_f64().filter(|number| number.is_finite() && *number > 0.0);
    if requested.contains_key("ramp") {
        return None;
    }
    match requested.get("scenario").and_then(Value::as_str) {
        Some("Offline") => return Some(SweepLevel::AllAtOnce),
        Some("SingleStream") => return Some(SweepLevel::Users(1)),
        _ => {}
    }
    let rate = number("request_rate").or_else(|| number("target_qps")).map(SweepLevel::Rate);
    let users = || number("concurrency").map(|users| SweepLevel::Users(users as u32));
    let is_unlimited = requested.get("request_rate").is_some_and(|rate| rate == "inf");
    rate.or_else(users).or_else(|| is_unlimited.then_some(SweepLevel::AllAtOnce))
}

/// A number, or the mean of a distribution.
fn stated_length(value: &Value) -> Option<f64> {
    let number = value.as_f64().or_else(|| ["value", "mean"].iter().find_map(|key| value.get(*key)?.as_f64()));
    number.filter(|tokens| tokens.is_finite() && *tokens > 0.0)
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(text).collect::<Vec<_>>().join(", "),
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), |number| number.to_string()),
        other => other.to_string(),
    }
}

fn value(name: &str, value: &str) -> SweepLevel {
    SweepLevel::Value { name: name.to_owned(), value: value.to_owned() }
}

/// The properties in which runs differ; the load is the last.
pub(super) fn differences(runs: &[ImportIdentity]) -> Vec<RunDifference> {
    let mut list: Vec<RunDifference> = Vec::new();
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.settings.keys()).collect();
    for name in names {
        let stated = |run: &ImportIdentity| run.settings.get(name).map_or(NOT_STATED, String::as_str).to_owned();
        list.push(runs.iter().map(|run| Some(value(name, &stated(run)))).collect());
    }
    let names: BTreeSet<&'static str> = runs.iter().flat_map(|run| run.load_settings.keys().copied()).collect();
    for name in names {
        let kind = |run: &ImportIdentity| run.load.as_ref().map(discriminant);
        let setting = |run: &ImportIdentity| run.load_settings.get(name).map_or(NOT_STATED, String::as_str).to_owned();
        let mut by_kind: HashMap<_, BTreeSet<String>> = HashMap::new();
        for run in runs {
            by_kind.entry(kind(run)).or_default().insert(setting(run));
        }
        // A setting that only one kind of load has does not tell runs apart.
        if by_kind.values().any(|settings| settings.len() > 1) {
            let applies = |run: &&ImportIdentity| by_kind[&kind(run)].iter().any(|setting| setting != NOT_STATED);
            list.push(runs.iter().map(|run| Some(run).filter(applies).map(|run| value(name, &setting(run)))).collect());
        }
    }
    let lengths: [fn(u32) -> SweepLevel; 2] = [SweepLevel::InputTokens, SweepLevel::OutputTokens];
    for (place, level) in lengths.into_iter().enumerate() {
        let each = || runs.iter().map(|run| run.lengths[place]);
        let is_stated = each().all(|length| length.is_some_and(|length| length.is_stated));
        let tolerance = if is_stated { 0.0 } else { TOLERANCE[place] };
        let tokens: Vec<Option<f64>> = each().map(|length| Some(length?.tokens)).collect();
        list.push(alike(&tokens, tolerance).into_iter().map(|tokens| Some(level(tokens?.round() as u32))).collect());
    }
    if runs.iter().all(|run| run.load.is_none()) {
        let in_flight: Vec<Option<f64>> = runs.iter().map(|run| run.in_flight).collect();
        let mean = |number: f64| value("mean requests in flight", &number.to_string());
        list.push(alike(&in_flight, IN_FLIGHT_TOLERANCE).into_iter().map(|number| number.map(mean)).collect());
    }
    let load = |run: &ImportIdentity| run.load.clone().unwrap_or_else(|| value("load", NOT_STATED));
    list.push(runs.iter().map(|run| Some(load(run))).collect());
    list.retain(|values| {
        let mut applied = values.iter().flatten();
        let first = applied.next();
        applied.any(|value| Some(value) != first)
    });
    list
}

/// Numbers within the tolerance of each other become the lowest of them, whatever the order of the runs.
fn alike(numbers: &[Option<f64>], tolerance: f64) -> Vec<Option<f64>> {
    let mut sorted: Vec<f64> = numbers.iter().flatten().copied().collect();
    sorted.sort_by(f64::total_cmp);
    let mut least: Vec<f64> = Vec::new();
    for number in sorted {
        if least.last().is_none_or(|least| number > least * (1.0 + tolerance)) {
            least.push(number);
        }
    }
    let nearest = |number: f64| least.iter().rev().find(|least| **least <= number).copied();
    numbers.iter().map(|number| nearest((*number)?)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn identity(requested: &Value, input_tokens: f64) -> ImportIdentity {
        ImportIdentity::new(&ImportedNumbers {
            requested: requested.as_object().unwrap().clone(),
            ok: Some(10.0),
            input_tokens: Some(input_tokens),
            ..ImportedNumbers::default()
        })
    }

    fn shown(runs: &[(Value, f64)]) -> Vec<Vec<String>> {
        let runs: Vec<ImportIdentity> = runs.iter().map(|(requested, tokens)| identity(requested, *tokens)).collect();
        let text = |value: Option<SweepLevel>| value.map_or_else(String::new, |value| value.to_string());
        differences(&runs).into_iter().map(|it| it.into_iter().map(text).collect()).collect()
    }

    #[test]
    fn what_is_alike_is_no_difference_and_what_does_not_apply_is_none() {
        let rate = |rate: Value, users: Value| json!({ "request_rate": rate, "concurrency": users, "model": "m" });
        assert!(shown(&[(rate(json!(4), json!(8)), 1000.0), (rate(json!(4.0), json!(8)), 1090.0)]).is_empty());
        assert_eq!(
            shown(&[(rate(json!(4), json!(null)), 1000.0), (rate(json!("inf"), json!(null)), 1000.0)]),
            [["4 req/s", "all at once"]]
        );
        assert_eq!(
            shown(&[(rate(json!(4), json!(8)), 10.0), (rate(json!(4), json!(16)), 10.0)]),
            [["max_in_flight=8", "max_in_flight=16"]]
        );
        // A limit of a rate is not one of users.
        assert_eq!(
            shown(&[(rate(json!(4), json!(8)), 10.0), (json!({ "concurrency": 2, "model": "m" }), 10.0)]),
            [["4 req/s", "2 users"]]
        );
        assert_eq!(
            shown(&[(rate(json!(4), json!(8)), 1000.0), (json!({ "request_rate": 1, "concurrency": 8 }), 8000.0)]),
            [["model=m", "model=not stated"], ["100 input tokens", "800 input tokens"], ["4 req/s", "1 req/s"]]
        );
    }

    #[test]
    fn lengths_that_are_stated_are_compared_exactly() {
        let stated = |tokens: u32| (json!({ "input_tokens": tokens, "concurrency": 1 }), 1000.0);
        assert_eq!(shown(&[stated(100), stated(101)]), [["100 input tokens", "101 input tokens"]]);
        assert!(shown(&[stated(100), (json!({ "concurrency": 1 }), 1050.0)]).is_empty());
    }

    #[test]
    fn a_target_of_offline_only_decides_how_many_samples_there_are() {
        let run = |scenario: &str, target: f64| (json!({ "scenario": scenario, "target_qps": target }), 0.0);
        assert!(shown(&[run("Offline", 10.0), run("Offline", 20.0)]).is_empty());
        assert_eq!(shown(&[run("Server", 10.0), run("Server", 20.0)]), [["10 req/s", "20 req/s"]]);
        let requested = json!({ "scenario": "Offline" });
        assert!(!ImportIdentity::is_load("target_qps", requested.as_object().unwrap()));
        assert!(ImportIdentity::is_load("target_qps", &Map::new()));
    }
}
