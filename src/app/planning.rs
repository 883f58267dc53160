//! `regatta plan`: what a run would do, and why. Writes nothing.

use std::mem::ManuallyDrop;
use std::path::Path;

use super::known_failures::environment_faults;
use super::plan_estimates::PlanEstimates;
use super::predicted_tasks::decide;
use super::project::{Project, options};
use super::run_store;
use crate::cli::{CliExit, Global, PlanFormat, PlanRequest, Select};
use crate::console::{print, print_error, print_json};
use crate::error::CommandError;
use plan::{MeasurementCost, Plan, loadgen};
use report::{DecisionKind, LaunchKind, LaunchRow, Styler};
use runner::RunOptions;
use stages::{LaunchPreview, ServePreview, previews};

pub(super) fn plan(global: &Global, request: &PlanRequest) -> Result<CliExit, CommandError> {
    let project = Project::open_current(global)?;
    let compiler = project.compiler(&request.manifest, &request.settings);
    // Its memory goes with the process: to free it task by task takes a tenth of the command's time.
    let plan =
        ManuallyDrop::new(project.plan(&request.manifest, &request.settings, &request.select, &compiler, false)?);
    match request.show {
        PlanFormat::Dot => print(&report::graph_dot(&plan)),
        PlanFormat::Mermaid => print(&report::graph_mermaid(&plan)),
        PlanFormat::Launch { json } => return launches(global, &project, &plan, &request.select, json),
        as_what @ (PlanFormat::Text | PlanFormat::Json) => {
            let options = options(&plan, &request.select)?;
            let chosen: Vec<bool> = options.roles.iter().map(|part| *part != runner::TaskRole::NotNeeded).collect();
            let mut notes = [plan.idle(&chosen), loadgen::notes(&plan, Path::new("/"))].concat();
            let mut tasks = plan.tasks.iter();
            let mut estimates = PlanEstimates::new(&project, request, &plan);
            let mut decisions = Vec::new();
            let known = decide(&project, &request.manifest, &request.settings, &request.select, &plan, &options)?;
            for mut decision in known {
                // Decisions come in the order of the plan.
                let task = tasks.find(|task| task.id == decision.id);
                debug_assert!(task.is_some(), "{} is out of order", decision.id);
                // To read every action of a large plan takes its time; a cached one costs nothing.
                let task = task.filter(|_| decision.verdict == runner::Prediction::Run);
                let cost = task.and_then(MeasurementCost::from_task);
                decision.reasons.extend(task.map(environment_faults).into_iter().flatten());
                let estimate = task.and_then(|task| estimates.of(task));
                decisions.push(decision_row(decision, cost.map(|cost| cost.to_string()), estimate));
            }
            notes.extend(estimates.note());
            // A plan is made without a network.
            if let Some(store) = run_store::address(None)?
                && decisions.iter().any(|decision| decision.decision == DecisionKind::Run)
            {
                let name = &request.manifest;
                notes.push(format!("{store} was not queried: `regatta store status {name}` shows what it has"));
            }
            let styler = Styler::chosen(global.color.choice());
            match as_what {
                PlanFormat::Json => print_json(|out| report::write_decisions_json(&decisions, out)),
                _ => print(&report::decisions_text(&decisions, styler)),
            }
            if matches!(as_what, PlanFormat::Text) {
                for note in notes {
                    print(&styler.fit(format!("{note}\n")));
                }
            }
            return refuse_impossible_launches(&project, &plan, &options);
        }
    }
    Ok(CliExit::Done)
}

/// What each chosen `serve` task will start. Reports what cannot start with all its reasons, beside what can.
fn launches(
    global: &Global,
    project: &Project,
    plan: &Plan,
    select: &Select,
    json: bool,
) -> Result<CliExit, CommandError> {
    let options = options(plan, select)?;
    let launches: Vec<LaunchRow> = launch_previews(project, plan, &options)?.into_iter().map(launch_row).collect();
    print(&if json {
        report::launch_json(&launches)
    } else {
        report::launch_text(&launches, Styler::chosen(global.color.choice()))
    });
    Ok(refuse(&report::launch_problems(&launches)))
}

/// Prints why servers of a plan cannot be started, whatever its earlier stages make: before the first of them runs.
pub(super) fn refuse_impossible_launches(
    project: &Project,
    plan: &Plan,
    options: &RunOptions,
) -> Result<CliExit, CommandError> {
    let is_certain =
        |preview: &ServePreview| matches!(preview.launch, LaunchPreview::Impossible { is_certain: true, .. });
    let impossible = launch_previews(project, plan, options)?.into_iter().filter(is_certain);
    let launches: Vec<LaunchRow> = impossible.map(launch_row).collect();
    Ok(refuse(&report::launch_problems(&launches)))
}

/// Prints problems as errors. Exit code 0 where there are none.
fn refuse(problems: &str) -> CliExit {
    if problems.is_empty() {
        return CliExit::Done;
    }
    print_error(problems);
    CliExit::Usage
}

fn launch_previews(project: &Project, plan: &Plan, options: &RunOptions) -> Result<Vec<ServePreview>, CommandError> {
    let chosen: Vec<bool> = options.roles.iter().map(|part| *part != runner::TaskRole::NotNeeded).collect();
    let serves = plan.tasks.iter().zip(&chosen).any(|(task, chosen)| *chosen && task.kind.facts().is_service);
    // To read every action of a large plan takes its time.
    if serves { Ok(previews(plan, &chosen, project.home.project())?) } else { Ok(Vec::new()) }
}

fn launch_row(preview: ServePreview) -> LaunchRow {
    LaunchRow {
        task: preview.task,
        starts: match preview.launch {
            LaunchPreview::Start(plan) => LaunchKind::Plan(plan),
            LaunchPreview::Attach { endpoints, models } => LaunchKind::Nothing { attach: endpoints, models },
            LaunchPreview::Impossible { problems, .. } => {
                LaunchKind::Impossible { problems: problems.into_iter().map(|one| (one.message, one.hint)).collect() }
            }
        },
    }
}

fn decision_row(
    decision: runner::Decision,
    cost: Option<String>,
    estimate: Option<report::BenchEstimate>,
) -> report::DecisionRow {
    report::DecisionRow {
        id: decision.id,
        stage: decision.stage,
        decision: match decision.verdict {
            runner::Prediction::Run => DecisionKind::Run,
            runner::Prediction::Cached => DecisionKind::Cached,
            runner::Prediction::Skipped => DecisionKind::Skipped,
        },
        reasons: decision.reasons,
        cost,
        estimate,
    }
}
