//! One accounting of tokens for all wire forms.
//!
//! ```text
//!  SSE event, gRPC response ─decode→ WireEvent, WireEvent, … ─take→ Accounting ─settle→ CountedTokens ─→ RequestRecord
//! ```
//!
//! A chunk is one message with output; a token is what the model generated. How many tokens a chunk has is known where
//! the server sends ids, or a running count, or where its total equals the number of chunks. Where it is not known,
//! nothing is computed per token.
//!
//! Live counts for progress displays. The result does not use them: it is computed from request records.

mod account;
mod spans;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use account::{Accounting, CountedTokens};

/// One chunk with at least one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenChunk {
    /// Time of the socket read that completed it, ns: taken after that read returned.
    pub t_read: u64,
    pub tokens: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WireEvent {
    /// The answer has begun; no token yet.
    Role,
    /// The output of the next message is reasoning.
    Reasoning,
    /// One message with output.
    Chunk(ChunkTokens),
    /// The server's count of everything up to here. Follows the chunk that it came with.
    Usage(Usage),
    /// Why the answer ended, as reported by the server.
    Finish(FinishReason),
    /// Nothing may follow: `[DONE]`, the final response, the end of a whole answer.
    End,
    /// What a decoder found to contradict the protocol, and an example of it.
    Violation(Violation, String),
}

/// The token count of a chunk, as far as the chunk itself carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkTokens {
    /// Token ids, or a log probability for each token.
    Exact(u32),
    /// Text, a tool call, or other output: at least one token.
    Text,
    /// A text without characters: the token's text arrives later.
    Empty,
    /// The end of the answer, without text. It counts as no token unless a count sent with it includes one (an end
    /// token) or the answer has no text at all. If the count includes more, their text was held back or could not be
    /// parsed.
    Closing,
    /// A whole answer as one text: this many tokens were requested.
    Requested(u32),
}

/// Tokens as the server counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub prompt: Option<u64>,
    pub completion: Option<u64>,
    /// The part of the prompt's tokens from the server's prefix cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
    /// The part of the completion's tokens that is reasoning, whose text a server may not send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

/// The label where chunks stand in for tokens.
pub(crate) const CHUNKS: &str = "chunks, each counted as one token";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenSource {
    /// Elements of `output_ids`.
    #[default]
    OutputIds,
    /// `usage.completion_tokens`.
    Usage,
    /// `token_ids` or log probabilities of each chunk; the server sent no usage.
    ChunkIds,
    /// Chunks over SSE; the server sent no usage that can be used.
    Chunks,
    /// Responses with text, over gRPC or of Triton's generate extension.
    Responses,
    /// The requested length: the answer is one text without a count.
    Requested,
    /// The answer's text, by the local tokenizer.
    Retokenized,
}

base::named! {
    /// `finish_reason` of OpenAI's interfaces, with the values that vLLM, SGLang and trtllm-serve add.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    pub enum FinishReason {
        /// An end token or a stop word.
        Stop = "stop",
        /// The requested number of tokens.
        Length = "length",
        /// The model calls tools.
        ToolCalls = "tool_calls",
        /// The model calls a function, as older interfaces name it.
        FunctionCall = "function_call",
        /// A filter of the server ended the answer.
        ContentFilter = "content_filter",
        /// The server gave the request up.
        Abort = "abort",
        /// The server failed while it answered.
        Error = "error",
        /// The request was cancelled.
        Cancelled = "cancelled",
        /// The server ended the answer at its own time limit.
        Timeout = "timeout",
        /// Of DeepSeek: its service had no room for the rest.
        InsufficientSystemResource = "insufficient_system_resource",
        /// The server lost a connection that it needs.
        NetworkError = "network_error",
        /// A value that is not in this list.
        Other = "other",
    }
}

impl FinishReason {
    /// From the value as written in JSON, without its quotes.
    pub(crate) fn from_wire(raw: &[u8]) -> Self {
        match raw {
            b"eos_token" | b"eos" | b"stop_sequence" | b"STOP_SEQUENCE" | b"end_turn" | b"COMPLETE" => Self::Stop,
            b"max_tokens" | b"MAX_TOKENS" | b"model_length" => Self::Length,
            b"canceled" => Self::Cancelled,
            _ => Self::ALL.iter().copied().find(|reason| reason.as_str().as_bytes() == raw).unwrap_or(Self::Other),
        }
    }

    /// The server did not finish the answer, so the request failed.
    pub(crate) const fn is_failure(self) -> bool {
        use FinishReason::{ContentFilter, FunctionCall, Length, Other, Stop, ToolCalls};
        !matches!(self, Stop | Length | ToolCalls | FunctionCall | ContentFilter | Other)
    }
}

base::named! {
    /// What an answer did that its protocol does not allow. None of it enters a latency or a throughput.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    pub enum Violation {
        /// A message after the end of the answer: after `[DONE]`, or after the final response; over HTTP also extra
        /// bytes after the complete answer, or bytes on a connection without a request in flight.
        AfterEnd = "after_end",
        /// A second `[DONE]` or final response.
        SecondEnd = "second_end",
        /// The stream ended without `[DONE]`, without a final response or without a gRPC status; or its HTTP body did
        /// not end after `[DONE]`.
        MissingEnd = "missing_end",
        /// A response that names another request, or none.
        WrongId = "wrong_id",
        /// A response that names another model.
        WrongModel = "wrong_model",
        /// Shape × data type of the output tensor is not the number of its bytes.
        WrongShape = "wrong_shape",
        /// The output tensor has another data type than the server reports of the model, or no token ids: no whole
        /// numbers, or negative ones; or
        /// `sequence_length` is negative, or more than it has.
        WrongContent = "wrong_content",
        /// More tokens than were requested, by ids or by `usage`. Such a `usage` is not counted.
        AboveRequested = "above_requested",
        /// `usage` decreases, does not grow while text arrives, is less than the number of chunks with text, or counts
        /// several tokens where no text arrives.
        UsageMismatch = "usage_mismatch",
        /// `usage` is there and has no counts: a negative number, a fraction, a text.
        MalformedUsage = "malformed_usage",
        /// A `finish_reason` that no known server has: whether the answer is whole is not known.
        FinishReason = "finish_reason",
        /// A stream of events whose `content-type` is not `text/event-stream`.
        ContentType = "content_type",
    }
}

/// Violations by class, and the first example of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Violations(BTreeMap<Violation, (u64, String)>);

impl Violations {
    pub fn add(&mut self, class: Violation, example: impl FnOnce() -> String) {
        self.0.entry(class).or_insert_with(|| (0, example())).0 += 1;
    }

    /// Adds the violations of another answer.
    pub fn merge(&mut self, other: Self) {
        for (class, (count, example)) in other.0 {
            self.0.entry(class).or_insert_with(|| (0, example)).0 += count;
        }
    }

    /// Class, count, first example.
    pub fn each(&self) -> impl Iterator<Item = (Violation, u64, &str)> {
        self.0.iter().map(|(class, (count, example))| (*class, *count, example.as_str()))
    }
}

/// The text of one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerText {
    /// One for each choice.
    pub texts: Vec<String>,
    /// The text of the first chunk that had any.
    pub first: String,
}

impl AnswerText {
    /// Adds the text of a chunk.
    pub fn push(&mut self, choice: usize, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.first.is_empty() {
            text.clone_into(&mut self.first);
        }
        if self.texts.len() <= choice {
            self.texts.resize(choice + 1, String::new());
        }
        self.texts[choice].push_str(text);
    }
}

/// Counts of one worker. Only that worker's thread writes, so an addition needs no locked instruction.
#[derive(Debug, Default)]
pub(crate) struct LiveCounts {
    pub issued: AtomicU64,
    pub ended: AtomicU64,
    pub failed: AtomicU64,
    pub tokens: AtomicU64,
    /// Requests with a first token, and their times to it together, ns.
    pub begun: AtomicU64,
    pub ttft_ns: AtomicU64,
    /// Requests with at least two tokens that have ended, and their times per output token together, ns.
    pub decoded: AtomicU64,
    pub tpot_ns: AtomicU64,
}

fn add(to: &AtomicU64, more: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

impl LiveCounts {
    pub fn issue(&self, requests: u64) {
        add(&self.issued, requests);
    }

    /// `ttft_ns`: this is the first chunk with a token, this long after the request was due.
    pub fn chunk(&self, tokens: u64, ttft_ns: Option<u64>) {
        add(&self.tokens, tokens);
        if let Some(ns) = ttft_ns {
            add(&self.begun, 1);
            add(&self.ttft_ns, ns);
        }
    }

    /// What arrived was counted as `counted` tokens, and is `tokens`: of another source, or of an attempt that is made
    /// again.
    pub fn correct(&self, counted: u64, tokens: u64) {
        add(&self.tokens, tokens.wrapping_sub(counted));
    }

    /// `tpot_ns`: ns per output token after the first.
    pub fn end(&self, has_failed: bool, tpot_ns: Option<u64>) {
        add(&self.ended, 1);
        add(&self.failed, u64::from(has_failed));
        if let Some(ns) = tpot_ns {
            add(&self.decoded, 1);
            add(&self.tpot_ns, ns);
        }
    }

    /// The sum of one count over all workers at this moment.
    pub fn sum(lives: &[Arc<Self>], count: impl Fn(&Self) -> &AtomicU64) -> u64 {
        lives.iter().map(|live| count(live).load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }
}

#[cfg(test)]
mod live_counts_tests {
    use super::*;

    #[test]
    fn tokens_are_counted_as_they_arrive_and_corrected_at_the_end() {
        let lives = [Arc::new(LiveCounts::default()), Arc::new(LiveCounts::default())];
        let [one, other] = &lives;
        one.issue(2);
        one.chunk(1, Some(40));
        one.chunk(3, None);
        other.issue(1);
        other.chunk(2, Some(60));
        // Usage counted less than the chunks did.
        other.correct(2, 1);
        other.end(false, Some(9));
        one.end(true, None);
        let counts: [fn(&LiveCounts) -> &AtomicU64; 8] = [
            |live| &live.issued,
            |live| &live.ended,
            |live| &live.failed,
            |live| &live.tokens,
            |live| &live.begun,
            |live| &live.ttft_ns,
            |live| &live.decoded,
            |live| &live.tpot_ns,
        ];
        assert_eq!(counts.map(|count| LiveCounts::sum(&lives, count)), [3, 2, 1, 5, 2, 100, 1, 9]);
    }
}
