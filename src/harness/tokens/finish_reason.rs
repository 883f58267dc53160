//! Why a server ended an answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `finish_reason` of OpenAI's interfaces, with the values that vLLM, SGLang and trtllm-serve add.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// An end token or a stop word.
    Stop,
    /// The requested number of tokens.
    Length,
    ToolCalls,
    FunctionCall,
    ContentFilter,
    /// The server gave the request up.
    Abort,
    Error,
    Cancelled,
    Timeout,
    /// Of DeepSeek: its service had no room for the rest.
    InsufficientSystemResource,
    NetworkError,
    /// A value that is not in this list.
    Other,
}

impl FinishReason {
    /// From the value as written in JSON, without its quotes.
    pub(crate) fn from_wire(raw: &[u8]) -> Self {
        match raw {
            b"stop" | b"eos_token" | b"stop_sequence" | b"end_turn" => Self::Stop,
            b"length" | b"max_tokens" => Self::Length,
            b"tool_calls" => Self::ToolCalls,
            b"function_call" => Self::FunctionCall,
            b"content_filter" => Self::ContentFilter,
            b"abort" => Self::Abort,
            b"error" => Self::Error,
            b"cancelled" | b"canceled" => Self::Cancelled,
            b"timeout" => Self::Timeout,
            b"insufficient_system_resource" => Self::InsufficientSystemResource,
            b"network_error" => Self::NetworkError,
            _ => Self::Other,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::FunctionCall => "function_call",
            Self::ContentFilter => "content_filter",
            Self::Abort => "abort",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::Timeout => "timeout",
            Self::InsufficientSystemResource => "insufficient_system_resource",
            Self::NetworkError => "network_error",
            Self::Other => "other",
        }
    }

    /// The server did not finish the answer, so it is no successful request.
    pub(crate) const fn is_failure(self) -> bool {
        matches!(
            self,
            Self::Abort
                | Self::Error
                | Self::Cancelled
                | Self::Timeout
                | Self::InsufficientSystemResource
                | Self::NetworkError
        )
    }
}
