//! `regatta what-if`: a grid of systems and settings, each simulated in virtual time.

mod arguments;
mod benchmarks;
mod disaggregated;
mod fleet;
mod question;

use std::thread;

use clap::ValueEnum as _;

use super::compare::write_page;
use super::project::Project;
use crate::cli::{CliExit, Global, Select, WhatIfRequest};
use crate::console::{print, print_as};
use crate::error::CommandError;
use arguments::{grid, length, limits};
use base::files::cores;
use base::units::shell_word;
use benchmarks::{Lengths, questions_of};
use question::Question;
use report::{WhatIfRow, what_if_json};

pub(super) fn what_if(global: &Global, request: &WhatIfRequest) -> Result<CliExit, CommandError> {
    let project = Project::open_current(global)?;
    let goal = request.goal.as_deref().map(limits).transpose()?;
    let lengths = Lengths {
        input: request.input_tokens.as_deref().map(length).transpose()?,
        output: request.output_tokens.as_deref().map(length).transpose()?,
    };
    let mut questions = Vec::new();
    for point in grid(&request.settings)? {
        let plan = project.plan(&request.manifest, &point, &Select::default())?;
        questions.extend(questions_of(&project.manifests, &plan, request, &point, goal.as_deref(), &lengths));
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
    let splits = disaggregated::splits(request)?;
    if !splits.is_empty() {
        questions = questions
            .iter()
            .flat_map(|one| splits.iter().map(|split| one.split_over(split, request.requests)))
            .collect();
    }
    if let Some(day) = &request.fleet.day {
        return fleet::answer(global, request, day, &questions, goal.as_deref());
    }
    let mut rows = answer(&questions, request.requests as usize, request.html.is_some());
    mark_best(&mut rows);
    let goal_text = request.goal.as_deref().unwrap_or_default();
    let limits = questions.iter().map(|question| &*question.limits).find(|limits| !limits.is_empty());
    let document = report::what_if(&rows, goal_text, limits.unwrap_or_default(), &own_command(request));
    write_page(request.html.as_deref(), &document)?;
    print_as(global.styler(), request.json, || what_if_json(&rows, goal_text), |styler| document.terminal(styler));
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
    if !request.disaggregated.is_empty() {
        words.push(format!("--disaggregated {}", request.disaggregated.join(",")));
        words.extend(request.kv_link.map(|gbs| format!("--kv-link {gbs}")));
        let router = request.router.and_then(|router| router.to_possible_value());
        words.extend(router.map(|router| format!("--router {}", router.get_name())));
    }
    words.extend(request.adapters.map(|adapters| format!("--adapters {adapters}")));
    words.push(format!("--requests {}", request.requests));
    words.join(" ")
}

/// Simulates all of them, on every core.
fn answer(questions: &[Question], requests: usize, has_curves: bool) -> Vec<WhatIfRow> {
    let threads = cores().min(questions.len());
    let mut rows: Vec<(usize, WhatIfRow)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                scope.spawn(move || {
                    let share = questions.iter().enumerate().skip(worker).step_by(threads);
                    share.map(|(at, question)| (at, question.answer(requests, has_curves))).collect::<Vec<_>>()
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    rows.sort_by_key(|(at, _)| *at);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Points of one benchmark that no other one beats in tokens per second with as many GPUs or fewer.
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
