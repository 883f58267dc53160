//! `regatta what-if`: a grid of systems and settings, each simulated in virtual time.

mod arguments;
mod disaggregated;
mod fleet;

use std::fs;
use std::thread;

use anyhow::Context as _;

use super::project::Project;
use super::served_twin::ServedTwin;
use crate::app::error::CommandError;
use crate::app::output::{print, print_error};
use crate::cli::{BalancerPolicy, CliExit, Global, KeyValueArg, Select, WhatIf};
use crate::manifest::ManifestLibrary;
use crate::manifest::model::{Action, Bench};
use crate::plan::{Plan, Task};
use crate::report::{Styler, WhatIfNumbers, WhatIfProblem, WhatIfRow, html, what_if_json, what_if_text};
use crate::sim::{
    self, DisaggregatedServers, Disaggregation, EngineLimits, TwinServing, VirtualResult, VirtualWorkload,
};
use crate::spec::{LatencyLimit, Length, LimitedMetric, Scenario, Statistic};
use crate::units::shell_word;
use arguments::{grid, length, limits};
use disaggregated::ServerSplit;

/// Rates of a curve, as shares of the highest one.
const CURVE: [f64; 9] = [0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 0.95, 1.0, 1.05];

pub(super) fn what_if(global: &Global, request: &WhatIf) -> Result<CliExit, CommandError> {
    let project = Project::open_current(global)?;
    let goal = request.goal.as_deref().map(limits).transpose()?;
    let lengths = Lengths {
        input: request.input_tokens.as_deref().map(length).transpose()?,
        output: request.output_tokens.as_deref().map(length).transpose()?,
    };
    let mut questions = Vec::new();
    for point in grid(&request.settings)? {
        let select = Select::default();
        let compiler = project.compiler(&request.manifest, &point);
        let plan = project.plan(&request.manifest, &point, &select, &compiler, false)?;
        questions.extend(questions_of(&project.manifests, &plan, request, &point, goal.as_deref(), &lengths)?);
    }
    if questions.is_empty() {
        return Err(CommandError::usage(format!(
            "`{}` has no benchmark of an Offline or a Server load",
            request.manifest
        )));
    }
    if !request.rates.is_empty() {
        questions = at_rates(&questions, &request.rates)?;
    }
    let splits = disaggregated::splits(request)?;
    if !splits.is_empty() {
        questions = questions
            .iter()
            .flat_map(|one| splits.iter().map(|split| one.split_over(split, request.requests)))
            .collect();
    }
    if let Some(asked) = &request.fleet {
        return fleet::answer(global, request, asked, &questions, goal.as_deref());
    }
    let mut rows = answer(&questions, request.requests as usize, request.html.is_some());
    mark_best(&mut rows);
    let goal_text = request.goal.clone().unwrap_or_default();
    if let Some(path) = &request.html {
        let limits = goal.unwrap_or_default();
        let page = html::what_if(&rows, &goal_text, &limits, &own_command(request)).map_err(anyhow::Error::from)?;
        fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
        print_error(&format!("the page: {}\n", path.display()));
    }
    let goal = goal_text;
    print(&if request.json {
        what_if_json(&rows, &goal)
    } else {
        what_if_text(&rows, &goal, Styler::chosen(global.color.choice()))
    });
    if !splits.is_empty() && !request.json {
        print(&format!("\n{}", disaggregated::HOW_TO_MEASURE));
    }
    Ok(CliExit::Done)
}

/// The questions with each of these rates, without limits. All requests at once have no rate.
fn at_rates(questions: &[Question], rates: &[f64]) -> Result<Vec<Question>, CommandError> {
    if let Some(wrong) = rates.iter().find(|rate| !rate.is_finite() || **rate <= 0.0) {
        return Err(CommandError::usage(format!("--rate: {wrong} is not a positive number of requests per second")));
    }
    let at = |question: &Question, rate: f64| Question { rate: Some(rate), limits: Vec::new(), ..question.clone() };
    let all = |question: &Question| {
        if question.is_offline {
            vec![question.clone()]
        } else {
            rates.iter().map(|rate| at(question, *rate)).collect()
        }
    };
    Ok(questions.iter().flat_map(all).collect())
}

/// The command that asks this.
fn own_command(request: &WhatIf) -> String {
    let mut words = vec![format!("regatta what-if {}", shell_word(&request.manifest))];
    words.extend(request.settings.iter().map(|one| shell_word(&format!("{}={}", one.key, one.value))));
    let options = [
        ("--goal", &request.goal),
        ("--input-tokens", &request.input_tokens),
        ("--output-tokens", &request.output_tokens),
    ];
    for (name, value) in options {
        words.extend(value.as_ref().map(|value| format!("{name} {}", shell_word(value))));
    }
    if !request.disaggregated.is_empty() {
        words.push(format!("--disaggregated {}", request.disaggregated.join(",")));
        words.extend(request.kv_link.map(|gbs| format!("--kv-link {gbs}")));
        words.extend(request.router.map(|router| {
            let word = match router {
                BalancerPolicy::RoundRobin => "round_robin",
                BalancerPolicy::LeastLoad => "load_balancing",
                BalancerPolicy::PrefixAware => "kv_cache_aware",
            };
            format!("--router {word}")
        }));
    }
    words.extend(request.adapters.map(|adapters| format!("--adapters {adapters}")));
    words.push(format!("--requests {}", request.requests));
    words.join(" ")
}

/// Lengths in place of those of the benchmarks.
struct Lengths {
    input: Option<Length>,
    output: Option<Length>,
}

/// One benchmark of one point.
#[derive(Clone)]
struct Question {
    row: WhatIfRow,
    twin: Option<(sim::EngineSpec, TwinServing)>,
    /// Context servers and generation servers in place of servers that do both.
    split: Option<Disaggregation>,
    workload: VirtualWorkload,
    is_offline: bool,
    /// Empty: measure at the rate.
    limits: Vec<LatencyLimit>,
    rate: Option<f64>,
    /// The command's words without the rate, and the key of the rate.
    rate_key: String,
}

/// The benchmarks of a plan.
fn questions_of(
    library: &ManifestLibrary,
    plan: &Plan,
    request: &WhatIf,
    point: &[KeyValueArg],
    goal: Option<&[LatencyLimit]>,
    lengths: &Lengths,
) -> Result<Vec<Question>, CommandError> {
    let mut questions = Vec::new();
    for task in plan.tasks.iter().filter(|task| task.skipped.is_none()) {
        let Action::Bench(bench) = task.typed_action()? else { continue };
        let is_offline = match bench.scenario {
            Scenario::Offline => true,
            Scenario::Server | Scenario::Interactive => false,
            Scenario::Trace | Scenario::Concurrency | Scenario::SingleStream => continue,
        };
        let servers = ServedTwin::of(plan, task)?;
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
        let has_rate = rate.is_some() || !request.rates.is_empty();
        if !is_offline && limits.is_empty() && !has_rate && request.fleet.is_none() {
            problem = Some("it has no limits and no rate: give --goal or --rate");
        }
        let (command, rate_key) = command(library, plan, task, request, point, &bench);
        questions.push(Question {
            row: WhatIfRow {
                settings: point.iter().map(|one| (one.key.clone(), one.value.clone())).collect(),
                task: task.id.to_string(),
                gpus,
                servers: copies,
                outcome: Err(WhatIfProblem(problem.unwrap_or_default().to_owned())),
                is_best: false,
                curve: Vec::new(),
                command,
            },
            twin: servers.simulated().filter(|_| problem.is_none()),
            split: None,
            workload,
            is_offline,
            limits,
            rate,
            rate_key,
        });
    }
    Ok(questions)
}

/// The command that measures it, and the key that sets its rate.
fn command(
    library: &ManifestLibrary,
    plan: &Plan,
    task: &Task,
    request: &WhatIf,
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

/// Simulates all of them, on every core.
fn answer(questions: &[Question], requests: usize, has_curves: bool) -> Vec<WhatIfRow> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(questions.len());
    let mut rows: Vec<(usize, WhatIfRow)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                scope.spawn(move || {
                    let own = questions.iter().enumerate().skip(worker).step_by(threads);
                    own.map(|(at, question)| (at, question.answer(requests, has_curves))).collect::<Vec<_>>()
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    rows.sort_by_key(|(at, _)| *at);
    rows.into_iter().map(|(_, row)| row).collect()
}

impl Question {
    /// The same for so many copies of its server. No manifest starts them apart: the command is that of the load alone.
    fn split_over(&self, split: &ServerSplit, requests: u32) -> Self {
        let mut question = self.clone();
        if split.setup.is_some() || split.servers != self.row.servers {
            let load = disaggregated::bench_command(&self.workload, self.is_offline, requests as usize);
            question.row.command = load.unwrap_or_default();
            disaggregated::BENCH_RATE.clone_into(&mut question.rate_key);
        }
        let row = &mut question.row;
        row.gpus = row.gpus / row.servers.max(1) as u32 * split.servers as u32;
        row.servers = split.servers;
        row.settings.push(("disaggregated".to_owned(), split.text.clone()));
        question.split = split.setup;
        question
    }

    fn answer(&self, requests: usize, has_curve: bool) -> WhatIfRow {
        let mut row = self.row.clone();
        if let Some((spec, serving)) = &self.twin {
            row.outcome = self.numbers(spec, serving, requests);
            if let Some(highest) = row.outcome.as_ref().ok().and_then(|numbers| numbers.rate).filter(|_| has_curve) {
                row.curve = self.curve(spec, serving, requests, highest);
            }
        }
        if let Ok(WhatIfNumbers { rate: Some(rate), .. }) = row.outcome
            && !row.command.is_empty()
        {
            row.command = format!("{} {}={}", row.command, self.rate_key, (rate * 100.0).floor() / 100.0);
        }
        row
    }

    fn numbers(
        &self,
        spec: &sim::EngineSpec,
        serving: &TwinServing,
        requests: usize,
    ) -> Result<WhatIfNumbers, WhatIfProblem> {
        let problem = |error: &dyn std::fmt::Display| WhatIfProblem(error.to_string());
        let server = sim::twin(spec, serving).map_err(|error| problem(&error))?;
        let servers = self.row.servers;
        let full = self.count(&server, requests);
        if let Some(setup) = self.split {
            return self.disaggregated_numbers(&DisaggregatedServers { server, setup }, full);
        }
        let (rate, result) = if self.is_offline {
            (None, sim::offline(&server, servers, &self.workload, full).map_err(|error| problem(&error))?)
        } else if self.limits.is_empty() {
            let rate = self.rate.unwrap_or_default();
            let result = sim::served_at(&server, servers, &self.workload, full, rate);
            (Some(rate), result.map_err(|error| problem(&error))?)
        } else {
            let found = sim::capacity(&server, servers, &self.workload, full, &self.limits);
            let found = found.map_err(|error| problem(&error))?;
            if found.rate == 0.0 {
                return Err(WhatIfProblem("the limits do not hold at any rate".to_owned()));
            }
            (Some(found.rate), found.result)
        };
        Ok(numbers_of(rate, &result))
    }

    fn disaggregated_numbers(
        &self,
        servers: &DisaggregatedServers,
        count: usize,
    ) -> Result<WhatIfNumbers, WhatIfProblem> {
        let problem = |error: &dyn std::fmt::Display| WhatIfProblem(error.to_string());
        if self.is_offline || self.limits.is_empty() {
            let rate = if self.is_offline { None } else { self.rate };
            let result = servers.served(&self.workload, count, rate).map_err(|error| problem(&error))?;
            return Ok(numbers_of(rate, &result));
        }
        let found = servers.capacity(&self.workload, count, &self.limits).map_err(|error| problem(&error))?;
        if found.rate == 0.0 {
            return Err(WhatIfProblem("the limits do not hold at any rate".to_owned()));
        }
        Ok(numbers_of(Some(found.rate), &found.result))
    }

    /// Each server has enough requests to fill it several times; at once, until its beginning and its end are a small part of the time.
    fn count(&self, server: &EngineLimits, requests: usize) -> usize {
        let fillings = if self.is_offline { 20 } else { 4 };
        requests.max(self.row.servers * server.max_batch_size * fillings)
    }

    /// The same load at rates up to a little more than the highest one.
    fn curve(
        &self,
        spec: &sim::EngineSpec,
        serving: &TwinServing,
        requests: usize,
        highest: f64,
    ) -> Vec<WhatIfNumbers> {
        let Ok(server) = sim::twin(spec, serving) else { return Vec::new() };
        let count = self.count(&server, requests);
        let at = |share: f64| {
            let rate = share * highest;
            let result = if let Some(setup) = self.split {
                let servers = DisaggregatedServers { server: server.clone(), setup };
                servers.judged_at(&self.workload, count, &self.limits, rate)
            } else {
                sim::judged_at(&server, self.row.servers, &self.workload, count, &self.limits, rate)
            };
            Some(numbers_of(Some(rate), &result.ok()?))
        };
        CURVE.into_iter().filter_map(at).collect()
    }
}

fn numbers_of(rate: Option<f64>, result: &VirtualResult) -> WhatIfNumbers {
    // TTFT and TPOT are kept in virtual time.
    let of = |metric, statistic| result.statistic(metric, statistic).unwrap_or_default();
    WhatIfNumbers {
        rate,
        tokens_per_second: VirtualResult::tokens_per_second(result),
        ttft_p50: of(LimitedMetric::Ttft, Statistic::P50),
        ttft_p99: of(LimitedMetric::Ttft, Statistic::P99),
        tpot_p50: of(LimitedMetric::Tpot, Statistic::P50),
        tpot_p99: of(LimitedMetric::Tpot, Statistic::P99),
        pauses: result.pauses,
    }
}

/// Points of one benchmark that no other one beats in tokens per second with as many GPUs or fewer.
fn mark_best(rows: &mut [WhatIfRow]) {
    let all: Vec<_> = rows
        .iter()
        .map(|row| (row.task.clone(), row.gpus, row.outcome.as_ref().map_or(0.0, |numbers| numbers.tokens_per_second)))
        .collect();
    for (row, (task, gpus, tokens)) in rows.iter_mut().zip(&all) {
        let beats = |(other, others, most): &(String, u32, f64)| {
            other == task && *others <= *gpus && *most >= *tokens && (*others < *gpus || *most > *tokens)
        };
        row.is_best = row.outcome.is_ok() && !all.iter().any(beats);
    }
}

#[cfg(test)]
mod tests {
    use super::at_rates;

    #[test]
    fn a_rate_is_a_positive_number() {
        assert!(at_rates(&[], &[0.1, 20.0]).is_ok());
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(at_rates(&[], &[5.0, wrong]).is_err(), "{wrong}");
        }
    }
}
