//! `regatta mlperf search`: the highest target_qps by LoadGen's rules, from any manifest that sets a range of rates.

use super::super::project::Project;
use super::super::run;
use crate::cli::{CliExit, EventFormat, Force, Global, KeyValueArg, RunRequest, Select, StoreSelection};
use crate::console::print;
use crate::error::CommandError;
use base::event::TaskId;
use plan::Plan;
use plan::loadgen::Cost;
use plan::manifest::model::Bench;

/// The parameter that makes a manifest run its searches, where it has one.
const PARAM: &str = "search";

pub(super) fn search(
    global: &Global,
    manifest: String,
    mut settings: Vec<KeyValueArg>,
    only_cost: bool,
) -> Result<CliExit, CommandError> {
    let project = Project::open_current(global)?;
    let is_parameter = project.manifest(&manifest, &settings)?.params.contains_key(PARAM);
    if is_parameter && !settings.iter().any(|setting| setting.key == PARAM) {
        settings.push(KeyValueArg { key: PARAM.to_owned(), value: "true".to_owned() });
    }
    let mut select = Select { force: Force::Nothing, ..Select::default() };
    let compiler = project.compiler(&manifest, &settings);
    let found = searches(&project.plan(&manifest, &settings, &select, &compiler, false)?);
    if found.is_empty() {
        let hint = "add `search: { low: 10, high: 80 }` to a `bench` with `loadgen:`, in place of its `target_qps`";
        return Err(CommandError::Usage(format!("{manifest} has no search by LoadGen's rules in it\n  hint: {hint}")));
    }
    if only_cost {
        for (task, bench) in &found {
            let cost = Cost::estimate(bench)
                .map_or_else(|| "the rules do not allow its tests".to_owned(), |cost| cost.to_string());
            print(&format!("{task}: {cost}\n"));
        }
        return Ok(CliExit::Done);
    }
    select.until = found.into_iter().map(|(task, _)| task.to_string()).collect();
    let events = EventFormat::Terminal;
    run::run(
        global,
        &RunRequest {
            manifest,
            settings,
            select,
            jobs: None,
            keep_going: false,
            events,
            gpus: None,
            on: crate::cli::RunTarget::Local,
            store: StoreSelection::default(),
            locking: crate::cli::LockMode::Ignore,
            env: std::collections::BTreeMap::new(),
            junit: None,
            metrics_listen: None,
            otlp: None,
        },
    )
}

fn searches(plan: &Plan) -> Vec<(TaskId, Bench)> {
    let benches = plan.tasks.iter().filter_map(|task| Some((&task.id, task.bench()?)));
    let searches = benches.filter(|(_, bench)| bench.search.is_some() && bench.loadgen.is_some());
    searches.map(|(id, bench)| (id.clone(), bench.clone())).collect()
}
