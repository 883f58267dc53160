//! `explain`: what each of Regatta's numbers means, and which tools mean something else by the same term.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json as value};

use crate::document::{Cell, Table};
use crate::styler::{Styler, TextRole};
use harness::{CountedIn, LATENCIES, LatencyMetric};
use interop::{MetricConcept, MetricMeaning, Tool, vector};

/// One number of `result.json`. What a row leaves out is as it is for a latency.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExplainedNumber {
    /// As it is typed, and as `result.json` has it.
    pub name: String,
    /// Where in `result.json`.
    pub place: String,
    /// As tables, pages and charts call it; the title where it is empty.
    #[serde(skip_serializing)]
    pub short: String,
    pub title: String,
    pub unit: String,
    /// In one sentence.
    pub about: String,
    pub formula: String,
    pub population: String,
    pub zero_point: String,
    pub token_source: String,
    pub window: String,
    /// What to keep in mind.
    pub mind: String,
    /// The term that other tools use for something like it.
    #[serde(skip_serializing)]
    pub concept: Option<MetricConcept>,
}

impl Default for ExplainedNumber {
    fn default() -> Self {
        Self {
            name: String::new(),
            place: String::new(),
            short: String::new(),
            title: String::new(),
            unit: "ms".to_owned(),
            about: String::new(),
            formula: String::new(),
            population: "successful requests".to_owned(),
            zero_point: "schedule".to_owned(),
            token_source: "none: no tokens are counted".to_owned(),
            window: "full: schedule start to the end of the last successful request".to_owned(),
            mind: String::new(),
            concept: None,
        }
    }
}

const COUNTED: &str = "the server's output_ids, its usage, or its text retokenized by Regatta; result.json names which";

/// A latency, from its row.
fn latency(row: &LatencyMetric) -> ExplainedNumber {
    let usual = ExplainedNumber::default();
    let token_source = if row.tokens == CountedIn::Nothing { usual.token_source.clone() } else { COUNTED.to_owned() };
    // Other tools call the gaps between chunks ITL.
    let term = row.key.split('_').next().map(|term| if term == "icl" { "itl" } else { term });
    let concept = MetricConcept::ALL.iter().copied().find(|concept| Some(concept.as_str()) == term);
    let names = [row.key, row.place, row.short, row.title].map(str::to_owned);
    let texts = [row.about, row.formula, row.population, row.zero_point, row.mind].map(str::to_owned);
    let ([name, place, short, title], [about, formula, population, zero_point, mind]) = (names, texts);
    let row = ExplainedNumber { name, place, short, title, about, formula, population, zero_point, mind, ..usual };
    ExplainedNumber { token_source, concept, ..row }
}

/// What `explained-numbers.toml` has.
#[derive(Deserialize)]
struct ExplainedTable {
    /// Those that are no latencies of their own.
    number: Vec<ExplainedNumber>,
    terms: BTreeMap<String, String>,
}

static TABLE: LazyLock<ExplainedTable> = LazyLock::new(|| {
    let text = include_str!("explained-numbers.toml").replace("{counted}", COUNTED);
    toml::from_str(&text).expect("a test reads the table")
});

/// Every number that can be explained: the latencies, and the others.
pub static ENTRIES: LazyLock<Vec<ExplainedNumber>> =
    LazyLock::new(|| LATENCIES.iter().map(latency).chain(TABLE.number.iter().cloned()).collect());

/// Words in reports that are neither a number nor a reason, with what they mean.
pub fn terms() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.terms.iter().map(|(term, about)| (term.as_str(), about.as_str()))
}

/// The entry of that name; `ITL` and other tools' terms find Regatta's.
pub fn entry(name: &str) -> Option<&'static ExplainedNumber> {
    let name = name.to_lowercase().replace('-', "_");
    let name = match name.as_str() {
        "itl" | "inter_token_latency" => "itl_token",
        "time_to_first_token" => "ttft",
        "time_per_output_token" => "tpot",
        "request_latency" | "e2el" | "latency" => "e2e",
        "request_throughput" => "requests_full",
        "output_token_throughput" | "output_throughput" => "output_tokens",
        "inter_chunk_latency" => "icl",
        "slo" => "goodput",
        name => name,
    };
    ENTRIES.iter().find(|entry| entry.name == name)
}

/// A metric as tables, pages and charts call it: `ttft` is `TTFT`. A key without a row is its own name.
pub fn short_name(key: &str) -> String {
    let term = || MetricConcept::ALL.iter().find(|concept| concept.as_str() == key).map(|concept| concept.title());
    match entry(key) {
        Some(entry) if entry.short.is_empty() => entry.title.clone(),
        Some(entry) => entry.short.clone(),
        None => term().map_or_else(|| key.replace('_', " "), str::to_owned),
    }
}

/// The value of a tool's term on the golden vector.
struct Other {
    tool: Tool,
    /// Mean in ms, or requests/s.
    value: Option<f64>,
    n: Option<usize>,
    meaning: MetricMeaning,
}

fn others(concept: MetricConcept) -> Vec<Other> {
    let seen = vector();
    let other = |tool: Tool| {
        let meaning = MetricMeaning::new(tool, concept)?;
        let (value, n) = if concept == MetricConcept::Requests {
            (tool.rate(&seen).ok(), None)
        } else {
            let spread = tool.spread(concept, &seen).ok()?;
            (spread.mean(), Some(spread.n()))
        };
        Some(Other { tool, value, n, meaning })
    };
    Tool::ALL.iter().copied().filter_map(other).collect()
}

fn deviation_percent(value: Option<f64>, ours: Option<f64>) -> Option<f64> {
    Some((value? / ours? - 1.0) * 100.0)
}

fn facts(entry: &ExplainedNumber) -> Vec<(&'static str, &str)> {
    let facts = [
        ("formula", &entry.formula),
        ("population", &entry.population),
        ("zero point", &entry.zero_point),
        ("tokens", &entry.token_source),
        ("window", &entry.window),
        ("in", &entry.place),
        ("note", &entry.mind),
    ];
    facts.into_iter().map(|(name, text)| (name, text.as_str())).filter(|(_, text)| !text.is_empty()).collect()
}

/// One metric, as text.
pub fn text(entry: &ExplainedNumber, styler: Styler) -> String {
    let unit = if entry.unit.is_empty() { String::new() } else { format!(", {}", entry.unit) };
    let mut out = format!(
        "{}: {}{unit}\n",
        styler.tone(TextRole::Name, &entry.name),
        styler.tone(TextRole::Strong, &entry.title)
    );
    let _ = writeln!(out, "{}\n", entry.about);
    let rows = facts(entry).into_iter().map(|(name, text)| [Cell::quiet(name), text.into()]);
    out.push_str(&Table::list([], rows).terminal(styler, "  "));
    if let Some(concept) = entry.concept {
        let others = others(concept);
        let ours = others.iter().find(|other| other.tool == Tool::Regatta).and_then(|other| other.value);
        let unit = if concept == MetricConcept::Requests { "" } else { " ms" };
        let _ = writeln!(
            out,
            "\nWhat `{}` means elsewhere, and its mean on one set of five requests (the golden vector):",
            concept.title()
        );
        let row = |other: &Other| {
            let away = deviation_percent(other.value, ours).filter(|_| other.tool != Tool::Regatta);
            [
                Cell::name(other.tool.title()),
                other.value.map_or_else(|| "n/a".to_owned(), |value| format!("{value:.2}{unit}")).into(),
                Cell::new(TextRole::Warning, away.map_or_else(String::new, |away| format!("{away:+.1} %"))),
                Cell::quiet(other.n.map_or_else(String::new, |n| format!("n={n}"))),
                (&other.meaning.formula).into(),
            ]
        };
        out.push_str(&Table::list([], others.iter().map(row)).terminal(styler, "  "));
        out.push('\n');
        let notes = others.iter().map(|other| other.tool).filter(|tool| !tool.caveat().is_empty());
        let rows = notes.map(|tool| [Cell::name(tool.as_str()), Cell::quiet(tool.caveat())]);
        out.push_str(&Table::list([], rows).terminal(styler, "  "));
    }
    out
}

pub fn json(entry: &ExplainedNumber) -> Value {
    let others: Vec<Value> = entry.concept.map_or_else(Vec::new, |concept| {
        let others = others(concept);
        let ours = others.iter().find(|other| other.tool == Tool::Regatta).and_then(|other| other.value);
        others
            .iter()
            .map(|other| {
                value!({
                    "tool": other.tool.as_str(),
                    "version": other.tool.title(),
                    "word": concept.title(),
                    "meaning": other.meaning,
                    "golden_mean": other.value,
                    "golden_n": other.n,
                    "percent_from_ours": deviation_percent(other.value, ours),
                    "surprise": other.tool.caveat(),
                })
            })
            .collect()
    });
    let mut json = value!(entry);
    json["elsewhere"] = others.into();
    json
}

/// All of them, a line each.
pub fn list(styler: Styler) -> String {
    let row = |entry: &ExplainedNumber| [Cell::name(&entry.name), Cell::quiet(&entry.unit), (&entry.formula).into()];
    Table::list([], ENTRIES.iter().map(row)).terminal(styler, "")
}

pub fn list_json() -> Value {
    Value::Array(ENTRIES.iter().map(json).collect())
}
