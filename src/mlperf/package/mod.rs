//! The result directory of a submission, from the outputs of stages.

mod copy_files;
mod readme;
mod record;
mod request;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::submission_check::MEASUREMENT_FIELDS;
use super::system::{self};
use super::{LOCK_FILE, PackageProvenance, ProvenanceStage, REHEARSAL_FILE, SubmissionLayout};
use crate::spec::Division;
pub use record::FinishedTask;
pub use request::{PackageEntry, PackageRequest, Unpacked};

/// A package that was written.
#[derive(Clone, Debug)]
pub struct WrittenPackage {
    pub lock: PackageProvenance,
    /// `closed/<submitter>`, below the output.
    pub submitter: PathBuf,
}

/// Writes the package into `out`.
pub fn pack(order: &PackageRequest, out: &Path) -> Result<WrittenPackage, Unpacked> {
    let order = &PackageRequest {
        system_json: with_text_flags(&order.system_json),
        measurements: with_text_flags(&order.measurements),
        ..order.clone()
    };
    let known = system::known(&order.machine, &order.gpus);
    let (system_json, missing) = system::compose(&given(order), &known);
    let unset: Vec<(&str, &str, &str)> = MEASUREMENT_FIELDS
        .into_iter()
        .filter(|(name, ..)| !system::is_meaningful(order.measurements.get(*name)))
        .collect();
    let mut problems = Vec::new();
    let mut snippet = None;
    if !(missing.is_empty() && unset.is_empty()) {
        let names: Vec<&str> =
            missing.iter().map(|missing| missing.field.name).chain(unset.iter().map(|(name, ..)| *name)).collect();
        problems.push(format!("values that are not known ({}): {}", names.len(), names.join(", ")));
        snippet = Some(system::snippet(&missing, &unset));
    }
    problems.extend(name_problems(order));
    let tests = copy_files::read_tests(order, &mut problems);
    if !problems.is_empty() {
        return Err(Unpacked::Incomplete { problems, snippet });
    }
    let division = if order.division == Division::Closed { "closed" } else { "open" };
    let submitter = Path::new(division).join(&order.submitter);
    let to =
        copy_files::SubmitterFolder { root: out.join(&submitter), layout: SubmissionLayout::of(&order.round.name) };
    to.json(&Path::new("systems").join(format!("{}.json", order.system)), &Value::Object(system_json))?;
    let results = order
        .results
        .iter()
        .zip(tests)
        .map(|(entry, tests)| copy_files::result(&to, order, entry, tests))
        .collect::<Result<Vec<_>, _>>()?;
    to.tree(order.source.as_deref(), to.layout.source())?;
    to.tree(order.documentation.as_deref(), "documentation")?;
    let lock = PackageProvenance {
        regatta: order.version.clone(),
        round: order.round.name.clone(),
        division: order.division.as_str().to_owned(),
        submitter: order.submitter.clone(),
        system: order.system.clone(),
        rehearsal: order.rehearse,
        results,
        stages: order.upstream_tasks.iter().map(|made| made.stage.clone()).collect::<Vec<ProvenanceStage>>(),
    };
    if to.layout == SubmissionLayout::Split {
        // Until v5.1 each benchmark has a folder of its own there.
        for benchmark in order.results.iter().map(|entry| &entry.benchmark) {
            let folder = Path::new(to.layout.source()).join(benchmark);
            if !to.root.join(&folder).exists() {
                to.text(&folder.join("README.md"), &readme::source(order))?;
            }
        }
    }
    if order.source.is_none() {
        // What was run is source, too: enough to make it again.
        to.text(&Path::new(to.layout.source()).join("README.md"), &readme::source(order))?;
    }
    to.json(&Path::new("documentation").join(LOCK_FILE), &serde_json::to_value(&lock).unwrap_or_default())?;
    if order.rehearse {
        to.text(&Path::new("documentation").join(REHEARSAL_FILE), readme::REHEARSAL)?;
    }
    Ok(WrittenPackage { lock, submitter })
}

/// The fields with flags as texts: the official checker takes `false` for an empty value, and `true` for no text.
fn with_text_flags(fields: &Map<String, Value>) -> Map<String, Value> {
    let text = |value: &Value| if value.is_boolean() { Value::String(value.to_string()) } else { value.clone() };
    fields.iter().map(|(name, value)| (name.clone(), text(value))).collect()
}

/// The manifest's description of the system, with the values it sets elsewhere.
fn given(order: &PackageRequest) -> Map<String, Value> {
    let mut given = order.system_json.clone();
    let division = if order.division == Division::Closed { "closed" } else { "open" };
    for (name, value) in [("division", division), ("submitter", &order.submitter), ("system_name", &order.system)] {
        given.entry(name.to_owned()).or_insert_with(|| value.into());
    }
    given
}

fn name_problems(order: &PackageRequest) -> Vec<String> {
    let mut problems = Vec::new();
    for (key, name) in [("submitter", &order.submitter), ("system", &order.system)] {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "._-+".contains(c)) {
            problems
                .push(format!("`{key}` becomes the name of a folder, with letters, digits, . _ - + only: {name:?}"));
        }
    }
    let known = || order.round.benchmarks.keys().map(String::as_str);
    for entry in &order.results {
        if !order.round.benchmarks.contains_key(&entry.benchmark) {
            let hint = crate::diag::did_you_mean(&entry.benchmark, known())
                .unwrap_or_else(|| format!("there are {}", known().collect::<Vec<_>>().join(", ")));
            problems.push(format!("{} has no benchmark `{}`: {hint}", order.round.name, entry.benchmark));
        }
    }
    for (index, entry) in order.results.iter().enumerate() {
        let same = |other: &PackageEntry| other.benchmark == entry.benchmark && other.scenario == entry.scenario;
        if order.results[..index].iter().any(same) {
            problems.push(format!("{} {} is twice under `results`", entry.benchmark, entry.scenario.title()));
        }
    }
    problems
}
