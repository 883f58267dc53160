//! The page of `regatta what-if`: what the simulator says of each point, the Pareto front, latencies over the rate, and the commands that
//! would measure it.

use minijinja::{Value as Safe, context};

use super::chart::{Chart, ChartPoint, ChartSeries, PointKind};
use super::overlay::color;
use super::svg::number;
use crate::page_template::render_page;
use crate::what_if::{WhatIfNumbers, WhatIfRow, lengths};
use base::spec::{LatencyLimit, LimitedMetric};

const PAGE: &str = include_str!("../../../templates/report/what_if.html");
/// Curves that a picture has room for.
const MOST_CURVES: usize = 8;

/// The page. `command` is the one that made it, `goal` the text of the limits.
pub fn what_if(
    rows: &[WhatIfRow],
    goal: &str,
    limits: &[LatencyLimit],
    command: &str,
) -> Result<String, minijinja::Error> {
    let keys = keys(rows);
    let curves: Vec<(usize, &WhatIfRow)> =
        rows.iter().enumerate().filter(|(_, row)| !row.curve.is_empty()).take(MOST_CURVES).collect();
    let mut plots = [
        front(rows),
        per_gpu(rows),
        curve(&curves, limits, "TTFT p99", LimitedMetric::Ttft, |numbers| numbers.ttft_p99),
        curve(&curves, limits, "TPOT p99", LimitedMetric::Tpot, |numbers| numbers.tpot_p99),
    ]
    .into_iter()
    .flatten()
    .map(Safe::from_safe_string);
    render_page(
        PAGE,
        context! {
            command,
            goal,
            lengths => lengths(rows),
            head => keys.iter().map(|key| (*key).to_owned()).chain(HEAD.map(str::to_owned)).collect::<Vec<String>>(),
            settings => keys.len(),
            legend => curves.iter().enumerate().map(|(place, (at, _))| context! {
                color => color(place), letter => at + 1, name => rows[*at].name(),
            }).collect::<Vec<_>>(),
            left_out => rows.iter().filter(|row| !row.curve.is_empty()).count().saturating_sub(MOST_CURVES),
            rows => rows.iter().enumerate().map(|(at, row)| context! {
                letter => at + 1,
                cells => cells(&keys, row),
                on_front => row.is_best,
                error => row.outcome.as_ref().err().map(ToString::to_string),
                command => (row.outcome.is_ok() && !row.command.is_empty()).then_some(&row.command),
            }).collect::<Vec<_>>(),
            numbers => numbers(rows),
            picture => plots.next(),
            plots => plots.collect::<Vec<_>>(),
        },
    )
}

const HEAD: [&str; 9] =
    ["benchmark", "GPUs", "req/s", "tok/s", "tok/s/GPU", "TTFT p50", "TTFT p99", "TPOT p50", "TPOT p99"];

/// The settings that points have.
fn keys(rows: &[WhatIfRow]) -> Vec<&str> {
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in rows.iter().flat_map(|row| &row.settings) {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    keys
}

fn cells(keys: &[&str], row: &WhatIfRow) -> Vec<String> {
    let of = |key: &str| row.settings.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
    let mut cells: Vec<String> = keys.iter().map(|key| of(key).unwrap_or_default()).collect();
    cells.push(row.task.clone());
    if let Ok(numbers) = &row.outcome {
        cells.push(row.gpus.to_string());
        cells.push(numbers.rate.map_or_else(|| "all at once".to_owned(), number));
        cells.push(number(numbers.tokens_per_second));
        cells.push(number(row.tokens_per_gpu(numbers)));
        let latencies = [numbers.ttft_p50, numbers.ttft_p99, numbers.tpot_p50, numbers.tpot_p99];
        cells.extend(latencies.map(time));
    }
    cells
}

/// Requests that are there at once wait for minutes.
fn time(ms: Option<f64>) -> String {
    let Some(ms) = ms else { return "n/a".to_owned() };
    if ms >= 10_000.0 { format!("{} s", number(ms / 1e3)) } else { format!("{} ms", number(ms)) }
}

/// Name, value, what it is.
fn numbers(rows: &[WhatIfRow]) -> Vec<[String; 3]> {
    let known = || rows.iter().filter_map(|row| Some((row, row.outcome.as_ref().ok()?)));
    let best = |of: fn(&WhatIfRow, &WhatIfNumbers) -> f64| known().max_by(|a, b| of(a.0, a.1).total_cmp(&of(b.0, b.1)));
    let mut all = Vec::new();
    if let Some((row, numbers)) = best(|_, numbers| numbers.tokens_per_second) {
        all.push(["highest throughput", "tok/s", &number(numbers.tokens_per_second), &row.name()].map(str::to_owned));
    }
    if let Some((row, numbers)) = best(WhatIfRow::tokens_per_gpu) {
        all.push(["most of a GPU", "tok/s/GPU", &number(row.tokens_per_gpu(numbers)), &row.name()].map(str::to_owned));
    }
    let tpots = known().filter_map(|(row, numbers)| Some((row, numbers.tpot_p50?)));
    if let Some((row, shortest)) = tpots.min_by(|a, b| a.1.total_cmp(&b.1)) {
        all.push(["shortest TPOT p50", "ms", &number(shortest), &row.name()].map(str::to_owned));
    }
    all.into_iter().map(|[name, unit, value, what]| [name, format!("{value} {unit}"), what]).collect()
}

/// Tokens of a system over its size. The line is the front that the table marks. `None`: all have the same size.
fn front(rows: &[WhatIfRow]) -> Option<String> {
    if rows.windows(2).all(|pair| pair[0].gpus == pair[1].gpus) {
        return None;
    }
    let point = |row: &WhatIfRow, numbers: &WhatIfNumbers| (f64::from(row.gpus), numbers.tokens_per_second);
    Chart {
        title: "Throughput over GPUs (line: Pareto front), model",
        across: "GPUs",
        upright: "tok/s",
        series: by_task(rows, point, |row, _, _| row.is_best),
        limits: Vec::new(),
        is_close: false,
    }
    .draw()
}

/// What a GPU does over what a user sees. A point is on the front where none has more of both.
fn per_gpu(rows: &[WhatIfRow]) -> Option<String> {
    let point = |row: &WhatIfRow, numbers: &WhatIfNumbers| {
        let each = numbers.tpot_p50.filter(|tpot| *tpot > 0.0).map_or(f64::NAN, |tpot| 1e3 / tpot);
        (each, row.tokens_per_gpu(numbers))
    };
    let on_front = |row: &WhatIfRow, numbers: &WhatIfNumbers, rows: &[WhatIfRow]| {
        let (x, y) = point(row, numbers);
        let others = rows.iter().filter(|other| other.task == row.task);
        let others = others.filter_map(|other| Some(point(other, other.outcome.as_ref().ok()?)));
        !others.into_iter().any(|(a, b)| a >= x && b >= y && (a > x || b > y))
    };
    Chart {
        title: "Throughput per GPU over interactivity (line: Pareto front), model",
        across: "tok/s/user: 1,000 / TPOT p50",
        upright: "tok/s/GPU",
        series: by_task(rows, point, on_front),
        limits: Vec::new(),
        is_close: true,
    }
    .draw()
}

/// A front for each benchmark.
fn by_task(
    rows: &[WhatIfRow],
    point: impl Fn(&WhatIfRow, &WhatIfNumbers) -> (f64, f64),
    on_front: impl Fn(&WhatIfRow, &WhatIfNumbers, &[WhatIfRow]) -> bool,
) -> Vec<ChartSeries> {
    let mut tasks: Vec<&str> = Vec::new();
    for row in rows.iter().filter(|row| row.outcome.is_ok()) {
        if !tasks.contains(&row.task.as_str()) {
            tasks.push(&row.task);
        }
    }
    let of_task = |(place, task): (usize, &&str)| {
        let its = rows.iter().enumerate().filter(|(_, row)| row.task == **task);
        let points = its.filter_map(|(at, row)| {
            let numbers = row.outcome.as_ref().ok()?;
            let (x, y) = point(row, numbers);
            Some(ChartPoint {
                x,
                y,
                interval: None,
                label: (at + 1).to_string(),
                hint: format!(
                    "{}: {} tok/s; measure it: {}",
                    row.name(),
                    number(numbers.tokens_per_second),
                    row.command
                ),
                kind: PointKind::Valid,
                is_knee: false,
                on_front: on_front(row, numbers, rows),
            })
        });
        ChartSeries { place, name: (*task).to_owned(), points: points.collect(), is_front: true }
    };
    tasks.iter().enumerate().map(of_task).collect()
}

/// A latency over the rate. A hollow point is above a limit.
fn curve(
    curves: &[(usize, &WhatIfRow)],
    limits: &[LatencyLimit],
    name: &str,
    metric: LimitedMetric,
    of: fn(&WhatIfNumbers) -> Option<f64>,
) -> Option<String> {
    let series = curves.iter().enumerate().map(|(place, (at, row))| {
        let highest = row.outcome.as_ref().ok().and_then(|numbers| numbers.rate).unwrap_or(f64::INFINITY);
        let points = row.curve.iter().filter_map(|numbers| {
            let (rate, ms) = (numbers.rate.unwrap_or_default(), of(numbers)?);
            Some(ChartPoint {
                x: rate,
                y: ms,
                interval: None,
                label: String::new(),
                hint: format!("{}: {name} {} ms at {} req/s", row.name(), number(ms), number(rate)),
                kind: if rate > highest { PointKind::OverLimit } else { PointKind::Valid },
                is_knee: false,
                on_front: false,
            })
        });
        ChartSeries { place, name: (at + 1).to_string(), points: points.collect(), is_front: false }
    });
    let its = limits.iter().filter(|limit| limit.metric == metric);
    Chart {
        title: &format!("{name} over the rate, ms, model"),
        across: "requests per second",
        upright: "ms",
        series: series.collect(),
        limits: its.map(|limit| (limit.ms, format!("limit {}: {} ms", limit.key(), number(limit.ms)))).collect(),
        is_close: false,
    }
    .draw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::what_if::WhatIfLengths;
    use crate::what_if::WhatIfProblem;
    use base::spec::Length;

    fn numbers(rate: f64, tpot: f64) -> WhatIfNumbers {
        WhatIfNumbers {
            rate: Some(rate),
            tokens_per_second: 100.0 * rate,
            ttft_p50: Some(50.0),
            ttft_p99: Some(90.0 * rate),
            tpot_p50: Some(tpot),
            tpot_p99: Some(2.0 * tpot),
            pauses: 0,
        }
    }

    fn row(system: &str, gpus: u32, rate: f64, tpot: f64) -> WhatIfRow {
        WhatIfRow {
            lengths: WhatIfLengths {
                input: Length::Fixed(128),
                output: Length::Fixed(64),
                is_input_given: true,
                is_output_given: false,
            },
            settings: vec![("system".to_owned(), system.to_owned())],
            task: "benchmark".to_owned(),
            gpus,
            servers: 1,
            outcome: Ok(numbers(rate, tpot)),
            is_best: true,
            curve: [0.5, 1.0, 1.1].map(|share| numbers(share * rate, tpot)).to_vec(),
            command: format!("regatta run m system={system} rate={rate}"),
        }
    }

    #[test]
    fn a_page_has_every_point_with_its_command_and_is_marked_as_a_model() {
        let broken =
            WhatIfRow { outcome: Err(WhatIfProblem("it does not fit <b>".to_owned())), ..row("c", 1, 1.0, 1.0) };
        let broken = WhatIfRow { curve: Vec::new(), is_best: false, ..broken };
        let rows = [row("a", 1, 4.0, 9.0), row("b", 2, 6.0, 8.0), broken];
        let limit = LatencyLimit { metric: LimitedMetric::Ttft, statistic: base::spec::Statistic::P99, ms: 450.0 };
        let page = what_if(&rows, "ttft_p99<450ms", &[limit], "regatta what-if m system=a,b,c").unwrap();
        for part in ["MODEL", "regatta what-if m system=a,b,c", "system=a rate=4", "system=b rate=6", "Pareto front"] {
            assert!(page.contains(part), "{part}");
        }
        assert!(page.contains("it does not fit &lt;b&gt;") && !page.contains("system=c rate=1"));
        assert_eq!(page.matches("prompts 128, answers 64: answers as in this benchmark").count(), 1);
        assert!(page.contains("limit ttft_p99: 450 ms"));
        // Above the highest rate a point is hollow: one of each curve in both pictures.
        assert_eq!(page.matches("dot over-limit").count(), 4);
    }

    #[test]
    fn systems_of_one_size_are_not_drawn_over_their_size() {
        assert!(front(&[row("a", 1, 4.0, 9.0), row("b", 1, 6.0, 8.0)]).is_none());
        assert!(front(&[row("a", 1, 4.0, 9.0), row("b", 2, 6.0, 8.0)]).is_some());
    }

    #[test]
    fn what_no_point_beats_in_both_is_on_the_front() {
        // The second has less of a GPU and slower tokens.
        let rows = [row("a", 1, 4.0, 9.0), row("b", 2, 6.0, 12.0), row("c", 4, 8.0, 4.0)];
        let picture = per_gpu(&rows).unwrap();
        let line = picture.split("<path d=\"").find(|part| part.contains("class=\"curve c0\"")).unwrap();
        assert_eq!(line.split('"').next().map(|d| d.matches('L').count()), Some(1), "{line}");
    }
}
