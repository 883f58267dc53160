//! How a benchmark talks to its servers: protocol, TLS, streams, retries, and how large an answer may be.

use std::fmt;

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::quantity::TimeSpan;
use super::schema_format::{MOST_ANSWER_BYTES, MOST_USERS};

// `bench.protocol:` — what requests are written in.

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
    /// As users write them, in the order of the variants.
    pub const NAMES: [&'static str; 4] = ["kserve", "generate", "openai-chat", "openai-completions"];

    pub const fn as_str(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    pub const fn is_openai(self) -> bool {
        matches!(self, Self::OpenaiChat | Self::OpenaiCompletions)
    }
}

/// What servers speak and this program does not measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnmeasuredProtocol {
    pub title: &'static str,
    /// As users may write it in place of a protocol, and what its paths end with: those begin with `/`.
    pub names: &'static [&'static str],
    /// Fields by which its answers are recognized: a key, and what its value begins with, as written in JSON.
    pub fields: &'static [(&'static str, &'static str)],
    /// What to measure in place of it.
    pub instead: &'static str,
}

/// All of them that users ask for, or that servers answer in.
pub const UNMEASURED: [UnmeasuredProtocol; 7] = [
    UnmeasuredProtocol {
        title: "Anthropic's Messages",
        names: &["anthropic", "anthropic-messages", "messages", "/v1/messages"],
        // Cohere's events are called `message-start` and so on.
        fields: &[("type", "\"message_"), ("type", "\"message\"")],
        instead: "vLLM, SGLang and gateways serve the same models as openai-chat at /v1",
    },
    UnmeasuredProtocol {
        title: "OpenAI's Responses",
        names: &["responses", "openai-responses", "/v1/responses"],
        fields: &[("object", "\"response\""), ("type", "\"response.")],
        instead: "its servers also offer openai-chat at /v1",
    },
    UnmeasuredProtocol {
        title: "Ollama's own interface (lines of JSON)",
        names: &["ollama", "/api/chat", "/api/generate"],
        // A date as a text; in OpenAI's Responses it is a number.
        fields: &[("created_at", "\"")],
        instead: "Ollama also offers openai-chat at /v1",
    },
    UnmeasuredProtocol {
        title: "gRPC other than KServe's",
        names: &["grpc", "grpc-openai", "openai-grpc"],
        fields: &[],
        instead: "Triton's gRPC is `kserve`; vLLM and SGLang serve the same models as openai-chat over HTTP",
    },
    UnmeasuredProtocol {
        title: "An embedding or a ranking",
        names: &["embeddings", "/embeddings", "/rerank", "/pooling"],
        fields: &[],
        instead: "its answers have no tokens; name a server's path for chat or completions",
    },
    UnmeasuredProtocol::HTTP2,
    UnmeasuredProtocol::VISIBLE_USAGE,
];

impl UnmeasuredProtocol {
    /// Known by its first frame.
    pub const HTTP2: Self = Self {
        title: "HTTP/2 without HTTP/1.1",
        names: &["h2", "h2c", "http2", "http/2"],
        fields: &[],
        instead: "put a proxy that speaks HTTP/1.1 in front of the server; for the gRPC port of a Triton write \
                  HOST:PORT without http://",
    };
    /// Known by its count, which is that of the chunks without reasoning.
    pub const VISIBLE_USAGE: Self = Self {
        title: "`usage` that leaves reasoning tokens out",
        names: &[],
        fields: &[],
        instead: "name a `tokenizer`; reasoning without text is not counted",
    };

    /// By a name in place of a protocol, or by the path of a server.
    pub fn find(text: &str) -> Option<&'static Self> {
        let text = text.trim_end_matches('/').to_lowercase();
        let is_meant = |name: &&str| text == *name || name.starts_with('/') && text.ends_with(name);
        UNMEASURED.iter().find(|row| row.names.iter().any(is_meant))
    }

    /// By a field of an answer, its value as written in JSON.
    pub fn find_by_field(key: &[u8], value: &[u8]) -> Option<&'static Self> {
        let is_field = |(name, start): &(&str, &str)| key == name.as_bytes() && value.starts_with(start.as_bytes());
        UNMEASURED.iter().find(|row| row.fields.iter().any(is_field))
    }
}

impl fmt::Display for UnmeasuredProtocol {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} is not measured: {}", self.title, self.instead)
    }
}

/// Whether further fields of a body set the length of the answer, or take its limit out.
pub fn sets_length(extra: &Map<String, Value>) -> bool {
    ["max_tokens", "max_completion_tokens", "request_output_len"].iter().any(|key| extra.contains_key(*key))
}

/// Whether further fields of a completion's body ask for the token ids of the answer: `trtllm-serve` sends them
/// instead of the text (`detokenize: false`), vLLM in addition to it (`return_token_ids: true`).
pub fn requests_token_ids(extra: &Map<String, Value>) -> bool {
    extra.get("detokenize") == Some(&Value::Bool(false)) || extra.get("return_token_ids") == Some(&Value::Bool(true))
}

// `bench.tls:` — trusted authorities and the client's certificate.

/// For protocols over HTTP with TLS. Keys and certificates are PEM files; their content is never shown.
#[crate::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Tls {
    /// CA certificates, or the server's own, to trust instead of this machine's.
    pub ca: Option<PathBuf>,
    /// Accept any certificate: requests and keys may be read in transit.
    #[serde(default)]
    pub insecure: bool,
    /// The client certificate with its chain, for servers that require one.
    pub client_cert: Option<PathBuf>,
    pub client_key: Option<PathBuf>,
}

impl Tls {
    /// The files from a manifest, with absolute paths.
    #[must_use]
    pub fn relative_to(mut self, folder: &Path) -> Self {
        for file in [&mut self.ca, &mut self.client_cert, &mut self.client_key] {
            *file = file.take().map(|file: PathBuf| folder.join(file));
        }
        self
    }

    /// The settings without the names of files, for a result.
    pub fn without_files(&self) -> Self {
        Self { insecure: self.insecure, ..Self::default() }
    }
}

// Which streams requests share.

/// How requests share the streams of a connection, over KServe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamMode {
    /// A `ModelStreamInfer` for each.
    #[default]
    PerRequest,
    /// One for all, as in NVIDIA's harness and tritonclient. Needs a decoupled model; if it breaks, all its requests
    /// fail.
    Shared,
}

// `bench.retries:` — off by default, and never for a request that had a token.

/// Sends requests again that failed before they had a token. Every attempt is in requests.jsonl, latency counts from
/// the first intended time, and a run with any is VALID WITH WARNINGS at best.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Retries {
    /// At most this many times for one request.
    #[schemars(range(min = 1, max = MOST_USERS))]
    pub times: u32,
    /// Which failures to retry.
    #[serde(default = "both")]
    pub on: Vec<RetryOn>,
    /// Time from the failure to the next attempt.
    #[serde(default = "half_a_second")]
    pub pause: TimeSpan,
}

/// A failure after which a request may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetryOn {
    /// No connection, or it broke before any answer.
    Connect,
    /// Rejected: UNAVAILABLE, RESOURCE_EXHAUSTED, HTTP 429 and 503.
    Refused,
}

fn both() -> Vec<RetryOn> {
    vec![RetryOn::Connect, RetryOn::Refused]
}
fn half_a_second() -> TimeSpan {
    Duration::from_millis(500).into()
}

impl Retries {
    /// What is wrong with them.
    pub fn problem(&self) -> Option<&'static str> {
        if self.times == 0 {
            Some("retries.times must be at least 1; leave `retries` out for none")
        } else if self.on.is_empty() {
            Some("retries.on names no class of failures")
        } else if self.pause.time() > Duration::from_hours(1) {
            Some("retries.pause must be from 0 to an hour")
        } else {
            None
        }
    }
}

// `bench.request.response_limits:` — how large an answer may be.

/// Limits on one answer, and on all that are in flight, in bytes. Each has a default.
#[crate::omit_empty]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct ResponseSizeLimits {
    /// Over HTTP: an answer after its header. [default: 67108864 (64 MiB)]
    #[schemars(range(min = 1, max = MOST_ANSWER_BYTES))]
    pub body: Option<u64>,
    /// Over HTTP: the status line and all headers. [default: 65536]
    #[schemars(range(min = 1, max = MOST_ANSWER_BYTES))]
    pub header: Option<u64>,
    /// One server-sent event. [default: 16777216 (16 MiB)]
    #[schemars(range(min = 1, max = MOST_ANSWER_BYTES))]
    pub line: Option<u64>,
    /// One gRPC message. [default: 268435456 (256 MiB); with logits 2 GiB]
    #[schemars(range(min = 1, max = MOST_ANSWER_BYTES))]
    pub frame: Option<u64>,
    /// All answers in flight together; the one that would exceed it fails. [default: 1073741824 (1 GiB), or the largest
    /// of the other limits]
    #[schemars(range(min = 1, max = MOST_ANSWER_BYTES))]
    pub total: Option<u64>,
}

impl ResponseSizeLimits {
    /// The first that allows nothing.
    pub(super) fn zero(&self) -> Option<&'static str> {
        let limits = [
            ("body", self.body),
            ("header", self.header),
            ("line", self.line),
            ("frame", self.frame),
            ("total", self.total),
        ];
        limits.into_iter().find(|(_, bytes)| *bytes == Some(0)).map(|(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_other_protocols_are_told_by_their_fields() {
        let title = |key: &[u8], value: &[u8]| UnmeasuredProtocol::find_by_field(key, value).map(|row| row.title);
        let [start, message] = [&b"\"message_start\""[..], b"\"message\""].map(|value| title(b"type", value));
        assert_eq!((start, message), (Some("Anthropic's Messages"), Some("Anthropic's Messages")));
        assert_eq!(title(b"type", b"\"message-end\""), None, "Cohere's");
    }
}
