//! `regatta what-if`: a grid of systems and settings, each simulated in virtual time.

mod question;

use rayon::prelude::*;
use serde_json::json;

use super::compare::write_page;
use super::project::Project;
use crate::cli::{CliExit, Global, KeyValueArg, Select, Subject, WhatIfRequest};
use crate::console::print_as;
use crate::error::CommandError;
use crate::simulate::ServedTwin;
use base::diag::ErrorText;
use base::files::shared_pool;
use base::spec::{LatencyLimit, Length, Limits, Scenario};
use base::units::shell_word;
use plan::manifest::ManifestLibrary;
use plan::manifest::model::Bench;
use plan::{Plan, Task};
use question::Question;
use report::{WhatIfLengths, WhatIfRow, what_if_json};
use sim::{UnknownMetric, VirtualWorkload, is_in_virtual_time};

pub(super) fn what_if(global: &Global, request: &WhatIfRequest) -> Result<CliExit, CommandError> {
    let project = Project::open_current(global)?;
    let goal = request.goal.as_deref().map(limits).transpose()?;
    let given = |text: &Option<String>| text.as_deref().map(length).transpose();
    let lengths = [given(&request.input_tokens)?, given(&request.output_tokens)?];
    let mut questions = Vec::new();
    for point in grid(&request.settings)? {
        let plan = project.plan(&Subject::new(&request.manifest, &point), &Select::default())?;
        questions.extend(questions_of(&project, &plan, request, &point, goal.as_deref(), &lengths));
    }
    if questions.is_empty() {
        return Err(CommandError::usage(format!(
            "`{}` has no benchmark of an Offline or a Server load",
            request.manifest
        )));
    }
    if !request.rate.is_empty() {
        questions = at_rates(&questions, &request.rate)?;
    }
    let mut rows = answer(&questions, request.requests as usize, request.html.is_some());
    mark_best(&mut rows);
    let goal_text = request.goal.as_deref().unwrap_or_default();
    let limits = questions.iter().map(|question| &*question.limits).find(|limits| !limits.is_empty());
    let document = report::what_if(&rows, goal_text, limits.unwrap_or_default(), &own_command(request));
    write_page(request.html.as_deref(), &document)?;
    print_as(global.styler(), request.json, || what_if_json(&rows, goal_text), |styler| document.terminal(styler));
    Ok(CliExit::Done)
}

/// The questions with each of these rates, without limits. All requests at once have no rate.
fn at_rates(questions: &[Question], rates: &[f64]) -> Result<Vec<Question>, CommandError> {
    if let Some(wrong) = rates.iter().find(|rate| !rate.is_finite() || **rate <= 0.0) {
        return Err(CommandError::usage(format!("--rate: {wrong} is not a positive number of requests per second")));
    }
    let at = |question: &Question, rate: f64| Question { rate: Some(rate), limits: Vec::new(), ..question.clone() };
    let at_each_rate = |question: &Question| {
        if question.is_offline {
            vec![question.clone()]
        } else {
            rates.iter().map(|rate| at(question, *rate)).collect()
        }
    };
    Ok(questions.iter().flat_map(at_each_rate).collect())
}

/// The command that asks this.
fn own_command(request: &WhatIfRequest) -> String {
    let mut words = vec![format!("regatta what-if {}", shell_word(&request.manifest))];
    words.extend(request.settings.iter().map(|setting| shell_word(&setting.to_string())));
    let options = [
        ("--goal", &request.goal),
        ("--input-tokens", &request.input_tokens),
        ("--output-tokens", &request.output_tokens),
    ];
    for (name, value) in options {
        words.extend(value.as_ref().map(|value| format!("{name} {}", shell_word(value))));
    }
    words.extend(request.adapters.map(|adapters| format!("--adapters {adapters}")));
    words.push(format!("--requests {}", request.requests));
    words.join(" ")
}

/// Simulates all of them, on every core.
fn answer(questions: &[Question], requests: usize, has_curves: bool) -> Vec<WhatIfRow> {
    let answer = |question: &Question| question.answer(requests, has_curves);
    match shared_pool() {
        Some(pool) => pool.install(|| questions.par_iter().map(answer).collect()),
        None => questions.iter().map(answer).collect(),
    }
}

/// Marks the Pareto-optimal points of a benchmark: no other point has more tokens per second with the same or fewer
/// GPUs.
fn mark_best(rows: &mut [WhatIfRow]) {
    let numbers: Vec<_> = rows
        .iter()
        .map(|row| (row.task.clone(), row.gpus, row.outcome.as_ref().map_or(0.0, |numbers| numbers.tokens_per_second)))
        .collect();
    for (row, (task, gpus, tokens)) in rows.iter_mut().zip(&numbers) {
        let beats = |(other, others, most): &(String, u32, f64)| {
            other == task && *others <= *gpus && *most >= *tokens && (*others < *gpus || *most > *tokens)
        };
        row.is_best = row.outcome.is_ok() && !numbers.iter().any(beats);
    }
}

// The settings, limits and lengths of `regatta what-if`, as they are typed.

/// More points than this are an error.
const MOST_POINTS: usize = 10_000;

/// Each value of each setting with each of the others.
fn grid(settings: &[KeyValueArg]) -> Result<Vec<Vec<KeyValueArg>>, CommandError> {
    let mut points = vec![Vec::new()];
    for setting in settings {
        // `[1,2]` is one value, a list.
        let values: Vec<&str> = if setting.value.starts_with(['[', '{']) {
            vec![&setting.value]
        } else {
            setting.value.split(',').collect()
        };
        let with = |value: &&str| KeyValueArg { key: setting.key.clone(), value: (*value).to_owned() };
        let extended = |point: &Vec<KeyValueArg>| -> Vec<_> {
            values.iter().map(|value| [&point[..], &[with(value)]].concat()).collect()
        };
        points = points.iter().flat_map(extended).collect();
        if points.len() > MOST_POINTS {
            return Err(CommandError::usage(format!("the grid has more than {MOST_POINTS} points")));
        }
    }
    Ok(points)
}

/// `ttft_p99<450ms tpot_p99<40ms`
fn limits(text: &str) -> Result<Vec<LatencyLimit>, CommandError> {
    let mut goals = Vec::new();
    for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
        let wrong = |problem: String| {
            let hint = "write it as in `ttft_p99<450ms tpot_p99<40ms`";
            CommandError::hinted(format!("--goal: `{word}`: {problem}"), hint)
        };
        let Some((key, time)) = word.split_once('<') else { return Err(wrong("it has no `<`".to_owned())) };
        let time = time.trim_start_matches('=');
        // A text, so that what has no unit is refused as a duration is.
        let limits: Limits = serde_json::from_value(json!({ key: time })).map_err(|error| wrong(error.to_string()))?;
        let limit = limits.latencies().next();
        let limit = limit.ok_or_else(|| wrong(format!("`{key}` is not a latency and statistic")))?;
        if !is_in_virtual_time(limit.metric) {
            return Err(wrong(UnknownMetric.to_string()));
        }
        goals.push(limit);
    }
    Ok(goals)
}

/// `1000`, `1000,500` or `1000,500,4096`
fn length(text: &str) -> Result<Length, CommandError> {
    let wrong = || {
        CommandError::usage(format!("`{text}` is not a length: write MEAN, MEAN,STDDEV or MEAN,STDDEV,MAX, in tokens"))
    };
    let numbers: Result<Vec<f64>, _> = text.split(',').map(|number| number.trim().parse::<f64>()).collect();
    let length = match numbers.map_err(|_| wrong())?[..] {
        [mean] | [mean, 0.0] => Length::Fixed(mean.round() as u32),
        [mean, stddev] => Length::Lognormal { mean, stddev, min: 1, max: (mean + 8.0 * stddev) as u32 },
        [mean, stddev, max] => Length::Lognormal { mean, stddev, min: 1, max: max.round() as u32 },
        _ => return Err(wrong()),
    };
    if length.fault().is_some() { Err(wrong()) } else { Ok(length) }
}

// The benchmarks of a plan as questions to the twin, each with the command that measures it.

/// The benchmarks of a plan.
fn questions_of(
    project: &Project,
    plan: &Plan,
    request: &WhatIfRequest,
    point: &[KeyValueArg],
    goal: Option<&[LatencyLimit]>,
    [input, output]: &[Option<Length>; 2],
) -> Vec<Question> {
    let settings = real_settings(project, &request.manifest, point);
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
            input_tokens: input.clone().unwrap_or_else(|| bench.input_tokens.clone()),
            output_tokens: output.clone().unwrap_or_else(|| bench.output_tokens.clone()),
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
        if !is_offline && limits.is_empty() && !has_rate {
            problem = Some("it has no limits and no rate: give --goal or --rate");
        }
        let (command, rate_key) = command(plan, task, request, &settings, bench);
        questions.push(Question {
            row: WhatIfRow {
                settings: point.iter().map(|one| (one.key.clone(), one.value.clone())).collect(),
                task: task.id.to_string(),
                lengths: WhatIfLengths {
                    input: workload.input_tokens.clone(),
                    output: workload.output_tokens.clone(),
                    is_input_given: input.is_some(),
                    is_output_given: output.is_some(),
                },
                gpus,
                servers: copies,
                outcome: Err(ErrorText::new(problem.unwrap_or_default())),
                is_best: false,
                curve: Vec::new(),
                nearby: None,
                basis: servers.simulated().map(|(spec, _)| spec.basis()),
                command,
            },
            twin: servers.simulated().filter(|_| problem.is_none()),
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

/// The settings with which a real system measures a point.
fn real_settings(project: &Project, manifest: &str, point: &[KeyValueArg]) -> Vec<KeyValueArg> {
    let real_value = |KeyValueArg { key, value }: &KeyValueArg| match key.as_str() {
        "system" => real_system(&project.manifests, manifest, value).to_owned(),
        _ => value.clone(),
    };
    let real = point.iter().map(|setting| KeyValueArg { key: setting.key.clone(), value: real_value(setting) });
    let mut settings: Vec<KeyValueArg> = real.collect();
    // A real system may ask for what the simulated one does not need: an image.
    if settings != point
        && let Err(CommandError::Manifest(errors)) =
            project.expanded(&Subject::new(manifest, &settings), &Select::default())
    {
        let missing = errors.missing_parameters().unwrap_or_default().into_iter();
        settings.extend(missing.map(|key| KeyValueArg { key, value: "…".to_owned() }));
    }
    settings
}

/// The command that measures it, and the key that sets its rate.
fn command(
    plan: &Plan,
    task: &Task,
    request: &WhatIfRequest,
    settings: &[KeyValueArg],
    bench: &Bench,
) -> (String, String) {
    let mut words = vec!["regatta run".to_owned(), request.manifest.clone()];
    words.extend(settings.iter().map(|setting| shell_word(&format!("{}={}", setting.key, setting.value))));
    if plan.params.contains_key("scenarios") && !settings.iter().any(|one| one.key == "scenarios") {
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

#[cfg(test)]
mod arguments_tests {
    use super::*;

    #[test]
    fn a_limit_without_a_unit_is_no_duration() {
        let Err(CommandError::Usage(why)) = limits("ttft_p99<450") else { panic!("it has no unit") };
        assert!(why.contains("`450` is not a duration") && why.contains("hint: write it as in"), "{why}");
        assert!(limits("ttft_p99<=450ms,tpot_p99<40ms").is_ok_and(|limits| limits.len() == 2));
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
