//! Measurements over time: one series for each benchmark and load, and where its level changes.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use crate::chart::{ChartPoint, PointKind, TrendPlot};
use crate::compare::{ComparedResult, FOUND_RATE};
use crate::document::{Badge, Block, Cell, Document, Item, Section, Table, TableColumn};
use crate::explain::short_name;
use crate::styler::{TextRole, cut, signed_percent, to_the_second};
use base::event::{RunId, RunTag, Verdict};
use base::stats::{ChangePoint, FEWEST_RUNS, change_points};
use base::units::{counted, three_digits};
use harness::{IdentityDifference, RunIdentity, Workload, identity_differences, marked_verdict};

/// Differences below this share are no change, as in a comparison.
const SMALLEST: f64 = 0.01;
/// More differences beside a change are not read.
const MOST_DIFFERENCES: usize = 6;
/// A longer one is cut: it has digests or paths.
const WIDEST: usize = 140;

/// A metric and its statistic, as typed: `ttft_p99`, `output_tokens`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricKey {
    pub(crate) metric: String,
    /// Empty for a number that has none, such as a rate.
    pub(crate) stat: String,
}

const STATISTICS: [&str; 7] = ["mean", "p50", "p75", "p90", "p95", "p99", "max"];

impl MetricKey {
    pub(crate) fn new(metric: &str, stat: &str) -> Self {
        Self { metric: metric.to_owned(), stat: stat.to_owned() }
    }

    /// Any text is a key; [`known_keys`] are those of a result.
    pub fn read(text: &str) -> Self {
        let (metric, stat) = match text.rsplit_once('_') {
            Some((metric, stat)) if STATISTICS.contains(&stat) => (metric, stat),
            _ => (text, ""),
        };
        Self::new(metric, stat)
    }

    /// As tables and charts call it: `TTFT p99`.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", short_name(&self.metric), self.stat).trim_end().to_owned()
    }
}

impl fmt::Display for MetricKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.stat.is_empty() { f.write_str(&self.metric) } else { write!(f, "{}_{}", self.metric, self.stat) }
    }
}

/// One measurement.
#[derive(Clone, Debug)]
pub struct HistoryPoint {
    /// The run that made it.
    pub run: RunId,
    pub tags: Vec<RunTag>,
    pub manifest: String,
    pub task: String,
    /// RFC 3339, UTC.
    pub started: String,
    pub result: ComparedResult,
}

impl HistoryPoint {
    /// An invalid measurement is shown, and counts for nothing.
    pub fn is_valid(&self) -> bool {
        self.result.verdict.is_some_and(Verdict::is_valid)
    }

    /// `VALID`; of several runs `VALID, mean of 5 runs`.
    pub fn verdict_text(&self) -> String {
        let verdict = self.result.verdict.map_or("not judged", Verdict::as_str);
        // What is simulated has a series of its own, which says so.
        let verdict = marked_verdict(verdict, false, self.result.is_rehearsal());
        match self.result.runs {
            1 => verdict,
            runs => format!("{verdict}, mean of {runs} runs"),
        }
    }

    fn tags_text(&self) -> String {
        self.tags.iter().map(RunTag::as_str).collect::<Vec<_>>().join(" ")
    }

    /// As it is shown: `1,234`, of a search `133 (102 … 172)` or `400 or more`; none where the result has no number.
    pub fn value_text(&self, key: &MetricKey, number: impl Fn(f64) -> String) -> Option<String> {
        let value = self.value(key)?;
        let searched = self.result.searched.filter(|_| key.metric == FOUND_RATE);
        Some(searched.map_or_else(|| number(value), |searched| searched.describe_with(&number)))
    }

    /// The limits of a search held at the highest rate tried, so the rate found is a lower bound.
    fn is_lower_bound(&self, key: &MetricKey) -> bool {
        key.metric == FOUND_RATE && self.result.searched.is_some_and(|searched| searched.is_lower_bound)
    }

    /// Its number, of several runs the mean over them; none where the result has none.
    pub fn value(&self, key: &MetricKey) -> Option<f64> {
        let measure = self.result.measures.iter().find(|measure| measure.key == key.metric)?;
        measure.stats.iter().find(|(stat, _)| *stat == key.stat).map(|(_, value)| *value)
    }
}

/// The numbers of a result that a history can show.
pub fn known_keys(result: &ComparedResult) -> impl Iterator<Item = String> {
    result
        .measures
        .iter()
        .flat_map(|measure| measure.stats.iter().map(move |(stat, _)| MetricKey::new(&measure.key, stat).to_string()))
}

/// The measurements of one benchmark with one load, the oldest first.
#[derive(Clone, Debug)]
pub struct HistorySeries {
    pub manifest: String,
    pub task: String,
    /// What its load has that other series of the task do not: `rate 10`. Empty for the only one.
    pub load: String,
    pub points: Vec<HistoryPoint>,
    pub metrics: Vec<MetricHistory>,
}

/// One metric of a series.
#[derive(Clone, Debug)]
pub struct MetricHistory {
    pub key: MetricKey,
    pub unit: &'static str,
    pub more_is_better: bool,
    /// Index and value of each valid point that has this metric. Lower bounds are excluded.
    pub values: Vec<(usize, f64)>,
    pub changes: Vec<LevelShift>,
}

/// A change of level, and what else is different from there on.
#[derive(Clone, Debug)]
pub struct LevelShift {
    /// The first point of the new level.
    pub point: usize,
    pub change: ChangePoint,
    /// Settings and versions that differ between that point and the valid one before it.
    pub differences: Vec<String>,
    /// The measurements of one level repeat one plan (arrivals, lengths and prompts), and those of the other had
    /// others: the change may come from the plans, and is neither better nor worse.
    pub is_of_plans: bool,
}

impl HistorySeries {
    pub fn name(&self) -> String {
        let load = if self.load.is_empty() { String::new() } else { format!(" ({})", self.load) };
        format!("{} · {}{load}", self.manifest, self.task)
    }

    /// The server and the load of all its measurements, which may be of different durations. `None`: an earlier version
    /// measured, and its servers may be several.
    fn workload(&self) -> Option<String> {
        let last = &self.points.last()?.result;
        last.identity.as_ref().and_then(RunIdentity::server_names)?;
        Some(Workload { extent: None, ..last.workload.clone()? }.to_string())
    }
}

/// Divides measurements into series: numbers of different servers, models or loads, or of a simulator and a server, are
/// never in one.
/// `most`: the newest of each.
pub fn series(points: Vec<HistoryPoint>, keys: &[MetricKey], most: usize) -> Vec<HistorySeries> {
    type LoadOf = BTreeMap<String, String>;
    let mut all: BTreeMap<(String, String, LoadOf), Vec<HistoryPoint>> = BTreeMap::new();
    for point in points {
        let mut load = point.result.load().clone();
        if point.result.searched.is_some() {
            // The rate that a search finds is its result, not its load: searches with the same limits form one series.
            load.remove("request_rate");
        }
        load.extend(point.result.searched_limits.clone().map(|limits| ("limits".to_owned(), limits)));
        load.extend(point.result.settings().get("model").map(|model| ("model".to_owned(), model.clone())));
        let names = point.result.identity.as_ref().and_then(RunIdentity::server_names);
        let simulated = point.result.is_simulated().then(|| "simulated".to_owned());
        let server: Vec<String> = names.into_iter().chain(simulated).collect();
        if !server.is_empty() {
            load.insert("server".to_owned(), server.join(", "));
        }
        all.entry((point.manifest.clone(), point.task.clone(), load)).or_default().push(point);
    }
    let loads: Vec<(String, String, LoadOf)> = all.keys().cloned().collect();
    let own_load = |(manifest, task, load): &(String, String, LoadOf)| {
        let others: Vec<&LoadOf> = loads
            .iter()
            .filter(|(m, t, other)| m == manifest && t == task && other != load)
            .map(|(_, _, load)| load)
            .collect();
        let differs = |(key, value): &(&String, &String)| others.iter().any(|other| other.get(*key) != Some(*value));
        load.iter().filter(differs).map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", ")
    };
    all.into_iter()
        .map(|(place, mut points)| {
            points.drain(..points.len().saturating_sub(most));
            // The other numbers of a search are those of a probe, at another rate each time.
            let of_search = [MetricKey::read(FOUND_RATE)];
            let is_search = points.iter().any(|point| point.result.searched.is_some());
            let shown = if is_search { of_search.as_slice() } else { keys };
            let metrics = shown.iter().filter_map(|key| metric(key, &points)).collect();
            let load = own_load(&place);
            HistorySeries { manifest: place.0, task: place.1, load, points, metrics }
        })
        .collect()
}

/// `None`: no point has the number.
fn metric(key: &MetricKey, points: &[HistoryPoint]) -> Option<MetricHistory> {
    let measure = points.iter().flat_map(|point| &point.result.measures).find(|measure| measure.key == key.metric)?;
    let counts = |point: &HistoryPoint| point.is_valid() && !point.is_lower_bound(key);
    let valid = points.iter().enumerate().filter(|(_, point)| counts(point));
    let values: Vec<(usize, f64)> = valid.filter_map(|(place, point)| Some((place, point.value(key)?))).collect();
    let numbers: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    let shifts = change_points(&numbers, SMALLEST);
    let starts: Vec<usize> = shifts.iter().map(|change| change.at).chain([values.len()]).collect();
    let plans = |from: usize, to: usize| -> Vec<Option<&str>> {
        values[from..to].iter().map(|(place, _)| points[*place].result.plan()).collect()
    };
    let mut start = 0;
    let mut changes = Vec::new();
    for (change, end) in shifts.into_iter().zip(starts.into_iter().skip(1)) {
        let (point, before) = (values[change.at].0, values[change.at - 1].0);
        let is_of_plans = is_of_plans(&plans(start, change.at), &plans(change.at, end));
        start = change.at;
        changes.push(LevelShift {
            point,
            change,
            differences: differences(&points[before], &points[point]),
            is_of_plans,
        });
    }
    Some(MetricHistory {
        key: key.clone(),
        unit: measure.unit,
        more_is_better: measure.more_is_better,
        values,
        changes,
    })
}

/// Whether the measurements of one of two levels repeat one plan, and most of the other level's had others. How much
/// plans differ is then not known.
fn is_of_plans(before: &[Option<&str>], after: &[Option<&str>]) -> bool {
    let repeats_one = |level: &[Option<&str>], other: &[Option<&str>]| {
        let first = level[0];
        let in_other = other.iter().filter(|plan| **plan == first).count();
        first.is_some()
            && level.iter().all(|plan| *plan == first)
            && 2 * in_other < other.len()
            && !other.contains(&None)
    };
    repeats_one(before, after) || repeats_one(after, before)
}

/// What is not the same between two measurements of one load.
fn differences(before: &HistoryPoint, after: &HistoryPoint) -> Vec<String> {
    let identities = before.result.identity.as_ref().zip(after.result.identity.as_ref());
    let measured_on = identities.map(|(old, new)| identity_differences(old, new)).unwrap_or_default();
    let measured_on = measured_on.iter().map(IdentityDifference::describe);
    let (old, new) = (before.result.settings(), after.result.settings());
    let changed = new.iter().filter_map(|(key, value)| {
        // Servers that a run starts have other ports each time; what they are is in the identity.
        let was = old.get(key).filter(|_| identities.is_none() || key != "endpoints")?;
        (was != value).then(|| format!("{key}: {was} / {value}"))
    });
    measured_on.chain(changed).collect()
}

/// For each series its pictures, its changes and all its numbers.
pub fn document(all: &[HistorySeries]) -> Document {
    let about = "A dot is one measurement, a cross one that is not VALID. Lines are means of levels; a dashed line is \
        a change of level: the largest difference of means, by a permutation test at 5 % over the valid measurements \
        of a series. The vertical axes do not start at 0.";
    Document {
        name: "history".to_owned(),
        title: "Measurements over time".into(),
        head: vec![Block::text(TextRole::Quiet, about).on_page()],
        sections: all.iter().map(section).collect(),
        footer: "Made by regatta history.",
        ..Document::default()
    }
}

fn section(series: &HistorySeries) -> Section {
    let valid = series.points.iter().filter(|point| point.is_valid()).count();
    let is_simulated = series.points.iter().any(|point| point.result.is_simulated());
    let badges = is_simulated.then(|| Badge { role: TextRole::Warning, text: "SIMULATED".to_owned() });
    let identity = series.points.last().and_then(|point| point.result.identity.as_ref());
    let identity = identity.map(|identity| Block::text(TextRole::Quiet, format!("the last on {}", identity.line())));
    let charts = Block::charts(series.metrics.iter().filter_map(|metric| plot(series, metric)));
    let table = Block::table(numbers(series)).folded("All numbers", false);
    let shifts = || series.metrics.iter().flat_map(|metric| metric.changes.iter().map(move |shift| (metric, shift)));
    let changes: Vec<Item> = shifts().map(|(metric, shift)| item(series, metric, shift)).collect();
    let identity = identity.map(super::document::Block::on_page);
    let workload = series.workload().map(|workload| Block::text(TextRole::Quiet, workload));
    let blocks = workload
        .into_iter()
        .chain(identity)
        .chain([charts, table, Block::items(changes)])
        .chain(Block::notes(notes(series)));
    Section {
        badges: badges.into_iter().collect(),
        about: format!("{}, {valid} valid", counted(series.points.len(), "measurement")),
        ..Section::new(series.name()).with(blocks)
    }
}

/// Which metrics have too few values to look for a change, and in which none was found.
fn notes(series: &HistorySeries) -> impl Iterator<Item = String> {
    let note = |is_listed: fn(&MetricHistory) -> bool, text: &str| {
        let metrics = series.metrics.iter().filter(|metric| is_listed(metric));
        let keys: Vec<String> = metrics.map(|metric| metric.key.title()).collect();
        (!keys.is_empty()).then(|| format!("{}: {text}", keys.join(", ")))
    };
    let too_few = format!("too few values; a change needs {FEWEST_RUNS} or more valid measurements");
    let too_few = note(|metric| metric.values.len() < FEWEST_RUNS, &too_few);
    let unchanged = |metric: &MetricHistory| metric.values.len() >= FEWEST_RUNS && metric.changes.is_empty();
    too_few.into_iter().chain(note(unchanged, "no change of level was found"))
}

/// A change with what differs there.
fn item(series: &HistorySeries, metric: &MetricHistory, shift: &LevelShift) -> Item {
    let role = match metric.is_better(shift) {
        Some(true) => TextRole::Good,
        Some(false) => TextRole::Bad,
        None => TextRole::Plain,
    };
    let below = shift.differences.iter().take(MOST_DIFFERENCES).map(|difference| cut(difference, WIDEST)).collect();
    Item { role, text: level_sentence(series, metric, shift), below, ..Item::default() }
}

fn numbers(series: &HistorySeries) -> Table {
    let mut columns = vec![TableColumn::number("no.").on_page()];
    columns.extend(["started (UTC)", "run", "verdict"].map(TableColumn::new));
    for metric in &series.metrics {
        columns.push(TableColumn::number(format!("{}, {}", metric.key.title(), metric.unit)));
        columns.extend((!metric.changes.is_empty()).then(|| TableColumn::new("")));
    }
    columns.push(TableColumn::new("tags"));
    let mut table = Table::new("numbers of each measurement", columns).look("");
    for (place, point) in series.points.iter().enumerate() {
        let role = if point.is_valid() { TextRole::Plain } else { TextRole::Warning };
        let (started, run) = (to_the_second(&point.started), point.run.to_string());
        let mut cells = [(place + 1).to_string(), started, run].map(Cell::from).to_vec();
        cells.push(Cell::new(role, point.verdict_text()));
        for metric in &series.metrics {
            let change = metric.changes.iter().find(|shift| shift.point == place);
            let value = point.value_text(&metric.key, three_digits).unwrap_or_else(|| "–".to_owned());
            cells.push(Cell::new(role, value));
            let change = || Cell::new(role, change.map(LevelShift::percent_text).unwrap_or_default());
            cells.extend((!metric.changes.is_empty()).then(change));
        }
        cells.push(Cell::new(TextRole::Name, point.tags_text()));
        table.row(cells);
    }
    table
}

fn plot(series: &HistorySeries, metric: &MetricHistory) -> Option<String> {
    let points = series.points.iter().enumerate().filter_map(|(place, point)| {
        let (value, shown) = (point.value(&metric.key)?, point.value_text(&metric.key, three_digits)?);
        let hint = format!("{shown} {}, run {}, {}", metric.unit, point.run, to_the_second(&point.started));
        let kind = if point.is_valid() { PointKind::Valid } else { PointKind::Invalid };
        Some(ChartPoint { x: place as f64, y: value, kind, label: point.tags_text(), hint, ..ChartPoint::default() })
    });
    let title = format!("{}, {}", metric.key.title(), metric.unit);
    let changes = metric.changes.iter().map(|shift| (shift.point, shift.percent_text(), metric.is_better(shift)));
    TrendPlot { title: &title, points: points.collect(), levels: metric.levels(), changes: changes.collect() }.draw()
}

impl LevelShift {
    /// `+10.0 %`
    fn percent_text(&self) -> String {
        format!("{} %", signed_percent(self.change.relative() * 100.0))
    }
}

impl MetricHistory {
    /// Whether a change is for the better; `None` where it may be that of the plans.
    pub fn is_better(&self, shift: &LevelShift) -> Option<bool> {
        (!shift.is_of_plans).then_some((shift.change.after > shift.change.before) == self.more_is_better)
    }

    /// The first and the last point of each level, and its mean.
    pub fn levels(&self) -> Vec<(usize, usize, f64)> {
        let starts: Vec<usize> = self.changes.iter().map(|shift| shift.change.at).collect();
        let bounds: Vec<usize> = std::iter::once(0).chain(starts).chain([self.values.len()]).collect();
        let level = |part: &[(usize, f64)]| {
            let mean = part.iter().map(|(_, value)| value).sum::<f64>() / part.len() as f64;
            Some((part.first()?.0, part.last()?.0, mean))
        };
        bounds.windows(2).filter_map(|ends| level(self.values.get(ends[0]..ends[1])?)).collect()
    }
}

/// One sentence on a change.
fn level_sentence(series: &HistorySeries, metric: &MetricHistory, shift: &LevelShift) -> String {
    let LevelShift { change, .. } = shift;
    let word = match metric.is_better(shift) {
        Some(true) => "better",
        Some(false) => "worse",
        None => "not judged: with other arrivals and prompts",
    };
    format!(
        "{} {} ({word}) from {} on: mean {} before, {} after, p {:.4}{}",
        metric.key.title(),
        shift.percent_text(),
        series.points[shift.point].run,
        three_digits(change.before),
        three_digits(change.after),
        change.p,
        if shift.differences.is_empty() {
            "; no recorded setting or version differs there"
        } else {
            "; what differs there:"
        },
    )
}

/// All series as JSON.
pub fn json(all: &[HistorySeries]) -> Value {
    let list: Vec<Value> = all.iter().map(series_json).collect();
    let test = format!(
        "permutation test of the largest difference of means, 5 %, for each series from {FEWEST_RUNS} valid \
            measurements on; differences below {} % do not count",
        SMALLEST * 100.0
    );
    json!({ "series": list, "changes_are": test })
}

fn series_json(series: &HistorySeries) -> Value {
    let point = |(place, point): (usize, &HistoryPoint)| {
        let values: BTreeMap<String, Option<f64>> =
            series.metrics.iter().map(|metric| (metric.key.to_string(), point.value(&metric.key))).collect();
        let of_bound = series.metrics.iter().filter(|metric| point.is_lower_bound(&metric.key));
        let lower_bounds: Vec<String> = of_bound.map(|metric| metric.key.to_string()).collect();
        json!({
            "place": place, "run": point.run, "tags": point.tags, "started": point.started,
            "verdict": point.result.verdict, "simulated": point.result.is_simulated(),
            "rehearsal": point.result.is_rehearsal(), "mean_of_runs": point.result.runs, "values": values,
            "lower_bounds": lower_bounds,
            "found_rate_interval": point.result.searched.and_then(|found| Some(json!({ "low": found.low?,
                "high": found.high? }))),
        })
    };
    let change = |metric: &MetricHistory, shift: &LevelShift| {
        json!({
            "metric": metric.key.to_string(), "place": shift.point, "run": series.points[shift.point].run,
            "before": shift.change.before, "after": shift.change.after, "p": shift.change.p,
                "differences": shift.differences,
            "of_plans": shift.is_of_plans,
        })
    };
    let changes =
        series.metrics.iter().flat_map(|metric| metric.changes.iter().map(move |shift| change(metric, shift)));
    json!({
        "manifest": series.manifest, "task": series.task, "load": series.load, "workload": series.workload(),
        "points": series.points.iter().enumerate().map(point).collect::<Vec<_>>(),
        "changes": changes.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
