//! A definition applied to requests: values in ms, or one rate. Pure.

use super::request_trace::{RequestTrace, UNCOUNTED};
use super::rules::{
    AnswerEnd, ChunkGapRule, ClockZero, MetricConcept, PerRequestMetric, RateRule, SingleTokenRule, TokenCountRule,
    Tool, ToolRules,
};
use super::spread::SortedValues;

/// Why there is no number.
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
            Self::ChunkTokens => {
                "needs the number of tokens of each chunk, and the server sends only how many there are in all"
            }
        }
    }
}

impl Tool {
    /// The values by request, as this tool defines them, of requests that have one; `Requests` has none.
    pub fn by_request(self, concept: MetricConcept, seen: &[RequestTrace]) -> Result<Vec<(u64, f64)>, MissingMetric> {
        let rules = self.rules();
        let ok: Vec<&RequestTrace> = seen.iter().filter(|one| one.ok).collect();
        if rules.zero == ClockZero::Schedule && ok.iter().any(|one| one.sched.is_none()) {
            return Err(MissingMetric::Schedule);
        }
        let each = |value: &dyn Fn(&RequestTrace) -> Result<Option<f64>, MissingMetric>| {
            let mut all = Vec::with_capacity(ok.len());
            for one in &ok {
                all.extend(value(one)?.map(|value| (one.index, value)));
            }
            Ok(all)
        };
        match concept {
            MetricConcept::Ttft if rules.ttft => each(&|one| {
                let enough = one.count(rules.first) >= rules.least_chunks;
                Ok(one.first(rules.first).filter(|_| enough).map(|first| first.at - rules.start(one)))
            }),
            MetricConcept::Tpot => {
                let how = rules.tpot.ok_or(MissingMetric::NotDefinedByTool)?;
                each(&|one| rules.per_request(one, how))
            }
            MetricConcept::Itl => match rules.itl.ok_or(MissingMetric::NotDefinedByTool)? {
                ChunkGapRule::Request(how) => each(&|one| rules.per_request(one, how)),
                ChunkGapRule::Gaps | ChunkGapRule::GapsPerToken => Err(MissingMetric::NotDefinedByTool),
            },
            MetricConcept::E2e => {
                let until = rules.e2e.ok_or(MissingMetric::NotDefinedByTool)?;
                each(&|one| Ok(until.of(one).map(|end| end - rules.start(one))))
            }
            MetricConcept::Ttft | MetricConcept::Requests => Err(MissingMetric::NotDefinedByTool),
        }
    }

    /// Output tokens of a request as this tool counts them, or by another count where its own is missing.
    pub fn output_tokens(self, one: &RequestTrace) -> Option<u32> {
        self.rules().output_tokens(one)
    }

    /// All values, pooled gaps too, with the tool's own rule for percentiles.
    pub fn spread(self, concept: MetricConcept, seen: &[RequestTrace]) -> Result<SortedValues, MissingMetric> {
        let rules = self.rules();
        let values = match (concept, rules.itl) {
            (MetricConcept::Itl, Some(pool @ (ChunkGapRule::Gaps | ChunkGapRule::GapsPerToken))) => {
                let mut values = Vec::new();
                for one in seen.iter().filter(|one| one.ok) {
                    for (gap, tokens) in one.gaps(rules.first).ok_or(MissingMetric::Timelines)? {
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
        let ok = || seen.iter().filter(|one| one.ok);
        let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
        let (count, span) = match rate {
            RateRule::LoadGen => {
                let first = least(&mut seen.iter().map(|one| one.issue));
                let last = ok().max_by(|a, b| a.issue.total_cmp(&b.issue)).map_or(first, |one| one.end);
                (ok().count().saturating_sub(1), last - first)
            }
            RateRule::Span { failed_too, from, until } => {
                let first = match from {
                    ClockZero::Issue => {
                        least(&mut seen.iter().filter(|one| one.ok || !failed_too).map(|one| one.issue))
                    }
                    ClockZero::Schedule => {
                        let at: Option<Vec<f64>> = seen.iter().map(|one| one.sched).collect();
                        least(&mut at.ok_or(MissingMetric::Schedule)?.into_iter())
                    }
                };
                let last = ok().filter_map(|one| until.of(one)).fold(f64::NEG_INFINITY, f64::max);
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
    fn of(self, one: &RequestTrace) -> Option<f64> {
        match self {
            Self::Chunk(look) => Some(one.last(look)?.at),
            Self::End => Some(one.end),
        }
    }
}

impl ToolRules {
    fn start(&self, one: &RequestTrace) -> f64 {
        match self.zero {
            ClockZero::Schedule => one.sched.unwrap_or(one.issue),
            ClockZero::Issue => one.issue,
        }
    }

    fn output_tokens(&self, one: &RequestTrace) -> Option<u32> {
        match self.counted {
            TokenCountRule::Server => one.tokens.or(one.retokenized),
            TokenCountRule::Client => one.retokenized.or(one.tokens),
        }
    }

    fn tokens(&self, one: &RequestTrace) -> Result<u32, MissingMetric> {
        self.output_tokens(one).ok_or(MissingMetric::Tokens)
    }

    fn per_request(&self, one: &RequestTrace, how: PerRequestMetric) -> Result<Option<f64>, MissingMetric> {
        if one.count(self.first) < self.least_chunks {
            return Ok(None);
        }
        let Some(first) = one.first(self.first) else { return Ok(None) };
        let over = |until: AnswerEnd| until.of(one);
        Ok(match how {
            PerRequestMetric::Later(until, alone) => {
                let n = self.tokens(one)?;
                let later = over(until).map(|end| end - first.at);
                match (n > 1, alone) {
                    (true, SingleTokenRule::LeftOutInOnePiece) if one.count(self.first) < 2 => None,
                    (true, _) => later.map(|time| time / f64::from(n - 1)),
                    (false, SingleTokenRule::LeftOut | SingleTokenRule::LeftOutInOnePiece) => None,
                    (false, SingleTokenRule::Zero) => Some(0.0),
                    (false, SingleTokenRule::Negative) => later.map(|time| -time),
                }
            }
            PerRequestMetric::AfterFirstChunk(until) => {
                let n = self.tokens(one)?;
                let first_tokens = match first.tokens {
                    // Where chunks replace tokens, they do so here too.
                    UNCOUNTED if n == one.count(self.first) => 1,
                    UNCOUNTED => return Err(MissingMetric::ChunkTokens),
                    tokens => tokens,
                };
                let later = n.saturating_sub(first_tokens);
                over(until).filter(|_| later > 0).map(|end| (end - first.at) / f64::from(later))
            }
            PerRequestMetric::Whole(until) => {
                let n = self.tokens(one)?;
                over(until).filter(|_| n > 0).map(|end| (end - self.start(one)) / f64::from(n))
            }
            PerRequestMetric::WithFirst => {
                one.last(self.first).map(|last| (last.at - self.start(one)) / f64::from(one.count(self.first)))
            }
        })
    }
}
