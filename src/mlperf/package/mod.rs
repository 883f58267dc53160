//! The result directory of a submission, from the outputs of stages.

mod copy_files;
mod readme;
mod record;
mod request;

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{PACKAGE_LOCK_FILE, PackageProvenance, ProvenanceStage, REHEARSAL_FILE, SubmissionLayout};
use base::spec::Division;
pub use record::FinishedTask;
pub use request::{PackageEntry, PackageRequest, Unpacked};
use rules::system;

/// A package that was written.
#[derive(Clone, Debug)]
pub struct WrittenPackage {
    pub lock: PackageProvenance,
    /// `closed/<submitter>`, below the output.
    pub submitter: PathBuf,
}

/// Writes the package into `out`.
pub fn pack(order: &PackageRequest, out: &Path) -> Result<WrittenPackage, Unpacked> {
    let description = order.given_description().completed(order.machine.as_deref(), &order.gpus);
    let missing = description.missing();
    let mut problems = Vec::new();
    let mut snippet = None;
    if !missing.is_empty() {
        problems.push(format!("values that are not known ({}): {}", missing.len(), missing.join(", ")));
        snippet = Some(system::snippet(&description.missing_fields, &description.missing_measurements));
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
    to.json(&Path::new("systems").join(format!("{}.json", order.system)), &Value::Object(description.system_json))?;
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
    to.json(&Path::new("documentation").join(PACKAGE_LOCK_FILE), &serde_json::to_value(&lock).unwrap_or_default())?;
    if order.rehearse {
        to.text(&Path::new("documentation").join(REHEARSAL_FILE), readme::REHEARSAL)?;
    }
    Ok(WrittenPackage { lock, submitter })
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
            let hint = base::diag::did_you_mean(&entry.benchmark, known())
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
