//! A tool's definition in words: what a number must carry to be compared.

use serde::{Deserialize, Serialize};

use super::rules::{Alone, Between, Concept, PerRequest, Rate, Rules, Tool, Until, Zero};
use super::seen::Look;

/// Two numbers with one meaning may be subtracted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meaning {
    pub formula: String,
    pub population: String,
    pub zero_point: String,
    /// Empty where tokens are not counted.
    pub token_source: String,
    pub window: String,
    pub percentile_rule: String,
}

impl Meaning {
    /// What this tool means by the word; `None` where it has no such number.
    pub fn of(tool: Tool, concept: Concept) -> Option<Self> {
        let rules = tool.rules();
        let formula = formula(&rules, concept)?;
        let counts_tokens = matches!(concept, Concept::Tpot | Concept::Itl) && formula.contains('n')
            || matches!((concept, rules.itl), (Concept::Itl, Some(Between::GapsPerToken)));
        Some(Self {
            formula,
            population: population(&rules, concept),
            zero_point: zero_point(&rules, concept).to_owned(),
            token_source: if counts_tokens { rules.counted.words() } else { "" }.to_owned(),
            window: "full".to_owned(),
            percentile_rule: if concept == Concept::Requests { "" } else { rules.rule.words() }.to_owned(),
        })
    }

    /// In what two meanings differ, each as "what: this / that". The percentile rule is apart: a mean has none.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        // What stands behind a colon only explains.
        let head = |text: &str| text.split(':').next().unwrap_or_default().trim().to_owned();
        let unlike = |what: &str, a: &str, b: &str| (head(a) != head(b)).then(|| format!("{what}: {a} / {b}"));
        // A tool that takes the server's count does not say which of its counts.
        let is_some_server = |text: &str| text == "the server";
        let both_servers = [&self.token_source, &other.token_source].iter().all(|text| text.starts_with("the server"));
        let same = self.token_source == other.token_source
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

/// Several of them.
const fn looks(look: Look) -> &'static str {
    match look {
        Look::Token => "token chunks",
        Look::Text => "chunks with text",
        Look::Any => "chunks of any kind",
    }
}

const fn look(look: Look) -> &'static str {
    match look {
        Look::Token => "token chunk",
        Look::Text => "chunk with text",
        Look::Any => "chunk of any kind",
    }
}

fn until(until: Until) -> String {
    match until {
        Until::Chunk(chunk) => format!("last {}", look(chunk)),
        Until::End => "end of stream".to_owned(),
    }
}

const fn zero(zero: Zero) -> &'static str {
    match zero {
        Zero::Schedule => "intended arrival",
        Zero::Issue => "issue",
    }
}

fn per_request(rules: &Rules, how: PerRequest) -> String {
    let first = look(rules.first);
    match how {
        PerRequest::Later(end, _) => format!("({} − first {first}) / (n − 1)", until(end)),
        PerRequest::AfterFirstChunk(end) => {
            format!("({} − first {first}) / (n − tokens of the first chunk)", until(end))
        }
        PerRequest::Whole(end) => format!("({} − {}) / n", until(end), zero(rules.zero)),
        PerRequest::WithFirst => format!("(last {first} − {}) / chunks", zero(rules.zero)),
    }
}

fn formula(rules: &Rules, concept: Concept) -> Option<String> {
    Some(match concept {
        Concept::Ttft if !rules.ttft => return None,
        Concept::Ttft => format!("first {} − {}", look(rules.first), zero(rules.zero)),
        Concept::Tpot => per_request(rules, rules.tpot?),
        Concept::Itl => match rules.itl? {
            Between::Request(how) => per_request(rules, how),
            Between::Gaps => format!("gaps between {}", looks(rules.first)),
            Between::GapsPerToken => {
                format!("gaps between {} over the tokens of the later one, that many times", looks(rules.first))
            }
        },
        Concept::E2e => format!("{} − {}", until(rules.e2e?), zero(rules.zero)),
        Concept::Requests => match rules.rate? {
            Rate::LoadGen => "(ok − 1) / (end of the last-issued − first issue)".to_owned(),
            Rate::Span { failed_too, from, until: end } => {
                let who = if failed_too { "all requests" } else { "successful requests" };
                format!("{who} / (last {} − first {})", until(end).trim_start_matches("last "), zero(from))
            }
        },
    })
}

fn population(rules: &Rules, concept: Concept) -> String {
    let single = |alone| match alone {
        Alone::LeftOut => "successful requests with n > 1",
        Alone::LeftOutInOnePiece => "successful requests with n > 1 in several chunks",
        Alone::Zero => "successful requests, n = 1 as 0",
        Alone::Negative => "successful requests, n = 1 as negative",
    };
    let of = |how| match how {
        PerRequest::Later(_, alone) => single(alone),
        PerRequest::AfterFirstChunk(_) => "successful requests with more tokens than their first chunk",
        PerRequest::Whole(_) | PerRequest::WithFirst => "successful requests",
    };
    let whole = match concept {
        Concept::Tpot => rules.tpot.map_or("successful requests", of),
        Concept::Itl => match rules.itl {
            Some(Between::Request(how)) => of(how),
            Some(Between::Gaps) => "chunks after the first of successful requests",
            _ => "tokens after the first chunk of successful requests",
        },
        Concept::Requests => return String::new(),
        Concept::Ttft | Concept::E2e => "successful requests",
    };
    if rules.least_chunks > 1 && matches!(concept, Concept::Ttft | Concept::Tpot) {
        return format!("{whole}, of at least {} chunks", rules.least_chunks);
    }
    whole.to_owned()
}

fn zero_point(rules: &Rules, concept: Concept) -> &'static str {
    let start = match rules.zero {
        Zero::Schedule => "schedule",
        Zero::Issue => "issue",
    };
    let of = |how| match how {
        PerRequest::Later(..) | PerRequest::AfterFirstChunk(_) => "first_chunk",
        PerRequest::Whole(_) | PerRequest::WithFirst => start,
    };
    match concept {
        Concept::Ttft | Concept::E2e => start,
        Concept::Tpot => rules.tpot.map_or(start, of),
        Concept::Itl => match rules.itl {
            Some(Between::Request(how)) => of(how),
            _ => "previous_chunk",
        },
        Concept::Requests => match rules.rate {
            Some(Rate::Span { from: Zero::Schedule, .. }) => "schedule",
            _ => "issue",
        },
    }
}
