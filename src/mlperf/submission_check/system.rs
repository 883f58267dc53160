//! `systems/<name>.json`: required fields, their values, and whether they agree with the system's name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::checks::{FindingWeight, Refused, Review, SubmissionCheck, SubmissionFindings, finding, findings};
use super::tree::{Submitter, SystemTraits, files};
use crate::SubmissionLayout;
use base::files::read_description;
pub(super) use rules::system::is_meaningful;
use rules::system::{FIELDS, network_fields, wrong_values};
use rules::{MlperfScenario, Round};

const IS_NETWORK: &str = "is_network";
/// Fields that the official checker reads as texts; it aborts if one has another type.
const TEXTS: [&str; 7] = ["division", "submitter", "status", "system_type", IS_NETWORK, "hw_notes", "sw_notes"];

/// All systems of a submitter: those with results and those that are described. Gives the traits of those with results.
pub(super) fn check(
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
        // An amount, or a version.
        let has_number =
            ["host_memory_capacity", "host_processor_core_count", "operating_system"].contains(&field.name);
        let is_word = |text: &str| has_number && !text.contains(|c: char| c.is_ascii_digit());
        let finding = match value {
            None => "is missing",
            Some(_) if field.meaningful && !is_meaningful(value) => "is empty",
            Some(Value::String(text)) if is_word(text) => "has no number",
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
            "only the Network division allows LoadGen on another machine", "pack it for the other division";
    }
    let system_type = fields.get("system_type").and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(SystemTraits { system_type, is_network })
}

/// In names: an accelerator, as `H100` and `MI355X`; its memory; how many there are, as `80GBx8` and `8x H100`.
static NAMED: LazyLock<[Regex; 3]> = LazyLock::new(|| {
    [
        r"(?:\b|\dx)((?:GB|GH|MI|A|B|H|L)\d{2,3}[A-Z]?|L4)\b",
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
        let names = [text("system_name"), file.clone(), text("accelerator_model_name")];
        let names = names.map(|name| parts(pattern, &name));
        let other = names.into_iter().find(|named| !named.is_empty() && !given.is_empty() && named.is_disjoint(&given));
        findings! { to;
            Review, TwoSystems, at,
                other.map(|named| {
                    let named = named.into_iter().collect::<Vec<_>>().join(", ");
                    format!("`{field}` is {}, and the system or its accelerator is named after {named}", text(field))
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
