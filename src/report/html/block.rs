//! A section of the page, and how its parts read a result.

use serde::Serialize;
use serde_json::{Map, Value};

use super::metric_row::MetricRow;
use super::svg::number;

/// A section, ready for the template.
#[derive(Debug, Default, Serialize)]
pub(super) struct Block {
    pub title: &'static str,
    /// What it is about, in a sentence or two.
    pub about: String,
    /// Name, value, what was counted.
    pub facts: Vec<[String; 3]>,
    pub metrics: Vec<MetricRow>,
    /// Headings of [`Self::rows`]; all but the first head number columns.
    pub head: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
    /// SVG; the page marks it as safe.
    #[serde(skip)]
    pub plots: Vec<String>,
}

impl Block {
    pub(super) const fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.metrics.is_empty() && self.rows.is_empty()
    }

    pub(super) fn fact(&mut self, name: &str, value: Option<String>, what: impl Into<String>) {
        self.facts.extend(value.map(|value| [name.to_owned(), value, what.into()]));
    }
}

pub(super) fn at(value: &Value, path: &str) -> Option<f64> {
    value.pointer(path)?.as_f64()
}

pub(super) fn shown(value: &Value, path: &str) -> Option<String> {
    at(value, path).map(number)
}

pub(super) fn text<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    value.pointer(path)?.as_str().filter(|text| !text.is_empty())
}

pub(super) fn object<'a>(value: &'a Value, key: &str) -> Option<&'a Map<String, Value>> {
    value.get(key)?.as_object()
}

pub(super) fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}
