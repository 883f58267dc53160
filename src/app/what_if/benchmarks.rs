//! The benchmarks of a plan as questions to the twin, each with the command that measures it.

use super::question::Question;
use crate::cli::{KeyValueArg, WhatIfRequest};
use crate::simulate::ServedTwin;
use base::spec::{LatencyLimit, Length, Scenario};
use plan::manifest::ManifestLibrary;
use plan::manifest::model::Bench;
use plan::{Plan, Task};
use report::{WhatIfLengths, WhatIfProblem, WhatIfRow};
use sim::VirtualWorkload;

/// Lengths in place of those of the benchmarks.
pub(super) struct Lengths {
    pub input: Option<Length>,
    pub output: Option<Length>,
}

/// The benchmarks of a plan.
pub(super) fn questions_of(
    library: &ManifestLibrary,
    plan: &Plan,
    request: &WhatIfRequest,
    point: &[KeyValueArg],
    goal: Option<&[LatencyLimit]>,
    lengths: &Lengths,
) -> Vec<Question> {
    let mut questions = Vec::new();
    for task in &plan.tasks {
        let Some(bench) = task.bench() else { continue };
        let is_offline = match bench.scenario {
            Scenario::Offline => true,
            Scenario::Server | Scenario::Interactive => false,
            Scenario::Trace | Scenario::Concurrency | Scenario::SingleStream => continue,
        };
        let servers = ServedTwin::served(plan, task);
        let given = |length: &Length| *length == Length::Given;
        let workload = VirtualWorkload {
            input_tokens: lengths.input.clone().unwrap_or_else(|| bench.input_tokens.clone()),
            output_tokens: lengths.output.clone().unwrap_or_else(|| bench.output_tokens.clone()),
            adapters: request
                .adapters
                .map_or_else(|| bench.request.lora_task_id.clone(), |adapters| (1..=u64::from(adapters)).collect()),
            seed: bench.seed,
        };
        let mut problem = None;
        if servers.engine.is_none() {
            problem = Some("it has no simulated engine: choose a simulated system (`system=sim-…`)");
        } else if given(&workload.input_tokens) || given(&workload.output_tokens) {
            problem = Some("its lengths are in the data: give --input-tokens and --output-tokens");
        }
        let (gpus, copies) = servers.sizes();
        let limits = goal.map_or_else(
            || bench.limits.iter().flat_map(|limits| limits.latencies()).collect(),
            <[LatencyLimit]>::to_vec,
        );
        let rate = bench.rate;
        let is_given = point.iter().any(|setting| setting.key.ends_with("requests"));
        let has_rate = rate.is_some() || !request.rate.is_empty();
        if !is_offline && limits.is_empty() && !has_rate && request.fleet.day.is_none() {
            problem = Some("it has no limits and no rate: give --goal or --rate");
        }
        let (command, rate_key) = command(library, plan, task, request, point, bench);
        questions.push(Question {
            row: WhatIfRow {
                settings: point.iter().map(|one| (one.key.clone(), one.value.clone())).collect(),
                task: task.id.to_string(),
                lengths: WhatIfLengths {
                    input: workload.input_tokens.clone(),
                    output: workload.output_tokens.clone(),
                    is_input_given: lengths.input.is_some(),
                    is_output_given: lengths.output.is_some(),
                },
                gpus,
                servers: copies,
                outcome: Err(WhatIfProblem(problem.unwrap_or_default().to_owned())),
                is_best: false,
                curve: Vec::new(),
                basis: servers.simulated().map(|(spec, _)| spec.basis()),
                command,
            },
            twin: servers.simulated().filter(|_| problem.is_none()),
            split: None,
            workload,
            is_offline,
            requests: is_given.then_some(bench.stop.requests).flatten().map(|requests| requests as usize),
            limits,
            rate,
            rate_key,
        });
    }
    questions
}

/// The command that measures it, and the key that sets its rate.
fn command(
    library: &ManifestLibrary,
    plan: &Plan,
    task: &Task,
    request: &WhatIfRequest,
    point: &[KeyValueArg],
    bench: &Bench,
) -> (String, String) {
    let mut words = vec!["regatta run".to_owned(), request.manifest.clone()];
    for setting in point {
        let value = match setting.key.as_str() {
            "system" => real_system(library, &request.manifest, &setting.value),
            _ => &setting.value,
        };
        words.push(format!("{}={value}", setting.key));
    }
    if plan.params.contains_key("scenarios") && !point.iter().any(|one| one.key == "scenarios") {
        let word = serde_json::to_value(bench.scenario).ok();
        words.extend(word.and_then(|word| word.as_str().map(|word| format!("scenarios={word}"))));
    }
    let key = ["rate", "target_qps", "server_rate"].into_iter().find(|key| plan.params.contains_key(*key));
    (words.join(" "), key.map_or_else(|| format!("stages.{}.bench.rate", task.stage), str::to_owned))
}

/// The system that a simulated one stands for, where the manifest has it.
fn real_system<'a>(library: &ManifestLibrary, manifest: &str, system: &'a str) -> &'a str {
    let real = system.strip_prefix("sim-");
    real.filter(|real| library.find(&format!("{manifest}/{real}")).is_some()).unwrap_or(system)
}
