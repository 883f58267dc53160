//! What a plan holds of MLPerf: LoadGen's tests as the rules require them, how long they take, and what is missing beside them.

mod package_notes;
mod search;

use std::path::Path;

use crate::manifest::model::{self, Action, Bench, Mlperf};
use base::event::Endpoint;
use rules::conf::conf;
use rules::{Estimate, MlperfScenario, Round, TestRequest, needs_sentences};

use super::{Plan, Task};
use package_notes::package_notes;
pub use search::{Cost, full_test, short};

/// A `bench` with `loadgen`, as the rules need it. None: there is no `loadgen`, or LoadGen has no such scenario.
pub fn test_request(bench: &Bench) -> Option<TestRequest<'_>> {
    let loadgen = bench.loadgen.as_deref()?;
    Some(TestRequest {
        round: &loadgen.round,
        benchmark: &loadgen.benchmark,
        scenario: MlperfScenario::from_scenario(bench.scenario)?,
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
/// what a package lacks, as detected below the root folder of this machine. One line each.
pub fn notes(plan: &Plan, machine: &Path) -> Vec<String> {
    let mut notes = Vec::new();
    let servers = external_servers(plan);
    for task in &plan.tasks {
        let texts = match task.action() {
            Some(Action::Bench(bench)) => estimate(bench).into_iter().collect(),
            Some(Action::Mlperf(Mlperf::Package(package))) => package_notes(package, machine, &servers),
            Some(Action::Mlperf(Mlperf::Score(score))) => unscored(score).into_iter().collect(),
            _ => Vec::new(),
        };
        notes.extend(texts.into_iter().map(|text| format!("{}: {text}", task.id)));
    }
    notes
}

/// The servers of a plan that none of its stages starts.
fn external_servers(plan: &Plan) -> Vec<Endpoint> {
    let mut servers: Vec<Endpoint> = Vec::new();
    for server in plan.tasks.iter().filter(|task| task.bench().is_some()).flat_map(Task::external_servers) {
        if !servers.contains(server) {
            servers.push(server.clone());
        }
    }
    servers
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
    Some(Estimate::new(&conf(&request).ok()?.settings, seed))
}
