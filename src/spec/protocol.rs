//! `bench.protocol:` — what requests are written in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
