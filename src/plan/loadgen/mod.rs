//! What a plan holds of MLPerf: LoadGen's tests as the rules require them, how long they take, and what is missing beside them.

mod search;

use std::collections::BTreeMap;

use crate::manifest::model::{self, Action, Bench, Mlperf};
use crate::mlperf::accuracy::needs_sentences;
use crate::mlperf::conf::conf;
use crate::mlperf::{Estimate, MlperfScenario, Round, TestRequest};

use super::{ActionError, ActionKind, Plan};
use crate::spec::Division;
pub use search::{Cost, full_test, short};

/// A `bench` with `loadgen`, as the rules need it. None: there is no `loadgen`, or LoadGen has no such scenario.
pub fn test_request(bench: &Bench) -> Option<TestRequest<'_>> {
    let loadgen = bench.loadgen.as_deref()?;
    Some(TestRequest {
        round: &loadgen.round,
        benchmark: &loadgen.benchmark,
        scenario: MlperfScenario::of(bench.scenario)?,
        mode: loadgen.mode,
        division: loadgen.division,
        rehearsal: loadgen.rehearse,
        // A search sets its own; that of its first probe stands for them.
        target_qps: loadgen.target_qps.or(bench.search.as_ref().map(|search| search.low)),
        user_conf: &loadgen.user_conf,
        dataset_samples: None,
    })
}

/// What the user should know before a plan's LoadGen tests are run: how long each takes, which scores cannot be computed, and
/// which scenarios a closed submission lacks. One line each.
///
/// # Errors
/// A task's action cannot be read.
pub fn notes(plan: &Plan) -> Result<Vec<String>, ActionError> {
    let mut notes = Vec::new();
    for task in plan.tasks.iter().filter(|task| task.skipped.is_none()) {
        if !matches!(task.kind, ActionKind::Bench | ActionKind::Mlperf) {
            continue;
        }
        match task.typed_action()? {
            Action::Bench(bench) => {
                notes.extend(estimate(&bench).map(|text| format!("{}: {text}", task.id)));
            }
            Action::Mlperf(Mlperf::Package(package)) => {
                notes.extend(missing(&package).into_iter().map(|text| format!("{}: {text}", task.id)));
            }
            Action::Mlperf(Mlperf::Score(score)) => {
                notes.extend(unscored(&score).map(|text| format!("{}: {text}", task.id)));
            }
            _ => {}
        }
    }
    Ok(notes)
}

/// Scores that the round asks for and that a stage does not compute as it is.
fn unscored(score: &model::MlperfScore) -> Option<String> {
    if score.sentences.is_some() || score.official.is_some() {
        return None;
    }
    let round = Round::named(&score.round)?;
    let bounds = &round.benchmarks.get(&score.benchmark)?.accuracy;
    let names: Vec<&str> = bounds.keys().map(String::as_str).filter(|name| needs_sentences(name)).collect();
    let what = names.join(" and ");
    (!names.is_empty())
        .then(|| format!("{what} are not scored without `sentences`, the folder of NLTK's punkt_tab/english"))
}

/// What LoadGen will issue, or a search for its highest rate.
fn estimate(bench: &Bench) -> Option<String> {
    if bench.search.is_some() {
        return Cost::of(bench).map(|cost| cost.to_string());
    }
    queries(bench).map(|queries| queries.to_string())
}

/// What LoadGen will issue in one test. None where that depends on a data set that is made up and may be smaller.
pub fn queries(bench: &Bench) -> Option<Estimate> {
    let request = test_request(bench)?;
    if request.rehearsal {
        return None;
    }
    let seed = request.find().ok()?.round.loadgen.seeds.schedule;
    Some(Estimate::of(&conf(&request).ok()?.settings, seed))
}

/// Scenarios that a closed submission of a benchmark must hold and this package does not.
fn missing(package: &model::MlperfPackage) -> Vec<String> {
    let Some(round) = Round::named(&package.round).filter(|_| package.division == Division::Closed) else {
        return Vec::new();
    };
    let mut packed: BTreeMap<&str, Vec<MlperfScenario>> = BTreeMap::new();
    let entries = package.entries();
    for entry in &entries {
        packed.entry(&entry.benchmark).or_default().extend(MlperfScenario::of(entry.scenario));
    }
    let mut notes = Vec::new();
    for (name, there) in packed {
        let Some(benchmark) = round.benchmarks.get(name) else { continue };
        let mut lacks: Vec<String> = benchmark
            .required
            .iter()
            .filter(|scenario| !there.contains(scenario))
            .map(|scenario| scenario.title().to_owned())
            .collect();
        if !benchmark.one_of.is_empty() && !benchmark.one_of.iter().any(|scenario| there.contains(scenario)) {
            let titles: Vec<&str> = benchmark.one_of.iter().map(|scenario| scenario.title()).collect();
            lacks.push(titles.join(" or "));
        }
        if !lacks.is_empty() {
            let (round, lacks) = (&round.name, lacks.join(", and "));
            notes.push(format!("a closed submission of {name} in {round} must hold {lacks}, too"));
        }
    }
    notes
}
