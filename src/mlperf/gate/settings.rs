//! user.conf, README and measurements of a result; and whether user.conf is what was in force.

use std::path::Path;

use serde_json::Value;

use super::detail::Detail;
use super::finding::Findings;
use super::tree::{Entry, files};
use crate::mlperf::{Benchmark, Layout, Scenario};

/// Fields that every measurements' JSON has, each with a meaningful value, with what it means and an example.
pub const MEASUREMENT_FIELDS: [(&str, &str, &str); 5] = [
    ("input_data_types", "type of the token ids that go in", "int32"),
    ("retraining", "whether the model was trained further", "No"),
    ("starting_weights_filename", "which weights were started from, and where they are from", "meta-llama/Llama-2-70b-chat-hf"),
    ("weight_data_types", "types of the weights as they are served", "fp8"),
    ("weight_transformations", "what was done to the weights", "quantization"),
];

/// LoadGen's name of a setting → the key under which its detail log says what was in force, and the factor to its unit.
const IN_FORCE: [(&str, &str, f64); 11] = [
    ("target_qps", "effective_target_qps", 1.0),
    ("target_latency", "effective_target_latency_ns", 1e6),
    ("min_duration", "effective_min_duration_ms", 1.0),
    ("max_duration", "effective_max_duration_ms", 1.0),
    ("max_query_count", "effective_max_query_count", 1.0),
    ("performance_sample_count_override", "effective_performance_sample_count", 1.0),
    ("accuracy_sample_count_override", "effective_accuracy_sample_count", 1.0),
    ("sample_concatenate_permutation", "effective_sample_concatenate_permutation", 1.0),
    ("max_async_queries", "requested_server_max_async_queries", 1.0),
    ("coalesce_queries", "requested_server_coalesce_queries", 1.0),
    ("print_timestamps", "effective_print_timestamps", 1.0),
];

/// Allowed in Closed, beside those above.
const ALLOWED: [&str; 4] = ["min_query_count", "mode", "accuracy_log_rng_seed", "accuracy_log_sampling_target"];

/// LoadGen knows them; Closed does not allow them.
const OPEN_ONLY: [&str; 7] = [
    "use_token_latencies",
    "ttft_latency",
    "tpot_latency",
    "infer_token_latencies",
    "token_latency_scaling_factor",
    "target_latency_percentile",
    "samples_per_query",
];

pub(super) fn check(
    to: &mut Findings,
    entry: &Entry,
    benchmark: &Benchmark,
    scenario: Scenario,
    performance: Option<&Detail>,
) {
    let folder = entry.measurements();
    for name in ["user.conf", "README.md"] {
        let at = folder.join(name);
        let empty = std::fs::read_to_string(&at).map(|text| text.trim().is_empty());
        let why = if name == "user.conf" { "it says what LoadGen was asked for" } else { "it has the commands to repeat the result" };
        match empty {
            Ok(false) => {}
            Ok(true) => to.refuse("empty file", &at, "it is empty", why, "pack again; `mlperf: { package: … }` writes it"),
            Err(_) => to.refuse("missing file", &at, "it is missing", why, "pack again; `mlperf: { package: … }` writes it"),
        }
    }
    measurements(to, entry, &folder);
    if let Ok(text) = std::fs::read_to_string(folder.join("user.conf")) {
        conf(to, &folder.join("user.conf"), &text, entry, benchmark, scenario, performance);
    }
}

fn measurements(to: &mut Findings, entry: &Entry, folder: &Path) {
    let name = match entry.layout {
        Layout::Single => Some("measurements.json".to_owned()).filter(|name| folder.join(name).is_file()),
        Layout::Split => {
            files(folder).into_iter().find(|name| name.starts_with(entry.system) && name.ends_with(".json"))
        }
    };
    let Some(name) = name else {
        let at = folder.join(entry.layout.measurements_file(entry.system, entry.scenario));
        let why = match entry.layout {
            Layout::Single => "since v6.0 it lies in the result's folder",
            Layout::Split => "until v5.1 it lies under measurements/, named after the system",
        };
        to.refuse("missing file", &at, "there is no measurements' JSON", why, "pack again for this round");
        return;
    };
    let at = folder.join(name);
    let read = std::fs::read(&at).map_err(|error| error.to_string());
    let read = read.and_then(|bytes| serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes).map_err(|e| e.to_string()));
    let fields = match read {
        Ok(fields) => fields,
        Err(error) => {
            to.refuse("unreadable JSON", &at, error, "it tells how the model was made", "make it a JSON object");
            return;
        }
    };
    for (field, meaning, example) in MEASUREMENT_FIELDS {
        if !super::system::is_meaningful(fields.get(field)) {
            let what = if fields.contains_key(field) { "says nothing" } else { "is missing" };
            let fix = format!("`mlperf.package.measurements.{field}: {example}`");
            to.refuse("measurements", &at, format!("`{field}` {what}"), meaning, fix);
        }
    }
}

fn conf(
    to: &mut Findings,
    at: &Path,
    text: &str,
    entry: &Entry,
    benchmark: &Benchmark,
    scenario: Scenario,
    performance: Option<&Detail>,
) {
    let suffix = if scenario == Scenario::Interactive { "-interactive" } else { "" };
    let model = format!("{}{suffix}", benchmark.loadgen_model);
    for (number, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parts = line.split_once('=').and_then(|(name, value)| {
            let mut words = name.trim().splitn(3, '.');
            // A model's name may hold dots; the last two words are the scenario and the key.
            let (first, rest) = (words.next()?, words.collect::<Vec<_>>().join("."));
            let whole = format!("{first}.{rest}");
            let (above, key) = whole.rsplit_once('.')?;
            let (model, scenario) = above.rsplit_once('.')?;
            Some((model.to_owned(), scenario.to_owned(), key.to_owned(), value.trim().to_owned()))
        });
        let Some((for_model, for_scenario, key, value)) = parts else {
            let why = "LoadGen leaves lines out that it cannot read, without a word";
            to.refuse("user.conf", at, format!("line {number} is no `model.scenario.key = value`: {line:?}"), why, "write it as LoadGen reads it");
            continue;
        };
        if (for_model != "*" && for_model != model) || (for_scenario != "*" && for_scenario != scenario.loadgen()) {
            let what = format!("line {number} is for {for_model}.{for_scenario}, this result is {model}.{}", scenario.loadgen());
            to.warn("user.conf", at, what, "LoadGen does not take it for this result", "take it out");
            continue;
        }
        let known = IN_FORCE.iter().find(|(name, ..)| *name == key);
        if known.is_none() && !ALLOWED.contains(&key.as_str()) {
            let (what, fix) = if OPEN_ONLY.contains(&key.as_str()) {
                if !entry.is_closed() {
                    continue;
                }
                (format!("line {number} sets `{key}`, which only Open may"), "take it out, and run again without it")
            } else {
                (format!("line {number} sets `{key}`, which LoadGen does not know"), "see the table of user.conf keys; LoadGen ignores unknown ones")
            };
            to.refuse("user.conf", at, what, "in Closed, limits and percentiles are the round's", fix);
            continue;
        }
        if let (Some((_, logged, factor)), Some(detail)) = (known, performance)
            && let Some(in_force) = number_of(detail.get(logged))
            && let Some(written) = number_of(Some(&Value::String(value.clone())))
            // 0 means: LoadGen's own.
            && written != 0.0
            && (written * factor - in_force).abs() > 1e-6 * in_force.abs()
        {
            let what = format!("line {number} says {key} = {value}, in the run {} was in force", in_force / factor);
            let why = "user.conf is what the run was made with";
            to.refuse("user.conf", at, what, why, "pack the user.conf that lies beside the run's logs");
        }
    }
}

fn number_of(value: Option<&Value>) -> Option<f64> {
    match value? {
        Value::Number(number) => number.as_f64(),
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Value::String(text) => match text.as_str() {
            "true" => Some(1.0),
            "false" => Some(0.0),
            text => text.parse().ok(),
        },
        _ => None,
    }
}
