//! `--fail-if 'ttft_p99 > +5%'`: what a comparison must not show.

use std::str::FromStr;

use super::{Comparison, Delta};
use crate::stats;

/// A difference that fails the comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct FailCondition {
    metric: String,
    stat: String,
    /// More than this is too much; otherwise less than this.
    above: bool,
    percent: f64,
}

/// The text is no condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no condition\n  hint: METRIC_STAT>PERCENT, for example `ttft_p99>5%`, or for a rate `output_tokens<-2%`"
)]
pub struct NotCondition(String);

/// Why a comparison has no difference for a condition.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoDifference {
    /// `known` are the numbers that both have.
    #[error(
        "`{condition}`: {a} and {b} do not both have that number\n  hint: they have {}",
        if known.is_empty() { "there are none".to_owned() } else { known.join(", ") }
    )]
    NoNumber { condition: FailCondition, a: String, b: String, known: Vec<String> },
    #[error(
        "`{condition}`: the two numbers are not alike: {}\n  hint: `--force` subtracts them anyway{}",
        unlike.join("; "),
        if has_one_definition(unlike) { ", `--as TOOL` computes both with one definition" } else { "" }
    )]
    Unlike { condition: FailCondition, unlike: Vec<String> },
}

/// Whether a tool's definition could be that of both numbers: what was not counted cannot be.
pub(super) fn has_one_definition(unlike: &[String]) -> bool {
    unlike.iter().any(|difference| !difference.starts_with("tokens: "))
}

const STATS: [&str; 5] = ["mean", "p50", "p90", "p95", "p99"];

impl FromStr for FailCondition {
    type Err = NotCondition;

    fn from_str(text: &str) -> Result<Self, NotCondition> {
        let wrong = || NotCondition(text.to_owned());
        let place = text.find(['<', '>']).ok_or_else(wrong)?;
        let (name, rest) = text.split_at(place);
        let percent: f64 = rest[1..].trim().trim_end_matches('%').parse().map_err(|_| wrong())?;
        let name = name.trim();
        let (metric, stat) = match name.rsplit_once('_') {
            Some((metric, stat)) if STATS.contains(&stat) => (metric, stat),
            _ => (name, ""),
        };
        if metric.is_empty() || !percent.is_finite() {
            return Err(wrong());
        }
        Ok(Self { metric: metric.to_owned(), stat: stat.to_owned(), above: rest.starts_with('>'), percent })
    }
}

impl std::fmt::Display for FailCondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let stat = if self.stat.is_empty() { String::new() } else { format!("_{}", self.stat) };
        write!(f, "{}{stat}{}{}%", self.metric, if self.above { '>' } else { '<' }, self.percent)
    }
}

/// The outcome of a comparison for a gate.
#[derive(Clone, Debug, PartialEq)]
pub enum FailConditionOutcome<'a> {
    /// The difference is beyond the limit. With runs on both sides this is shown at 95 %; with one run on a side it is
    /// arithmetic on two numbers.
    Exceeded(&'a Delta),
    /// The difference is beyond the limit, and the runs vary so much that it may be chance.
    Inconclusive(&'a Delta),
    Passed(&'a Delta),
}

impl FailCondition {
    /// An error where there is no such difference to look at.
    pub fn outcome<'a>(&self, comparison: &'a Comparison) -> Result<FailConditionOutcome<'a>, NoDifference> {
        let Some(delta) = comparison.find(&self.metric, &self.stat) else {
            let known = comparison
                .deltas
                .iter()
                .map(|delta| {
                    if delta.stat.is_empty() {
                        delta.metric.clone()
                    } else {
                        format!("{}_{}", delta.metric, delta.stat)
                    }
                })
                .collect();
            let (a, b) = (comparison.a.clone(), comparison.b.clone());
            return Err(NoDifference::NoNumber { condition: self.clone(), a, b, known });
        };
        let Some(percent) = delta.percent else {
            return Err(NoDifference::Unlike { condition: self.clone(), unlike: delta.unlike.clone() });
        };
        let is_beyond = if self.above { percent > self.percent } else { percent < self.percent };
        if !is_beyond {
            return Ok(FailConditionOutcome::Passed(delta));
        }
        let is_shown = match &delta.sides {
            Some(sides) if comparison.is_judged() => stats::is_beyond(sides, self.percent, self.above),
            _ => true,
        };
        Ok(if is_shown { FailConditionOutcome::Exceeded(delta) } else { FailConditionOutcome::Inconclusive(delta) })
    }
}
