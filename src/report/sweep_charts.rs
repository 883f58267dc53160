//! The curves of one sweep, or of several over each other.

use crate::chart::{Chart, ChartPoint, ChartSeries, PointKind, number};
use base::spec::LimitedMetric;
use harness::{FurtherLimits, KneeState, LatencySummary, MeasuredNumber, Slo, SweepLevel, SweepPoint, SweepReport};

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
    let series = sweeps.iter().enumerate().map(|(place, sweep)| ChartSeries {
        place,
        name: sweep.name.clone(),
        is_front: true,
        points: points(sweep.report, |point| {
            let (x, y) = (point.tokens_per_s_per_user?, height(point)?);
            let front = if point.on_front { ", on the front" } else { "" };
            Some((x, y, None, format!("{} tok/s/user, {} {unit}{front}", number(x), number(y))))
        }),
    });
    let throughput = if is_per_gpu { "Throughput per GPU" } else { "Throughput" };
    let title = format!("{throughput} over interactivity (line: Pareto front)");
    Chart {
        title: &title,
        across: "tok/s/user: 1,000 / TPOT p50",
        upright: unit,
        series: series.collect(),
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
    let across_label = if is_load { LOAD } else { unit(sweeps) };
    let chart = |title: &str, series, limits| {
        Chart { title, across: across_label, upright: "ms", series, limits, ..Chart::default() }.draw()
    };
    let mut charts = Vec::new();
    for (name, latency, metric) in latencies {
        let limits = limit_lines(metric, usual, &report.further_limits, &report.slo);
        let series = |place: usize, sweep: &NamedSweep<'_>, label: &str, stat: &str, pick: Pick| ChartSeries {
            place,
            name: label.to_owned(),
            is_front: false,
            points: points(sweep.report, |point| {
                let value = pick(latency(point))?;
                let interval = value.low.zip(value.high);
                let at = point.requests_per_s.map_or_else(String::new, |rate| format!(", {} req/s", number(rate)));
                let hint = format!("{name} {stat} {} ms{}{at}", number(value.value), ends(interval));
                Some((across(point, is_load)?, value.value, interval, hint))
            }),
        };
        if let [sweep] = sweeps {
            let statistics = STATS.iter().enumerate();
            let title = format!("{name}, ms");
            let series = statistics.map(|(place, (stat, pick))| {
                let mut series = series(place, sweep, stat, stat, *pick);
                // One label for each level is enough.
                if place > 0 {
                    series.points.iter_mut().for_each(|point| point.label.clear());
                }
                series
            });
            charts.push(chart(&title, series.collect(), limits));
        } else {
            for (stat, pick) in &STATS[..2] {
                let title = format!("{name} {stat}, ms");
                let series =
                    sweeps.iter().enumerate().map(|(place, sweep)| series(place, sweep, &sweep.name, stat, *pick));
                let limits = if *stat == "p99" { limits.clone() } else { Vec::new() };
                charts.push(chart(&title, series.collect(), limits));
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
    // Without an SLO of their own, requests have the limits as theirs.
    let slo = slo.filter(|slo| lines.iter().all(|(limit, _)| (limit - slo).abs() > 1e-9));
    lines.extend(slo.map(|slo| (slo, format!("SLO of each request: {} ms", number(slo)))));
    lines
}

/// Output tokens per second over the level.
fn throughput(sweeps: &[NamedSweep<'_>]) -> Option<String> {
    let first = unit(sweeps);
    let is_one = sweeps.iter().flat_map(|sweep| &sweep.report.points).all(|point| point.level.unit() == first);
    let series = sweeps.iter().enumerate().map(|(place, sweep)| ChartSeries {
        place,
        name: sweep.name.clone(),
        is_front: false,
        points: points(sweep.report, |point| {
            let (x, y) = (point.level.number()?, point.output_tokens_per_s?);
            let interval = point.interval_over_runs("output_tokens");
            Some((x, y, interval, format!("{} tok/s{}", number(y), ends(interval))))
        }),
    });
    let (title, series) = ("Output tokens per second", series.collect());
    // Other plots have the answered ones.
    let across = if first == SweepLevel::Rate(0.0).unit() { "req/s, offered" } else { first };
    if is_one { Chart { title, across, upright: "tok/s", series, ..Chart::default() }.draw() } else { None }
}

/// Requests per second that met their SLO, over the load.
fn goodput(sweeps: &[NamedSweep<'_>], is_load: bool) -> Option<String> {
    let series = sweeps.iter().enumerate().map(|(place, sweep)| ChartSeries {
        place,
        name: sweep.name.clone(),
        is_front: false,
        points: points(sweep.report, |point| {
            let y = point.goodput_per_s?;
            let share =
                point.attainment.map_or_else(String::new, |share| format!(", {} % of requests", number(share * 100.0)));
            let x = across(point, is_load)?;
            let interval = point.interval_over_runs("goodput");
            Some((x, y, interval, format!("goodput {} req/s{}{share}", number(y), ends(interval))))
        }),
    });
    let across = if is_load { LOAD } else { unit(sweeps) };
    let title = "Goodput: requests per second that met their whole SLO";
    Chart { title, across, upright: "req/s", series: series.collect(), ..Chart::default() }.draw()
}

/// The abscissa where levels are loads.
const LOAD: &str = "req/s: offered; in a closed loop answered";

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

/// The points that have both numbers, each with its level and its verdict.
fn points(report: &SweepReport, of: impl Fn(&SweepPoint) -> Option<Drawn>) -> Vec<ChartPoint> {
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
