//! A run in the folder `mlruns`, as MLflow's file store keeps it: numbers as metrics, requested settings as params, verdict and
//! identity as tags, `result.json` as an artifact. `mlflow ui` reads it next to runs of MLflow's own, and `mlflow
//! migrate-filestore` takes it into a database. The numbers are Regatta's own, with Regatta's definitions.

use serde_json::{Value, json};

use crate::metrics::MeasuredRun;
use crate::results::exported::{Exported, facts};
use crate::results::identity;
use base::files::Sha256Of;

/// Of all runs of Regatta: its name, and its number in the form of MLflow's own.
const EXPERIMENT: &str = "regatta";
const EXPERIMENT_ID: &str = "264174826417482641";
/// `RunStatus.FINISHED`.
const FINISHED: u64 = 3;
/// `SourceType.LOCAL`.
const LOCAL: u64 = 4;

pub(crate) fn write(measured_run: &MeasuredRun, out: &mut Exported) {
    let started = (facts(measured_run).epoch_ns() / 1_000_000) as i64;
    let id = run_id(measured_run);
    let experiment = format!("mlruns/{EXPERIMENT_ID}");
    let run = format!("{experiment}/{id}");
    let meta = json!({
        "artifact_location": format!("./{experiment}"),
        "creation_time": started,
        "experiment_id": EXPERIMENT_ID,
        "last_update_time": started,
        "lifecycle_stage": "active",
        "name": EXPERIMENT,
    });
    // JSON is YAML.
    out.json(format!("{experiment}/meta.yaml"), &meta);
    let window_ms = measured_run.result.own().map_or(0.0, |own| own.rates.window_s * 1e3);
    let meta = json!({
        "artifact_uri": format!("./{run}/artifacts"),
        // Set-up is before the window, and is not in it.
        "end_time": started.saturating_add(window_ms as i64),
        "entry_point_name": "",
        "experiment_id": EXPERIMENT_ID,
        "lifecycle_stage": "active",
        "run_id": id,
        "run_name": measured_run.name,
        "source_name": "",
        "source_type": LOCAL,
        "source_version": "",
        "start_time": started,
        "status": FINISHED,
        "tags": [],
        "user_id": "",
    });
    out.json(format!("{run}/meta.yaml"), &meta);
    for (name, value) in metrics(measured_run) {
        out.file(format!("{run}/metrics/{name}"), format!("{started} {value} 0\n"));
    }
    let mut params = Vec::new();
    for (key, value) in measured_run.result.requested() {
        flatten(&key, &value, &mut params);
    }
    for (name, value) in params {
        out.file(format!("{run}/params/{}", plain(&name)), value);
    }
    let tags = identity::entries(measured_run).into_iter().map(|(name, value)| (format!("regatta.{name}"), value));
    let own = [
        ("mlflow.runName", measured_run.name.as_str()),
        ("mlflow.source.name", "regatta"),
        ("mlflow.source.type", "LOCAL"),
    ];
    let own = own.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let several = Some(measured_run.result.runs()).filter(|runs| *runs > 1);
    let several = several
        .map(|runs| ("regatta.runs".to_owned(), format!("{runs}: metrics are means over them, counts their sums")));
    for (name, value) in own.chain(tags).chain(several) {
        out.file(format!("{run}/tags/{}", plain(&name)), value);
    }
    out.json(format!("{run}/artifacts/result.json"), &json!(measured_run.result));
}

/// The same run has the same, so that a second export replaces the first.
fn run_id(measured_run: &MeasuredRun) -> String {
    let mut hasher = Sha256Of::default();
    hasher.update(json!(measured_run.result).to_string().as_bytes());
    hasher.finish().chars().take(32).collect()
}

/// `ttft_p99`, `output_tokens_per_s`, …: of a measurement of several runs, the means over them, and their counts together.
fn metrics(measured_run: &MeasuredRun) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    for metric in measured_run.result.metrics() {
        let stats =
            metric.stats.into_iter().filter_map(|(stat, value)| Some((format!("{}_{stat}_ms", metric.key), value?)));
        all.extend(stats);
    }
    for (key, name) in [
        ("requests_full", "requests_per_s"),
        ("requests_loadgen_completed", "requests_loadgen_completed_per_s"),
        ("output_tokens", "output_tokens_per_s"),
    ] {
        all.extend(measured_run.result.rate(key).map(|rate| (name.to_owned(), rate)));
    }
    if let Some(own) = measured_run.result.own() {
        for (name, of_run) in [("requests_ok", own.counts.ok), ("requests_failed", own.counts.failed)] {
            all.extend(own.count(name, of_run).map(|count| (name.to_owned(), count as f64)));
        }
        let goodput = own.goodput.as_ref();
        for (key, name, of_run) in [
            ("goodput", "goodput_per_s", goodput.and_then(|goodput| goodput.requests)),
            ("attainment", "slo_attainment", goodput.and_then(|goodput| goodput.attainment)),
        ] {
            all.extend(own.number(key, of_run).map(|value| (name.to_owned(), value)));
        }
    }
    all
}

/// `scenario.server.rate` and its value; what is not set is left out.
fn flatten(key: &str, value: &Value, all: &mut Vec<(String, String)>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (field, value) in fields {
                flatten(&format!("{key}.{field}"), value, all);
            }
        }
        Value::String(text) => all.push((key.to_owned(), text.clone())),
        other => all.push((key.to_owned(), other.to_string())),
    }
}

/// A key of MLflow is a file name of letters, digits and some signs.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "_-. ".contains(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::MeasuredResult;
    use harness::{RunResult, result_of_repeats};

    #[test]
    fn a_measurement_of_several_runs_has_their_means_and_all_failures() {
        let text = include_str!("../../../tests/golden/results/benchmark/result.json");
        let one: RunResult = serde_json::from_str(text).unwrap();
        let runs = [(200.0, 10.0, 0), (300.0, 20.0, 2), (400.0, 60.0, 1)].map(|(p99, rate, failed)| {
            let mut run = one.clone();
            (run.latency.ttft.p99, run.rates.output_tokens, run.counts.failed) = (Some(p99), Some(rate), failed);
            run
        });
        let whole = result_of_repeats(&runs).unwrap();
        let result = MeasuredResult::Regatta(Box::new(whole));
        let run = MeasuredRun { name: "load".to_owned(), result, request_traces: Vec::new() };
        let found = metrics(&run);
        let of = |name: &str| found.iter().find(|metric| metric.0 == name).map(|metric| metric.1);
        assert_eq!(
            (of("ttft_p99_ms"), of("output_tokens_per_s"), of("requests_failed")),
            (Some(300.0), Some(30.0), Some(3.0))
        );
        let mut out = Exported::default();
        write(&run, &mut out);
        let tag = out.files.iter().find(|file| file.name.ends_with("/tags/regatta.runs")).expect("a mark");
        assert!(tag.bytes.starts_with(b"3: metrics are means"), "{tag:?}");
    }
}
