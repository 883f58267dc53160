//! Configs of NVIDIA's MLPerf code: one Python file per system, scenario and benchmark with `EXPORTS` (round v5.1), or
//! one per benchmark and scenario with a class for each system (v4.1, v5.0). They become one manifest, with a parameter
//! for the setting.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::config_file::ConfigFile;
use super::harness_table::{benchmark, machine, scenario};
use super::stage_entry::{WeightFormat, entry};
use crate::command_line::{TranslationBuilder, TranslationKind, TranslationResult};

const TOOL: &str = "a config of NVIDIA's MLPerf code";
/// The largest file that is read as a config.
const MAX_CONFIG_BYTES: usize = 1 << 20;

/// What configs mean here. `files` are names and texts, base classes first; `pick` names settings, all where it is
/// empty; `shape` gives `engine.model` of a benchmark.
pub fn read_config(
    files: &[(String, String)],
    pick: &[String],
    shape: &dyn Fn(&str) -> Option<Value>,
) -> TranslationResult {
    let mut builder = TranslationBuilder::default();
    let mut read = ConfigFile::default();
    for (name, text) in files {
        if text.len() > MAX_CONFIG_BYTES {
            builder.push_error(format!("{name} is {} bytes long, too long for a config", text.len()));
        } else {
            read.file(name, text, &mut builder);
        }
    }
    read.end(&mut builder);
    let place = files.last().map_or("", |(name, _)| name.as_str());
    let path = Place::new(place);
    choose(&mut read, pick, place, &mut builder);
    let mut entries = Map::new();
    let mut lines = BTreeSet::new();
    let (mut bench, mut scenario) = (path.benchmark, path.scenario);
    let mut accuracies = Vec::new();
    for setting in &read.settings {
        let entry = entry(setting, path.system.as_deref(), &mut lines, &mut builder);
        bench = bench.or_else(|| benchmark(entry.benchmark.as_deref()?));
        scenario = scenario.or(entry.scenario);
        accuracies.push((setting.name.clone(), setting.accuracy));
        let mut name = setting.name.clone();
        while entries.contains_key(&name) {
            name.push('+');
        }
        entries.insert(name, Value::Object(entry.value));
    }
    for (name, _) in &read.env {
        builder.push_untranslated(
            format!("os.environ[{name}]"),
            "an environment variable of the harness; a stage has `env`",
        );
    }
    if builder.problems.is_empty() && entries.is_empty() {
        builder.push_error(format!(
            "{place}: no setting is registered in it (`EXPORTS`, or a class with @ConfigRegistry.register)"
        ));
    }
    let bench = bench.unwrap_or_else(|| {
        builder.push_error(format!("{place}: neither its path nor its fields name the benchmark"));
        "llama2-70b"
    });
    let scenario = scenario.unwrap_or_else(|| {
        builder.push_error(format!("{place}: neither its path nor its fields name the scenario"));
        "offline"
    });
    let is_interactive = place.contains("llama2-70b-interactive");
    let scenario = if is_interactive && scenario == "server" && !read.has_classes { "interactive" } else { scenario };
    let Some(shape) = shape(bench) else {
        builder.push_error(format!("{bench}: Regatta does not build its engines; its shape is not known"));
        return builder.finish(TOOL, TranslationKind::Manifest(Map::new()));
    };
    for (name, accuracy) in accuracies {
        // A target of its own is part of the benchmark's name where the round has both.
        // In v5.0 Interactive was a benchmark of its own.
        let interactive = if is_interactive && read.has_classes { "-interactive" } else { "" };
        let full = if bench == "llama2-70b" { format!("{bench}{interactive}-{accuracy}") } else { bench.to_owned() };
        if let Some(entry) = entries.get_mut(&name).and_then(Value::as_object_mut) {
            let qps = if scenario == "offline" { "offline_qps" } else { "server_qps" };
            let rate = entry.shift_remove(qps).unwrap_or(Value::Null);
            entry.retain(|key, _| !key.ends_with("_qps"));
            entry.insert("target_qps".to_owned(), rate);
            entry.insert("benchmark".to_owned(), json!(full));
        }
    }
    if read.settings.iter().any(|setting| setting.harness != "Triton") {
        builder.note(
            "the Custom harness runs the engine in its own process; Regatta serves it with Triton, one server \
            for each replica",
        );
    }
    if read.settings.iter().any(|setting| WeightFormat::new(setting).kv_cache_dtype.is_some()) {
        builder.note(
            "`use_fp8`: the KV cache is fp8, too, unless a config sets `kv_cache_dtype`: so the README of \
            v4.1 quantizes the weights",
        );
    }
    if read.has_classes {
        builder.note("along a chain of classes mappings are merged, as v5.0 does it; v4.1 replaces them");
        builder.note("Regatta does not have v4.1's rules: the round is v5.0");
    }
    let round = if read.has_classes { "v5.0" } else { "v5.1" };
    builder.finish(TOOL, TranslationKind::Manifest(manifest(bench, scenario, round, &entries, &shape)))
}

/// Keeps only the settings that the user picked.
fn choose(read: &mut ConfigFile, pick: &[String], place: &str, builder: &mut TranslationBuilder) {
    for name in pick {
        if !read.settings.iter().any(|setting| setting.name == *name) {
            let names: Vec<&str> = read.settings.iter().map(|setting| setting.name.as_str()).collect();
            let hint = base::diag::did_you_mean(name, names).unwrap_or_default();
            builder.push_error(format!("{place} has no setting `{name}`; {hint}"));
        }
    }
    if !pick.is_empty() {
        read.settings.retain(|setting| pick.contains(&setting.name));
    }
}

/// The parts of a path: `configs/<system>/<Scenario>/<benchmark>.py`, `configs/<benchmark>/<Scenario>/__init__.py`.
#[derive(Default)]
struct Place {
    system: Option<String>,
    benchmark: Option<&'static str>,
    scenario: Option<&'static str>,
}

impl Place {
    fn new(path: &str) -> Self {
        let mut place = Self::default();
        for step in path.split('/') {
            let step = step.strip_suffix(".py").unwrap_or(step);
            if let Some(name) = benchmark(step) {
                place.benchmark = Some(name);
            } else if machine(step).is_some() {
                place.system = Some(step.to_owned());
            } else {
                place.scenario = scenario(step).or(place.scenario);
            }
        }
        place
    }
}

fn manifest(
    bench: &str,
    scenario: &str,
    round: &str,
    entries: &Map<String, Value>,
    shape: &Value,
) -> Map<String, Value> {
    let names: Vec<&String> = entries.keys().collect();
    // A setting of the Triton harness, if there is one.
    let default = names.iter().find(|name| name.starts_with('t') || name.contains("Triton")).or(names.first());
    let mut manifest: Value =
        serde_yaml::from_str(include_str!("manifest.yaml")).expect("a shipped file is well-formed; goldens read it");
    for (place, value) in [
        ("/name", json!(format!("{bench}-{}", scenario.replace('_', "-")))),
        ("/about", json!(format!("{bench}, {scenario}: from {TOOL}"))),
        ("/params/setting/choice", json!(names)),
        ("/params/setting/default", json!(default)),
        ("/params/round/default", json!(round)),
        ("/vars/model", shape.clone()),
        ("/vars/settings", json!(entries)),
        ("/stages/generate_triton_config/repository/streaming", json!(scenario != "offline")),
        ("/stages/run_harness/bench/scenario", json!(scenario)),
    ] {
        if let Some(target) = manifest.pointer_mut(place) {
            *target = value;
        }
    }
    manifest.as_object().cloned().unwrap_or_default()
}
