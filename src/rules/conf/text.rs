//! user.conf as LoadGen reads it: `model.Scenario.key = value`, one a line.

use std::fmt::Write as _;

use serde_json::Value;

use super::super::test_request::ResolvedTest;
use super::super::{MlperfScenario, RuleError, TestRequest};
use super::settings::TestSettings;
use base::spec::TestMode;

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
    let found = request.find()?;
    let settings = TestSettings::of(request, &found);
    let rehearsed = request.rehearsal.then_some(settings.performance_samples);
    let audit = super::super::audit_config::audit_config(&found, request.mode, rehearsed).map(|audit| audit.text);
    let model = found.benchmark.loadgen_model(request.scenario);
    let lines = lines(request, &found);
    let text = text(request, &found, &model, &lines);
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
    let plain = TestSettings::of(&TestRequest { mode: TestMode::Performance, ..request.clone() }, found);
    needed("min_duration", plain.min_duration_ms);
    // Offline: LoadGen has no minimum of its own for some models (gpt-oss-120b), and the checker requires it. Arrivals at a rate, in a
    // rehearsal: LoadGen's own minimum is too few for its judgement of a percentile.
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
