//! `bench.protocol:` — what requests are written in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The protocol of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// KServe v2 over gRPC.
    Kserve,
    /// Triton's generate extension over HTTP: `generate_stream`, or `generate` when `request.streaming` is false.
    Generate,
    /// OpenAI's chat completions.
    OpenaiChat,
    /// OpenAI's completions. With `request.interface: token_ids` prompts are lists of ids.
    OpenaiCompletions,
}

impl Protocol {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kserve => "kserve",
            Self::Generate => "generate",
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiCompletions => "openai-completions",
        }
    }

    pub const fn is_openai(self) -> bool {
        matches!(self, Self::OpenaiChat | Self::OpenaiCompletions)
    }
}

/// Whether further fields of a body set the length of the answer, or take its limit out.
pub fn sets_length(extra: &Map<String, Value>) -> bool {
    ["max_tokens", "max_completion_tokens", "request_output_len"].iter().any(|key| extra.contains_key(*key))
}

/// Whether further fields of a completion's body ask for the token ids of the answer: `trtllm-serve` gives them in place of text
/// (`detokenize: false`), vLLM beside it (`return_token_ids: true`).
pub fn requests_token_ids(extra: &Map<String, Value>) -> bool {
    extra.get("detokenize") == Some(&Value::Bool(false)) || extra.get("return_token_ids") == Some(&Value::Bool(true))
}
