//! The simulator's answer on several systems and settings: a table with the commands that would measure each point,
//! the Pareto fronts, latencies over the rate, or JSON.

use std::fmt::{self, Write as _};

use serde::Serialize;
use serde_json::{Value, json};

use crate::chart::{Chart, ChartPoint, ChartSeries, PointKind, color, number};
use crate::document::{Badge, Block, Cell, Document, Fact, Section, Table, TableColumn, Top};
use crate::styler::{TextRole, cut};
use base::diag::ErrorText;
use base::spec::{LatencyLimit, Length, LimitedMetric};
use base::units::three_digits;
use sim::StepTimeBasis;

/// Curves that a picture has room for.
const MOST_CURVES: usize = 8;

/// One benchmark of one point of the grid.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIfRow {
    /// The settings that differ between the points.
    pub settings: Vec<(String, String)>,
    /// The benchmark's task.
    pub task: String,
    pub lengths: WhatIfLengths,
    pub gpus: u32,
    pub servers: usize,
    /// Why there are no numbers.
    pub outcome: Result<WhatIfNumbers, ErrorText>,
    /// No other point has more tokens per second with as many GPUs or fewer.
    pub is_best: bool,
    /// The same at several rates, up to a little more than the highest one; empty where they were not asked for.
    pub curve: Vec<WhatIfNumbers>,
    /// TTFT near its rate. `None`: it has none.
    pub nearby: Option<NearbyTtft>,
    /// What its step times rest on. `None`: nothing was simulated.
    pub basis: Option<StepTimeBasis>,
    /// What would measure it. Empty: no command would.
    pub command: String,
}

impl WhatIfRow {
    /// Its settings and its benchmark.
    pub(super) fn name(&self) -> String {
        [settings_text(&self.settings), self.task.clone()].join(" ").trim().to_owned()
    }

    pub(super) fn tokens_per_gpu(&self, numbers: &WhatIfNumbers) -> f64 {
        numbers.tokens_per_second / f64::from(self.gpus.max(1))
    }
}

/// `system=sim-h200-x8 rate=5`
pub(super) fn settings_text(settings: &[(String, String)]) -> String {
    settings.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

/// Each value under its key.
pub(super) fn settings_json(settings: &[(String, String)]) -> Value {
    settings.iter().map(|(key, value)| (key.clone(), json!(value))).collect()
}

/// The values of `items`, each once, in order.
pub(super) fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for item in items {
        if !distinct.contains(&item) {
            distinct.push(item);
        }
    }
    distinct
}

/// A column for each setting that rows have.
pub(super) fn setting_columns(keys: &[&String]) -> impl Iterator<Item = TableColumn> {
    keys.iter().map(|key| TableColumn::new(*key))
}

/// The values of a row in those columns.
pub(super) fn setting_cells(keys: &[&String], settings: &[(String, String)]) -> Vec<Cell> {
    // A value may be a whole file.
    let value = |key: &&String| settings.iter().find(|(name, _)| name == *key).map(|(_, text)| cut(text, 40));
    // Names of systems have hyphens, which a page would break at.
    let cell = |text: String| if text.len() <= 24 { Cell::name(text) } else { Cell::from(text) };
    keys.iter().map(|key| cell(value(key).unwrap_or_default())).collect()
}

/// The columns of TTFT and TPOT, of which [`latency`] are the cells.
pub(super) fn latency_columns() -> impl Iterator<Item = TableColumn> {
    let columns = [("TTFT p50", 6), ("TTFT p99", 0), ("TPOT p50", 5), ("TPOT p99", 0)];
    columns.into_iter().map(|(title, priority)| TableColumn::number(title).priority(priority))
}

/// The lengths in tokens that the numbers are for: the shipped benchmark of a simulated system is shorter than that
/// of the real one.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIfLengths {
    pub input: Length,
    pub output: Length,
    /// `--input-tokens` was given.
    pub is_input_given: bool,
    /// `--output-tokens` was given.
    pub is_output_given: bool,
}

impl fmt::Display for WhatIfLengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match (self.is_input_given, self.is_output_given) {
            (true, true) => "as given",
            (false, false) => "this benchmark's lengths; --input-tokens and --output-tokens replace them",
            (true, false) => "answers as in this benchmark",
            (false, true) => "prompts as in this benchmark",
        };
        write!(f, "tokens: prompts {}, answers {}: {source}", self.input, self.output)
    }
}

/// What the model says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WhatIfNumbers {
    /// The highest rate within the goal, or that of the benchmark; requests per second. `None`: all requests at once.
    pub rate: Option<f64>,
    pub tokens_per_second: f64,
    /// ms. `None`: no request has this latency, as answers of one token have no TPOT.
    pub ttft_p50: Option<f64>,
    pub ttft_p99: Option<f64>,
    pub tpot_p50: Option<f64>,
    pub tpot_p99: Option<f64>,
    /// How often a request lost its KV cache.
    pub pauses: u64,
}

/// The median and the 99th percentile of TTFT near the rate of a point, ms. `None`: the servers fall behind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NearbyTtft {
    /// With 1 % more requests per second.
    pub one_percent_more_requests: Option<(f64, f64)>,
    /// On servers that are as fast as the upper end of the band.
    pub upper_end_of_band: Option<(f64, f64)>,
    /// On servers that are as slow as its lower end.
    pub lower_end_of_band: Option<(f64, f64)>,
}

/// The points, the fronts and the commands. `goal` is the text of the limits, `command` the one that asks this.
pub fn what_if(rows: &[WhatIfRow], goal: &str, limits: &[LatencyLimit], command: &str) -> Document {
    let model = if goal.is_empty() {
        "A model, not a measurement".to_owned()
    } else {
        format!("A model, not a measurement: the highest rate with {goal}; Offline without limits")
    };
    let answered = || rows.iter().filter(|row| row.outcome.is_ok());
    let mut points = vec![
        Block::table(points(rows)),
        Block::text(TextRole::Plain, "* Pareto-optimal: most tok/s of the benchmark for its number of GPUs"),
    ];
    points.extend(nearby(rows).map(Block::table));
    let lengths = distinct(answered().map(|row| &row.lengths));
    points.extend(lengths.into_iter().map(|lengths| Block::text(TextRole::Plain, lengths.to_string())));
    points.extend(bases(rows).into_iter().map(|line| Block::text(TextRole::Plain, line)));
    let mut charts = charts(rows, limits).into_iter();
    let picture = charts.next();
    let commands = distinct(answered().map(|row| row.command.clone()));
    let mut sections = vec![Section::titled_on_page("Points").with(points)];
    if !commands.is_empty() {
        sections.push(Section::new("To measure it").with([Block::commands(commands)]));
    }
    let charts: Vec<String> = charts.collect();
    sections.extend((!charts.is_empty()).then(|| curves(rows, charts)));
    Document {
        name: "what if".to_owned(),
        title: "What if".into(),
        badges: vec![Badge { role: TextRole::Warning, text: "MODEL".to_owned() }],
        head: vec![Block::text(TextRole::Plain, model), Block::commands(vec![command.to_owned()]).on_page()],
        tops: vec![Top { facts: facts(rows), picture, ..Top::default() }],
        sections,
        footer: "Made by regatta what-if.",
    }
}

/// What the step times of each GPU rest on, and where the winner is open.
fn bases(rows: &[WhatIfRow]) -> Vec<String> {
    let answered = || rows.iter().filter_map(|row| Some((row, row.outcome.as_ref().ok()?, row.basis.as_ref()?)));
    let bases = distinct(answered().map(|(.., basis)| basis));
    let places = |basis: &StepTimeBasis| {
        let those = rows.iter().enumerate().filter(|(_, row)| row.outcome.is_ok() && row.basis.as_ref() == Some(basis));
        let places: Vec<_> = those.map(|(at, _)| (at + 1).to_string()).collect();
        if bases.len() > 1 { format!(" of no. {}", cut(&places.join(", "), 60)) } else { String::new() }
    };
    let line = |basis: &&StepTimeBasis| format!("step times{}, {}: {basis}", places(basis), basis.with_band());
    let mut lines: Vec<_> = bases.iter().map(line).collect();
    let range = |numbers: &WhatIfNumbers, basis: &StepTimeBasis| {
        let (low, high) = basis.band();
        (numbers.tokens_per_second * low, numbers.tokens_per_second * high)
    };
    let meets = |(row, numbers, basis): (&WhatIfRow, &WhatIfNumbers, &StepTimeBasis)| {
        let (low, high) = range(numbers, basis);
        let rivals = answered().filter(|(other, ..)| other.task == row.task && other.gpus == row.gpus && other != &row);
        let mut ranges = rivals.map(|(_, numbers, basis)| range(numbers, basis));
        row.is_best && ranges.any(|(other_low, other_high)| other_low < high && low < other_high)
    };
    let is_of_a_log =
        |basis: &StepTimeBasis| matches!(basis, StepTimeBasis::StepLog { .. } | StepTimeBasis::OtherModel { .. });
    if answered().any(|(.., basis)| !is_of_a_log(basis)) {
        lines.push("nine of ten published MLPerf results were within the band of the simulated tok/s".to_owned());
    }
    if answered().any(meets) {
        lines.push("points with as many GPUs lie within each other's bands: which of them is best is open".to_owned());
    }
    lines
}

fn points(rows: &[WhatIfRow]) -> Table {
    let keys = distinct(rows.iter().flat_map(|row| &row.settings).map(|(key, _)| key));
    let mut columns = vec![TableColumn::new("no.")];
    columns.extend(setting_columns(&keys));
    // The settings of a row may name it without its benchmark.
    let is_named = distinct(rows.iter().map(|row| &row.settings)).len() == rows.len();
    columns.push(TableColumn::new("benchmark").priority(u8::from(is_named)));
    let numbers = [("GPUs", 2), ("req/s", 0), ("tok/s", 0), ("tok/s/GPU", 4)];
    columns.extend(numbers.map(|(title, priority)| TableColumn::number(title).priority(priority)));
    columns.extend(latency_columns());
    // The lines below the table say it, too.
    columns.push(TableColumn::new("step times").priority(3));
    let mut table = Table::new("numbers of each point", columns);
    for (at, row) in rows.iter().enumerate() {
        let mut cells = vec![Cell::new(TextRole::Name, format!("{}{}", at + 1, if row.is_best { " *" } else { "" }))];
        cells.extend(setting_cells(&keys, &row.settings));
        cells.push(Cell::from(row.task.as_str()));
        match &row.outcome {
            Ok(numbers) => {
                let tokens = [numbers.tokens_per_second, row.tokens_per_gpu(numbers)];
                let latencies = [numbers.ttft_p50, numbers.ttft_p99, numbers.tpot_p50, numbers.tpot_p99];
                cells.push(Cell::from(row.gpus.to_string()));
                cells.push(Cell::from(numbers.rate.map_or_else(|| "all at once".to_owned(), three_digits)));
                cells.extend(tokens.map(|tokens| Cell::number(TextRole::Plain, Some(tokens))));
                cells.extend(latencies.map(|ms| Cell::from(latency(ms))));
                cells.extend(row.basis.as_ref().map(|basis| Cell::name(basis.with_band())));
            }
            Err(problem) => cells.push(Cell::new(TextRole::Bad, &problem.message)),
        }
        table.row(cells);
    }
    table
}

/// TTFT at the ends of the band, and how much it depends on the rate: near saturation a queue is.
fn nearby(rows: &[WhatIfRow]) -> Option<Table> {
    let heads = ["no.", "TTFT p50 in the band", "TTFT p99 in the band", "1 % more req/s: p50", "p99"];
    let bound = |ms: Option<f64>| ms.map_or_else(|| "overloaded".to_owned(), |ms| latency(Some(ms)));
    let range = |fast, slow| Cell::from(format!("{} to {}", bound(fast), bound(slow)));
    let more = |ms: Option<f64>, now: Option<f64>| {
        let change = |(ms, now): (f64, f64)| {
            let sign = if ms < now { '−' } else { '+' };
            format!("{sign}{}", latency(Some((ms - now).abs())))
        };
        Cell::from(ms.zip(now).map_or_else(|| bound(None), change))
    };
    let cells = |(at, row): (usize, &WhatIfRow)| {
        let (near, now) = (row.nearby?, row.outcome.as_ref().ok()?);
        let [above, fast, slow] = [near.one_percent_more_requests, near.upper_end_of_band, near.lower_end_of_band];
        let [p50, p99]: [fn((f64, f64)) -> f64; 2] = [|ttft| ttft.0, |ttft| ttft.1];
        Some([
            Cell::name((at + 1).to_string()),
            range(fast.map(p50), slow.map(p50)),
            range(fast.map(p99), slow.map(p99)),
            more(above.map(p50), now.ttft_p50),
            more(above.map(p99), now.ttft_p99),
        ])
    };
    let rows: Vec<_> = rows.iter().enumerate().filter_map(cells).collect();
    (!rows.is_empty()).then(|| Table::list(heads, rows))
}

/// The best points.
fn facts(rows: &[WhatIfRow]) -> Vec<Fact> {
    let answered = || rows.iter().filter_map(|row| Some((row, row.outcome.as_ref().ok()?)));
    let highest = |name: &str, unit: &str, value: fn(&WhatIfRow, &WhatIfNumbers) -> f64| {
        let best = answered().max_by(|a, b| value(a.0, a.1).total_cmp(&value(b.0, b.1)));
        best.map(|(row, numbers)| {
            [name.to_owned(), format!("{} {unit}", three_digits(value(row, numbers))), row.name()]
        })
    };
    let tpots = answered().filter_map(|(row, numbers)| Some((row, numbers.tpot_p50?)));
    let shortest = tpots.min_by(|a, b| a.1.total_cmp(&b.1));
    let shortest = shortest.map(|(row, tpot)| ["shortest TPOT p50".to_owned(), latency(Some(tpot)), row.name()]);
    let throughput = highest("highest throughput", "tok/s", |_, numbers| numbers.tokens_per_second);
    let per_gpu = highest("highest throughput per GPU", "tok/s/GPU", WhatIfRow::tokens_per_gpu);
    [throughput, per_gpu, shortest].into_iter().flatten().collect()
}

/// The pictures with what to know about them.
fn curves(rows: &[WhatIfRow], charts: Vec<String>) -> Section {
    let curves: Vec<_> = rows.iter().enumerate().filter(|(_, row)| !row.curve.is_empty()).collect();
    let mut note =
        "A number at a point is its row in the table. A point is on the front if no other is better in both values."
            .to_owned();
    if !curves.is_empty() {
        note += " Curves extend slightly beyond the highest rate, with hollow points.";
    }
    if curves.len() > MOST_CURVES {
        let _ = write!(note, " The curves of {} more points are left out.", curves.len() - MOST_CURVES);
    }
    let legend = curves.iter().take(MOST_CURVES).enumerate();
    let legend = legend.map(|(place, (at, row))| [(at + 1).to_string(), color(place), row.name()]).collect();
    let blocks = [Block::charts(charts), Block::text(TextRole::Quiet, note), Block::legend(legend)];
    Section::page("Curves").with(blocks)
}

fn charts(rows: &[WhatIfRow], limits: &[LatencyLimit]) -> Vec<String> {
    let charts = [
        front(rows),
        per_gpu(rows),
        curve(rows, limits, "TTFT p99", LimitedMetric::Ttft, |numbers| numbers.ttft_p99),
        curve(rows, limits, "TPOT p99", LimitedMetric::Tpot, |numbers| numbers.tpot_p99),
    ];
    charts.into_iter().flatten().collect()
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
        series: by_task(rows, point, |row, _| row.is_best),
        ..Chart::default()
    }
    .draw()
}

/// Throughput of a GPU over the speed that a user sees. A point is on the front where none has more of both.
fn per_gpu(rows: &[WhatIfRow]) -> Option<String> {
    let point = |row: &WhatIfRow, numbers: &WhatIfNumbers| {
        let speed = numbers.tpot_p50.filter(|tpot| *tpot > 0.0).map_or(f64::NAN, |tpot| 1e3 / tpot);
        (speed, row.tokens_per_gpu(numbers))
    };
    let on_front = |row: &WhatIfRow, (x, y): (f64, f64)| {
        let others = rows.iter().filter(|other| other.task == row.task);
        let mut others = others.filter_map(|other| Some(point(other, other.outcome.as_ref().ok()?)));
        !others.any(|(a, b)| a >= x && b >= y && (a > x || b > y))
    };
    Chart {
        title: "Throughput per GPU over interactivity (line: Pareto front), model",
        across: "tok/s/user: 1,000 / TPOT p50",
        upright: "tok/s/GPU",
        series: by_task(rows, point, on_front),
        is_close: true,
        ..Chart::default()
    }
    .draw()
}

/// A front for each benchmark.
fn by_task(
    rows: &[WhatIfRow],
    point: impl Fn(&WhatIfRow, &WhatIfNumbers) -> (f64, f64),
    on_front: impl Fn(&WhatIfRow, (f64, f64)) -> bool,
) -> Vec<ChartSeries> {
    let tasks = distinct(rows.iter().filter(|row| row.outcome.is_ok()).map(|row| row.task.as_str()));
    let series = |(place, task): (usize, &&str)| {
        let points = rows.iter().enumerate().filter(|(_, row)| row.task == **task).filter_map(|(at, row)| {
            let numbers = row.outcome.as_ref().ok()?;
            let (x, y) = point(row, numbers);
            let tokens = number(numbers.tokens_per_second);
            let hint = format!("{}: {tokens} tok/s; measure it: {}", row.name(), row.command);
            let (label, on_front) = ((at + 1).to_string(), on_front(row, (x, y)));
            Some(ChartPoint { x, y, label, hint, on_front, ..ChartPoint::default() })
        });
        ChartSeries { place, name: (*task).to_owned(), points: points.collect(), is_front: true }
    };
    tasks.iter().enumerate().map(series).collect()
}

/// A latency over the rate. A hollow point is above a limit.
fn curve(
    rows: &[WhatIfRow],
    limits: &[LatencyLimit],
    name: &str,
    metric: LimitedMetric,
    latency: fn(&WhatIfNumbers) -> Option<f64>,
) -> Option<String> {
    let curves = rows.iter().enumerate().filter(|(_, row)| !row.curve.is_empty()).take(MOST_CURVES);
    let series = curves.enumerate().map(|(place, (at, row))| {
        let highest = row.outcome.as_ref().ok().and_then(|numbers| numbers.rate).unwrap_or(f64::INFINITY);
        let points = row.curve.iter().filter_map(|numbers| {
            let (x, y) = (numbers.rate.unwrap_or_default(), latency(numbers)?);
            let hint = format!("{}: {name} {} ms at {} req/s", row.name(), number(y), number(x));
            let kind = if x > highest { PointKind::OverLimit } else { PointKind::Valid };
            Some(ChartPoint { x, y, hint, kind, ..ChartPoint::default() })
        });
        ChartSeries { place, name: (at + 1).to_string(), points: points.collect(), is_front: false }
    });
    let limits = limits.iter().filter(|limit| limit.metric == metric);
    Chart {
        title: &format!("{name} over the rate, ms, model"),
        across: "requests per second",
        upright: "ms",
        series: series.collect(),
        limits: limits.map(|limit| (limit.ms, format!("limit {}: {} ms", limit.key(), number(limit.ms)))).collect(),
        ..Chart::default()
    }
    .draw()
}

/// All rows as JSON.
pub fn what_if_json(rows: &[WhatIfRow], goal: &str) -> Value {
    let points: Vec<_> = rows
        .iter()
        .map(|row| {
            let mut point = json!({"settings": settings_json(&row.settings), "task": row.task,
                "input_tokens": row.lengths.input, "output_tokens": row.lengths.output,
                "gpus": row.gpus, "servers": row.servers, "pareto": row.is_best, "command": row.command});
            if let Some(basis) = &row.basis {
                let (low, high) = basis.band();
                point["basis"] = json!({"class": basis.name(), "about": basis.to_string(), "low": low, "high": high});
            }
            match &row.outcome {
                Ok(n) => {
                    point["rate"] = json!(n.rate);
                    point["tokens_per_second"] = json!(n.tokens_per_second);
                    point["ttft_ms"] = json!({"p50": n.ttft_p50, "p99": n.ttft_p99});
                    point["tpot_ms"] = json!({"p50": n.tpot_p50, "p99": n.tpot_p99});
                    point["preemptions"] = json!(n.pauses);
                    if let Some(nearby) = &row.nearby {
                        point["nearby_ttft_ms"] = json!(nearby);
                    }
                }
                Err(problem) => point["error"] = json!(problem.message),
            }
            point
        })
        .collect();
    json!({"simulated": true, "note": "a model, not a measurement", "goal": goal, "points": points})
}

/// A latency that no request may have: in ms, and in s where requests that came at once waited for long.
pub(super) fn latency(ms: Option<f64>) -> String {
    match ms {
        None => "n/a".to_owned(),
        Some(ms) if ms >= 10_000.0 => format!("{} s", three_digits(ms / 1e3)),
        Some(ms) => format!("{} ms", three_digits(ms)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::styler::Styler;

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
            nearby: Some(NearbyTtft {
                one_percent_more_requests: Some((51.0, 95.0 * rate)),
                upper_end_of_band: Some((40.0, 70.0)),
                lower_end_of_band: None,
            }),
            basis: Some(StepTimeBasis::Assumed),
            command: format!("regatta run m system={system} rate={rate}"),
        }
    }

    #[test]
    fn a_page_has_every_point_with_its_command_and_is_marked_as_a_model() {
        let broken = WhatIfRow { outcome: Err(ErrorText::new("it does not fit <b>")), ..row("c", 1, 1.0, 1.0) };
        let broken = WhatIfRow { curve: Vec::new(), is_best: false, ..broken };
        let rows = [row("a", 1, 4.0, 9.0), row("b", 2, 6.0, 8.0), broken];
        let limit = LatencyLimit { metric: LimitedMetric::Ttft, statistic: base::spec::Statistic::P99, ms: 450.0 };
        let document = what_if(&rows, "ttft_p99<450ms", &[limit], "regatta what-if m system=a,b,c");
        let page = document.html().unwrap();
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
    fn step_times_name_their_rows_where_rows_differ() {
        let basis = Some(StepTimeBasis::CarriedOver { gpu: "H200".to_owned() });
        let rows = [row("a", 1, 4.0, 9.0), WhatIfRow { basis, ..row("b", 2, 6.0, 8.0) }];
        let text = what_if(&rows, "", &[], "").terminal(Styler::OFF);
        assert!(text.contains("step times of no. 2, carried over ±20 %: carried over from H200"), "{text}");
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

    #[test]
    fn the_table_has_the_words_of_the_page() {
        let mut offline = row("b", 2, 6.0, 8.0);
        offline.outcome =
            Ok(WhatIfNumbers { rate: None, ttft_p99: Some(32_280.0), tpot_p99: None, ..numbers(6.0, 8.0) });
        let rows = [row("a", 1, 4.0, 9.0), WhatIfRow { command: String::new(), nearby: None, ..offline }];
        insta::assert_snapshot!(what_if(&rows, "ttft_p99<450ms", &[], "").terminal(Styler::OFF), @r"
        A model, not a measurement: the highest rate with ttft_p99<450ms; Offline without limits
        no.  system  benchmark  GPUs        req/s  tok/s  tok/s/GPU  TTFT p50     p99  TPOT p50      p99  step times
        1 *  a       benchmark     1         4.00    400        400   50.0 ms  360 ms   9.00 ms  18.0 ms  assumed ±35 %
        2 *  b       benchmark     2  all at once    600        300   50.0 ms  32.3 s   8.00 ms      n/a  assumed ±35 %
        * Pareto-optimal: most tok/s of the benchmark for its number of GPUs
        no.  TTFT p50 in the band   TTFT p99 in the band   1 % more req/s: p50  p99
        1    40.0 ms to overloaded  70.0 ms to overloaded  +1.00 ms             +20.0 ms
        tokens: prompts 128, answers 64: answers as in this benchmark
        step times, assumed ±35 %: assumed from the data sheet, not fitted
        nine of ten published MLPerf results were within the band of the simulated tok/s

        To measure it
          regatta run m system=a rate=4
        ");
    }
}
