//! The tables of the field: one way to measure compared with another, as a ratio, a row for each measurement; and
//! runs at a rate as NVIDIA's READMEs show them.
//!
//! `ratio = other / base`, in percent of the first column; [`RatioMethod`] is how several runs come into it. A ratio
//! of unlike numbers is not formed.

use super::{CompareRules, ComparedResult, Comparison, Judgement, RunSet};
use crate::document::{Block, Cell, Document, Section, Table, TableColumn};
use crate::history::MetricKey;
use crate::styler::TextRole;
use crate::sweep::simulated_badge;
use crate::what_if::distinct;
use base::stats::Percents;
use base::units::two_decimals;
use harness::{IdentityDifference, LoadLevel, LoadPattern, RunIdentity};
use interop::MeasuredRun;
use serde::Serialize;
use serde_json::{Value, json as value};
use std::collections::BTreeMap;

const ABOUT_RATIOS: &str = "percent, as `method` of each row: `means`, other / base, of several runs the ratio of \
    their means; `pairs`, the geometric mean of the ratios of pairs of runs with the same arrivals and prompts; \
    `published`, other / base as published; 95 % interval from the differences between runs, where there are several \
    of both";

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
                "geometric mean of the ratios of pairs of runs with the same arrivals and prompts, not the ratio of \
                    the means beside it"
            }
            Self::Published => "other / base, as published",
        }
    }
}

/// One number of one row.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
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
    /// How the percentage was computed; absent without one.
    pub method: Option<RatioMethod>,
    /// 95 % interval of it, where there are several runs of both.
    pub interval: Option<Percents>,
    pub judgement: Option<Judgement>,
    /// Why the ratio is missing, or how the two measurements differ.
    pub unlike: Vec<String>,
    /// Of a published row: where the numbers were published.
    pub source: Option<String>,
}

impl Ratio {
    /// Its metric as tables call it.
    fn title(&self) -> String {
        MetricKey::read(&self.metric).title()
    }
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
    /// In one line.
    #[serde(skip)]
    line: Option<String>,
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
            let comparison = Comparison::new(first, set, rules);
            for metric in metrics {
                self.rows.push(ratio(row, column, metric, &comparison));
            }
        }
    }

    fn identify(&mut self, column: &str, sheet: &ComparedResult, first: &ComparedResult) {
        let one = MeasuredOn {
            column: column.to_owned(),
            simulated: sheet.identity.as_ref().map(|identity| identity.simulated),
            differs: super::run_set::differences(first, sheet),
            identity: sheet.identity.clone(),
            line: sheet.measured_on(),
        };
        let line = |it: &MeasuredOn| (it.column.clone(), it.line.clone());
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
        let identity = |side: &MeasuredOn| {
            let unknown = || "its file does not say what was measured".to_owned();
            format!("{}: {}", side.column, side.line.clone().unwrap_or_else(unknown))
        };
        let differences = |side: &MeasuredOn| {
            let pair = format!("{} / {}", self.base, side.column);
            let line = |difference: &IdentityDifference| format!("{pair}, differs: {}", difference.describe());
            side.differs.iter().map(line).collect::<Vec<_>>()
        };
        distinct(self.measured.iter().map(identity).chain(self.measured.iter().flat_map(differences)))
    }

    /// Adds a row with published numbers.
    pub fn published(&mut self, row: &str, base: f64, column: &str, other: f64, metric: &str, source: &str) {
        self.rows.push(Ratio {
            row: row.to_owned(),
            metric: metric.to_owned(),
            column: column.to_owned(),
            base: Some(base),
            other: Some(other),
            percent: (base != 0.0).then(|| other / base * 100.0),
            method: (base != 0.0).then_some(RatioMethod::Published),
            source: Some(source.to_owned()),
            ..Ratio::default()
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
        Some(format!("{simulated}{} / {}, {}: {}", first.column, self.base, first.title(), shown.join(", ")))
    }

    /// How the ratios of measured rows were formed, each method a line, with its rows where there are several methods.
    fn method_lines(&self) -> Vec<String> {
        let mut rows: BTreeMap<RatioMethod, Vec<String>> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.source.is_none()) {
            let Some(method) = row.method else { continue };
            rows.entry(method).or_default().push(format!("{} {}, {}", row.row, row.title(), row.column));
        }
        let is_one = rows.len() == 1;
        let line = |(method, rows): (RatioMethod, Vec<String>)| {
            let rows_text = if is_one { String::new() } else { format!(" of {}", rows.join("; ")) };
            format!("ratio{rows_text}: {}", method.as_text())
        };
        rows.into_iter().map(line).collect()
    }

    /// Each number as a share of that of the first column, how the shares were formed, and what was measured.
    pub fn document(&self, title: &str) -> Document {
        let about = "Each number as a share of that of the first column. Intervals are 95 %, from the differences \
            between runs, where there are several of both.";
        let mut unlike: Vec<String> = Vec::new();
        for row in &self.rows {
            unlike.extend(row.unlike.iter().map(|why| format!("{}, {}: {why}", row.row, row.column)));
        }
        let unlike = distinct(unlike).into_iter().map(|note| Block::text(TextRole::Warning, note));
        let server = (!self.server.is_empty()).then(|| Block::table(self.server_table()));
        let blocks = [Block::table(self.table())].into_iter().chain(Block::notes(self.method_lines())).chain(server);
        let blocks = blocks.chain(Block::notes(self.identity_lines())).chain(unlike);
        Document {
            name: format!("{title} · ratios"),
            title: "Ratios".into(),
            badges: simulated_badge(self.any_simulated()),
            head: vec![Block::text(TextRole::Plain, title).on_page(), Block::text(TextRole::Quiet, about).on_page()],
            sections: vec![Section::default().with(blocks)],
            ..Document::default()
        }
    }

    fn table(&self) -> Table {
        let columns = [
            TableColumn::new(""),
            TableColumn::new("metric"),
            TableColumn::number(self.base.as_str()),
            TableColumn::new(""),
            TableColumn::number(""),
            TableColumn::number("ratio"),
            TableColumn::number("95 % interval"),
            TableColumn::new(""),
        ];
        let mut table = Table::new("ratios", columns);
        for row in &self.rows {
            let is_published = row.source.is_some();
            let judgement = row.judgement.filter(|judged| *judged != Judgement::NotJudged).map(Judgement::as_text);
            let remark = row.source.as_ref().map(|source| format!("published: {source}"));
            let interval = row.interval.map(|ends| format!("{:.1} … {:.1} %", ends.low, ends.high));
            table.row([
                Cell::new(TextRole::Name, row.row.as_str()),
                Cell::from(format!("{} {}", row.title(), row.unit).trim()),
                Cell::from(number(row.base, is_published)),
                Cell::from(row.column.as_str()),
                Cell::from(number(row.other, is_published)),
                Cell::new(TextRole::Strong, percent(row)),
                Cell::new(TextRole::Quiet, interval.unwrap_or_default()),
                Cell::new(TextRole::Quiet, remark.unwrap_or_else(|| judgement.unwrap_or_default().to_owned())),
            ]);
        }
        table
    }

    /// Server runs: target, completed, tokens and latencies.
    fn server_table(&self) -> Table {
        let columns = ["Server", ""].map(TableColumn::new).into_iter().chain(HEADS.map(TableColumn::number));
        let mut table = Table::new("Server runs", columns.chain([TableColumn::new("")]));
        for row in &self.server {
            let names = [Cell::new(TextRole::Name, row.row.as_str()), Cell::from(row.column.as_str())];
            let remark = Cell::new(TextRole::Quiet, row.remark());
            table.row(names.into_iter().chain(row.numbers().map(Cell::from)).chain([remark]));
        }
        table
    }

    pub fn json(&self) -> Value {
        value!({
            "server": self.server,
            "base": self.base,
            "ratio": ABOUT_RATIOS,
            "simulated": self.any_simulated(),
            "measured": self.measured,
            "rows": self.rows,
        })
    }
}

fn ratio(row: &str, column: &str, metric: &str, comparison: &Comparison) -> Ratio {
    let name = MetricKey::read(metric);
    let [row, key, column] = [row, metric, column].map(str::to_owned);
    let named = Ratio { row, metric: key, column, ..Ratio::default() };
    let Some(delta) = comparison.find(&name.metric, &name.stat) else {
        return Ratio { unlike: vec![format!("both do not have `{metric}`")], ..named };
    };
    let interval = |ends: Percents| Percents { low: ends.low + 100.0, high: ends.high + 100.0 };
    Ratio {
        unit: delta.unit.to_owned(),
        base: delta.a,
        other: delta.b,
        percent: delta.percent.map(|percent| percent + 100.0),
        method: delta.percent.map(|_| if delta.paired { RatioMethod::Pairs } else { RatioMethod::Means }),
        interval: delta.interval.map(interval),
        judgement: delta.judgement,
        unlike: delta.unlike.clone(),
        ..named
    }
}

fn percent(row: &Ratio) -> String {
    row.percent.map_or_else(|| "not comparable".to_owned(), |percent| format!("{percent:.2} %"))
}

/// A number for people; one that was published as it was published.
fn number(value: Option<f64>, is_published: bool) -> String {
    match value {
        None => "n/a".to_owned(),
        Some(value) if is_published => value.to_string(),
        Some(value) => two_decimals(value),
    }
}

/// One measurement at a rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServerRow {
    pub row: String,
    pub column: String,
    /// How many runs its numbers are means over.
    pub runs: usize,
    pub target_qps: Option<f64>,
    pub completed_qps: Option<f64>,
    pub output_tokens: Option<f64>,
    /// 99th percentiles, ms.
    pub ttft_ms: Option<f64>,
    pub tpot_ms: Option<f64>,
    /// Of a published row: where it was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// The headings of the columns after the names.
const HEADS: [&str; 5] = ["target QPS", "completed QPS", "output tok/s", "TTFT p99 ms", "TPOT p99 ms"];

impl ServerRow {
    /// Of the runs of one measurement, the means of numbers that every run has. `None`: they were not at a rate.
    pub fn mean(row: &str, column: &str, runs: &[MeasuredRun]) -> Option<Self> {
        let each: Vec<Self> = runs.iter().map(|run| Self::of_run(row, column, run)).collect::<Option<_>>()?;
        let mean = |of: fn(&Self) -> Option<f64>| {
            let values: Vec<f64> = each.iter().map(of).collect::<Option<_>>()?;
            Some(values.iter().sum::<f64>() / values.len() as f64)
        };
        Some(Self {
            runs: each.iter().map(|run| run.runs).sum(),
            completed_qps: mean(|run| run.completed_qps),
            output_tokens: mean(|run| run.output_tokens),
            ttft_ms: mean(|run| run.ttft_ms),
            tpot_ms: mean(|run| run.tpot_ms),
            ..each.first()?.clone()
        })
    }

    fn of_run(row: &str, column: &str, run: &MeasuredRun) -> Option<Self> {
        let imported = run.result.imported();
        let target_qps = if let Some(own) = run.result.own() {
            match &own.requested.scenario {
                LoadPattern::Server { rate: LoadLevel::Fixed(rate) } => Some(*rate),
                // A changing rate is not a single target.
                LoadPattern::Server { rate: LoadLevel::Ramp(_) } => None,
                // LoadGen has the target, in its own log.
                _ if own.loadgen.as_ref().is_some_and(|loadgen| loadgen.scenario != "Offline") => None,
                _ => return None,
            }
        } else {
            let requested = imported.map(|result| &result.requested)?;
            requested.get("scenario").and_then(Value::as_str).filter(|name| *name == "Server")?;
            requested.get("target_qps").and_then(Value::as_f64)
        };
        let metrics = run.result.metrics();
        let p99 = |name: &str| metrics.iter().find(|(key, _)| *key == name)?.1.p99;
        Some(Self {
            row: row.to_owned(),
            column: column.to_owned(),
            runs: run.result.runs(),
            target_qps,
            completed_qps: run.result.rate("requests_loadgen_completed").or_else(|| run.result.rate("requests_full")),
            output_tokens: run.result.rate("output_tokens"),
            ttft_ms: p99("ttft"),
            tpot_ms: p99("tpot"),
            source: None,
        })
    }

    /// The numbers, in the order of `HEADS`; those that were published as they were.
    pub fn numbers(&self) -> [String; 5] {
        let numbers = [self.target_qps, self.completed_qps, self.output_tokens, self.ttft_ms, self.tpot_ms];
        numbers.map(|value| number(value, self.source.is_some()))
    }

    /// Where the numbers are from, if that is a publication, or of how many runs they are.
    pub fn remark(&self) -> String {
        match (&self.source, self.runs) {
            (Some(source), _) => format!("published: {source}"),
            (None, 1) => String::new(),
            (None, runs) => format!("means over {runs} runs"),
        }
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
        let text = ratios.document("x").terminal(crate::Styler::OFF);
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for line in [
            "H200x1 Offline output tokens 3757.47 triton 3752.66 99.87 % published: NVIDIA's README of v4.1",
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
        let page = ratios.document("x").html().unwrap();
        assert!(page.contains("96.1968") && page.contains("12.45"), "{page}");
    }
}
