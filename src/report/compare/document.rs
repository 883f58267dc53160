//! A comparison as a document: differences with their intervals, what makes numbers unlike, distributions and time
//! series over each other, and how each result was measured.

use super::fail_condition::has_one_definition;
use super::{ComparedResult, Comparison, Delta, FOUND_RATE, Judgement, Measure, RowFamily, RunSet};
use crate::chart::{OverlayCurve, SvgCanvas, color, course, cumulative, spread};
use crate::document::{Badge, Block, Cell, Document, Figure, Item, Section, Table, TableColumn};
use crate::explain::short_name;
use crate::history::MetricKey;
use crate::result_page::second_series;
use crate::styler::{TextRole, clean, signed_percent, to_the_second};
use crate::what_if::distinct;
use base::event::Verdict;
use base::stats::COMMON_CHANGE;
use base::units::{counted, two_decimals};
use harness::TimeSlice;
use interop::{MeasuredRun, MetricMeaning};

/// The rows that a reader looks for; a page has all below a summary, JSON too.
const SHOWN: [&str; 4] = ["", "mean", "p50", "p99"];
/// Metrics with overlaid distributions, where individual requests are known.
const SPREAD: [&str; 3] = ["ttft", "tpot", "e2e"];
/// The largest percentage that a bar shows in full, and that is worth a number.
const WIDEST: f64 = 100.0;
/// Below this a bar would be all noise.
const NARROWEST: f64 = 2.0;
const READING: &str = "Difference: (other − A) / A, of the means. With several runs on a side, A, B, … are means \
                       over runs, and the 95 % interval comes from the differences between runs. `regatta explain` \
                       has the judgements.";

/// The differences of each side from the first. `measured_runs`, for a page, has the first run of each of `sets`, in
/// the same order: its distributions and time series are drawn.
pub fn document(sets: &[RunSet], comparisons: &[Comparison], measured_runs: &[MeasuredRun]) -> Document {
    let names: Vec<&str> = sets.iter().map(|set| set.name.as_str()).collect();
    let doubts = doubts(sets).into_iter().map(|doubt| Block::text(TextRole::Warning, doubt));
    let head = [Block::table(sides(sets, measured_runs))].into_iter().chain(Block::notes(identity_lines(sets)));
    let mut sections: Vec<Section> = (1..).zip(comparisons).map(|(n, comparison)| section(comparison, n)).collect();
    if !measured_runs.is_empty() {
        sections.extend(page_sections(sets, measured_runs));
    }
    Document {
        name: format!("{} · compared", names.join(" · ")),
        title: "Compared".into(),
        head: head.chain(doubts).collect(),
        sections,
        footer: "Metrics with different definitions are not compared. Made by regatta compare.",
        ..Document::default()
    }
}

/// A row for each result.
fn sides(sets: &[RunSet], measured_runs: &[MeasuredRun]) -> Table {
    let started = TableColumn::new("").on_page();
    let columns = ["", "", "", ""].map(TableColumn::new).into_iter().chain([started]);
    let mut table = Table::new("results", columns);
    for (n, set) in sets.iter().enumerate() {
        let sheet = set.worst();
        let runs = match set.runs().len() {
            1 => String::new(),
            runs => format!(", {runs} runs"),
        };
        let started = measured_runs.get(n).and_then(|run| Some(to_the_second(&run.result.own()?.started)));
        table.row([
            Cell::new(TextRole::Strong, letter(n)),
            Cell::new(TextRole::Name, set.name.as_str()),
            Cell::new(sheet.verdict.map_or(TextRole::Quiet, TextRole::from), sheet.verdict_word()),
            Cell::new(TextRole::Quiet, format!("{} definitions{runs}", sheet.definitions)),
            Cell::new(TextRole::Quiet, started.map_or_else(String::new, |started| format!("started {started}"))),
        ]);
    }
    table
}

/// Warnings for results that are no measurements of a server, and what other tools reported against their own runs.
pub(super) fn doubts(sets: &[RunSet]) -> Vec<String> {
    let of_set = |(n, set)| {
        let invalid = invalid_runs(set).into_iter().map(move |line| format!("{} is {line}", letter(n)));
        invalid.chain(objections(set).into_iter().map(move |line| format!("{}: {line}", letter(n))))
    };
    sets.iter().enumerate().flat_map(of_set).collect()
}

/// What other tools reported against their own runs, on a line each.
fn objections(set: &RunSet) -> Vec<String> {
    let which = |run: &ComparedResult| {
        if set.runs().len() > 1 { format!("{}: ", clean(&run.name)) } else { String::new() }
    };
    set.runs().iter().flat_map(|run| run.objections.iter().map(move |line| format!("{}{line}", which(run)))).collect()
}

/// A line for each verdict of a side that is not VALID: `INVALID(server) in after/1; after/3: why`.
pub fn invalid_runs(set: &RunSet) -> Vec<String> {
    let line = |verdict: Verdict| {
        let runs: Vec<_> = set.runs().iter().filter(|run| run.verdict == Some(verdict)).collect();
        let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
        let which = if set.runs().len() > 1 { format!(" in {}", clean(&names.join("; "))) } else { String::new() };
        Some(format!("{}{which}: {}", runs.first()?.verdict_word(), verdict.about()))
    };
    Verdict::ALL.into_iter().rev().filter(|verdict| !verdict.is_valid()).filter_map(line).collect()
}

/// `A`, `B`, …: how a result is called in a table.
pub(crate) fn letter(n: usize) -> String {
    u8::try_from(n).ok().filter(|n| *n < 26).map_or_else(|| n.to_string(), |n| char::from(b'A' + n).to_string())
}

/// Lines for each result that states what was measured, and one for all that do not.
fn identity_lines(sets: &[RunSet]) -> Vec<String> {
    let known = |(n, set): (usize, &RunSet)| {
        let workload = set.first().workload.as_ref().map(ToString::to_string);
        workload.into_iter().chain(set.first().measured_on()).map(move |text| format!("{}: {text}", letter(n)))
    };
    let mut lines: Vec<String> = sets.iter().enumerate().flat_map(known).collect();
    let unknown: Vec<String> = sets
        .iter()
        .enumerate()
        .filter(|(_, set)| set.first().measured_on().is_none())
        .map(|(n, _)| letter(n))
        .collect();
    if !unknown.is_empty() {
        lines.push(format!("{}: the file does not say what was measured", unknown.join(", ")));
    }
    lines
}

/// One side against the first.
fn section(comparison: &Comparison, n: usize) -> Section {
    let mut section = Section { badges: badges(comparison), ..Section::new(format!("{} against A", letter(n))) };
    if comparison.is_judged() && comparison.has_any() {
        section.about = comparison.pairing.describe();
    }
    if comparison.deltas.is_empty() {
        return section.with([Block::text(TextRole::Plain, format!("A and {} have no number in common", letter(n)))]);
    }
    let scale = bar_scale(comparison);
    let mut reasons = Vec::new();
    let shown = table(comparison, n, scale, &mut reasons, |delta| SHOWN.contains(&delta.stat));
    let percentiles = table(comparison, n, scale, &mut reasons, |_| true);
    let has_more = comparison.deltas.iter().any(|delta| !SHOWN.contains(&delta.stat));
    let percentiles = has_more.then(|| Block::table(percentiles).folded("Also p90 and p95", false).on_page());
    let differences = comparison.identity.iter().map(|difference| Item {
        role: TextRole::Quiet,
        text: format!("differs: {}", difference.describe()),
        ..Item::default()
    });
    let differences: Vec<Item> = differences.collect();
    let is_open = differences.len() <= 6;
    let differences =
        (!differences.is_empty()).then(|| Block::items(differences).folded("In what the two differ", is_open));
    let marked =
        reasons
            .into_iter()
            .enumerate()
            .map(|(n, text)| Item { mark: format!("≠{}", n + 1), text, ..Item::default() });
    let notes = method(comparison).into_iter().chain(comparison.notes.clone());
    section
        .with([Block::table(shown)].into_iter().chain(percentiles))
        .with(beyond_note(comparison, scale))
        .with(Block::notes(notes))
        .with(differences)
        .with([Block::items(marked.collect())])
        .with(Block::notes(unlike_hint(comparison)))
}

/// What was found, counted.
fn badges(comparison: &Comparison) -> Vec<Badge> {
    let badge = |role, text: String| Badge { role, text };
    if !comparison.has_any() {
        return vec![badge(TextRole::Bad, "not comparable".to_owned())];
    }
    let shown = || comparison.deltas.iter().filter(|delta| SHOWN.contains(&delta.stat));
    let judgements = |family: RowFamily| {
        let judged = [
            (TextRole::Good, Judgement::Better),
            (TextRole::Bad, Judgement::Worse),
            (TextRole::Plain, Judgement::Equivalent),
            (TextRole::Plain, Judgement::CannotTell),
        ];
        let count = move |judgement| {
            shown().filter(|delta| delta.family == family && delta.judgement == Some(judgement)).count()
        };
        judged.map(|(role, judgement)| (role, judgement, count(judgement))).into_iter().filter(|(.., n)| *n > 0)
    };
    let mut badges: Vec<Badge> = if comparison.is_judged() {
        let primary = judgements(RowFamily::Primary);
        primary.map(|(role, judgement, n)| badge(role, format!("{n} {}", judgement.as_text()))).collect()
    } else {
        vec![badge(TextRole::Plain, "one run: not judged".to_owned())]
    };
    let exploratory =
        judgements(RowFamily::Exploratory).map(|(_, judgement, n)| format!("{n} {}", judgement.as_text()));
    let exploratory: Vec<String> = exploratory.collect();
    badges.extend(
        (!exploratory.is_empty()).then(|| badge(TextRole::Quiet, format!("exploratory: {}", exploratory.join(", ")))),
    );
    let unlike = shown().filter(|delta| delta.judgement.is_none() && !delta.unlike.is_empty()).count();
    badges.extend((unlike > 0).then(|| badge(TextRole::Warning, format!("{unlike} not comparable"))));
    badges
}

/// `reasons`: why numbers are unlike, each once; rows refer to them.
fn table(
    comparison: &Comparison,
    n: usize,
    scale: f64,
    reasons: &mut Vec<String>,
    is_shown: impl Fn(&Delta) -> bool,
) -> Table {
    let bars = format!("±\u{a0}{}\u{a0}%", crate::chart::number(scale));
    let side = |name| TableColumn { digits: two_decimals, ..TableColumn::number(name) };
    let columns = [
        TableColumn::new("metric"),
        TableColumn::new(""),
        side("A".to_owned()),
        side(letter(n)),
        TableColumn::number("difference"),
        TableColumn::number("95 % interval"),
        TableColumn::new(""),
        TableColumn::new(bars).on_page(),
    ];
    let mut table = Table::new("differences", columns).look("deltas compared");
    let mut metric = "";
    for delta in comparison.deltas.iter().filter(|delta| is_shown(delta)) {
        let bounds = comparison.found_rates.filter(|_| delta.metric == FOUND_RATE);
        let is_bound = bounds.map_or([false; 2], |rates| rates.map(|rate| rate.is_lower_bound));
        let look = if metric == delta.metric { "" } else { "group" };
        metric = &delta.metric;
        table.row_like(look, row(delta, is_bound, scale, reasons));
    }
    table
}

/// `is_bound`: the number of a side is that or more.
fn row(delta: &Delta, is_bound: [bool; 2], scale: f64, reasons: &mut Vec<String>) -> [Cell; 8] {
    let mut mark = |reason: &String| {
        let place = reasons.iter().position(|listed| listed == reason).unwrap_or_else(|| {
            reasons.push(reason.clone());
            reasons.len() - 1
        });
        format!("≠{}", place + 1)
    };
    let marks = delta.unlike.iter().map(&mut mark).collect();
    let (role, word) = match delta.judgement {
        Some(Judgement::Better) => (TextRole::Good, judgement_text(delta)),
        Some(Judgement::Worse) => (TextRole::Bad, judgement_text(delta)),
        Some(_) => (TextRole::Quiet, judgement_text(delta)),
        None if delta.unlike.is_empty() => (TextRole::Quiet, "no percentage of 0".to_owned()),
        None => (TextRole::Warning, "not comparable".to_owned()),
    };
    let side = |value: Option<f64>, is_bound: bool| match value {
        Some(value) if is_bound => Cell::from(format!("{} or more", two_decimals(value))),
        value => Cell::number(TextRole::Plain, value),
    };
    let percent = delta.percent.map_or_else(String::new, |percent| format!("{} %", signed_percent(percent)));
    [
        Cell::name(short_name(&delta.metric)),
        Cell::from(format!("{} {}", delta.stat, delta.unit).trim()),
        side(delta.a, is_bound[0]),
        side(delta.b, is_bound[1]),
        Cell::new(TextRole::Strong, percent),
        Cell::new(TextRole::Quiet, interval_text(delta)),
        Cell::new(role, word).marks(marks),
        Cell::picture(delta.percent.map_or_else(String::new, |percent| bar(delta, percent, scale, role))),
    ]
}

fn interval_text(delta: &Delta) -> String {
    delta
        .interval
        .map_or_else(String::new, |ends| format!("{} … {} %", signed_percent(ends.low), signed_percent(ends.high)))
}

/// The percentages that a row's bar must show.
fn drawn_percents(delta: &Delta) -> [f64; 3] {
    let ends = delta.interval.map_or([0.0, 0.0], |ends| [ends.low, ends.high]);
    [delta.percent.unwrap_or_default(), ends[0], ends[1]]
}

/// Where bars end. They are for intervals: a number without one may be all noise, and would press the others flat.
fn bar_scale(comparison: &Comparison) -> f64 {
    let has_intervals = comparison.deltas.iter().any(|delta| delta.interval.is_some());
    let drawn = comparison.deltas.iter().filter(|delta| delta.interval.is_some() || !has_intervals);
    // The client's own delay varies most and does not describe the server.
    let drawn = drawn.filter(|delta| delta.metric != "queue_client").flat_map(drawn_percents);
    drawn.fold(NARROWEST, |most, value| most.max(value.abs())).min(WIDEST)
}

fn beyond_note(comparison: &Comparison, scale: f64) -> Option<Block> {
    let is_beyond = comparison.deltas.iter().flat_map(drawn_percents).any(|value| value.abs() > scale);
    (is_beyond && comparison.has_any()).then(|| {
        let scale = crate::chart::number(scale);
        let note = format!("Bars are cut at ± {scale} %; an arrow marks a difference beyond that.");
        Block::text(TextRole::Quiet, note).on_page()
    })
}

/// The interval as a bar around zero, the difference as a stroke in it, or as an arrow at the edge where it is beyond
/// the picture.
fn bar(delta: &Delta, percent: f64, scale: f64, role: TextRole) -> String {
    const SIZE: (f64, f64) = (150.0, 18.0);
    let x = |percent: f64| SIZE.0 / 2.0 + (percent / scale).clamp(-1.0, 1.0) * (SIZE.0 / 2.0 - 4.0);
    let tone = match role {
        TextRole::Good => "good",
        TextRole::Bad => "bad",
        _ => "none",
    };
    let name = MetricKey::new(&delta.metric, delta.stat).title();
    let text = format!("{name}: {} %, {}", signed_percent(percent), interval_text(delta));
    let text = text.trim_end_matches(", ");
    let mut picture = SvgCanvas::new(SIZE.0, SIZE.1, text);
    picture.line((x(0.0), 0.0), (x(0.0), SIZE.1), "axis");
    if let Some(ends) = delta.interval {
        let (from, to) = (x(ends.low), x(ends.high));
        picture.rect((from, 5.0), ((to - from).max(2.0), SIZE.1 - 10.0), &format!("range {tone}"), text);
    }
    if percent.abs() > scale {
        let (edge, inner) = (x(percent), x(percent) - 8.0 * percent.signum());
        picture.curve([(inner, 2.0), (edge, SIZE.1 / 2.0), (inner, SIZE.1 - 2.0)], &format!("beyond {tone}"));
    } else {
        picture.line((x(percent), 2.0), (x(percent), SIZE.1 - 2.0), &format!("point {tone}"));
    }
    picture.finish()
}

/// How to subtract what is not subtracted.
fn unlike_hint(comparison: &Comparison) -> Option<String> {
    let unlike = || comparison.deltas.iter().filter(|delta| delta.percent.is_none()).map(|delta| &delta.unlike);
    let one_definition = if unlike().any(|unlike| has_one_definition(unlike)) {
        "`--as TOOL` computes both with one definition where both have records of each request, "
    } else {
        ""
    };
    unlike().any(|unlike| !unlike.is_empty()).then(|| {
        format!("numbers that are not comparable are not subtracted: {one_definition}`--force` subtracts anyway")
    })
}

/// What the judgements rest on, or what they would need.
fn method(comparison: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    if comparison.has_any() {
        lines.push(if let Some(why) = &comparison.too_few_plans {
            format!("no row is judged: {why}")
        } else if comparison.is_judged() {
            format!(
                "means over {}; better or worse: shown at 95 % over the primary rows together, and over the \
                    exploratory ones (Holm), and at least {} %; equivalent: shown to differ by less; detectable: the \
                    smallest change that runs like these show in nine of ten cases; intervals are of one row each",
                run_counts(comparison),
                comparison.smallest_effect
            )
        } else {
            let which = match (comparison.a_runs, comparison.b_runs) {
                (1, 1) => "one run on each side",
                _ => "one run on one side",
            };
            let (rows, advice) = match comparison.found_rates {
                Some(_) => ("no other row", ""),
                None => ("no row", "; measure each side 5 times (`--repeat 5`)"),
            };
            format!(
                "{which}: two runs of the same server also differ, by an unknown amount, so {rows} is judged{advice}"
            )
        });
    }
    lines.extend(tests_line(comparison));
    if let Some([a, b]) = &comparison.found_rates {
        lines.push(format!(
            "found rate: {} / {} requests/s, with the 95 % interval of each search; two that overlap may have found \
                the same rate. The other rows are those of a probe at the rate that each found",
            a.describe(),
            b.describe()
        ));
    }
    if comparison.same_plan && !comparison.pairing.is_paired() {
        lines.push("both sides had the same arrivals and prompts".to_owned());
    }
    lines
}

/// Which metrics are judged in pairs of runs, and which are not; none where no row is judged.
fn tests_line(comparison: &Comparison) -> Option<String> {
    let paired = "paired t test, differences are geometric means of the pairs' ratios";
    let tests = [(true, paired), (false, "Welch's test, unpaired")].into_iter().filter_map(|(is_paired, test)| {
        let judged = comparison.deltas.iter().filter(|delta| delta.p.is_some() && delta.paired == is_paired);
        let metrics = distinct(judged.map(|delta| short_name(&delta.metric)));
        (!metrics.is_empty()).then(|| format!("{}: {test}", metrics.join(", ")))
    });
    let tests: Vec<String> = tests.collect();
    (!tests.is_empty()).then(|| tests.join("; "))
}

/// `5 and 5 runs`; where several runs had one plan `10 runs of 5 plans and 5 runs of 5 plans`, which count as that
/// many.
pub fn run_counts(comparison: &Comparison) -> String {
    let sides = [(comparison.a_runs, comparison.a_plans), (comparison.b_runs, comparison.b_plans)];
    if sides.iter().all(|(runs, plans)| plans.is_none_or(|plans| plans == *runs)) {
        return format!("{} and {} runs", comparison.a_runs, comparison.b_runs);
    }
    let side = |(runs, plans): (usize, Option<usize>)| {
        plans.map_or_else(
            || counted(runs, "run"),
            |plans| format!("{} of {}", counted(runs, "run"), counted(plans, "plan")),
        )
    };
    let [a, b] = sides.map(side);
    let count = if comparison.pairing.has_means() {
        ", where runs with the same arrivals and prompts count as one"
    } else {
        ""
    };
    format!("{a} and {b}{count}")
}

/// `better (detectable: 1.5 %)`, `worse, exploratory`, `cannot tell (detectable: 12.1 %; 23 runs each would find 5 %)`;
/// nothing where one run shows nothing.
fn judgement_text(delta: &Delta) -> String {
    let Some(judged) = delta.judgement.filter(|judged| *judged != Judgement::NotJudged) else { return String::new() };
    if delta.family == RowFamily::Exploratory {
        return format!("{}, exploratory", judged.as_text());
    }
    let common = COMMON_CHANGE * 100.0;
    let runs = delta.runs_needed.map(|runs| format!("; {runs} runs each would find {common} %"));
    let runs = runs.unwrap_or_default();
    let seen = match delta.detectable_percent {
        Some(percent) if percent > WIDEST => format!(" (detectable: more than {WIDEST} %{runs})"),
        Some(percent) => format!(" (detectable: {percent:.1} %{runs})"),
        None => String::new(),
    };
    format!("{}{seen}", judged.as_text())
}

/// The pictures, and how each result was measured.
fn page_sections(sets: &[RunSet], measured_runs: &[MeasuredRun]) -> Vec<Section> {
    let sheets: Vec<&ComparedResult> = sets.iter().map(RunSet::first).collect();
    let legend = || {
        let curves = sets.iter().enumerate().map(|(n, set)| [letter(n), color(n), set.name.clone()]);
        Block::legend(curves.collect())
    };
    let mut sections = vec![Section::page("").with(Block::notes([READING]))];
    let (spreads, courses) = (spreads(&sheets), courses(measured_runs));
    if !spreads.is_empty() {
        let has_several = sets.iter().any(|set| set.runs().len() > 1);
        let of_first = if has_several { " of the first run of each" } else { "" };
        let note =
            format!("Successful requests{of_first}, with the definitions below. A curve further left is faster.");
        let blocks = [legend(), Block::figures(spreads), Block::text(TextRole::Quiet, note)];
        sections.push(Section::page("Distributions").with(blocks));
    }
    if !courses.is_empty() {
        sections.push(Section::page("Over time").with([legend(), Block::charts(courses)]));
    }
    let about = "Differences are marked. If the load differs, no numbers are comparable; another difference may be \
                 what you compare. The definitions of all numbers follow.";
    let measured = [("load", ComparedResult::load as Settings), ("other settings", ComparedResult::settings)];
    let tables = measured.into_iter().map(|(title, settings)| settings_table(title, &sheets, settings));
    let tables = tables.filter(|table| !table.is_empty()).map(Block::table);
    let section = Section { about: about.to_owned(), ..Section::page("How they were measured") };
    sections.push(section.with(tables).with(meanings(&sheets)));
    sections
}

/// Each distribution, and whether the curves in it mean different things.
fn spreads(sheets: &[&ComparedResult]) -> Vec<Figure> {
    let figure = |key: &str| {
        let measure = |sheet: &&ComparedResult| sheet.measures.iter().position(|measure| measure.key == key);
        let measures: Vec<_> = (0..)
            .zip(sheets)
            .filter_map(|(place, sheet): (usize, _)| Some((place, &sheet.measures[measure(sheet)?])))
            .collect();
        let (_, first) = measures.first()?;
        let notes = measures[1..].iter().flat_map(|(place, other)| {
            let differences = first.meaning.differences(&other.meaning).into_iter();
            differences.map(|why| format!("≠ not the same by definition, {}: {why}", letter(*place)))
        });
        let curve = |(place, measure): &(usize, &Measure)| cumulative(*place, measure.values.iter().map(|(_, ms)| *ms));
        let curves: Vec<_> = measures.iter().map(curve).collect();
        let svg = spread(&format!("{}: cumulative % of requests", short_name(key)), first.unit, &curves, &[])?;
        Some(Figure { svg, notes: notes.collect() })
    };
    SPREAD.into_iter().filter_map(figure).collect()
}

/// What happened in each second of each result, as far as it is known.
fn courses(measured_runs: &[MeasuredRun]) -> Vec<String> {
    let series = |points: &dyn Fn(&MeasuredRun) -> Vec<(f64, f64)>| -> Vec<OverlayCurve> {
        measured_runs.iter().enumerate().map(|(place, run)| OverlayCurve { place, points: points(run) }).collect()
    };
    let slices = |value: fn(&TimeSlice) -> Option<f64>| {
        move |run: &MeasuredRun| -> Vec<(f64, f64)> {
            run.result.slices().iter().filter_map(|slice| Some((slice.second as f64, value(slice)?))).collect()
        }
    };
    let across = "seconds from the start";
    let is_of_chunks =
        measured_runs.iter().filter_map(|run| run.result.own()).any(|result| result.tokens.chunk_source.is_some());
    // Files of earlier versions do not have them.
    let has_peaks = measured_runs.iter().flat_map(|run| run.result.slices()).all(|slice| slice.in_flight_max.is_some());
    let of_slices = second_series(is_of_chunks, has_peaks).map(|(title, value, _)| (title, series(&slices(value))));
    let curves = [("Requests sent in each second", series(&sent))].into_iter().chain(of_slices);
    curves.filter_map(|(title, curves)| course(title, across, 0.0, &curves)).collect()
}

/// How many were sent in each second after the first was due or sent.
fn sent(measured_run: &MeasuredRun) -> Vec<(f64, f64)> {
    let traces = &measured_run.request_traces;
    let from = traces.iter().map(|trace| trace.sched.unwrap_or(trace.issue)).fold(f64::INFINITY, f64::min);
    let mut counts: Vec<f64> = Vec::new();
    for trace in traces {
        let second = ((trace.issue - from) / 1e3).max(0.0) as usize;
        // A stamp from nowhere must not fill the memory.
        if second < 1_000_000 {
            counts.resize(counts.len().max(second + 1), 0.0);
            counts[second] += 1.0;
        }
    }
    counts.into_iter().enumerate().map(|(second, count)| (second as f64, count)).collect()
}

type Settings = fn(&ComparedResult) -> &std::collections::BTreeMap<String, String>;

/// Lines with a cell for each result; a line whose cells differ is marked. A missing value is not a known difference.
fn lines_table(title: &str, columns: usize, lines: Vec<(String, Vec<Option<&str>>)>) -> Table {
    let letters = (0..columns).map(|n| TableColumn { color: color(n), ..TableColumn::new(letter(n)) });
    let columns = std::iter::once(TableColumn::new(title)).chain(letters);
    let mut table = Table::new("how they were measured", columns).look("lines");
    for (name, cells) in lines {
        let stated: Vec<&str> = cells.iter().flatten().copied().collect();
        let look = if stated.windows(2).any(|pair| pair[0] != pair[1]) { "differs" } else { "" };
        let cells = cells.into_iter().map(|cell| Cell::from(cell.unwrap_or_default()));
        table.row_like(look, std::iter::once(Cell::from(name)).chain(cells));
    }
    table
}

fn settings_table(title: &str, sheets: &[&ComparedResult], settings: Settings) -> Table {
    let mut names: Vec<&String> = sheets.iter().flat_map(|sheet| settings(sheet).keys()).collect();
    names.sort();
    names.dedup();
    let line = |name: &String| {
        let cells =
            sheets.iter().map(|sheet| settings(sheet).get(name).map(String::as_str).filter(|text| !text.is_empty()));
        (name.replace('_', " "), cells.collect())
    };
    lines_table(title, sheets.len(), names.into_iter().map(line).collect())
}

/// Each metric of the first result: what it means, a line for each field that a result defines.
fn meanings(sheets: &[&ComparedResult]) -> Vec<Block> {
    type Field = fn(&MetricMeaning) -> &String;
    const FIELDS: [(&str, Field); 6] = [
        ("formula", |meaning| &meaning.formula),
        ("of", |meaning| &meaning.population),
        ("from", |meaning| &meaning.zero_point),
        ("tokens", |meaning| &meaning.token_source),
        ("window", |meaning| &meaning.window),
        ("percentiles", |meaning| &meaning.percentile_rule),
    ];
    let measures = sheets.first().map(|sheet| &sheet.measures).into_iter().flatten();
    let block = |measure: &super::Measure| {
        let meanings: Vec<Option<&MetricMeaning>> = sheets
            .iter()
            .map(|sheet| sheet.measures.iter().find(|other| other.key == measure.key).map(|other| &other.meaning))
            .collect();
        let lines = FIELDS.map(|(name, field)| {
            let cells: Vec<_> = meanings.iter().map(|meaning| meaning.map(|meaning| field(meaning).as_str())).collect();
            (name.to_owned(), cells)
        });
        let lines = lines.into_iter().filter(|(_, cells)| cells.iter().flatten().any(|text| !text.is_empty()));
        let differs = meanings.iter().flatten().any(|meaning| !measure.meaning.differences(meaning).is_empty());
        let summary = format!("{}{}", short_name(&measure.key), if differs { " ≠" } else { "" });
        Block::table(lines_table("", sheets.len(), lines.collect())).folded(summary, differs)
    };
    measures.map(block).collect()
}
