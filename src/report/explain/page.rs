//! How an explanation looks.

use std::fmt::Write as _;

use serde_json::{Value, json as value};

use super::{ENTRIES, ExplainedNumber};
use crate::terminal::styler::{Styler, TextRole, table};
use interop::{MetricConcept, MetricMeaning, Tool, vector};

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
    Tool::ALL.into_iter().filter_map(other).collect()
}

fn deviation_percent(value: Option<f64>, ours: Option<f64>) -> Option<f64> {
    Some((value? / ours? - 1.0) * 100.0)
}

fn facts(entry: &ExplainedNumber) -> Vec<(&'static str, &'static str)> {
    let facts = [
        ("formula", entry.formula),
        ("population", entry.population),
        ("zero point", entry.zero_point),
        ("tokens", entry.token_source),
        ("window", entry.window),
        ("in", entry.place),
        ("note", entry.mind),
    ];
    facts.into_iter().filter(|(_, text)| !text.is_empty()).collect()
}

/// One metric, as text.
pub fn text(entry: &ExplainedNumber, styler: Styler) -> String {
    let unit = if entry.unit.is_empty() { String::new() } else { format!(", {}", entry.unit) };
    let mut out =
        format!("{}: {}{unit}\n", styler.tone(TextRole::Name, entry.name), styler.tone(TextRole::Strong, entry.title));
    let _ = writeln!(out, "{}\n", entry.about);
    let rows: Vec<_> = facts(entry)
        .into_iter()
        .map(|(name, text)| vec![(TextRole::Quiet, name.to_owned()), (TextRole::Plain, text.to_owned())])
        .collect();
    out.push_str(&table(styler, "  ", &rows));
    if let Some(concept) = entry.concept {
        let others = others(concept);
        let ours = others.iter().find(|other| other.tool == Tool::Regatta).and_then(|other| other.value);
        let unit = if concept == MetricConcept::Requests { "" } else { " ms" };
        let _ = writeln!(
            out,
            "\nWhat `{}` means elsewhere, and its mean on one set of five requests (the golden vector):",
            concept.title()
        );
        let rows: Vec<_> = others
            .iter()
            .map(|other| {
                let away =
                    deviation_percent(other.value, ours).map_or_else(String::new, |away| format!("{away:+.1} %"));
                let away = if other.tool == Tool::Regatta { String::new() } else { away };
                let n = other.n.map_or_else(String::new, |n| format!("n={n}"));
                let value = other.value.map_or_else(|| "n/a".to_owned(), |value| format!("{value:.2}{unit}"));
                vec![
                    (TextRole::Name, other.tool.title().to_owned()),
                    (TextRole::Plain, value),
                    (TextRole::Warning, away),
                    (TextRole::Quiet, n),
                    (TextRole::Plain, other.meaning.formula.clone()),
                ]
            })
            .collect();
        out.push_str(&table(styler, "  ", &rows));
        out.push('\n');
        let notes = others.iter().filter(|other| !other.tool.caveat().is_empty());
        let rows: Vec<_> = notes
            .map(|other| {
                let who = (TextRole::Name, other.tool.name().to_owned());
                vec![who, (TextRole::Quiet, other.tool.caveat().to_owned())]
            })
            .collect();
        out.push_str(&table(styler, "  ", &rows));
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
                    "tool": other.tool.name(),
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
    value!({
        "name": entry.name, "place": entry.place, "title": entry.title, "unit": entry.unit, "about": entry.about,
        "formula": entry.formula, "population": entry.population, "zero_point": entry.zero_point,
        "token_source": entry.token_source, "window": entry.window, "mind": entry.mind, "elsewhere": others,
    })
}

/// All of them, a line each.
pub fn list(styler: Styler) -> String {
    let rows: Vec<_> = ENTRIES
        .iter()
        .map(|entry| {
            vec![
                (TextRole::Name, entry.name.to_owned()),
                (TextRole::Quiet, entry.unit.to_owned()),
                (TextRole::Plain, entry.formula.to_owned()),
            ]
        })
        .collect();
    table(styler, "", &rows)
}

pub fn list_json() -> Value {
    Value::Array(ENTRIES.iter().map(json).collect())
}
