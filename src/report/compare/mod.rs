//! Results beside each other: values, differences with intervals, and a judgement. Unlike numbers are not subtracted.
//!
//! ```text
//!  Told ─sheet→ Sheet (numbers with their meanings) ─┐
//!  Told ─sheet→ Sheet ──────────────────────────────┴→ Comparison ─→ table · JSON
//! ```

mod gate;
mod ratio;
mod resample;
mod sheet;
mod tell;

use serde::Serialize;

pub use gate::Gate;
pub use ratio::{Ratio, Ratios};
pub use resample::Interval;
pub use sheet::{Measure, Sheet};
pub(in crate::report) use tell::{doubts, letter};
pub use tell::{json, text};

use super::compat::Rule;

/// What may be said of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    Better,
    Worse,
    /// The interval holds zero.
    NoDifferenceSeen,
    /// There is no interval: no requests one by one, or one number for a whole run.
    NoInterval,
}

impl Judgement {
    pub const fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NoDifferenceSeen => "no difference seen",
            Self::NoInterval => "no interval",
        }
    }
}

/// One number of two results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Delta {
    /// `ttft`, `e2e_sent`, `output_tokens`, …
    pub metric: String,
    /// `mean`, `p50`, `p90`, `p95`, `p99`; empty for a rate.
    pub stat: &'static str,
    pub unit: &'static str,
    pub a: Option<f64>,
    pub b: Option<f64>,
    /// (b − a) / a; absent where the two mean different things.
    pub percent: Option<f64>,
    /// 95 % interval of the percentage.
    pub interval: Option<Interval>,
    pub judgement: Option<Judgement>,
    /// In what the two meanings differ.
    pub unlike: Vec<String>,
}

/// One result against the first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub a: String,
    pub b: String,
    /// Why nothing at all may be subtracted: the load was not the same.
    pub unlike_load: Vec<String>,
    /// What could not be looked at.
    pub notes: Vec<String>,
    /// Both had the same arrivals and prompts, so requests are compared one with one.
    pub paired: bool,
    pub deltas: Vec<Delta>,
}

impl Comparison {
    /// `force` subtracts what is unlike, too; the differences in meaning stay written beside it.
    pub fn of(a: &Sheet, b: &Sheet, force: bool) -> Self {
        let (unlike_load, notes) = a.unlike_load(b);
        let paired = a.digest.is_some() && a.digest == b.digest;
        let mut deltas = Vec::new();
        for one in &a.measures {
            if let Some(other) = b.measures.iter().find(|other| other.key == one.key) {
                deltas.extend(differences(one, other, &unlike_load, paired, force));
            }
        }
        Self { a: a.name.clone(), b: b.name.clone(), unlike_load, notes, paired, deltas }
    }

    /// Whether anything was subtracted.
    pub fn has_any(&self) -> bool {
        self.deltas.iter().any(|delta| delta.percent.is_some())
    }

    pub fn find(&self, metric: &str, stat: &str) -> Option<&Delta> {
        self.deltas.iter().find(|delta| delta.metric == metric && delta.stat == stat)
    }
}

/// Of 0 there is none, except nothing at all.
fn percent(a: f64, b: f64) -> Option<f64> {
    match (a == 0.0, b == 0.0) {
        (true, true) => Some(0.0),
        (true, false) => None,
        (false, _) => Some((b / a - 1.0) * 100.0),
    }
}

fn differences(a: &Measure, b: &Measure, unlike_load: &[String], paired: bool, force: bool) -> Vec<Delta> {
    let meanings = a.meaning.differences(&b.meaning);
    let stats = a.stats.iter().filter_map(|(stat, value)| Some((*stat, *value, b.stat(stat)?)));
    stats
        .map(|(stat, one, other)| {
            let mut unlike = unlike_load.to_vec();
            unlike.extend(meanings.iter().cloned());
            if stat.starts_with('p') && a.meaning.percentile_rule != b.meaning.percentile_rule {
                unlike.push(format!("percentile rule: {} / {}", a.meaning.percentile_rule, b.meaning.percentile_rule));
            }
            let may = unlike.is_empty() || force;
            let percent = percent(one, other).filter(|_| may);
            let interval = percent.and_then(|_| {
                let rule =
                    Rule::ALL.into_iter().find(|rule| rule.words() == a.meaning.percentile_rule).unwrap_or(Rule::Floor);
                resample::interval(&a.values, &b.values, stat, rule, paired)
            });
            let judgement = percent.map(|_| match interval {
                None => Judgement::NoInterval,
                Some(Interval { low, high }) if low <= 0.0 && high >= 0.0 => Judgement::NoDifferenceSeen,
                Some(Interval { low, .. }) if (low > 0.0) == a.more_is_better => Judgement::Better,
                Some(_) => Judgement::Worse,
            });
            Delta {
                metric: a.key.clone(),
                stat,
                unit: a.unit,
                a: Some(one),
                b: Some(other),
                percent,
                interval,
                judgement,
                unlike,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
