//! Applies a tool's definitions to requests: values in ms, or one rate. Pure.
//!
//! Values and how they are spread: mean, deviation, percentiles by a named rule.

use super::request_trace::{RequestTrace, UNCOUNTED};
use super::tool_definitions::{
    AnswerEnd, ChunkGapRule, ClockZero, MetricConcept, PerRequestMetric, PercentileRule, RateRule, SingleTokenRule,
    TokenCountRule, Tool, ToolRules,
};
use harness::Metric;

/// Why a metric has no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingMetric {
    /// The tool has no such number.
    NotDefinedByTool,
    /// The chunks between the first and the last were not kept.
    Timelines,
    /// The requests have no intended arrival.
    Schedule,
    /// No token counts exist.
    Tokens,
    /// Chunks have several tokens, and only their sum is known.
    ChunkTokens,
}

impl MissingMetric {
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NotDefinedByTool => "this tool has no such number",
            Self::Timelines => {
                "needs the time of every chunk: `timelines: true` in the bench stage, or `regatta bench --timelines`"
            }
            Self::Schedule => "needs the intended arrivals, which the file does not have",
            Self::Tokens => "needs the number of output tokens, which the file does not have",
            Self::ChunkTokens => "needs the number of tokens in each chunk, but the server reports only the total",
        }
    }
}

impl Tool {
    /// The values of requests by this tool's definition, with the request's index; `Requests` has none.
    pub fn by_request(self, concept: MetricConcept, seen: &[RequestTrace]) -> Result<Vec<(u64, f64)>, MissingMetric> {
        let rules = self.rules();
        let ok: Vec<&RequestTrace> = seen.iter().filter(|trace| trace.ok).collect();
        if rules.zero == ClockZero::Schedule && ok.iter().any(|trace| trace.sched.is_none()) {
            return Err(MissingMetric::Schedule);
        }
        let each = |value: &dyn Fn(&RequestTrace) -> Result<Option<f64>, MissingMetric>| {
            let mut values = Vec::with_capacity(ok.len());
            for trace in &ok {
                values.extend(value(trace)?.map(|value| (trace.index, value)));
            }
            Ok(values)
        };
        match concept {
            MetricConcept::Ttft if !rules.has_no_ttft => each(&|trace| {
                let enough = trace.count(rules.first) >= rules.least_chunks;
                Ok(trace.first(rules.first).filter(|_| enough).map(|first| first.at - rules.start(trace)))
            }),
            MetricConcept::Tpot => {
                let how = rules.tpot.ok_or(MissingMetric::NotDefinedByTool)?;
                each(&|trace| rules.per_request(trace, how))
            }
            MetricConcept::Itl => match rules.itl.ok_or(MissingMetric::NotDefinedByTool)? {
                ChunkGapRule::Request(how) => each(&|trace| rules.per_request(trace, how)),
                ChunkGapRule::Gaps | ChunkGapRule::GapsPerToken => Err(MissingMetric::NotDefinedByTool),
            },
            MetricConcept::E2e => {
                let until = rules.e2e.ok_or(MissingMetric::NotDefinedByTool)?;
                each(&|trace| Ok(until.time(trace).map(|end| end - rules.start(trace))))
            }
            MetricConcept::Ttft | MetricConcept::Requests => Err(MissingMetric::NotDefinedByTool),
        }
    }

    /// Output tokens of a request as this tool counts them, or another count where that is missing.
    pub fn output_tokens(self, trace: &RequestTrace) -> Option<u32> {
        self.rules().output_tokens(trace)
    }

    /// All values, including pooled gaps, with the tool's own rule for percentiles.
    pub fn spread(self, concept: MetricConcept, seen: &[RequestTrace]) -> Result<SortedValues, MissingMetric> {
        let rules = self.rules();
        let values = match (concept, rules.itl) {
            (MetricConcept::Itl, Some(pool @ (ChunkGapRule::Gaps | ChunkGapRule::GapsPerToken))) => {
                let mut values = Vec::new();
                for trace in seen.iter().filter(|trace| trace.ok) {
                    for (gap, tokens) in trace.gaps(rules.first).ok_or(MissingMetric::Timelines)? {
                        match pool {
                            ChunkGapRule::GapsPerToken if tokens == UNCOUNTED => {
                                return Err(MissingMetric::ChunkTokens);
                            }
                            ChunkGapRule::GapsPerToken => {
                                let each = gap / f64::from(tokens.max(1));
                                values.extend(std::iter::repeat_n(each, tokens as usize));
                            }
                            _ => values.push(gap),
                        }
                    }
                }
                values
            }
            _ => self.by_request(concept, seen)?.into_iter().map(|(_, value)| value).collect(),
        };
        Ok(SortedValues::new(values, rules.rule))
    }

    /// Requests per second.
    pub fn rate(self, seen: &[RequestTrace]) -> Result<f64, MissingMetric> {
        let rules = self.rules();
        let rate = rules.rate.ok_or(MissingMetric::NotDefinedByTool)?;
        let ok = || seen.iter().filter(|trace| trace.ok);
        let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
        let (count, span) = match rate {
            RateRule::LoadGen => {
                let first = least(&mut seen.iter().map(|trace| trace.issue));
                let last = ok().max_by(|a, b| a.issue.total_cmp(&b.issue)).map_or(first, |trace| trace.end);
                (ok().count().saturating_sub(1), last - first)
            }
            RateRule::Span { failed_too, from, until } => {
                let first = match from {
                    ClockZero::Issue => {
                        least(&mut seen.iter().filter(|trace| trace.ok || !failed_too).map(|trace| trace.issue))
                    }
                    ClockZero::Schedule => {
                        let at: Option<Vec<f64>> = seen.iter().map(|trace| trace.sched).collect();
                        least(&mut at.ok_or(MissingMetric::Schedule)?.into_iter())
                    }
                };
                let last = ok().filter_map(|trace| until.time(trace)).fold(f64::NEG_INFINITY, f64::max);
                (if failed_too { seen.len() } else { ok().count() }, last - first)
            }
        };
        if span > 0.0 && span.is_finite() {
            Ok(count as f64 / span * 1e3)
        } else {
            Err(MissingMetric::NotDefinedByTool)
        }
    }
}

impl AnswerEnd {
    fn time(self, trace: &RequestTrace) -> Option<f64> {
        match self {
            Self::Chunk(look) => Some(trace.last(look)?.at),
            Self::End => Some(trace.end),
        }
    }
}

impl ToolRules {
    fn start(&self, trace: &RequestTrace) -> f64 {
        match self.zero {
            ClockZero::Schedule => trace.sched.unwrap_or(trace.issue),
            ClockZero::Issue => trace.issue,
        }
    }

    fn output_tokens(&self, trace: &RequestTrace) -> Option<u32> {
        match self.counted {
            TokenCountRule::Server => trace.tokens.or(trace.retokenized),
            TokenCountRule::Client => trace.retokenized.or(trace.tokens),
        }
    }

    fn tokens(&self, trace: &RequestTrace) -> Result<u32, MissingMetric> {
        self.output_tokens(trace).ok_or(MissingMetric::Tokens)
    }

    fn per_request(&self, trace: &RequestTrace, how: PerRequestMetric) -> Result<Option<f64>, MissingMetric> {
        if trace.count(self.first) < self.least_chunks {
            return Ok(None);
        }
        let Some(first) = trace.first(self.first) else { return Ok(None) };
        let over = |until: AnswerEnd| until.time(trace);
        Ok(match how {
            PerRequestMetric::Later(until, alone) => {
                let n = self.tokens(trace)?;
                let later = over(until).map(|end| end - first.at);
                match (n > 1, alone) {
                    (true, SingleTokenRule::LeftOutInOnePiece) if trace.count(self.first) < 2 => None,
                    (true, _) => later.map(|time| time / f64::from(n - 1)),
                    (false, SingleTokenRule::LeftOut | SingleTokenRule::LeftOutInOnePiece) => None,
                    (false, SingleTokenRule::Zero) => Some(0.0),
                    (false, SingleTokenRule::Negative) => later.map(|time| -time),
                }
            }
            PerRequestMetric::AfterFirstChunk(until) => {
                let n = self.tokens(trace)?;
                let first_tokens = match first.tokens {
                    // Where chunks replace tokens, they do so here too.
                    UNCOUNTED if n == trace.count(self.first) => 1,
                    UNCOUNTED => return Err(MissingMetric::ChunkTokens),
                    tokens => tokens,
                };
                let later = n.saturating_sub(first_tokens);
                over(until).filter(|_| later > 0).map(|end| (end - first.at) / f64::from(later))
            }
            PerRequestMetric::Whole(until) => {
                let n = self.tokens(trace)?;
                over(until).filter(|_| n > 0).map(|end| (end - self.start(trace)) / f64::from(n))
            }
            PerRequestMetric::WithFirst => {
                trace.last(self.first).map(|last| (last.at - self.start(trace)) / f64::from(trace.count(self.first)))
            }
        })
    }
}

/// Sorted values, finite ones only.
#[derive(Clone, Debug, PartialEq)]
pub struct SortedValues {
    sorted: Vec<f64>,
    rule: PercentileRule,
}

impl SortedValues {
    pub fn new(mut values: Vec<f64>, rule: PercentileRule) -> Self {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        Self { sorted: values, rule }
    }

    pub fn n(&self) -> usize {
        self.sorted.len()
    }

    pub fn values(&self) -> &[f64] {
        &self.sorted
    }

    pub fn sum(&self) -> f64 {
        self.sorted.iter().sum()
    }

    pub fn mean(&self) -> Option<f64> {
        (!self.sorted.is_empty()).then(|| self.sum() / self.n() as f64)
    }

    /// Of the values themselves (divided by N), or as an estimate for more of their kind (by N − 1).
    pub fn deviation(&self, divisor: DeviationRule) -> Option<f64> {
        let mean = self.mean()?;
        let n = match divisor {
            DeviationRule::Population => self.n(),
            DeviationRule::Sample => self.n().checked_sub(1).filter(|n| *n > 0)?,
        };
        Some((self.sorted.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n as f64).sqrt())
    }

    pub fn min(&self) -> Option<f64> {
        self.sorted.first().copied()
    }

    pub fn max(&self) -> Option<f64> {
        self.sorted.last().copied()
    }

    /// The statistics in ms, without what they are of.
    pub fn metric(&self) -> Metric {
        Metric {
            unit: "ms".to_owned(),
            n: self.n() as u64,
            mean: self.mean(),
            p50: self.at(0.50),
            p75: self.at(0.75),
            p90: self.at(0.90),
            p95: self.at(0.95),
            p99: self.at(0.99),
            min: self.min(),
            max: self.max(),
            ..Metric::default()
        }
    }

    /// `p` from 0 to 1.
    pub fn at(&self, p: f64) -> Option<f64> {
        let last = self.n().checked_sub(1)?;
        let (place, last) = (self.rule.place(self.n(), p), last as f64);
        let (below, above) = (self.sorted[place.floor() as usize], self.sorted[place.ceil().min(last) as usize]);
        Some(below + (above - below) * place.fract())
    }
}

impl PercentileRule {
    /// The position of the percentile among `n` sorted values, from 0; a fraction lies between two of them. `n` is at
    /// least 1.
    pub fn place(self, n: usize, p: f64) -> f64 {
        let last = (n - 1) as f64;
        let place = match self {
            Self::Floor => (n as f64 * p).floor(),
            // A product that should be whole may be a hair above it.
            Self::Ceiling => (n as f64 * p - 1e-9).ceil() - 1.0,
            Self::Nearest => (last * p).round(),
            Self::Linear => last * p,
        };
        place.clamp(0.0, last)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviationRule {
    Population,
    Sample,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_rules_differ_by_up_to_a_rank() {
        let values: Vec<f64> = (1..=5).map(f64::from).collect();
        let floor = SortedValues::new(values.clone(), PercentileRule::Floor);
        let linear = SortedValues::new(values, PercentileRule::Linear);
        assert_eq!((floor.at(0.5), linear.at(0.5)), (Some(3.0), Some(3.0)));
        let ceiling = SortedValues::new((1..=10).map(f64::from).collect(), PercentileRule::Ceiling);
        assert_eq!([0.0, 0.5, 0.7, 0.91, 1.0].map(|p| ceiling.at(p).unwrap() as u32), [1, 5, 7, 10, 10]);
        // perf_analyzer 2.51 printed the 33rd of 37 latencies as p90.
        let nearest = SortedValues::new((1..=37).map(f64::from).collect(), PercentileRule::Nearest);
        assert_eq!([0.5, 0.9, 0.95, 0.99].map(|p| nearest.at(p).unwrap() as u32), [19, 33, 35, 37]);
        assert_eq!((floor.at(0.9), linear.at(0.9)), (Some(5.0), Some(4.6)));
        assert_eq!(linear.deviation(DeviationRule::Population), Some(2f64.sqrt()));
        assert_eq!(linear.deviation(DeviationRule::Sample), Some(2.5f64.sqrt()));
        let none = SortedValues::new(vec![f64::NAN], PercentileRule::Linear);
        assert_eq!((none.n(), none.at(0.5), none.mean(), none.min()), (0, None, None, None));
    }
}
