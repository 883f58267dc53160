//! user.conf, README and measurements of a result; and whether user.conf is what was in force.

use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde_json::Value;

use super::checks::{Refused, Review, SubmissionCheck, SubmissionFindings, finding, findings};
use super::system::{is_meaningful, read_fields, weight_of_empty};
use super::tree::{ResultEntry, files, files_of};
use crate::SubmissionLayout;
use base::files::{is_absence, read_description, read_document, read_text};
use base::spec::{Division, TestMode};
use rules::conf::{self, ConfLine};
use rules::log::Detail;
use rules::{MEASUREMENT_FIELDS, TestRequest};

/// NVIDIA's harness writes this key, which LoadGen does not read; and it sets what the key means, too.
const OF_HARNESS: &str = "performance_sample_count";
/// NVIDIA's harness runs audit tests at this share of the rate, and leaves the user.conf of its last run.
const AUDIT_RATE: f64 = 0.92;
/// LoadGen logs six digits.
const DIGITS: f64 = 1e-5;

/// Performance, accuracy.
type Runs<'a> = [Option<&'a Detail>; 2];

pub(super) fn check(to: &mut SubmissionFindings, entry: &ResultEntry, runs: Runs) {
    let folder = entry.measurements();
    let fix = "pack again; `mlperf: { package: … }` writes it";
    for (name, rule) in [
        ("user.conf", "it has the settings that LoadGen received"),
        ("README.md", "it has the commands to repeat the result"),
    ] {
        let at = folder.join(name);
        match std::fs::metadata(&at).map(|meta| meta.len()) {
            Ok(0) => finding!(to; Refused, EmptyFile, &at, "it is empty", rule, fix),
            Ok(_) => {}
            Err(error) => to.refuse_unread(&at, &error, rule, fix),
        }
    }
    measurements(to, entry, &folder);
    source_of_benchmark(to, entry);
    // Of 936 published READMEs 14 do not name the benchmark: place-holders, and those of another one.
    let plain = |text: &str| text.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "");
    let model = entry.table.loadgen_model.trim_end_matches("-edge");
    let is_other = |text: &String| entry.is_closed() && !text.is_empty() && !plain(text).contains(&plain(model));
    let (readme, at) = (folder.join("README.md"), folder.join("user.conf"));
    let read = read_text(&at);
    findings! { to;
        Review, Documentation, &readme,
            read_document(&readme).ok().filter(is_other).map(|_| format!("it does not name {model}")),
            "it has the commands to repeat the result", "write the commands that this benchmark was run with";
        Review, Unreadable, &at,
            read.as_ref().err().filter(|error| !is_absence(error)).map(|error| format!("it cannot be read: {error}")),
            "it has the settings that LoadGen received, as text", "pack the user.conf of the run";
    }
    let none = IndexMap::new();
    let request = TestRequest {
        round: &entry.round.name,
        benchmark: entry.official,
        scenario: runs[0].map_or(entry.titled, |detail| entry.scenario_of_run(detail)),
        mode: TestMode::Performance,
        division: if entry.is_closed() { Division::Closed } else { Division::Open },
        rehearsal: false,
        target_qps: None,
        user_conf: &none,
        dataset_samples: None,
    };
    if let Ok(text) = read {
        conf(to, &at, &text, &request, runs);
    }
    // LoadGen has its own mlperf.conf; a copy says by what limits the result was judged.
    let at = folder.join("mlperf.conf");
    let read = read_text(&at);
    let text = read.as_deref().unwrap_or_default();
    let is_limit = |line: &str| ["ttft_latency", "tpot_latency"].iter().any(|key| line.contains(key));
    let (mut limits, unread) = conf::read(text);
    limits.retain(|line| is_limit(&line.key));
    in_force(to, &at, &limits, &request, runs);
    let unread = unread.iter().find(|(line, _)| text.lines().nth(line - 1).is_some_and(is_limit));
    let fault = read.as_ref().err().filter(|error| !is_absence(error)).map(ToString::to_string);
    findings! { to;
        Review, Unreadable, &at, fault.or_else(|| unread.map(|(line, fault)| format!("line {line}: {fault}"))),
            "it has the limits of the latencies, as text", "pack the mlperf.conf of the run";
    }
}

/// Until v5.1 the source has a folder, or a file that names one, for each benchmark.
fn source_of_benchmark(to: &mut SubmissionFindings, entry: &ResultEntry) {
    let source = entry.submitter.folder.join(entry.layout.source());
    let has_own = [entry.benchmark, entry.official].iter().any(|name| files_of(&source.join(name)).next().is_some());
    if entry.layout == SubmissionLayout::Split && source.is_dir() && !has_own {
        let at = source.join(entry.benchmark);
        finding!(to; Refused, Source, &at, "it is missing, or has only empty files",
            "until v5.1 each benchmark has a folder of its own under code/",
            "put the code, or a README.md that names it, there");
    }
}

/// The description of a result's weights.
fn measurements_file(entry: &ResultEntry) -> Option<PathBuf> {
    let folder = entry.measurements();
    let is_named = |name: &String| name.starts_with(entry.system) && name.rsplit('.').next() == Some("json");
    let name = match entry.layout {
        SubmissionLayout::Single => Some("measurements.json".to_owned()).filter(|name| folder.join(name).is_file()),
        SubmissionLayout::Split => files(&folder).into_iter().find(is_named),
    };
    Some(folder.join(name?))
}

/// The scenarios of a benchmark on one system have the same weights.
pub(super) fn one_model(to: &mut SubmissionFindings, entries: &[ResultEntry]) {
    const FIELD: &str = "weight_data_types";
    let types = |entry: &ResultEntry| {
        let at = measurements_file(entry)?;
        let fields: Value = serde_json::from_str(&read_description(&at).ok()?).ok()?;
        Some((entry.scenario.to_owned(), fields.get(FIELD)?.as_str()?.to_owned(), at))
    };
    let types: Vec<_> = entries.iter().filter(|entry| entry.is_closed()).filter_map(types).collect();
    let Some((scenario, first, _)) = types.first() else { return };
    for (_, other, at) in &types {
        findings! { to;
            Review, WeightTypes, at,
                (!other.eq_ignore_ascii_case(first))
                    .then(|| format!("`{FIELD}` is {other:?}, and {first:?} in {scenario}")),
                "a reviewer compares the scenarios of a benchmark, which one accuracy is claimed for",
                "correct the field, or be ready to explain that each scenario has its own weights";
        }
    }
}

const SAME_WEIGHTS: &str = "a closed result has the reference's weights, quantized at most; others belong in Open";
const OPEN: &str = "submit it to Open, or correct the field";

/// Types in which the weights of a reference are distributed.
const UNCHANGED: [&str; 5] = ["bf16", "bfloat16", "fp16", "float16", "fp32"];
/// Benchmarks whose reference is distributed quantized, and as what.
const QUANTIZED: [(&str, &str); 2] = [("deepseek-r1", "fp8"), ("gpt-oss-120b", "mxfp4")];

/// Sizes of models in a name: `70b` of `Llama-2-70b-chat-hf`.
fn sizes(name: &str) -> Vec<String> {
    let is_size = |part: &&str| part.strip_suffix('b').is_some_and(|size| size.parse::<u32>().is_ok() || size == "8x7");
    let name = name.to_lowercase();
    name.split(['-', '_', '/', ' ']).filter(is_size).map(str::to_owned).collect()
}

fn measurements(to: &mut SubmissionFindings, entry: &ResultEntry, folder: &Path) {
    let Some(at) = measurements_file(entry) else {
        let at = folder.join(entry.layout.measurements_file(entry.system, entry.scenario));
        finding!(to; Refused, MissingFile, &at, "the measurements JSON is missing",
            match entry.layout {
                SubmissionLayout::Single => "since v6.0 it is in the result's folder",
                SubmissionLayout::Split => "until v5.1 it is under measurements/, named after the system",
            },
            "pack again for this round");
        return;
    };
    let Some(fields) = read_fields(to, &at, "it describes how the model was made") else { return };
    let closed = |name: &str| fields.get(name)?.as_str().filter(|_| entry.is_closed()).map(str::to_owned);
    let of_benchmark = sizes(entry.official);
    findings! { to;
        Review, Retraining, &at,
            closed("retraining")
                .filter(|text| !["", "no", "none", "false"].contains(&text.to_lowercase().as_str()))
                .map(|text| format!("`retraining` is {text:?}")), SAME_WEIGHTS, OPEN;
        Review, Retraining, &at,
            closed("weight_transformations")
                .filter(|text| ["prun", "spars", "distill"].iter().any(|part| text.to_lowercase().contains(part)))
                .map(|text| format!("`weight_transformations` is {text:?}")), SAME_WEIGHTS, OPEN;
        Review, WeightTypes, &at,
            closed("weight_data_types").zip(closed("weight_transformations"))
                .filter(|(types, transformed)| {
                    let types = types.to_lowercase();
                    let is_of_reference =
                        UNCHANGED.contains(&&*types) || QUANTIZED.contains(&(entry.official, &*types));
                    !is_of_reference && ["no", "none"].contains(&transformed.to_lowercase().as_str())
                })
                .map(|(types, _)| format!("`weight_data_types` is {types:?}, and nothing is transformed")),
            "weights of other types than the reference's were quantized", "write in `weight_transformations` how";
        Review, Benchmark, &at,
            closed("starting_weights_filename").map(|text| sizes(&text)).unwrap_or_default().into_iter()
                .find(|size| !of_benchmark.is_empty() && !of_benchmark.contains(size))
                .map(|size| format!("`starting_weights_filename` names a model of {size}")), SAME_WEIGHTS, OPEN;
    }
    for (field, meaning, example) in MEASUREMENT_FIELDS {
        let value = fields.get(field);
        if !is_meaningful(value) {
            let finding = if value.is_some() { "is empty" } else { "is missing" };
            finding!(to; weight_of_empty(value), Measurements, &at, format!("`{field}` {finding}"),
                format!("the rules require {meaning}"), format!("`mlperf.package.measurements.{field}: {example}`"));
        }
    }
}

/// Checks user.conf by the rules, and against the effective settings in the log.
fn conf(to: &mut SubmissionFindings, at: &Path, text: &str, request: &TestRequest, runs: Runs) {
    let is_offline = request.scenario.loadgen() == "Offline";
    let written = conf::read(text).0;
    // One file serves both runs: a number of samples may be that of the accuracy run.
    let is_of_accuracy_run = |number: usize, setting: &str| {
        let logged = conf::logged(setting).and_then(|(key, factor)| Some(runs[1]?.number(key)? / factor));
        let value = written.iter().find(|given| given.line == number).and_then(|given| given.value.parse().ok());
        value.is_some() && logged == value
    };
    for (line, wrong) in conf::review(text, request) {
        let is_counted_elsewhere = match wrong.at.last().map(String::as_str) {
            // In Offline the rate decides how many samples are issued, which are counted.
            None => line == 0 && is_offline,
            Some("min_query_count") => is_offline,
            Some(setting @ "performance_sample_count_override") => is_of_accuracy_run(line, setting),
            Some(setting) => setting == OF_HARNESS,
        };
        if is_counted_elsewhere {
            continue;
        }
        let place = if line == 0 { String::new() } else { format!("line {line}: ") };
        let key = wrong.at.last().map(|key| format!("`{key}` ")).unwrap_or_default();
        // What the run used is in its log; the official checker asks only that user.conf is there.
        let is_forbidden = request.division == Division::Closed
            && wrong.at.last().is_some_and(|key| conf::is_open_only(key, request.scenario));
        // Settings that a rehearsal shortens are reported under the same checks as in its log.
        let check = match wrong.at.last().map(String::as_str) {
            Some("min_duration") => SubmissionCheck::Duration,
            Some("min_query_count" | "performance_sample_count_override") => SubmissionCheck::SampleCount,
            Some("accuracy_sample_count_override") => SubmissionCheck::AccuracySamples,
            _ => SubmissionCheck::UserConf,
        };
        let weight = if is_forbidden { Refused } else { Review };
        let fix = wrong.hint.unwrap_or_else(|| "remove it, and run again without it".to_owned());
        to.add(weight, check, at, format!("{place}{key}{}", wrong.what), wrong.rule, fix);
    }
    in_force(to, at, &written, request, runs);
}

/// Reports lines of a file of settings with another value than that in force.
fn in_force(to: &mut SubmissionFindings, at: &Path, written: &[ConfLine], request: &TestRequest, runs: Runs) {
    let is_offline = request.scenario.loadgen() == "Offline";
    let model = request.find().map(|found| found.benchmark.loadgen_model(request.scenario)).unwrap_or_default();
    for line in conf::in_effect(written, &model, request.scenario) {
        // Of SingleStream the latency is what is expected, and no limit.
        let is_judged = (!["target_qps", "min_query_count"].contains(&line.key.as_str()) || !is_offline)
            && (line.key != "target_latency" || request.scenario.loadgen() == "Server");
        let name: &str = if line.key == OF_HARNESS { "performance_sample_count_override" } else { &line.key };
        let logged = conf::logged(name).filter(|_| is_judged);
        let used = |detail: &Detail| {
            let (key, factor) = logged?;
            Some(detail.number(key).or_else(|| detail.flag(key).map(|flag| f64::from(u8::from(flag))))? / factor)
        };
        if let Some(in_force) = runs[0].and_then(used)
            && let Ok(written) = line.value.parse::<f64>()
            // 0 means: LoadGen's own.
            && written != 0.0
        {
            let of_audit = (name == "target_qps").then_some(in_force * AUDIT_RATE);
            let may_be = [Some(in_force), runs[1].and_then(used), of_audit];
            let is_used = may_be.into_iter().flatten().any(|value| (written - value).abs() <= DIGITS * value);
            let ConfLine { line, key, value, .. } = line;
            findings! { to;
                Review, UserConf, at,
                    (!is_used).then(|| format!("line {line}: it sets {key} = {value}, but the run used {in_force}")),
                    "it is what the run was made with", "pack the file that lies beside the run's logs";
            }
        }
    }
}
