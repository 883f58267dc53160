//! user.conf, README and measurements of a result; and whether user.conf is what was in force.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use indexmap::IndexMap;
use regex::Regex;
use serde_json::{Map, Value};

use super::checks::{FindingWeight, Refused, Review, SubmissionCheck, SubmissionFindings, finding, findings};
use super::tree::{ResultEntry, Submitter, SystemTraits, files, files_of};
use crate::SubmissionLayout;
use base::files::{is_absence, read_description, read_text};
use base::spec::{Division, TestMode};
use rules::log::Detail;
pub(super) use rules::system::is_meaningful;
use rules::system::{FIELDS, network_fields, wrong_values};
use rules::{MEASUREMENT_FIELDS, MlperfScenario, Round, TestRequest, conf};

/// NVIDIA's harness writes this key, which LoadGen does not read; and it sets what the key means, too.
const OF_HARNESS: &str = "performance_sample_count";
/// NVIDIA's harness runs audit tests at this share of the rate, and leaves the user.conf of its last run.
const AUDIT_RATE: f64 = 0.92;
/// LoadGen logs six digits.
const DIGITS: f64 = 1e-5;

/// `runs`: performance, accuracy.
pub(super) fn check(to: &mut SubmissionFindings, entry: &ResultEntry, runs: [Option<&Detail>; 2]) {
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
    let at = folder.join("user.conf");
    let read = read_text(&at);
    findings! { to;
        Review, Unreadable, &at,
            read.as_ref().err().filter(|error| !is_absence(error)).map(|error| format!("it cannot be read: {error}")),
            "it has the settings that LoadGen received, as text", "pack the user.conf of the run";
    }
    if let Ok(text) = read {
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
        conf(to, &at, &text, &request, runs);
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
        Review, Benchmark, &at,
            closed("starting_weights_filename").map(|text| sizes(&text)).unwrap_or_default().into_iter()
                .find(|size| !of_benchmark.is_empty() && !of_benchmark.contains(size))
                .map(|size| format!("`starting_weights_filename` names a model of {size}")), SAME_WEIGHTS, OPEN;
    }
    for (field, meaning, example) in MEASUREMENT_FIELDS {
        let value = fields.get(field);
        if !is_meaningful(value) {
            let finding = if value.is_some() { "is empty" } else { "is missing" };
            let weight = weight_of_empty(value);
            finding!(to; weight, Measurements, &at, format!("`{field}` {finding}"),
                format!("the rules require {meaning}"), format!("`mlperf.package.measurements.{field}: {example}`"));
        }
    }
}

/// Checks user.conf by the rules, and against the effective settings in the log.
fn conf(to: &mut SubmissionFindings, at: &Path, text: &str, request: &TestRequest, runs: [Option<&Detail>; 2]) {
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
    let model = request.find().map(|found| found.benchmark.loadgen_model(request.scenario)).unwrap_or_default();
    for line in conf::in_effect(&written, &model, request.scenario) {
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
            let conf::ConfLine { line, key, value, .. } = line;
            findings! { to;
                Review, UserConf, at,
                    (!is_used).then(|| format!("line {line}: it sets {key} = {value}, but the run used {in_force}")),
                    "user.conf is what the run was made with", "pack the user.conf next to the run's logs";
            }
        }
    }
}

// `systems/<name>.json`: every field there, and saying something.

const IS_NETWORK: &str = "is_network";
/// Fields that the official checker reads as texts; it aborts if one has another type.
const TEXTS: [&str; 7] = ["division", "submitter", "status", "system_type", IS_NETWORK, "hw_notes", "sw_notes"];

/// All systems of a submitter: those with results and those that are described. Gives the traits of those with results.
pub(super) fn check_systems(
    to: &mut SubmissionFindings,
    submitter: &Submitter,
    round: &Round,
) -> BTreeMap<String, SystemTraits> {
    let mut traits_by_system = BTreeMap::new();
    let layout = SubmissionLayout::for_round(&round.name);
    let folder = submitter.folder.join("systems");
    let described: Vec<String> =
        files(&folder).into_iter().filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect();
    for system in &submitter.systems {
        let at = folder.join(format!("{}.json", system.name));
        if !described.contains(&system.name) {
            let near = base::diag::nearest(&system.name, described.iter().map(String::as_str));
            let near = near.map(|near| format!("; there is {near}.json")).unwrap_or_default();
            finding!(to; Refused, SystemName, &at, format!("the system is described by no file{near}"),
                "a folder under results/ and its JSON under systems/ have one name, letter by letter",
                "rename one of them, also in `system_json` of the manifest");
            continue;
        }
        let traits = check_description(to, &at, submitter, layout).unwrap_or_default();
        let of_one_type = Some(traits.system_type.clone()).filter(|_| submitter.division != "open");
        traits_by_system.insert(system.name.clone(), traits);
        for found in &system.benchmarks {
            let Some(benchmark) = round.benchmarks.get(&found.name) else { continue };
            // On the edge a benchmark has SingleStream.
            let of_edge = benchmark.required.contains(&MlperfScenario::SingleStream);
            let (is, other) = match of_one_type.as_deref() {
                Some("edge") if !of_edge => ("edge", "datacenter"),
                Some("datacenter") if of_edge => ("datacenter", "edge"),
                _ => continue,
            };
            finding!(to; Refused, SystemFields, &at,
                format!("`system_type` is {is}, and {} is for {other} systems", found.name),
                "each benchmark is for datacenter systems, for the edge, or for both",
                format!("`system_type: {other}`"));
        }
    }
    let text = |name: &str| read_description(folder.join(format!("{name}.json"))).ok();
    for (index, system) in submitter.systems.iter().enumerate().filter(|_| submitter.division != "open") {
        let same = submitter.systems[..index]
            .iter()
            .find(|other| text(&system.name).is_some_and(|described| text(&other.name) == Some(described)));
        findings! { to;
            Review, TwoSystems, &folder.join(format!("{}.json", system.name)),
                same.map(|other| format!("it is, byte for byte, {}.json", other.name)),
                "two systems differ in something", "describe each of them";
        }
    }
    for name in described.iter().filter(|name| !submitter.systems.iter().any(|system| system.name == **name)) {
        let at = folder.join(format!("{name}.json"));
        let weight = FindingWeight::of_older_checker(layout);
        finding!(to; weight, SystemName, &at, "no result uses this system",
            "every described system has results", "remove it");
    }
    traits_by_system
}

/// Of a value with no meaning: the official checker takes a place-holder, and any text but an empty one.
pub(super) fn weight_of_empty(value: Option<&Value>) -> FindingWeight {
    match value {
        Some(Value::String(text)) if !text.is_empty() => Review,
        _ => Refused,
    }
}

/// Numbers, lists and flags where the official checker wants a text.
fn texts(to: &mut SubmissionFindings, at: &Path, fields: &Map<String, Value>) {
    let is_other = |value: &&Value| !value.is_string() && !value.is_null();
    for name in TEXTS {
        let Some(value) = fields.get(name).filter(is_other) else { continue };
        // An empty one was reported where a field must not be empty, and is passed over in the notes.
        if name != IS_NETWORK && !is_meaningful(Some(value)) {
            continue;
        }
        finding!(to; Refused, SystemFields, at, format!("`{name}` is not text: {value}"),
            "the official checker expects a text here, and aborts",
            if name == IS_NETWORK { "remove it, or write \"true\" in quotes" } else { "write it in quotes" });
    }
}

/// The fields of a description. None: it cannot be read, which is reported, as is a field that is there twice.
pub(super) fn read_fields(to: &mut SubmissionFindings, at: &Path, rule: &str) -> Option<Map<String, Value>> {
    let read = read_description(at).map_err(|error| error.to_string());
    let parsed = read.and_then(|text| Ok((serde_json::from_str(&text).map_err(|error| error.to_string())?, text)));
    match parsed {
        Ok((fields, text)) => {
            // JSON is YAML, whose reader refuses a key that is there twice.
            let error = serde_yaml::from_str::<serde_yaml::Mapping>(&text).err().map(|error| error.to_string());
            if let Some(error) = error.filter(|error| error.contains("duplicate entry")) {
                finding!(to; Review, DuplicateKey, at, error,
                    "a reader may use either of the two", "keep the one that is right");
            }
            Some(fields)
        }
        Err(error) => {
            finding!(to; Refused, UnreadableJSON, at, error, rule, "make it a JSON object");
            None
        }
    }
}

/// None: it cannot be read.
fn check_description(
    to: &mut SubmissionFindings,
    at: &Path,
    submitter: &Submitter,
    layout: SubmissionLayout,
) -> Option<SystemTraits> {
    let fields = read_fields(to, at, "it describes the system")?;
    for field in FIELDS.iter() {
        let value = fields.get(field.name);
        let finding = match value {
            None => "is missing",
            Some(_) if field.meaningful && !is_meaningful(value) => "is empty",
            Some(_) => continue,
        };
        finding!(to; weight_of_empty(value), SystemFields, at, format!("`{}` {finding}", field.name),
            format!("the rules require {}", field.meaning),
            format!("`mlperf.package.system_json.{}: {}`", field.name, field.example));
    }
    texts(to, at, &fields);
    for wrong in wrong_values(&fields) {
        // Since v6.0 the official checker multiplies the numbers; until v5.1 it copies them, and a published system
        // of v4.1 has `N/A`.
        let is_number = !["status", "system_type"].contains(&wrong.field);
        let weight = if is_number { FindingWeight::of_newer_checker(layout) } else { Refused };
        finding!(to; weight, SystemFields, at, wrong.what, wrong.why, wrong.fix);
    }
    for (name, expected) in [("submitter", &submitter.name), ("division", &submitter.division)] {
        let text = fields.get(name).and_then(Value::as_str).unwrap_or_default();
        if !text.is_empty() && text != expected {
            let finding = format!("`{name}` is {text:?}, its folder is {expected:?}");
            let same = text.eq_ignore_ascii_case(expected);
            let weight = if same { Review } else { Refused };
            finding!(to; weight, SystemFields, at, finding,
                "both names must be identical", "take the folder's name");
        }
    }
    accelerators(to, at, &fields);
    let is_network = network(to, at, &fields, layout);
    let is_elsewhere = is_network != (submitter.division == "network") && submitter.division != "open";
    findings! { to;
        Refused, SystemFields, at,
            is_elsewhere.then(|| format!("`is_network` is {is_network} in the division {}", submitter.division)),
            "only the Network division has LoadGen on another machine", "pack it for the other division";
    }
    let system_type = fields.get("system_type").and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(SystemTraits { system_type, is_network })
}

/// In names: an accelerator, as `H100` and `MI355X`; its memory; how many there are, as `80GBx8` and `8x H100`.
static NAMED: LazyLock<[Regex; 3]> = LazyLock::new(|| {
    [
        r"\b((?:GB|GH|MI|A|B|H|L)\d{2,3}[A-Z]?|L4)\b",
        r"(?:^|[^.\d])(\d+) ?GB(?:x|\b)",
        r"GBx(\d+)\b|\b(\d+)x ?(?:GB|GH|MI|A|B|H|L)\d",
    ]
    .map(|pattern| Regex::new(pattern).expect("a pattern that compiles"))
});

/// Reports accelerators other than those that the system is named after. Three published systems, of v6.0, name another
/// memory.
fn accelerators(to: &mut SubmissionFindings, at: &Path, fields: &Map<String, Value>) {
    let text = |name: &str| match fields.get(name) {
        Some(Value::String(text)) => text.replace(['_', '-'], " "),
        value => value.map(Value::to_string).unwrap_or_default(),
    };
    let file = at.file_stem().unwrap_or_default().to_string_lossy().replace(['_', '-'], " ");
    let parts = |pattern: &Regex, text: &str| -> BTreeSet<String> {
        let last = |part: regex::Captures| Some(part.iter().flatten().last()?.as_str().to_owned());
        pattern.captures_iter(text).filter_map(last).collect()
    };
    let [model, memory, count] = &*NAMED;
    let count_of = |name: &str| text(name).parse::<u64>().ok();
    let per_node = count_of("accelerators_per_node");
    let total = per_node.zip(count_of("number_of_nodes")).map(|(count, nodes)| count.saturating_mul(nodes));
    let counts = total.or(per_node).map(|count| count.to_string()).into_iter().collect();
    for (pattern, field, given) in [
        (model, "accelerator_model_name", parts(model, &text("accelerator_model_name"))),
        (memory, "accelerator_memory_capacity", parts(memory, &text("accelerator_memory_capacity"))),
        (count, "accelerators_per_node", counts),
    ] {
        let names = [&text("system_name"), &file].map(|name| parts(pattern, name));
        let other = names.into_iter().find(|named| !named.is_empty() && !given.is_empty() && named.is_disjoint(&given));
        findings! { to;
            Review, TwoSystems, at,
                other.map(|named| {
                    let named = named.into_iter().collect::<Vec<_>>().join(", ");
                    format!("`{field}` is {}, and the system is named after {named}", text(field))
                }),
                "the name and the description must be of the same system", "correct the one that is wrong";
        }
    }
}

/// Whether the system is behind a network; reports what its description lacks then. Since v6.0 the official checker
/// asks for it wherever `is_network` has a text, `"false"`, too.
fn network(to: &mut SubmissionFindings, at: &Path, fields: &Map<String, Value>, layout: SubmissionLayout) -> bool {
    let text = fields.get(IS_NETWORK).and_then(Value::as_str).unwrap_or_default();
    let is_network = text.eq_ignore_ascii_case("true");
    let is_asked_for = is_network || layout == SubmissionLayout::Single && !text.is_empty();
    let missing: Vec<&str> = network_fields().filter(|name| !fields.contains_key(*name)).collect();
    if is_asked_for && !missing.is_empty() {
        let finding = format!("`is_network` is {text:?}, and these are missing: {}", missing.join(", "));
        let (why, fix) = if is_network {
            ("a system behind a network has them", "add them; each may be empty")
        } else {
            ("since v6.0 the official checker asks for them wherever `is_network` has a text", "take `is_network` out")
        };
        finding!(to; Refused, SystemFields, at, finding, why, fix);
    }
    is_network
}
