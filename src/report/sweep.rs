//! A sweep: a row for each point in the order of the levels, what it found in a sentence and three numbers, and its
//! curves, or those of several sweeps over each other.

use std::fmt::Write as _;

use crate::chart::{Chart, ChartPoint, ChartSeries, PointKind, number};
use crate::document::{Badge, Block, Cell, Document, Fact, Item, Section, Table, TableColumn, Top};
use crate::result_page::{self, ResultSection};
use crate::run_page::PageResult;
use crate::styler::{TextRole, mean_text};
use base::event::Verdict;
use base::spec::LimitedMetric;
use base::units::{counted, three_digits};
use harness::{
    FurtherLimits, KneeState, LatencySummary, MeasuredNumber, ReasonSeverity, RunIdentity, RunResult, Slo, SweepLevel,
    SweepOrigin, SweepPoint, SweepReport, Workload, zero_point_text,
};

/// A sweep on the page of a run.
pub(crate) struct SweepSection {
    pub name: String,
    anchor: String,
    /// `8 of 8 valid`.
    pub verdict: Badge,
    pub simulated: bool,
    pub identity: Option<String>,
    /// The server and the loads.
    pub workload: Option<String>,
    pub top: Top,
    /// The points, what their numbers and marks mean, and why points are not VALID.
    blocks: Vec<Block>,
    /// SVG, all but the picture of the head.
    plots: Vec<String>,
    /// All numbers of single points, as far as they are in files of their own.
    details: Vec<ResultSection>,
}

/// `details`: the results of its points.
pub(crate) fn section(name: &str, report: &SweepReport, place: usize, details: &[&PageResult]) -> SweepSection {
    let simulated = if report.is_simulated() { " SIMULATED" } else { "" };
    let anchor = format!("sweep-{place}");
    let mut plots = draw(&[NamedSweep { name: name.to_owned(), report }]).into_iter();
    let picture = plots.next();
    let others = if details.len() < report.points.len() { "; those of the others are in their folders" } else { "" };
    let linked = (!details.is_empty()).then(|| format!("Each level links to all numbers of its point{others}."));
    let table = Block::table(points(report, &anchor, details));
    let notes = Block::notes(linked).map(Block::on_page).chain(notes(report)).chain(reasons(report));
    SweepSection {
        name: name.to_owned(),
        verdict: Badge { role: tone(report), text: format!("{}{simulated}", report.verdict_text()) },
        simulated: report.is_simulated(),
        identity: report.identity.as_ref().map(RunIdentity::line),
        workload: workload(report, details),
        top: Top { sentence: sentence(report), facts: numbers(report), picture, ..Top::default() },
        blocks: std::iter::once(table).chain(notes).collect(),
        plots: plots.collect(),
        details: details.iter().map(|page| result_page::section(page)).collect(),
        anchor,
    }
}

impl SweepSection {
    /// Of one that is alone, the head of the page has the sentence, the numbers and the first picture.
    pub(crate) fn section(self, is_alone: bool) -> Section {
        let Self { name, anchor, verdict, top, blocks, mut plots, details, .. } = self;
        let parts = details
            .into_iter()
            .zip(1..)
            .map(|(point, n)| Section { group: anchor.clone(), ..point.card(format!("{anchor}-{n}"), false) });
        let mut section = Section { parts: parts.collect(), anchor, ..Section::page(name) };
        if !is_alone {
            section.badges.push(verdict);
            section.blocks = vec![Block::plain(top.sentence), Block::facts(top.facts)];
            plots = top.picture.into_iter().chain(plots).collect();
        }
        section.with([Block::charts(plots)]).with(blocks)
    }
}

/// That of its first point, with the levels of all, and with the extent of each where all have the same.
fn workload(report: &SweepReport, details: &[&PageResult]) -> Option<String> {
    let mut workloads = details.iter().filter_map(|page| page.result.own()).map(RunResult::workload);
    let first = workloads.next()?;
    let extent = first.extent.clone().filter(|_| workloads.all(|other| other.extent == first.extent));
    Some(report.workload(Workload { extent, ..first }).to_string())
}

/// One sweep alone.
pub fn sweep(name: &str, report: &SweepReport) -> Document {
    let SweepSection { top, plots, blocks, .. } = section(name, report, 0, &[]);
    Document {
        name: format!("{name} · sweep"),
        title: "Sweep".into(),
        badges: simulated_badge(report.is_simulated()),
        head: vec![Block::items(vec![named_sweep("", name, report)]).on_page()],
        tops: vec![top],
        sections: vec![
            Section::page("Curves").with([Block::charts(plots)]),
            Section::titled_on_page("Points").with(blocks),
        ],
        footer: "Made by regatta import.",
    }
}

/// What stands beside the title of a page of simulated servers.
pub(crate) fn simulated_badge(is_simulated: bool) -> Vec<Badge> {
    is_simulated.then(|| Badge { role: TextRole::Warning, text: "SIMULATED".to_owned() }).into_iter().collect()
}

/// A sweep with its verdict, and what was measured below it.
pub(crate) fn named_sweep(letter: &str, name: &str, report: &SweepReport) -> Item {
    let identity = report.identity.as_ref().map(RunIdentity::line);
    let unknown = || "the file does not say what was measured".to_owned();
    let simulated = if report.is_simulated() { " SIMULATED" } else { "" };
    Item {
        role: tone(report),
        mark: letter.to_owned(),
        text: format!("{name}  {}{simulated}", report.verdict_text()),
        below: std::iter::once(identity.unwrap_or_else(unknown)).chain(report.warnings_line()).collect(),
    }
}

/// The color of its verdict.
fn tone(report: &SweepReport) -> TextRole {
    match report.valid() {
        _ if report.imported.is_some() => TextRole::Warning,
        0 => TextRole::Bad,
        valid if valid < report.points.len() => TextRole::Warning,
        _ if report.points.iter().any(|point| point.verdict != Some(Verdict::Valid)) => TextRole::Warning,
        _ => TextRole::Good,
    }
}

pub(crate) fn value(number: Option<MeasuredNumber>) -> Option<f64> {
    number.map(|number| number.value)
}

/// A number of a point: its column, its value, and its key over runs.
type PointNumber = (TableColumn, fn(&SweepPoint) -> Option<f64>, &'static str);

/// The numbers that points of a sweep have. A narrow terminal does without those of a priority.
fn point_numbers(report: &SweepReport) -> Vec<PointNumber> {
    let ms = |title: &str| TableColumn::number(title).unit("ms");
    let rate = TableColumn::number;
    let numbers: [PointNumber; 11] = [
        (rate("req/s"), |point| point.requests_per_s, "requests_full"),
        (rate("tok/s"), |point| point.output_tokens_per_s, "output_tokens"),
        (rate("tok/s/user").priority(1), |point| point.tokens_per_s_per_user, ""),
        (rate("tok/s/GPU").priority(2), |point| point.tokens_per_s_per_gpu, ""),
        (ms("TTFT p50"), |point| value(point.ttft.p50), "ttft_p50"),
        (ms("TTFT p99"), |point| value(point.ttft.p99), "ttft_p99"),
        (ms("TPOT p50"), |point| value(point.tpot.p50), "tpot_p50"),
        (ms("TPOT p99"), |point| value(point.tpot.p99), "tpot_p99"),
        (ms("E2E mean").priority(3), |point| value(point.e2e.mean), "e2e_mean"),
        (ms("E2E p99").priority(4), |point| value(point.e2e.p99), "e2e_p99"),
        (rate("goodput").unit("req/s"), |point| point.goodput_per_s, "goodput"),
    ];
    let is_optional = |column: &TableColumn| ["tok/s/GPU", "goodput"].contains(&column.title.as_str());
    let has = |(column, value, _): &PointNumber| {
        !is_optional(column) || report.points.iter().any(|point| value(point).is_some())
    };
    numbers.into_iter().filter(has).collect()
}

/// Each level leads to the card of its point, where `details` have its result.
fn points(report: &SweepReport, anchor: &str, details: &[&PageResult]) -> Table {
    let heading = report.points.first().map(|point| point.level.heading()).unwrap_or_default();
    let is_mixed = report.points.iter().any(|point| point.level.heading() != heading);
    let numbers = point_numbers(report);
    let level = TableColumn::new(if is_mixed { "level" } else { heading });
    let columns = std::iter::once(level).chain(numbers.iter().map(|(column, ..)| column.clone()));
    let look = if report.points.len() > 60 { "points many" } else { "points" };
    let mut table = Table::new("points", columns.chain([TableColumn::new("verdict")])).look(look);
    let knee = report.knee.as_ref().filter(|knee| knee.state == KneeState::Bracketed).map(|knee| knee.point as usize);
    for (at, point) in report.points.iter().enumerate() {
        let level = if is_mixed { point.level.to_string() } else { point.level.amount() };
        let level = point.role.map_or_else(|| level.clone(), |role| format!("{level} ({})", role.as_str()));
        let marks = [(knee == Some(at)).then_some("knee"), point.on_front.then_some("◆")];
        let marks = marks.into_iter().flatten().map(str::to_owned).collect();
        let role = if point.is_usable() { TextRole::Plain } else { TextRole::Quiet };
        let place = details.iter().position(|page| page.task.as_str() == point.level.to_string());
        let link = place.map_or_else(String::new, |place| format!("#{anchor}-{}", place + 1));
        let mut cells = vec![Cell::name(level).marks(marks).link(link)];
        cells.extend(numbers.iter().map(|(_, value, key)| match point.interval_over_runs(key).zip(value(point)) {
            Some((ends, value)) => Cell::new(role, mean_text(value, ends, three_digits)),
            None => Cell::number(role, value(point)),
        }));
        let role = point.verdict.map_or(TextRole::Quiet, TextRole::from);
        cells.push(Cell::new(role, point.verdict_line()));
        table.row_like(if point.is_usable() { "" } else { "unusable" }, cells);
    }
    table
}

/// What the sweep found.
fn sentence(report: &SweepReport) -> String {
    let [first, .., last] = report.points.as_slice() else {
        return report.points.first().map(|point| format!("One point, at {}.", point.level)).unwrap_or_default();
    };
    let mut text = format!("{} points, from {} to {}", report.points.len(), first.level, last.level);
    if let Some(best) = report.best() {
        let rate = best.output_tokens_per_s.map(three_digits).unwrap_or_default();
        let _ = write!(text, "; up to {rate} output tokens per second, at {}", best.level);
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

/// The first number of a sweep, where a point has one.
pub(crate) const HIGHEST: &str = "highest throughput";

fn numbers(report: &SweepReport) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let Some(best) = report.best() {
        let gpu = best.tokens_per_s_per_gpu.map(|rate| format!(", {} per GPU", three_digits(rate))).unwrap_or_default();
        facts.push([
            HIGHEST.to_owned(),
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
        let user =
            at.tokens_per_s_per_user.map(|rate| format!(", {} tok/s/user", three_digits(rate))).unwrap_or_default();
        let about = format!("highest power; there {} tok/s, TTFT p99 {ttft} ms{user}", cell(at.output_tokens_per_s));
        facts.push(["knee".to_owned(), format!("{bound}{}", knee.level), about]);
    }
    let lowest = |latency: fn(&SweepPoint) -> &LatencySummary| {
        let valid = report.points.iter().filter(|point| point.is_accepted());
        let measured = valid.filter_map(|point| Some((point, value(latency(point).p50)?)));
        measured.min_by(|a, b| a.1.total_cmp(&b.1))
    };
    if let Some((point, ttft)) = lowest(|point| &point.ttft) {
        let tpot =
            value(point.tpot.p50).map(|tpot| format!(", TPOT p50 {} ms", three_digits(tpot))).unwrap_or_default();
        let from = from_zero_points(&[&point.zero_point]);
        let about = format!("the lowest of the valid points, {from}; at {}{tpot}", point.level);
        facts.push(["lowest TTFT p50".to_owned(), format!("{} ms", three_digits(ttft)), about]);
    }
    facts
}

/// A number, or `n/a`.
fn cell(number: Option<f64>) -> String {
    number.map_or_else(|| "n/a".to_owned(), three_digits)
}

/// `from schedule`, `from when the user became idle`; of a sweep of an earlier version it is not known.
fn from_zero_points(names: &[&str]) -> String {
    let texts: Vec<String> = names.iter().filter(|name| !name.is_empty()).map(|name| zero_point_text(name)).collect();
    if texts.is_empty() {
        "from the zero point of each result".to_owned()
    } else {
        format!("from {}", texts.join(" or "))
    }
}

/// What the numbers and marks mean.
fn notes(report: &SweepReport) -> Vec<Block> {
    let mut notes = match &report.imported {
        None => vec![format!(
            "TTFT, TPOT and E2E in ms, TTFT and E2E {}; tok/s are output tokens of successful requests{}; \
             tok/s/user is 1,000 / TPOT p50",
            from_zero_points(&report.zero_points()),
            match report.points.iter().filter(|point| point.offered_per_s.is_some()).count() {
                0 => "",
                rates if rates == report.points.len() =>
                    "; req/s and tok/s are over the time in which requests arrived",
                _ => "; at a rate, req/s and tok/s are over the time in which requests arrived",
            }
        )],
        Some(origin) => imported_notes(origin).to_vec(),
    };
    notes.extend((report.runs() > 1).then(|| {
        format!(
            "each number is the mean of up to {} runs; ± is half the width of its 95 % interval over runs, whose ends \
             are shown where it is cut off at 0",
            report.runs()
        )
    }));
    notes.extend(report.warnings_line());
    let gpus = report.gpus.as_ref();
    notes.extend(gpus.map(|gpus| format!("tok/s/GPU: over {} ({})", counted(gpus.count as usize, "GPU"), gpus.source)));
    notes.extend(report.knee.as_ref().map(|knee| {
        let more = match knee.state {
            KneeState::Bracketed => "",
            KneeState::AtLowest => "; it is the lowest valid level, so the knee may be lower",
            KneeState::AtHighest if report.has_overload() => {
                "; it is the highest level without overload, so the knee may be higher"
            }
            KneeState::AtHighest => "; it is the highest valid level, so the knee may be higher",
        };
        format!("knee: {}, {}{more}", knee.level, knee.definition)
    }));
    if report.points.iter().any(|point| point.on_front) {
        notes.push(
            "◆: Pareto-optimal, no valid point has both more tokens per second for a user and more for the server"
                .to_owned(),
        );
    }
    if report.has_overload() {
        notes.push(
            "OVERLOADED, `filling`: the server did not keep up, or the run was too short to see whether it does, so \
             latencies depend on its length; such a point is neither the knee nor on the front"
                .to_owned(),
        );
    }
    let definitions = report.imported.iter().flat_map(|origin| &origin.definitions);
    let on_page = definitions.map(|(name, definition)| format!("{name}: {definition}")).chain([about_charts(report)]);
    Block::notes(notes).chain(Block::notes(on_page).map(super::document::Block::on_page)).collect()
}

fn about_charts(report: &SweepReport) -> String {
    let source = if report.runs() > 1 {
        "of the mean over the runs of a point"
    } else {
        "from the requests of that point, if there are enough"
    };
    format!(
        "Whiskers are 95 % intervals {source}. Crosses are INVALID points, which the curves skip. Hollow points \
         are LIMIT MISSED, OVERLOADED or `filling`, and not on the Pareto front."
    )
}

/// Which tool measured, and what its numbers mean.
fn imported_notes(origin: &SweepOrigin) -> [String; 2] {
    let version = origin.tool_version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    [
        format!(
            "measured by {}{version}, not by Regatta: its own numbers, with the definitions of {}",
            origin.tool, origin.title
        ),
        format!(
            "latencies in ms; tok/s are output tokens, counted by {}; tok/s/user is 1,000 / TPOT p50",
            origin.token_source
        ),
    ]
}

/// Why points are not VALID; on a page also their warnings.
fn reasons(report: &SweepReport) -> Vec<Block> {
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    for point in &report.points {
        for reason in &point.reasons {
            let is_error = !point.is_accepted() && reason.severity != ReasonSeverity::Warning;
            let (role, list) = if is_error { (TextRole::Bad, &mut errors) } else { (TextRole::Warning, &mut warnings) };
            let sign = if is_error { "✗" } else { "!" };
            let text = format!("{sign} {}: {}", point.level, reason.line());
            list.push(Item { role, text, ..Item::default() });
        }
    }
    let summary = |title: &str, list: &[Item]| (format!("{title} ({})", list.len()), list.len() <= 4);
    let (error_summary, is_open) = summary("Why points are not VALID", &errors);
    let (warning_summary, _) = summary("Warnings of points", &warnings);
    let errors = (!errors.is_empty()).then(|| Block::items(errors).folded(error_summary, is_open));
    let warnings = (!warnings.is_empty()).then(|| Block::items(warnings).folded(warning_summary, false));
    errors.into_iter().chain(warnings.map(super::document::Block::on_page)).collect()
}

/// A sweep with the name that a legend has.
pub(crate) struct NamedSweep<'a> {
    pub name: String,
    pub report: &'a SweepReport,
}

/// Pictures in reading order; the first is the one that a reader takes along.
pub(crate) fn draw(sweeps: &[NamedSweep<'_>]) -> Vec<String> {
    let is_load = sweeps.iter().all(|sweep| sweep.report.points.iter().all(|point| point.level.is_load()));
    let latencies = latencies(sweeps, is_load);
    let charts = std::iter::once(front(sweeps)).chain(latencies).chain([throughput(sweeps), goodput(sweeps, is_load)]);
    charts.flatten().collect()
}

/// What one user sees against what the GPUs do.
fn front(sweeps: &[NamedSweep<'_>]) -> Option<String> {
    let is_per_gpu = sweeps.iter().all(|sweep| sweep.report.gpus.is_some());
    let unit = if is_per_gpu { "tok/s/GPU" } else { "tok/s" };
    let height = |point: &SweepPoint| if is_per_gpu { point.tokens_per_s_per_gpu } else { point.output_tokens_per_s };
    let mut series = curves(sweeps, |point| {
        let (x, y) = (point.tokens_per_s_per_user?, height(point)?);
        let front = if point.on_front { ", on the front" } else { "" };
        Some((x, y, None, format!("{} tok/s/user, {} {unit}{front}", number(x), number(y))))
    });
    for curve in &mut series {
        curve.is_front = true;
    }
    let throughput = if is_per_gpu { "Throughput per GPU" } else { "Throughput" };
    let title = format!("{throughput} over interactivity (line: Pareto front)");
    Chart {
        title: &title,
        across: "tok/s/user: 1,000 / TPOT p50",
        upright: unit,
        series,
        is_close: true,
        ..Chart::default()
    }
    .draw()
}

type Pick = fn(&LatencySummary) -> Option<MeasuredNumber>;

/// Each latency over the load; over the level where that is not a load.
fn latencies(sweeps: &[NamedSweep<'_>], is_load: bool) -> Vec<Option<String>> {
    const STATS: [(&str, Pick); 3] = [("p50", |it| it.p50), ("p99", |it| it.p99), ("mean", |it| it.mean)];
    type Latency = (&'static str, fn(&SweepPoint) -> &LatencySummary, LimitedMetric);
    let latencies: [Latency; 3] = [
        ("TTFT", |point| &point.ttft, LimitedMetric::Ttft),
        ("TPOT", |point| &point.tpot, LimitedMetric::Tpot),
        ("E2E", |point| &point.e2e, LimitedMetric::E2e),
    ];
    let Some(NamedSweep { report, .. }) = sweeps.first() else { return Vec::new() };
    let usual = [report.ttft_p99_limit_ms, report.tpot_p99_limit_ms];
    let across_label = across_title(sweeps, is_load);
    let chart = |title: &str, series, limits| {
        Chart { title, across: across_label, upright: "ms", series, limits, ..Chart::default() }.draw()
    };
    let mut charts = Vec::new();
    for (name, latency, metric) in latencies {
        let limits = limit_lines(metric, usual, &report.further_limits, &report.slo);
        let drawn = |(stat, pick): (&'static str, Pick)| {
            move |point: &SweepPoint| {
                let value = pick(latency(point))?;
                let interval = value.low.zip(value.high);
                let at = point.requests_per_s.map_or_else(String::new, |rate| format!(", {} req/s", number(rate)));
                let hint = format!("{name} {stat} {} ms{}{at}", number(value.value), ends(interval));
                Some((across(point, is_load)?, value.value, interval, hint))
            }
        };
        if let [sweep] = sweeps {
            let series = STATS.into_iter().enumerate().map(|(place, stat)| {
                let mut points = chart_points(sweep.report, drawn(stat));
                // One label for each level is enough.
                if place > 0 {
                    for point in &mut points {
                        point.label.clear();
                    }
                }
                ChartSeries { place, name: stat.0.to_owned(), points, is_front: false }
            });
            charts.push(chart(&format!("{name}, ms"), series.collect(), limits));
        } else {
            for stat in [STATS[0], STATS[1]] {
                let limits = if stat.0 == "p99" { limits.clone() } else { Vec::new() };
                charts.push(chart(&format!("{name} {}, ms", stat.0), curves(sweeps, drawn(stat)), limits));
            }
        }
    }
    charts
}

/// Limits of a run and of single requests, each with its height; `usual` are those of the 99th percentiles of TTFT
/// and TPOT.
pub(crate) fn limit_lines(
    metric: LimitedMetric,
    usual: [Option<f64>; 2],
    further: &FurtherLimits,
    slo: &Slo,
) -> Vec<(f64, String)> {
    let (p99, slo) = match metric {
        LimitedMetric::Ttft => (usual[0], slo.ttft_ms),
        LimitedMetric::Tpot => (usual[1], slo.tpot_ms),
        LimitedMetric::E2e => (None, slo.e2e_ms),
        _ => (None, None),
    };
    let further = further.latency.iter().filter(|limit| limit.metric == metric);
    let mut lines: Vec<(f64, String)> =
        p99.map(|limit| (limit, format!("limit of p99: {} ms", number(limit)))).into_iter().collect();
    lines.extend(further.map(|limit| (limit.ms, format!("limit {}: {} ms", limit.key(), number(limit.ms)))));
    // Requests without their own SLO use the limits, which already have a line.
    let slo = slo.filter(|slo| lines.iter().all(|(limit, _)| (limit - slo).abs() > 1e-9));
    lines.extend(slo.map(|slo| (slo, format!("SLO of each request: {} ms", number(slo)))));
    lines
}

/// Output tokens per second over the level.
fn throughput(sweeps: &[NamedSweep<'_>]) -> Option<String> {
    if !have_one_unit(sweeps) {
        return None;
    }
    let series = curves(sweeps, |point| {
        let (x, y) = (point.level.number()?, point.output_tokens_per_s?);
        let interval = point.interval_over_runs("output_tokens");
        Some((x, y, interval, format!("{} tok/s{}", number(y), ends(interval))))
    });
    let (title, across) = ("Output tokens per second", across_title(sweeps, are_rates(sweeps)));
    Chart { title, across, upright: "tok/s", series, ..Chart::default() }.draw()
}

/// Requests per second that met their SLO, over the load.
fn goodput(sweeps: &[NamedSweep<'_>], is_load: bool) -> Option<String> {
    let series = curves(sweeps, |point| {
        let y = point.goodput_per_s?;
        let share =
            point.attainment.map_or_else(String::new, |share| format!(", {} % of requests", number(share * 100.0)));
        let x = across(point, is_load)?;
        let interval = point.interval_over_runs("goodput");
        Some((x, y, interval, format!("goodput {} req/s{}{share}", number(y), ends(interval))))
    });
    let across = across_title(sweeps, is_load);
    let title = "Goodput: requests per second that met their whole SLO";
    Chart { title, across, upright: "req/s", series, ..Chart::default() }.draw()
}

/// What the abscissa is. A closed loop offers no rate, so its points lie at what was answered.
fn across_title<'a>(sweeps: &'a [NamedSweep<'_>], is_load: bool) -> &'a str {
    match (is_load, have_one_unit(sweeps)) {
        (false, _) => unit(sweeps),
        (true, true) if are_rates(sweeps) => "req/s, offered",
        (true, true) => "req/s, answered",
        (true, false) => "req/s, offered (users: answered)",
    }
}

fn are_rates(sweeps: &[NamedSweep<'_>]) -> bool {
    unit(sweeps) == SweepLevel::Rate(0.0).unit()
}

fn have_one_unit(sweeps: &[NamedSweep<'_>]) -> bool {
    sweeps.iter().flat_map(|sweep| &sweep.report.points).all(|point| point.level.unit() == unit(sweeps))
}

fn unit<'a>(sweeps: &'a [NamedSweep<'_>]) -> &'a str {
    sweeps.iter().find_map(|sweep| Some(sweep.report.points.first()?.level.unit())).unwrap_or_default()
}

fn across(point: &SweepPoint, is_load: bool) -> Option<f64> {
    if is_load { point.load() } else { point.level.number().or(point.requests_per_s) }
}

/// The ends of an interval, as a hint has them.
fn ends(interval: Option<(f64, f64)>) -> String {
    interval.map_or_else(String::new, |(low, high)| format!(" ({} … {})", number(low), number(high)))
}

type Drawn = (f64, f64, Option<(f64, f64)>, String);

/// A curve for each sweep.
fn curves(sweeps: &[NamedSweep<'_>], of: impl Fn(&SweepPoint) -> Option<Drawn>) -> Vec<ChartSeries> {
    let curve = |(place, sweep): (usize, &NamedSweep<'_>)| {
        let points = chart_points(sweep.report, &of);
        ChartSeries { place, name: sweep.name.clone(), points, is_front: false }
    };
    sweeps.iter().enumerate().map(curve).collect()
}

/// The points that have both numbers, each with its level and its verdict.
fn chart_points(report: &SweepReport, of: impl Fn(&SweepPoint) -> Option<Drawn>) -> Vec<ChartPoint> {
    let knee = report.knee.as_ref().filter(|knee| knee.state == KneeState::Bracketed).map(|knee| knee.point as usize);
    let point = |(at, point): (usize, &SweepPoint)| {
        let (x, y, interval, text) = of(point)?;
        let kind = match point.overload() {
            _ if !point.is_usable() => PointKind::Invalid,
            None if point.is_accepted() => PointKind::Valid,
            _ => PointKind::OverLimit,
        };
        let verdict = point.verdict_text();
        let reason = point.overload().or(point.reasons.first()).filter(|_| kind != PointKind::Valid);
        let reason = reason.map_or_else(String::new, |reason| format!(", {}", reason.line()));
        Some(ChartPoint {
            x,
            y,
            interval,
            label: point.level.short(),
            hint: format!("{}: {text}; {verdict}{reason}", point.level),
            kind,
            is_knee: knee == Some(at),
            on_front: point.on_front,
        })
    };
    report.points.iter().enumerate().filter_map(point).collect()
}
