//! A tool's definition as text: what a number must carry to be compared.

use serde::{Deserialize, Serialize};

use super::request_trace::ChunkFilter;
use super::tool_definitions::{
    AnswerEnd, ChunkGapRule, ClockZero, MetricConcept, PerRequestMetric, RateRule, SingleTokenRule, Tool, ToolRules,
};
use harness::{Metric, are_counted_alike};

/// Only numbers with the same meaning are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricMeaning {
    pub formula: String,
    pub population: String,
    pub zero_point: String,
    /// Empty where tokens are not counted.
    pub token_source: String,
    pub window: String,
    pub percentile_rule: String,
}

impl MetricMeaning {
    /// What this tool means by the term; `None` where it has no such number.
    pub fn new(tool: Tool, concept: MetricConcept) -> Option<Self> {
        let rules = tool.rules();
        let formula = formula(rules, concept)?;
        let counts_tokens = matches!(concept, MetricConcept::Tpot | MetricConcept::Itl) && formula.contains('n')
            || matches!((concept, rules.itl), (MetricConcept::Itl, Some(ChunkGapRule::GapsPerToken)));
        Some(Self {
            formula,
            population: population(rules, concept),
            zero_point: zero_point(rules, concept).to_owned(),
            token_source: if counts_tokens { rules.counted.as_text() } else { "" }.to_owned(),
            window: "full".to_owned(),
            percentile_rule: if concept == MetricConcept::Requests { "" } else { rules.rule.as_text() }.to_owned(),
        })
    }

    /// These numbers in ms, with this definition; `counted`: the source of token counts.
    pub(crate) fn state(self, numbers: Metric, counted: &str) -> Metric {
        let Self { formula, population, zero_point, token_source, window, percentile_rule } = self;
        Metric {
            unit: "ms".to_owned(),
            definition: formula,
            population,
            zero_point,
            token_source: if token_source.is_empty() { token_source } else { counted.to_owned() },
            window,
            percentile_rule,
            ..numbers
        }
    }

    /// The aspects in which two meanings differ, each as "aspect: this / that". The percentile rule is apart: a mean
    /// has none.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        // Text after a colon is an explanation.
        let head = |text: &str| text.split(':').next().unwrap_or_default().trim().to_owned();
        let unlike = |aspect: &str, a: &str, b: &str| (head(a) != head(b)).then(|| format!("{aspect}: {a} / {b}"));
        // A tool that takes the server's count does not specify which of its counts.
        let is_some_server = |text: &str| text == "the server";
        let both_servers = [&self.token_source, &other.token_source].iter().all(|text| text.starts_with("the server"));
        let same = are_counted_alike(&self.token_source, &other.token_source)
            || both_servers && (is_some_server(&self.token_source) || is_some_server(&other.token_source));
        let tokens = (!same).then(|| format!("tokens: {} / {}", self.token_source, other.token_source));
        [
            unlike("formula", &self.formula, &other.formula),
            unlike("zero point", &self.zero_point, &other.zero_point),
            tokens,
            unlike("population", &self.population, &other.population),
            unlike("window", &self.window, &other.window),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// The chunks that a definition looks at, in the plural.
fn filter_plural(look: ChunkFilter) -> String {
    filter_singular(look).replace("chunk", "chunks")
}

const fn filter_singular(look: ChunkFilter) -> &'static str {
    match look {
        ChunkFilter::Token => "token chunk",
        ChunkFilter::Text => "chunk with text",
        ChunkFilter::Any => "chunk of any kind",
    }
}

fn until(until: AnswerEnd) -> String {
    match until {
        AnswerEnd::Chunk(chunk) => format!("last {}", filter_singular(chunk)),
        AnswerEnd::End => "end of stream".to_owned(),
    }
}

const fn zero(zero: ClockZero) -> &'static str {
    match zero {
        ClockZero::Schedule => "intended arrival",
        ClockZero::Issue => "issue",
    }
}

fn per_request(rules: &ToolRules, how: PerRequestMetric) -> String {
    let first = filter_singular(rules.first);
    match how {
        PerRequestMetric::Later(end, _) => format!("({} − first {first}) / (n − 1)", until(end)),
        PerRequestMetric::AfterFirstChunk(end) => {
            format!("({} − first {first}) / (n − tokens of the first chunk)", until(end))
        }
        PerRequestMetric::Whole(end) => format!("({} − {}) / n", until(end), zero(rules.zero)),
        PerRequestMetric::WithFirst => format!("(last {first} − {}) / chunks", zero(rules.zero)),
    }
}

fn formula(rules: &ToolRules, concept: MetricConcept) -> Option<String> {
    Some(match concept {
        MetricConcept::Ttft if rules.has_no_ttft => return None,
        MetricConcept::Ttft => format!("first {} − {}", filter_singular(rules.first), zero(rules.zero)),
        MetricConcept::Tpot => per_request(rules, rules.tpot?),
        MetricConcept::Itl => match rules.itl? {
            ChunkGapRule::Request(how) => per_request(rules, how),
            ChunkGapRule::Gaps => format!("gaps between {}", filter_plural(rules.first)),
            ChunkGapRule::GapsPerToken => {
                format!("gaps between {} over the tokens of the later one, that many times", filter_plural(rules.first))
            }
        },
        MetricConcept::E2e => format!("{} − {}", until(rules.e2e?), zero(rules.zero)),
        MetricConcept::Requests => match rules.rate? {
            RateRule::LoadGen => "(ok − 1) / (end of the last-issued − first issue)".to_owned(),
            RateRule::Span { failed_too, from, until: end } => {
                let population = if failed_too { "all requests" } else { "successful requests" };
                format!("{population} / (last {} − first {})", until(end).trim_start_matches("last "), zero(from))
            }
        },
    })
}

fn population(rules: &ToolRules, concept: MetricConcept) -> String {
    let single = |alone| match alone {
        SingleTokenRule::LeftOut => "successful requests with n > 1",
        SingleTokenRule::LeftOutInOnePiece => "successful requests with n > 1 in several chunks",
        SingleTokenRule::Zero => "successful requests, n = 1 as 0",
        SingleTokenRule::Negative => "successful requests, n = 1 as negative",
    };
    let requests = |how| match how {
        PerRequestMetric::Later(_, alone) => single(alone),
        PerRequestMetric::AfterFirstChunk(_) => "successful requests with more tokens than their first chunk",
        PerRequestMetric::Whole(_) | PerRequestMetric::WithFirst => "successful requests",
    };
    let whole = match concept {
        MetricConcept::Tpot => rules.tpot.map_or("successful requests", requests),
        MetricConcept::Itl => match rules.itl {
            Some(ChunkGapRule::Request(how)) => requests(how),
            Some(ChunkGapRule::Gaps) => "chunks after the first of successful requests",
            _ => "tokens after the first chunk of successful requests",
        },
        MetricConcept::Requests => return String::new(),
        MetricConcept::Ttft | MetricConcept::E2e => "successful requests",
    };
    if rules.least_chunks > 1 && matches!(concept, MetricConcept::Ttft | MetricConcept::Tpot) {
        return format!("{whole}, of at least {} chunks", rules.least_chunks);
    }
    whole.to_owned()
}

fn zero_point(rules: &ToolRules, concept: MetricConcept) -> &'static str {
    let start = match rules.zero {
        ClockZero::Schedule => "schedule",
        ClockZero::Issue => "issue",
    };
    let start_of_metric = |how| match how {
        PerRequestMetric::Later(..) | PerRequestMetric::AfterFirstChunk(_) => "first_chunk",
        PerRequestMetric::Whole(_) | PerRequestMetric::WithFirst => start,
    };
    match concept {
        MetricConcept::Ttft | MetricConcept::E2e => start,
        MetricConcept::Tpot => rules.tpot.map_or(start, start_of_metric),
        MetricConcept::Itl => match rules.itl {
            Some(ChunkGapRule::Request(how)) => start_of_metric(how),
            _ => "previous_chunk",
        },
        MetricConcept::Requests => match rules.rate {
            Some(RateRule::Span { from: ClockZero::Schedule, .. }) => "schedule",
            _ => "issue",
        },
    }
}
