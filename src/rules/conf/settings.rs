//! What LoadGen will work with: its built-in configuration, user.conf and audit.config, one over the other.

use std::fmt::Write as _;
use std::sync::LazyLock;

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

use crate::{MlperfScenario, ResolvedTest, Round, RuleError, TestRequest};
use base::diag::did_you_mean;
use base::spec::{MIN_DURATION_MS, TestMode};

/// Default duration of a rehearsal.
pub const REHEARSAL_DURATION_MS: u64 = 10_000;
/// A rehearsal draws from this many samples, if there are as many.
const REHEARSAL_SAMPLES: u64 = 256;
/// Of fewer queries early stopping believes no 99th percentile, also where all were in time: it needs 459.
const REHEARSAL_QUERIES: u64 = 480;
/// LoadGen's own default where mlperf.conf has none.
const DEFAULT_MIN_QUERIES: u64 = 100;
/// LoadGen's own default for SingleStream, milliseconds.
const DEFAULT_EXPECTED_LATENCY_MS: f64 = 10.0;

/// Settings in force. Durations in milliseconds; 0 as a maximum means none.
#[derive(Clone, Debug, PartialEq)]
pub struct TestSettings {
    pub scenario: MlperfScenario,
    pub mode: TestMode,
    /// Of SingleStream what follows from the latency that is expected.
    pub target_qps: f64,
    pub min_duration_ms: u64,
    pub max_duration_ms: u64,
    pub min_query_count: u64,
    pub max_query_count: u64,
    /// Samples that are loaded at once: never more than the data set has.
    pub performance_samples: u64,
    /// Samples of an accuracy run.
    pub accuracy_samples: u64,
    /// Every sample is issued equally often (`sample_concatenate_permutation`).
    pub equal_issue: bool,
    /// Every sample is issued once (`performance_issue_unique`).
    pub issue_unique: bool,
}

impl TestSettings {
    /// Settings of a test with known names.
    pub(crate) fn new(request: &TestRequest<'_>, found: &ResolvedTest) -> Self {
        let set = |name: &str| request.user_conf.get(name);
        let count = |name: &str| set(name).and_then(Value::as_u64);
        let flag =
            |name: &str| set(name).and_then(|value| value.as_bool().or_else(|| value.as_u64().map(|one| one == 1)));
        let benchmark = &found.benchmark;
        let here = request.dataset_samples.unwrap_or(u64::MAX);
        let drawn = if request.rehearsal { here.min(REHEARSAL_SAMPLES) } else { here };
        let target_qps = match request.scenario {
            MlperfScenario::SingleStream => {
                1e3 / set("target_latency").and_then(Value::as_f64).unwrap_or(DEFAULT_EXPECTED_LATENCY_MS)
            }
            _ => request.target_qps.unwrap_or(1.0),
        };
        let rule = if request.rehearsal { REHEARSAL_DURATION_MS } else { MIN_DURATION_MS };
        let least = match request.scenario {
            MlperfScenario::Offline if request.rehearsal => benchmark.offline_min_samples.min(drawn),
            MlperfScenario::Offline => benchmark.offline_min_samples,
            MlperfScenario::Server | MlperfScenario::Interactive if request.rehearsal => REHEARSAL_QUERIES,
            _ => DEFAULT_MIN_QUERIES,
        };
        let samples = count("performance_sample_count_override").unwrap_or(benchmark.performance_samples.min(drawn));
        let accuracy = benchmark.accuracy_samples.unwrap_or(benchmark.dataset_samples).min(drawn);
        let plain = Self {
            scenario: request.scenario,
            mode: request.mode,
            target_qps,
            min_duration_ms: count("min_duration").unwrap_or(rule),
            max_duration_ms: count("max_duration").unwrap_or(0),
            min_query_count: count("min_query_count").unwrap_or(least),
            max_query_count: count("max_query_count").unwrap_or(0),
            performance_samples: samples.min(here),
            accuracy_samples: count("accuracy_sample_count_override").unwrap_or(accuracy).min(here),
            equal_issue: flag("sample_concatenate_permutation").unwrap_or(true),
            issue_unique: flag("performance_issue_unique").unwrap_or(false),
        };
        plain.audited(request, found)
    }

    /// With what audit.config puts over it.
    fn audited(self, request: &TestRequest<'_>, found: &ResolvedTest) -> Self {
        let rehearsed = request.rehearsal.then_some(self.performance_samples);
        let Some(audit) = audit_config(found, request.mode, rehearsed) else { return self };
        let its_own = found.benchmark.audits.get(&request.mode).map_or(u64::MAX, |audit| audit.samples);
        Self {
            performance_samples: self.performance_samples.min(its_own),
            min_duration_ms: 0,
            min_query_count: audit.min_query_count,
            equal_issue: false,
            issue_unique: audit.issue_unique || self.issue_unique,
            ..self
        }
    }
}

// user.conf as LoadGen reads it: `model.Scenario.key = value`, one a line.

/// All settings that LoadGen gets for one test.
#[derive(Clone, Debug, PartialEq)]
pub struct Conf {
    /// LoadGen's name of the model, to be given with the file.
    pub model: String,
    /// LoadGen's name of the scenario, to be given with the file.
    pub scenario: &'static str,
    /// user.conf.
    pub text: String,
    /// The keys that it sets, but for `target_qps`.
    pub keys: Vec<String>,
    /// audit.config of the test, where there is one. Pass its path; never leave it in a working directory.
    pub audit: Option<String>,
    /// What will be in force with both.
    pub settings: TestSettings,
}

/// The configuration of a test, or everything that is wrong with it.
pub fn conf(request: &TestRequest<'_>) -> Result<Conf, Vec<RuleError>> {
    let wrong = super::check(request);
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let resolved = request.find()?;
    let settings = TestSettings::new(request, &resolved);
    let rehearsed = request.rehearsal.then_some(settings.performance_samples);
    let audit = audit_config(&resolved, request.mode, rehearsed).map(|audit| audit.text);
    let model = resolved.benchmark.loadgen_model(request.scenario);
    let lines = lines(request, &resolved);
    let text = text(request, &resolved, &model, &lines);
    let keys = lines.into_iter().map(|(key, _)| key).filter(|key| key != "target_qps").collect();
    Ok(Conf { scenario: request.scenario.loadgen(), text, keys, model, audit, settings })
}

fn text(request: &TestRequest<'_>, found: &ResolvedTest, model: &str, lines: &[(String, String)]) -> String {
    let mut text = format!(
        "# {}, {}, {} division, MLPerf Inference {}{}.\n# Times are in milliseconds.\n",
        request.benchmark,
        request.scenario.title(),
        request.division.as_str(),
        found.round.name,
        if request.rehearsal { "; a rehearsal, not for submission" } else { "" },
    );
    for (name, value) in lines {
        let _ = writeln!(text, "{model}.{}.{name} = {value}", request.scenario.loadgen());
    }
    text
}

/// Keys and values: the rate, the manifest's settings, and the required keys that the manifest does not set.
fn lines(request: &TestRequest<'_>, found: &ResolvedTest) -> Vec<(String, String)> {
    let mut lines: Vec<(String, String)> = Vec::new();
    if let Some(qps) = request.target_qps.filter(|_| request.scenario != MlperfScenario::SingleStream) {
        lines.push(("target_qps".to_owned(), qps.to_string()));
    }
    lines.extend(request.user_conf.iter().map(|(name, value)| (name.clone(), shown(value))));
    let mut needed = |name: &str, value: u64| {
        if !request.user_conf.contains_key(name) {
            lines.push((name.to_owned(), value.to_string()));
        }
    };
    let plain = TestSettings::new(&TestRequest { mode: TestMode::Performance, ..request.clone() }, found);
    needed("min_duration", plain.min_duration_ms);
    // Offline: LoadGen has no minimum of its own for some models (gpt-oss-120b), and the checker requires it. Arrivals
    // at a rate, in a rehearsal: LoadGen's own minimum is too few for its judgement of a percentile.
    let at_a_rate = matches!(request.scenario, MlperfScenario::Server | MlperfScenario::Interactive);
    if request.scenario == MlperfScenario::Offline || request.rehearsal && at_a_rate {
        needed("min_query_count", plain.min_query_count);
    }
    let benchmark = &found.benchmark;
    let drawn = match request.mode {
        // Else Offline would issue as many as the performance set has.
        TestMode::Test07 => plain.performance_samples.min(test07_samples(found)),
        _ if request.rehearsal => plain.performance_samples,
        _ => benchmark.performance_samples,
    };
    if drawn < benchmark.performance_samples {
        needed("performance_sample_count_override", drawn);
    }
    if request.rehearsal && plain.performance_samples < benchmark.performance_samples {
        needed("accuracy_sample_count_override", plain.accuracy_samples);
    }
    lines
}

fn test07_samples(found: &ResolvedTest) -> u64 {
    found.benchmark.audits.get(&TestMode::Test07).map_or(u64::MAX, |audit| audit.samples)
}

fn shown(value: &Value) -> String {
    match value {
        Value::Bool(flag) => u8::from(*flag).to_string(),
        other => other.to_string(),
    }
}

// The keys of user.conf: LoadGen reads these and silently ignores any other.

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ConfValueKind {
    /// A whole number, 0 or more.
    Count,
    /// Whole milliseconds.
    Milliseconds,
    /// 0 or 1.
    Flag,
    /// A number above 0.
    Number,
    /// Above 0, below 100.
    Percent,
}

/// One key, and which file may set it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfKey {
    pub kind: ConfValueKind,
    /// LoadGen reads it in these scenarios only. `None`: in all.
    read_in: Option<Vec<MlperfScenario>>,
    /// In these scenarios only a submission to Open may set it.
    #[serde(default)]
    open_in: Vec<MlperfScenario>,
    /// Where LoadGen logs the value in force, and the factor to the unit there.
    logged: Option<(String, f64)>,
}

pub(super) static KEYS: LazyLock<IndexMap<String, ConfKey>> =
    LazyLock::new(|| serde_yaml::from_str(include_str!("keys.yaml")).expect("a table of this program"));

/// LoadGen reads these from its own mlperf.conf only; in user.conf they do nothing.
pub(super) const BUILT_IN: &str = "\
    qsl_rng_seed sample_index_rng_seed schedule_rng_seed accuracy_log_probability test05 test05_qsl_rng_seed \
    test05_sample_index_rng_seed test05_schedule_rng_seed";

/// The key of a detail log with a setting's value in force, and the factor to its unit. None: it is not logged.
pub fn logged(setting: &str) -> Option<(&'static str, f64)> {
    if setting == "target_qps" {
        return Some(("effective_target_qps", 1.0));
    }
    KEYS.get(setting)?.logged.as_ref().map(|(key, factor)| (key.as_str(), *factor))
}

/// Keys that the manifest sets elsewhere, and where.
pub(super) const SAID_ELSEWHERE: [(&str, &str); 2] = [("mode", "mode"), ("target_qps", "target_qps")];

/// Whether only a submission to Open may set it.
pub fn is_open_only(name: &str, scenario: MlperfScenario) -> bool {
    KEYS.get(name).is_some_and(|key| key.is_open_only(scenario))
}

impl ConfKey {
    /// Whether LoadGen looks at it in this scenario.
    pub(super) fn is_read_in(&self, scenario: MlperfScenario) -> bool {
        self.read_in.as_ref().is_none_or(|scenarios| scenarios.contains(&scenario))
    }

    pub(super) fn is_open_only(&self, scenario: MlperfScenario) -> bool {
        self.open_in.contains(&scenario)
    }
}

// An existing user.conf, checked against the rules.

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

/// The lines that LoadGen takes for a model in a scenario: of each key those that name both, else the scenario alone,
/// else the model alone, else neither. Of several alike it takes the last; all of them are returned.
pub fn in_effect<'l>(lines: &'l [ConfLine], model: &str, scenario: MlperfScenario) -> Vec<&'l ConfLine> {
    let is_named = |given: &str, own: &str| if given == own { Some(true) } else { (given == "*").then_some(false) };
    let names = |line: &ConfLine| Some((is_named(&line.scenario, scenario.loadgen())?, is_named(&line.model, model)?));
    let mut most: IndexMap<&str, (bool, bool)> = IndexMap::new();
    for (line, names) in lines.iter().filter_map(|line| Some((line, names(line)?))) {
        let of_key = most.entry(&line.key).or_default();
        *of_key = names.max(*of_key);
    }
    lines.iter().filter(|line| names(line).is_some_and(|names| most[line.key.as_str()] == names)).collect()
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
/// [`super::check()`]. Numbers are those of lines, 0: the file as a whole. Of `request` the `target_qps` and
/// `user_conf` are taken from the file.
pub fn review(text: &str, request: &TestRequest<'_>) -> Vec<(usize, RuleError)> {
    let (lines, unread) = read(text);
    let mut wrong: Vec<(usize, RuleError)> = unread
        .into_iter()
        .map(|(line, message)| (line, RuleError::new(&[], message, "LoadGen would refuse the file")))
        .collect();
    let models = models();
    let resolved = request.find().ok();
    let ours = resolved.as_ref().map(|resolved| resolved.benchmark.loadgen_model(request.scenario));
    let mut settings: IndexMap<String, Value> = IndexMap::new();
    let mut target_qps = None;
    let mut places: IndexMap<String, usize> = IndexMap::new();
    for line in &lines {
        if line.model != "*" && !models.contains(&line.model) {
            let hint = did_you_mean(&line.model, models.iter().map(String::as_str));
            let rule = "LoadGen would silently ignore the line";
            let message = format!("`{}` is not a model of LoadGen's", line.model);
            wrong.push((line.line, RuleError::new(&[], message, rule).maybe_hint(hint)));
        } else if !matches!(line.scenario.as_str(), "*" | "Offline" | "Server" | "SingleStream" | "MultiStream") {
            let rule = "LoadGen would silently ignore the line";
            let message = format!("`{}` is not a scenario of LoadGen's", line.scenario);
            let hint = "`Offline`, `Server`, `SingleStream`, `MultiStream`; Interactive is Server of the model \
                `…-interactive`";
            wrong.push((line.line, RuleError::new(&[], message, rule).hint(hint)));
        }
    }
    for line in in_effect(&lines, ours.as_deref().unwrap_or("*"), request.scenario) {
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
            let model_names = |benchmark: &super::super::Benchmark| {
                let plain = benchmark.loadgen_model.clone();
                benchmark
                    .scenarios()
                    .map(|scenario| benchmark.loadgen_model(scenario))
                    .chain([plain])
                    .collect::<Vec<_>>()
            };
            round.benchmarks.values().flat_map(model_names).collect::<Vec<_>>()
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

// audit.config: settings that an audit test puts over user.conf. Values are those of mlcommons/inference,
// `compliance/`.

/// The seed with which LoadGen draws the samples that it logs; the same for all tests.
pub const LOG_SEED: u64 = 720_381_539_243_781_796;
/// TEST06 logs and issues this many.
const TEST06_SAMPLES: u64 = 100;

/// An audit test by its name, in any case.
pub fn audit_test(name: &str) -> Option<TestMode> {
    let mut tests = [TestMode::Test06, TestMode::Test07, TestMode::Test09].into_iter();
    tests.find(|test| test.as_str().eq_ignore_ascii_case(name))
}

/// What an audit test demands of LoadGen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditConfig {
    /// The file.
    pub text: String,
    pub min_query_count: u64,
    pub sampling_target: u64,
    pub issue_unique: bool,
}

/// audit.config of a test of a benchmark. `None`: the mode is not an audit test of this benchmark. `rehearsed`: the
/// samples that a rehearsal loads, of which TEST07 and TEST09 issue each once.
pub fn audit_config(found: &ResolvedTest, mode: TestMode, rehearsed: Option<u64>) -> Option<AuditConfig> {
    let (samples, target, issue_unique) = match mode {
        TestMode::Performance | TestMode::Accuracy => return None,
        TestMode::Test06 => (TEST06_SAMPLES, TEST06_SAMPLES, false),
        TestMode::Test07 | TestMode::Test09 => {
            let audit = found.benchmark.audits.get(&mode)?;
            (
                rehearsed.map_or(audit.samples, |loaded| loaded.min(audit.samples)),
                audit.sampling_target,
                audit.issue_unique,
            )
        }
    };
    let mut text = format!("# {} of MLPerf Inference {}\n", mode.as_str().to_uppercase(), found.round.name);
    let mut set = |key: &str, value: u64| {
        let _ = writeln!(text, "*.*.{key} = {value}");
    };
    // 2: performance mode.
    set("mode", 2);
    set("accuracy_log_rng_seed", LOG_SEED);
    set("accuracy_log_sampling_target", target);
    set("min_query_count", samples);
    set("min_duration", 0);
    if issue_unique {
        set("performance_issue_unique", 1);
    }
    set("sample_concatenate_permutation", 0);
    // Those of TEST09, which its script reads and LoadGen does not.
    let bounds = found.benchmark.audits.get(&mode).and_then(|audit| audit.output_tokens).unwrap_or_default();
    for (name, bound) in [("min", bounds.min), ("max", bounds.max)] {
        if let Some(bound) = bound {
            let _ = writeln!(text, "*.*.test09_{name}_output_tokens = {bound}");
        }
    }
    Some(AuditConfig { text, min_query_count: samples, sampling_target: target, issue_unique })
}
