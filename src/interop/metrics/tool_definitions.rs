//! What each tool means by its terms: from where, from which chunk, divided by what, over which requests. The rows are
//! in `tool-definitions.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::request_trace::ChunkFilter;
use base::diag::ErrorText;

base::named! {
    /// The tool that measured, or the tool that defines a number; by the name that users type.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
    pub enum Tool {
        #[default]
        Regatta = "regatta",
        LoadGen = "loadgen",
        AiPerf = "aiperf",
        GenAiPerf = "genai-perf",
        PerfAnalyzer = "perf-analyzer",
        Vllm = "vllm",
        SglangChat = "sglang",
        SglangNative = "sglang-native",
        GuideLlm = "guidellm",
        InferencePerf = "inference-perf",
        LlmPerf = "llmperf",
        TrtllmBench = "trtllm-bench",
        Endpoints = "mlcommons-endpoints",
        HfBenchmarker = "hf-benchmarker",
        GenaiBench = "genai-bench",
        Evalscope = "evalscope",
        LlamaBenchy = "llama-benchy",
    }
}

impl Tool {
    /// With the version of the sources from which the definitions were read.
    pub fn title(self) -> &'static str {
        &self.rules().title
    }

    /// The source of the output token count that it divides by.
    pub fn counted(self) -> &'static str {
        self.rules().counted.as_text()
    }

    /// The caveat of this tool's numbers.
    pub fn caveat(self) -> &'static str {
        &self.rules().note
    }

    /// Its number for the pace of an answer after the first token: a time per output token without the TTFT inside.
    /// Some tools call it ITL. `None`: it has none.
    pub fn time_per_token(self) -> Option<MetricConcept> {
        let rules = self.rules();
        match (rules.tpot, rules.itl) {
            (Some(PerRequestMetric::Later(..) | PerRequestMetric::AfterFirstChunk(_)), _) => Some(MetricConcept::Tpot),
            (_, Some(ChunkGapRule::Request(PerRequestMetric::Later(..) | PerRequestMetric::AfterFirstChunk(_)))) => {
                Some(MetricConcept::Itl)
            }
            _ => None,
        }
    }

    pub(super) fn rules(self) -> &'static ToolRules {
        &TOOLS[&self]
    }
}

impl std::str::FromStr for Tool {
    type Err = ErrorText;

    fn from_str(text: &str) -> Result<Self, ErrorText> {
        let name = text.replace('_', "-").to_lowercase();
        Self::ALL
            .iter()
            .copied()
            .find(|tool| tool.as_str() == name)
            .ok_or_else(|| ErrorText::new(format_args!("there is no tool `{text}`")))
    }
}

base::named! {
    /// Terms that tools share, each with its own meaning.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
    pub enum MetricConcept {
        Ttft = "ttft",
        Tpot = "tpot",
        Itl = "itl",
        E2e = "e2e",
        Requests = "requests_per_s",
    }
}

impl MetricConcept {
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ClockZero {
    Schedule,
    #[default]
    Issue,
}

/// Where an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AnswerEnd {
    Chunk(ChunkFilter),
    End,
}

/// How an answer of one token, which has no time per output token, is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SingleTokenRule {
    LeftOut,
    Zero,
    /// Left out, and answers of several tokens that came in one piece, too.
    LeftOutInOnePiece,
    /// Its number of tokens is set to 0, so that the divisor is −1.
    Negative,
}

/// One number for each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ChunkGapRule {
    Request(PerRequestMetric),
    /// All gaps of all requests in one pool.
    Gaps,
    /// Each gap over the tokens of the chunk after it, that many times, in one pool.
    GapsPerToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RateRule {
    /// Requests over the time from the first start to the last end. Failed ones that are counted do not stretch the
    /// time.
    Span { failed_too: bool, from: ClockZero, until: AnswerEnd },
    /// (ok − 1) / (end of the last-issued − first issue)
    LoadGen,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TokenCountRule {
    #[default]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PercentileRule {
    /// The sorted element floor(N·p).
    Floor,
    /// The smallest element at or below which a share of p lies.
    Ceiling,
    /// The sorted element nearest to (N − 1)·p, from 0.
    Nearest,
    /// numpy's default.
    #[default]
    Linear,
}

impl PercentileRule {
    pub const fn as_text(self) -> &'static str {
        match self {
            Self::Floor => "nearest rank, sorted element floor(N·p)",
            Self::Ceiling => "nearest rank, sorted element ceil(N·p) − 1",
            Self::Nearest => "nearest rank, sorted element round((N − 1)·p)",
            Self::Linear => "linear between ranks, at (N − 1)·p",
        }
    }
}

/// One tool: its title and its definitions, as the data file has them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolRules {
    pub title: String,
    #[serde(default)]
    pub zero: ClockZero,
    #[serde(default)]
    pub first: ChunkFilter,
    /// Answers of fewer chunks have neither TTFT nor TPOT.
    #[serde(default)]
    pub least_chunks: u32,
    #[serde(default)]
    pub has_no_ttft: bool,
    pub tpot: Option<PerRequestMetric>,
    pub itl: Option<ChunkGapRule>,
    pub e2e: Option<AnswerEnd>,
    pub rate: Option<RateRule>,
    #[serde(default)]
    pub counted: TokenCountRule,
    #[serde(default)]
    pub rule: PercentileRule,
    /// The caveat that users should know.
    pub note: String,
}

static TOOLS: LazyLock<BTreeMap<Tool, ToolRules>> = LazyLock::new(|| {
    let text = include_str!("tool-definitions.toml").replace("{version}", env!("CARGO_PKG_VERSION"));
    toml::from_str(&text).expect("a test reads the table")
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_its_row() {
        assert!(TOOLS.keys().eq(Tool::ALL));
        assert_eq!(Tool::Regatta.title(), concat!("Regatta ", env!("CARGO_PKG_VERSION")));
    }
}
