//! A section of the page.

use serde::Serialize;

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

    /// Nothing where there is no value.
    pub(super) fn fact(&mut self, name: &str, value: Option<String>, what: impl Into<String>) {
        self.facts.extend(value.map(|value| [name.to_owned(), value, what.into()]));
    }

    pub(super) fn count(&mut self, name: &str, count: u64, what: impl Into<String>) {
        self.fact(name, Some(number(count as f64)), what);
    }
}

pub(super) fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}
