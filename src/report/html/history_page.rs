//! The page of measurements over time: a picture of each metric, the changes, and all numbers.

use minijinja::{Value as Safe, context};

use super::svg::number;
use super::trend_plot::{TrendPlot, TrendPoint};
use crate::history::{HistorySeries, MetricHistory, level_sentence};
use crate::page_template::render_page;
use crate::terminal::percent::signed_percent;
use crate::terminal::styler::to_the_second;
use base::event::RunTag;
use harness::RunIdentity;

const PAGE: &str = include_str!("../../../templates/report/history.html");

/// The page of these series.
pub fn history(all: &[HistorySeries]) -> Result<String, minijinja::Error> {
    let sections = all.iter().map(|series| {
        let plots = series.metrics.iter().filter_map(|metric| plot(series, metric)).map(Safe::from_safe_string);
        let changes = series.metrics.iter().flat_map(|metric| {
            metric.changes.iter().map(move |shift| {
                let text = level_sentence(series, metric, shift);
                let tone = metric.is_better(shift).map_or("", |is_better| if is_better { "good" } else { "bad" });
                context! { tone, text, differences => &shift.differences }
            })
        });
        let rows = series.points.iter().enumerate().map(|(place, point)| {
            context! {
                place => place + 1,
                started => to_the_second(&point.started),
                run => point.run.to_string(),
                tags => point.tags.iter().map(RunTag::to_string).collect::<Vec<String>>(),
                verdict => point.verdict_text(),
                tone => if point.is_valid() { "good" } else { "bad" },
                values => series.metrics.iter().map(|metric| point.value_text(&metric.key, number).unwrap_or_else(|| "–".to_owned())).collect::<Vec<_>>(),
            }
        });
        let last = series.points.last();
        context! {
            name => series.name(),
            simulated => series.points.iter().any(|point| point.result.is_simulated()),
            identity => last.and_then(|point| point.result.identity.as_ref()).map(RunIdentity::line),
            count => series.points.len(),
            valid => series.points.iter().filter(|point| point.is_valid()).count(),
            plots => plots.collect::<Vec<_>>(),
            changes => changes.collect::<Vec<_>>(),
            head => series.metrics.iter().map(|metric| format!("{}, {}", metric.key, metric.unit)).collect::<Vec<_>>(),
            rows => rows.collect::<Vec<_>>(),
        }
    });
    render_page(PAGE, context! { sections => sections.collect::<Vec<_>>() })
}

fn plot(series: &HistorySeries, metric: &MetricHistory) -> Option<String> {
    let points = series.points.iter().enumerate().filter_map(|(place, point)| {
        let (value, shown) = (point.value(&metric.key)?, point.value_text(&metric.key, number)?);
        let tags: Vec<&str> = point.tags.iter().map(RunTag::as_str).collect();
        Some(TrendPoint {
            place,
            value,
            is_invalid: !point.is_valid(),
            label: tags.join(" "),
            hint: format!("{shown} {}, run {}, {}", metric.unit, point.run, to_the_second(&point.started)),
        })
    });
    let title = format!("{}, {}", metric.key, metric.unit);
    let changes = metric.changes.iter().map(|shift| {
        (shift.point, format!("{} %", signed_percent(shift.change.relative() * 100.0)), metric.is_better(shift))
    });
    TrendPlot { title: &title, points: points.collect(), levels: metric.levels(), changes: changes.collect() }.draw()
}
