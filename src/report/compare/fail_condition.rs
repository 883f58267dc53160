//! `--fail-if 'ttft_p99 > +5%'`: what a comparison must not show.

use std::str::FromStr;

use super::{Comparison, Delta, Judgement};
use crate::history::MetricKey;
use base::diag::ErrorText;
use base::stats;
use interop::Tool;

/// A difference that fails the comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct FailCondition {
    number: MetricKey,
    /// More than this is too much; otherwise less than this.
    above: bool,
    percent: f64,
    /// With how many decimals differences are printed beside the limit.
    decimals: usize,
}

/// Whether one definition of both numbers would make them alike: another load stays another load, and what was not
/// counted stays so.
pub(super) fn has_one_definition(unlike: &[String]) -> bool {
    let of_definition = ["formula: ", "zero point: ", "population: ", "window: ", "percentile rule: "];
    let is_of_definition = |difference: &String| of_definition.iter().any(|what| difference.starts_with(what));
    !unlike.is_empty() && unlike.iter().all(is_of_definition)
}

/// More are noise of the numbers themselves.
const MOST_DECIMALS: usize = 6;

impl FromStr for FailCondition {
    /// The text cannot be parsed as a condition.
    type Err = ErrorText;

    fn from_str(text: &str) -> Result<Self, ErrorText> {
        let wrong = || {
            ErrorText::new(format_args!("`{text}` is not a condition"))
                .hint("METRIC_STAT>PERCENT, for example `ttft_p99>5%`, or for a rate `output_tokens<-2%`")
        };
        let place = text.find(['<', '>']).ok_or_else(wrong)?;
        let (name, rest) = text.split_at(place);
        let limit = rest[1..].trim().trim_end_matches('%').trim_end();
        let percent: f64 = limit.parse().map_err(|_| wrong())?;
        let decimals = limit.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let number = MetricKey::read(name.trim());
        if number.metric.is_empty() || !percent.is_finite() {
            return Err(wrong());
        }
        Ok(Self { number, above: rest.starts_with('>'), percent, decimals: decimals.clamp(1, MOST_DECIMALS) })
    }
}

impl std::fmt::Display for FailCondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}{}%", self.number, if self.above { '>' } else { '<' }, self.percent)
    }
}

/// The outcome of a comparison for a condition.
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
    /// Evaluates the condition. An error if the comparison has no such difference; `as_tool`: whose definitions the
    /// numbers follow.
    pub fn outcome<'a>(
        &self,
        comparison: &'a Comparison,
        as_tool: Option<Tool>,
    ) -> Result<FailConditionOutcome<'a>, ErrorText> {
        let (a, b) = (&comparison.a, &comparison.b);
        let Some(delta) = comparison.find(&self.number.metric, &self.number.stat) else {
            let number = |delta: &Delta| MetricKey::new(&delta.metric, delta.stat).to_string();
            let numbers = comparison.checkable().map(number).collect::<Vec<_>>().join(", ");
            let tool = as_tool.map(|tool| format!(" as {}", tool.as_str())).unwrap_or_default();
            let error = ErrorText::new(format_args!("`{self}`: {a} and {b} do not both have that number{tool}"));
            return Err(error.hint(match as_tool {
                _ if numbers.is_empty() => "they have no number in common".to_owned(),
                None => format!("they have {numbers}"),
                Some(_) => format!("leave out `--as`, or take one of {numbers}"),
            }));
        };
        let Some(percent) = delta.percent else {
            if delta.unlike.is_empty() {
                let text = format!("`{self}`: that number of {a} is 0, so a percentage is undefined");
                return Err(ErrorText::new(text).hint(format!("take another number, or see in {a} why it is 0")));
            }
            let text = format!("`{self}`: the two numbers are not alike: {}", delta.unlike.join("; "));
            return Err(ErrorText::new(text).hint(if has_one_definition(&delta.unlike) {
                "`--force` subtracts them anyway, `--as TOOL` computes both with one definition"
            } else {
                "`--force` subtracts them anyway"
            }));
        };
        if self.above && delta.b.is_some_and(f64::is_infinite) {
            return Ok(FailConditionOutcome::Exceeded(delta));
        }
        // Rounded as printed, so that no digit decides that is not shown.
        let percent = self.rounded(percent);
        let is_beyond = if self.above { percent > self.percent } else { percent < self.percent };
        if !is_beyond {
            return Ok(FailConditionOutcome::Passed(delta));
        }
        let is_shown = match &delta.sides {
            Some(sides) if comparison.is_judged() => stats::is_beyond(sides, self.percent, self.above),
            _ if delta.judgement == Some(Judgement::CannotTell) => false,
            _ => true,
        };
        Ok(if is_shown { FailConditionOutcome::Exceeded(delta) } else { FailConditionOutcome::Inconclusive(delta) })
    }

    fn rounded(&self, percent: f64) -> f64 {
        let scale = 10_f64.powi(self.decimals as i32);
        if percent.is_finite() { (percent * scale).round() / scale } else { percent }
    }

    /// A difference as it is compared with the limit, with its sign: `+5.0 %`.
    pub fn percent_text(&self, percent: f64) -> String {
        let (rounded, decimals) = (self.rounded(percent), self.decimals);
        if rounded == 0.0 { format!("{:.decimals$} %", 0.0) } else { format!("{rounded:+.decimals$} %") }
    }

    /// Whether more than the limit is too much.
    pub const fn is_upper(&self) -> bool {
        self.above
    }

    /// The limit that the difference would just be shown to be beyond: what the difference is at least, of a lower
    /// limit at most.
    /// `None`: with one run on a side nothing is shown.
    pub fn bound(&self, comparison: &Comparison, delta: &Delta) -> Option<f64> {
        stats::beyond_bound(delta.sides.as_ref().filter(|_| comparison.is_judged())?, self.above)
    }
}
