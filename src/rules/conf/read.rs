//! An existing user.conf, checked against the rules.

use indexmap::IndexMap;
use serde_json::Value;

use super::super::{MlperfScenario, Round, RuleError, TestRequest};
use base::diag::did_you_mean;

/// One setting of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfLine {
    /// Counted from 1.
    pub line: usize,
    /// `*` stands for all.
    pub model: String,
    pub scenario: String,
    pub key: String,
    pub value: String,
}

/// The settings of a user.conf as LoadGen takes it apart, and for each line that it cannot read its number and why.
pub fn read(text: &str) -> (Vec<ConfLine>, Vec<(usize, String)>) {
    let mut lines = Vec::new();
    let mut wrong = Vec::new();
    for (index, text) in text.lines().enumerate() {
        let line = index + 1;
        let text = text.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        let Some((name, value)) = text.split_once('=').map(|(name, value)| (name.trim(), value.trim())) else {
            wrong.push((line, format!("`{text}` is not `model.Scenario.key = value`")));
            continue;
        };
        if value.parse::<f64>().is_err() {
            wrong.push((line, format!("`{value}` is not a number")));
            continue;
        }
        // Models' names have dots in them, keys and scenarios have not.
        let mut parts = name.rsplitn(3, '.');
        let (Some(key), Some(scenario), Some(model)) = (parts.next(), parts.next(), parts.next()) else {
            wrong.push((line, format!("`{name}` is not `model.Scenario.key`")));
            continue;
        };
        let [model, scenario, key, value] = [model, scenario, key, value].map(str::to_owned);
        lines.push(ConfLine { line, model, scenario, key, value });
    }
    (lines, wrong)
}

/// What is wrong with a user.conf for a test: lines, models and scenarios that LoadGen would ignore, and all errors of
/// [`super::check()`]. Numbers are those of lines, 0: the file as a whole. Of `request` the `target_qps` and `user_conf` are
/// taken from the file.
pub fn review(text: &str, request: &TestRequest<'_>) -> Vec<(usize, RuleError)> {
    let (lines, unread) = read(text);
    let mut wrong: Vec<(usize, RuleError)> = unread
        .into_iter()
        .map(|(line, what)| (line, RuleError::new(&[], what, "LoadGen would refuse the file")))
        .collect();
    let known = models();
    let found = request.find().ok();
    let ours = found.as_ref().map(|found| found.benchmark.loadgen_model(request.scenario));
    let mut settings: IndexMap<String, Value> = IndexMap::new();
    let mut target_qps = None;
    let mut places: IndexMap<String, usize> = IndexMap::new();
    for line in &lines {
        if line.model != "*" && !known.contains(&line.model) {
            let hint = did_you_mean(&line.model, known.iter().map(String::as_str));
            let rule = "LoadGen would silently ignore the line";
            let what = format!("`{}` is not a model of LoadGen's", line.model);
            wrong.push((line.line, RuleError::new(&[], what, rule).maybe_hint(hint)));
            continue;
        }
        if !matches!(line.scenario.as_str(), "*" | "Offline" | "Server" | "SingleStream" | "MultiStream") {
            let rule = "LoadGen would silently ignore the line";
            let what = format!("`{}` is not a scenario of LoadGen's", line.scenario);
            let hint = "`Offline`, `Server`, `SingleStream`, `MultiStream`; Interactive is Server of the model `…-interactive`";
            wrong.push((line.line, RuleError::new(&[], what, rule).hint(hint)));
            continue;
        }
        let is_ours = line.model == "*" || Some(&line.model) == ours.as_ref();
        if !is_ours || !(line.scenario == "*" || line.scenario == request.scenario.loadgen()) {
            continue;
        }
        if line.key == "target_qps" {
            // Offline and Server may both be named by a `*`; SingleStream has none.
            target_qps = line.value.parse().ok().filter(|_| request.scenario != MlperfScenario::SingleStream);
        } else if let Ok(value) = serde_json::from_str(&line.value) {
            settings.insert(line.key.clone(), value);
        }
        places.insert(line.key.clone(), line.line);
    }
    let filled = TestRequest { target_qps, user_conf: &settings, ..request.clone() };
    for one in super::check(&filled) {
        let line = one.at.last().and_then(|key| places.get(key)).copied().unwrap_or(0);
        wrong.push((line, one));
    }
    wrong.sort_by_key(|(line, _)| *line);
    wrong
}

/// LoadGen's names of all models of all rounds.
fn models() -> Vec<String> {
    let mut names: Vec<String> = Round::NAMES
        .into_iter()
        .filter_map(Round::named)
        .flat_map(|round| {
            let all = |benchmark: &super::super::Benchmark| {
                let plain = benchmark.loadgen_model.clone();
                benchmark
                    .scenarios()
                    .map(|scenario| benchmark.loadgen_model(scenario))
                    .chain([plain])
                    .collect::<Vec<_>>()
            };
            round.benchmarks.values().flat_map(all).collect::<Vec<_>>()
        })
        .collect();
    names.sort();
    names.dedup();
    names
}
