//! The tables of the field: one way to measure compared with another, as a ratio, a row for each measurement.
//!
//! `ratio = other / base`, in percent of the first column; [`RatioMethod`] is how several runs come into it. A ratio of unlike
//! numbers is not formed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use minijinja::context;
use serde::Serialize;
use serde_json::{Value, json as value};

use super::server_table::{HEADS, ServerRow};
use super::{CompareRules, ComparedResult, Comparison, Judgement, PercentInterval, RunSet};
use crate::page_template::render_page;
use crate::terminal::styler::{Styler, TextRole, clean, table};
use harness::{IdentityDifference, RunIdentity};

const PAGE: &str = include_str!("../../../templates/report/ratios.html");

/// What a ratio is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RatioMethod {
    /// other / base; of several runs, of their means.
    Means,
    /// The geometric mean of the ratios of pairs of runs, which is not the ratio of the means.
    Pairs,
    /// other / base, of numbers that were published.
    Published,
}

impl RatioMethod {
    const fn as_text(self) -> &'static str {
        match self {
            Self::Means => "other / base, of several runs the ratio of their means",
            Self::Pairs => {
                "geometric mean of the ratios of pairs of runs with the same arrivals and prompts, not the ratio of the means beside it"
            }
            Self::Published => "other / base, as published",
        }
    }
}

/// One number of one row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    pub row: String,
    /// `output_tokens`, `ttft_p99`.
    pub metric: String,
    pub unit: String,
    /// The column that is compared with the first.
    pub column: String,
    /// Means over the runs of each side.
    pub base: Option<f64>,
    pub other: Option<f64>,
    /// Percent.
    pub percent: Option<f64>,
    /// What the percentage is; absent where there is none.
    pub method: Option<RatioMethod>,
    /// 95 % interval of it, where there are several runs of both.
    pub interval: Option<PercentInterval>,
    pub judgement: Option<Judgement>,
    /// Why there is no ratio, or in what the numbers differ.
    pub unlike: Vec<String>,
    /// Of a published row: where the numbers were published.
    pub source: Option<String>,
}

/// All rows, in order, and the name of the first column.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ratios {
    pub base: String,
    pub rows: Vec<Ratio>,
    /// Runs at a rate, measured and published.
    pub server: Vec<ServerRow>,
    /// What was measured, in the order of the columns, each different one once.
    pub measured: Vec<MeasuredOn>,
}

/// What the numbers of one column were measured on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredOn {
    pub column: String,
    /// Absent: its file does not have it.
    pub simulated: Option<bool>,
    pub identity: Option<RunIdentity>,
    /// How it differs from the first column, including what was varied.
    pub differs: Vec<IdentityDifference>,
}

impl Ratios {
    /// Adds one row: the runs are in the order of the columns.
    pub fn measured(
        &mut self,
        row: &str,
        columns: &[String],
        sets: &[RunSet],
        metrics: &[String],
        rules: CompareRules,
    ) {
        let [first, others @ ..] = sets else { return };
        for (set, column) in sets.iter().zip(columns) {
            self.identify(column, set.first(), first.first());
        }
        for (set, column) in others.iter().zip(columns.iter().skip(1)) {
            let comparison = Comparison::of(first, set, rules);
            for metric in metrics {
                self.rows.push(one(row, column, metric, &comparison));
            }
        }
    }

    fn identify(&mut self, column: &str, sheet: &ComparedResult, first: &ComparedResult) {
        let one = MeasuredOn {
            column: column.to_owned(),
            simulated: sheet.identity.as_ref().map(|identity| identity.simulated),
            differs: super::identity::differences(first, sheet),
            identity: sheet.identity.clone(),
        };
        let line = |it: &MeasuredOn| (it.column.clone(), it.identity.as_ref().map(RunIdentity::line));
        if !self.measured.iter().any(|known| line(known) == line(&one)) {
            self.measured.push(one);
        }
    }

    /// Whether a column is of a simulated server.
    fn any_simulated(&self) -> bool {
        self.measured.iter().any(|one| one.simulated == Some(true))
    }

    /// What was measured, and in what the columns differ, each a line.
    fn identity_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for one in &self.measured {
            let what = one.identity.as_ref().map(RunIdentity::line);
            let what = what.unwrap_or_else(|| "what was measured is not known: its file does not name it".to_owned());
            lines.push(format!("{}: {what}", one.column));
        }
        for one in &self.measured {
            let differences =
                one.differs.iter().map(|it| format!("{} / {}, differs: {}", self.base, one.column, it.describe()));
            for line in differences {
                if !lines.contains(&line) {
                    lines.push(line);
                }
            }
        }
        lines
    }

    /// Adds a row with published numbers.
    pub fn published(&mut self, row: &str, base: f64, column: &str, other: f64, metric: &str, source: &str) {
        self.rows.push(Ratio {
            row: row.to_owned(),
            metric: metric.to_owned(),
            unit: String::new(),
            column: column.to_owned(),
            base: Some(base),
            other: Some(other),
            percent: (base != 0.0).then(|| other / base * 100.0),
            method: (base != 0.0).then_some(RatioMethod::Published),
            interval: None,
            judgement: None,
            unlike: Vec::new(),
            source: Some(source.to_owned()),
        });
    }

    /// `triton / custom: offline 99.9 %, server 97.7 %`, of what was measured here and the first metric.
    pub fn headline(&self) -> Option<String> {
        let first = self.rows.iter().find(|row| row.source.is_none())?;
        let mine = self
            .rows
            .iter()
            .filter(|row| row.source.is_none() && row.metric == first.metric && row.column == first.column);
        let shown: Vec<String> = mine.map(|row| format!("{} {}", row.row, percent(row))).collect();
        let simulated = if self.any_simulated() { "SIMULATED  " } else { "" };
        Some(format!("{simulated}{} / {}, {}: {}", first.column, self.base, first.metric, shown.join(", ")))
    }

    /// How the ratios of measured rows were formed, each method a line, with its rows where there are several methods.
    fn method_lines(&self) -> Vec<String> {
        let mut rows: BTreeMap<RatioMethod, Vec<String>> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.source.is_none()) {
            let Some(method) = row.method else { continue };
            rows.entry(method).or_default().push(format!("{} {}, {}", row.row, row.metric, row.column));
        }
        let is_one = rows.len() == 1;
        let line = |(method, rows): (RatioMethod, Vec<String>)| {
            let of = if is_one { String::new() } else { format!(" of {}", rows.join("; ")) };
            format!("ratio{of}: {}", method.as_text())
        };
        rows.into_iter().map(line).collect()
    }

    pub fn text(&self, styler: Styler) -> String {
        let heads = ["", "metric", self.base.as_str(), "", "", "ratio", "95 % interval", ""];
        let mut rows = vec![heads.map(|head| (TextRole::Quiet, clean(head))).to_vec()];
        let mut notes: Vec<String> = Vec::new();
        for row in &self.rows {
            let remark = row.source.as_ref().map(|source| format!("published: {source}"));
            let remark = remark.or_else(|| {
                row.judgement.filter(|judged| *judged != Judgement::NotJudged).map(|judged| judged.as_text().to_owned())
            });
            rows.push(vec![
                (TextRole::Name, clean(&row.row)),
                (TextRole::Plain, format!("{} {}", row.metric, row.unit).trim().to_owned()),
                (TextRole::Plain, number(row.base, row.source.is_some())),
                (TextRole::Plain, clean(&row.column)),
                (TextRole::Plain, number(row.other, row.source.is_some())),
                (TextRole::Strong, percent(row)),
                (
                    TextRole::Quiet,
                    row.interval.map_or_else(String::new, |it| format!("{:.1} … {:.1} %", it.low, it.high)),
                ),
                (TextRole::Quiet, clean(&remark.unwrap_or_default())),
            ]);
            for why in &row.unlike {
                let note = format!("{}, {}: {why}", row.row, row.column);
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
        let mut out = table(styler, "", &rows);
        for line in self.method_lines() {
            let _ = writeln!(out, "{}", styler.tone(TextRole::Quiet, clean(&line)));
        }
        if !self.server.is_empty() {
            out.push_str(&table(styler, "", &self.server_rows()));
        }
        for line in self.identity_lines() {
            let _ = writeln!(out, "{}", styler.tone(TextRole::Quiet, clean(&line)));
        }
        for note in notes {
            let _ = writeln!(out, "{}", styler.tone(TextRole::Warning, clean(&note)));
        }
        out
    }

    /// The table of Server runs: target, completed, tokens and latencies.
    fn server_rows(&self) -> Vec<Vec<(TextRole, String)>> {
        let quiet = |text: &str| (TextRole::Quiet, clean(text));
        let heads = ["Server", ""].into_iter().chain(HEADS).chain([""]).map(quiet).collect();
        let rows = self.server.iter().map(|one| {
            let names = [(TextRole::Name, clean(&one.row)), (TextRole::Plain, clean(&one.column))];
            let numbers = one.numbers().map(|text| (TextRole::Plain, text));
            names.into_iter().chain(numbers).chain([quiet(&one.remark())]).collect()
        });
        std::iter::once(heads).chain(rows).collect()
    }

    pub fn json(&self) -> Value {
        value!({
            "server": self.server,
            "base": self.base,
            "ratio": "percent, as `method` of each row: `means`, other / base, of several runs the ratio of their means; `pairs`, the geometric mean of the ratios of pairs of runs with the same arrivals and prompts; `published`, other / base as published; 95 % interval from the differences between runs, where there are several of both",
            "simulated": self.any_simulated(),
            "measured": self.measured,
            "rows": self.rows,
        })
    }

    pub fn html(&self, title: &str) -> Result<String, minijinja::Error> {
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|row| {
                context! {
                    row => &row.row, metric => &row.metric, unit => &row.unit, column => &row.column,
                    base => number(row.base, row.source.is_some()), other => number(row.other, row.source.is_some()), percent => percent(row),
                    interval => row.interval.map(|it| format!("{:.1} … {:.1} %", it.low, it.high)),
                    word => row.judgement.filter(|judged| *judged != Judgement::NotJudged).map(Judgement::as_text), unlike => &row.unlike, source => &row.source,
                }
            })
            .collect();
        render_page(
            PAGE,
            context! {
                title, base => &self.base, rows, methods => self.method_lines(),
                simulated => self.any_simulated(),
                measured => self.identity_lines(),
                server_heads => HEADS,
                server => self.server.iter().map(|one| context! {
                    row => &one.row, column => &one.column, numbers => one.numbers(), remark => one.remark(),
                }).collect::<Vec<_>>(),
            },
        )
    }
}

fn one(row: &str, column: &str, metric: &str, comparison: &Comparison) -> Ratio {
    let (name, stat) = match metric.rsplit_once('_') {
        Some((name, stat @ ("mean" | "p50" | "p90" | "p95" | "p99"))) => (name, stat),
        _ => (metric, ""),
    };
    let found = comparison.find(name, stat);
    let mut ratio = Ratio {
        row: row.to_owned(),
        metric: metric.to_owned(),
        unit: found.map_or_else(String::new, |delta| delta.unit.to_owned()),
        column: column.to_owned(),
        base: found.and_then(|delta| delta.a),
        other: found.and_then(|delta| delta.b),
        percent: found.and_then(|delta| delta.percent).map(|percent| percent + 100.0),
        method: found
            .filter(|delta| delta.percent.is_some())
            .map(|delta| if delta.paired { RatioMethod::Pairs } else { RatioMethod::Means }),
        interval: found
            .and_then(|delta| delta.interval)
            .map(|it| PercentInterval { low: it.low + 100.0, high: it.high + 100.0 }),
        judgement: found.and_then(|delta| delta.judgement),
        unlike: found.map(|delta| delta.unlike.clone()).unwrap_or_default(),
        source: None,
    };
    if found.is_none() {
        ratio.unlike.push(format!("both do not have `{metric}`"));
    }
    ratio
}

fn percent(row: &Ratio) -> String {
    row.percent.map_or_else(|| "unlike".to_owned(), |percent| format!("{percent:.2} %"))
}

/// A number for people; one that was published as it was published.
pub(super) fn number(value: Option<f64>, is_published: bool) -> String {
    match value {
        None => "n/a".to_owned(),
        Some(value) if is_published => value.to_string(),
        Some(value) if value.fract() == 0.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 100.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// README of v4.1: `custom` and `triton` harness on H200.
    #[test]
    fn the_published_rows_are_as_they_were_published() {
        let mut ratios = Ratios { base: "custom".to_owned(), ..Ratios::default() };
        let source = "NVIDIA's README of v4.1";
        for (row, metric, custom, triton) in [
            ("H200x1 Offline", "output_tokens", 3757.47, 3752.66),
            ("H200x1 Offline", "samples", 12.78, 12.77),
            ("H200x8 Offline", "samples", 98.4532, 96.1968),
        ] {
            ratios.published(row, custom, "triton", triton, metric, source);
        }
        ratios.server.push(ServerRow {
            row: "H200x1 Server".to_owned(),
            column: "triton".to_owned(),
            runs: 1,
            target_qps: Some(12.5),
            completed_qps: Some(12.45),
            output_tokens: Some(3660.0),
            ttft_ms: Some(582.0),
            tpot_ms: Some(199.0),
            source: Some(source.to_owned()),
        });
        let text = ratios.text(Styler::OFF);
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for line in [
            "H200x1 Offline output_tokens 3757.47 triton 3752.66 99.87 % published: NVIDIA's README of v4.1",
            "H200x1 Offline samples 12.78 triton 12.77 99.92 % published: NVIDIA's README of v4.1",
            "H200x8 Offline samples 98.4532 triton 96.1968 97.71 % published: NVIDIA's README of v4.1",
            "Server target QPS completed QPS output tok/s TTFT p99 ms TPOT p99 ms",
            "H200x1 Server triton 12.5 12.45 3660 582 199 published: NVIDIA's README of v4.1",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line} in\n{text}");
        }
        assert_eq!(ratios.headline(), None, "nothing was measured here");
        let percents: Vec<f64> = ratios.rows.iter().map(|row| (row.percent.unwrap() * 100.0).round() / 100.0).collect();
        assert_eq!(percents, [99.87, 99.92, 97.71]);
        let page = ratios.html("x").unwrap();
        assert!(page.contains("96.1968") && page.contains("12.45"), "{page}");
    }
}
