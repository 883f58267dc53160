//! The page of a comparison: differences with their intervals, what makes numbers unlike, distributions and time series over
//! each other, and how each result was measured.

use minijinja::value::Serde;
use minijinja::{Value as Safe, context};
use serde::Serialize;

use super::overlay::{self, OverlayCurve, color};
use super::svg::{SvgCanvas, number};
use crate::compare::{ComparedResult, Comparison, Delta, Judgement, RunSet, doubts, judgement_text, letter, method};
use crate::page_template::render_page;
use crate::terminal::percent::signed_percent;
use crate::terminal::styler::to_the_second;
use base::event::Verdict;
use harness::TimeSlice;
use harness::{IdentityDifference, RunIdentity};
use interop::{MeasuredRun, MetricMeaning};

const PAGE: &str = include_str!("../../../../templates/report/compare.html");
/// The rows that a reader looks for first.
const SHOWN: [&str; 4] = ["", "mean", "p50", "p99"];
/// Metrics with overlaid distributions, where individual requests are known.
const SPREAD: [(&str, &str); 3] = [("ttft", "TTFT"), ("tpot", "TPOT"), ("e2e", "E2E")];
/// The largest percentage that a bar shows in full.
const WIDEST: f64 = 100.0;
/// Below this a bar would be all noise.
const NARROWEST: f64 = 2.0;

#[derive(Serialize)]
struct Row {
    metric: String,
    unit: &'static str,
    stat: &'static str,
    a: String,
    b: String,
    percent: String,
    interval: String,
    bar: String,
    tone: &'static str,
    word: String,
    /// Which of the reasons make the two unlike.
    marks: Vec<usize>,
    shown: bool,
    /// The first of its metric.
    first: bool,
}

/// One line of how results were measured: a cell for each.
#[derive(Serialize)]
struct Line {
    name: String,
    cells: Vec<String>,
    differs: bool,
    /// A difference in it is a difference in load.
    is_load: bool,
}

/// The page. `measured_runs` has the first run of each of `sets`, in the same order; the first of them is what the others are compared
/// with. Distributions and time series are those of the first runs.
pub fn compare(
    measured_runs: &[MeasuredRun],
    sets: &[RunSet],
    comparisons: &[Comparison],
) -> Result<String, minijinja::Error> {
    let sheets: Vec<ComparedResult> = sets.iter().map(|set| set.first().clone()).collect();
    let results: Vec<_> = sets
        .iter()
        .enumerate()
        .map(|(place, set)| {
            let sheet = set.worst();
            context! {
                letter => letter(place),
                color => color(place),
                name => &set.name,
                runs => set.runs().len(),
                verdict => sheet.verdict_word(),
                identity => sheet.identity.as_ref().map(RunIdentity::line),
                tone => verdict_class(sheet.verdict),
                tool => sheet.tool.title(),
                started => measured_runs.get(place).and_then(|run| Some(to_the_second(&run.result.own()?.started))),
            }
        })
        .collect();
    let sections: Vec<_> = comparisons.iter().enumerate().map(|(n, one)| section(one, n + 1)).collect();
    render_page(
        PAGE,
        context! {
            title => sets.iter().map(|set| set.name.as_str()).collect::<Vec<_>>().join(" · "),
            results,
            doubts => doubts(sets),
            has_several => sets.iter().any(|set| set.runs().len() > 1),
            is_paired => comparisons.iter().any(|one| one.pairing.is_paired()),
            sections,
            spreads => spreads(&sheets).into_iter().map(|(svg, unlike)| context! {
                svg => Safe::from_safe_string(svg), unlike,
            }).collect::<Vec<_>>(),
            courses => courses(measured_runs).into_iter().map(Safe::from_safe_string).collect::<Vec<_>>(),
            measured => Serde(measured(&sheets)),
            meanings => Serde(meanings(&sheets)),
        },
    )
}

const fn verdict_class(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Valid) => "good",
        Some(Verdict::ValidWithWarnings) => "odd",
        Some(_) => "bad",
        None => "none",
    }
}

fn section(comparison: &Comparison, place: usize) -> Safe {
    let mut reasons: Vec<String> = Vec::new();
    // Bars are for intervals: a number without one may be all noise, and would press the others flat.
    let has_intervals = comparison.deltas.iter().any(|delta| delta.interval.is_some());
    let most = comparison
        .deltas
        .iter()
        .filter(|delta| delta.interval.is_some() || !has_intervals)
        // The client's own lateness varies most and is no number of the server.
        .filter(|delta| delta.metric != "queue_client")
        .flat_map(|delta| {
            let ends = delta.interval.map_or([0.0, 0.0], |it| [it.low, it.high]);
            [delta.percent.unwrap_or_default(), ends[0], ends[1]]
        })
        .fold(NARROWEST, |most, value| most.max(value.abs()))
        .min(WIDEST);
    let mut rows: Vec<Row> = Vec::new();
    for delta in &comparison.deltas {
        let first = rows.last().is_none_or(|before| before.metric != delta.metric);
        rows.push(Row { first, ..row(delta, most, &mut reasons) });
    }
    let count = |wanted: Judgement| {
        let shown = comparison.deltas.iter().filter(|delta| SHOWN.contains(&delta.stat));
        shown.filter(|delta| delta.judgement == Some(wanted)).count()
    };
    context! {
        letter => letter(place),
        name => comparison.b.clone(),
        identity => comparison.identity.iter().map(IdentityDifference::describe).collect::<Vec<_>>(),
        better => count(Judgement::Better),
        worse => count(Judgement::Worse),
        equivalent => count(Judgement::Equivalent),
        unclear => count(Judgement::CannotTell),
        is_judged => comparison.is_judged(),
        pairing => (comparison.is_judged() && comparison.has_any()).then(|| comparison.pairing.describe()),
        unlike => rows.iter().filter(|row| row.shown && row.word == "unlike").count(),
        more => rows.iter().any(|row| !row.shown),
        rows => rows.iter().map(|row| context! {
            svg => Safe::from_safe_string(row.bar.clone()),
            ..Safe::from(Serde(row))
        }).collect::<Vec<_>>(),
        notes => method(comparison).into_iter().chain(comparison.notes.clone()).collect::<Vec<_>>(),
        reasons,
        refused => !comparison.has_any(),
        widest => number(most),
        has_beyond => comparison.deltas.iter().any(|delta| {
            let ends = delta.interval.map_or([0.0, 0.0], |it| [it.low, it.high]);
            [delta.percent.unwrap_or_default(), ends[0], ends[1]].iter().any(|value| value.abs() > most)
        }),
    }
}

fn row(delta: &Delta, most: f64, reasons: &mut Vec<String>) -> Row {
    let marks = delta
        .unlike
        .iter()
        .map(|reason| {
            let known = reasons.iter().position(|known| known == reason);
            1 + known.unwrap_or_else(|| {
                reasons.push(reason.clone());
                reasons.len() - 1
            })
        })
        .collect();
    let (tone, word) = match delta.judgement {
        Some(Judgement::Better) => ("good", judgement_text(delta)),
        Some(Judgement::Worse) => ("bad", judgement_text(delta)),
        Some(_) => ("none", judgement_text(delta)),
        None if delta.unlike.is_empty() => ("none", "no percentage of 0".to_owned()),
        None => ("odd", "unlike".to_owned()),
    };
    let shown = |value: Option<f64>| value.map_or_else(|| "n/a".to_owned(), number);
    Row {
        metric: delta.metric.clone(),
        unit: delta.unit,
        stat: delta.stat,
        a: shown(delta.a),
        b: shown(delta.b),
        percent: delta.percent.map_or_else(String::new, |percent| format!("{} %", signed_percent(percent))),
        interval: delta
            .interval
            .map_or_else(String::new, |it| format!("{} … {} %", signed_percent(it.low), signed_percent(it.high))),
        bar: delta.percent.map_or_else(String::new, |percent| bar(delta, percent, most, tone)),
        tone,
        word,
        marks,
        shown: SHOWN.contains(&delta.stat),
        first: false,
    }
}

/// The interval as a bar around zero, the difference as a stroke in it, or as an arrow at the edge where it is beyond the picture.
fn bar(delta: &Delta, percent: f64, most: f64, tone: &str) -> String {
    const SIZE: (f64, f64) = (150.0, 18.0);
    let x = |percent: f64| SIZE.0 / 2.0 + (percent / most).clamp(-1.0, 1.0) * (SIZE.0 / 2.0 - 4.0);
    let interval = delta
        .interval
        .map_or_else(String::new, |it| format!(", {} to {} %", signed_percent(it.low), signed_percent(it.high)));
    let text = format!("{} {}: {} %{interval}", delta.metric, delta.stat, signed_percent(percent));
    let mut picture = SvgCanvas::new(SIZE.0, SIZE.1, &text);
    picture.line((x(0.0), 0.0), (x(0.0), SIZE.1), "axis");
    if let Some(it) = delta.interval {
        let (from, to) = (x(it.low), x(it.high));
        picture.rect((from, 5.0), ((to - from).max(2.0), SIZE.1 - 10.0), &format!("range {tone}"), &text);
    }
    if percent.abs() > most {
        let (edge, inner) = (x(percent), x(percent) - 8.0 * percent.signum());
        picture.curve([(inner, 2.0), (edge, SIZE.1 / 2.0), (inner, SIZE.1 - 2.0)], &format!("beyond {tone}"));
    } else {
        picture.line((x(percent), 2.0), (x(percent), SIZE.1 - 2.0), &format!("point {tone}"));
    }
    picture.finish()
}

/// Each distribution, and whether the curves in it mean different things.
fn spreads(sheets: &[ComparedResult]) -> Vec<(String, Vec<String>)> {
    let drawn = |(key, name): (&str, &str)| {
        let found: Vec<_> = sheets
            .iter()
            .enumerate()
            .filter_map(|(place, sheet)| Some((place, sheet.measures.iter().find(|measure| measure.key == key)?)))
            .collect();
        let values: Vec<_> = found
            .iter()
            .map(|(place, measure)| (*place, measure.values.iter().map(|(_, value)| *value).collect()))
            .collect();
        let (_, first) = found.first()?;
        let mut unlike: Vec<String> = Vec::new();
        for (place, other) in &found[1..] {
            let differences = first.meaning.differences(&other.meaning);
            unlike.extend(differences.into_iter().map(|why| format!("{}: {why}", letter(*place))));
        }
        let svg = overlay::spread(&format!("{name}: % of requests at most …"), first.unit, &values)?;
        Some((svg, unlike))
    };
    SPREAD.into_iter().filter_map(drawn).collect()
}

/// What happened in each second of each result, as far as it is known.
fn courses(measured_runs: &[MeasuredRun]) -> Vec<String> {
    let series = |of: &dyn Fn(&MeasuredRun) -> Vec<(f64, f64)>| -> Vec<OverlayCurve> {
        measured_runs.iter().enumerate().map(|(place, run)| OverlayCurve { place, points: of(run) }).collect()
    };
    let slices = |of: fn(&TimeSlice) -> Option<f64>| {
        move |run: &MeasuredRun| -> Vec<(f64, f64)> {
            run.result.slices().iter().filter_map(|slice| Some((slice.second as f64, of(slice)?))).collect()
        }
    };
    let across = "seconds from the start";
    let is_of_chunks =
        measured_runs.iter().filter_map(|run| run.result.own()).any(|result| result.tokens.chunk_source.is_some());
    // Files of earlier versions do not have them.
    let has_peaks = measured_runs.iter().flat_map(|run| run.result.slices()).all(|slice| slice.in_flight_max.is_some());
    [
        ("Requests sent in each second", series(&sent)),
        if has_peaks {
            ("Requests in flight, the most in each second", series(&slices(|slice| Some(slice.in_flight_max? as f64))))
        } else {
            ("Requests in flight when each second began", series(&slices(|slice| Some(slice.in_flight as f64))))
        },
        (
            if is_of_chunks { "Chunks or output tokens in each second" } else { "Output tokens in each second" },
            series(&slices(|slice| Some(slice.tokens as f64))),
        ),
        ("Mean TTFT of each second's first tokens, ms", series(&slices(|slice| slice.ttft_ms))),
    ]
    .into_iter()
    .filter_map(|(title, all)| overlay::course(title, across, &all))
    .collect()
}

/// How many were sent in each second after the first was due or sent.
fn sent(measured_run: &MeasuredRun) -> Vec<(f64, f64)> {
    let from =
        measured_run.request_traces.iter().map(|one| one.sched.unwrap_or(one.issue)).fold(f64::INFINITY, f64::min);
    let mut counts: Vec<f64> = Vec::new();
    for one in &measured_run.request_traces {
        let second = ((one.issue - from) / 1e3).max(0.0) as usize;
        // A stamp from nowhere must not fill the memory.
        if second < 1_000_000 {
            counts.resize(counts.len().max(second + 1), 0.0);
            counts[second] += 1.0;
        }
    }
    counts.into_iter().enumerate().map(|(second, count)| (second as f64, count)).collect()
}

/// The requests of each, load first; keys without any value are left out.
fn measured(sheets: &[ComparedResult]) -> Vec<Line> {
    let lines = |is_load: bool| {
        let of = move |sheet: &ComparedResult| if is_load { sheet.load().clone() } else { sheet.settings().clone() };
        let all: Vec<_> = sheets.iter().map(of).collect();
        let mut names: Vec<String> = all.iter().flat_map(|one| one.keys().cloned()).collect();
        names.sort();
        names.dedup();
        names.into_iter().map(move |name| {
            let cells: Vec<String> = all.iter().map(|one| one.get(&name).cloned().unwrap_or_default()).collect();
            // A missing value is not a known difference.
            let known: Vec<&String> = cells.iter().filter(|cell| !cell.is_empty()).collect();
            let differs = known.windows(2).any(|pair| pair[0] != pair[1]);
            Line { name: name.replace('_', " "), cells, differs, is_load }
        })
    };
    lines(true).chain(lines(false)).collect()
}

/// Each metric that more than one result has: what it means, a line for each field that a result defines.
fn meanings(sheets: &[ComparedResult]) -> Vec<(String, Vec<Line>)> {
    type Field = fn(&MetricMeaning) -> &String;
    let fields: [(&str, Field); 6] = [
        ("formula", |meaning| &meaning.formula),
        ("of", |meaning| &meaning.population),
        ("from", |meaning| &meaning.zero_point),
        ("tokens", |meaning| &meaning.token_source),
        ("window", |meaning| &meaning.window),
        ("percentiles", |meaning| &meaning.percentile_rule),
    ];
    let mut meanings = Vec::new();
    for measure in sheets.first().map(|sheet| &sheet.measures).into_iter().flatten() {
        let all: Vec<Option<&MetricMeaning>> = sheets
            .iter()
            .map(|sheet| sheet.measures.iter().find(|other| other.key == measure.key).map(|other| &other.meaning))
            .collect();
        let mut lines = Vec::new();
        for (name, field) in fields {
            let cells: Vec<String> = all.iter().map(|it| it.map(|it| field(it).clone()).unwrap_or_default()).collect();
            let known: Vec<&String> = all.iter().filter_map(|it| it.map(field)).collect();
            let differs = known.windows(2).any(|pair| pair[0] != pair[1]);
            if cells.iter().any(|cell| !cell.is_empty()) {
                lines.push(Line { name: name.to_owned(), cells, differs, is_load: false });
            }
        }
        meanings.push((measure.key.clone(), lines));
    }
    meanings
}

#[cfg(test)]
mod tests;
