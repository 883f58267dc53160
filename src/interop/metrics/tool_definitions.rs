//! What each tool means by its terms, as data: from where, from which chunk, divided by what, over which requests.
//!
//! Read from the tools' sources at the versions named; the golden vector holds every row to a known number.

use serde::Deserialize;

use super::request_trace::ChunkFilter;

/// The tool that measured, or the tool that defines a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tool {
    #[default]
    Regatta,
    LoadGen,
    AiPerf,
    GenAiPerf,
    PerfAnalyzer,
    Vllm,
    SglangChat,
    SglangNative,
    GuideLlm,
    InferencePerf,
    LlmPerf,
    TrtllmBench,
    Endpoints,
    HfBenchmarker,
}

impl Tool {
    pub const ALL: [Self; 14] = [
        Self::Regatta,
        Self::LoadGen,
        Self::AiPerf,
        Self::GenAiPerf,
        Self::PerfAnalyzer,
        Self::Vllm,
        Self::SglangChat,
        Self::SglangNative,
        Self::GuideLlm,
        Self::InferencePerf,
        Self::LlmPerf,
        Self::TrtllmBench,
        Self::Endpoints,
        Self::HfBenchmarker,
    ];

    /// The name as the user types it.
    pub const fn name(self) -> &'static str {
        self.rules().name
    }

    /// With the version of the sources from which the definitions were read.
    pub const fn title(self) -> &'static str {
        self.rules().title
    }
}

/// No tool has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no tool `{0}`")]
pub struct UnknownTool(String);

impl std::str::FromStr for Tool {
    type Err = UnknownTool;

    fn from_str(text: &str) -> Result<Self, UnknownTool> {
        let name = text.replace('_', "-").to_lowercase();
        Self::ALL.into_iter().find(|tool| tool.name() == name).ok_or_else(|| UnknownTool(text.to_owned()))
    }
}

/// Terms that tools share, each with its own meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricConcept {
    Ttft,
    Tpot,
    Itl,
    E2e,
    Requests,
}

impl MetricConcept {
    pub const ALL: [Self; 5] = [Self::Ttft, Self::Tpot, Self::Itl, Self::E2e, Self::Requests];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::Tpot => "tpot",
            Self::Itl => "itl",
            Self::E2e => "e2e",
            Self::Requests => "requests_per_s",
        }
    }

    pub const fn title(self) -> &'static str {
        match self {
            Self::Ttft => "TTFT",
            Self::Tpot => "TPOT",
            Self::Itl => "ITL",
            Self::E2e => "E2E",
            Self::Requests => "requests/s",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClockZero {
    Schedule,
    Issue,
}

/// Where an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerEnd {
    Chunk(ChunkFilter),
    End,
}

/// How an answer of one token, which has no time per output token, is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SingleTokenRule {
    LeftOut,
    Zero,
    /// Left out, and answers of several tokens that came in one piece, too.
    LeftOutInOnePiece,
    /// Its number of tokens is set to 0, so that the divisor is −1.
    Negative,
}

/// One number for each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PerRequestMetric {
    /// (until − first) / (n − 1)
    Later(AnswerEnd, SingleTokenRule),
    /// (until − first) / (n − tokens of the first chunk)
    AfterFirstChunk(AnswerEnd),
    /// (until − zero) / n
    Whole(AnswerEnd),
    /// (last − zero) / chunks: the mean of TTFT and all gaps.
    WithFirst,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkGapRule {
    Request(PerRequestMetric),
    /// All gaps of all requests in one pool.
    Gaps,
    /// Each gap over the tokens of the chunk after it, that many times, in one pool.
    GapsPerToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RateRule {
    /// Requests over the time from the first start to the last end. Failed ones that are counted do not stretch the
    /// time.
    Span { failed_too: bool, from: ClockZero, until: AnswerEnd },
    /// (ok − 1) / (end of the last-issued − first issue)
    LoadGen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenCountRule {
    Server,
    Client,
}

impl TokenCountRule {
    pub(super) const fn as_text(self) -> &'static str {
        match self {
            Self::Server => "the server",
            Self::Client => "the client's tokenizer",
        }
    }
}

/// How a percentile is picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PercentileRule {
    /// The sorted element floor(N·p).
    Floor,
    /// The smallest element at or below which a share of p lies.
    Ceiling,
    /// The sorted element nearest to (N − 1)·p, from 0.
    Nearest,
    /// numpy's default.
    Linear,
}

impl PercentileRule {
    pub const ALL: [Self; 4] = [Self::Floor, Self::Ceiling, Self::Nearest, Self::Linear];

    pub const fn as_text(self) -> &'static str {
        match self {
            Self::Floor => "nearest rank, sorted element floor(N·p)",
            Self::Ceiling => "nearest rank, sorted element ceil(N·p) − 1",
            Self::Nearest => "nearest rank, sorted element round((N − 1)·p)",
            Self::Linear => "linear between ranks, at (N − 1)·p",
        }
    }
}

/// One tool: its names and its definitions.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToolRules {
    pub name: &'static str,
    pub title: &'static str,
    pub zero: ClockZero,
    pub first: ChunkFilter,
    /// Answers of fewer chunks have neither TTFT nor TPOT.
    pub least_chunks: u32,
    pub ttft: bool,
    pub tpot: Option<PerRequestMetric>,
    pub itl: Option<ChunkGapRule>,
    pub e2e: Option<AnswerEnd>,
    pub rate: Option<RateRule>,
    pub counted: TokenCountRule,
    pub rule: PercentileRule,
    /// The caveat that users should know.
    pub note: &'static str,
}

const LAST_TOKEN: AnswerEnd = AnswerEnd::Chunk(ChunkFilter::Token);
const LAST_TEXT: AnswerEnd = AnswerEnd::Chunk(ChunkFilter::Text);
const FROM_ISSUE: RateRule = RateRule::Span { failed_too: false, from: ClockZero::Issue, until: AnswerEnd::End };

const PLAIN: ToolRules = ToolRules {
    name: "",
    title: "",
    zero: ClockZero::Issue,
    first: ChunkFilter::Text,
    least_chunks: 1,
    ttft: true,
    tpot: None,
    itl: None,
    e2e: Some(AnswerEnd::End),
    rate: Some(FROM_ISSUE),
    counted: TokenCountRule::Server,
    rule: PercentileRule::Linear,
    note: "",
};

impl Tool {
    /// The source of the output token count that it divides by.
    pub const fn counted(self) -> &'static str {
        self.rules().counted.as_text()
    }

    /// The caveat of this tool's numbers.
    pub const fn caveat(self) -> &'static str {
        self.rules().note
    }

    /// Its number for the pace of an answer after the first token: a time per output token without the TTFT inside.
    /// Some tools call it ITL. `None`: it has none.
    pub const fn time_per_token(self) -> Option<MetricConcept> {
        let rules = self.rules();
        match (rules.tpot, rules.itl) {
            (Some(PerRequestMetric::Later(..) | PerRequestMetric::AfterFirstChunk(_)), _) => Some(MetricConcept::Tpot),
            (_, Some(ChunkGapRule::Request(PerRequestMetric::Later(..) | PerRequestMetric::AfterFirstChunk(_)))) => {
                Some(MetricConcept::Itl)
            }
            _ => None,
        }
    }

    pub(super) const fn rules(self) -> ToolRules {
        match self {
            Self::Regatta => ToolRules {
                name: "regatta",
                title: concat!("Regatta ", env!("CARGO_PKG_VERSION")),
                zero: ClockZero::Schedule,
                first: ChunkFilter::Token,
                tpot: Some(PerRequestMetric::AfterFirstChunk(LAST_TOKEN)),
                itl: Some(ChunkGapRule::GapsPerToken),
                e2e: Some(LAST_TOKEN),
                rate: Some(RateRule::Span { failed_too: false, from: ClockZero::Schedule, until: AnswerEnd::End }),
                rule: PercentileRule::Floor,
                note: "from the schedule; the first token counts even when its text is empty",
                ..PLAIN
            },
            Self::LoadGen => ToolRules {
                name: "loadgen",
                title: "MLPerf LoadGen, Server",
                zero: ClockZero::Schedule,
                first: ChunkFilter::Token,
                tpot: Some(PerRequestMetric::Later(AnswerEnd::End, SingleTokenRule::Negative)),
                rate: Some(RateRule::LoadGen),
                rule: PercentileRule::Floor,
                note: "an answer of one token gives a negative TPOT; errors do not exist for LoadGen",
                ..PLAIN
            },
            Self::AiPerf => ToolRules {
                name: "aiperf",
                title: "AIPerf 0.13",
                itl: Some(ChunkGapRule::Request(PerRequestMetric::Later(LAST_TEXT, SingleTokenRule::LeftOut))),
                e2e: Some(LAST_TEXT),
                rate: Some(RateRule::Span { failed_too: false, from: ClockZero::Issue, until: LAST_TEXT }),
                counted: TokenCountRule::Client,
                note: "output tokens are counted again by the client's tokenizer; its own file divides requests by the \
                    whole phase, a little longer than first request to last response",
                ..PLAIN
            },
            Self::GenAiPerf => ToolRules {
                name: "genai-perf",
                title: "GenAI-Perf 0.0.16",
                itl: Some(ChunkGapRule::Request(PerRequestMetric::Later(
                    LAST_TEXT,
                    SingleTokenRule::LeftOutInOnePiece,
                ))),
                e2e: Some(LAST_TEXT),
                rate: Some(RateRule::Span { failed_too: true, from: ClockZero::Issue, until: LAST_TEXT }),
                counted: TokenCountRule::Client,
                note: "failed requests are inside requests/s; output tokens are counted again by the client's \
                    tokenizer; over KServe a response without text counts as one with text",
                ..PLAIN
            },
            Self::PerfAnalyzer => ToolRules {
                name: "perf-analyzer",
                title: "perf_analyzer 2.60",
                ttft: false,
                rule: PercentileRule::Nearest,
                note: "knows requests and responses, not tokens; its own file divides requests by its window, which is \
                    of whole seconds",
                ..PLAIN
            },
            Self::Vllm => ToolRules {
                name: "vllm",
                title: "vLLM 0.33 bench serve",
                first: ChunkFilter::Token,
                tpot: Some(PerRequestMetric::Later(LAST_TOKEN, SingleTokenRule::LeftOut)),
                itl: Some(ChunkGapRule::Gaps),
                e2e: Some(LAST_TOKEN),
                note: "ITL pools the gaps between chunks, however many tokens a chunk has; versions before 0.33 take a \
                    chat's role chunk as the first token, and a result file does not name its version; text in \
                    `reasoning_content` alone is no token, and an empty `content` without a role always is one",
                ..PLAIN
            },
            Self::SglangChat => ToolRules {
                name: "sglang",
                title: "SGLang 0.5 bench_serving, OpenAI",
                tpot: Some(PerRequestMetric::Later(AnswerEnd::End, SingleTokenRule::LeftOut)),
                itl: Some(ChunkGapRule::Gaps),
                note: "latency runs to the end of the stream; tool calls are no text",
                ..PLAIN
            },
            Self::SglangNative => ToolRules {
                name: "sglang-native",
                title: "SGLang 0.5 bench_serving, native",
                first: ChunkFilter::Token,
                tpot: Some(PerRequestMetric::Later(AnswerEnd::End, SingleTokenRule::LeftOut)),
                itl: Some(ChunkGapRule::GapsPerToken),
                e2e: None,
                rate: None,
                note: "ITL is spread over the tokens of a chunk",
                ..PLAIN
            },
            Self::GuideLlm => ToolRules {
                name: "guidellm",
                title: "GuideLLM 0.8",
                tpot: Some(PerRequestMetric::Whole(LAST_TEXT)),
                itl: Some(ChunkGapRule::Request(PerRequestMetric::Later(LAST_TEXT, SingleTokenRule::LeftOut))),
                rule: PercentileRule::Ceiling,
                note: "TPOT has the TTFT inside, and its own file weighs it by tokens; its ITL is what others call \
                    TPOT",
                ..PLAIN
            },
            Self::InferencePerf => ToolRules {
                name: "inference-perf",
                title: "inference-perf 0.7",
                least_chunks: 2,
                tpot: Some(PerRequestMetric::Later(LAST_TEXT, SingleTokenRule::LeftOut)),
                itl: Some(ChunkGapRule::Gaps),
                note: "answers of one chunk have no TTFT",
                ..PLAIN
            },
            Self::LlmPerf => ToolRules {
                name: "llmperf",
                title: "llmperf",
                first: ChunkFilter::Any,
                itl: Some(ChunkGapRule::Request(PerRequestMetric::WithFirst)),
                e2e: None,
                rate: None,
                note: "a role chunk is the first token; ITL has the TTFT inside",
                ..PLAIN
            },
            Self::TrtllmBench => ToolRules {
                name: "trtllm-bench",
                title: "trtllm-bench",
                first: ChunkFilter::Token,
                tpot: Some(PerRequestMetric::Later(LAST_TOKEN, SingleTokenRule::Zero)),
                rule: PercentileRule::Floor,
                note: "in process, without a network; an answer of one token counts as 0 ms",
                ..PLAIN
            },
            Self::Endpoints => ToolRules {
                name: "mlcommons-endpoints",
                title: "mlcommons/endpoints",
                tpot: Some(PerRequestMetric::AfterFirstChunk(AnswerEnd::End)),
                counted: TokenCountRule::Client,
                note: "latency from the issue, not from the schedule; TPOT runs to the end of the stream",
                ..PLAIN
            },
            Self::HfBenchmarker => ToolRules {
                name: "hf-benchmarker",
                title: "HF inference-benchmarker",
                itl: Some(ChunkGapRule::Request(PerRequestMetric::Later(LAST_TEXT, SingleTokenRule::Zero))),
                rate: None,
                counted: TokenCountRule::Client,
                note: "an answer of one token counts as 0 ms",
                ..PLAIN
            },
        }
    }
}
