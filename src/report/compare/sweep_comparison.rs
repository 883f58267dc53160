//! Sweeps beside each other: at each level that more than one has, the numbers and their difference. Every point is one run, so no
//! difference is judged.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::letter;
use crate::harness::{IdentityDifference, MeasuredNumber, RunIdentity, SweepPoint, SweepReport, identity_differences};
use crate::report::terminal::percent::signed_percent;
use crate::report::terminal::styler::{Styler, TextRole, clean, table};

/// A sweep as it is compared.
#[derive(Clone, Debug)]
pub struct ComparedSweep {
    pub name: String,
    pub report: SweepReport,
}

/// A level, and the point of each sweep that has it; only usable points are subtracted.
struct LevelRow<'a> {
    level: String,
    points: Vec<Option<&'a SweepPoint>>,
}

/// The name of a number, its unit, and how a point has it.
type SweepNumber = (&'static str, &'static str, fn(&SweepPoint) -> Option<f64>);

const NUMBERS: [SweepNumber; 5] = [
    ("output_tokens", "/s", |point| point.output_tokens_per_s),
    ("tok/s/user", "", |point| point.tokens_per_s_per_user),
    ("ttft_p99", "ms", |point| value(point.ttft.p99)),
    ("tpot_p99", "ms", |point| value(point.tpot.p99)),
    ("e2e_mean", "ms", |point| value(point.e2e.mean)),
];

fn value(number: Option<MeasuredNumber>) -> Option<f64> {
    number.map(|number| number.value)
}

fn percent(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    let (a, b) = (a?, b?);
    (a != 0.0).then(|| (b - a) / a * 100.0)
}

/// The levels of all, those of the first in their order, then the others.
fn levels(sweeps: &[ComparedSweep]) -> Vec<LevelRow<'_>> {
    let mut all: Vec<&SweepPoint> = Vec::new();
    for point in sweeps.iter().flat_map(|sweep| &sweep.report.points) {
        if !all.iter().any(|known| known.level == point.level) {
            all.push(point);
        }
    }
    all.sort_by(|a, b| {
        let number = |point: &SweepPoint| point.level.number().unwrap_or(f64::INFINITY);
        a.level.unit().cmp(b.level.unit()).then(number(a).total_cmp(&number(b)))
    });
    let at = |level: &SweepPoint, sweep: &'_ ComparedSweep| {
        sweep.report.points.iter().position(|point| point.level == level.level)
    };
    all.into_iter()
        .map(|level| LevelRow {
            level: level.level.to_string(),
            points: sweeps.iter().map(|sweep| Some(&sweep.report.points[at(level, sweep)?])).collect(),
        })
        .collect()
}

/// In what the servers of each further sweep differ from those of the first.
pub(in crate::report) fn identity_of_sweeps(sweeps: &[ComparedSweep]) -> Vec<String> {
    let Some((first, others)) = sweeps.split_first() else { return Vec::new() };
    let line = |(n, other): (usize, &ComparedSweep)| {
        let differences = match (&first.report.identity, &other.report.identity) {
            (Some(a), Some(b)) => identity_differences(a, b),
            _ => return format!("{}: what was measured is not known of both", letter(n)),
        };
        let all: Vec<String> = differences.iter().map(IdentityDifference::describe).collect();
        if all.is_empty() {
            return format!("{}: measured on the same", letter(n));
        }
        format!("{} differs in {}", letter(n), all.join("; "))
    };
    (1..).zip(others).map(line).collect()
}

/// Why no row is better or worse.
pub(in crate::report) const NOT_JUDGED: &str = "each point is one run: how much runs of one server differ is not known, so no difference is judged; `regatta bench … --repeat 5` at one level and `regatta compare` do";

/// Head and rows of a table, level by level and number by number: level, number, A, B, difference, C, …
pub(in crate::report) fn sweep_rows(sweeps: &[ComparedSweep]) -> (Vec<String>, Vec<Vec<String>>) {
    let mut head = vec!["level".to_owned(), "number".to_owned()];
    for n in 0..sweeps.len() {
        head.push(letter(n));
        head.extend((n > 0).then(|| format!("{} − A", letter(n))));
    }
    let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), short);
    let mut rows = Vec::new();
    for level in levels(sweeps) {
        for (at, (name, unit, of)) in NUMBERS.into_iter().enumerate() {
            let values: Vec<Option<f64>> =
                level.points.iter().map(|point| point.filter(|point| point.is_usable()).and_then(of)).collect();
            let mut row = vec![
                if at == 0 { level.level.clone() } else { String::new() },
                format!("{name} {unit}").trim().to_owned(),
            ];
            for (n, value) in values.iter().enumerate() {
                let invalid = level.points[n].filter(|point| !point.is_usable());
                row.push(invalid.map_or_else(|| shown(*value), |point| point.verdict.as_str().to_owned()));
                row.extend((n > 0).then(|| {
                    percent(values[0], *value)
                        .map_or_else(String::new, |percent| format!("{} %", signed_percent(percent)))
                }));
            }
            rows.push(row);
        }
    }
    (head, rows)
}

fn short(value: f64) -> String {
    if value.abs() >= 100.0 { crate::units::grouped(value, 0) } else { format!("{value:.2}") }
}

/// For a terminal.
pub fn sweeps_text(sweeps: &[ComparedSweep], styler: Styler) -> String {
    let mut out = String::new();
    for (n, sweep) in sweeps.iter().enumerate() {
        let simulated = if sweep.report.is_simulated() { " SIMULATED" } else { "" };
        let (valid, count) = (sweep.report.valid(), sweep.report.points.len());
        let _ = writeln!(out, "{}  {}  {valid} of {count} points VALID{simulated}", letter(n), clean(&sweep.name));
        if let Some(identity) = &sweep.report.identity {
            let _ = writeln!(out, "   {}", styler.tone(TextRole::Quiet, clean(&RunIdentity::line(identity))));
        }
    }
    for line in identity_of_sweeps(sweeps) {
        let _ = writeln!(out, "{}", styler.tone(TextRole::Quiet, clean(&line)));
    }
    let (head, rows) = sweep_rows(sweeps);
    let cells = |row: Vec<String>, role: TextRole| row.into_iter().map(|cell| (role, cell)).collect::<Vec<_>>();
    let mut lines = vec![cells(head, TextRole::Quiet)];
    lines.extend(rows.into_iter().map(|row| cells(row, TextRole::Plain)));
    out.push('\n');
    out.push_str(&table(styler, "", &lines));
    let _ = writeln!(out, "{}", styler.tone(TextRole::Quiet, NOT_JUDGED));
    out
}

/// The same as JSON, with every point.
pub fn sweeps_json(sweeps: &[ComparedSweep]) -> Value {
    let at = |point: &SweepPoint, first: Option<&SweepPoint>| {
        let numbers = NUMBERS.into_iter().map(|(name, _, of)| {
            let own = of(point).filter(|_| point.is_usable());
            let base = first.filter(|first| first.is_usable()).and_then(of);
            (name.to_owned(), json!({ "value": own, "percent": percent(base, own) }))
        });
        Value::Object(numbers.collect())
    };
    let rows: Vec<Value> = levels(sweeps)
        .into_iter()
        .map(|level| {
            let first = level.points.first().copied().flatten();
            let points: Vec<Option<Value>> =
                level.points.iter().map(|point| point.map(|point| at(point, first))).collect();
            json!({ "level": level.level, "points": points })
        })
        .collect();
    let named: Vec<Value> = sweeps.iter().map(|sweep| json!({ "name": sweep.name, "sweep": sweep.report })).collect();
    json!({ "sweeps": named, "levels": rows, "judged": false })
}
