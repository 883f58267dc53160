//! A sweep as a table: a row for each point, in the order of the levels.

use std::fmt::Write as _;

use super::styler::{Styler, TextRole, clean};
use crate::over_runs::mean_text;
use base::event::Verdict;
use base::units::{counted, three_digits};
use harness::{KneeState, LatencySummary, MeasuredNumber, ReasonSeverity, SweepPoint, SweepReport, zero_point_text};

type Cell = (TextRole, String);

/// The table, what its columns mean, the knee, and why points are not valid.
pub fn sweep_table(report: &SweepReport, styler: Styler) -> String {
    let heading = report.points.first().map(|point| point.level.heading().to_owned()).unwrap_or_default();
    let is_mixed = report.points.iter().any(|point| point.level.heading() != heading);
    let has_goodput = report.points.iter().any(|point| point.goodput_per_s.is_some());
    let has_gpus = report.points.iter().any(|point| point.tokens_per_s_per_gpu.is_some());
    let mut heads = vec![
        if is_mixed { "level" } else { &heading },
        "req/s",
        "tok/s",
        "tok/s/user",
        "TTFT p50",
        "p99",
        "TPOT p50",
        "p99",
        "E2E mean",
        "p99",
    ];
    if has_gpus {
        heads.insert(4, "tok/s/GPU");
    }
    if has_goodput {
        heads.push("goodput");
    }
    heads.push("verdict");
    let mut rows: Vec<Vec<Cell>> = vec![heads.iter().map(|head| (TextRole::Quiet, (*head).to_owned())).collect()];
    let columns = ExtraColumns { is_mixed, has_gpus, has_goodput };
    for point in &report.points {
        rows.push(row(point, columns, is_knee(report, point)));
    }
    let left_out = styler.width().map(|width| narrow(&mut rows, width)).unwrap_or_default();
    let mut text = String::from("\n");
    text.push_str(&aligned(styler, &rows));
    notes(report, styler, &mut text);
    if !left_out.is_empty() {
        let line = format!("for a wider terminal, or in sweep.json: {}", left_out.join(", "));
        let _ = writeln!(text, "{}", styler.tone(TextRole::Quiet, line));
    }
    styler.fit(text)
}

/// Columns that a narrow terminal does without, the first one first, each with its name.
const DISPENSABLE: [(&str, usize, &str); 4] = [
    ("E2E mean", 1, "E2E p99"),
    ("E2E mean", 0, "E2E mean"),
    ("tok/s/GPU", 0, "tok/s/GPU"),
    ("tok/s/user", 0, "tok/s/user"),
];

/// Takes columns out until the table is no wider than `width`; the names of those that it took.
fn narrow(rows: &mut [Vec<Cell>], width: usize) -> Vec<&'static str> {
    let mut left_out = Vec::new();
    for (head, behind, name) in DISPENSABLE {
        if widths(rows).iter().map(|width| width + 2).sum::<usize>() <= width + 2 {
            break;
        }
        let Some(at) = rows.first().and_then(|heads| heads.iter().position(|(_, text)| text == head)) else { continue };
        for row in &mut *rows {
            drop(row.remove(at + behind));
        }
        left_out.push(name);
    }
    left_out
}

fn is_knee(report: &SweepReport, point: &SweepPoint) -> bool {
    report.knee.as_ref().is_some_and(|knee| {
        knee.state == KneeState::Bracketed && report.points.get(knee.point as usize).is_some_and(|at| at == point)
    })
}

/// What a table of points has beside the columns of every table.
#[derive(Clone, Copy)]
struct ExtraColumns {
    /// Levels have different units.
    is_mixed: bool,
    has_gpus: bool,
    has_goodput: bool,
}

fn row(point: &SweepPoint, columns: ExtraColumns, is_knee: bool) -> Vec<Cell> {
    let ExtraColumns { is_mixed, has_gpus, has_goodput } = columns;
    let plain = |text: String| (if point.is_usable() { TextRole::Plain } else { TextRole::Quiet }, text);
    let rate = |value: Option<f64>| plain(value.map_or_else(|| "n/a".to_owned(), three_digits));
    // With the interval over runs, at the numbers that decide.
    let over_runs = |value: Option<f64>, name: &str| match (value, point.interval_over_runs(name)) {
        (Some(value), Some(ends)) => plain(mean_text(value, ends, three_digits)),
        _ => rate(value),
    };
    let ms = |latency: &LatencySummary, pick: fn(&LatencySummary) -> Option<MeasuredNumber>| {
        rate(pick(latency).map(|number| number.value))
    };
    let level = if is_mixed { point.level.to_string() } else { point.level.amount() };
    let level = match point.role {
        Some(role) => format!("{level} ({})", role.as_str()),
        None => level,
    };
    let mut cells = vec![
        (TextRole::Name, clean(&level)),
        rate(point.requests_per_s),
        over_runs(point.output_tokens_per_s, "output_tokens"),
        rate(point.tokens_per_s_per_user),
        ms(&point.ttft, |latency| latency.p50),
        over_runs(value(point.ttft.p99), "ttft_p99"),
        ms(&point.tpot, |latency| latency.p50),
        over_runs(value(point.tpot.p99), "tpot_p99"),
        over_runs(value(point.e2e.mean), "e2e_mean"),
        ms(&point.e2e, |latency| latency.p99),
    ];
    if has_gpus {
        cells.insert(4, rate(point.tokens_per_s_per_gpu));
    }
    if has_goodput {
        cells.push(over_runs(point.goodput_per_s, "goodput"));
    }
    let role = match point.verdict {
        Some(Verdict::Valid) => TextRole::Good,
        None => TextRole::Quiet,
        Some(Verdict::ValidWithWarnings) => TextRole::Warning,
        _ => TextRole::Bad,
    };
    let knee = if is_knee { "  ← knee" } else { "" };
    cells.push((role, format!("{}{knee}", point.verdict_line())));
    cells
}

/// `from schedule`, `from when the user became idle`; of a sweep of an earlier version it is not known.
pub(crate) fn from_zero_points(names: &[&str]) -> String {
    let texts: Vec<String> = names.iter().filter(|name| !name.is_empty()).map(|name| zero_point_text(name)).collect();
    if texts.is_empty() {
        "from the zero point of each result".to_owned()
    } else {
        format!("from {}", texts.join(" or "))
    }
}

fn notes(report: &SweepReport, styler: Styler, text: &mut String) {
    let mut note = |line: String| {
        let _ = writeln!(text, "{}", styler.tone(TextRole::Quiet, line));
    };
    match &report.imported {
        None => note(format!(
            "TTFT, TPOT and E2E in ms, TTFT and E2E {}; tok/s are output tokens of successful requests; tok/s/user is 1,000 / TPOT p50",
            from_zero_points(&report.zero_points())
        )),
        Some(origin) => {
            note(format!(
                "measured by {}, not by Regatta: its own numbers, with the definitions of {}",
                clean(&origin.tool),
                clean(&origin.title)
            ));
            note("latencies in ms; tok/s are output tokens; tok/s/user is 1,000 / TPOT p50".to_owned());
        }
    }
    if report.runs() > 1 {
        note(format!(
            "each number is the mean of up to {} runs; ± is half of its 95 % interval over runs, whose ends are there where it is cut at 0",
            report.runs()
        ));
    }
    if let Some(gpus) = &report.gpus {
        note(format!("tok/s/GPU: over {} ({})", counted(gpus.count as usize, "GPU"), clean(&gpus.source)));
    }
    if let Some(knee) = &report.knee {
        let more = match knee.state {
            KneeState::Bracketed => "",
            KneeState::AtLowest => "; it is the lowest level, so the knee may be lower",
            KneeState::AtHighest if report.has_overload() => {
                "; it is the highest level without overload, so the knee may be higher"
            }
            KneeState::AtHighest => "; it is the highest level, so the knee may be higher",
        };
        note(format!("knee: {} at {}{more}", knee.definition, knee.level));
    }
    if report.has_overload() {
        note(
            "overload: that the server holds this rate was not seen, and latencies may grow with the length of the run; no candidate for the knee or the front".to_owned(),
        );
    }
    for point in report.points.iter().filter(|point| !point.is_accepted()) {
        for reason in point.reasons.iter().filter(|reason| reason.severity != ReasonSeverity::Warning) {
            let _ = writeln!(text, "  ✗ {}: {}", clean(&point.level.to_string()), clean(&reason.line()));
        }
    }
}

fn value(number: Option<MeasuredNumber>) -> Option<f64> {
    number.map(|number| number.value)
}

/// Of each column, in characters.
fn widths(rows: &[Vec<Cell>]) -> Vec<usize> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.1.chars().count()).max().unwrap_or(0)
    };
    (0..columns).map(width).collect()
}

/// All columns but the first and the last are numbers, which end under each other.
fn aligned(styler: Styler, rows: &[Vec<Cell>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let widths = widths(rows);
    let mut out = String::new();
    for row in rows {
        for (column, (role, cell)) in row.iter().enumerate() {
            let gap = widths[column].saturating_sub(cell.chars().count());
            let cell = styler.tone(*role, cell);
            let _ = match column {
                0 => write!(out, "{cell}{:gap$}", ""),
                column if column + 1 == columns => write!(out, "  {cell}"),
                _ => write!(out, "  {:gap$}{cell}", ""),
            };
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_does_without_what_is_least_needed() {
        let cells = |texts: [&str; 12]| texts.map(|text| (TextRole::Plain, text.to_owned())).to_vec();
        let table = [
            cells([
                "users",
                "req/s",
                "tok/s",
                "tok/s/user",
                "tok/s/GPU",
                "TTFT p50",
                "p99",
                "TPOT p50",
                "p99",
                "E2E mean",
                "p99",
                "verdict",
            ]),
            cells([
                "4",
                "1.48",
                "189",
                "52.4",
                "189",
                "262",
                "281",
                "19.1",
                "20.4",
                "2,686",
                "2,704",
                "VALID WITH WARNINGS",
            ]),
        ];
        let left_out = |width: usize| {
            let mut rows = table.clone();
            let left_out = narrow(&mut rows, width);
            let widest = aligned(Styler::OFF, &rows).lines().map(|line| line.chars().count()).max();
            (left_out, widest.expect("lines") <= width)
        };
        assert_eq!(left_out(120), (vec![], true));
        assert_eq!(left_out(110), (vec!["E2E p99"], true));
        assert_eq!(left_out(80), (vec!["E2E p99", "E2E mean", "tok/s/GPU", "tok/s/user"], true));
        assert_eq!(left_out(40), (vec!["E2E p99", "E2E mean", "tok/s/GPU", "tok/s/user"], false));
    }
}
