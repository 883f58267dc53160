//! Sweeps beside each other: at each level that more than one has, the numbers and their difference. Where the points
//! of both are of several runs, differences are judged by the runs, all of a pair of sweeps as one family; a point of
//! one run is not judged. Numbers with other definitions are not subtracted.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::comparison::{CompareRules, Judgement};
use super::document::letter;
use crate::document::{Block, Cell, Document, Fact, Section, Table, TableColumn, Top};
use crate::history::MetricKey;
use crate::styler::{TextRole, signed_percent};
use crate::sweep::{NamedSweep, draw, named_sweep, simulated_badge, value};
use base::stats::{self, ComparedSamples, Percents};
use base::units::{grouped, three_digits};
use harness::{IdentityDifference, SweepPoint, SweepReport, identity_differences};
use interop::{MetricConcept, MetricMeaning, Tool};

/// A sweep as it is compared.
#[derive(Clone, Debug)]
pub struct ComparedSweep {
    pub name: String,
    pub report: SweepReport,
}

/// A level, and the point of each sweep that has it; only usable points are subtracted.
struct LevelRow<'a> {
    level: String,
    points: Vec<Option<&'a SweepPoint>>,
}

/// A number of a point.
struct SweepNumber {
    name: &'static str,
    /// `ms` of a latency, of which less is better; of the others more is.
    unit: &'static str,
    /// What has to have the same definition.
    term: Term,
    value: fn(&SweepPoint) -> Option<f64>,
    /// Of each run, where there are several.
    over_runs: (&'static str, fn(f64) -> f64),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Term {
    Rate,
    Ttft,
    TimePerToken,
    E2e,
}

const NUMBERS: [SweepNumber; 5] = [
    SweepNumber {
        name: "output_tokens",
        unit: "/s",
        term: Term::Rate,
        value: |point| point.output_tokens_per_s,
        over_runs: ("output_tokens", |rate| rate),
    },
    SweepNumber {
        name: "tok/s/user",
        unit: "",
        term: Term::TimePerToken,
        value: |point| point.tokens_per_s_per_user,
        over_runs: ("tpot_p50", |tpot| 1e3 / tpot),
    },
    latency("ttft_p99", Term::Ttft, |point| value(point.ttft.p99)),
    latency("tpot_p99", Term::TimePerToken, |point| value(point.tpot.p99)),
    latency("e2e_mean", Term::E2e, |point| value(point.e2e.mean)),
];

const fn latency(name: &'static str, term: Term, value: fn(&SweepPoint) -> Option<f64>) -> SweepNumber {
    SweepNumber { name, unit: "ms", term, value, over_runs: (name, |ms| ms) }
}

impl SweepNumber {
    /// Of every run of a point.
    fn values(&self, point: &SweepPoint) -> Vec<f64> {
        let (key, convert) = self.over_runs;
        match point.over_runs.get(key) {
            Some(over) => over.values.iter().map(|value| convert(*value)).collect(),
            None => (self.value)(point).into_iter().collect(),
        }
    }
}

/// What a term means in a sweep; `None`: the tool that measured has no such number, or is not known here.
fn meaning(report: &SweepReport, term: Term) -> Option<MetricMeaning> {
    let tool: Tool = match &report.imported {
        Some(origin) => origin.tool.parse().ok()?,
        None => Tool::Regatta,
    };
    let concept = match term {
        Term::Rate => MetricConcept::Requests,
        Term::Ttft => MetricConcept::Ttft,
        Term::TimePerToken => tool.time_per_token()?,
        Term::E2e => MetricConcept::E2e,
    };
    let meaning = MetricMeaning::new(tool, concept)?;
    let counted = report.imported.as_ref().map(|origin| origin.token_source.clone());
    let token_source = counted.filter(|_| !meaning.token_source.is_empty()).unwrap_or(meaning.token_source);
    Some(MetricMeaning { token_source, ..meaning })
}

/// In what the definitions of a term differ; empty where they are the same.
fn unlike(first: &SweepReport, other: &SweepReport, term: Term) -> Vec<String> {
    let is_by_the_same = match (&first.imported, &other.imported) {
        (None, None) => return unlike_own(first, other, term),
        (Some(one), Some(another)) => one.tool == another.tool && one.token_source == another.token_source,
        _ => false,
    };
    if is_by_the_same {
        return Vec::new();
    }
    match (meaning(first, term), meaning(other, term)) {
        (Some(one), Some(another)) => one.differences(&another),
        _ => vec!["a metric has no known definition".to_owned()],
    }
}

/// Like `unlike`, of two sweeps of ours: an earlier version did not write down what would tell them apart.
fn unlike_own(first: &SweepReport, other: &SweepReport, term: Term) -> Vec<String> {
    let (what, one, another) = match term {
        Term::Rate | Term::TimePerToken => ("tokens", first.token_sources(), other.token_sources()),
        Term::Ttft | Term::E2e => ("zero point", first.zero_points(), other.zero_points()),
    };
    if one == another || one.is_empty() || another.is_empty() {
        return Vec::new();
    }
    vec![format!("{what}: {} / {}", one.join("; "), another.join("; "))]
}

/// One number of a level, of the first sweep and of another.
#[derive(Clone, Copy, Debug, Default)]
struct SweepDelta {
    percent: Option<f64>,
    /// 95 %, of this number alone.
    interval: Option<Percents>,
    judgement: Option<Judgement>,
}

/// The differences of one sweep from the first: level by level, number by number.
fn deltas(levels: &[LevelRow<'_>], sweeps: &[ComparedSweep], n: usize, rules: CompareRules) -> Vec<Vec<SweepDelta>> {
    let sides = |level: &LevelRow<'_>, number: &SweepNumber| {
        let is_same = rules.force || unlike(&sweeps[0].report, &sweeps[n].report, number.term).is_empty();
        let (a, b) = (level.points[0].filter(|a| a.is_usable())?, level.points[n].filter(|b| b.is_usable())?);
        ComparedSamples::unpaired(&number.values(a), &number.values(b)).filter(|_| is_same)
    };
    let samples: Vec<Vec<Option<ComparedSamples>>> =
        levels.iter().map(|level| NUMBERS.iter().map(|number| sides(level, number)).collect()).collect();
    let family: Vec<ComparedSamples> = samples.iter().flatten().flatten().cloned().collect();
    let mut judged = stats::compare_rows(&family, rules.smallest_percent).into_iter();
    // A simulated and a real server are not two versions of one server, so their difference is not a finding.
    let is_claimed = sweeps[0].report.is_simulated() == sweeps[n].report.is_simulated();
    let mut delta = |number: &SweepNumber, sides: Option<ComparedSamples>| {
        let Some(sides) = sides else { return SweepDelta::default() };
        let Some(row) = judged.next() else { return SweepDelta::default() };
        let percent = sides.percent();
        let is_better = percent.is_some_and(|percent| (percent > 0.0) == (number.unit != "ms"));
        let judgement = percent.filter(|_| is_claimed).map(|_| Judgement::new(row.conclusion, is_better));
        SweepDelta { percent, interval: row.interval, judgement }
    };
    samples
        .into_iter()
        .map(|level| NUMBERS.iter().zip(level).map(|(number, sides)| delta(number, sides)).collect())
        .collect()
}

/// All levels: those of the first sweep in order, then the rest.
fn levels(sweeps: &[ComparedSweep]) -> Vec<LevelRow<'_>> {
    let mut points: Vec<&SweepPoint> = Vec::new();
    for point in sweeps.iter().flat_map(|sweep| &sweep.report.points) {
        if !points.iter().any(|known| known.level == point.level) {
            points.push(point);
        }
    }
    points.sort_by(|a, b| {
        let number = |point: &SweepPoint| point.level.number().unwrap_or(f64::INFINITY);
        a.level.unit().cmp(b.level.unit()).then(number(a).total_cmp(&number(b)))
    });
    let at = |level: &SweepPoint, sweep: &'_ ComparedSweep| {
        sweep.report.points.iter().position(|point| point.level == level.level)
    };
    points
        .into_iter()
        .map(|level| LevelRow {
            level: level.level.to_string(),
            points: sweeps.iter().map(|sweep| Some(&sweep.report.points[at(level, sweep)?])).collect(),
        })
        .collect()
}

/// In what the servers of each further sweep differ from those of the first.
fn identity_of_sweeps(sweeps: &[ComparedSweep]) -> Vec<String> {
    let Some((first, others)) = sweeps.split_first() else { return Vec::new() };
    let line = |(n, other): (usize, &ComparedSweep)| {
        let differences = match (&first.report.identity, &other.report.identity) {
            (Some(a), Some(b)) => identity_differences(a, b),
            _ => return format!("{}: at least one of the two files does not say what was measured", letter(n)),
        };
        let texts: Vec<String> = differences.iter().map(IdentityDifference::describe).collect();
        if texts.is_empty() {
            return format!("{}: measured on the same", letter(n));
        }
        format!("{} differs in {}", letter(n), texts.join("; "))
    };
    (1..).zip(others).map(line).collect()
}

/// Why rows are not judged, or how they are, and what is not subtracted.
pub(crate) fn sweep_notes(sweeps: &[ComparedSweep], rules: CompareRules) -> Vec<String> {
    let has_repeats = sweeps.iter().all(|sweep| sweep.report.runs() > 1);
    let mut notes = vec![if has_repeats {
        format!(
            "judged where both points are of several runs, by the runs, at 95 % over all rows; a difference below {} \
                % does not matter",
            rules.smallest_percent
        )
    } else {
        "points with one run are not judged: how much repeated runs differ is unknown; `--repeat 5` measures each \
         point five times"
            .to_owned()
    }];
    for (n, other) in sweeps.iter().enumerate().skip(1) {
        let mut differ: Vec<String> = Vec::new();
        for (term, name) in
            [(Term::Rate, "rates"), (Term::Ttft, "TTFT"), (Term::TimePerToken, "TPOT"), (Term::E2e, "E2E")]
        {
            let unlike = unlike(&sweeps[0].report, &other.report, term);
            // The first part is the formula, which holds the others.
            differ.extend(unlike.first().map(|first| format!("{name} ({first})")));
        }
        if !differ.is_empty() {
            let treatment = if rules.force {
                "are subtracted all the same"
            } else {
                "are not subtracted; `--force` subtracts them"
            };
            notes.push(format!(
                "A and {} define differently: {}; such numbers {treatment}",
                letter(n),
                differ.join("; ")
            ));
        }
    }
    notes
}

/// Level by level and number by number: level, number, A, B, difference, C, …
fn level_table(sweeps: &[ComparedSweep], rules: CompareRules) -> Table {
    let mut columns = ["level", "number"].map(TableColumn::new).to_vec();
    for n in 0..sweeps.len() {
        columns.push(TableColumn::number(letter(n)));
        columns.extend((n > 0).then(|| TableColumn::new(format!("{} − A", letter(n)))));
    }
    let mut table = Table::new("numbers of each level", columns);
    let levels = levels(sweeps);
    let differences: Vec<_> = (1..sweeps.len()).map(|n| deltas(&levels, sweeps, n, rules)).collect();
    for (row, level) in levels.iter().enumerate() {
        for (at, number) in NUMBERS.iter().enumerate() {
            let name = format!("{} {}", MetricKey::read(number.name).title(), number.unit);
            let mut cells = vec![
                Cell::new(TextRole::Name, if at == 0 { level.level.as_str() } else { "" }),
                Cell::from(name.trim()),
            ];
            for (n, point) in level.points.iter().enumerate() {
                let value = point.and_then(number.value).map_or_else(|| "–".to_owned(), three_digits);
                let invalid = point.filter(|point| !point.is_usable());
                cells.push(Cell::from(invalid.map_or(value.as_str(), |point| point.verdict_text())));
                cells.extend((n > 0).then(|| Cell::from(difference_text(differences[n - 1][row][at]))));
            }
            table.row_like(if at == 0 { "group" } else { "" }, cells);
        }
    }
    table
}

/// `+3.1 % (+1.2 … +5.0), better`.
fn difference_text(delta: SweepDelta) -> String {
    let Some(percent) = delta.percent else { return String::new() };
    let mut text = format!("{} %", signed_percent(percent));
    if let Some(Percents { low, high }) = delta.interval {
        let _ = write!(text, " ({} … {})", signed_percent(low), signed_percent(high));
    }
    if let Some(judgement) = delta.judgement.filter(|judgement| *judgement != Judgement::NotJudged) {
        let _ = write!(text, ", {}", judgement.as_text());
    }
    text
}

/// The level with the most output tokens of each.
fn best_points(sweeps: &[ComparedSweep]) -> (String, Vec<Fact>) {
    let (mut sentences, mut facts) = (Vec::new(), Vec::new());
    for (n, sweep) in sweeps.iter().enumerate() {
        let Some(best) = sweep.report.best() else { continue };
        let Some(rate) = best.output_tokens_per_s.map(|rate| grouped(rate, 0)) else { continue };
        let (letter, level) = (letter(n), &best.level);
        let points = if sweep.report.imported.is_some() { "points" } else { "valid points" };
        sentences.push(format!("{letter} reaches {rate} output tokens per second, at {level}"));
        let about = format!("{points} of {}; at {level}", sweep.name);
        facts.push([format!("{letter}: highest throughput"), format!("{rate} tok/s"), about]);
    }
    let sentence = if sentences.is_empty() { "No sweep has a valid point".to_owned() } else { sentences.join("; ") };
    facts.truncate(4);
    (format!("{sentence}."), facts)
}

/// All curves over each other, what differs between the servers, and the numbers level by level. The first sweep is
/// what the others are compared with; one alone is a row for each point.
pub fn sweeps_document(sweeps: &[ComparedSweep], rules: CompareRules) -> Document {
    if let [sweep] = sweeps {
        return crate::sweep::sweep(&sweep.name, &sweep.report);
    }
    let named: Vec<NamedSweep<'_>> = sweeps
        .iter()
        .enumerate()
        .map(|(n, sweep)| NamedSweep { name: format!("{} {}", letter(n), sweep.name), report: &sweep.report })
        .collect();
    let mut plots = draw(&named).into_iter();
    let picture = plots.next();
    let names: Vec<&str> = sweeps.iter().map(|sweep| sweep.name.as_str()).collect();
    let (sentence, facts) = best_points(sweeps);
    let head = sweeps.iter().enumerate().map(|(n, sweep)| named_sweep(&letter(n), &sweep.name, &sweep.report));
    let table = Block::table(level_table(sweeps, rules));
    Document {
        name: format!("{} · sweeps", names.join(" · ")),
        title: "Sweeps compared".into(),
        badges: simulated_badge(sweeps.iter().any(|sweep| sweep.report.is_simulated())),
        head: [Block::items(head.collect())].into_iter().chain(Block::notes(identity_of_sweeps(sweeps))).collect(),
        tops: vec![Top { sentence, facts, picture, ..Top::default() }],
        sections: vec![
            Section::page("Curves").with([Block::charts(plots)]),
            Section::new("Level by level").with([table].into_iter().chain(Block::notes(sweep_notes(sweeps, rules)))),
        ],
        footer: "Made by regatta compare.",
    }
}

/// Like `sweeps_document`, as JSON, with every point.
pub fn sweeps_json(sweeps: &[ComparedSweep], rules: CompareRules) -> Value {
    let levels = levels(sweeps);
    let differences: Vec<_> = (1..sweeps.len()).map(|n| deltas(&levels, sweeps, n, rules)).collect();
    let has_judgement = |delta: &SweepDelta| delta.judgement.is_some_and(|judgement| judgement != Judgement::NotJudged);
    let is_judged = differences.iter().flatten().flatten().any(has_judgement);
    let numbers = |row: usize, n: usize, point: &SweepPoint| -> Value {
        let numbers = NUMBERS.iter().enumerate().map(|(place, number)| {
            let value = (number.value)(point).filter(|_| point.is_usable());
            let delta = n.checked_sub(1).map_or_else(SweepDelta::default, |n| differences[n][row][place]);
            let SweepDelta { percent, interval, judgement } = delta;
            let fields = json!({ "value": value, "percent": percent, "interval": interval, "judgement": judgement });
            (number.name.to_owned(), fields)
        });
        Value::Object(numbers.collect())
    };
    let row = |(row, level): (usize, &LevelRow<'_>)| {
        let points = level.points.iter().enumerate().map(|(n, point)| point.map(|point| numbers(row, n, point)));
        json!({ "level": level.level, "points": points.collect::<Vec<_>>() })
    };
    let rows: Vec<Value> = levels.iter().enumerate().map(row).collect();
    let named: Vec<Value> = sweeps.iter().map(|sweep| json!({ "name": sweep.name, "sweep": sweep.report })).collect();
    json!({ "sweeps": named, "levels": rows, "judged": is_judged, "notes": sweep_notes(sweeps, rules) })
}
