//! The page of several sweeps: all curves over each other, what differs between the servers, and the numbers level by level.

use minijinja::{Value as Safe, context};

use super::overlay::colour;
use super::sweep_charts::{NamedSweep, draw};
use crate::harness::RunIdentity;
use crate::report::compare::{CompareRules, ComparedSweep, identity_of_sweeps, letter, sweep_notes, sweep_rows};
use crate::report::page_template::render_page;

const PAGE: &str = include_str!("../../../templates/report/sweeps.html");

/// The page; the first sweep is what the others are compared with.
pub fn compare_sweeps(sweeps: &[ComparedSweep], rules: CompareRules) -> Result<String, minijinja::Error> {
    let named: Vec<NamedSweep<'_>> = sweeps
        .iter()
        .enumerate()
        .map(|(n, sweep)| NamedSweep { name: format!("{} {}", letter(n), sweep.name), report: &sweep.report })
        .collect();
    let best = |n: usize, sweep: &ComparedSweep| {
        let best = sweep.report.best()?;
        let rate = crate::units::grouped(best.output_tokens_per_s?, 0);
        Some([
            format!("{}: highest throughput", letter(n)),
            format!("{rate} tok/s"),
            format!("valid points of {}; at {}", sweep.name, best.level),
        ])
    };
    let (head, rows) = sweep_rows(sweeps, rules);
    let mut plots = draw(&named).into_iter().map(Safe::from_safe_string);
    render_page(
        PAGE,
        context! {
            title => sweeps.iter().map(|sweep| sweep.name.as_str()).collect::<Vec<_>>().join(" · "),
            simulated => sweeps.iter().any(|sweep| sweep.report.is_simulated()),
            sweeps => sweeps.iter().enumerate().map(|(n, sweep)| context! {
                letter => letter(n),
                colour => colour(n),
                name => &sweep.name,
                verdict => sweep.report.verdict_text(),
                tone => if sweep.report.imported.is_some() { "odd" } else if sweep.report.valid() == sweep.report.points.len() { "good" } else { "odd" },
                identity => sweep.report.identity.as_ref().map(RunIdentity::line),
            }).collect::<Vec<_>>(),
            numbers => sweeps.iter().enumerate().filter_map(|(n, sweep)| best(n, sweep)).take(4).collect::<Vec<_>>(),
            differences => identity_of_sweeps(sweeps),
            picture => plots.next(),
            plots => plots.collect::<Vec<_>>(),
            head,
            rows,
            is_alone => sweeps.len() == 1,
            notes => sweep_notes(sweeps, rules),
        },
    )
}
