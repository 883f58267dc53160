//! Everything that the rules require of a test before it runs.

use serde_json::Value;

use super::settings::{BUILT_IN, ConfValueKind, KEYS, SAID_ELSEWHERE};
use crate::{MlperfScenario, ResolvedTest, RuleError, TestRequest};
use base::diag::{did_you_mean, list_of};
use base::spec::{Division, MIN_DURATION_MS, TestMode};

/// What is wrong with a test: names, scenario, mode, rate, settings. All of it at once; nothing: it may be run.
pub fn check(request: &TestRequest<'_>) -> Vec<RuleError> {
    let resolved = match request.find() {
        Ok(found) => found,
        Err(mut wrong) => {
            // Checks that need no table work all the same.
            wrong.extend(request.user_conf.keys().filter_map(|name| unknown(name, None)));
            wrong.extend(rate(request));
            return wrong;
        }
    };
    let mut wrong = Vec::new();
    wrong.extend(scenario(request, &resolved));
    wrong.extend(mode(request, &resolved));
    wrong.extend(rate(request));
    wrong.extend(check_dataset_size(request, &resolved));
    for (name, value) in request.user_conf {
        wrong.extend(check_setting(request, &resolved, name, value));
    }
    wrong.extend(check_contradictions(request));
    wrong
}

fn scenario(request: &TestRequest<'_>, found: &ResolvedTest) -> Option<RuleError> {
    let allowed: Vec<&str> = found.benchmark.scenarios().map(MlperfScenario::title).collect();
    let title = request.scenario.title();
    let rule = match request.division {
        _ if allowed.contains(&title) => return None,
        Division::Closed => "not one of the round",
        Division::Open if request.scenario == MlperfScenario::Interactive => "LoadGen has no limits for it",
        Division::Open => return None,
    };
    let message = format!("cannot be {title} for {} of {}", request.benchmark, request.round);
    Some(RuleError::new(&["scenario"], message, rule).hint(format!("it is run as {}", allowed.join(", "))))
}

fn mode(request: &TestRequest<'_>, found: &ResolvedTest) -> Option<RuleError> {
    let tests = &found.benchmark.tests;
    if matches!(request.mode, TestMode::Performance | TestMode::Accuracy) || tests.contains(&request.mode) {
        return None;
    }
    let names: Vec<&str> = tests.iter().map(|test| test.as_str()).collect();
    let hint = if names.is_empty() { "it has no audit tests".to_owned() } else { format!("it has {}", list_of(names)) };
    let message = format!("cannot be `{}` for {} of {}", request.mode.as_str(), request.benchmark, request.round);
    Some(RuleError::new(&["mode"], message, "not one of its audit tests").hint(hint))
}

fn rate(request: &TestRequest<'_>) -> Option<RuleError> {
    let at = ["target_qps"];
    match (request.scenario, request.target_qps) {
        (_, Some(qps)) if !(qps > 0.0 && qps.is_finite()) => {
            Some(RuleError::new(&at, "must be greater than 0", "queries per second"))
        }
        (MlperfScenario::SingleStream, Some(_)) => {
            let rule = "LoadGen reads it in Server and Offline only";
            let hint = "set the expected latency of a query in milliseconds: `user_conf: { target_latency: 500 }`";
            Some(RuleError::new(&at, "means nothing in SingleStream", rule).of_key().hint(hint))
        }
        (MlperfScenario::Server | MlperfScenario::Interactive, None) => {
            let message = format!("needs `target_qps` in {}", request.scenario.title());
            let rule = "queries arrive at this rate; LoadGen's own default is 1";
            Some(RuleError::new(&[], message, rule).hint("add `target_qps: 10`: queries per second"))
        }
        (MlperfScenario::Offline, None) if request.mode != TestMode::Accuracy => {
            let rule = "LoadGen issues 1.1 × target_qps × min_duration samples; its own default is 1";
            let hint = "add `target_qps: 10`: samples per second that are expected";
            Some(RuleError::new(&[], "needs `target_qps` in Offline", rule).hint(hint))
        }
        _ => None,
    }
}

/// A cut data set is for rehearsals.
fn check_dataset_size(request: &TestRequest<'_>, found: &ResolvedTest) -> Option<RuleError> {
    let needed = match request.mode {
        TestMode::Performance | TestMode::Test06 => found.benchmark.dataset_samples,
        TestMode::Accuracy => found.benchmark.accuracy_samples.unwrap_or(found.benchmark.dataset_samples),
        TestMode::Test07 | TestMode::Test09 => found.benchmark.audits.get(&request.mode)?.samples,
    };
    let here = request.dataset_samples.filter(|here| *here < needed && !request.rehearsal)?;
    let message = format!("holds {here} samples; {} of {} has {needed}", request.benchmark, request.round);
    let wrong = RuleError::new(&["dataset"], message, "nothing less may be measured");
    Some(wrong.hint("complete it, or add `rehearse: true`"))
}

/// A key that LoadGen does not know, or that must not be set here.
fn unknown(name: &str, model: Option<&str>) -> Option<RuleError> {
    let at = ["user_conf", name];
    let bare = name.rsplit('.').next().unwrap_or(name);
    if bare != name {
        let ours = model.map_or_else(String::new, |model| format!("; LoadGen knows this model as `{model}`"));
        let rule = format!("model and scenario are put before it{ours}");
        return Some(RuleError::new(&at, "names a model or a scenario", rule).of_key().hint(format!("write `{bare}`")));
    }
    if let Some((_, place)) = SAID_ELSEWHERE.iter().find(|(key, _)| *key == name) {
        let hint = format!("write it as `{place}` of `loadgen`");
        return Some(RuleError::new(&at, "is set elsewhere", "once is enough").of_key().hint(hint));
    }
    if BUILT_IN.split(' ').any(|known| known == name) {
        let rule = "LoadGen reads it from its own mlperf.conf and ignores it in user.conf";
        return Some(RuleError::new(&at, "cannot be set", rule).of_key().hint("remove it"));
    }
    if !KEYS.contains_key(name) {
        let hint = did_you_mean(name, KEYS.keys().map(String::as_str));
        let rule = "LoadGen would silently ignore it";
        return Some(RuleError::new(&at, "is not a setting of user.conf", rule).of_key().maybe_hint(hint));
    }
    None
}

fn check_setting(request: &TestRequest<'_>, found: &ResolvedTest, name: &str, value: &Value) -> Option<RuleError> {
    let at = ["user_conf", name];
    let model = found.benchmark.loadgen_model(request.scenario);
    if let Some(wrong) = unknown(name, Some(&model)) {
        return Some(wrong);
    }
    let key = KEYS.get(name)?;
    if !key.is_read_in(request.scenario) {
        let scenario = request.scenario.title();
        let rule = format!("LoadGen does not read it in {scenario}");
        return Some(RuleError::new(&at, format!("means nothing in {scenario}"), rule).of_key().hint("remove it"));
    }
    if key.is_open_only(request.scenario) && request.division == Division::Closed {
        let wrong = RuleError::new(&at, "may be set in the open division only", "closed: the round's value").of_key();
        return Some(wrong.hint("remove it, or `division: open`"));
    }
    if let Some(needed) = bad_value(key.kind, value) {
        return Some(RuleError::new(&at, format!("cannot be {value}"), needed));
    }
    closed_bound(request, found, name, value)
}

/// What the value must be, if it is not.
fn bad_value(kind: ConfValueKind, value: &Value) -> Option<&'static str> {
    match kind {
        ConfValueKind::Count | ConfValueKind::Milliseconds if value.as_u64().is_some() => None,
        ConfValueKind::Count => Some("a whole number, 0 or more"),
        ConfValueKind::Milliseconds => Some("whole milliseconds: 600000 is ten minutes"),
        ConfValueKind::Flag if value.is_boolean() || matches!(value.as_u64(), Some(0 | 1)) => None,
        ConfValueKind::Flag => Some("0 or 1"),
        ConfValueKind::Number if value.as_f64().is_some_and(|number| number > 0.0) => None,
        ConfValueKind::Number => Some("a number above 0"),
        ConfValueKind::Percent if value.as_f64().is_some_and(|share| share > 0.0 && share < 100.0) => None,
        ConfValueKind::Percent => Some("percent: above 0, below 100"),
    }
}

/// Bounds that a closed submission must keep.
fn closed_bound(request: &TestRequest<'_>, found: &ResolvedTest, name: &str, value: &Value) -> Option<RuleError> {
    if request.division == Division::Open {
        return None;
    }
    let at = ["user_conf", name];
    let benchmark = &found.benchmark;
    let number = value.as_u64()?;
    let at_least = |least: u64, rule: &str| {
        (number < least)
            .then(|| RuleError::new(&at, format!("must be at least {least}"), rule).hint(format!("{name}: {least}")))
    };
    match name {
        "min_duration" if request.is_measured() => {
            let wrong = at_least(MIN_DURATION_MS, "closed: a run lasts ten minutes or more")?;
            Some(wrong.hint(format!(
                "`min_duration: {MIN_DURATION_MS}`; `rehearse: true` allows less, and cannot be submitted"
            )))
        }
        "min_query_count" if request.scenario == MlperfScenario::Offline && request.is_measured() => {
            at_least(benchmark.offline_min_samples, "closed: Offline issues at least this many samples")
        }
        "performance_sample_count_override" if request.is_measured() => {
            at_least(benchmark.performance_samples, "closed: the whole data set must be loaded")
        }
        "accuracy_sample_count_override" if !request.rehearsal => {
            let required = benchmark.accuracy_samples.unwrap_or(benchmark.dataset_samples);
            (number != required).then(|| {
                let rule = "closed: accuracy is that of the whole data set";
                RuleError::new(&at, format!("must be {required}"), rule).hint("remove it: LoadGen has it built in")
            })
        }
        "sample_concatenate_permutation" if number != 1 && request.is_measured() => {
            let rule = "closed: answers differ in length, so every sample is issued equally often";
            Some(RuleError::new(&at, "must be 1", rule).hint("remove it: LoadGen has it built in"))
        }
        _ => None,
    }
}

/// Two settings that contradict each other.
fn check_contradictions(request: &TestRequest<'_>) -> Vec<RuleError> {
    let number = |name: &str| request.user_conf.get(name).and_then(Value::as_u64);
    let default = |name: &str| if name == "min_duration" && !request.rehearsal { MIN_DURATION_MS } else { 0 };
    [("max_duration", "min_duration"), ("max_query_count", "min_query_count")]
        .into_iter()
        .filter_map(|(most, least)| {
            let (max, min) = (number(most)?, number(least).unwrap_or_else(|| default(least)));
            (max != 0 && max < min).then(|| {
                let rule = format!("LoadGen would end the run before `{least}` is reached: INVALID");
                let message = format!("must not be below `{least}`, {min}");
                RuleError::new(&["user_conf", most], message, rule).hint("0 means without end")
            })
        })
        .collect()
}
