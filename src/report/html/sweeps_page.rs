//! The page of several sweeps: all curves over each other, what differs between the servers, and the numbers level by level.

use minijinja::{Value as Safe, context};

use super::overlay::color;
use super::sweep;
use super::sweep_charts::{NamedSweep, draw};
use crate::compare::{CompareRules, ComparedSweep, identity_of_sweeps, letter, sweep_notes, sweep_rows};
use crate::page_template::render_page;
use harness::{RunIdentity, SweepReport};

const PAGE: &str = include_str!("../../../templates/report/sweeps.html");

/// A row for each point, with its verdict.
fn point_rows(name: &str, report: &SweepReport) -> (Vec<String>, Vec<Vec<String>>) {
    let section = sweep::section(name, report, 0);
    let head = section.head.into_iter().chain(["verdict".to_owned()]).collect();
    let row = |row: sweep::SweepRow| {
        let knee = if row.is_knee { ", knee" } else { "" };
        let verdict = format!("{}{knee}", row.verdict);
        std::iter::once(row.level).chain(row.cells).chain([verdict]).collect()
    };
    (head, section.rows.into_iter().map(row).collect())
}

/// The notes of one sweep, or those of a comparison.
fn notes(sweeps: &[ComparedSweep], rules: CompareRules) -> Vec<String> {
    match sweeps {
        [only] => sweep::section(&only.name, &only.report, 0).notes,
        several => sweep_notes(several, rules).into_iter().map(|note| format!("{note}.")).collect(),
    }
}

/// What one sweep found, or how far each of several went.
fn sentence(sweeps: &[ComparedSweep]) -> String {
    if let [only] = sweeps {
        return sweep::section(&only.name, &only.report, 0).sentence;
    }
    let highest = |(n, sweep): (usize, &ComparedSweep)| {
        let best = sweep.report.best()?;
        let rate = base::units::grouped(best.output_tokens_per_s?, 0);
        Some(format!("{} has at most {rate} output tokens per second, at {}", letter(n), best.level))
    };
    let highest: Vec<String> = sweeps.iter().enumerate().filter_map(highest).collect();
    if highest.is_empty() { "No sweep has a valid point.".to_owned() } else { format!("{}.", highest.join("; ")) }
}

/// The page; the first sweep is what the others are compared with.
pub fn compare_sweeps(sweeps: &[ComparedSweep], rules: CompareRules) -> Result<String, minijinja::Error> {
    let named: Vec<NamedSweep<'_>> = sweeps
        .iter()
        .enumerate()
        .map(|(n, sweep)| NamedSweep { name: format!("{} {}", letter(n), sweep.name), report: &sweep.report })
        .collect();
    let best = |n: usize, sweep: &ComparedSweep| {
        let best = sweep.report.best()?;
        let rate = base::units::grouped(best.output_tokens_per_s?, 0);
        Some([
            format!("{}: highest throughput", letter(n)),
            format!("{rate} tok/s"),
            format!(
                "{} of {}; at {}",
                if sweep.report.imported.is_some() { "points" } else { "valid points" },
                sweep.name,
                best.level
            ),
        ])
    };
    // One sweep alone has nothing beside its numbers: a row is a point.
    let (head, rows) = match sweeps {
        [only] => point_rows(&only.name, &only.report),
        several => sweep_rows(several, rules),
    };
    let mut plots = draw(&named).into_iter().map(Safe::from_safe_string);
    render_page(
        PAGE,
        context! {
            title => sweeps.iter().map(|sweep| sweep.name.as_str()).collect::<Vec<_>>().join(" · "),
            simulated => sweeps.iter().any(|sweep| sweep.report.is_simulated()),
            sweeps => sweeps.iter().enumerate().map(|(n, sweep)| context! {
                letter => letter(n),
                color => color(n),
                name => &sweep.name,
                verdict => sweep.report.verdict_text(),
                tone => sweep::tone(&sweep.report),
                identity => sweep.report.identity.as_ref().map(RunIdentity::line),
            }).collect::<Vec<_>>(),
            numbers => sweeps.iter().enumerate().filter_map(|(n, sweep)| best(n, sweep)).take(4).collect::<Vec<_>>(),
            sentence => sentence(sweeps),
            differences => identity_of_sweeps(sweeps),
            picture => plots.next(),
            plots => plots.collect::<Vec<_>>(),
            head,
            rows,
            is_alone => sweeps.len() == 1,
            notes => notes(sweeps, rules),
        },
    )
}
