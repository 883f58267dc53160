//! A sweep on the page: what it found in a sentence and three numbers, one picture, the table, and the other curves.

use std::fmt::Write as _;

use serde::Serialize;

use super::metric_row::cell;
use super::svg::number;
use super::sweep_charts::{NamedSweep, draw};
use crate::over_runs::mean_text;
use crate::terminal::from_zero_points;
use base::event::Verdict;
use harness::{KneeState, LatencySummary, MeasuredNumber, RunIdentity, SweepOrigin, SweepPoint, SweepReport};

/// A sweep, ready for the template.
#[derive(Serialize)]
pub(super) struct SweepSection {
    pub name: String,
    pub anchor: String,
    /// `8 of 8 valid`.
    pub verdict: String,
    pub tone: &'static str,
    pub simulated: bool,
    pub identity: Option<String>,
    pub sentence: String,
    /// Name, value, what it is.
    pub numbers: Vec<[String; 3]>,
    pub head: Vec<String>,
    pub rows: Vec<SweepRow>,
    pub notes: Vec<String>,
    /// Level, verdict, and why it is not VALID.
    pub reasons: Vec<[String; 3]>,
    /// SVG; the page marks it as safe. The first is the picture of the head.
    #[serde(skip)]
    pub plots: Vec<String>,
}

/// One point as a row.
#[derive(Serialize)]
pub(super) struct SweepRow {
    pub level: String,
    pub cells: Vec<String>,
    pub verdict: String,
    pub tone: &'static str,
    pub is_knee: bool,
    pub on_front: bool,
    pub is_usable: bool,
}

pub(super) fn section(name: &str, report: &SweepReport, place: usize) -> SweepSection {
    let simulated = if report.is_simulated() { " SIMULATED" } else { "" };
    SweepSection {
        name: name.to_owned(),
        anchor: format!("sweep-{place}"),
        verdict: format!("{}{simulated}", report.verdict_text()),
        tone: tone(report),
        simulated: report.is_simulated(),
        identity: report.identity.as_ref().map(RunIdentity::line),
        sentence: sentence(report),
        numbers: numbers(report),
        head: head(report),
        rows: report.points.iter().enumerate().map(|(at, point)| row(report, at, point)).collect(),
        notes: notes(report),
        reasons: reasons(report),
        plots: draw(&[NamedSweep { name: name.to_owned(), report }]),
    }
}

/// The class of its badge.
pub(super) fn tone(report: &SweepReport) -> &'static str {
    match report.valid() {
        _ if report.imported.is_some() => "odd",
        0 => "bad",
        valid if valid < report.points.len() => "odd",
        _ if report.points.iter().any(|point| point.verdict != Some(Verdict::Valid)) => "odd",
        _ => "good",
    }
}

fn value(number: Option<MeasuredNumber>) -> Option<f64> {
    number.map(|number| number.value)
}

/// What the sweep found.
fn sentence(report: &SweepReport) -> String {
    let [first, .., last] = report.points.as_slice() else {
        return report.points.first().map(|point| format!("One point, at {}.", point.level)).unwrap_or_default();
    };
    let mut text = format!("{} points, from {} to {}", report.points.len(), first.level, last.level);
    if let Some(best) = report.best() {
        let rate = best.output_tokens_per_s.map(number).unwrap_or_default();
        let _ = write!(text, "; at most {rate} output tokens per second, at {}", best.level);
    }
    let _ = match report.knee.as_ref().map(|knee| (knee.state, &knee.level)) {
        Some((KneeState::Bracketed, level)) => {
            write!(text, "; beyond {level} more load costs more latency than it brings throughput.")
        }
        Some((KneeState::AtHighest, level)) if report.has_overload() => {
            write!(text, "; the knee lies at {level}, the highest level without overload, or above.")
        }
        Some((KneeState::AtHighest, _)) => write!(text, "; the knee lies at the highest level or above."),
        Some((KneeState::AtLowest, _)) => write!(text, "; the knee lies at the lowest level or below."),
        None => write!(text, "."),
    };
    text
}

fn numbers(report: &SweepReport) -> Vec<[String; 3]> {
    let mut all = Vec::new();
    if let Some(best) = report.best() {
        let gpu = best.tokens_per_s_per_gpu.map(|rate| format!(", {} per GPU", number(rate))).unwrap_or_default();
        all.push([
            "highest throughput".to_owned(),
            format!("{} tok/s", cell(best.output_tokens_per_s)),
            format!("output tokens of successful requests, valid points without overload only; at {}{gpu}", best.level),
        ]);
    }
    let knee = report.knee.as_ref().and_then(|knee| Some((knee, report.points.get(knee.point as usize)?)));
    if let Some((knee, at)) = knee {
        let bound = match knee.state {
            KneeState::Bracketed => "",
            KneeState::AtHighest => "≥ ",
            KneeState::AtLowest => "≤ ",
        };
        let ttft = cell(value(at.ttft.p99));
        let user = at.tokens_per_s_per_user.map(|rate| format!(", {} tok/s/user", number(rate))).unwrap_or_default();
        let what = format!("highest power; there {} tok/s, TTFT p99 {ttft} ms{user}", cell(at.output_tokens_per_s));
        all.push(["knee".to_owned(), format!("{bound}{}", knee.level), what]);
    }
    let lowest = |of: fn(&SweepPoint) -> &LatencySummary| {
        let valid = report.points.iter().filter(|point| point.is_accepted());
        let known = valid.filter_map(|point| Some((point, value(of(point).p50)?)));
        known.min_by(|a, b| a.1.total_cmp(&b.1))
    };
    if let Some((point, ttft)) = lowest(|point| &point.ttft) {
        let tpot = value(point.tpot.p50).map(|tpot| format!(", TPOT p50 {} ms", number(tpot))).unwrap_or_default();
        let from = from_zero_points(&[&point.zero_point]);
        let what = format!("the least of the valid points, {from}; at {}{tpot}", point.level);
        all.push(["lowest TTFT p50".to_owned(), format!("{} ms", number(ttft)), what]);
    }
    all
}

fn head(report: &SweepReport) -> Vec<String> {
    let unit = report.points.first().map(|point| point.level.heading()).unwrap_or_default();
    let is_mixed = report.points.iter().any(|point| point.level.heading() != unit);
    let mut head = vec![if is_mixed { "level" } else { unit }, "req/s", "tok/s", "tok/s/user"];
    head.extend(has_gpus(report).then_some("tok/s/GPU"));
    head.extend(["TTFT p50, ms", "TTFT p99, ms", "TPOT p50, ms", "TPOT p99, ms", "E2E mean, ms", "E2E p99, ms"]);
    head.extend(has_goodput(report).then_some("goodput, req/s"));
    head.into_iter().map(str::to_owned).collect()
}

fn has_gpus(report: &SweepReport) -> bool {
    report.points.iter().any(|point| point.tokens_per_s_per_gpu.is_some())
}

fn has_goodput(report: &SweepReport) -> bool {
    report.points.iter().any(|point| point.goodput_per_s.is_some())
}

fn row(report: &SweepReport, at: usize, point: &SweepPoint) -> SweepRow {
    let unit = report.points.first().map(|point| point.level.heading()).unwrap_or_default();
    let is_mixed = report.points.iter().any(|point| point.level.heading() != unit);
    let mut cells = vec![
        over_runs(point, point.requests_per_s, "requests_full"),
        over_runs(point, point.output_tokens_per_s, "output_tokens"),
        cell(point.tokens_per_s_per_user),
    ];
    cells.extend(has_gpus(report).then(|| cell(point.tokens_per_s_per_gpu)));
    for (latency, name) in [
        (point.ttft.p50, "ttft_p50"),
        (point.ttft.p99, "ttft_p99"),
        (point.tpot.p50, "tpot_p50"),
        (point.tpot.p99, "tpot_p99"),
        (point.e2e.mean, "e2e_mean"),
        (point.e2e.p99, "e2e_p99"),
    ] {
        cells.push(over_runs(point, value(latency), name));
    }
    cells.extend(has_goodput(report).then(|| over_runs(point, point.goodput_per_s, "goodput")));
    let level = if is_mixed { point.level.to_string() } else { point.level.amount() };
    SweepRow {
        level: point.role.map_or_else(|| level.clone(), |role| format!("{level}, {}", role.as_str())),
        cells,
        verdict: point.verdict_line(),
        tone: match point.verdict {
            Some(Verdict::Valid) => "good",
            None | Some(Verdict::ValidWithWarnings) => "odd",
            _ => "bad",
        },
        is_knee: report
            .knee
            .as_ref()
            .is_some_and(|knee| knee.state == KneeState::Bracketed && knee.point as usize == at),
        on_front: point.on_front,
        is_usable: point.is_usable(),
    }
}

fn notes(report: &SweepReport) -> Vec<String> {
    let mut notes = report.imported.as_ref().map_or_else(
        || {
            vec![format!(
                "Latencies in ms, TTFT and E2E {}, of successful requests; rates over the window of each point; tok/s are output tokens; tok/s/user is 1,000 / TPOT p50.",
                from_zero_points(&report.zero_points())
            )]
        },
        imported_notes,
    );
    notes.push(format!(
        "Whiskers are 95 % intervals {}. A cross is a point that is no measurement of the server; it is on no curve. A hollow point is above a limit, or has `overload`: that the server holds its rate was not seen, and its latencies may grow with the length of its run. The Pareto front has no such point, and none that is not valid.",
        if report.runs() > 1 { "of the mean over the runs of a point" } else { "from the requests of that point, where they are enough for one" }
    ));
    notes.extend((report.runs() > 1).then(|| {
        format!("Each number is the mean over the runs of its point, at most {}; ± is half of its 95 % interval, by Student's t over runs, whose ends are there where it is cut at 0.", report.runs())
    }));
    notes.extend(report.gpus.as_ref().map(|gpus| format!("tok/s/GPU is over {} GPU(s): {}.", gpus.count, gpus.source)));
    notes.extend(report.knee.as_ref().map(|knee| format!("Knee: {}.", knee.definition)));
    notes
}

/// A mean over runs with its interval; the number alone where there was one run.
fn over_runs(point: &SweepPoint, value: Option<f64>, name: &str) -> String {
    match point.interval_over_runs(name).zip(value) {
        Some((ends, value)) => mean_text(value, ends, number),
        None => cell(value),
    }
}

/// Whose numbers they are, and what they mean there.
fn imported_notes(origin: &SweepOrigin) -> Vec<String> {
    let mut notes = vec![format!(
        "Measured by {}{}, not by Regatta: its own numbers, with the definitions of {}. Latencies in ms; tok/s are output tokens, counted by {}; tok/s/user is 1,000 / TPOT p50.",
        origin.tool,
        origin.tool_version.as_ref().map(|version| format!(" {version}")).unwrap_or_default(),
        origin.title,
        origin.token_source,
    )];
    notes.extend(origin.definitions.iter().map(|(name, definition)| format!("{name}: {definition}.")));
    notes
}

fn reasons(report: &SweepReport) -> Vec<[String; 3]> {
    let mut all = Vec::new();
    for point in &report.points {
        for reason in &point.reasons {
            all.push([point.level.to_string(), point.verdict_text().to_owned(), reason.line()]);
        }
    }
    all
}
